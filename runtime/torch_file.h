// Reads the files of torch.save: a zip archive of plain entries, in it a pickle that says which
// tensors there are, and their bytes.
//
//   NAME/data.pkl    {"w": tensor(storage "0", offset 0, shape [2,3], strides [3,1])}
//   NAME/data/0      the bytes of storage 0
//
// A pickle is a program; this reads the few instructions that dictionaries of tensors are made of
// and names the first other one. Nothing that a file says is run, and no size is believed before
// the bytes are there.
#pragma once

#include "runtime/internal.h"

typedef struct torch_file torch_file;

rec_status torch_file_open(const char *path, torch_file **file);
// The same for bytes in memory, which must outlive the file.
rec_status torch_file_from_memory(const char *path, const void *bytes, size_t size,
                                  torch_file **file);
void torch_file_close(torch_file *file);  // NULL is allowed
int torch_file_count(const torch_file *file);
const rec_tensor *torch_file_tensor(const torch_file *file, int index);

// ---- torch_zip.c --------------------------------------------------------------------------------

typedef struct torch_entry {
  const char *name;  // not ended by a NUL
  size_t name_size;
  rec_mapping bytes;
} torch_entry;

typedef struct torch_archive {
  torch_entry *entries;
  int count;
} torch_archive;

// The caller frees `entries`; they point into `bytes`.
rec_status torch_archive_read(const char *path, rec_mapping bytes, torch_archive *archive);

// ---- torch_pickle.c -----------------------------------------------------------------------------

// A tensor as the pickle describes it; nothing of it is checked against the storage.
typedef struct torch_tensor {
  const char *name, *storage;  // NUL-ended, in the pickle's memory
  rec_dtype dtype;
  int64_t offset;  // in elements
  int rank;
  const int64_t *shape, *strides;
} torch_tensor;

typedef struct torch_pickle {
  torch_tensor *tensors;
  int count;
  rec_blocks memory;  // of everything above
} torch_pickle;

rec_status torch_pickle_read(const char *path, rec_mapping bytes, torch_pickle *pickle);
void torch_pickle_free(torch_pickle *pickle);
