#include "runtime/train/data/token_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LLMC_MAGIC = 20240520, LLMC_HEADER = 1024, INDEX_HEADER = 34 };

static rec_status bad(const char *path, const char *expected, const char *found) {
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

// ---- raw, llm.c ---------------------------------------------------------------------------------

static rec_status read_raw(const char *path, rec_mapping bytes, token_file *file) {
  if (bytes.size % 2)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected tokens of 2 bytes each, found %zu bytes, an odd number", path, bytes.size);
  file->tokens = bytes.bytes;
  file->count = (int64_t)(bytes.size / 2);
  return REC_OK;
}

static rec_status read_llmc(const char *path, rec_mapping bytes, token_file *file) {
  if (bytes.size < LLMC_HEADER)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected a header of %d bytes, found a file of %zu: it is truncated", path,
                    LLMC_HEADER, bytes.size);
  uint32_t magic = word(bytes.bytes, 0), version = word(bytes.bytes, 4), count = word(bytes.bytes, 8);
  if (magic != LLMC_MAGIC || version != 1)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected a header that begins with %d and version 1, found %lu and version %lu%s",
                    path, LLMC_MAGIC, (unsigned long)magic, (unsigned long)version,
                    magic == 20240801 ? ": tokens of 32 bits" : "");
  size_t room = bytes.size - LLMC_HEADER;
  if (room != (size_t)count * 2)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected %lu tokens, as its header says, in %zu bytes, found %zu bytes%s", path,
                    (unsigned long)count, (size_t)count * 2, room, room < (size_t)count * 2 ? ": the file is truncated" : "");
  file->tokens = (const uint16_t *)((const char *)bytes.bytes + LLMC_HEADER);
  file->count = count;
  return REC_OK;
}

// ---- Megatron's index ---------------------------------------------------------------------------

// 9 bytes of magic, version (8), type (1), the numbers of sequences (8) and of document marks (8). Then come the lengths of the
// sequences (4 each), where they begin in bytes (8), and the sequences that begin documents. The last mark is behind all
// sequences (8).
typedef struct token_index {
  char path[4096];
  const char *lengths, *places, *marks;
  int64_t sequences, mark_count;
} token_index;

static rec_status read_index_header(rec_mapping index, token_index *to) {
  static const char magic[9] = "MMIDIDX\0";
  const char *at = index.bytes;
  if (index.size < INDEX_HEADER)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected a header of %d bytes, found a file of %zu: it is truncated", to->path,
                    INDEX_HEADER, index.size);
  if (memcmp(at, magic, sizeof magic) != 0) return bad(to->path, "an index that begins with MMIDIDX", "other bytes");
  if (long_word(at, 9) != 1)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected version 1, found %llu", to->path, (unsigned long long)long_word(at, 9));
  if (at[17] != 8)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected tokens of 16 bits (type 8), found type %d%s", to->path,
                    (unsigned char)at[17], at[17] == 4 ? ": tokens of 32 bits" : "");
  uint64_t sequences = long_word(at, 18), marks = long_word(at, 26), room = index.size - INDEX_HEADER;
  // Bounded first, so that the sum cannot overflow; what may follow are modes of one byte each.
  if (sequences > room / 12 || marks > room / 8 || sequences * 12 + marks * 8 > room)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected %llu sequences and %llu marks of documents, found %llu bytes for them: the file is truncated",
                    to->path, (unsigned long long)sequences, (unsigned long long)marks, (unsigned long long)room);
  to->sequences = (int64_t)sequences, to->mark_count = (int64_t)marks;
  to->lengths = at + INDEX_HEADER;
  to->places = to->lengths + 4 * sequences;
  to->marks = to->places + 8 * sequences;
  return REC_OK;
}

