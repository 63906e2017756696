// Writes safetensors files, whole or not at all.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"

// Text that grows; `failed` once memory is short.
typedef struct text {
  char *bytes;
  size_t size, capacity;
  bool failed;
} text;

static void put(text *t, const char *bytes, size_t size) {
  if (t->failed) return;
  if (t->size + size > t->capacity) {
    size_t capacity = (t->size + size) * 2 + 256;
    char *grown = realloc(t->bytes, capacity);
    if (!grown) {
      t->failed = true;
      return;
    }
    t->bytes = grown;
    t->capacity = capacity;
  }
  memcpy(t->bytes + t->size, bytes, size);
  t->size += size;
}

static void put_text(text *t, const char *string) { put(t, string, strlen(string)); }

static void put_number(text *t, uint64_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
  put_text(t, digits);
}

static void put_string(text *t, const char *string) {
  put(t, "\"", 1);
  for (const char *c = string; *c; c++) {
    char escaped[8];
    if (*c == '"' || *c == '\\') {
      snprintf(escaped, sizeof escaped, "\\%c", *c);
    } else if ((unsigned char)*c < 0x20) {
      snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*c);
    } else {
      snprintf(escaped, sizeof escaped, "%c", *c);
    }
    put_text(t, escaped);
  }
  put(t, "\"", 1);
}

static void put_tensor(text *t, const rec_tensor *tensor, uint64_t begin) {
  put_string(t, tensor->name);
  put_text(t, ":{\"dtype\":\"");
  put_text(t, rec_dtype_name(tensor->dtype));
  put_text(t, "\",\"shape\":[");
  for (int i = 0; i < tensor->rank; i++) {
    if (i) put(t, ",", 1);
    put_number(t, (uint64_t)tensor->shape[i]);
  }
  put_text(t, "],\"data_offsets\":[");
  put_number(t, begin);
  put(t, ",", 1);
  put_number(t, begin + tensor->bytes);
  put_text(t, "]}");
}

// Widest element types first, so that every tensor is aligned to its type; else in the order given.
static const rec_tensor **in_order(const rec_tensor *tensors, int count) {
  const rec_tensor **order = malloc(sizeof *order * ((size_t)count + 1));
  if (!order) return NULL;
  int n = 0;
  for (size_t size = 8; size > 0; size /= 2) {
    for (int i = 0; i < count; i++) {
      if (rec_dtype_size(tensors[i].dtype) == size) order[n++] = &tensors[i];
    }
  }
  return order;
}

static void put_header(text *t, const rec_tensor **order, int count, const rec_metadata *metadata, int metadata_count) {
  put(t, "\0\0\0\0\0\0\0\0{", 9);
  if (metadata_count > 0) {
    put_text(t, "\"__metadata__\":{");
    for (int i = 0; i < metadata_count; i++) {
      if (i) put(t, ",", 1);
      put_string(t, metadata[i].key);
      put(t, ":", 1);
      put_string(t, metadata[i].value);
    }
    put_text(t, count ? "}," : "}");
  }
  uint64_t begin = 0;
  for (int i = 0; i < count; i++) {
    if (i) put(t, ",", 1);
    put_tensor(t, order[i], begin);
    begin += order[i]->bytes;
  }
  put(t, "}", 1);
  while (t->size % 8 && !t->failed) put(t, " ", 1);
  if (t->failed) return;
  uint64_t size = t->size - 8;
  memcpy(t->bytes, &size, 8);
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

static bool write_content(int handle, const text *header, const rec_tensor **order, int count) {
  if (!write_all(handle, header->bytes, header->size)) return false;
  for (int i = 0; i < count; i++) {
    if (!write_all(handle, order[i]->data, order[i]->bytes)) return false;
  }
  return true;
}

// A new file beside `path`; its name in *name.
static int open_beside(const char *path, char **name) {
  static _Atomic unsigned number;
  for (int attempt = 0; attempt < 1000; attempt++) {
    if (asprintf(name, "%s.%ld-%u.part", path, (long)getpid(), number++) < 0) {
      *name = NULL;
      errno = ENOMEM;
      return -1;
    }
    int handle = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (handle >= 0) return handle;
    free(*name);
    *name = NULL;
    if (errno != EEXIST) return -1;
  }
  return -1;
}

// A rename is on the disk once its folder is.
static void flush_folder(const char *path) {
  char *folder = strdup(path);
  if (!folder) return;
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = '\0';
  int handle = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    fsync(handle);
    close(handle);
  }
  free(folder);
}

static rec_status write_failed(const char *path) {
  return rec_fail(REC_ERROR_FILE, "%s: cannot write: %s", path, strerror(errno));
}

// Devices and pipes (/dev/stdout) are written in place: nothing may be renamed over them.
static rec_status write_in_place(const char *path, const text *header, const rec_tensor **order, int count) {
  int handle = open(path, O_WRONLY | O_CLOEXEC);
  if (handle < 0) return write_failed(path);
  rec_status status = write_content(handle, header, order, count) ? REC_OK : write_failed(path);
  if (close(handle) != 0 && !status) status = write_failed(path);
  return status;
}

static rec_status write_whole(const char *path, const text *header, const rec_tensor **order, int count) {
  char *part;
  int handle = open_beside(path, &part);
  if (handle < 0) return write_failed(path);
  bool written = write_content(handle, header, order, count) && fsync(handle) == 0;
  int error = errno;
  if (close(handle) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && rename(part, path) != 0) {
    written = false;
    error = errno;
  }
  if (!written) unlink(part);
  free(part);
  errno = error;
  if (!written) return write_failed(path);
  flush_folder(path);
  return REC_OK;
}

rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count, const rec_metadata *metadata,
                          int metadata_count) {
  text header = {0};
  const rec_tensor **order = in_order(tensors, count);
  if (!order) return rec_no_memory();
  put_header(&header, order, count, metadata, metadata_count);
  rec_status status;
  struct stat about;
  if (header.failed) {
    status = rec_no_memory();
  } else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
    status = write_in_place(path, &header, order, count);
  } else {
    char *target = realpath(path, NULL);  // a link stays a link to the new content
    status = write_whole(target ? target : path, &header, order, count);
    free(target);
  }
  free(header.bytes);
  free(order);
  return status;
}
