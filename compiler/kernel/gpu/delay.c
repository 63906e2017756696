// The kernel `rec_gpu_rows` moves rows of tokens and lag buffers in time (runtime/support/delay.c),
// a thread for each element.
//
//   to[entry][row][number] = sum of from[entry][row + offset + ends * steps][number], where there is such a row
#include <stddef.h>

#include "compiler/abi/gpu_rows.h"
#include "compiler/abi/launch.h"
#include "compiler/abi/library.h"
#include "compiler/kernel/gpu/gpu.h"

bool gpu_has_delays(const recurrence *r) {
  vec_each(const typed_tensor, t, r->body.tensors)
    if (t->wide || t->wide_gradient) return true;
  return false;
}

// The current entry.
typedef struct row_entry {
  emitter *e;
  ir number;        // the entry's number
  ir begin, steps;  // packed: the entry's first step
} row_entry;

#define ROWS(rows, type, field) load_field(e, rows, offsetof(rec_gpu_rows, field), type)
#define SIDE(side, type, field) load_field(e, side, offsetof(rec_gpu_row_side, field), type)

static ir int_is_zero(emitter *e, ir x) { return int_compare(e, LLVMIntEQ, x, integer(e, 0)); }

static ir side_rows(const row_entry *x, ir side) {
  emitter *e = x->e;
  ir rows = SIDE(side, e->i64, rows);
  return int_choose(e, int_is_zero(e, rows), x->steps, rows);
}

// The address of a row.
static ir delayed_row_address(const row_entry *x, ir side, ir row) {
  emitter *e = x->e;
  ir before = int_choose(e, int_is_zero(e, SIDE(side, e->i64, rows)), x->begin, integer(e, 0));
  ir entry = int_mul(e, x->number, SIDE(side, e->i64, entry_stride));
  return int_add(e, entry, int_mul(e, int_add(e, before, row), SIDE(side, e->i64, row_stride)));
}

static void add_as(emitter *e, ir stored, ir data, ir at, ir sum) {
  static const number_type types[] = {[REC_STORED_NUMBER] = NUMBER_F32,
                                      [REC_STORED_BF16] = NUMBER_BF16,
                                      [REC_STORED_F16] = NUMBER_F16};
  for (int kind = REC_STORED_NUMBER; kind <= REC_ROWS_ONE; kind++) {
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, stored, integer(e, kind)));
    ir x = kind == REC_ROWS_ONE ? real_number(e, 1, 0)
           : kind == REC_STORED_NUMBER
               ? load_real(e, element(e, e->real, data, at), 0)
               : load_narrow(e, types[kind], element(e, e->i16, data, at), NULL, NULL, 0);
    real_add_to(e, sum, x);
    branch_end(e, &branch);
  }
}

static void add_delayed_row(const row_entry *x, ir side, ir row, ir number, ir sum) {
  emitter *e = x->e;
  ir moved = int_add(e, SIDE(side, e->i64, offset), int_mul(e, SIDE(side, e->i64, ends), x->steps));
  ir from = int_add(e, row, moved), data = SIDE(side, e->data, data);
  ir inside = bit_and(e, int_compare(e, LLVMIntSGE, from, integer(e, 0)),
                      int_compare(e, LLVMIntSLT, from, side_rows(x, side)));
  emit_branch branch = branch_begin(e, bit_and(e, inside, is_given(e, data)));
  add_as(e, SIDE(side, e->i64, stored), data,
         int_add(e, delayed_row_address(x, side, from), number), sum);
  branch_end(e, &branch);
}

static void make_number(const row_entry *x, ir rows, ir index) {
  emitter *e = x->e;
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  ir numbers = ROWS(rows, e->i64, numbers), row = int_div(e, index, numbers);
  ir number = int_sub(e, index, int_mul(e, row, numbers)),
     sum = real_slot(e, real_number(e, 0, 0), "sum");
  emit_loop loop = loop_begin(e, integer(e, 0), ROWS(rows, e->i64, count), 1, "source");
  ir first = element(e, bytes, rows, integer(e, offsetof(rec_gpu_rows, from)));
  add_delayed_row(x, element(e, bytes, first, int_mul_n(e, loop.index, sizeof(rec_gpu_row_side))),
                  row, number, sum);
  loop_end(e, &loop);
  ir to = element(e, bytes, rows, integer(e, offsetof(rec_gpu_rows, to)));
  gpu_store_as(e, SIDE(to, e->i64, stored), SIDE(to, e->data, data),
               int_add(e, delayed_row_address(x, to, row), number), load_real(e, sum, 0));
}

static ir sequence_offset(emitter *e, ir cu_seqlens, ir entry) {
  return LLVMBuildSExt(
      e->b, LLVMBuildLoad2(e->b, e->i32, element(e, e->i32, cu_seqlens, entry), ""), e->i64, "");
}

// Reads the steps of an entry, and where they begin.
static row_entry read_row_entry(emitter *e, ir rows, ir number) {
  ir begin = stack_slot(e, e->i64, "begin"), steps = stack_slot(e, e->i64, "steps");
  ir cu_seqlens = ROWS(rows, e->data, cu_seqlens);
  LLVMBuildStore(e->b, integer(e, 0), begin);
  LLVMBuildStore(e->b, ROWS(rows, e->i64, time), steps);
  emit_branch branch = branch_begin(e, is_given(e, cu_seqlens));
  ir first = sequence_offset(e, cu_seqlens, number),
     end = sequence_offset(e, cu_seqlens, int_add_n(e, number, 1));
  LLVMBuildStore(e->b, first, begin);
  LLVMBuildStore(e->b, int_sub(e, end, first), steps);
  branch_end(e, &branch);
  return (row_entry){e, number, LLVMBuildLoad2(e->b, e->i64, begin, ""),
                     LLVMBuildLoad2(e->b, e->i64, steps, "")};
}

void gpu_delay_kernel(arena *a, llvm_module *m) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  ir kernel_function =
      gpu_kernel_function(e, "rec_gpu_rows", sizeof(rec_gpu_rows), REC_GPU_SUM_THREADS);
  ir rows = LLVMGetParam(kernel_function, 0), threads = integer(e, REC_GPU_SUM_THREADS);
  ir first = gpu_thread_of_all(e, threads);
  ir all = int_mul(e, gpu_index(e, GPU_BLOCK_COUNT), threads);
  emit_loop entries = loop_begin(e, integer(e, 0), ROWS(rows, e->i64, entries), 1, "entry");
  row_entry x = read_row_entry(e, rows, entries.index);
  ir to =
      element(e, LLVMInt8TypeInContext(e->context), rows, integer(e, offsetof(rec_gpu_rows, to)));
  ir total = int_mul(e, side_rows(&x, to), ROWS(rows, e->i64, numbers));
  emit_loop loop = loop_begin_by(e, first, total, all, "number");
  make_number(&x, rows, loop.index);
  loop_end(e, &loop);
  loop_end(e, &entries);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}
