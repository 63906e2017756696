// Writes safetensors files, whole or not at all.
#include "runtime/tensor_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_json_string(FILE *out, const char *string) {
  putc('"', out);
  for (const char *c = string; *c; c++)
    if (*c == '"' || *c == '\\')
      fprintf(out, "\\%c", *c);
    else if ((unsigned char)*c < 0x20)
      fprintf(out, "\\u%04x", (unsigned)*c);
    else
      putc(*c, out);
  putc('"', out);
}

static void put_tensor_header(FILE *out, const rec_tensor *tensor, uint64_t begin) {
  put_json_string(out, tensor->name);
  fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", rec_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) fprintf(out, "%s%" PRId64, i ? "," : "", tensor->shape[i]);
  fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + tensor->bytes);
}

// Widest element types first, so that every tensor is aligned to its type; else in the order given.
static const rec_tensor **by_element_size(const rec_tensor *tensors, int count) {
  const rec_tensor **order = malloc(sizeof *order * ((size_t)count + 1));
  if (!order) return NULL;
  int n = 0;
  for (size_t size = 8; size > 0; size /= 2) {
    for (int i = 0; i < count; i++)
      if (rec_dtype_size(tensors[i].dtype) == size) order[n++] = &tensors[i];
  }
  return order;
}

static void put_tensors_header(FILE *out, const rec_tensor **order, int count,
                               const rec_metadata *metadata, int metadata_count) {
  putc('{', out);
  if (metadata_count > 0) {
    fputs("\"__metadata__\":{", out);
    for (int i = 0; i < metadata_count; i++) {
      if (i) putc(',', out);
      put_json_string(out, metadata[i].key);
      putc(':', out);
      put_json_string(out, metadata[i].value);
    }
    fputs(count ? "}," : "}", out);
  }
  uint64_t begin = 0;
  for (int i = 0; i < count; i++) {
    if (i) putc(',', out);
    put_tensor_header(out, order[i], begin);
    begin += order[i]->bytes;
  }
  putc('}', out);
  for (long at = ftell(out); at > 0 && at % 8; at++) putc(' ', out);
}

// The header's size, then its text, of a multiple of 8 bytes.
typedef struct header {
  char *text;
  size_t size;
} header;

static bool make_header(header *h, const rec_tensor **order, int count,
                        const rec_metadata *metadata, int metadata_count) {
  *h = (header){0};
  FILE *out = open_memstream(&h->text, &h->size);
  if (!out) return false;
  put_tensors_header(out, order, count, metadata, metadata_count);
  return fclose(out) == 0;
}

static rec_status write_failed(const char *path) {
  return rec_fail(REC_ERROR_FILE, "%s: cannot write: %s", path, strerror(errno));
}

// ---- part by part -------------------------------------------------------------------------------

struct tensor_writer {
  output file;      // of the writer that has opened it; the others have its handle alone
  file_path path;   // its place
  int64_t *places;  // by tensor, in the file
};

file_path tensor_writer_file(const tensor_writer *w) { return rec_path("%s", w->file.part); }

static bool write_at(int handle, const void *bytes, size_t size, int64_t place) {
  const char *at = bytes;
  while (size > 0) {
    size_t part = size < (1u << 30) ? size : 1u << 30;
    ssize_t written = pwrite(handle, at, part, place);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    place += written;
    size -= (size_t)written;
  }
  return true;
}

static rec_status find_tensor_places(tensor_writer *w, const tensor_plan *plan,
                                     const rec_tensor **order, const header *h) {
  int64_t place = (int64_t)(sizeof(uint64_t) + h->size);
  if (!(w->places = calloc((size_t)plan->count + 1, sizeof *w->places))) return rec_no_memory();
  for (int i = 0; i < plan->count; i++) {
    w->places[order[i] - plan->tensors] = place;
    place += (int64_t)order[i]->bytes;
  }
  return REC_OK;
}

// The file begins with its header, and has its length at once.
static rec_status begin_file(tensor_writer *w, const tensor_plan *plan, const header *h) {
  uint64_t size = h->size, all = sizeof size + h->size;
  for (int i = 0; i < plan->count; i++) all += plan->tensors[i].bytes;
  if (!output_open(&w->file, w->path.text, 0)) return write_failed(w->path.text);
  const int handle = w->file.handle;
  bool good = !ftruncate(handle, (off_t)all) && write_at(handle, &size, sizeof size, 0) &&
              write_at(handle, h->text, h->size, sizeof size);
  return good ? REC_OK : write_failed(w->path.text);
}

static rec_status join_file(tensor_writer *w, const char *file) {
  w->file.handle = open(file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (w->file.handle >= 0) return REC_OK;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected the file that rank 0 has begun to write, found none: %s; the "
                  "folder of the runs must be one that all ranks see",
                  file, strerror(errno));
}

rec_status tensor_writer_open(const char *path, const file_path *begun, const tensor_plan *plan,
                              tensor_writer **made) {
  header h = {0};
  rec_status status = REC_OK;
  tensor_writer *w = calloc(1, sizeof *w);
  const rec_tensor **order = by_element_size(plan->tensors, plan->count);
  *made = NULL;
  if (!w || !order || !make_header(&h, order, plan->count, plan->metadata, plan->metadata_count))
    status = rec_no_memory();
  if (w) w->file.handle = -1;
  if (!status) w->path = rec_path("%s", path);
  if (!status) status = find_tensor_places(w, plan, order, &h);
  if (!status) status = begun ? join_file(w, begun->text) : begin_file(w, plan, &h);
  free(h.text);
  free(order);
  if (status)
    tensor_writer_close(w);
  else
    *made = w;
  return status;
}

rec_status tensor_writer_put(tensor_writer *w, int tensor, int64_t first, const void *bytes,
                             size_t size) {
  return write_at(w->file.handle, bytes, size, w->places[tensor] + first)
             ? REC_OK
             : write_failed(w->path.text);
}

rec_status tensor_writer_flush(tensor_writer *w) {
  return fsync(w->file.handle) ? write_failed(w->path.text) : REC_OK;
}

rec_status tensor_writer_finish(tensor_writer *w) {
  return output_finish(&w->file, OUTPUT_FLUSH) ? REC_OK : write_failed(w->path.text);
}

void tensor_writer_close(tensor_writer *w) {
  if (!w) return;
  output_drop(&w->file);
  free(w->places);
  free(w);
}

// ---- at once ------------------------------------------------------------------------------------

static rec_status write_parts(const char *path, const header *h, const rec_tensor **order,
                              int count) {
  struct iovec *parts = calloc((size_t)count + 2, sizeof *parts);
  uint64_t size = h->size;
  if (!parts) return rec_no_memory();
  parts[0] = (struct iovec){&size, sizeof size};
  parts[1] = (struct iovec){h->text, h->size};
  for (int i = 0; i < count; i++) parts[i + 2] = (struct iovec){order[i]->data, order[i]->bytes};
  unsigned marked = strstr(h->text, OUTPUT_MARK_TEXT) ? OUTPUT_MARK : 0;
  bool written = output_write(path, parts, count + 2, OUTPUT_FOLLOW | OUTPUT_FLUSH | marked);
  free(parts);
  return written ? REC_OK : write_failed(path);
}

rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count,
                          const rec_metadata *metadata, int metadata_count) {
  header h = {0};
  const rec_tensor **order = by_element_size(tensors, count);
  bool made = order && make_header(&h, order, count, metadata, metadata_count);
  rec_status status = made ? write_parts(path, &h, order, count) : rec_no_memory();
  free(h.text);
  free(order);
  return status;
}
