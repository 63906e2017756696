// Writes safetensors files, whole or not at all.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"

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
static rec_status write_in_place(const char *path, const header *h, const rec_tensor **order, int count) {
  int handle = open(path, O_WRONLY | O_CLOEXEC);
  if (handle < 0) return write_failed(path);
  rec_status status = write_content(handle, h, order, count) ? REC_OK : write_failed(path);
  if (close(handle) != 0 && !status) status = write_failed(path);
  return status;
}

static rec_status write_whole(const char *path, const header *h, const rec_tensor **order, int count) {
  file_path part;
  int handle = open_beside(path, &part);
  if (handle < 0) return write_failed(path);
  bool written = write_content(handle, h, order, count) && fsync(handle) == 0;
  int error = errno;
  if (close(handle) && written) written = false, error = errno;
  if (written && rename(part.text, path)) written = false, error = errno;
  if (!written) unlink(part.text);
  errno = error;
  if (!written) return write_failed(path);
  flush_folder(path);
  return REC_OK;
}

rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count, const rec_metadata *metadata,
                          int metadata_count) {
  header h;
  const rec_tensor **order = in_order(tensors, count);
  if (!order) return rec_no_memory();
  rec_status status;
  struct stat about;
  if (!make_header(&h, order, count, metadata, metadata_count)) {
    status = rec_no_memory();
  } else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
    status = write_in_place(path, &h, order, count);
  } else {
    char *target = realpath(path, NULL);  // a link stays a link to the new content
    status = write_whole(target ? target : path, &h, order, count);
    free(target);
  }
  free(h.text);
  free(order);
  return status;
}
