#include "runtime/train/model/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json_file.h"
#include "runtime/torch_file.h"

enum { MOST_FILES = 1000 };

typedef struct tensor_file {
  rec_file *safetensors;  // or
  torch_file *torch;
  char *name;
} tensor_file;

struct tensor_folder {
  char *path;
  tensor_file files[MOST_FILES];
  int file_count;
  const rec_tensor **tensors;  // in the order of their names
  int count;
};

// ---- JSON as Python writes it -------------------------------------------------------------------

// Numbers that JSON has no form for: as strings that begin with a mark they pass the parser. Each
// string is as long as its word, so that messages name the place in the file.
static const char *const bare_words[] = {"Infinity", "-Infinity", "NaN"};
enum { MARK = 1 };

static char *mark_bare_words(const char *text, size_t size, size_t *length) {
  char *marked = NULL;
  FILE *out = open_memstream(&marked, length);
  bool quoted = false;
  for (size_t at = 0; out && at < size;) {
    const char *word = NULL;
    for (int i = 0; i < 3 && !quoted && !word; i++)
      if (size - at >= strlen(bare_words[i]) &&
          !memcmp(text + at, bare_words[i], strlen(bare_words[i])))
        word = bare_words[i];
    if (text[at] == '"') quoted = !quoted;
    if (word)
      fprintf(out, "\"%c%s\"", MARK, word + 3);
    else
      putc(text[at], out);
    if (quoted && text[at] == '\\' && at + 1 < size) putc(text[++at], out);
    at += word ? strlen(word) : 1;
  }
  if (out) fclose(out);
  return marked;
}

// From strings to what is printed as it stands.
static void make_bare(cJSON *item) {
  for (; item; item = item->next) {
    make_bare(item->child);
    if (!cJSON_IsString(item) || item->valuestring[0] != MARK) continue;
    for (int i = 0; i < 3; i++)
      if (!strcmp(item->valuestring + 1, bare_words[i] + 3) &&
          cJSON_SetValuestring(item, bare_words[i]))
        item->type = (item->type & ~cJSON_String) | cJSON_Raw;
  }
}

rec_status folder_read_json(const char *folder, const char *name, cJSON **json) {
  rec_mapping bytes;
  file_path path = rec_path("%s/%s", folder, name);
  *json = NULL;
  rec_status status = rec_map(path.text, &bytes);
  if (status) return status;
  size_t size;
  char *text = mark_bare_words(bytes.bytes, bytes.bytes ? bytes.size : 0, &size);
  status = text ? json_read_text(path.text, text, size, json) : rec_no_memory();
  free(text);
  rec_unmap(&bytes);
  if (!status) make_bare((*json)->child);
  return status;
}

// ---- files --------------------------------------------------------------------------------------

static int file_tensors(const tensor_file *f) {
  return f->safetensors ? rec_file_count(f->safetensors) : torch_file_count(f->torch);
}

static const rec_tensor *file_tensor(const tensor_file *f, int i) {
  return f->safetensors ? rec_file_tensor(f->safetensors, i) : torch_file_tensor(f->torch, i);
}

static rec_status add_tensor_file(tensor_folder *folder, const char *name) {
  for (int i = 0; i < folder->file_count; i++)
    if (!strcmp(folder->files[i].name, name)) return REC_OK;
  if (folder->file_count == MOST_FILES)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected at most %d files, found more", folder->path,
                    MOST_FILES);
  tensor_file *f = &folder->files[folder->file_count];
  file_path path = rec_path("%s/%s", folder->path, name);
  f->name = strdup(name);
  if (!f->name) return rec_no_memory();
  folder->file_count++;
  return rec_ends_with(name, ".bin") ? torch_file_open(path.text, &f->torch)
                                     : rec_file_open(path.text, &f->safetensors);
}

// An index names files beside it, no others.
static rec_status add_indexed(tensor_folder *folder, const char *index) {
  cJSON *json;
  rec_status status = folder_read_json(folder->path, index, &json);
  if (status) return status;
  const cJSON *map = json_get(json, "weight_map"), *item;
  if (!cJSON_IsObject(map))
    status =
        rec_fail(REC_ERROR_FORMAT, "%s/%s: expected a weight_map, found none", folder->path, index);
  cJSON_ArrayForEach(item, map) {
    if (!status && (!cJSON_IsString(item) || strchr(item->valuestring, '/')))
      status = rec_fail(REC_ERROR_FORMAT, "%s/%s: expected the name of a file for '%.200s'",
                        folder->path, index, item->string);
    if (!status) status = add_tensor_file(folder, item->valuestring);
  }
  cJSON_Delete(json);
  return status;
}

static rec_status add_files(tensor_folder *folder) {
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                      "pytorch_model.bin", "pytorch_model.bin.index.json"};
  for (int i = 0; i < 4; i++)
    if (!access(rec_path("%s/%s", folder->path, names[i]).text, F_OK))
      return i % 2 ? add_indexed(folder, names[i]) : add_tensor_file(folder, names[i]);
  return rec_fail(REC_ERROR_FILE, "%s: expected model.safetensors or pytorch_model.bin, found none",
                  folder->path);
}

// ---- tensors ------------------------------------------------------------------------------------

static int tensors_by_name(const void *a, const void *b) {
  return strcmp((*(const rec_tensor *const *)a)->name, (*(const rec_tensor *const *)b)->name);
}

static rec_status collect_tensors(tensor_folder *folder) {
  int count = 0;
  for (int i = 0; i < folder->file_count; i++) count += file_tensors(&folder->files[i]);
  folder->tensors = calloc((size_t)count + 1, sizeof *folder->tensors);
  if (!folder->tensors) return rec_no_memory();
  for (int i = 0; i < folder->file_count; i++)
    for (int k = 0; k < file_tensors(&folder->files[i]); k++)
      folder->tensors[folder->count++] = file_tensor(&folder->files[i], k);
  qsort(folder->tensors, (size_t)count, sizeof *folder->tensors, tensors_by_name);
  for (int i = 1; i < count; i++)
    if (!strcmp(folder->tensors[i - 1]->name, folder->tensors[i]->name))
      return rec_fail(REC_ERROR_FORMAT, "%s: expected each tensor once, found '%.200s' twice",
                      folder->path, folder->tensors[i]->name);
  return REC_OK;
}

rec_status tensor_folder_open(const char *path, tensor_folder **out) {
  *out = NULL;
  tensor_folder *folder = calloc(1, sizeof *folder);
  if (folder) folder->path = strdup(path);
  rec_status status = folder && folder->path ? add_files(folder) : rec_no_memory();
  if (!status) status = collect_tensors(folder);
  if (status)
    tensor_folder_close(folder);
  else
    *out = folder;
  return status;
}

void tensor_folder_close(tensor_folder *folder) {
  if (!folder) return;
  for (int i = 0; i < folder->file_count; i++) {
    rec_file_close(folder->files[i].safetensors);
    torch_file_close(folder->files[i].torch);
    free(folder->files[i].name);
  }
  free(folder->tensors);
  free(folder->path);
  free(folder);
}

int tensor_folder_count(const tensor_folder *folder) { return folder->count; }

const rec_tensor *tensor_folder_tensor(const tensor_folder *folder, int index) {
  return folder->tensors[index];
}

const rec_tensor *tensor_folder_find(const tensor_folder *folder, const char *name) {
  const rec_tensor key = {.name = name}, *wanted = &key;
  const rec_tensor **found = folder->count
                                 ? bsearch(&wanted, folder->tensors, (size_t)folder->count,
                                           sizeof *folder->tensors, tensors_by_name)
                                 : NULL;
  return found ? *found : NULL;
}
