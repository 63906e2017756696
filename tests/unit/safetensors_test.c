// Tensor files: what is read back is what was written, and every malformed file is refused with one
// line.
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/safetensors_test.XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);  // fails if a test left a file
}

static void make_path(char *path, size_t size, const char *name) {
  snprintf(path, size, "%s/%s", folder, name);
}

// A file of this header and this many data bytes.
static size_t compose(unsigned char *bytes, const char *header, size_t data_size) {
  uint64_t size = strlen(header);
  memcpy(bytes, &size, 8);
  memcpy(bytes + 8, header, size);
  memset(bytes + 8 + size, 0, data_size);
  return 8 + size + data_size;
}

TEST(what_was_written_is_read) {
  char path[128];
  make_path(path, sizeof path, "a.safetensors");
  float singles[6] = {1, -2, 3.5f, INFINITY, -0.0f, 1e-40f};
  double doubles[1] = {M_PI};
  int32_t whole[2] = {-1, INT32_MAX};
  uint16_t halves[3] = {0x3c00, 1, 0xfbff};
  int64_t matrix[2] = {2, 3}, three = 3, two = 2, none[3] = {4, 0, 7};
  rec_tensor tensors[] = {
      {"bf", REC_BF16, 1, &three, halves, 6},   {"w \"quoted\\\n", REC_F32, 2, matrix, singles, 24},
      {"scalar", REC_F64, 0, NULL, doubles, 8}, {"cu_seqlens", REC_I32, 1, &two, whole, 8},
      {"nothing", REC_F32, 3, none, NULL, 0},
  };
  rec_metadata metadata[] = {{"step", "7"}, {"name", "a\tb"}};
  assert_int_equal(rec_file_write(path, tensors, 5, metadata, 2), REC_OK);
  rec_file *file;
  assert_int_equal(rec_file_open(path, &file), REC_OK);
  assert_int_equal(rec_file_count(file), 5);
  assert_string_equal(rec_file_metadata(file, "step"), "7");
  assert_string_equal(rec_file_metadata(file, "name"), "a\tb");
  assert_null(rec_file_metadata(file, "absent"));
  for (int i = 0; i < 5; i++) {
    const rec_tensor *t = rec_file_find(file, tensors[i].name);
    assert_non_null(t);
    assert_int_equal(t->dtype, tensors[i].dtype);
    assert_int_equal(t->rank, tensors[i].rank);
    assert_int_equal(t->bytes, tensors[i].bytes);
    for (int a = 0; a < t->rank; a++) assert_int_equal(t->shape[a], tensors[i].shape[a]);
    if (t->bytes) assert_memory_equal(t->data, tensors[i].data, t->bytes);
    assert_int_equal((uintptr_t)t->data % rec_dtype_size(t->dtype), 0);
  }
  assert_null(rec_file_find(file, "w"));
  rec_file_close(file);
  unlink(path);
}

TEST(a_file_is_replaced_whole) {
  char path[128], link_path[128];
  make_path(path, sizeof path, "b.safetensors");
  make_path(link_path, sizeof link_path, "link.safetensors");
  float value = 1;
  rec_tensor one = {"x", REC_F32, 0, NULL, &value, 4};
  assert_int_equal(rec_file_write(path, &one, 1, NULL, 0), REC_OK);
  assert_int_equal(symlink(path, link_path), 0);
  rec_file *old, *new;
  assert_int_equal(rec_file_open(path, &old), REC_OK);
  value = 2;
  assert_int_equal(rec_file_write(link_path, &one, 1, NULL, 0), REC_OK);
  assert_int_equal(rec_file_open(path, &new), REC_OK);
  float before, after;
  memcpy(&before, rec_file_find(old, "x")->data, 4);
  memcpy(&after, rec_file_find(new, "x")->data, 4);
  assert_true(before == 1 && after == 2);
  struct stat about;
  assert_int_equal(lstat(link_path, &about), 0);
  assert_true(S_ISLNK(about.st_mode));
  rec_file_close(old);
  rec_file_close(new);
  unlink(link_path);
  unlink(path);
}

TEST(a_full_disk_is_reported) {
  float value = 1;
  rec_tensor one = {"x", REC_F32, 0, NULL, &value, 4};
  assert_int_equal(rec_file_write("/dev/full", &one, 1, NULL, 0), REC_ERROR_FILE);
  assert_string_equal(rec_message(), "/dev/full: cannot write: No space left on device");
  assert_int_equal(rec_file_write("/nowhere/x.safetensors", &one, 1, NULL, 0), REC_ERROR_FILE);
  assert_string_equal(rec_message(),
                      "/nowhere/x.safetensors: cannot write: No such file or directory");
}

