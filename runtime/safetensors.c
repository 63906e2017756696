// Reads safetensors files: u64 little-endian header size, a JSON header, then the bytes of the
// tensors.
//
//   {"w": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, "__metadata__": {"step": "7"}}
//
// The file is mapped and its header checked whole before any tensor is handed out; whatever follows
// may then trust names, shapes and sizes. A malformed file costs one clear line, never a crash.
// cJSON reads the header once it has passed the checks that cJSON itself does not make (nesting,
// escaped NULs that would cut names short).
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian, and so must the machine be"
#endif

enum { HEADER_CAP = 100 * 1000 * 1000, NESTING_CAP = 4, RANK_CAP = 64 };

typedef struct entry {
  rec_tensor tensor;
  uint64_t begin, end;
} entry;

struct rec_file {
  char *path;
  rec_mapping mapping;  // no bytes: they belong to the caller
  cJSON *header;        // names and metadata live in it
  const cJSON *metadata;
  int64_t *shapes;
  entry *entries;
  int count;
};

static rec_status not_safetensors(const rec_file *file, const char *what) {
  return rec_fail(REC_ERROR_FORMAT, "%s: not a safetensors file: %s", file->path, what);
}

static rec_status bad_tensor(const rec_file *file, const char *name, const char *what) {
  return rec_fail(REC_ERROR_FORMAT, "%s: tensor `%.200s`: %s", file->path, name, what);
}

// What cJSON lets through and must not reach it: deep nesting and NULs inside names.
static rec_status scan_header(const rec_file *file, const char *text, size_t size) {
  int depth = 0;
  bool string = false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == '\0') return not_safetensors(file, "a NUL byte in the header");
    if (string) {
      if (c == '\\') {
        if (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
          return not_safetensors(file, "a NUL character in a string of the header");
        i++;
      } else if (c == '"') {
        string = false;
      }
      continue;
    }
    if (c == '"') string = true;
    if ((c == '{' || c == '[') && ++depth > NESTING_CAP)
      return not_safetensors(file, "header nested too deeply");
    if (c == '}' || c == ']') depth--;
  }
  return REC_OK;
}

// A whole number that a double holds exactly.
static bool exact_whole(const cJSON *item, int64_t *value) {
  if (!cJSON_IsNumber(item)) return false;
  double number = item->valuedouble;
  if (!(number >= 0 && number <= 9007199254740992.0)) return false;
  *value = (int64_t)number;
  return (double)*value == number;
}

// The member `key` of an object; NULL if it is missing or there twice.
static const cJSON *member(const cJSON *object, const char *key) {
  const cJSON *found = NULL;
  for (const cJSON *item = object->child; item; item = item->next) {
    if (strcmp(item->string, key) != 0) continue;
    if (found) return NULL;
    found = item;
  }
  return found;
}

static rec_status read_tensor_shape(const rec_file *file, const cJSON *item, int64_t **shapes,
                                    entry *e) {
  const char *name = e->tensor.name;
  int64_t elements = 1, size;
  bool empty = false;
  e->tensor.shape = *shapes;
  for (const cJSON *axis = item->child; axis; axis = axis->next) {
    if (e->tensor.rank == RANK_CAP) return bad_tensor(file, name, "more than 64 axes");
    if (!exact_whole(axis, &size))
      return bad_tensor(file, name, "expected whole numbers in `shape`");
    (*shapes)[e->tensor.rank++] = size;
    // An axis of size 0 makes the product 0, yet the others must not overflow wherever sizes are
    // multiplied later.
    if (size == 0) empty = true;
    if (size && !rec_multiply(elements, size, &elements)) elements = INT64_MAX;
    if (elements > INT64_MAX / 16) return bad_tensor(file, name, "shape too large");
  }
  *shapes += e->tensor.rank;
  e->tensor.bytes = empty ? 0 : (size_t)elements * rec_dtype_size(e->tensor.dtype);
  return REC_OK;
}

