// A kernel for each abstract operation, by which tools/gpu_check compares its two bodies on a GPU.
//
//   rec_op_shfl_bfly_f32({in, out}):   out[0][thread] = rec.shfl_bfly_f32(in[0][thread], in[1][thread])
//
// Blocks have 64 threads and 16 bytes of shared memory for each, which hold the thread's four words
// of in[16 ..] at the start. Pointers to shared memory are 16 times the argument's word behind its
// start, those to global memory the thread's four words. An operation without a result is seen by
// what shared memory holds after it: out[0 .. 3] are the words of the neighbour. An address counts
// from the start of shared memory. Products of warpgroups have kernels of op_kernels_sm_90a.c.
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"
#include "tools/gpu/op_kernels.h"
#include "tools/gpu/op_kernels_sm_90a.h"

enum { THREADS = GPU_OP_THREADS, WORDS = 4, ARGUMENTS = 16, WORDS_AT = ARGUMENTS * THREADS };

typedef struct op_kernel {
  emitter *e;
  gpu_op op;
  ir in, out, thread, shared;
} op_kernel;

static ir pointer_field(emitter *e, ir frame, int64_t offset) {
  ir at = element(e, LLVMInt8TypeInContext(e->context), frame, integer(e, offset));
  return LLVMBuildLoad2(e->b, e->data, at, "");
}

static ir word_of(const op_kernel *k, ir base, ir index) {
  return element(k->e, k->e->i32, base, index);
}

// The thread's own words in shared memory, or in the input behind the arguments.
static ir own_words(const op_kernel *k, ir thread, int word) {
  return int_add(k->e, int_mul(k->e, thread, integer(k->e, WORDS)), integer(k->e, word));
}

static void fill_shared(const op_kernel *k, int64_t more) {
  emitter *e = k->e;
  for (int w = 0; w < WORDS; w++) {
    ir from = word_of(k, k->in, int_add(e, own_words(k, k->thread, w), integer(e, WORDS_AT)));
    ir x = int_add(e, LLVMBuildLoad2(e->b, e->i32, from, ""), integer(e, more));
    LLVMBuildStore(e->b, x, word_of(k, k->shared, own_words(k, k->thread, w)));
  }
}

static ir argument(const op_kernel *k, int i) {
  emitter *e = k->e;
  ir at = word_of(k, k->in, int_add(e, k->thread, integer(e, i * THREADS)));
  switch (gpu_ops[k->op].arguments[i]) {
    case 'i': return LLVMBuildLoad2(e->b, e->i32, at, "");
    case 'f': return LLVMBuildLoad2(e->b, e->real, at, "");
    case 's': {
      ir row = LLVMBuildLoad2(e->b, e->i32, at, "");
      return word_of(k, k->shared, int_mul(e, row, integer(e, WORDS)));
    }
    default: return word_of(k, k->in, int_add(e, own_words(k, k->thread, 0), integer(e, WORDS_AT)));
  }
}

// What the group operations are about: one copy in a group of its own, and as many empty ones as
// may be under way.
static void start_copy(const op_kernel *k) {
  emitter *e = k->e;
  ir to = word_of(k, k->shared, own_words(k, k->thread, 0));
  ir neighbour = LLVMBuildXor(e->b, k->thread, LLVMConstInt(e->i32, 2, 0), "");
  ir from = word_of(k, k->in, int_add(e, own_words(k, neighbour, 0), integer(e, WORDS_AT)));
  gpu_call(e, GPU_CP_ASYNC16, (ir[]){to, from, LLVMConstInt(e->i32, 16, 0)}, 3);
  const char *name = gpu_ops[k->op].name;
  if (!begins(name, "cp_async_wait_")) return;
  int groups = 1 + name[strlen(name) - 1] - '0';
  for (int i = 0; i < groups; i++) gpu_call(e, GPU_CP_ASYNC_COMMIT, NULL, 0);
}

