// Zip archives whose entries are stored as they are: the directory at the end, then every entry's
// own header. Sizes beyond 32 bits stand in an extra field.
#include <stdlib.h>

#include "runtime/torch_file.h"

enum {
  END_SIZE = 22,
  LOCATOR_SIZE = 20,
  LARGE_END_SIZE = 56,
  ROW_SIZE = 46,
  HEADER_SIZE = 30,
  COMMENT_CAP = 65535
};

typedef struct zip {
  const char *path;
  const unsigned char *bytes;
  size_t size;
} zip;

static uint64_t integer_at(const zip *z, size_t place, int bytes) {
  uint64_t x = 0;
  for (int i = bytes - 1; i >= 0; i--) x = x << 8 | z->bytes[place + (size_t)i];
  return x;
}

static rec_status bad_archive(const zip *z, const char *what) {
  return rec_fail(REC_ERROR_FORMAT, "%s: expected a zip archive as torch.save writes it, found %s",
                  z->path, what);
}

static bool is_inside_archive(const zip *z, uint64_t place, uint64_t size) {
  return place <= z->size && size <= z->size - place;
}

typedef struct directory {
  uint64_t place, size, count;
} directory;

static rec_status find_directory(const zip *z, directory *d) {
  if (z->size < END_SIZE) return bad_archive(z, "a shorter file");
  size_t end = z->size - END_SIZE;
  size_t last = end > COMMENT_CAP ? end - COMMENT_CAP : 0;
  while (integer_at(z, end, 4) != 0x06054b50) {
    if (end == last)
      return bad_archive(z, "no end of one: the file is truncated or of another kind");
    end--;
  }
  *d = (directory){integer_at(z, end + 16, 4), integer_at(z, end + 12, 4),
                   integer_at(z, end + 10, 2)};
  if (d->place != UINT32_MAX && d->size != UINT32_MAX && d->count != UINT16_MAX) return REC_OK;
  if (end < LOCATOR_SIZE || integer_at(z, end - LOCATOR_SIZE, 4) != 0x07064b50)
    return bad_archive(z, "one without the place of its large directory");
  uint64_t large = integer_at(z, end - LOCATOR_SIZE + 8, 8);
  if (!is_inside_archive(z, large, LARGE_END_SIZE) || integer_at(z, (size_t)large, 4) != 0x06064b50)
    return bad_archive(z, "one without its large directory");
  *d = (directory){integer_at(z, (size_t)large + 48, 8), integer_at(z, (size_t)large + 40, 8),
                   integer_at(z, (size_t)large + 32, 8)};
  return REC_OK;
}

// The numbers of an entry that its row may leave to the extra field, in their order.
typedef struct entry_row {
  uint64_t size, packed_size, header;
} entry_row;

static rec_status read_extra(const zip *z, size_t place, size_t size, entry_row *row) {
  uint64_t *const numbers[] = {&row->size, &row->packed_size, &row->header};
  for (size_t end = place + size; place + 4 <= end;) {
    uint64_t kind = integer_at(z, place, 2), length = integer_at(z, place + 2, 2);
    place += 4;
    if (length > end - place) return bad_archive(z, "an extra field beyond its end");
    size_t field_end = place + (size_t)length;
    for (int i = 0; kind == 1 && i < 3; i++) {
      if (*numbers[i] != UINT32_MAX) continue;
      if (field_end - place < 8) return bad_archive(z, "an extra field that is too short");
      *numbers[i] = integer_at(z, place, 8);
      place += 8;
    }
    place = field_end;
  }
  return REC_OK;
}

static rec_status read_directory_entry(const zip *z, size_t at, torch_entry *entry, size_t *next) {
  if (!is_inside_archive(z, at, ROW_SIZE) || integer_at(z, at, 4) != 0x02014b50)
    return bad_archive(z, "a directory with a wrong row");
  entry_row row = {integer_at(z, at + 24, 4), integer_at(z, at + 20, 4), integer_at(z, at + 42, 4)};
  size_t name = integer_at(z, at + 28, 2), extra = integer_at(z, at + 30, 2),
         comment = integer_at(z, at + 32, 2);
  if (!is_inside_archive(z, at + ROW_SIZE, name + extra + comment))
    return bad_archive(z, "a truncated directory");
  if (integer_at(z, at + 10, 2) != 0 || integer_at(z, at + 8, 2) & 1)
    return bad_archive(z, "an entry that is compressed or encrypted");
  rec_status status = read_extra(z, at + ROW_SIZE + name, extra, &row);
  if (status) return status;
  if (row.size != row.packed_size) return bad_archive(z, "an entry with two sizes");
  if (!is_inside_archive(z, row.header, HEADER_SIZE) ||
      integer_at(z, (size_t)row.header, 4) != 0x04034b50)
    return bad_archive(z, "an entry without its header");
  size_t header = (size_t)row.header;
  uint64_t data =
      row.header + HEADER_SIZE + integer_at(z, header + 26, 2) + integer_at(z, header + 28, 2);
  if (!is_inside_archive(z, data, row.size))
    return bad_archive(z, "an entry beyond the end: the file is truncated");
  *entry = (torch_entry){
      (const char *)z->bytes + at + ROW_SIZE, name, {z->bytes + data, (size_t)row.size}};
  *next = at + ROW_SIZE + name + extra + comment;
  return REC_OK;
}

rec_status torch_archive_read(const char *path, rec_mapping bytes, torch_archive *archive) {
  const zip z = {path, bytes.bytes, bytes.size};
  directory d = {0};
  *archive = (torch_archive){0};
  rec_status status = find_directory(&z, &d);
  if (status) return status;
  if (!is_inside_archive(&z, d.place, d.size) || d.count > d.size / ROW_SIZE)
    return bad_archive(&z, "a directory beyond its end");
  archive->entries = calloc((size_t)d.count + 1, sizeof *archive->entries);
  if (!archive->entries) return rec_no_memory();
  size_t at = (size_t)d.place;
  for (uint64_t i = 0; !status && i < d.count; i++) {
    status = read_directory_entry(&z, at, &archive->entries[archive->count], &at);
    if (!status) archive->count++;
  }
  if (!status) return REC_OK;
  free(archive->entries);
  *archive = (torch_archive){0};
  return status;
}
