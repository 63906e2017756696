// Writes safetensors files, whole or not at all.
#include "runtime/tensor_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_string(FILE *out, const char *string) {
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

static void put_tensor(FILE *out, const rec_tensor *tensor, uint64_t begin) {
  put_string(out, tensor->name);
  fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", rec_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) fprintf(out, "%s%" PRId64, i ? "," : "", tensor->shape[i]);
  fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + tensor->bytes);
}

// Widest element types first, so that every tensor is aligned to its type; else in the order given.
static const rec_tensor **in_order(const rec_tensor *tensors, int count) {
  const rec_tensor **order = malloc(sizeof *order * ((size_t)count + 1));
  if (!order) return NULL;
  int n = 0;
  for (size_t size = 8; size > 0; size /= 2) {
    for (int i = 0; i < count; i++)
      if (rec_dtype_size(tensors[i].dtype) == size) order[n++] = &tensors[i];
  }
  return order;
}

static void put_header(FILE *out, const rec_tensor **order, int count, const rec_metadata *metadata, int metadata_count) {
  putc('{', out);
  if (metadata_count > 0) {
    fputs("\"__metadata__\":{", out);
    for (int i = 0; i < metadata_count; i++) {
      if (i) putc(',', out);
      put_string(out, metadata[i].key);
      putc(':', out);
      put_string(out, metadata[i].value);
    }
    fputs(count ? "}," : "}", out);
  }
  uint64_t begin = 0;
  for (int i = 0; i < count; i++) {
    if (i) putc(',', out);
    put_tensor(out, order[i], begin);
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

static bool make_header(header *h, const rec_tensor **order, int count, const rec_metadata *metadata, int metadata_count) {
  *h = (header){0};
  FILE *out = open_memstream(&h->text, &h->size);
  if (!out) return false;
  put_header(out, order, count, metadata, metadata_count);
  return fclose(out) == 0;
}

static bool write_all(int handle, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    size_t part = size < (1u << 30) ? size : 1u << 30;
    ssize_t written = write(handle, at, part);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= (size_t)written;
  }
  return true;
}

static bool write_content(int handle, const header *h, const rec_tensor **order, int count) {
  uint64_t size = h->size;
  if (!write_all(handle, &size, sizeof size) || !write_all(handle, h->text, h->size)) return false;
  for (int i = 0; i < count; i++)
    if (!write_all(handle, order[i]->data, order[i]->bytes)) return false;
  return true;
}

// A rename is on the disk once its folder is.
static void flush_folder(const char *path) {
  file_path folder = rec_path("%s", path);
  char *slash = strrchr(folder.text, '/');
  if (slash) slash[slash == folder.text] = '\0';
  int handle = open(slash ? folder.text : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  fsync(handle);
  close(handle);
}

static rec_status write_failed(const char *path) {
  return rec_fail(REC_ERROR_FILE, "%s: cannot write: %s", path, strerror(errno));
}

// Devices and pipes (/dev/stdout) are written in place: nothing may be renamed over them.
static rec_status write_to(const char *path, const header *h, const rec_tensor **order, int count) {
  int handle = open(path, O_WRONLY | O_CLOEXEC);
  if (handle < 0) return write_failed(path);
  rec_status status = write_content(handle, h, order, count) ? REC_OK : write_failed(path);
  if (close(handle) != 0 && !status) status = write_failed(path);
  return status;
}

// ---- part by part -------------------------------------------------------------------------------

struct tensor_writer {
  file_path path, file;  // its place, and where it is until then
  int handle;
  bool unfinished;
  int64_t *places;  // by tensor, in the file
};

const file_path *tensor_writer_file(const tensor_writer *w) { return &w->file; }

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

// A new file beside `path`; its name in *part.
static int open_beside(const char *path, file_path *part) {
  static _Atomic unsigned number;
  int handle = -1;
  for (int attempt = 0; attempt < 1000 && handle < 0; attempt++) {
    *part = rec_path("%s.%ld-%u.part", path, (long)getpid(), number++);
    handle = open(part->text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (handle < 0 && errno != EEXIST) return -1;
  }
  return handle;
}

static rec_status find_places(tensor_writer *w, const tensor_plan *plan, const rec_tensor **order, const header *h) {
  int64_t place = (int64_t)(sizeof(uint64_t) + h->size);
  if (!(w->places = calloc((size_t)plan->count + 1, sizeof *w->places))) return rec_no_memory();
  for (int i = 0; i < plan->count; i++) {
    w->places[order[i] - plan->tensors] = place;
    place += (int64_t)order[i]->bytes;
  }
  return REC_OK;
}

// The file begins with its header, and has its length at once.
static rec_status begin(tensor_writer *w, const tensor_plan *plan, const header *h) {
  uint64_t size = h->size, all = sizeof size + h->size;
  for (int i = 0; i < plan->count; i++) all += plan->tensors[i].bytes;
  w->handle = open_beside(w->path.text, &w->file);
  if (w->handle < 0) return write_failed(w->path.text);
  w->unfinished = true;
  bool good = !ftruncate(w->handle, (off_t)all) && write_at(w->handle, &size, sizeof size, 0) &&
              write_at(w->handle, h->text, h->size, sizeof size);
  return good ? REC_OK : write_failed(w->path.text);
}

static rec_status join(tensor_writer *w) {
  w->handle = open(w->file.text, O_WRONLY | O_CLOEXEC);
  if (w->handle >= 0) return REC_OK;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected the file that rank 0 has begun to write, found none: %s; the folder of the runs must be one "
                  "that all ranks see",
                  w->file.text, strerror(errno));
}

// `file` NULL: a new one.
static rec_status make_writer(const char *path, const file_path *file, const tensor_plan *plan, tensor_writer **made) {
  header h = {0};
  rec_status status = REC_OK;
  tensor_writer *w = calloc(1, sizeof *w);
  const rec_tensor **order = in_order(plan->tensors, plan->count);
  *made = NULL;
  if (!w || !order || !make_header(&h, order, plan->count, plan->metadata, plan->metadata_count)) status = rec_no_memory();
  if (w) w->handle = -1;
  if (!status) w->path = rec_path("%s", path);
  if (!status && file) w->file = *file;
  if (!status) status = find_places(w, plan, order, &h);
  if (!status) status = file ? join(w) : begin(w, plan, &h);
  free(h.text);
  free(order);
  if (status)
    tensor_writer_close(w);
  else
    *made = w;
  return status;
}

rec_status tensor_writer_open(const char *path, const tensor_plan *plan, tensor_writer **made) {
  char *target = realpath(path, NULL);  // a link stays a link to the new content
  rec_status status = make_writer(target ? target : path, NULL, plan, made);
  free(target);
  return status;
}

rec_status tensor_writer_join(const char *path, const file_path *file, const tensor_plan *plan, tensor_writer **made) {
  return make_writer(path, file, plan, made);
}

rec_status tensor_writer_put(tensor_writer *w, int tensor, int64_t first, const void *bytes, size_t size) {
  return write_at(w->handle, bytes, size, w->places[tensor] + first) ? REC_OK : write_failed(w->path.text);
}

rec_status tensor_writer_flush(tensor_writer *w) {
  bool good = fsync(w->handle) == 0;
  int error = errno;
  if (close(w->handle) && good) good = false, error = errno;
  w->handle = -1;
  errno = error;
  return good ? REC_OK : write_failed(w->path.text);
}

rec_status tensor_writer_finish(tensor_writer *w) {
  if (rename(w->file.text, w->path.text)) return write_failed(w->path.text);
  w->unfinished = false;
  flush_folder(w->path.text);
  return REC_OK;
}

void tensor_writer_close(tensor_writer *w) {
  if (!w) return;
  if (w->handle >= 0) close(w->handle);
  if (w->unfinished) unlink(w->file.text);
  free(w->places);
  free(w);
}

static rec_status write_whole(const char *path, const tensor_plan *plan) {
  tensor_writer *w;
  rec_status status = tensor_writer_open(path, plan, &w);
  for (int i = 0; !status && i < plan->count; i++)
    status = tensor_writer_put(w, i, 0, plan->tensors[i].data, plan->tensors[i].bytes);
  if (!status) status = tensor_writer_flush(w);
  if (!status) status = tensor_writer_finish(w);
  tensor_writer_close(w);
  return status;
}

static rec_status write_in_place(const char *path, const tensor_plan *plan) {
  header h = {0};
  const rec_tensor **order = in_order(plan->tensors, plan->count);
  bool made = order && make_header(&h, order, plan->count, plan->metadata, plan->metadata_count);
  rec_status status = made ? write_to(path, &h, order, plan->count) : rec_no_memory();
  free(h.text);
  free(order);
  return status;
}

rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count, const rec_metadata *metadata,
                          int metadata_count) {
  const tensor_plan plan = {tensors, count, metadata, metadata_count};
  struct stat about;
  bool in_place = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
  return in_place ? write_in_place(path, &plan) : write_whole(path, &plan);
}
