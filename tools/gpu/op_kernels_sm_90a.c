// Kernels for the operations of sm_90a alone, as op_kernels.c has them for all others: blocks of
// one warpgroup.
//
//   rec_op_wgmma_n8_bf16({in, out}):   shared = in.image; for each form: out[form] = +-a b + in.sums, by the descriptors in `in`
//
// What lies where in `in` and `out`, and what a form is: op_kernels.h. Descriptors come without the
// address where shared memory begins. Operations without a result are checked by their purpose:
// fences, commits and waits by a product.
#include "tools/gpu/op_kernels_sm_90a.h"

#include <string.h>

#include "compiler/base/ice.h"
#include "tools/gpu/op_kernels.h"

enum { THREADS = GPU_GROUP_OP_THREADS };

typedef struct group_kernel {
  emitter *e;
  gpu_op op;
  ir frame, in, out, thread, shared;
} group_kernel;

static ir word_of(const group_kernel *k, ir base, ir index) {
  return element(k->e, k->e->i32, base, index);
}

// Word `i` of those that each thread has one of.
static ir own_word(const group_kernel *k, ir base, int64_t first, ir i) {
  emitter *e = k->e;
  ir of_others = int_mul(e, i, integer(e, THREADS));
  return word_of(k, base, int_add(e, int_add(e, of_others, k->thread), integer(e, first)));
}

static ir load_word(const group_kernel *k, LLVMTypeRef type, ir address) {
  return LLVMBuildLoad2(k->e->b, type, address, "");
}

static ir byte_at(emitter *e, ir base, int64_t offset) {
  return element(e, LLVMInt8TypeInContext(e->context), base, integer(e, offset));
}

static void fill_shared(const group_kernel *k) {
  emitter *e = k->e;
  emit_loop loop =
      loop_begin(e, integer(e, 0), integer(e, GPU_GROUP_OP_IMAGE / THREADS), 1, "word");
  ir x = load_word(k, e->i32, own_word(k, k->in, 0, loop.index));
  LLVMBuildStore(e->b, x, own_word(k, k->shared, 0, loop.index));
  loop_end(e, &loop);
  gpu_call(e, GPU_FENCE_ASYNC, NULL, 0);
  gpu_call(e, GPU_BARRIER, NULL, 0);
}

// ---- products --------------------------------------------------------------------------------

enum { MOST_SUMS = GPU_GROUP_OP_SUMS, MOST_OPERANDS = 8 };

// Of operand 0 or 1, for rows that run along k or for transposed ones.
static ir descriptor(const group_kernel *k, int operand, bool transposed) {
  emitter *e = k->e;
  ir at = byte_at(e, k->in, 4 * GPU_GROUP_OP_NUMBERS_AT + 8 * (2 * operand + transposed));
  ir begin = gpu_call(e, GPU_SHARED_ADDRESS, &k->shared, 1);
  begin = LLVMBuildLShr(e->b, begin, LLVMConstInt(e->i32, 4, 0), "");
  return int_add(e, load_word(k, e->i64, at), LLVMBuildZExt(e->b, begin, e->i64, ""));
}

// The row whose name begins so and that has as many sums.
static gpu_op row_with(const char *begin, const char *sums) {
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++)
    if (begins(gpu_ops[op].name, begin) && strcmp(gpu_ops[op].result, sums) == 0) return op;
  ICE("target", "no operation %s.. with %s sums", begin, sums);
}

// Sums go in and out.
static void call_with_sums(emitter *e, gpu_op op, ir *sums, int count, const ir *more,
                           int more_count) {
  ir args[GPU_MOST_ARGUMENTS] = {0};
  for (int i = 0; i < count; i++) args[i] = sums[i];
  for (int i = 0; i < more_count; i++) args[count + i] = more[i];
  ir result = gpu_call(e, op, args, count + more_count);
  for (int i = 0; i < count; i++) sums[i] = LLVMBuildExtractValue(e->b, result, (unsigned)i, "");
}

