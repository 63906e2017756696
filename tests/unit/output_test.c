// Marks of files, and what may be written (compiler/abi/output.h).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/output.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/output_test.XXXXXX";

static int enter_folder(void **state) {
  (void)state;
  return !mkdtemp(folder) || chdir(folder);
}

static int leave_folder(void **state) {
  (void)state;
  static const char *const files[] = {"file", "link", "other", "first"};
  for (int i = 0; i < 4; i++) unlink(files[i]);
  return chdir("/") || rmdir(folder);
}

enum { BLOCK = 1 << 20, MARK = sizeof OUTPUT_MARK_TEXT - 1 };

// A file of so many bytes with its mark at a place.
static void write_marked(size_t size, size_t place) {
  char *bytes = calloc(size, 1);
  const struct iovec all = {bytes, size};
  assert_non_null(bytes);
  memcpy(bytes + place, OUTPUT_MARK_TEXT, MARK);
  assert_true(output_write("file", &all, 1, OUTPUT_MARK));
  free(bytes);
}

static void flip(off_t place) {
  int file = open("file", O_RDWR);
  char byte = 0;
  assert_int_equal(pread(file, &byte, 1, place), 1);
  byte ^= 1;
  assert_int_equal(pwrite(file, &byte, 1, place), 1);
  close(file);
}

// Also where a block of reading ends within the mark.
TEST(marks_are_found_and_hold) {
  const size_t places[] = {0,         100,   BLOCK - MARK,   BLOCK - MARK / 2,
                           BLOCK - 1, BLOCK, 2 * BLOCK - 20, 3 * BLOCK - MARK};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    write_marked((size_t)3 * BLOCK, places[i]);
    assert_true(output_is_marked("file"));
    const off_t changed[] = {0, (off_t)places[i], (off_t)places[i] + MARK - 1, 3 * BLOCK - 1};
    for (int k = 0; k < 4; k++) {
      flip(changed[k]);
      assert_false(output_is_marked("file"));
      flip(changed[k]);
      assert_true(output_is_marked("file"));
    }
  }
  write_marked(MARK, 0);
  assert_true(output_is_marked("file"));
  assert_int_equal(truncate("file", MARK - 1), 0);
  assert_false(output_is_marked("file"));
  assert_false(output_is_marked("."));
  assert_false(output_is_marked("/dev/zero"));
}

// A file that quotes marks of others has its own behind them.
TEST(a_quoted_mark_is_none) {
  char text[] =
      "written by rec, checksum 0123456789abcdef\nwritten by rec, checksum zzz\n" OUTPUT_MARK_TEXT
      "\n";
  const struct iovec parts[] = {{text, 50}, {text + 50, sizeof text - 1 - 50}};
  assert_true(output_write("file", parts, 2, 0));
  assert_false(output_is_marked("file"));
  assert_true(output_write("file", parts, 2, OUTPUT_MARK));
  assert_true(output_is_marked("file"));
}

static bool allowed(const char *path, const output_proof *proof, bool again) {
  char why[OUTPUT_WHY];
  return output_allowed(path, proof, again, why);
}

static void write_text(const char *path, const char *text) {
  const struct iovec all = {(void *)(uintptr_t)text, strlen(text)};
  assert_true(output_write(path, &all, 1, 0));
}

TEST(files_of_others_stay) {
  char note[OUTPUT_NOTE], text[1024];
  assert_true(allowed("absent", NULL, false));
  assert_true(allowed("/dev/null", NULL, false));
  write_text("other", "");
  assert_true(allowed("other", NULL, false));
  write_text("other", "mine");
  assert_false(allowed("other", NULL, false));
  assert_true(allowed("other", NULL, true));
  assert_true(allowed("other", &(output_proof){.first = "mi"}, false));
  assert_false(allowed("other", &(output_proof){.first = "mine!"}, false));
  // The checksum of one file in another, which must be whole.
  output_note(note, "other", "mine", 4);
  snprintf(text, sizeof text, "%s\n" OUTPUT_MARK_TEXT, note);
  const struct iovec all = {text, strlen(text)};
  assert_true(output_write("file", &all, 1, OUTPUT_MARK));
  assert_true(allowed("other", &(output_proof){.noted_in = "file"}, false));
  assert_false(allowed("file", &(output_proof){.noted_in = "file"}, false));
  flip((off_t)strlen(text) - 1);
  assert_false(allowed("other", &(output_proof){.noted_in = "file"}, false));
  // By any name, and whatever may be replaced.
  assert_int_equal(link("other", "first"), 0);
  assert_int_equal(symlink("other", "link"), 0);
  output_note_input_path("first");
  assert_false(allowed("other", NULL, true));
  assert_false(allowed("link", NULL, true));
}

TEST(links_stay_or_are_replaced) {
  struct stat about;
  const struct iovec all = {"new", 3};
  unlink("link");
  write_text("other", "old");
  assert_int_equal(symlink("other", "link"), 0);
  assert_true(output_write("link", &all, 1, OUTPUT_FOLLOW));
  assert_true(!lstat("link", &about) && S_ISLNK(about.st_mode));
  assert_true(!stat("other", &about) && about.st_size == 3);
  write_text("other", "older");
  assert_true(output_write("link", &all, 1, 0));
  assert_true(!lstat("link", &about) && S_ISREG(about.st_mode));
  assert_true(!stat("other", &about) && about.st_size == 5);
}

TEST(parts_have_names_of_their_own) {
  static const char *const parts[] = {"x.1-0.part", "a.b.123-45.part"};
  static const char *const others[] = {".part",    "x.part", "1-0.part",    ".1-0.part",
                                       "x.1.part", "x.1-0",  "x.1-0a.part", "x.-.parts"};
  for (int i = 0; i < 2; i++) assert_true(output_is_part(parts[i]));
  for (int i = 0; i < 8; i++) assert_false(output_is_part(others[i]));
  output one, two;
  assert_true(output_open(&one, "file", 0) && output_open(&two, "file", 0));
  assert_string_not_equal(one.part, two.part);
  assert_true(output_is_part(one.part) && output_is_part(two.part));
  output_drop(&one);
  output_drop(&two);
  assert_int_not_equal(access(one.part, F_OK), 0);
}

TEST_AROUND(enter_folder, leave_folder)
