// Manifests of library files: the right one is found, and nothing is read outside of a file that is
// damaged in any way. The bytes end where a page ends that must not be touched.
#include <elf.h>
#include <sys/mman.h>

#include "runtime/library_file.h"
#include "tests/unit/unit.h"

static const char manifest[] = "{\"abi\":\"1.0\"}";

// The smallest library: one segment, and the tables that lead to its one symbol.
typedef struct library {
  Elf64_Ehdr header;
  Elf64_Phdr segment;
  Elf64_Shdr sections[3];  // none, symbols, strings
  Elf64_Sym symbols[2];    // none, rec_manifest
  char strings[16];
  char text[sizeof manifest];
} library;

static library make_library(void) {
  library l = {0};
  const unsigned char mark[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  memcpy(l.header.e_ident, mark, sizeof mark);
  l.header.e_type = ET_DYN;
  l.header.e_machine = EM_X86_64;
  l.header.e_phoff = offsetof(library, segment);
  l.header.e_shoff = offsetof(library, sections);
  l.header.e_phentsize = sizeof l.segment;
  l.header.e_shentsize = sizeof *l.sections;
  l.header.e_phnum = 1;
  l.header.e_shnum = 3;
  l.segment = (Elf64_Phdr){.p_type = PT_LOAD,
                           .p_offset = offsetof(library, text),
                           .p_vaddr = 0x2000,
                           .p_filesz = sizeof manifest,
                           .p_memsz = sizeof manifest};
  l.sections[1] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                               .sh_offset = offsetof(library, symbols),
                               .sh_size = sizeof l.symbols,
                               .sh_link = 2};
  l.sections[2] = (Elf64_Shdr){
      .sh_type = SHT_STRTAB, .sh_offset = offsetof(library, strings), .sh_size = sizeof l.strings};
  l.symbols[1] =
      (Elf64_Sym){.st_name = 1, .st_shndx = 1, .st_value = 0x2000, .st_size = sizeof manifest};
  memcpy(l.strings + 1, "rec_manifest", sizeof "rec_manifest");
  memcpy(l.text, manifest, sizeof manifest);
  return l;
}

// The last `size` bytes before a page that cannot be read.
static unsigned char *at_the_end(const void *bytes, size_t size) {
  enum { PAGE = 4096 };
  static unsigned char *pages;
  if (!pages) {
    pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
  }
  assert_true(size <= PAGE);
  return memcpy(pages + PAGE - size, bytes, size);
}

static rec_status find(const void *bytes, size_t size, const char **found) {
  const unsigned char *placed = at_the_end(bytes, size);
  rec_status status = library_find_manifest("x.so", placed, size, found);
  if (status) {
    assert_non_null(strstr(rec_message(), "x.so: "));
    return status;
  }
  assert_true((const unsigned char *)*found >= placed &&
              (const unsigned char *)*found + strlen(*found) < placed + size);
  return status;
}

static void assert_refused(const library *l, const char *message) {
  const char *found;
  assert_true(find(l, sizeof *l, &found) != REC_OK);
  assert_string_equal(rec_message(), message);
}

TEST(the_manifest_is_found) {
  static const Elf64_Half machines[] = {EM_X86_64, EM_AARCH64};
  for (int i = 0; i < 2; i++) {
    library l = make_library();
    l.header.e_machine = machines[i];
    const char *found;
    assert_int_equal(find(&l, sizeof l, &found), REC_OK);
    assert_string_equal(found, manifest);
  }
}

TEST(every_truncation_is_refused) {
  library l = make_library();
  const char *found;
  for (size_t size = 0; size < sizeof l - 1; size++) {
    if (size >= offsetof(library, text) + sizeof manifest) break;
    assert_true(find(&l, size, &found) != REC_OK);
  }
  assert_true(find(&l, 0, &found) != REC_OK);
  assert_string_equal(rec_message(), "x.so: not a library that can be loaded: the file is empty");
  assert_true(find(&l, 40, &found) != REC_OK);
  assert_string_equal(rec_message(),
                      "x.so: not a library that can be loaded: its header is truncated");
  assert_true(find(&l, offsetof(library, text) + 3, &found) != REC_OK);
  assert_string_equal(rec_message(),
                      "x.so: not a library that can be loaded: the file is truncated");
}

// Every bit, and every byte as 0x00, 0x7f, 0x80 and 0xff, also at two places.
TEST(no_damage_leads_outside) {
  static const unsigned char values[] = {0x00, 0x7f, 0x80, 0xff};
  library intact = make_library();
  const char *found;
  for (size_t bit = 0; bit < 8 * sizeof intact; bit++) {
    library l = intact;
    ((unsigned char *)&l)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    find(&l, sizeof l, &found);
  }
  uint32_t random = 1;
  for (int round = 0; round < 100000; round++) {
    library l = intact;
    for (int k = 0; k < 1 + round % 4; k++) {
      random = random * 1664525u + 1013904223u;
      ((unsigned char *)&l)[(random >> 8) % sizeof l] = values[random >> 30];
    }
    find(&l, sizeof l - (round % 7 ? 0 : (random >> 12) % sizeof l), &found);
  }
}

TEST(each_refusal_says_why) {
  library l = make_library();
  l.header.e_machine = EM_RISCV;
  assert_refused(&l,
                 "x.so: not a library that can be loaded: expected a shared library for x86-64 or "
                 "aarch64, found another ELF file");
  l = make_library();
  l.segment.p_offset = UINT64_MAX - 4;
  assert_refused(&l, "x.so: not a library that can be loaded: the file is truncated");
  l = make_library();
  l.symbols[1].st_name = UINT32_MAX;
  assert_refused(&l, "x.so: not made by recc: it has no manifest");
  l = make_library();
  l.sections[1].sh_link = 3;
  assert_refused(&l, "x.so: not made by recc: it has no manifest");
  l = make_library();
  l.symbols[1].st_value = 0x2000 + sizeof manifest;
  assert_refused(
      &l, "x.so: not a library that can be loaded: its manifest does not lie in what is mapped");
  l = make_library();
  l.text[sizeof manifest - 1] = 'x';
  assert_refused(
      &l, "x.so: not a library that can be loaded: its manifest does not lie in what is mapped");
}
