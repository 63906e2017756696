// What has no C interface: lld, LLVM's objcopy and archiver inside the process, and what the C++ library and LLVM do without
// memory. link.c calls it.
//
//   objects in memory ──memfd──> lld::elf::link ──> libname.so   (NEEDED: of the C library, nothing undefined), or one object
//
// lld reads files, so every object becomes an anonymous file (/proc/self/fd/N). What is linked against is no C library of
// this machine, but its symbols in the versions of c_library.list.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

extern "C" void out_of_memory();  // compiler/base/arena.h
extern "C" void watch_memory();
extern "C" int link_elf(const unsigned char *const *files, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size);
extern "C" int link_copy(const unsigned char *object, size_t size, const char *const *renamed, int renamed_count,
                         const char *const *kept, int kept_count, int hide, unsigned char **copy, size_t *copy_size,
                         char *message, size_t message_size);
extern "C" int link_archive_of(const unsigned char *object, size_t size, const char *name, unsigned char **archive,
                               size_t *archive_size, char *message, size_t message_size);

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

int refuse(const std::string &text, char *message, size_t message_size) {
  std::strncpy(message, text.c_str(), message_size - 1);
  message[message_size - 1] = 0;
  return 1;
}

// lld flushes its output only when the process ends. An error of it must be known before.
bool written_out(std::string &errors) {
  llvm::outs().flush();
  if (!llvm::outs().has_error()) return true;
  errors = "no room for the library: " + llvm::outs().error().message();
  llvm::outs().clear_error();
  return false;
}

// To be freed.
void take(llvm::StringRef text, unsigned char **bytes, size_t *size) {
  *bytes = static_cast<unsigned char *>(std::malloc(text.size() + 1));
  if (!*bytes) out_of_memory();
  *size = text.size();
  std::memcpy(*bytes, text.data(), text.size());
}

const std::vector<std::string> shared_words = {"-shared",
                                               "--hash-style=gnu",
                                               "--no-undefined",
                                               "--as-needed",
                                               "--gc-sections",
                                               "--build-id=none",
                                               // Errors of torch's kernels are C++ exceptions.
                                               "--eh-frame-hdr",
                                               // The support code's threads sleep inside the library: it must stay where it is.
                                               "-z",
                                               "nodelete",
                                               "-z",
                                               "relro",
                                               "-z",
                                               "now"};

}  // namespace

// From here on memory that is missing is told as in C.
extern "C" void watch_memory() {
  std::set_new_handler(out_of_memory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { out_of_memory(); });
}

// Each returns 0, or fills `message`.

// Into a shared library; without a soname into one relocatable object.
extern "C" int link_elf(const unsigned char *const *files, const size_t *sizes, int count,
                        const char *soname, const char *path, char *message, size_t message_size) {
  std::vector<std::string> words = {"ld.lld", "--threads=1", "-o", path};
  if (soname) {
    words.insert(words.end(), shared_words.begin(), shared_words.end());
    words.insert(words.end(), {"-soname", soname});
  } else {
    words.push_back("-r");
  }
  std::vector<int> opened;
  std::string errors;
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    int file = memfd_create("object", MFD_CLOEXEC);
    if (file >= 0) opened.push_back(file);
    good = file >= 0 && write_all(file, files[i], sizes[i]);
    if (!good) errors = std::string("no room for an object file: ") + std::strerror(errno);
    words.push_back("/proc/self/fd/" + std::to_string(file));
  }
  if (good) {
    std::vector<const char *> arguments;
    for (const std::string &word : words) arguments.push_back(word.c_str());
    std::string output;
    llvm::raw_string_ostream out(output), err(errors);
    good = lld::elf::link(arguments, out, err, false, false);
    lld::CommonLinkerContext::destroy();
    good = good && written_out(errors);
  }
  for (int file : opened) close(file);
  return good ? 0 : refuse(errors, message, message_size);
}

// `renamed`: pairs of a symbol and its new name; `kept`, if there are some: all other symbols become local; `hide`: hidden ones
// do.
extern "C" int link_copy(const unsigned char *object, size_t size, const char *const *renamed, int renamed_count,
                         const char *const *kept, int kept_count, int hide, unsigned char **copy, size_t *copy_size,
                         char *message, size_t message_size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(object), size);
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "object"));
  if (!file) return refuse(llvm::toString(file.takeError()), message, message_size);
  llvm::objcopy::ConfigManager config;
  config.Common.OutputFilename = "object";
  config.ELF.LocalizeHidden = hide;
  for (int i = 0; i < renamed_count; i++) config.Common.SymbolsToRename[renamed[2 * i]] = renamed[2 * i + 1];
  for (int i = 0; i < kept_count; i++) {
    auto name = llvm::objcopy::NameOrPattern::create(kept[i], llvm::objcopy::MatchStyle::Literal,
                                                     [](llvm::Error error) { return error; });
    if (llvm::Error error = config.Common.SymbolsToKeepGlobal.addMatcher(std::move(name)))
      return refuse(llvm::toString(std::move(error)), message, message_size);
  }
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **file, out))
    return refuse(llvm::toString(std::move(error)), message, message_size);
  take(text, copy, copy_size);
  return 0;
}

extern "C" int link_archive_of(const unsigned char *object, size_t size, const char *name, unsigned char **archive,
                               size_t *archive_size, char *message, size_t message_size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(object), size);
  llvm::NewArchiveMember member(llvm::MemoryBufferRef(bytes, name));
  auto made = llvm::writeArchiveToBuffer(member, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU, true,
                                         false);
  if (!made) return refuse(llvm::toString(made.takeError()), message, message_size);
  take((*made)->getBuffer(), archive, archive_size);
  return 0;
}