static rec_status read_tensor_entry(const rec_file *file, const cJSON *item, size_t data_size,
                                    int64_t **shapes, entry *e) {
  e->tensor.name = item->string;
  const char *name = item->string;
  if (!cJSON_IsObject(item)) return bad_tensor(file, name, "expected an object in the header");
  const cJSON *dtype = member(item, "dtype"), *shape = member(item, "shape");
  const cJSON *offsets = member(item, "data_offsets");
  if (!dtype || !shape || !offsets)
    return bad_tensor(file, name, "expected `dtype`, `shape` and `data_offsets` once each");
  if (!cJSON_IsString(dtype) || !rec_dtype_find(dtype->valuestring, &e->tensor.dtype)) {
    return rec_fail(REC_ERROR_FORMAT, "%s: tensor `%.200s`: unknown dtype `%.20s`", file->path,
                    name, cJSON_IsString(dtype) ? dtype->valuestring : "");
  }
  if (!cJSON_IsArray(shape)) return bad_tensor(file, name, "expected a list in `shape`");
  int64_t begin, end;
  const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL;
  if (!first || !first->next || first->next->next || !exact_whole(first, &begin) ||
      !exact_whole(first->next, &end))
    return bad_tensor(file, name, "expected two whole numbers in `data_offsets`");
  rec_status status = read_tensor_shape(file, shape, shapes, e);
  if (status) return status;
  if (begin > end) return bad_tensor(file, name, "`data_offsets` fall");
  if ((uint64_t)end > data_size) {
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: tensor `%.200s` ends at byte %lld of %zu: the file is truncated",
                    file->path, name, (long long)end, data_size);
  }
  if ((uint64_t)(end - begin) != e->tensor.bytes) {
    char text[256];
    rec_shape_text(text, sizeof text, e->tensor.dtype, e->tensor.rank, e->tensor.shape);
    return rec_fail(REC_ERROR_FORMAT, "%s: tensor `%.200s`: expected %zu bytes for %s, found %lld",
                    file->path, name, e->tensor.bytes, text, (long long)(end - begin));
  }
  e->begin = (uint64_t)begin;
  e->end = (uint64_t)end;
  return REC_OK;
}

static int items_by_name(const void *a, const void *b) {
  return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static rec_status check_tensor_names(const rec_file *file, const cJSON *header, int count) {
  const cJSON **items = malloc(sizeof *items * (size_t)(count + 1));
  if (!items) return rec_no_memory();
  int n = 0;
  for (const cJSON *item = header->child; item; item = item->next) items[n++] = item;
  qsort(items, (size_t)n, sizeof *items, items_by_name);
  rec_status status = REC_OK;
  for (int i = 1; i < n && !status; i++)
    if (strcmp(items[i - 1]->string, items[i]->string) == 0)
      status = bad_tensor(file, items[i]->string, "named twice");
  free(items);
  return status;
}

static rec_status check_metadata(const rec_file *file, const cJSON *metadata) {
  if (!cJSON_IsObject(metadata))
    return not_safetensors(file, "expected an object in `__metadata__`");
  for (const cJSON *item = metadata->child; item; item = item->next)
    if (!cJSON_IsString(item)) return not_safetensors(file, "expected strings in `__metadata__`");
  return REC_OK;
}

static int by_place(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->tensor.name, y->tensor.name);
}

static rec_status check_data_cover(const rec_file *file, size_t data_size) {
  uint64_t at = 0;
  for (int i = 0; i < file->count; i++) {
    const entry *e = &file->entries[i];
    if (e->begin < at)
      return bad_tensor(file, e->tensor.name, "its bytes overlap another tensor's");
    if (e->begin > at) return bad_tensor(file, e->tensor.name, "unused bytes before it");
    at = e->end;
  }
  if (at != data_size)
    return rec_fail(REC_ERROR_FORMAT, "%s: %llu bytes after the last tensor", file->path,
                    (unsigned long long)(data_size - at));
  return REC_OK;
}

