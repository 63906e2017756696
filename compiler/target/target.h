/* From kernels to object code, and from objects to a shared library.
 *
 * codegen_compile lowers each kernel once per clone (x86-64-v2, -v3, -v4) and emits relocatable objects, one for each
 * clone. The support code finds the functions by their symbols (codegen_kernel.symbols) and calls them as
 * runtime/support/frame.h says. Tables, manifest and entry points of the library go into the first of them as blobs and
 * thunks, so that nothing outside this folder speaks LLVM. Kernels with the same symbol are one function.
 */
#ifndef REC_TARGET_TARGET_H
#define REC_TARGET_TARGET_H

#include "compiler/base/number.h"
#include "compiler/schedule/kernel.h"

typedef enum codegen_clone {
  CLONE_V2, /* x86-64-v2: 128-bit vectors */
  CLONE_V3, /* x86-64-v3: 256-bit vectors, FMA */
  CLONE_V4, /* x86-64-v4: AVX-512 */
  CLONE_COUNT,
  CLONE_GPU = CLONE_COUNT /* no clone of the host: code for one GPU thread, scalars */
} codegen_clone;

/* One memory tensor of a kernel: entry `i` describes slots[i] of the frame. Parts of a tensor (real and imaginary part,
 * the entries of a lag buffer) share a slot; they are offsets inside it. */
typedef struct codegen_slot {
  tile_role
      role; /* INPUT, PARAM, STATE (h0), D_OUTPUT, D_NEXT_STATE (d.hT); OUTPUT, NEXT_STATE (hT), D_INPUT,
                           D_PARAM, D_STATE (d.h0) */
  int tensor, lag; /* position in body.tensors or in body.lags; the other is -1 */
  bool time;       /* one entry per step: time_stride is used */
  bool per_batch;  /* one entry per batch entry; false for parameters and their gradients */
  bool narrow;     /* stored in the 16-bit type of tokens, if that is one; sums are not */
  bool written;
  bool
      accumulated; /* the kernel ADDS to the entries: the caller zeroes them before the first instance runs */
  bool single;  /* GPU: where one copy of what is accumulated is enough, the kernel writes the tensor itself, told by
                   a copy stride of 0 */
  axis_set
      summed; /* accumulated: instances that differ only in these grid axes (and in the batch entry, where
                           per_batch is false) add to the same entries; at one time only one of them may run, or
                           each has a copy of its own (a partial sum) */
} codegen_slot;

/* Bytes as a function of the sizes at run time: constant + per_instance * (last - first) + sum of terms. */
typedef struct codegen_bytes_term {
  int64_t coefficient;
  axis_set axes; /* times the product of the sizes of these axes */
} codegen_bytes_term;

typedef struct codegen_bytes {
  int64_t constant, per_instance;
  VEC(codegen_bytes_term) terms;
} codegen_bytes;

/* Adds a term to those of the same axes. */
void codegen_bytes_add(arena *a, codegen_bytes *bytes, codegen_bytes_term term);

typedef struct codegen_kernel {
  const kernel *kernel;
  const char *symbols[CLONE_COUNT]; /* NULL: clone not asked for */
  VEC(codegen_slot) slots;
  codegen_bytes scratch; /* 64-byte aligned memory for one call; the largest of the clones */
  /* Instances of one batch entry: product over kernel.grid_axes of the axis size, times ceil(size of lane_axis /
   * lane_block) if there is a lane axis. Their number in a call is first..last-1; axes in nest order, lane blocks last. */
  codegen_bytes kept; /* chunk form: numbers, not bytes, of the state type that are saved of each chunk before its states */
  bool reads_saved;  /* frame.saved must hold the chunk-start states and these (BACKWARD with states) */
  bool writes_saved; /* frame.saved is written unless NULL */
  bool time_splits;  /* no state: any range of steps may be given to a call of its own */
  bool joins;        /* GPU: any parts of the steps, each from what kernel.ends left of those before it */
  int chunk;         /* steps between saved states */
} codegen_kernel;

/* Elements of the state type that one saved chunk-start state takes (frame.saved_chunk_stride must be at least that and
 * codegen_kernel.kept). */
int64_t codegen_saved_elements(const recurrence *recurrence, const int64_t *axis_sizes);

/* Constant data of the library: bytes, and addresses of symbols stored inside them (8 bytes at each offset). */
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
  bool exported; /* visible to users of the library; else only inside it */
} codegen_blob;

