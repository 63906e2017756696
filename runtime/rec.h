// librec: tensors, tensor files, compiled libraries and their recurrences, from C.
//
//   rec_module *module;
//   if (rec_module_open("mamba2.so", &module)) puts(rec_message());
//   const rec_recurrence *ssd = rec_module_find(module, "ssd");
//
// Every function that can fail returns a rec_status and leaves one line of text for rec_message().
// Nothing here ends the process or prints; threads may use different objects at the same time.
#ifndef REC_H
#define REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/abi/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Errors: rec_status is in launch.h -------------------------------------------------------

// The class of a status in words ("bad argument"); never NULL.
const char *rec_status_text(rec_status status);

// This thread's message of the last call that failed: one line, what was expected and what was
// found; "" before any.
const char *rec_message(void);

// ---- Element types and tensors ---------------------------------------------------------------

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

// ---- Tensor files: safetensors ---------------------------------------------------------------

typedef struct rec_file rec_file;

// Maps a file and checks all of its header; the tensors' bytes are read when they are used. A file
// that is truncated, or whose tensors overlap, leave holes, repeat names or have other sizes than
// their shapes say, is refused.
rec_status rec_file_open(const char *path, rec_file **file);
// The same for bytes in memory, which must outlive the file; `path` stands in messages.
rec_status rec_file_from_memory(const char *path, const void *bytes, size_t size, rec_file **file);
void rec_file_close(rec_file *file);  // NULL is allowed

const char *rec_file_path(const rec_file *file);
int rec_file_count(const rec_file *file);
// in the order of their bytes
const rec_tensor *rec_file_tensor(const rec_file *file, int index);
const rec_tensor *rec_file_find(const rec_file *file, const char *name);  // NULL: not there
const char *rec_file_metadata(const rec_file *file, const char *key);     // NULL: not there

typedef struct rec_metadata {
  const char *key, *value;
} rec_metadata;

// Writes a file whole or not at all: beside its place, flushed to the disk, then renamed.
// `metadata` may be NULL.
rec_status rec_file_write(const char *path, const rec_tensor *tensors, int count,
                          const rec_metadata *metadata, int metadata_count);

// ---- Recurrences -----------------------------------------------------------------------------

typedef enum rec_kind { REC_INPUT, REC_PARAM, REC_STATE, REC_OUTPUT, REC_LAG } rec_kind;

typedef struct rec_axis {
  const char *name;
  int64_t size;            // -1: told by the tensors at run time
  const char *expression;  // a run-time size that follows from others ("2 * D"), else NULL
} rec_axis;

// An input, parameter, state, output or lag buffer ("x.lag").
typedef struct rec_variable {
  const char *name;
  rec_kind kind;
  int axis_count;
  const int *axes;  // positions in the signature's axes, in the order of memory
  bool complex;     // two numbers an entry, a last axis of 2
  int64_t depth;    // REC_LAG: steps it holds, oldest first; else 0
} rec_variable;

typedef struct rec_signature {
  const char *name;
  const char *doc;         // may be NULL
  rec_dtype token_type;    // of inputs and outputs
  rec_dtype carried_type;  // of parameters, states, lag buffers and their gradients
  int axis_count;
  const rec_axis *axes;
  int variable_count;
  const rec_variable *variables;  // as declared, then the lag buffers
} rec_signature;

typedef struct rec_module rec_module;
typedef struct rec_recurrence rec_recurrence;

// Loads a library made by recc. Another major number of the binary interface is refused.
rec_status rec_module_open(const char *path, rec_module **module);
void rec_module_close(rec_module *module);                  // NULL is allowed
const char *rec_module_manifest(const rec_module *module);  // JSON; "" for a module of source text
int rec_module_count(const rec_module *module);
const rec_recurrence *rec_module_recurrence(const rec_module *module, int index);
const rec_recurrence *rec_module_find(const rec_module *module, const char *name);  // NULL: none
const rec_signature *rec_recurrence_signature(const rec_recurrence *recurrence);

// Numbers of one entry (batch or sequence) and, for inputs and outputs, of one step of a variable.
int64_t rec_variable_numbers(const rec_signature *signature, int variable,
                             const int64_t *axis_sizes);

// Where a recurrence runs. Every device works with every module, except `simt` and `cuda`. They run
// the GPU code of libraries that were compiled with --target simt, or sm_80 and others.
typedef struct rec_device rec_device;
const rec_device *rec_device_find(const char *name);  // NULL: no such device
const char *rec_device_names(void);                   // "host, reference, .."
// The element types a device computes in, and so those of a call's buffers.
rec_dtype rec_device_type(const rec_device *device, rec_dtype compiled);

// One run over dense buffers. The arrays run over the signature's variables; absent buffers are
// NULL.
//   value     inputs, parameters: read; outputs: written; states, lag buffers: before the run, or NULL for zero
//   final     states, lag buffers: after the run
//   gradient  inputs, parameters: written; outputs: cotangent, or NULL for zero; states, lag buffers: written
//   d_final   states, lag buffers: cotangent of `final`, or NULL for zero
typedef struct rec_call {
  int64_t batch, time, sequences;
  const int32_t *cu_seqlens;  // NULL, or sequences + 1 offsets into time (then batch is 1)
  const int64_t *axis_sizes;
  void **value, **final, **gradient, **d_final;
} rec_call;

typedef struct rec_run_options {
  bool backward;
  bool step;       // token by token through the single-step form; forward only
  bool recompute;  // backward gets nothing from forward
  bool single;     // reference: rounds every number to f32, as a plain f32 loop does
  // and with it: a loop that is given what depends on parameters alone, rounded once
  bool prepared;
  int64_t threads;  // 0: as many as there are processors
  // GPUs: time slices that run side by side (rec_sizes); 0: as many as there is room for
  int64_t time_slices;
  // device simt: a rec_simt_options (compiler/abi/simt_options.h), or NULL
  void *simt;
  int32_t device_number;  // as in rec_launch
} rec_run_options;

rec_status rec_run(const rec_recurrence *recurrence, const rec_device *device, const rec_call *call,
                   const rec_run_options *options);

#ifdef __cplusplus
}
#endif

#endif
