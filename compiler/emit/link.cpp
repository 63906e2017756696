// What has no C interface: lld inside the process, and what the C++ library and LLVM do without memory.
//
//   objects in memory ──memfd──> lld::elf::link ──> libname.so   (NEEDED: of the C library, nothing undefined)
//
// lld reads files, so every object becomes an anonymous file (/proc/self/fd/N). What is linked against is no C library of
// this machine, but its symbols in the versions of c_library.list.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace {

bool write_all(int file, const unsigned char *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(file, bytes, size);
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

extern "C" void out_of_memory();  // compiler/base/arena.h
extern "C" void watch_memory();
extern "C" int link_elf(const unsigned char *const *files, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size);

// From here on memory that is missing is told as in C.
extern "C" void watch_memory() {
  std::set_new_handler(out_of_memory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { out_of_memory(); });
}

// Returns 0, or fills `message`.
extern "C" int link_elf(const unsigned char *const *files, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size) {
  std::vector<std::string> words = {"ld.lld",
                                    "-shared",
                                    "--hash-style=gnu",
                                    "--no-undefined",
                                    "--as-needed",
                                    "--gc-sections",
                                    "--build-id=none",
                                    "--threads=1",
                                    // The support code's threads sleep inside the library: it must stay where it is.
                                    "-z",
                                    "nodelete",
                                    "-z",
                                    "relro",
                                    "-z",
                                    "now",
                                    "-soname",
                                    soname,
                                    "-o",
                                    path};
  std::vector<int> opened;
  std::string errors;
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    int file = memfd_create("object", MFD_CLOEXEC);
    if (file >= 0) opened.push_back(file);
    good = file >= 0 && write_all(file, files[i], sizes[i]);
    if (!good) errors = "no memory for an object file";
    words.push_back("/proc/self/fd/" + std::to_string(file));
  }
  if (good) {
    std::vector<const char *> arguments;
    for (const std::string &word : words) arguments.push_back(word.c_str());
    std::string output;
    llvm::raw_string_ostream out(output), err(errors);
    good = lld::elf::link(arguments, out, err, false, false);
    lld::CommonLinkerContext::destroy();
  }
  for (int file : opened) close(file);
  std::strncpy(message, errors.c_str(), message_size - 1);
  message[message_size - 1] = 0;
  return good ? 0 : 1;
}
