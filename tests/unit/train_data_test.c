// Files of tokens in every format: what is well formed is read as it was written, what is not costs
// one message that names it. Windows: random, streaming, documents apart.
#include <unistd.h>

#include "runtime/train/data/data.h"
#include "runtime/train/model/numeric.h"

#include "tests/unit/unit.h"

enum { TOKENS = 1000 };

static char folder[] = "/tmp/rec-data-XXXXXX";

static const char *in_folder(const char *name) {
  static char path[2][256];
  static int turn;
  turn = 1 - turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void write_file(const char *name, const void *head, size_t head_size, const void *bytes,
                       size_t size) {
  FILE *file = fopen(in_folder(name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(head, 1, head_size, file), head_size);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static uint16_t token_at(int64_t i) { return (uint16_t)(i * 7 % 500); }

static const uint16_t *some_tokens(void) {
  static uint16_t tokens[TOKENS];
  for (int i = 0; i < TOKENS; i++) tokens[i] = token_at(i);
  return tokens;
}

static void write_raw(const char *name) { write_file(name, "", 0, some_tokens(), TOKENS * 2); }

static void write_llmc(const char *name, uint32_t magic, uint32_t version, uint32_t count) {
  uint32_t header[256] = {magic, version, count};
  write_file(name, header, sizeof header, some_tokens(), TOKENS * 2);
}

// An index of sequences of 300, 0, 200 and 500 tokens in the documents 0, 1..2, 3.
typedef struct megatron {
  char bytes[512];
  size_t size;
} megatron;

static void put(megatron *m, const void *bytes, size_t size) {
  memcpy(m->bytes + m->size, bytes, size);
  m->size += size;
}

static megatron good_index(void) {
  megatron m = {.size = 0};
  const uint64_t version = 1, counts[2] = {4, 4};
  const int32_t lengths[4] = {300, 0, 200, 500};
  const int64_t places[4] = {0, 600, 600, 1000}, marks[4] = {0, 1, 3, 4};
  put(&m, "MMIDIDX\0", 9);
  put(&m, &version, 8);
  put(&m, "\x08", 1);
  put(&m, counts, 16);
  put(&m, lengths, 16);
  put(&m, places, 32);
  put(&m, marks, 32);
  return m;
}

static void refuses_bits(const char *name, token_format format, int bits, const char *message) {
  token_file file;
  assert_int_not_equal(token_file_open(in_folder(name), format, bits, &file), REC_OK);
  if (!strstr(rec_message(), message)) fail_msg("expected '%s' in '%s'", message, rec_message());
  assert_null(file.numbers);
}

static void refuses(const char *name, token_format format, const char *message) {
  refuses_bits(name, format, 0, message);
}

static void reads_bits(const char *name, token_format format, int bits, int64_t documents) {
  token_file file;
  token_id found[TOKENS];
  if (token_file_open(in_folder(name), format, bits, &file)) fail_msg("%s", rec_message());
  assert_int_equal(file.count, TOKENS);
  token_file_copy(&file, 0, TOKENS, TOKENS, found);
  for (int i = 0; i < TOKENS; i++) assert_int_equal(found[i], token_at(i));
  assert_int_equal(token_file_first_wrong(&file, 500), TOKENS);
  assert_int_equal(token_file_first_wrong(&file, 400), 58);
  assert_int_equal(token_file_number(&file, 58), 406);
  token_file_copy(&file, 57, 2, 400, found);
  assert_int_equal(found[0], 399);
  assert_int_equal(found[1], 0);
  assert_int_equal(file.document_count, documents);
  token_file_close(&file);
}

static void reads(const char *name, token_format format, int64_t documents) {
  reads_bits(name, format, 0, documents);
}

TEST(formats_are_read) {
  write_raw("raw.bin");
  reads("raw.bin", FORMAT_BY_CONTENT, 0);
  reads("raw.bin", FORMAT_RAW, 0);
  write_llmc("llmc.bin", 20240520, 1, TOKENS);
  reads("llmc.bin", FORMAT_BY_CONTENT, 0);
  reads("llmc.bin", FORMAT_LLMC, 0);
  write_raw("both.bin");
  megatron m = good_index();
  write_file("both.idx", "", 0, m.bytes, m.size);
  reads("both.bin", FORMAT_BY_CONTENT, 3);
  reads("both.bin", FORMAT_MEGATRON, 3);
  reads("both.bin", FORMAT_RAW, 0);
  token_file file;
  assert_int_equal(token_file_open(in_folder("both.bin"), FORMAT_MEGATRON, 0, &file), REC_OK);
  const int64_t starts[] = {0, 300, 500, 1000};
  assert_memory_equal(file.starts, starts, sizeof starts);
  token_file_close(&file);
}

TEST(malformed_files_are_named) {
  write_file("odd.bin", "x", 1, some_tokens(), 40);
  refuses("odd.bin", FORMAT_BY_CONTENT, "found 41 bytes, an odd number");
  refuses("none.bin", FORMAT_BY_CONTENT, "No such file");
  write_llmc("cut.bin", 20240520, 1, TOKENS + 1);
  refuses("cut.bin", FORMAT_BY_CONTENT, "found 2000 bytes: the file is truncated");
  write_llmc("long.bin", 20240520, 1, TOKENS - 1);
  refuses("long.bin", FORMAT_BY_CONTENT, "expected 999 tokens");
  write_llmc("wide.bin", 20240801, 7, TOKENS);
  refuses("wide.bin", FORMAT_BY_CONTENT,
          "expected 1000 tokens of 32 bits, as its header says, found 2000 bytes: the file is "
          "truncated");
  write_llmc("version.bin", 20240520, 2, TOKENS);
  refuses("version.bin", FORMAT_BY_CONTENT, "version 2");
  refuses("raw.bin", FORMAT_LLMC, "expected a header that begins with 20240520");
  write_file("short.bin", "", 0, some_tokens(), 100);
  refuses("short.bin", FORMAT_LLMC, "found a file of 100: it is truncated");
  refuses("raw.bin", FORMAT_MEGATRON, "raw.idx: expected an index, found none");
}

// ---- types of numbers ------------------------------------------------------------------------

// The same tokens as numbers of another type.
static size_t write_numbers(const char *name, const char *head, size_t head_size, int bytes,
                            bool swapped) {
  static char numbers[8 * TOKENS];
  for (int i = 0; i < TOKENS; i++)
    for (int k = 0; k < bytes; k++)
      numbers[i * bytes + (swapped ? bytes - 1 - k : k)] =
          k < 2 ? (char)(token_at(i) >> (8 * k)) : 0;
  write_file(name, head, head_size, numbers, (size_t)(TOKENS * bytes));
  return (size_t)(TOKENS * bytes);
}

TEST(numbers_of_more_bits_are_read_where_they_are_declared) {
  write_numbers("raw.bin", "", 0, 4, false);
  reads_bits("raw.bin", FORMAT_BY_CONTENT, 32, 0);
  reads_bits("raw.bin", FORMAT_RAW, 32, 0);
  refuses("raw.bin", FORMAT_BY_CONTENT,
          "expected tokens of 16 bits, found 32 bits by the look of the numbers; say bits = 32");
  token_file file;
  assert_int_equal(token_file_open(in_folder("raw.bin"), FORMAT_RAW, 0, &file), REC_OK);
  assert_int_equal(file.count, 2 * TOKENS);
  token_file_close(&file);
  assert_int_equal(token_file_open(in_folder("raw.bin"), FORMAT_BY_CONTENT, 16, &file), REC_OK);
  token_file_close(&file);
  write_numbers("raw.bin", "", 0, 8, false);
  reads_bits("raw.bin", FORMAT_BY_CONTENT, 64, 0);
  refuses("raw.bin", FORMAT_BY_CONTENT, "found 64 bits by the look of the numbers; say bits = 64");
  refuses_bits("odd.bin", FORMAT_BY_CONTENT, 32, "expected tokens of 4 bytes each, found 41 bytes");
  uint32_t header[256] = {20240801, 7, TOKENS};
  write_numbers("wide.bin", (const char *)header, sizeof header, 4, false);
  reads("wide.bin", FORMAT_BY_CONTENT, 0);
  refuses_bits("wide.bin", FORMAT_LLMC, 16,
               "expected tokens of 16 bits, as the program says, found 32 bits in the header");
  const uint32_t large[] = {5, 70000, 0x7FFFFFFF, 0x80000000};
  token_id found[4];
  write_file("raw.bin", "", 0, large, sizeof large);
  assert_int_equal(token_file_open(in_folder("raw.bin"), FORMAT_RAW, 32, &file), REC_OK);
  assert_int_equal(token_file_first_wrong(&file, MOST_SYMBOLS), 2);
  assert_int_equal(token_file_number(&file, 3), 0x80000000);
  token_file_copy(&file, 0, 4, MOST_SYMBOLS, found);
  const token_id expected[] = {5, 70000, 0, 0};
  assert_memory_equal(found, expected, sizeof found);
  token_file_close(&file);
}

TEST(an_index_says_the_type) {
  write_numbers("both.bin", "", 0, 4, false);
  megatron m = good_index();
  const int64_t places[4] = {0, 1200, 1200, 2000};
  m.bytes[17] = 4;
  memcpy(m.bytes + 50, places, sizeof places);
  write_file("both.idx", "", 0, m.bytes, m.size);
  reads("both.bin", FORMAT_BY_CONTENT, 3);
  refuses_bits("both.bin", FORMAT_BY_CONTENT, 16,
               "both.idx: expected tokens of 16 bits, as the program says, found 32 bits");
}

// NumPy's file of that type; `shape` and `version` as they stand there.
static void write_npy(const char *type, const char *shape, int version) {
  char head[256], text[128];
  int pad = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n",
                     type, shape);
  memcpy(head, "\x93NUMPY", 6);
  head[6] = (char)version, head[7] = 0, head[8] = (char)pad, head[9] = 0, head[10] = 0,
  head[11] = 0;
  size_t begin = version == 1 ? 10 : 12;
  memcpy(head + begin, text, (size_t)pad);
  write_numbers("raw.bin", head, begin + (size_t)pad, type[2] - '0', type[0] == '>');
}

TEST(files_of_numpy_say_their_type) {
  static const char *const types[] = {"<u2", "<i2", ">u2", "<u4", "<i4",
                                      ">i4", "<i8", "<u8", ">i8"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    write_npy(types[i], "(1000,)", 1 + (int)(i % 2));
    reads("raw.bin", FORMAT_BY_CONTENT, 0);
    reads_bits("raw.bin", FORMAT_NPY, 8 * (types[i][2] - '0'), 0);
  }
  refuses_bits("raw.bin", FORMAT_BY_CONTENT, 32,
               "expected tokens of 32 bits, as the program says, found 64 bits in the header");
  write_npy("<f4", "(1000,)", 1);
  refuses("raw.bin", FORMAT_BY_CONTENT, "expected whole numbers, found '<f4'");
  write_npy("<i4", "(10, 100)", 1);
  refuses("raw.bin", FORMAT_BY_CONTENT, "expected one axis, as in (1000,), found (10, 100)");
  write_npy("<i4", "(1001,)", 1);
  refuses("raw.bin", FORMAT_BY_CONTENT,
          "expected 1001 tokens of 32 bits, as its header says, found 4000 bytes: the file is "
          "truncated");
  write_file("raw.bin", "\x93NUMPY\1\0\xFF\x7F", 10, "{}", 2);
  refuses("raw.bin", FORMAT_BY_CONTENT,
          "expected a header of at most 2 bytes, found 32767: the file is truncated");
  write_raw("raw.bin");
  refuses("raw.bin", FORMAT_NPY, "expected NumPy's header, found other bytes");
}

// Each sign as the beginning of a file of tokens and of a text, which are refused; as they are,
// they are read.
TEST(other_files_are_named) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *message;
  } others[] = {{"\x1F\x8B\x08\0", 4, "found gzip; gunzip -k unpacks it"},
                {"LITPKDS\1\0\0\0", 11, "found a packed dataset of LitGPT"},
                {"PK\x03\x04\0\0", 6, "found a zip archive"},
                {"\x28\xB5\x2F\xFD\0", 5, "found Zstandard; unzstd unpacks it"},
                {"\x40\0\0\0\0\0\0\0{\"a\"", 12, "found safetensors"}};
  train_windows windows = {8, 4, TOKENS};
  train_data data;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    write_file("raw.bin", others[i].bytes, others[i].size, some_tokens(),
               TOKENS * 2 - others[i].size % 2);
    refuses("raw.bin", FORMAT_BY_CONTENT, others[i].message);
    refuses_bits("raw.bin", FORMAT_BY_CONTENT, 32, others[i].message);
    for (int kind = SOURCE_BYTES; kind <= SOURCE_CHARACTERS; kind++) {
      const train_source text = {.kind = (source_kind)kind, .split = 0.9};
      assert_int_not_equal(train_data_open(in_folder("raw.bin"), &text, &windows, &data), REC_OK);
      if (!strstr(rec_message(), others[i].message))
        fail_msg("expected '%s' in '%s'", others[i].message, rec_message());
    }
    const train_source raw = {.kind = SOURCE_BYTES, .format = FORMAT_RAW, .split = 0.9};
    assert_int_equal(train_data_open(in_folder("raw.bin"), &raw, &windows, &data), REC_OK);
    train_data_close(&data);
    token_file file;
    assert_int_equal(token_file_open(in_folder("raw.bin"), FORMAT_RAW, 0, &file), REC_OK);
    token_file_close(&file);
  }
}

