// librec: tensors, tensor files, compiled libraries and their recurrences, from C.
//
//   rec_module *module;
//   rec_run *run;
//   if (rec_module_open("mamba2.so", &module) || rec_run_new(rec_module_find(module, "ssd"), ...)) puts(rec_message());
//
// Every function that can fail returns a rec_status and leaves one line of text for rec_message(). Nothing here ends the
// process, prints, or keeps global state: threads may use different objects at the same time.
#ifndef REC_H
#define REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Errors ------------------------------------------------------------------------------------------------

typedef enum rec_status {
  REC_OK = 0,
  REC_BAD_ARGUMENT = 1,  // a name, shape, type or size that does not fit
  REC_NOT_FOUND = 2,     // no such file, recurrence or tensor
  REC_IO = 3,            // the operating system refused: disk full, permissions
  REC_BAD_FILE = 4,  // a file that is not what it should be: truncated, malformed, another version
  REC_NO_MEMORY = 5,
  REC_UNSUPPORTED = 6,  // legal, but not by this device or library
  REC_BAD_PROGRAM = 7,  // a .rec file with errors
  REC_INTERNAL = 8      // a bug of rec
} rec_status;

// The class of a status in words ("bad argument"); never NULL.
const char *rec_status_text(rec_status status);

// This thread's message of the last call that failed: one line, what was expected and what was found; "" before any.
const char *rec_message(void);

// ---- Element types and tensors -----------------------------------------------------------------------------

typedef enum rec_dtype {
  REC_BOOL,
  REC_U8,
  REC_I8,
  REC_F8_E5M2,
  REC_F8_E4M3,
  REC_I16,
  REC_U16,
  REC_F16,
  REC_BF16,
  REC_I32,
  REC_U32,
  REC_F32,
  REC_F64,
  REC_I64,
  REC_U64,
  REC_DTYPE_COUNT
} rec_dtype;

const char *rec_dtype_name(rec_dtype dtype);              // as in safetensors files: "F32", "BF16"
bool rec_dtype_find(const char *name, rec_dtype *dtype);  // false: no such type
size_t rec_dtype_size(rec_dtype dtype);                   // bytes of an element
bool rec_dtype_is_real(rec_dtype dtype);                  // a floating-point type

// A dense row-major tensor, a view of memory that someone else owns. Its bytes need not be aligned.
typedef struct rec_tensor {
  const char *name;
  rec_dtype dtype;
  int rank;
  const int64_t *shape;
  void *data;
  size_t bytes;
} rec_tensor;

int64_t rec_tensor_elements(const rec_tensor *tensor);
// "F32 [2,37,4]", as messages show a tensor's type and shape. Returns `text`.
char *rec_shape_text(char *text, size_t size, rec_dtype dtype, int rank, const int64_t *shape);

// Elements of a real type into float or double and back (round to nearest, ties to even).
rec_status rec_convert(void *to, rec_dtype to_type, const void *from, rec_dtype from_type,
                       int64_t count);

// ---- Tensor files: safetensors -----------------------------------------------------------------------------

typedef struct rec_file rec_file;

// Maps a file and checks all of its header; the tensors' bytes are read when they are used. A file that is truncated, or
// whose tensors overlap, leave holes, repeat names or have other sizes than their shapes say, is refused.
rec_status rec_file_open(const char *path, rec_file **file);
// The same for bytes in memory, which must outlive the file; `path` stands in messages.
rec_status rec_file_from_memory(const char *path, const void *bytes, size_t size, rec_file **file);
void rec_file_close(rec_file *file);  // NULL is allowed

const char *rec_file_path(const rec_file *file);
int rec_file_count(const rec_file *file);
const rec_tensor *rec_file_tensor(const rec_file *file, int index);  // in the order of their bytes
const rec_tensor *rec_file_find(const rec_file *file, const char *name);  // NULL: not there
const char *rec_file_metadata(const rec_file *file, const char *key);     // NULL: not there

typedef struct rec_metadata {
  const char *key, *value;
} rec_metadata;

// Writes a file whole or not at all: beside its place, flushed to the disk, then renamed. `metadata` may be NULL.
rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count,
                          const rec_metadata *metadata, int metadata_count);

#ifdef __cplusplus
}
#endif

#endif
