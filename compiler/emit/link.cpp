// What has no C interface: lld inside the process, and what the C++ library and LLVM do without memory.
//
//   objects in memory ──memfd──> lld::elf::link ──> libname.so   (NEEDED: libc and libm, nothing undefined)
//
// lld reads files, so every object becomes an anonymous file (/proc/self/fd/N). The C library that is linked against is
// the one this process runs on.
#include <link.h>
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

struct running_libraries {
  std::string libc, libm, loader;  // the loader defines __tls_get_addr
};

int note_library(struct dl_phdr_info *info, size_t, void *data) {
  auto *found = static_cast<running_libraries *>(data);
  const char *slash = std::strrchr(info->dlpi_name, '/');
  const char *name = slash ? slash + 1 : info->dlpi_name;
  if (!std::strncmp(name, "libc.so", 7)) found->libc = info->dlpi_name;
  if (!std::strncmp(name, "libm.so", 7)) found->libm = info->dlpi_name;
  if (!std::strncmp(name, "ld-linux", 8)) found->loader = info->dlpi_name;
  return 0;
}

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
extern "C" int link_elf(const unsigned char *const *objects, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size);

// From here on memory that is missing is told as in C.
extern "C" void watch_memory() {
  std::set_new_handler(out_of_memory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { out_of_memory(); });
}

// Returns 0, or fills `message`.
extern "C" int link_elf(const unsigned char *const *objects, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size) {
  running_libraries libraries;
  dl_iterate_phdr(note_library, &libraries);
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
  std::vector<int> files;
  std::string errors;
  bool good = !libraries.libc.empty() && !libraries.libm.empty();
  if (!good) errors = "the running C library cannot be found";
  for (int i = 0; good && i < count; i++) {
    int file = memfd_create("object", MFD_CLOEXEC);
    if (file >= 0) files.push_back(file);
    good = file >= 0 && write_all(file, objects[i], sizes[i]);
    if (!good) errors = "no memory for an object file";
    words.push_back("/proc/self/fd/" + std::to_string(file));
  }
  if (good) {
    words.push_back(libraries.libc);
    words.push_back(libraries.libm);
    if (!libraries.loader.empty()) words.push_back(libraries.loader);
    std::vector<const char *> arguments;
    for (const std::string &word : words) arguments.push_back(word.c_str());
    std::string output;
    llvm::raw_string_ostream out(output), err(errors);
    good = lld::elf::link(arguments, out, err, false, false);
    lld::CommonLinkerContext::destroy();
  }
  for (int file : files) close(file);
  std::strncpy(message, errors.c_str(), message_size - 1);
  message[message_size - 1] = 0;
  return good ? 0 : 1;
}