TEST(malformed_files_are_refused) {
  static const struct {
    const char *header;
    size_t data;
    const char *message;
  } cases[] = {
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
       "f: tensor `x` ends at byte 8 of 4: the file is truncated"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12,
       "f: 4 bytes after the last tensor"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
       "f: tensor `x`: expected 12 bytes for F32 [3], found 8"},
      {"{\"x\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
       "f: tensor `x`: unknown dtype `F33`"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
       "f: tensor `x`: `data_offsets` fall"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
       "f: tensor `x`: expected whole numbers in `shape`"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8,
       "f: tensor `x`: expected whole numbers in `shape`"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
       "f: tensor `x`: shape too large"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
       "f: tensor `x`: shape too large"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
       "f: tensor `x`: expected two whole numbers in `data_offsets`"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,1e300]}}", 4,
       "f: tensor `x`: expected two whole numbers in `data_offsets`"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
       "f: tensor `x`: expected `dtype`, `shape` and `data_offsets` once each"},
      {"{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
       "f: tensor `x`: expected `dtype`, `shape` and `data_offsets` once each"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"y\":{\"dtype\":\"F32\","
       "\"shape\":[1],\"data_offsets\":[2,6]}}",
       6, "f: tensor `y`: its bytes overlap another tensor's"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"y\":{\"dtype\":\"F32\","
       "\"shape\":[1],\"data_offsets\":[6,10]}}",
       10, "f: tensor `y`: unused bytes before it"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"x\":{\"dtype\":\"U8\","
       "\"shape\":[1],\"data_offsets\":[1,2]}}",
       2, "f: tensor `x`: named twice"},
      {"{\"x\":7}", 0, "f: tensor `x`: expected an object in the header"},
      {"{\"__metadata__\":[]}", 0,
       "f: not a safetensors file: expected an object in `__metadata__`"},
      {"{\"__metadata__\":{\"a\":1}}", 0,
       "f: not a safetensors file: expected strings in `__metadata__`"},
      {"[]", 0, "f: not a safetensors file: its header does not start with `{`"},
      {"{]", 0, "f: not a safetensors file: its header is not JSON"},
      {"{} x", 0, "f: not a safetensors file: text after the header's JSON"},
      {"{\"a\":{\"b\":[[[1]]]}}", 0, "f: not a safetensors file: header nested too deeply"},
      {"{\"a\\u0000b\":{}}", 0,
       "f: not a safetensors file: a NUL character in a string of the header"},
  };
  unsigned char bytes[512];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size = compose(bytes, cases[i].header, cases[i].data);
    rec_file *file;
    assert_int_equal(rec_file_from_memory("f", bytes, size, &file), REC_ERROR_FORMAT);
    assert_null(file);
    assert_string_equal(rec_message(), cases[i].message);
  }
}

TEST(a_file_cut_anywhere_is_refused) {
  unsigned char bytes[512];
  size_t size =
      compose(bytes, "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ", 8);
  rec_file *file;
  assert_int_equal(rec_file_from_memory("f", bytes, size, &file), REC_OK);
  rec_file_close(file);
  for (size_t cut = 0; cut < size; cut++) {
    unsigned char *part = malloc(cut + 1);
    memcpy(part, bytes, cut);
    assert_int_equal(rec_file_from_memory("f", part, cut, &file), REC_ERROR_FORMAT);
    free(part);
  }
  uint64_t huge = UINT64_MAX;
  memcpy(bytes, &huge, 8);
  assert_int_equal(rec_file_from_memory("f", bytes, size, &file), REC_ERROR_FORMAT);
  assert_string_equal(rec_message(),
                      "f: not a safetensors file: its header claims more than 100 MB");
}

TEST(what_is_no_file_is_named) {
  rec_file *file;
  assert_int_equal(rec_file_open("/nowhere", &file), REC_ERROR_FILE);
  assert_string_equal(rec_message(), "/nowhere: No such file or directory");
  assert_int_equal(rec_file_open("/tmp", &file), REC_ERROR_FORMAT);
  assert_int_equal(rec_file_open("/dev/null", &file), REC_ERROR_FORMAT);
}

static uint16_t half_of(float value) {
  uint16_t half;
  assert_int_equal(rec_convert(&half, REC_F16, &value, REC_F32, 1), REC_OK);
  return half;
}

TEST(small_floats_widen_and_round) {
  // Every half and every bfloat16 survives the way through double.
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    uint16_t from = (uint16_t)bits, back;
    double value;
    const rec_dtype types[] = {REC_F16, REC_BF16};
    for (int t = 0; t < 2; t++) {
      assert_int_equal(rec_convert(&value, REC_F64, &from, types[t], 1), REC_OK);
      if (isnan(value)) continue;
      assert_int_equal(rec_convert(&back, types[t], &value, REC_F64, 1), REC_OK);
      assert_int_equal(back, from);
    }
  }
  assert_int_equal(half_of(65519.0f), 0x7bff);
  assert_int_equal(half_of(65520.0f), 0x7c00);
  assert_int_equal(half_of(0x1.002p0f), 0x3c00);  // a tie goes to the even neighbour
  assert_int_equal(half_of(0x1.006p0f), 0x3c02);
  assert_int_equal(half_of(0x1p-25f), 0);
  assert_int_equal(half_of(0x1.8p-24f), 2);
  uint16_t third = 0x3555;
  uint8_t eight = 0x7e;
  float value;
  assert_int_equal(rec_convert(&value, REC_F32, &third, REC_F16, 1), REC_OK);
  assert_true(value == 0x1.554p-2f);
  assert_int_equal(rec_convert(&value, REC_F32, &eight, REC_F8_E4M3, 1), REC_OK);
  assert_true(value == 448);
  assert_int_equal(rec_convert(&value, REC_F32, &eight, REC_I8, 1), REC_ERROR_ARGUMENT);
}

TEST_AROUND(make_folder, remove_folder)
