#include "runtime/train/data/token_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/data/file_sign.h"

enum {
  LLMC_MAGIC = 20240520,
  LLMC_WIDE_MAGIC = 20240801,
  LLMC_WIDE_VERSION = 7,
  LLMC_HEADER = 1024,
  INDEX_HEADER = 34
};

static rec_status bad_token_file(const char *path, const char *expected, const char *found) {
  return rec_fail(REC_ERROR_FORMAT, "%s: expected %s, found %s", path, expected, found);
}

static uint32_t word(const void *bytes, size_t place) {
  uint32_t number;
  memcpy(&number, (const char *)bytes + place, sizeof number);
  return number;
}

static uint64_t long_word(const void *bytes, size_t place) {
  uint64_t number;
  memcpy(&number, (const char *)bytes + place, sizeof number);
  return number;
}

// ---- numbers ------------------------------------------------------------------------------------

enum { BLOCK = 512 };

#define LOAD(type)                                     \
  for (int i = 0; i < count; i++) {                    \
    type x;                                            \
    memcpy(&x, from + (size_t)i * sizeof x, sizeof x); \
    to[i] = (int64_t)x;                                \
  }                                                    \
  break

static void load_tokens(const token_file *file, int64_t place, int count, int64_t *to) {
  const token_type *t = &file->type;
  const char *from = file->numbers + place * t->bytes;
  switch (2 * t->bytes + (t->is_signed && !t->swapped)) {
    case 2: LOAD(uint8_t);
    case 3: LOAD(int8_t);
    case 4: LOAD(uint16_t);
    case 5: LOAD(int16_t);
    case 8: LOAD(uint32_t);
    case 9: LOAD(int32_t);
    default: LOAD(int64_t);
  }
  for (int i = 0; t->swapped && i < count; i++) {
    uint64_t top = __builtin_bswap64((uint64_t)to[i]);
    to[i] =
        t->is_signed ? (int64_t)top >> (64 - 8 * t->bytes) : (int64_t)(top >> (64 - 8 * t->bytes));
  }
}

#undef LOAD

static int block_length(int64_t left) { return left < BLOCK ? (int)left : BLOCK; }

int64_t token_file_number(const token_file *file, int64_t place) {
  int64_t number;
  load_tokens(file, place, 1, &number);
  return number;
}

int64_t token_file_first_wrong(const token_file *file, int64_t symbols) {
  int64_t numbers[BLOCK];
  for (int64_t first = 0; first < file->count; first += BLOCK) {
    int count = block_length(file->count - first);
    load_tokens(file, first, count, numbers);
    for (int i = 0; i < count; i++)
      if (numbers[i] < 0 || numbers[i] >= symbols) return first + i;
  }
  return file->count;
}

void token_file_copy(const token_file *file, int64_t place, int64_t count, int64_t symbols,
                     token_id *to) {
  int64_t numbers[BLOCK];
  for (int64_t first = 0; first < count; first += BLOCK) {
    int size = block_length(count - first);
    load_tokens(file, place + first, size, numbers);
    for (int i = 0; i < size; i++)
      to[first + i] = numbers[i] >= 0 && numbers[i] < symbols ? (token_id)numbers[i] : 0;
  }
}

// ---- raw, llm.c ---------------------------------------------------------------------------------

static rec_status read_raw(const char *path, rec_mapping bytes, token_type type, token_file *file) {
  if (bytes.size % (size_t)type.bytes)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected tokens of %d bytes each, found %zu bytes%s",
                    path, type.bytes, bytes.size, type.bytes == 2 ? ", an odd number" : "");
  file->type = type;
  file->numbers = bytes.bytes;
  file->count = (int64_t)(bytes.size / (size_t)type.bytes);
  return REC_OK;
}

// Bits that the program says besides must be those of the header.
static rec_status check_bits(const char *path, int bits, token_type type) {
  if (!bits || bits == 8 * type.bytes) return REC_OK;
  return rec_fail(
      REC_ERROR_FORMAT,
      "%s: expected tokens of %d bits, as the program says, found %d bits in the header", path,
      bits, 8 * type.bytes);
}

// `count` numbers behind a header, and nothing else.
static rec_status read_behind(const char *path, rec_mapping bytes, size_t header, token_type type,
                              uint64_t count, token_file *file) {
  size_t room = bytes.size - header, size = (size_t)type.bytes;
  if (room % size || room / size != count)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected %llu tokens of %d bits, as its header says, found %zu bytes%s",
                    path, (unsigned long long)count, 8 * type.bytes, room,
                    room / size < count ? ": the file is truncated" : "");
  file->type = type;
  file->numbers = (const char *)bytes.bytes + header;
  file->count = (int64_t)count;
  return REC_OK;
}