/* An entry point: int SYMBOL(const void *a, const void *b) { return CALLEE(&DATA, a, b); } */
typedef struct codegen_thunk {
  const char *symbol, *callee, *data;
} codegen_thunk;

typedef struct codegen_input {
  const kernel *const *kernels;
  int kernel_count;
  const codegen_blob *blobs;
  int blob_count;
  const codegen_thunk *thunks;
  int thunk_count;
} codegen_input;

typedef struct codegen_options {
  int level; /* -O0 .. -O3 */
  number_type dtype; /* of tokens in memory; NUMBER_F64: everything is, too */
  unsigned clones; /* bits 1 << CLONE_.. ; 0: all three */
  bool text;       /* fill `llvm` (before LLVM's passes) and `assembly` */
  const sources *lines; /* the code says which of their lines it was made from; NULL: it does not */
} codegen_options;

/* For --emit=report and the test that holds functions small: instructions before LLVM's passes. */
typedef struct codegen_function_size {
  const char *symbol;
  int instructions;
} codegen_function_size;

/* A relocatable object in memory. */
typedef struct link_object {
  const char *name; /* for messages */
  const unsigned char *bytes;
  size_t size;
} link_object;

typedef struct codegen_object {
  VEC(link_object) parts; /* one for each clone; then what else belongs to the library */
  VEC(codegen_kernel) kernels; /* in the order given */
  VEC(codegen_function_size) functions;
  const char *llvm, *assembly;                        /* with options.text */
  double build_seconds, passes_seconds, emit_seconds; /* for --time-report; the last two of all parts together */
} codegen_object;

/* What a kernel's slots, scratch and symbols are, without compiling it (tables are laid out before codegen_compile). */
codegen_kernel codegen_describe(arena *a, const kernel *kernel, codegen_options options);

codegen_object *codegen_compile(arena *a, codegen_input input, codegen_options options);

/* The same beside what the caller does meanwhile, such as the code for GPUs. The end waits for it. */
typedef struct codegen_job codegen_job;
codegen_job *codegen_begin(arena *a, codegen_input input, codegen_options options);
codegen_object *codegen_end(codegen_job *job);

/* Constant data that is known later than kernels and tables: an object of its own. */
link_object codegen_data(arena *a, const codegen_blob *blobs, int count);

/* ---- GPU: PTX for NVIDIA, and the same kernels for the executor (runtime/support/gpu_frame.h) ---- */

/* Rows of tokens that may be copied in bulk (sm_90a): tensor maps of the kernel's parameter. */
typedef struct codegen_gpu_map {
  int slot;
  int columns;    /* side by side in memory; a step has a multiple of them */
  int box, steps; /* columns and steps of a copy */
  int swizzle;    /* bytes of a row in shared memory whose pieces trade places; 0: they do not */
} codegen_gpu_map;

typedef struct codegen_gpu_kernel {
  codegen_kernel base;    /* slots and flags; scratch: of one thread block; no symbols */
  const char *symbol;     /* NULL: not made, `why_not` tells why */
  const char *why_not;
  int threads;            /* of a block */
  int shared_bytes;       /* dynamic shared memory of a block */
  int parameter_bytes;
  VEC(codegen_gpu_map) maps; /* from byte maps_at of the parameter on */
  int maps_at;
  int last_at;            /* byte of the parameter where its rec_gpu_last begins; 0: there is none (kernel.sums) */
  int sums;               /* how many tasks that has */
  double bulk_gain;       /* what they save of a chunk, in multiply-adds (kernel/gpu/schedule.c) */
  int bulk_rows, rows;    /* of a chunk: arguments whose rows may be copied in bulk, all whose rows are copied */
  int nests;              /* of a chunk: all threads meet between one and the next */
  int group_products, products; /* of a chunk: by warpgroups, all on tensor cores */
  int left;               /* products of a chunk whose result stays in registers, as the left factor of others */
  double operand_bytes;   /* of shared memory that products of a chunk read */
  double group_share;     /* what part of all products' multiply-adds warpgroups make */
  int64_t history_bytes;  /* of base.scratch: states before each chunk of a group, made again */
  int64_t home_bytes;     /* cotangents of the states of all passes, between groups */
  int64_t sum_bytes;      /* what passes add up in a group */
  codegen_bytes ends;     /* numbers that are kept of a part of time: of kernel.ends, or of a kernel that makes them */
  bool is_second;         /* PART_BACK, in one function with PART (kernel.beside): frame.back_items are its items */
  int column_blocks;      /* makers of parts: blocks of the lane axis behind its own, for the columns of a matrix */
} codegen_gpu_kernel;

