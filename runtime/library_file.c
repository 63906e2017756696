// Where the manifest lies in an ELF file.
//
//   section headers --SHT_DYNSYM--> symbols --its name ends with rec_manifest--> address --PT_LOAD--> bytes of the file
//
// Nothing in the file is believed. Every part must lie inside of the file before it is read. It is
// copied, since it may be unaligned.
#include "runtime/library_file.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct library_file {
  const char *path;
  const unsigned char *bytes;
  size_t size;
  Elf64_Ehdr header;
} library_file;

static rec_status bad_library(const library_file *f, const char *what) {
  return rec_fail(REC_ERROR_FORMAT, "%s: not a library that can be loaded: %s", f->path, what);
}

static bool lies_inside(const library_file *f, uint64_t at, uint64_t size) {
  return at <= f->size && size <= f->size - at;
}

static bool read_file_bytes(const library_file *f, uint64_t at, void *part, size_t size) {
  if (!lies_inside(f, at, size)) return false;
  memcpy(part, f->bytes + at, size);
  return true;
}

// Entry `index` of a table that lies at `at`.
static bool read_table_entry(const library_file *f, uint64_t at, uint64_t index, void *entry,
                             size_t size) {
  return at <= f->size && index <= f->size / size &&
         read_file_bytes(f, at + index * size, entry, size);
}

static rec_status read_elf_header(library_file *f) {
  static const unsigned char wanted[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  if (f->size == 0) return bad_library(f, "the file is empty");
  size_t mark = f->size < SELFMAG ? f->size : SELFMAG;
  if (memcmp(f->bytes, wanted, mark) != 0)
    return bad_library(f, rec_ends_with(f->path, ".rec")
                              ? "it is a program; recc makes a library of it, FILE.so"
                              : "expected an ELF file, as recc writes FILE.so, found another kind");
  if (!read_file_bytes(f, 0, &f->header, sizeof f->header))
    return bad_library(f, "its header is truncated");
  bool known = f->header.e_machine == EM_X86_64 || f->header.e_machine == EM_AARCH64;
  if (memcmp(f->header.e_ident, wanted, sizeof wanted) != 0 || f->header.e_type != ET_DYN || !known)
    return bad_library(f,
                       "expected a shared library for x86-64 or aarch64, found another ELF file");
  if (f->header.e_phentsize != sizeof(Elf64_Phdr) || f->header.e_shentsize != sizeof(Elf64_Shdr))
    return bad_library(f, "its tables have entries of other sizes than ELF's");
  return REC_OK;
}

// What is mapped must be there: reading a page behind the end of a file is a bus error.
static rec_status check_program_headers(const library_file *f) {
  for (unsigned i = 0; i < f->header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_table_entry(f, f->header.e_phoff, i, &segment, sizeof segment))
      return bad_library(f, "the file is truncated");
    if (segment.p_type == PT_LOAD && !lies_inside(f, segment.p_offset, segment.p_filesz))
      return bad_library(f, "the file is truncated");
  }
  return REC_OK;
}

// Whether a name is the one wanted, perhaps behind a prefix.
static bool is_named_section(const library_file *f, const Elf64_Shdr *strings, uint64_t name,
                             const char *wanted) {
  if (!lies_inside(f, strings->sh_offset, strings->sh_size) || name >= strings->sh_size)
    return false;
  const unsigned char *text = f->bytes + strings->sh_offset + name,
                      *end = memchr(text, 0, strings->sh_size - name);
  size_t length = strlen(wanted);
  return end && (size_t)(end - text) >= length && memcmp(end - length, wanted, length) == 0;
}

// Looks in one table of symbols.
static bool find_symbol(const library_file *f, const Elf64_Shdr *table, const char *name,
                        Elf64_Sym *symbol) {
  Elf64_Shdr strings;
  if (!lies_inside(f, table->sh_offset, table->sh_size)) return false;
  if (table->sh_link >= f->header.e_shnum ||
      !read_table_entry(f, f->header.e_shoff, table->sh_link, &strings, sizeof strings))
    return false;
  for (uint64_t i = 0; i < table->sh_size / sizeof *symbol; i++) {
    if (!read_table_entry(f, table->sh_offset, i, symbol, sizeof *symbol)) return false;
    if (symbol->st_shndx != SHN_UNDEF && is_named_section(f, &strings, symbol->st_name, name))
      return true;
  }
  return false;
}

static bool find_exported(const library_file *f, const char *name, Elf64_Sym *symbol) {
  for (unsigned i = 0; i < f->header.e_shnum; i++) {
    Elf64_Shdr section;
    if (!read_table_entry(f, f->header.e_shoff, i, &section, sizeof section)) return false;
    if (section.sh_type == SHT_DYNSYM && find_symbol(f, &section, name, symbol)) return true;
  }
  return false;
}

// The bytes of a symbol, if all of them lie in one segment; check_program_headers has seen that the
// segment is there.
static const char *bytes_of_symbol(const library_file *f, const Elf64_Sym *symbol) {
  for (unsigned i = 0; i < f->header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_table_entry(f, f->header.e_phoff, i, &segment, sizeof segment)) return NULL;
    if (segment.p_type != PT_LOAD || symbol->st_value < segment.p_vaddr) continue;
    uint64_t at = symbol->st_value - segment.p_vaddr;
    if (at > segment.p_filesz || symbol->st_size > segment.p_filesz - at) continue;
    return (const char *)f->bytes + segment.p_offset + at;
  }
  return NULL;
}

rec_status library_find_manifest(const char *path, const void *bytes, size_t size,
                                 const char **manifest) {
  library_file f = {.path = path, .bytes = bytes, .size = size};
  Elf64_Sym symbol;
  rec_status status = read_elf_header(&f);
  if (!status) status = check_program_headers(&f);
  if (status) return status;
  if (!find_exported(&f, "rec_manifest", &symbol))
    return rec_fail(REC_ERROR_FORMAT, "%s: not made by recc: it has no manifest", path);
  const char *text = bytes_of_symbol(&f, &symbol);
  if (!text || symbol.st_size == 0 || !memchr(text, 0, symbol.st_size))
    return bad_library(&f, "its manifest does not lie in what is mapped");
  *manifest = text;
  return REC_OK;
}

static const char *machine_name(int machine) {
  return machine == EM_AARCH64 ? "aarch64" : "x86-64";
}

// Whether this machine can run what library_find_manifest has accepted.
static rec_status check_processor(const char *path, const void *bytes) {
#if defined(__aarch64__)
  enum { HOST = EM_AARCH64 };
#else
  enum { HOST = EM_X86_64 };
#endif
  Elf64_Ehdr header;
  memcpy(&header, bytes, sizeof header);
  if (header.e_machine == HOST) return REC_OK;
  return rec_fail(REC_ERROR_DEVICE,
                  "%s: expected a library for %s, which this machine is, found one for %s", path,
                  machine_name(HOST), machine_name(header.e_machine));
}

rec_status library_read_manifest(const char *path, bool runs, char **manifest) {
  rec_mapping file;
  const char *text = NULL;
  *manifest = NULL;
  rec_status status = rec_map(path, &file);
  if (status) return status;
  status = library_find_manifest(path, file.bytes, file.size, &text);
  if (!status && runs) status = check_processor(path, file.bytes);
  if (!status) *manifest = strdup(text);
  if (!status && !*manifest) status = rec_no_memory();
  rec_unmap(&file);
  return status;
}