TEST(a_text_is_no_file_of_tokens_nor_the_other_way_round) {
  train_windows windows = {8, 4, TOKENS};
  train_data data;
  const train_source text = {.kind = SOURCE_BYTES, .split = 0.9};
  char prose[2000];
  for (int i = 0; i < 2000; i++) prose[i] = "GGUF, caf\xC3\xA9.\n"[i % 13];
  write_file("text", "", 0, prose, 1998);
  refuses("text", FORMAT_BY_CONTENT,
          "text: expected tokens, found text; rec tokenize makes tokens of it");
  write_file("text", "", 0, prose, 1998);
  assert_int_equal(train_data_open(in_folder("text"), &text, &windows, &data), REC_OK);
  train_data_close(&data);
  write_file("text", "", 0, some_tokens(), 2 * TOKENS);
  assert_int_not_equal(train_data_open(in_folder("text"), &text, &windows, &data), REC_OK);
  assert_non_null(strstr(
      rec_message(),
      "text: expected text, found bytes 0, which no text has; format = raw takes the bytes as"));
  write_file("text", "\xFF\xFE", 2, "a\0b\0", 4);
  assert_int_not_equal(train_data_open(in_folder("text"), &text, &windows, &data), REC_OK);
  assert_non_null(strstr(rec_message(), "found UTF-16; iconv -f utf-16 -t utf-8"));
}

