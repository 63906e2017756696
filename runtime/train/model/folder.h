// The tensors of a Hugging Face folder, whatever its files: model.safetensors, pytorch_model.bin,
// or several files. Several files have an index (NAME.index.json), which says where each tensor is.
#pragma once

#include <cjson/cJSON.h>

#include "runtime/internal.h"

typedef struct tensor_folder tensor_folder;

rec_status tensor_folder_open(const char *path, tensor_folder **folder);
void tensor_folder_close(tensor_folder *folder);  // NULL is allowed
int tensor_folder_count(const tensor_folder *folder);
const rec_tensor *tensor_folder_tensor(const tensor_folder *folder, int index);
const rec_tensor *tensor_folder_find(const tensor_folder *folder, const char *name);
// What is in FOLDER/NAME, as JSON; the caller deletes it.
rec_status folder_read_json(const char *folder, const char *name, cJSON **json);
