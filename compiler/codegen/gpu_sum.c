/* The kernel `rec_gpu_sum`: adds up the copies that work items made of a result (runtime/support/gpu_frame.h).
 *
 *   to[entry][step][number] = from[0][..] + from[1][..] + ..   in the order of the copies, a thread for each number
 */
#include <stddef.h>

#include "../../runtime/support/gpu_frame.h"
#include "../../runtime/support/library.h"
#include "gpu.h"

typedef struct sum_task {
  emitter *e;
  ir task; /* address */
} sum_task;

static ir field_of(const sum_task *t, LLVMTypeRef type, size_t offset) {
  emitter *e = t->e;
  ir at = element(e, LLVMInt8TypeInContext(e->context), t->task, integer(e, (int64_t)offset));
  return LLVMBuildLoad2(e->b, type, at, "");
}

#define POINTER(t, field) field_of(t, (t)->e->data, offsetof(rec_gpu_sum_task, field))
#define NUMBER(t, field) field_of(t, (t)->e->i64, offsetof(rec_gpu_sum_task, field))
#define SHORT(t, field) \
  LLVMBuildSExt((t)->e->b, field_of(t, (t)->e->i32, offsetof(rec_gpu_sum_task, field)), (t)->e->i64, "")

/* Of number `index` of each copy, which has `total`. */
static ir sum_of_copies(const sum_task *t, ir index, ir total) {
  emitter *e = t->e;
  ir from = element(e, e->real, POINTER(t, from), index), sum = stack_slot(e, e->real, "sum");
  store_real(e, real_number(e, 0, 0), sum);
  emit_loop loop = loop_begin(e, integer(e, 0), SHORT(t, copies), 1, "copy");
  ir x = load_real(e, element(e, e->real, from, int_mul(e, loop.index, total)), 0);
  store_real(e, real_add(e, load_real(e, sum, 0), x), sum);
  loop_end(e, &loop);
  return load_real(e, sum, 0);
}

static void store_as(const sum_task *t, ir sum, ir at) {
  static const number_type types[] = {[REC_STORED_NUMBER] = NUMBER_F32,
                                      [REC_STORED_BF16] = NUMBER_BF16,
                                      [REC_STORED_F16] = NUMBER_F16};
  emitter *e = t->e;
  ir to = POINTER(t, to), stored = SHORT(t, stored);
  for (int kind = REC_STORED_NUMBER; kind <= REC_STORED_F16; kind++) {
    bool narrow = kind != REC_STORED_NUMBER;
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, stored, integer(e, kind)));
    ir address = element(e, narrow ? e->i16 : e->real, to, at);
    if (narrow) {
      store_narrow(e, types[kind], sum, address, NULL, NULL);
    } else {
      store_real(e, sum, address);
    }
    branch_end(e, &branch);
  }
}

static void one_number(const sum_task *t, ir index, ir total) {
  emitter *e = t->e;
  ir numbers = NUMBER(t, numbers), steps = NUMBER(t, steps);
  ir number = LLVMBuildSRem(e->b, index, numbers, "");
  ir rest = LLVMBuildSDiv(e->b, index, numbers, "");
  ir step = LLVMBuildSRem(e->b, rest, steps, ""), entry = LLVMBuildSDiv(e->b, rest, steps, "");
  ir to = int_add(e, int_mul(e, entry, NUMBER(t, to_entry_stride)),
                  int_mul(e, step, NUMBER(t, to_step_stride)));
  store_as(t, sum_of_copies(t, index, total), int_add(e, to, number));
}

static ir wide(emitter *e, gpu_op op) {
  return LLVMBuildZExt(e->b, gpu_call(e, op, NULL, 0), e->i64, "");
}

void gpu_sum_kernel(arena *a, llvm_module *m) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  ir kernel_function =
      gpu_kernel_function(e, "rec_gpu_sum", sizeof(rec_gpu_sums), REC_GPU_SUM_THREADS);
  ir sums = LLVMGetParam(kernel_function, 0);
  ir first = int_add(e, int_mul(e, wide(e, GPU_BLOCK_X), integer(e, REC_GPU_SUM_THREADS)),
                     wide(e, GPU_THREAD_X));
  ir all = int_mul(e, wide(e, GPU_BLOCK_COUNT), integer(e, REC_GPU_SUM_THREADS));
  ir count = LLVMBuildLoad2(e->b, e->i64, sums, "");
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  emit_loop tasks = loop_begin(e, integer(e, 0), count, 1, "task");
  ir offset = int_mul(e, tasks.index, integer(e, sizeof(rec_gpu_sum_task)));
  offset = int_add(e, offset, integer(e, offsetof(rec_gpu_sums, tasks)));
  sum_task t = {e, element(e, bytes, sums, offset)};
  ir total = int_mul(e, int_mul(e, NUMBER(&t, entries), NUMBER(&t, steps)), NUMBER(&t, numbers));
  emit_loop loop = loop_begin_by(e, first, total, all, "number");
  one_number(&t, loop.index, total);
  loop_end(e, &loop);
  loop_end(e, &tasks);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}
