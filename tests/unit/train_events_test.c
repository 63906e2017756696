// Event files, read back by the rules of their format.
#include <unistd.h>

#include "runtime/train/report/events.h"
#include "tests/unit/unit.h"

static uint64_t fixed(const unsigned char *at, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number |= (uint64_t)at[i] << 8 * i;
  return number;
}

static uint64_t varint(const unsigned char **at) {
  uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = *(*at)++;
    number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return number;
  }
}

static uint32_t masked(const void *bytes, size_t size) {
  uint32_t crc = events_crc(bytes, size);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// One value: 1: tag, 2: f32.
static void print_value(FILE *out, const unsigned char *at, const unsigned char *end) {
  while (at < end) {
    uint64_t key = varint(&at);
    if (key == (1 << 3 | 2)) {
      uint64_t size = varint(&at);
      fprintf(out, " %.*s", (int)size, (const char *)at);
      at += size;
    } else {
      assert_int_equal(key, 2 << 3 | 5);
      uint32_t bits = (uint32_t)fixed(at, 4);
      float value;
      memcpy(&value, &bits, sizeof value);
      fprintf(out, "=%g", value);
      at += 4;
    }
  }
}

static void print_event(FILE *out, const unsigned char *at, const unsigned char *end) {
  int64_t step = 0;
  while (at < end) {
    uint64_t key = varint(&at);
    if (key == (1 << 3 | 1)) {
      uint64_t bits = fixed(at, 8);
      double time;
      memcpy(&time, &bits, sizeof time);
      assert_true(time > 1.7e9 && time < 1e11);
      at += 8;
    } else if (key == (2 << 3 | 0)) {
      step = (int64_t)varint(&at);
    } else {
      uint64_t size = varint(&at);
      const unsigned char *next = at + size;
      if (key == (3 << 3 | 2)) fprintf(out, "version %.*s", (int)size, (const char *)at);
      if (key == (7 << 3 | 2)) fprintf(out, "%d: status %d", (int)step, at[1]);
      if (key == (5 << 3 | 2)) {
        fprintf(out, "%d:", (int)step);
        while (at < next) {
          assert_int_equal(varint(&at), 1 << 3 | 2);
          uint64_t value = varint(&at);
          print_value(out, at, at + value);
          at += value;
        }
      }
      at = next;
    }
  }
  fprintf(out, "\n");
}

// The events of a file, one a line; every checksum must be right.
static char *events_of(const char *folder, const char *name) {
  char path[300], *text = NULL;
  static unsigned char bytes[1 << 16];
  size_t text_size;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb"), *out = open_memstream(&text, &text_size);
  assert_non_null(file);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (const unsigned char *at = bytes; at < bytes + size;) {
    uint64_t length = fixed(at, 8);
    assert_int_equal(fixed(at + 8, 4), masked(at, 8));
    assert_true(length <= (uint64_t)(bytes + size - at) - 16);
    assert_int_equal(fixed(at + 12 + length, 4), masked(at + 12, length));
    print_event(out, at + 12, at + 12 + length);
    at += 16 + length;
  }
  fclose(out);
  return text;
}

static void expect(const char *folder, const char *name, const char *expected) {
  char *found = events_of(folder, name);
  assert_string_equal(found, expected);
  free(found);
}

TEST(the_checksum_is_castagnolis) {
  assert_int_equal(events_crc("123456789", 9), 0xe3069283u);
  assert_int_equal(events_crc("", 0), 0);
}

static void put(const char *folder, int64_t open_at, int64_t step, double value) {
  FILE *file;
  const event_scalar scalars[] = {{"loss", value}, {"lr", 0.25}};
  assert_int_equal(events_open(folder, open_at, &file), REC_OK);
  assert_int_equal(events_put(file, step, scalars, 2), REC_OK);
  assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state) {
  char *folder = strdup("/tmp/rec-events-XXXXXX");
  *state = folder;
  return !folder || !mkdtemp(folder);
}

static int remove_folder(void **state) {
  char command[200];
  snprintf(command, sizeof command, "rm -r '%s'", (char *)*state);
  int status = system(command);
  free(*state);
  return status;
}

TEST_WITH(scalars_by_step, make_folder, remove_folder) {
  const char *folder = *state;
  put(folder, 0, 300, 2.5);
  expect(folder, "events.out.tfevents.0000000000",
         "version brain.Event:2\n0: status 1\n300: loss=2.5 lr=0.25\n");
}

static bool exists(const char *folder, const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return !access(path, R_OK);
}

TEST_WITH(a_later_file_goes_on_and_an_earlier_one_begins_anew, make_folder, remove_folder) {
  const char *folder = *state;
  put(folder, 0, 0, 1);
  put(folder, 200, 200, 2);
  put(folder, 100, 100, 3);
  assert_true(exists(folder, "events.out.tfevents.0000000000"));
  assert_false(exists(folder, "events.out.tfevents.0000000200"));
  expect(folder, "events.out.tfevents.0000000100",
         "version brain.Event:2\n100: status 1\n100: loss=3 lr=0.25\n");
}

static void write_text(const char *folder, const char *name, const char *text) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

TEST_WITH(tables_become_scalars, make_folder, remove_folder) {
  const char *folder = *state;
  write_text(folder, "ranges.csv",
             "from,to,bits_per_byte,perplexity,bytes\n0,16,2.5,5.6,9\n16,32,3,8,9\n");
  write_text(folder, "state_norm.csv",
             "position,layer,mean,deviation,norm,largest,state\n1,0,0.5,1,2,9,layers.0.h\n");
  write_text(folder, "accuracy.csv",
             "length,character_accuracy,exact_accuracy,answers,sequences\n20,1,0.5,40,2\n");
  assert_int_equal(events_of_tables(folder), REC_OK);
  expect(folder, "events.out.tfevents.judged",
         "version brain.Event:2\n0: status 1\n16: bits_per_byte=2.5\n32: bits_per_byte=3\n"
         "1: mean/layers.0.h=0.5\n1: deviation/layers.0.h=1\n1: norm/layers.0.h=2\n"
         "20: character_accuracy=1\n20: exact_accuracy=0.5\n");
}
