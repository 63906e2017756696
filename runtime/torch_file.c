#include "runtime/torch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct torch_file {
  char *path;
  rec_mapping mapping;  // no bytes: they belong to the caller
  torch_archive archive;
  torch_pickle pickle;
  rec_tensor *tensors;
  void **copies;  // of tensors whose elements do not lie in order
  int count;
};

static rec_status bad_torch_tensor(const torch_file *file, const char *name, const char *what) {
  return rec_fail(REC_ERROR_FORMAT, "%s: tensor `%.200s`: %s", file->path, name, what);
}

// The entry NAME of the archive's one folder.
static const torch_entry *find_archive_entry(const torch_file *file, const char *name) {
  size_t size = strlen(name);
  for (int i = 0; i < file->archive.count; i++) {
    const torch_entry *e = &file->archive.entries[i];
    const char *slash = memchr(e->name, '/', e->name_size);
    if (slash && e->name_size - (size_t)(slash + 1 - e->name) == size &&
        !memcmp(slash + 1, name, size))
      return e;
  }
  return NULL;
}

// ---- tensors ------------------------------------------------------------------------------------

// The elements of a tensor and one more than the last place that it reads; false: too many.
static bool measure_tensor(const torch_tensor *t, int64_t *elements, int64_t *end, bool *in_order) {
  int64_t reach = t->offset, wanted = 1;
  *elements = 1;
  *in_order = true;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t along;
    if (t->shape[i] == 0) return *elements = *end = 0, true;
    if (t->shape[i] > 1 && t->strides[i] != wanted) *in_order = false;
    if (!rec_multiply(t->shape[i] - 1, t->strides[i], &along) ||
        __builtin_add_overflow(reach, along, &reach) ||
        !rec_multiply(*elements, t->shape[i], elements) || *elements > INT64_MAX / 16)
      return false;
    wanted = *elements;
  }
  return !__builtin_add_overflow(reach, 1, end);
}

static void copy_in_order(const torch_tensor *t, int64_t elements, size_t size, const char *storage,
                          char *to) {
  int64_t place[16] = {0}, at = t->offset;
  for (int64_t n = 0; n < elements; n++) {
    memcpy(to + (size_t)n * size, storage + (size_t)at * size, size);
    for (int i = t->rank - 1; i >= 0; i--) {
      at += t->strides[i];
      if (++place[i] < t->shape[i]) break;
      at -= t->strides[i] * t->shape[i];
      place[i] = 0;
    }
  }
}

static rec_status make_torch_tensor(torch_file *file, const torch_tensor *t) {
  char name[300];
  int64_t elements, end;
  bool in_order;
  size_t size = rec_dtype_size(t->dtype);
  snprintf(name, sizeof name, "data/%.200s", t->storage);
  const torch_entry *storage = find_archive_entry(file, name);
  if (!storage) return bad_torch_tensor(file, t->name, "its storage is not in the file");
  if (!measure_tensor(t, &elements, &end, &in_order))
    return bad_torch_tensor(file, t->name, "its shape is too large");
  if (end > (int64_t)(storage->bytes.size / size))
    return bad_torch_tensor(file, t->name, "it ends beyond its storage: the file is truncated");
  const char *bytes = storage->bytes.bytes;
  void *data = (char *)bytes + (size_t)(elements ? t->offset : 0) * size;
  if (!in_order && elements) {
    // Strides of 0 may name more elements than there are bytes; nobody's weights are like that.
    if (elements > (int64_t)(storage->bytes.size / size))
      return bad_torch_tensor(file, t->name, "it repeats its elements");
    data = file->copies[file->count] = malloc((size_t)elements * size);
    if (!data) return rec_no_memory();
    copy_in_order(t, elements, size, bytes, data);
  }
  file->tensors[file->count++] =
      (rec_tensor){t->name, t->dtype, t->rank, t->shape, data, (size_t)elements * size};
  return REC_OK;
}

static rec_status make_torch_tensors(torch_file *file) {
  file->tensors = calloc((size_t)file->pickle.count + 1, sizeof *file->tensors);
  file->copies = calloc((size_t)file->pickle.count + 1, sizeof *file->copies);
  if (!file->tensors || !file->copies) return rec_no_memory();
  rec_status status = REC_OK;
  for (int i = 0; !status && i < file->pickle.count; i++)
    status = make_torch_tensor(file, &file->pickle.tensors[i]);
  return status;
}

// ---- files --------------------------------------------------------------------------------------

static rec_status read_torch_file(torch_file *file, rec_mapping bytes) {
  static const unsigned char pickle_first[2] = {0x80, 2};
  if (bytes.size >= 2 && !memcmp(bytes.bytes, pickle_first, 2))
    return rec_fail(REC_ERROR_UNSUPPORTED,
                    "%s: expected a zip archive, found a file of a torch older than 1.6; load and "
                    "save it with a newer one",
                    file->path);
  rec_status status = torch_archive_read(file->path, bytes, &file->archive);
  if (status) return status;
  const torch_entry *pickle = find_archive_entry(file, "data.pkl"),
                    *order = find_archive_entry(file, "byteorder");
  if (!pickle)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected an archive with data.pkl, found none",
                    file->path);
  if (order && (order->bytes.size != 6 || memcmp(order->bytes.bytes, "little", 6) != 0))
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: expected little-endian numbers, found others",
                    file->path);
  status = torch_pickle_read(file->path, pickle->bytes, &file->pickle);
  return status ? status : make_torch_tensors(file);
}

rec_status torch_file_from_memory(const char *path, const void *bytes, size_t size,
                                  torch_file **out) {
  *out = NULL;
  torch_file *file = calloc(1, sizeof *file);
  if (file) file->path = strdup(path);
  rec_status status =
      file && file->path ? read_torch_file(file, (rec_mapping){bytes, size}) : rec_no_memory();
  if (status)
    torch_file_close(file);
  else
    *out = file;
  return status;
}

rec_status torch_file_open(const char *path, torch_file **out) {
  rec_mapping mapping;
  *out = NULL;
  rec_status status = rec_map(path, &mapping);
  if (!status) status = torch_file_from_memory(path, mapping.bytes, mapping.size, out);
  if (status)
    rec_unmap(&mapping);
  else
    (*out)->mapping = mapping;
  return status;
}

void torch_file_close(torch_file *file) {
  if (!file) return;
  for (int i = 0; file->copies && i < file->pickle.count; i++) free(file->copies[i]);
  free(file->copies);
  free(file->tensors);
  torch_pickle_free(&file->pickle);
  free(file->archive.entries);
  rec_unmap(&file->mapping);
  free(file->path);
  free(file);
}

int torch_file_count(const torch_file *file) { return file->count; }

const rec_tensor *torch_file_tensor(const torch_file *file, int index) {
  return index >= 0 && index < file->count ? &file->tensors[index] : NULL;
}