// The index with one byte or number changed.
static void refuses_index(size_t place, int64_t number, size_t size, const char *message) {
  megatron m = good_index();
  memcpy(m.bytes + place, &number, size);
  write_file("both.idx", "", 0, m.bytes, m.size);
  refuses("both.bin", FORMAT_BY_CONTENT, message);
}

TEST(malformed_indices_are_named) {
  write_raw("both.bin");
  refuses_index(0, 'X', 1, "an index that begins with MMIDIDX");
  refuses_index(9, 2, 8, "expected version 1, found 2");
  refuses_index(17, 6, 1, "expected whole numbers, of type 1, 2, 3, 4, 5 or 8, found type 6");
  refuses_index(17, 4, 1, "expected sequence 1 to begin at byte 1200");
  refuses_index(18, 5, 8, "5 sequences and 4 marks of documents, found 80 bytes for them");
  refuses_index(18, INT64_MAX, 8, "the file is truncated");
  refuses_index(26, INT64_MAX, 8, "the file is truncated");
  refuses_index(34, 301, 4, "expected sequence 1 to begin at byte 602");
  refuses_index(34, -1, 4, "a length of -1");
  refuses_index(46, 499, 4, "expected sequences of 1000 tokens together, found 999");
  refuses_index(46, 501, 4, "a length of 501");
  refuses_index(82, 1, 8, "found 1 as mark 0");
  refuses_index(98, 0, 8, "found 0 as mark 2");
  refuses_index(106, 3, 8, "found 3 as mark 3");
  megatron m = good_index();
  write_file("both.idx", "", 0, m.bytes, 20);
  refuses("both.bin", FORMAT_BY_CONTENT, "expected a header of 34 bytes, found a file of 20");
  write_file("both.idx", "", 0, m.bytes, 0);
  refuses("both.bin", FORMAT_BY_CONTENT, "found a file of 0");
}