static bool is_llmc(rec_mapping bytes) {
  return bytes.size >= 4 &&
         (word(bytes.bytes, 0) == LLMC_MAGIC || word(bytes.bytes, 0) == LLMC_WIDE_MAGIC);
}

static rec_status read_llmc(const char *path, rec_mapping bytes, int bits, token_file *file) {
  if (bytes.size < LLMC_HEADER)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected a header of %d bytes, found a file of %zu: it is truncated", path,
                    LLMC_HEADER, bytes.size);
  uint32_t magic = word(bytes.bytes, 0), version = word(bytes.bytes, 4),
           count = word(bytes.bytes, 8);
  bool wide = magic == LLMC_WIDE_MAGIC && version == LLMC_WIDE_VERSION;
  if (!wide && (magic != LLMC_MAGIC || version != 1))
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected a header that begins with %d and version 1, or %d and %d, found "
                    "%lu and version %lu",
                    path, LLMC_MAGIC, LLMC_WIDE_MAGIC, LLMC_WIDE_VERSION, (unsigned long)magic,
                    (unsigned long)version);
  token_type type = {.bytes = wide ? 4 : 2};
  rec_status status = check_bits(path, bits, type);
  return status ? status : read_behind(path, bytes, LLMC_HEADER, type, count, file);
}

// ---- NumPy --------------------------------------------------------------------------------------

// 6 bytes of magic, version (2), the length of what follows (2, from version 2 on 4), a dictionary
// of Python: {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }
enum { NPY_PREFIX = 12, NPY_LONGEST = 4096 };

static bool is_npy(rec_mapping bytes) {
  return bytes.size >= NPY_PREFIX && !memcmp(bytes.bytes, "\x93NUMPY", 6);
}

// The value of a key, without the blanks before it; "": it is not there.
static const char *npy_value(const char *header, const char *key) {
  const char *at = strstr(header, key);
  at = at ? at + strlen(key) : "";
  return at + strspn(at, " ");
}

// '<u2' and its kind.
static bool npy_type(const char *text, token_type *type) {
  char order, kind, end;
  if (sscanf(text, "'%c%c%d%c", &order, &kind, &type->bytes, &end) != 4 || end != '\'' ||
      !strchr("<>|=", order))
    return false;
  type->is_signed = kind == 'i';
  type->swapped = order == '>';
  return (kind == 'i' || kind == 'u') &&
         (type->bytes == 1 || type->bytes == 2 || type->bytes == 4 || type->bytes == 8);
}

// (1000,)
static bool npy_count(const char *text, unsigned long long *count) {
  char end;
  return sscanf(text, "( %llu , %c", count, &end) == 2 && end == ')';
}

static rec_status read_npy(const char *path, rec_mapping bytes, int bits, token_file *file) {
  char header[NPY_LONGEST + 1] = "";
  const unsigned char *prefix = bytes.bytes;
  token_type type = {0};
  unsigned long long count = 0;
  if (!is_npy(bytes)) return bad_token_file(path, "NumPy's header", "other bytes");
  size_t begin = prefix[6] == 1 ? 10 : NPY_PREFIX, length = prefix[8] | (size_t)prefix[9] << 8;
  if (prefix[6] > 1) length = word(bytes.bytes, 8);
  if (length > bytes.size - begin || length > NPY_LONGEST)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected a header of at most %zu bytes, found %zu: the file is truncated",
                    path, bytes.size - begin < NPY_LONGEST ? bytes.size - begin : NPY_LONGEST,
                    length);
  memcpy(header, prefix + begin, length);
  const char *descr = npy_value(header, "'descr':"), *shape = npy_value(header, "'shape':");
  if (!npy_type(descr, &type))
    return rec_fail(REC_ERROR_FORMAT, "%s: expected whole numbers, found %.*s", path,
                    (int)strcspn(descr, ","), descr);
  if (!npy_count(shape, &count))
    return rec_fail(REC_ERROR_FORMAT, "%s: expected one axis, as in (1000,), found %.*s", path,
                    (int)strcspn(shape, ")") + 1, shape);
  rec_status status = check_bits(path, bits, type);
  return status ? status : read_behind(path, bytes, begin + length, type, count, file);
}

// ---- Megatron's index ---------------------------------------------------------------------------

