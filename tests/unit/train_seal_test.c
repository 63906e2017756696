// Checksums of tensor files: parts add up to the whole, every change shows, and files with the
// first kind of checksum are read.
#include <unistd.h>

#include "runtime/train/seal.h"

#include "tests/unit/unit.h"

enum { WORDS = 10000 };

static void fill(float values[WORDS]) {
  for (int i = 0; i < WORDS; i++) values[i] = (float)(i % 97) / 3;
}

TEST(parts_add_up_wherever_they_are_cut) {
  static float values[WORDS];
  fill(values);
  uint64_t whole = seal_of_part("w", 0, values, sizeof values);
  const int cuts[] = {1, 2047, 2048, 2049, 4096, 9999};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    size_t cut = (size_t)cuts[i] * sizeof *values;
    assert_true(seal_of_part("w", 0, values, cut) +
                    seal_of_part("w", (int64_t)cut, values + cuts[i], sizeof values - cut) ==
                whole);
  }
  assert_true(seal_of_part("v", 0, values, sizeof values) != whole);
}

TEST(every_changed_bit_shows) {
  static float values[WORDS];
  fill(values);
  uint64_t whole = seal_of_part("w", 0, values, sizeof values);
  unsigned char *bytes = (unsigned char *)values;
  for (size_t i = 0; i < sizeof values; i++) {
    bytes[i] ^= (unsigned char)(1 << i % 8);
    assert_true(seal_of_part("w", 0, values, sizeof values) != whole);
    bytes[i] ^= (unsigned char)(1 << i % 8);
    i += 40;
  }
}

TEST(exchanged_numbers_and_blocks_show) {
  static float values[WORDS], other[WORDS];
  fill(values);
  uint64_t whole = seal_of_part("w", 0, values, sizeof values);
  memcpy(other, values, sizeof values);
  other[3] = values[4], other[4] = values[3];
  assert_true(seal_of_part("w", 0, other, sizeof other) != whole);
  memcpy(other, values + 2048, 2048 * sizeof *values);
  memcpy(other + 2048, values, 2048 * sizeof *values);
  assert_true(seal_of_part("w", 0, other, sizeof other) != whole);
}

TEST(a_length_that_is_no_multiple_of_four_counts_to_its_end) {
  char bytes[7] = "abcdefg";
  uint64_t whole = seal_of_part("w", 0, bytes, 7);
  assert_true(seal_of_part("w", 0, bytes, 4) + seal_of_part("w", 4, bytes + 4, 3) == whole);
  bytes[6] = 'h';
  assert_true(seal_of_part("w", 0, bytes, 7) != whole);
}

// A file with one tensor and this checksum.
static rec_status check_file(const char *checksum) {
  char path[] = "/tmp/seal_test_XXXXXX";
  int64_t shape[] = {3};
  float values[] = {1, 2, 3};
  rec_file *file = NULL;
  rec_tensor tensor = {.name = "w",
                       .dtype = REC_F32,
                       .rank = 1,
                       .shape = shape,
                       .data = values,
                       .bytes = sizeof values};
  const rec_metadata metadata[] = {{"rec.step", "7"}, {"rec.checksum", checksum}};
  close(mkstemp(path));
  assert_int_equal(rec_file_write(path, &tensor, 1, metadata, checksum ? 2 : 1), REC_OK);
  assert_int_equal(rec_file_open(path, &file), REC_OK);
  rec_status status = seal_check(file, NULL);
  rec_file_close(file);
  unlink(path);
  return status;
}

TEST(files_of_both_kinds_are_held_to_their_checksum) {
  float values[] = {1, 2, 3};
  char text[SEAL_TEXT];
  rec_tensor tensor = {.name = "w"};
  const rec_metadata metadata[] = {{"rec.step", "7"}, {"other", "x"}};
  seal_text(seal_of_header(&tensor, 1, metadata, 2) + seal_of_part("w", 0, values, sizeof values),
            text);
  assert_int_equal(check_file(text), REC_OK);
  text[5] ^= 1;
  assert_int_equal(check_file(text), REC_ERROR_FORMAT);
  assert_int_equal(check_file(NULL), REC_OK);
  // As rec has written it before.
  assert_int_equal(check_file("07331cbf478cc4cd"), REC_OK);
  assert_int_equal(check_file("0123456789abcdef"), REC_ERROR_FORMAT);
}