static rec_status read_entries(rec_file *file, unsigned char *data, size_t data_size) {
  int count = cJSON_GetArraySize(file->header);
  size_t axes = 0;
  for (const cJSON *item = file->header->child; item; item = item->next)
    for (const cJSON *part = item->child; part; part = part->next)
      axes += (size_t)cJSON_GetArraySize(part);
  file->entries = calloc((size_t)count + 1, sizeof *file->entries);
  file->shapes = malloc((axes + 1) * sizeof *file->shapes);
  if (!file->entries || !file->shapes) return rec_no_memory();
  rec_status status = check_tensor_names(file, file->header, count);
  int64_t *shapes = file->shapes;
  for (const cJSON *item = file->header->child; item && !status; item = item->next) {
    if (strcmp(item->string, "__metadata__") == 0) {
      file->metadata = item;
      status = check_metadata(file, item);
    } else {
      status = read_tensor_entry(file, item, data_size, &shapes, &file->entries[file->count]);
      if (!status) file->count++;
    }
  }
  if (status) return status;
  qsort(file->entries, (size_t)file->count, sizeof *file->entries, by_place);
  for (int i = 0; i < file->count; i++)
    file->entries[i].tensor.data = data + file->entries[i].begin;
  return check_data_cover(file, data_size);
}

static rec_status read_tensors_header(rec_file *file, unsigned char *bytes, size_t size) {
  uint64_t header_size;
  if (size < 8) return not_safetensors(file, "shorter than 8 bytes");
  memcpy(&header_size, bytes, 8);
  if (header_size > HEADER_CAP) return not_safetensors(file, "its header claims more than 100 MB");
  if (header_size > size - 8) {
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: the header's %llu bytes end beyond the file's %zu: the file is truncated "
                    "or no safetensors file",
                    file->path, (unsigned long long)header_size, size);
  }
  const char *text = (const char *)bytes + 8;
  if (header_size < 2 || text[0] != '{')
    return not_safetensors(file, "its header does not start with `{`");
  rec_status status = scan_header(file, text, header_size);
  if (status) return status;
  const char *end = NULL;
  file->header = cJSON_ParseWithLengthOpts(text, header_size, &end, 0);
  if (!cJSON_IsObject(file->header)) return not_safetensors(file, "its header is not JSON");
  for (; end < text + header_size; end++)
    if (!strchr(" \t\r\n", *end)) return not_safetensors(file, "text after the header's JSON");
  return read_entries(file, bytes + 8 + header_size, size - 8 - header_size);
}

rec_status rec_file_from_memory(const char *path, const void *bytes, size_t size, rec_file **out) {
  *out = NULL;
  rec_file *file = calloc(1, sizeof *file);
  if (file) file->path = strdup(path);
  rec_status status = file && file->path ? read_tensors_header(file, (unsigned char *)bytes, size)
                                         : rec_no_memory();
  if (status)
    rec_file_close(file);
  else
    *out = file;
  return status;
}

rec_status rec_file_open(const char *path, rec_file **out) {
  *out = NULL;
  rec_mapping mapping;
  rec_status status = rec_map(path, &mapping);
  if (!status && !mapping.bytes)
    status = rec_fail(REC_ERROR_FORMAT, "%s: not a safetensors file: empty", path);
  if (!status) status = rec_file_from_memory(path, mapping.bytes, mapping.size, out);
  if (status)
    rec_unmap(&mapping);
  else
    (*out)->mapping = mapping;
  return status;
}

void rec_file_close(rec_file *file) {
  if (!file) return;
  cJSON_Delete(file->header);
  rec_unmap(&file->mapping);
  free(file->entries);
  free(file->shapes);
  free(file->path);
  free(file);
}

const char *rec_file_path(const rec_file *file) { return file->path; }
int rec_file_count(const rec_file *file) { return file->count; }

const rec_tensor *rec_file_tensor(const rec_file *file, int index) {
  return index >= 0 && index < file->count ? &file->entries[index].tensor : NULL;
}

const rec_tensor *rec_file_find(const rec_file *file, const char *name) {
  for (int i = 0; i < file->count; i++)
    if (strcmp(file->entries[i].tensor.name, name) == 0) return &file->entries[i].tensor;
  return NULL;
}

const char *rec_file_metadata(const rec_file *file, const char *key) {
  const cJSON *item = file->metadata ? member(file->metadata, key) : NULL;
  return item ? item->valuestring : NULL;
}
