// The kernel `rec_gpu_sum` adds up the copies of results that work items made
// (compiler/abi/gpu_frame.h), in order, a thread for each element.
//
//   to[entry][step][number] = from[0][..] + from[1][..] + ..
#include <stddef.h>

#include "compiler/abi/gpu_frame.h"
#include "compiler/abi/launch.h"
#include "compiler/abi/library.h"
#include "compiler/kernel/gpu/gpu.h"

enum { MOST_AT_ONCE = 8 };

// The fields of a task, read before its elements.
typedef struct sum_task {
  emitter *e;
  ir from, to;
  ir entry_stride, step_stride;
  ir rows, steps, numbers;  // rows: entries times steps
  ir copies, stored;
} sum_task;

#define LIST(list, type, field) load_field(e, list, offsetof(rec_gpu_sum_list, field), type)
#define TASK(task, type, field) load_field(e, task, offsetof(rec_gpu_sum_task, field), type)

// Adds up `count` elements of every copy at once, so that their loads overlap. A copy has `total`
// elements.
static void emit_copy_sums(const sum_task *t, const ir *indices, int count, ir total, ir *sums) {
  emitter *e = t->e;
  ir slots[MOST_AT_ONCE];
  for (int i = 0; i < count; i++) slots[i] = real_slot(e, real_number(e, 0, 0), "sum");
  emit_loop loop = loop_begin(e, integer(e, 0), t->copies, 1, "copy");
  ir from = element(e, e->real, t->from, int_mul(e, loop.index, total)), x[MOST_AT_ONCE];
  for (int i = 0; i < count; i++) x[i] = load_real(e, element(e, e->real, from, indices[i]), 0);
  for (int i = 0; i < count; i++) real_add_to(e, slots[i], x[i]);
  (count < MOST_AT_ONCE ? loop_end : loop_end_kept)(e, &loop);
  for (int i = 0; i < count; i++) sums[i] = load_real(e, slots[i], 0);
}

void gpu_store_as(emitter *e, ir stored, ir data, ir at, ir x) {
  static const number_type types[] = {[REC_STORED_NUMBER] = NUMBER_F32,
                                      [REC_STORED_BF16] = NUMBER_BF16,
                                      [REC_STORED_F16] = NUMBER_F16};
  for (int kind = REC_STORED_NUMBER; kind <= REC_STORED_F16; kind++) {
    bool narrow = kind != REC_STORED_NUMBER;
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, stored, integer(e, kind)));
    ir address = element(e, narrow ? e->i16 : e->real, data, at);
    if (narrow)
      store_narrow(e, types[kind], x, address, NULL, NULL);
    else
      store_real(e, x, address);
    branch_end(e, &branch);
  }
}

static ir task_sum_place(const sum_task *t, ir index) {
  emitter *e = t->e;
  ir place = stack_slot(e, e->i64, "place");
  LLVMBuildStore(e->b, index, place);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSGT, t->rows, integer(e, 1)));
  ir row = int_div(e, index, t->numbers), number = int_sub(e, index, int_mul(e, row, t->numbers));
  ir entry = int_div(e, row, t->steps), step = int_sub(e, row, int_mul(e, entry, t->steps));
  ir to = int_add(e, int_mul(e, entry, t->entry_stride), int_mul(e, step, t->step_stride));
  LLVMBuildStore(e->b, int_add(e, to, number), place);
  branch_end(e, &branch);
  return LLVMBuildLoad2(e->b, e->i64, place, "");
}

// The gradient of a parameter in f32: each thread sums several elements at once, while all threads
// have as many. Returns the first remaining element.
static ir sum_plain(const sum_task *t, ir first, ir threads, ir wanted, ir total) {
  emitter *e = t->e;
  ir next = stack_slot(e, e->i64, "next"), at_once = int_mul_n(e, threads, MOST_AT_ONCE);
  ir indices[MOST_AT_ONCE], sums[MOST_AT_ONCE];
  ir plain = bit_and(e, int_compare(e, LLVMIntSLE, t->rows, integer(e, 1)),
                     int_compare(e, LLVMIntEQ, t->stored, integer(e, REC_STORED_NUMBER)));
  ir end = int_choose(e, plain, int_sub(e, wanted, int_sub(e, at_once, threads)), integer(e, 0));
  LLVMBuildStore(e->b, first, next);
  emit_loop loop = loop_begin_by(e, first, end, at_once, "numbers");
  for (int i = 0; i < MOST_AT_ONCE; i++)
    indices[i] = int_add(e, loop.index, int_mul_n(e, threads, i));
  emit_copy_sums(t, indices, MOST_AT_ONCE, total, sums);
  for (int i = 0; i < MOST_AT_ONCE; i++)
    store_real(e, sums[i], element(e, e->real, t->to, indices[i]));
  LLVMBuildStore(e->b, int_add(e, loop.index, at_once), next);
  loop_end(e, &loop);
  return LLVMBuildLoad2(e->b, e->i64, next, "");
}