// ---- windows ------------------------------------------------------------------------------------

typedef struct window {
  token_id tokens[8], targets[8];
  int64_t count;
} window;

static window read_window(const train_data *data, uint64_t position) {
  window w;
  w.count = train_data_window(data, 1, 2, position, 8, w.tokens, w.targets);
  return w;
}

static void open_data(const char *name, train_source source, train_data *data) {
  train_windows windows = {8, 4, TOKENS};
  source.kind = SOURCE_TOKENS;
  source.split = 0.9;
  if (train_data_open(in_folder(name), &source, &windows, data)) fail_msg("%s", rec_message());
}

TEST(a_stream_reads_on) {
  train_data data;
  write_raw("raw.bin");
  open_data("raw.bin", (train_source){.streaming = true, .separator = -1}, &data);
  // 900 tokens are 113 pieces; row b begins with piece 113 b / 4.
  for (int row = 0; row < 4; row++)
    for (int step = 0; step < 200; step++) {
      int piece = (113 * row / 4 + step) % 113, first = 8 * piece;
      uint64_t position = (uint64_t)(step * 4 + row);
      window w = read_window(&data, position);
      assert_int_equal(w.count, piece == 112 ? 4 : 8);
      for (int i = 0; i < w.count; i++) {
        assert_int_equal(w.tokens[i], token_at(first + i));
        assert_int_equal(w.targets[i], token_at(first + i + 1));
      }
      for (int i = (int)w.count; i < 8; i++) assert_int_equal(w.targets[i], NO_TARGET);
      assert_int_equal(train_data_begins(&data, 0, 0, position), piece == 0);
    }
  train_data_close(&data);
}