static void store_results(const op_kernel *k, ir result) {
  emitter *e = k->e;
  const gpu_op_row *row = &gpu_ops[k->op];
  int count = gpu_result_count(row);
  for (int i = 0; i < count; i++) {
    ir x = count > 1 ? LLVMBuildExtractValue(e->b, result, (unsigned)i, "") : result;
    LLVMBuildStore(e->b, x, word_of(k, k->out, int_add(e, k->thread, integer(e, i * THREADS))));
  }
}

static void store_shared(const op_kernel *k) {
  emitter *e = k->e;
  ir neighbour = LLVMBuildXor(e->b, k->thread, LLVMConstInt(e->i32, 1, 0), "");
  for (int w = 0; w < WORDS; w++) {
    ir x = LLVMBuildLoad2(e->b, e->i32, word_of(k, k->shared, own_words(k, neighbour, w)), "");
    LLVMBuildStore(e->b, x, word_of(k, k->out, int_add(e, k->thread, integer(e, w * THREADS))));
  }
}

static void see_effect(const op_kernel *k) {
  emitter *e = k->e;
  const gpu_op_row *row = &gpu_ops[k->op];
  if (row->kind == GPU_MEMORY && !begins(row->name, "cp_async_wait_")) {
    gpu_call(e, GPU_CP_ASYNC_COMMIT, NULL, 0);
    gpu_call(e, GPU_CP_ASYNC_WAIT_0, NULL, 0);
  }
  if (k->op != GPU_BARRIER && k->op != GPU_WARP_BARRIER) gpu_call(e, GPU_BARRIER, NULL, 0);
  store_shared(k);
}

static void body_of(op_kernel *k, ir frame) {
  emitter *e = k->e;
  const gpu_op_row *row = &gpu_ops[k->op];
  ir args[GPU_MOST_ARGUMENTS];
  int count = (int)strlen(row->arguments);
  k->in = pointer_field(e, frame, 0);
  k->out = pointer_field(e, frame, 8);
  k->thread = gpu_call(e, GPU_THREAD_X, NULL, 0);
  k->shared = gpu_call(e, GPU_SHARED, NULL, 0);
  fill_shared(k, 0);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  if (k->op == GPU_BARRIER || k->op == GPU_WARP_BARRIER) fill_shared(k, 1);
  if (begins(row->name, "cp_async_")) start_copy(k);
  for (int i = 0; i < count; i++) args[i] = argument(k, i);
  ir result = gpu_call(e, k->op, args, count);
  if (k->op == GPU_SHARED_ADDRESS) result = int_sub(e, result, gpu_call(e, k->op, &k->shared, 1));
  if (gpu_result_count(row) && row->result[row->result[1] != 0] != 's')
    store_results(k, result);
  else
    see_effect(k);
  LLVMBuildRetVoid(e->b);
}

// Operations of sm_90a that other kernels than these do not take.
static bool is_of_groups(gpu_op op) {
  return (int)op >= GPU_FIRST_OF_HOPPER && op != GPU_SHARED_ADDRESS && op != GPU_FENCE_ASYNC;
}

static void thread_kernel(llvm_module *m, emitter *e, gpu_op op, const char *symbol) {
  char room[] = {(char)('0' + CLASS_WARPGROUPS), 0};
  ir function = gpu_kernel_function(e, symbol, 16, THREADS);
  if ((int)op >= GPU_FIRST_OF_HOPPER) llvm_attribute(m, function, gpu_class_attribute, room);
  op_kernel k = {.e = e, .op = op};
  body_of(&k, LLVMGetParam(function, 0));
}

codegen_gpu_object *gpu_op_kernels(arena *a, unsigned targets) {
  codegen_gpu_object *object = ARENA_NEW(a, codegen_gpu_object);
  llvm_module m = gpu_module_new("rec_ops");
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++) {
    emitter e = emitter_new(a, &m, CLONE_GPU, NUMBER_F32);
    const char *symbol = arena_printf(a, "rec_op_%s", gpu_ops[op].name);
    (is_of_groups(op) ? gpu_group_op_kernel : thread_kernel)(&m, &e, op, symbol);
    emitter_free(&e);
  }
  llvm_verify(&m);
  gpu_make_images(a, &m, (codegen_gpu_options){.targets = targets}, object);
  llvm_module_free(&m);
  return object;
}