static ir constant(emitter *e, int64_t x) { return LLVMConstInt(e->i32, (unsigned long long)x, 1); }

// What a product takes behind the sums; registers of a are there before the fence.
static int operands_of(const group_kernel *k, gpu_op op, int form, ir more[MOST_OPERANDS]) {
  emitter *e = k->e;
  int n = 0;
  bool registers = begins(gpu_ops[op].name, "wgmma_registers");
  bool trans_a = form & GPU_FORM_TRANS_A, trans_b = form & GPU_FORM_TRANS_B;
  for (int i = 0; registers && i < 4; i++)
    more[n++] = load_word(k, e->i32, own_word(k, k->in, GPU_GROUP_OP_REGISTERS_AT, integer(e, i)));
  if (!registers) more[n++] = descriptor(k, 0, trans_a);
  more[n++] = descriptor(k, 1, trans_b);
  more[n++] = constant(e, form & GPU_FORM_MINUS ? -1 : 1);
  if (!registers) more[n++] = constant(e, trans_a);
  more[n++] = constant(e, trans_b);
  return n;
}

static void one_form(const group_kernel *k, gpu_op op, int form) {
  emitter *e = k->e;
  const char *letters = gpu_ops[op].result;
  ir sums[MOST_SUMS], more[MOST_OPERANDS];
  int count = gpu_result_count(&gpu_ops[op]), operands = operands_of(k, op, form, more);
  if (count > MOST_SUMS)
    ICE("target", "rec.%s has more sums than `in` and `out`", gpu_ops[op].name);
  for (int i = 0; i < count; i++)
    sums[i] = load_word(k, e->real, own_word(k, k->in, GPU_GROUP_OP_SUMS_AT, integer(e, i)));
  call_with_sums(e, row_with("wgmma_fence_n", letters), sums, count, NULL, 0);
  call_with_sums(e, op, sums, count, more, operands);
  gpu_call(e, GPU_WGMMA_COMMIT, NULL, 0);
  call_with_sums(e, row_with("wgmma_wait_n", letters), sums, count, NULL, 0);
  for (int i = 0; i < count; i++)
    LLVMBuildStore(e->b, sums[i], own_word(k, k->out, 0, integer(e, form * MOST_SUMS + i)));
}

static void multiply_all(const group_kernel *k) {
  const gpu_op_row *row = &gpu_ops[k->op];
  fill_shared(k);
  if (row->arguments[0] && strchr(row->arguments, 'l')) {
    for (int form = 0; form < GPU_FORMS; form++)
      if (gpu_op_has_form(row->name, form)) one_form(k, k->op, form);
  } else {
    one_form(k, row_with("wgmma_n", row->result[0] == 'v' ? "4f" : row->result), 0);
  }
}

bool gpu_op_has_form(const char *name, int form) {
  if (begins(name, "wgmma_registers")) return !(form & GPU_FORM_TRANS_A);
  return begins(name, "wgmma_n") || form == 0;
}

// ---- one operation ---------------------------------------------------------------------------

void gpu_group_op_kernel(llvm_module *m, emitter *e, gpu_op op, const char *symbol) {
  char room[] = {(char)('0' + CLASS_WARPGROUPS), 0};
  ir function = gpu_kernel_function(e, symbol, GPU_GROUP_OP_PARAMETER, THREADS);
  llvm_attribute(m, function, gpu_class_attribute, room);
  group_kernel k = {.e = e, .op = op, .frame = LLVMGetParam(function, 0)};
  k.in = load_word(&k, e->data, k.frame);
  k.out = load_word(&k, e->data, byte_at(e, k.frame, 8));
  k.thread = gpu_call(e, GPU_THREAD_X, NULL, 0);
  k.shared = gpu_call(e, GPU_SHARED, NULL, 0);
  multiply_all(&k);
  LLVMBuildRetVoid(e->b);
}