// Counts the targets of windows of tokens that are their own places.
static void count_targets(const train_data *data, int steps, int seen[TOKENS]) {
  for (int position = 0; position < 4 * steps; position++) {
    window w = read_window(data, (uint64_t)position);
    for (int64_t i = 0; i < w.count; i++) {
      assert_int_equal(w.targets[i], w.tokens[i] + 1);
      seen[w.targets[i]]++;
    }
  }
}

TEST(documents_stay_apart) {
  train_data data;
  int seen[TOKENS] = {0}, missed = 0;
  uint16_t places[TOKENS];
  for (int i = 0; i < TOKENS; i++) places[i] = (uint16_t)i;
  write_file("both.bin", "", 0, places, sizeof places);
  megatron m = good_index();
  write_file("both.idx", "", 0, m.bytes, m.size);
  open_data("both.bin", (train_source){.streaming = true, .apart = true, .separator = -1}, &data);
  // Documents 0..299, 300..499, 500..899: 38 + 25 + 50 pieces.
  assert_int_equal(data.pieces_before[3], 113);
  int begins = 0;
  for (int step = 0; step < 113; step++)
    begins += train_data_begins(&data, 0, 0, (uint64_t)step * 4);
  assert_int_equal(begins, 3);
  count_targets(&data, 113, seen);
  for (int i = 0; i < TOKENS; i++)
    assert_int_equal(seen[i], i % 900 == 0 || i == 300 || i == 500 || i > 900 ? 0 : 4);
  train_data_close(&data);
  open_data("both.bin", (train_source){.apart = true, .separator = -1}, &data);
  memset(seen, 0, sizeof seen);
  count_targets(&data, 500, seen);
  for (int i = 1; i < 900; i++) missed += !seen[i];
  assert_int_equal(seen[0] + seen[300] + seen[500] + seen[900], 0);
  assert_int_equal(missed, 2);
  train_data_close(&data);
}