static void sum_task_of(const sum_task *t, ir first, ir threads, ir total) {
  emitter *e = t->e;
  ir wanted = int_choose(e, is_given(e, t->to), total, integer(e, 0)), sum;
  emit_loop loop =
      loop_begin_by(e, sum_plain(t, first, threads, wanted, total), wanted, threads, "number");
  emit_copy_sums(t, &loop.index, 1, total, &sum);
  gpu_store_as(e, t->stored, t->to, task_sum_place(t, loop.index), sum);
  loop_end(e, &loop);
}

// `count` bits of an i32, from bit `first` on, as an i64.
static ir extracted_bits(emitter *e, ir x, unsigned first, unsigned count) {
  ir wide = LLVMBuildZExt(e->b, x, e->i64, "");
  return bit_and(e, LLVMBuildLShr(e->b, wide, integer(e, first), ""),
                 integer(e, (INT64_C(1) << count) - 1));
}

static sum_task read_sum_task(emitter *e, ir list, ir task) {
  enum { COPIES = 28, STORED = 2, OF = 2 };
  ir packed = load_field(e, task, offsetof(rec_gpu_sum_task, numbers) + sizeof(uint32_t), e->i32);
  ir of = extracted_bits(e, packed, COPIES + STORED, OF), one = integer(e, 1);
  ir of_step = int_compare(e, LLVMIntEQ, of, integer(e, REC_GPU_OF_STEP)),
     of_entry = int_compare(e, LLVMIntEQ, of, integer(e, REC_GPU_OF_ENTRY));
  sum_task t = {.e = e,
                .to = TASK(task, e->data, to),
                .entry_stride = TASK(task, e->i64, to_entry_stride),
                .step_stride = TASK(task, e->i64, to_step_stride),
                .numbers = extracted_bits(e, TASK(task, e->i32, numbers), 0, 32),
                .copies = extracted_bits(e, packed, 0, COPIES),
                .stored = extracted_bits(e, packed, COPIES, STORED)};
  t.steps = int_choose(e, of_step, LIST(list, e->i64, steps), one);
  ir entries = int_choose(e, of_step, LIST(list, e->i64, batch),
                          int_choose(e, of_entry, LIST(list, e->i64, entries), one));
  t.rows = int_mul(e, entries, t.steps);
  return t;
}

// All tasks of a rec_gpu_sum_list, divided among `threads`; this thread has the number `first`.
static void sum_all(emitter *e, ir list, ir first, ir threads) {
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  ir from = stack_slot(e, e->data, "from"),
     tasks = element(e, bytes, list, integer(e, sizeof(rec_gpu_sum_list)));
  LLVMBuildStore(e->b, LIST(list, e->data, copies), from);
  emit_loop loop = loop_begin(e, integer(e, 0), LIST(list, e->i64, count), 1, "task");
  sum_task t = read_sum_task(
      e, list, element(e, bytes, tasks, int_mul_n(e, loop.index, sizeof(rec_gpu_sum_task))));
  t.from = LLVMBuildLoad2(e->b, e->data, from, "");
  ir total = int_mul(e, t.rows, t.numbers),
     all = int_mul_n(e, int_mul(e, total, t.copies), sizeof(float));
  ir lines = int_add_n(e, all, REC_ALIGNMENT - 1);
  lines = bit_and(e, lines, integer(e, -REC_ALIGNMENT));
  LLVMBuildStore(e->b, element(e, bytes, t.from, lines), from);
  sum_task_of(&t, first, threads, total);
  loop_end(e, &loop);
}

void gpu_sum_kernel(arena *a, llvm_module *m) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  ir kernel_function =
      gpu_kernel_function(e, "rec_gpu_sum", sizeof(rec_gpu_sums), REC_GPU_SUM_THREADS);
  ir threads = integer(e, REC_GPU_SUM_THREADS), first = gpu_thread_of_all(e, threads);
  ir all = int_mul(e, gpu_index(e, GPU_BLOCK_COUNT), threads);
  sum_all(e, LLVMGetParam(kernel_function, 0), first, all);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}