// 9 bytes of magic, version (8), type (1), the numbers of sequences (8) and of document marks (8).
// Then come the lengths of the sequences (4 each), where they begin in bytes (8), and the sequences
// that begin documents. The last mark is behind all sequences (8).
typedef struct token_index {
  const char *path;
  token_type type;
  const char *lengths, *places, *marks;
  int64_t sequences, mark_count;
} token_index;

// By its number in the index; of no bytes: they are no whole numbers.
static token_type index_type(int number) {
  static const token_type types[] = {[1] = {1},       [2] = {1, true}, [3] = {2, true},
                                     [4] = {4, true}, [5] = {8, true}, [8] = {2}};
  return number >= 0 && number < (int)(sizeof types / sizeof *types) ? types[number]
                                                                     : (token_type){0};
}

static rec_status read_index_header(rec_mapping index, token_index *to) {
  static const char magic[9] = "MMIDIDX\0";
  const char *at = index.bytes;
  if (index.size < INDEX_HEADER)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected a header of %d bytes, found a file of %zu: it is truncated",
                    to->path, INDEX_HEADER, index.size);
  if (memcmp(at, magic, sizeof magic) != 0)
    return bad_token_file(to->path, "an index that begins with MMIDIDX", "other bytes");
  if (long_word(at, 9) != 1)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected version 1, found %llu", to->path,
                    (unsigned long long)long_word(at, 9));
  to->type = index_type(at[17]);
  if (!to->type.bytes)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected whole numbers, of type 1, 2, 3, 4, 5 or 8, found type %d",
                    to->path, (unsigned char)at[17]);
  uint64_t sequences = long_word(at, 18), marks = long_word(at, 26),
           room = index.size - INDEX_HEADER;
  // Bounded first, so that the sum cannot overflow; what may follow are modes of one byte each.
  if (sequences > room / 12 || marks > room / 8 || sequences * 12 + marks * 8 > room)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected %llu sequences and %llu marks of documents, found %llu bytes for "
                    "them: the file is truncated",
                    to->path, (unsigned long long)sequences, (unsigned long long)marks,
                    (unsigned long long)room);
  to->sequences = (int64_t)sequences, to->mark_count = (int64_t)marks;
  to->lengths = at + INDEX_HEADER;
  to->places = to->lengths + 4 * sequences;
  to->marks = to->places + 8 * sequences;
  return REC_OK;
}

// The sequences must lie one behind the other and fill the tokens.
static rec_status check_sequences(const token_index *index, int64_t count) {
  int64_t next = 0;
  uint64_t size = (uint64_t)index->type.bytes;
  for (int64_t i = 0; i < index->sequences; i++) {
    int32_t length = (int32_t)word(index->lengths, 4 * (size_t)i);
    uint64_t place = long_word(index->places, 8 * (size_t)i);
    if (length < 0 || length > count - next || place != (uint64_t)next * size)
      return rec_fail(REC_ERROR_FORMAT,
                      "%s: expected sequence %lld to begin at byte %lld and to end within %lld "
                      "tokens, found byte %llu and a length of %d",
                      index->path, (long long)i, (long long)next * index->type.bytes,
                      (long long)count, (unsigned long long)place, length);
    next += length;
  }
  if (next == count) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected sequences of %lld tokens together, found %lld",
                  index->path, (long long)count, (long long)next);
}

static rec_status read_marks(const token_index *index, token_file *file) {
  int64_t sequence = 0, place = 0;
  if (index->mark_count < 2) return REC_OK;
  file->starts = calloc((size_t)index->mark_count, sizeof *file->starts);
  if (!file->starts) return rec_no_memory();
  for (int64_t i = 0; i < index->mark_count; i++) {
    int64_t mark = (int64_t)long_word(index->marks, 8 * (size_t)i);
    bool last = i + 1 == index->mark_count;
    if (mark < sequence || mark > index->sequences || (!i && mark) ||
        (last && mark < index->sequences))
      return rec_fail(REC_ERROR_FORMAT,
                      "%s: expected marks of documents that rise from sequence 0 to %lld, found "
                      "%lld as mark %lld",
                      index->path, (long long)index->sequences, (long long)mark, (long long)i);
    for (; sequence < mark; sequence++)
      place += (int32_t)word(index->lengths, 4 * (size_t)sequence);
    file->starts[i] = place;
  }
  file->document_count = index->mark_count - 1;
  return REC_OK;
}

file_path token_index_path(const char *path) {
  size_t length = strlen(path);
  return rec_path("%.*s.idx", (int)(length - (rec_ends_with(path, ".bin") ? 4 : 0)), path);
}