TEST(separators_end_documents) {
  train_data data;
  // Token 7 k is a separator where it is 0: at 0 and 500; the second document begins with it.
  write_raw("raw.bin");
  open_data("raw.bin", (train_source){.streaming = true, .apart = true, .separator = 0}, &data);
  assert_int_equal(data.document_count, 2);
  assert_int_equal(data.starts[1], 500);
  assert_int_equal(data.pieces_before[1], 63);
  window last = read_window(&data, 62 * 4), first = read_window(&data, 63 * 4);
  assert_int_equal(last.count, 4);
  assert_int_equal(last.targets[3], 0);
  assert_int_equal(first.tokens[0], 0);
  assert_true(train_data_begins(&data, 0, 0, 63 * 4));
  train_data_close(&data);
}

static void refuses_data(const char *name, train_source source, const char *message) {
  train_data data;
  train_windows windows = {8, 4, 400};
  source.split = 0.9;
  assert_int_not_equal(train_data_open(in_folder(name), &source, &windows, &data), REC_OK);
  if (!strstr(rec_message(), message)) fail_msg("expected '%s' in '%s'", message, rec_message());
}

TEST(what_does_not_fit_is_named) {
  write_raw("raw.bin");
  refuses_data("raw.bin", (train_source){.kind = SOURCE_TOKENS, .separator = -1},
               "expected tokens below 400, the symbols of the model, found 406 at token 58");
  write_file("few.bin", "", 0, some_tokens(), 18);
  refuses_data("few.bin", (train_source){.kind = SOURCE_TOKENS, .separator = -1},
               "expected more than 8 tokens to train on and 2 held out, found 8 and 1");
  write_file("few.bin", "", 0, some_tokens(), 100);
  refuses_data("few.bin", (train_source){.kind = SOURCE_TOKENS, .apart = true, .separator = -1},
               "expected marks of documents");
}

// ---- text ---------------------------------------------------------------------------------------

static rec_status open_text(int64_t vocabulary, train_text *read) {
  rec_mapping bytes;
  assert_int_equal(rec_map(in_folder("text"), &bytes), REC_OK);
  rec_status status = train_text_of("text", bytes, vocabulary, read);
  if (status) rec_unmap(&bytes);
  return status;
}

