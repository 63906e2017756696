// Event files for TensorBoard. A file is a list of records, a record one protocol buffer `Event`:
//
//   8 bytes  length            1: wall time (f64)   2: step   3: "brain.Event:2", in the first record alone
//   4 bytes  its checksum      5: Summary { 1: Value { 1: tag   2: f32 } .. }
//   length   the event         7: SessionLog { 1: START }, in the second: earlier files count up to this step
//   4 bytes  its checksum
#include "runtime/train/report/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "runtime/train/report/plot.h"

static const char prefix[] = "events.out.tfevents.";

// ---- bytes --------------------------------------------------------------------------------------

uint32_t events_crc(const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// Checksums of what may hold checksums are turned and shifted.
static uint32_t masked_checksum(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static void put_fixed(FILE *out, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; i++) putc((int)(number >> 8 * i & 255), out);
}

static void put_varint(FILE *out, uint64_t number) {
  for (; number > 127; number >>= 7) putc((int)((number & 127) | 128), out);
  putc((int)number, out);
}

static size_t varint_size(uint64_t number) {
  size_t size = 1;
  for (; number > 127; number >>= 7) size++;
  return size;
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_key(FILE *out, int field, int wire) {
  put_varint(out, (uint64_t)(field << 3 | wire));
}

static void put_event_string(FILE *out, int field, const char *text, size_t size) {
  put_key(out, field, WIRE_BYTES);
  put_varint(out, size);
  fwrite(text, 1, size, out);
}

static void put_scalar(FILE *out, const event_scalar *s) {
  float value = (float)s->value;
  uint32_t bits;
  size_t tag = strlen(s->tag);
  memcpy(&bits, &value, sizeof bits);
  put_key(out, 1, WIRE_BYTES);
  put_varint(out, 1 + varint_size(tag) + tag + 5);
  put_event_string(out, 1, s->tag, tag);
  put_key(out, 2, WIRE_32);
  put_fixed(out, bits, 4);
}

// ---- records ------------------------------------------------------------------------------------

static rec_status put_record(FILE *file, const char *event, size_t size) {
  char length[8];
  for (int i = 0; i < 8; i++) length[i] = (char)((uint64_t)size >> 8 * i & 255);
  fwrite(length, 1, sizeof length, file);
  put_fixed(file, masked_checksum(events_crc(length, sizeof length)), 4);
  fwrite(event, 1, size, file);
  put_fixed(file, masked_checksum(events_crc(event, size)), 4);
  return ferror(file) ? rec_fail(REC_ERROR_FILE, "events: %s", strerror(errno)) : REC_OK;
}

// An event with the field behind its time and step: text as it stands.
static rec_status put_event(FILE *file, int64_t step, int field, const char *text, size_t size) {
  made_text event;
  double seconds = clock_seconds(CLOCK_REALTIME);
  uint64_t bits;
  memcpy(&bits, &seconds, sizeof bits);
  if (!text_open(&event)) return rec_no_memory();
  put_key(event.out, 1, WIRE_64);
  put_fixed(event.out, bits, 8);
  if (step) put_key(event.out, 2, WIRE_VARINT), put_varint(event.out, (uint64_t)step);
  put_event_string(event.out, field, text, size);
  rec_status status =
      text_close(&event) ? put_record(file, event.text, event.size) : rec_no_memory();
  free(event.text);
  return status;
}

rec_status events_put(FILE *file, int64_t step, const event_scalar *scalars, int count) {
  made_text summary;
  if (!text_open(&summary)) return rec_no_memory();
  for (int i = 0; i < count; i++) put_scalar(summary.out, &scalars[i]);
  rec_status status =
      text_close(&summary) ? put_event(file, step, 5, summary.text, summary.size) : rec_no_memory();
  free(summary.text);
  return status;
}

// ---- files --------------------------------------------------------------------------------------

void events_remove_from(const char *folder, int64_t step) {
  DIR *entries = opendir(folder);
  for (struct dirent *e; entries && (e = readdir(entries));) {
    if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0) continue;
    if (strtoll(e->d_name + sizeof prefix - 1, NULL, 10) >= step)
      unlinkat(dirfd(entries), e->d_name, 0);
  }
  if (entries) closedir(entries);
}

static rec_status put_event_file_head(FILE *file, int64_t step) {
  static const char version[] = "brain.Event:2", start[] = {1 << 3 | WIRE_VARINT, 1};
  rec_status status = put_event(file, 0, 3, version, sizeof version - 1);
  return status ? status : put_event(file, step, 7, start, sizeof start);
}

// A new file: events_remove_from has taken away what was there.
rec_status events_open(const char *folder, int64_t step, FILE **made) {
  file_path path = rec_path("%s/%s%010" PRId64, folder, prefix, step);
  events_remove_from(folder, step);
  int handle = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  *made = handle < 0 ? NULL : fdopen(handle, "w");
  if (*made) return put_event_file_head(*made, step);
  rec_status status = rec_file_failed(path.text);
  if (handle >= 0) close(handle);
  return status;
}

// ---- tables -------------------------------------------------------------------------------------

// The columns of a table that become scalars, `step` first; with `by`, tags end with that column.
typedef struct event_table {
  const char *file, *columns[4], *by;
} event_table;

static const event_table tables[] = {
    {"ranges.csv", {"to", "bits_per_byte", "bits_per_character", "bits_per_token"}, NULL},
    {"state_norm.csv", {"position", "mean", "deviation", "norm"}, "state"},
    {"remembrance.csv", {"t", "distance"}, NULL},
    {"accuracy.csv", {"length", "character_accuracy", "exact_accuracy"}, NULL},
};
enum { TABLE_COUNT = sizeof tables / sizeof *tables, MOST_COLUMNS = 16 };

static int split_cells(char *line, char *cells[MOST_COLUMNS]) {
  int count = 0;
  for (char *cell = line; cell && count < MOST_COLUMNS; count++) {
    cells[count] = cell;
    cell = strchr(cell, ',');
    if (cell) *cell++ = 0;
  }
  return count;
}

static const char *cell_of(const char *name, char *const *names, char *const *cells, int count) {
  for (int i = 0; name && i < count; i++)
    if (strcmp(names[i], name) == 0) return cells[i];
  return NULL;
}

static rec_status put_row(FILE *file, const event_table *t, char *const *names, char *const *cells,
                          int count) {
  const char *step = cell_of(t->columns[0], names, cells, count),
             *by = cell_of(t->by, names, cells, count);
  rec_status status = REC_OK;
  for (int i = 1; step && !status && i < 4 && t->columns[i]; i++) {
    const char *number = cell_of(t->columns[i], names, cells, count);
    char tag[512];
    snprintf(tag, sizeof tag, "%s%s%s", t->columns[i], by ? "/" : "", by ? by : "");
    const event_scalar scalar = {tag, number ? strtod(number, NULL) : 0};
    if (number) status = events_put(file, strtoll(step, NULL, 10), &scalar, 1);
  }
  return status;
}

static rec_status put_table(FILE *file, const event_table *t, char *csv) {
  char *names[MOST_COLUMNS], *cells[MOST_COLUMNS], *next = strchr(csv, '\n');
  rec_status status = REC_OK;
  if (!next) return REC_OK;
  *next++ = 0;
  int columns = split_cells(csv, names);
  for (char *line = next; !status && (next = strchr(line, '\n')); line = next + 1) {
    *next = 0;
    int count = split_cells(line, cells);
    status = put_row(file, t, names, cells, count < columns ? count : columns);
  }
  return status;
}

rec_status events_of_tables(const char *folder) {
  made_text events = {0};
  rec_status status = REC_OK;
  for (int i = 0; !status && i < TABLE_COUNT; i++) {
    char *csv = report_read("", folder, tables[i].file);
    if (csv && !events.out)
      status = text_open(&events) ? put_event_file_head(events.out, 0) : rec_no_memory();
    if (csv && !status) status = put_table(events.out, &tables[i], csv);
    free(csv);
  }
  return events.out ? text_save(&events, status, rec_path("%s/%sjudged", folder, prefix).text, 0)
                    : status;
}