static rec_status read_megatron(const char *path, rec_mapping bytes, int bits,
                                const rec_mapping *index, token_file *file) {
  const file_path name = token_index_path(path);
  token_index read = {.path = name.text};
  if (!index) return rec_fail(REC_ERROR_FILE, "%s: expected an index, found none", read.path);
  rec_status status = read_index_header(*index, &read);
  if (!status) status = check_bits(read.path, bits, read.type);
  if (!status) status = read_raw(path, bytes, read.type, file);
  if (!status) status = check_sequences(&read, file->count);
  return status ? status : read_marks(&read, file);
}

// ---- plain numbers, or something else -----------------------------------------------------------

enum { LOOKED_AT = 4096, LEAST_LOOKED_AT = 64, HIGH = 16 };

// Numbers of 32 bits, read as 16: each second one is small, as a vocabulary has fewer than HIGH *
// 65536 symbols. Of 64 bits: of each four, two more are 0. 16: nothing speaks against it.
static int bits_by_look(rec_mapping bytes) {
  token_file file = {.type = {.bytes = 2}, .numbers = bytes.bytes};
  int64_t numbers[BLOCK];
  int64_t count = (int64_t)(bytes.size / 8 * 4), low = 0, upper = 0;
  if (count > LOOKED_AT) count = LOOKED_AT;
  for (int64_t i = 0; i < count; i++) {
    if (i % BLOCK == 0) load_tokens(&file, i, block_length(count - i), numbers);
    int64_t x = numbers[i % BLOCK];
    if (i % 2 && x >= HIGH) return 16;
    low += i % 4 == 0 && x >= HIGH;
    upper += i % 4 == 2 ? x >= HIGH : i % 4 == 3 && x;
  }
  return count < LEAST_LOOKED_AT || low < count / 8 ? 16 : upper ? 32 : 64;
}

// A file without a header that is known here.
static rec_status check_plain(const char *path, rec_mapping bytes, int bits) {
  static const char way[] = "format = raw takes the bytes as they are";
  const char *text = "text; rec tokenize makes tokens of it",
             *other = file_is_text(bytes) ? text : file_sign(bytes);
  if (other)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected tokens, found %s; %s", path, other, way);
  int found = bits ? bits : bits_by_look(bytes);
  if (found == 16 || bits) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT,
                  "%s: expected tokens of 16 bits, found %d bits by the look of the numbers; say "
                  "bits = %d, or bits = 16",
                  path, found, found);
}

// ---- files --------------------------------------------------------------------------------------

static token_format format_of(rec_mapping bytes, const rec_mapping *index) {
  return index            ? FORMAT_MEGATRON
         : is_llmc(bytes) ? FORMAT_LLMC
         : is_npy(bytes)  ? FORMAT_NPY
                          : FORMAT_BY_CONTENT;
}

static rec_status read_as(const char *path, token_format format, int bits, rec_mapping bytes,
                          const rec_mapping *index, token_file *file) {
  if (format == FORMAT_BY_CONTENT) format = format_of(bytes, index);
  switch (format) {
    case FORMAT_MEGATRON: return read_megatron(path, bytes, bits, index, file);
    case FORMAT_LLMC: return read_llmc(path, bytes, bits, file);
    case FORMAT_NPY: return read_npy(path, bytes, bits, file);
    default: break;
  }
  rec_status status = format == FORMAT_RAW ? REC_OK : check_plain(path, bytes, bits);
  return status ? status : read_raw(path, bytes, (token_type){.bytes = bits ? bits / 8 : 2}, file);
}

rec_status token_file_read(const char *path, token_format format, int bits, rec_mapping bytes,
                           const rec_mapping *index, token_file *file) {
  *file = (token_file){.bytes = bytes};
  rec_status status = read_as(path, format, bits, bytes, index, file);
  if (!status) return REC_OK;
  free(file->starts);
  *file = (token_file){0};
  return status;
}

rec_status token_file_open(const char *path, token_format format, int bits, token_file *file) {
  const file_path index_file = token_index_path(path);
  rec_mapping bytes, index = {0};
  bool wants = format == FORMAT_BY_CONTENT || format == FORMAT_MEGATRON,
       indexed = wants && !access(index_file.text, F_OK);
  *file = (token_file){0};
  rec_status status = rec_map(path, &bytes);
  if (!status && indexed) status = rec_map(index_file.text, &index);
  if (!status) status = token_file_read(path, format, bits, bytes, indexed ? &index : NULL, file);
  rec_unmap(&index);
  if (status) rec_unmap(&bytes);
  return status;
}

void token_file_close(token_file *file) {
  free(file->starts);
  rec_unmap(&file->bytes);
  *file = (token_file){0};
}