TEST(characters_are_numbered) {
  static const char text[] =
      "ab\xC3\xA4"
      "a\xE2\x82\xAC\xF0\x9F\x98\x80"
      "b";
  const token_id expected[] = {0, 1, 2, 0, 3, 4, 1};
  token_id tokens[7];
  train_text read;
  write_file("text", "", 0, text, sizeof text - 1);
  assert_int_equal(open_text(5, &read), REC_OK);
  assert_int_equal(read.count, 7);
  train_text_read(&read, 0, 7, tokens);
  assert_memory_equal(tokens, expected, sizeof expected);
  assert_string_equal(read.characters, "ab\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  train_alphabet a = train_alphabet_of(read.characters);
  assert_int_equal(a.count, 5);
  for (size_t at = 0, i = 0; at < sizeof text - 1; i++) {
    token_id token;
    int size, length = train_alphabet_read(&a, text + at, sizeof text - 1 - at, &token);
    assert_int_equal(token, expected[i]);
    assert_memory_equal(train_alphabet_text(&a, token, &size), text + at, (size_t)length);
    assert_int_equal(size, length);
    at += (size_t)length;
  }
  train_text_close(&read);
  assert_int_not_equal(open_text(4, &read), REC_OK);
  assert_non_null(
      strstr(rec_message(), "at most 4 different characters, the symbols of the model, found 5"));
}

// Characters of one to four bytes: from any place on they are those of the whole text, which is not
// copied.
TEST(characters_are_read_from_any_place) {
  enum { CHARACTERS = 3000 };
  static const char *const different[] = {"a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  static char text[4 * CHARACTERS];
  for (int kinds = 1; kinds <= 4; kinds += 3) {
    size_t size = 0;
    token_id expected[CHARACTERS], found[200];
    train_text read;
    for (int i = 0; i < CHARACTERS; i++) {
      expected[i] = (token_id)(i * i / 7 % kinds);
      size += (size_t)sprintf(text + size, "%s", different[expected[i]]);
    }
    write_file("text", "", 0, text, size);
    assert_int_equal(open_text(4, &read), REC_OK);
    assert_int_equal(read.count, CHARACTERS);
    assert_in_range(train_text_memory(&read), size, size + CHARACTERS / 8 + 8);
    for (int place = 0; place < CHARACTERS; place++) {
      int count = CHARACTERS - place < 200 ? CHARACTERS - place : 200;
      train_text_read(&read, place, count, found);
      assert_memory_equal(found, expected + place, (size_t)count * sizeof *found);
    }
    train_text_close(&read);
  }
}

// Documents and what is held out are cut in characters, as in tokens of the same numbers.
TEST(characters_are_data_like_tokens) {
  enum { CHARACTERS = 20000 };
  static char text[2 * CHARACTERS + 1];
  static uint16_t tokens[CHARACTERS];
  train_data of_text, of_tokens;
  train_source source = {.kind = SOURCE_CHARACTERS, .split = 0.9, .apart = true, .separator = 0};
  const train_windows windows = {8, 4, 3};
  size_t size = 0;
  for (int i = 0; i < CHARACTERS; i++) {
    tokens[i] = i % 37 == 0 ? 0 : (uint16_t)(1 + i * i / 3 % 2);
    size += (size_t)sprintf(text + size, "%s",
                            tokens[i] == 0   ? "a"
                            : tokens[i] == 1 ? "b"
                                             : "\xC3\xA4");
  }
  write_file("text", "", 0, text, size);
  write_file("raw.bin", "", 0, tokens, sizeof tokens);
  assert_int_equal(train_data_open(in_folder("text"), &source, &windows, &of_text), REC_OK);
  source.kind = SOURCE_TOKENS;
  assert_int_equal(train_data_open(in_folder("raw.bin"), &source, &windows, &of_tokens), REC_OK);
  assert_int_equal(of_text.document_count, of_tokens.document_count);
  assert_memory_equal(of_text.starts, of_tokens.starts,
                      (size_t)of_text.document_count * sizeof *of_text.starts);
  for (uint64_t position = 0; position < 400; position++) {
    window one = read_window(&of_text, position), other = read_window(&of_tokens, position);
    assert_int_equal(one.count, other.count);
    assert_memory_equal(&one, &other, sizeof one.tokens + sizeof one.targets);
    train_data_held_out(&of_text, (int64_t)position * 9, 8, one.tokens, one.targets);
    train_data_held_out(&of_tokens, (int64_t)position * 9, 8, other.tokens, other.targets);
    assert_memory_equal(&one, &other, sizeof one.tokens + sizeof one.targets);
  }
  train_data_close(&of_text);
  train_data_close(&of_tokens);
}

TEST(bytes_that_are_no_characters_are_named) {
  // A lone continuation, an overlong form, a surrogate, beyond the last code point, cut off, NUL.
  static const char *const wrong[] = {
      "abc\x80", "abc\xC0\xAF", "abc\xED\xA0\x80", "abc\xF4\x90\x80\x80", "abc\xE2\x82", "abc\0"};
  for (int i = 0; i < 6; i++) {
    train_text read;
    write_file("text", "", 0, wrong[i], i == 5 ? 4 : strlen(wrong[i]));
    assert_int_not_equal(open_text(99, &read), REC_OK);
    assert_non_null(strstr(rec_message(), "expected characters in UTF-8, found byte"));
    assert_non_null(strstr(rec_message(), "at byte 3"));
  }
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  static const char *const names[] = {"raw.bin", "llmc.bin",  "both.bin",    "both.idx",
                                      "odd.bin", "cut.bin",   "long.bin",    "wide.bin",
                                      "few.bin", "short.bin", "version.bin", "text"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
  return rmdir(folder);
}

TEST_AROUND(make_folder, remove_folder)