typedef enum codegen_gpu_target {
  GPU_SM_80, /* runs on every later device, too */
  GPU_SM_90A,
  GPU_SM_100A,
  GPU_SM_120,
  GPU_SIMT, /* the executor */
  GPU_TARGET_COUNT
} codegen_gpu_target;

typedef struct codegen_gpu_image {
  codegen_gpu_target target;
  const char *text; /* PTX, or with options.text LLVM IR of what the executor runs */
  link_object object; /* GPU_SIMT: to be linked into the library */
  kernel_room room;   /* whose kernels it has */
  int shared_bytes;   /* the most that a thread block of a kernel has */
  const char *cubin;  /* machine code (artifact_assemble); NULL: none */
  size_t cubin_bytes;
} codegen_gpu_image;

typedef struct codegen_gpu_options {
  number_type dtype; /* not NUMBER_F64 */
  bool tf32;         /* products of f32 numbers with 10 bits behind the point */
  int shared_kib;    /* schedule: shared memory that a thread block may have; 0: 99, which every device has */
  bool groups;       /* schedule: products by warpgroups */
  unsigned targets;  /* bits 1 << GPU_.. */
  bool text;
  const sources *lines; /* as codegen_options.lines */
  /* Told of each image when it is made, while others are not; or NULL. */
  void (*made)(void *context, int image, const codegen_gpu_image *made);
  void *context;
} codegen_gpu_options;

typedef struct codegen_gpu_object {
  VEC(codegen_gpu_kernel) kernels; /* in the order given */
  VEC(codegen_gpu_image) images;
  VEC(codegen_function_size) functions; /* before LLVM's passes */
  const char *hash; /* with options.text: 16 hexadecimal digits, of the module before LLVM's passes */
  double build_seconds, emit_seconds;
} codegen_gpu_object;

/* Shared memory that a thread block may have: on every device, and on those of the targets with ROOM_LARGE. */
enum { GPU_SMALL_KIB = 99, GPU_LARGE_KIB = 227 };
kernel_room codegen_gpu_room(codegen_gpu_target target);
bool codegen_gpu_has_room(codegen_gpu_target target, kernel_room room);

const char *codegen_llvm_version(arena *a);
const char *codegen_gpu_target_name(codegen_gpu_target target); /* "sm_80", .., "simt" */
int codegen_gpu_capability(codegen_gpu_target target);           /* 80: compute capability 8.0 */
bool codegen_gpu_exact(codegen_gpu_target target);               /* not for later devices */

/* What a kernel's slots, shared memory and symbol will be, without compiling it. */
codegen_gpu_kernel codegen_gpu_describe(arena *a, const kernel *kernel, codegen_gpu_options options);

/* schedule_recurrence for a GPU: of the chunk lengths that products like, the longest whose kernels keep everything on
 * chip, or the one that puts least outside. */
recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *recurrence, schedule_options schedule,
                                         codegen_gpu_options options);

/* The same with GPU_LARGE_KIB, NULL where that changes little. Kernels that come out as in `small` are those, with one symbol; the others are marked in both
 * (kernel.room). */
recurrence_kernels *codegen_gpu_schedule_large(arena *a, recurrence_kernels *small, schedule_options schedule,
                                               codegen_gpu_options options);

/* The kernels of a recurrence by room; large, groups NULL: as those before. */
typedef struct gpu_forms {
  recurrence_kernels *small, *large, *groups;
} gpu_forms;

/* The same for devices whose warpgroups multiply: `groups`, or they run the others. `has_large`: those of `large` are for some
 * other target, too; else it is no more where there are groups. */
void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, bool has_large,
                                 schedule_options schedule, codegen_gpu_options options);

/* One module for all kernels, and in it `rec_gpu_sum`. Kernels with the same symbol are one function. The image for a target
 * has those with its room. */
codegen_gpu_object *codegen_gpu_compile(arena *a, const kernel *const *kernels, int count,
                                        codegen_gpu_options options);

/* Links relocatable objects in memory into a shared library at `path` with the in-process lld. Needs libc and libm only;
 * symbols that stay undefined are an error. Returns NULL, or what went wrong (in the arena). */
const char *link_shared_library(arena *a, const link_object *objects, int count, const char *soname,
                                const char *path);

/* Name and element width for the report: "x86-64-v4", 16 for f32. */
const char *codegen_clone_name(codegen_clone clone);
int codegen_lanes(codegen_clone clone, bool f64);

#endif