// The sequences must lie one behind the other and fill the tokens.
static rec_status check_sequences(const token_index *index, int64_t count) {
  int64_t next = 0;
  for (int64_t i = 0; i < index->sequences; i++) {
    int32_t length = (int32_t)word(index->lengths, 4 * (size_t)i);
    uint64_t place = long_word(index->places, 8 * (size_t)i);
    if (length < 0 || length > count - next || place != (uint64_t)next * 2)
      return rec_fail(
          REC_ERROR_FORMAT,
          "%s: expected sequence %lld to begin at byte %lld and to end within %lld tokens, found byte %llu and a length of %d",
          index->path, (long long)i, (long long)next * 2, (long long)count, (unsigned long long)place, length);
    next += length;
  }
  if (next == count) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected sequences of %lld tokens together, found %lld", index->path, (long long)count,
                  (long long)next);
}

static rec_status read_marks(const token_index *index, token_file *file) {
  int64_t sequence = 0, place = 0;
  if (index->mark_count < 2) return REC_OK;
  file->starts = calloc((size_t)index->mark_count, sizeof *file->starts);
  if (!file->starts) return rec_no_memory();
  for (int64_t i = 0; i < index->mark_count; i++) {
    int64_t mark = (int64_t)long_word(index->marks, 8 * (size_t)i);
    bool last = i + 1 == index->mark_count;
    if (mark < sequence || mark > index->sequences || (!i && mark) || (last && mark < index->sequences))
      return rec_fail(REC_ERROR_FORMAT,
                      "%s: expected marks of documents that rise from sequence 0 to %lld, found %lld as mark %lld", index->path,
                      (long long)index->sequences, (long long)mark, (long long)i);
    for (; sequence < mark; sequence++) place += (int32_t)word(index->lengths, 4 * (size_t)sequence);
    file->starts[i] = place;
  }
  file->document_count = index->mark_count - 1;
  return REC_OK;
}

// NAME.bin or NAME to NAME.idx.
static bool index_path(const char *path, char *to, size_t size) {
  size_t length = strlen(path);
  if (length > 4 && !strcmp(path + length - 4, ".bin")) length -= 4;
  int written = snprintf(to, size, "%.*s.idx", (int)length, path);
  return written > 0 && (size_t)written < size;
}

static rec_status read_megatron(const char *path, rec_mapping bytes, const rec_mapping *index, token_file *file) {
  token_index read = {.sequences = 0};
  if (!index_path(path, read.path, sizeof read.path)) return bad(path, "a short name", "a long one");
  if (!index) return rec_fail(REC_ERROR_FILE, "%s: expected an index, found none", read.path);
  rec_status status = read_index_header(*index, &read);
  if (!status) status = read_raw(path, bytes, file);
  if (!status) status = check_sequences(&read, file->count);
  return status ? status : read_marks(&read, file);
}

// ---- files --------------------------------------------------------------------------------------

rec_status token_file_read(const char *path, token_format format, rec_mapping bytes, const rec_mapping *index,
                           token_file *file) {
  *file = (token_file){.bytes = bytes};
  if (format == FORMAT_BY_CONTENT && index) format = FORMAT_MEGATRON;
  if (format == FORMAT_BY_CONTENT)
    format =
        bytes.size >= 4 && (word(bytes.bytes, 0) == LLMC_MAGIC || word(bytes.bytes, 0) == 20240801) ? FORMAT_LLMC : FORMAT_RAW;
  rec_status status = format == FORMAT_MEGATRON ? read_megatron(path, bytes, index, file)
                      : format == FORMAT_LLMC   ? read_llmc(path, bytes, file)
                                                : read_raw(path, bytes, file);
  if (!status) return REC_OK;
  free(file->starts);
  *file = (token_file){0};
  return status;
}

rec_status token_file_open(const char *path, token_format format, token_file *file) {
  char index_file[4096];
  rec_mapping bytes, index = {0};
  bool wants = format == FORMAT_BY_CONTENT || format == FORMAT_MEGATRON,
       indexed = wants && index_path(path, index_file, sizeof index_file) && !access(index_file, F_OK);
  *file = (token_file){0};
  rec_status status = rec_map(path, &bytes);
  if (!status && indexed) status = rec_map(index_file, &index);
  if (!status) status = token_file_read(path, format, bytes, indexed ? &index : NULL, file);
  rec_unmap(&index);
  if (status) rec_unmap(&bytes);
  return status;
}

void token_file_close(token_file *file) {
  free(file->starts);
  rec_unmap(&file->bytes);
  *file = (token_file){0};
}
