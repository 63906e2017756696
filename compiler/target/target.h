// From kernels to object code.
//
// codegen_compile lowers each kernel once per clone (x86-64-v2, -v3, -v4; aarch64) and emits
// relocatable objects, one for each clone of a processor. The support code finds the functions by
// their symbols (codegen_kernel.symbols) and calls them as compiler/abi/frame.h says. Tables,
// manifest and entry points of the library go into the first of them as blobs and thunks, so that
// artifact/ needs no LLVM. Kernels with the same symbol are one function.
#pragma once

#include "compiler/base/pass.h"
#include "compiler/emit/link.h"
#include "compiler/kernel/description.h"

// Constant data of the library: bytes, and addresses of symbols stored inside them (8 bytes at each
// offset).
typedef struct codegen_address {
  int64_t offset;
  const char *symbol;
} codegen_address;

typedef struct codegen_blob {
  const char *symbol;
  const void *bytes;
  int64_t size;
  const codegen_address *addresses;
  int address_count;
  bool exported;  // visible to users of the library; else only inside it
} codegen_blob;

// An entry point: int SYMBOL(const void *a, const void *b) { return CALLEE(&DATA, a, b); }, with so
// many arguments. Of a foreign runtime: up to four arguments and a result of any types that
// registers for integers take.
typedef struct codegen_thunk {
  const char *symbol, *callee, *data;
  bool foreign;
  int arguments;  // 1 to 4
} codegen_thunk;

typedef struct codegen_input {
  const kernel *const *kernels;
  int kernel_count;
  const codegen_blob *blobs;
  int blob_count;
  const codegen_thunk *thunks;
  int thunk_count;
} codegen_input;

// For --emit=report and the test that holds functions small: instructions before LLVM's passes.
typedef struct codegen_function_size {
  const char *symbol;
  int instructions;
  int barriers;  // GPU: calls that all threads of a block meet in
} codegen_function_size;

typedef VEC(codegen_function_size) codegen_function_sizes;

typedef struct codegen_object {
  codegen_processor processor;
  VEC(link_object) parts;       // one for each clone; then what else belongs to the library
  VEC(codegen_kernel) kernels;  // in the order given
  codegen_function_sizes functions;
  const char *llvm, *assembly;  // with options.text
} codegen_object;

// How code is made of plans: for the host the passes of all parts together, for GPUs those of the
// module and its images.
enum { CODE_LOWER, CODE_OPTIMISE, CODE_EMIT, CODE_PASSES };
extern const pass_stage code_stage;

codegen_object *codegen_compile(arena *a, codegen_input input, codegen_options options);
// Whether an earlier kernel has the same symbol.
bool codegen_is_lowered(const kernel *const *kernels, int index);

// The same beside what the caller does meanwhile, such as the code for GPUs. The end waits for it.
typedef struct codegen_job codegen_job;
codegen_job *codegen_begin(arena *a, codegen_input input, codegen_options options);
codegen_object *codegen_end(codegen_job *job);

// Constant data that is known later than kernels and tables: an object of its own.
link_object codegen_data(arena *a, const codegen_blob *blobs, int count,
                         codegen_processor processor);

// ---- GPU: PTX for NVIDIA, and the same kernels for the executor (compiler/abi/gpu_frame.h) ----

typedef struct codegen_gpu_image {
  codegen_gpu_target target;
  const char *text;           // PTX, or with options.text LLVM IR of what the executor runs
  link_object object;         // GPU_SIMT: to be linked into the library
  device_class device_class;  // the device class of its kernels
  int shared_bytes;           // the most that a thread block of a kernel has
  const char *cubin;          // machine code (artifact_assemble_begin); NULL: none
  size_t cubin_bytes;
  const char *said;  // by the assembler, where it was asked what kernels take
} codegen_gpu_image;

typedef struct codegen_gpu_object {
  VEC(codegen_gpu_kernel) kernels;  // in the order given
  VEC(codegen_gpu_image) images;
  codegen_function_sizes functions;  // before LLVM's passes
  // with options.text: 16 hexadecimal digits, of the module before LLVM's passes
  const char *hash;
} codegen_gpu_object;

// One module for all kernels, and in it `rec_gpu_sum`. Kernels with the same symbol are one
// function. The image for a target has those of its class.
codegen_gpu_object *codegen_gpu_compile(arena *a, const kernel *const *kernels, int count,
                                        codegen_gpu_options options);
