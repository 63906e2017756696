// The kernel `rec_gpu_fold` joins states with the summary of a segment of time, or the summaries of
// two segments (compiler/abi/fold.h), a thread for each number.
//
//   to[i] = own[i] + sum over terms and rows of sign * factor[i, row] * from[i, row]
#include <stddef.h>

#include "compiler/abi/fold.h"
#include "compiler/kernel/gpu/gpu.h"

enum { MOST_OPERANDS = 5, WITHOUT_MAXIMA = 2 };

#define FOLD(fold, type, field) load_field(e, fold, offsetof(rec_fold, field), type)
#define TERM(term, type, field) load_field(e, term, offsetof(rec_fold_term, field), type)
#define OPERAND(operand, type, field) \
  load_field(e, operand, offsetof(rec_fold_operand, field), type)

static ir at_byte(emitter *e, ir base, int64_t offset) {
  return element(e, LLVMInt8TypeInContext(e->context), base, integer(e, offset));
}

static ir operand_stride(emitter *e, ir operand, ir axis) {
  ir strides = at_byte(e, operand, offsetof(rec_fold_operand, stride));
  return LLVMBuildLoad2(e->b, e->i64, element(e, e->i64, strides, axis), "");
}

// Where number `index` of each operand lies.
static void find_operand_places(emitter *e, ir fold, ir index, const ir *operands, int count,
                                ir *places) {
  ir slots[MOST_OPERANDS], rest = stack_slot(e, e->i64, "rest"), one = integer(e, 1);
  for (int i = 0; i < count; i++) {
    slots[i] = stack_slot(e, e->i64, "place");
    LLVMBuildStore(e->b, integer(e, 0), slots[i]);
  }
  LLVMBuildStore(e->b, index, rest);
  ir axes = FOLD(fold, e->i64, axis_count), sizes = at_byte(e, fold, offsetof(rec_fold, size));
  emit_loop loop = loop_begin(e, integer(e, 0), axes, 1, "axis");
  ir axis = int_sub(e, int_sub(e, axes, one), loop.index),
     all = LLVMBuildLoad2(e->b, e->i64, rest, "");
  ir entry = int_split(e, &all, LLVMBuildLoad2(e->b, e->i64, element(e, e->i64, sizes, axis), ""));
  LLVMBuildStore(e->b, all, rest);
  for (int i = 0; i < count; i++) {
    ir more = int_mul(e, entry, operand_stride(e, operands[i], axis));
    LLVMBuildStore(e->b, int_add(e, LLVMBuildLoad2(e->b, e->i64, slots[i], ""), more), slots[i]);
  }
  loop_end_kept(e, &loop);
  for (int i = 0; i < count; i++) places[i] = LLVMBuildLoad2(e->b, e->i64, slots[i], "");
}

static ir data_number(emitter *e, ir data, ir place) {
  return load_real(e, element(e, e->real, data, place), 0);
}

// A term, at the number that a thread makes.
typedef struct fold_term {
  emitter *e;
  ir term;
  ir data[MOST_OPERANDS], at[MOST_OPERANDS];  // of the operands
} fold_term;

enum { FACTOR, FROM, MAXIMUM, SHIFT, LARGEST };

static fold_term open_term(emitter *e, ir fold, ir term, ir index, int operands) {
  static const size_t offsets[MOST_OPERANDS] = {[FACTOR] = offsetof(rec_fold_term, factor),
                                                [FROM] = offsetof(rec_fold_term, from),
                                                [MAXIMUM] = offsetof(rec_fold_term, maximum),
                                                [SHIFT] = offsetof(rec_fold_term, shift),
                                                [LARGEST] = offsetof(rec_fold_term, largest)};
  fold_term t = {.e = e, .term = term};
  ir all[MOST_OPERANDS];
  for (int i = 0; i < operands; i++) {
    all[i] = at_byte(e, term, (int64_t)offsets[i]);
    t.data[i] = OPERAND(all[i], e->data, data);
  }
  find_operand_places(e, fold, index, all, operands, t.at);
  return t;
}

static ir operand_number(const fold_term *t, int operand) {
  return data_number(t->e, t->data[operand], t->at[operand]);
}

static void add_from(const fold_term *t, ir sum) {
  emitter *e = t->e;
  real_add_to(e, sum, operand_number(t, FROM));
}

static void add_term_rows(const fold_term *t, ir sum) {
  emitter *e = t->e;
  ir sign = TERM(t->term, e->real, sign);
  ir factor_stride = TERM(t->term, e->i64, factor_stride),
     from_stride = TERM(t->term, e->i64, from_stride);
  emit_loop loop = loop_begin(e, integer(e, 0), TERM(t->term, e->i64, rows), 1, "row");
  ir factor = data_number(e, t->data[FACTOR],
                          int_add(e, t->at[FACTOR], int_mul(e, loop.index, factor_stride)));
  ir from =
      data_number(e, t->data[FROM], int_add(e, t->at[FROM], int_mul(e, loop.index, from_stride)));
  store_real(e, real_fma(e, real_mul(e, sign, factor), from, load_real(e, sum, 0)), sum);
  loop_end_kept(e, &loop);
}

static void take_maximum(const fold_term *t, ir sum) {
  gpu_maximum m = {.before = operand_number(t, FROM),
                   .shift = operand_number(t, FACTOR),
                   .largest = load_real(t->e, sum, 0)};
  store_real(t->e, gpu_joined_maximum(t->e, m), sum);
}

static void add_relative_term(const fold_term *t, ir sum) {
  gpu_maximum m = {.before = operand_number(t, MAXIMUM),
                   .shift = operand_number(t, SHIFT),
                   .largest = operand_number(t, LARGEST)};
  gpu_relative r = {.before = operand_number(t, FROM),
                    .sum = operand_number(t, FACTOR),
                    .own = load_real(t->e, sum, 0)};
  store_real(t->e, gpu_joined_relative(t->e, 0, m, r), sum);
}

// Without maxima all terms are products.
static void apply_term(const fold_term *t, ir sum, bool maxima) {
  static void (*const kinds[])(const fold_term *, ir) = {[REC_FOLD_ADD] = add_from,
                                                         [REC_FOLD_PRODUCT] = add_term_rows,
                                                         [REC_FOLD_MAXIMUM] = take_maximum,
                                                         [REC_FOLD_RELATIVE] = add_relative_term};
  emitter *e = t->e;
  if (!maxima) add_term_rows(t, sum);
  for (int kind = 0; maxima && kind <= REC_FOLD_RELATIVE; kind++) {
    emit_branch branch =
        branch_begin(e, int_compare(e, LLVMIntEQ, TERM(t->term, e->i64, kind), integer(e, kind)));
    kinds[kind](t, sum);
    branch_end(e, &branch);
  }
}

// Threads that mark the same place all write the same. What is no number is beyond every limit.
static void mark_beyond_limit(emitter *e, ir fold, ir to, ir number) {
  ir size = expr_apply(e, TILE_ABS, &number);
  emit_branch branch =
      branch_begin(e, real_compare(e, LLVMRealUGT, size, FOLD(fold, e->real, most)));
  LLVMBuildStore(e->b, LLVMBuildTrunc(e->b, FOLD(fold, e->i64, mark), e->i32, ""), to);
  branch_end(e, &branch);
}

static void make_number(emitter *e, ir fold, ir index, bool maxima) {
  ir operands[] = {at_byte(e, fold, offsetof(rec_fold, to)),
                   at_byte(e, fold, offsetof(rec_fold, own))},
     places[2];
  find_operand_places(e, fold, index, operands, 2, places);
  ir to = OPERAND(operands[0], e->data, data), from = OPERAND(operands[1], e->data, data),
     sum = real_slot(e, FOLD(fold, e->real, absent), "sum");
  emit_branch own = branch_begin(e, is_given(e, from));
  store_real(e, data_number(e, from, places[1]), sum);
  branch_end(e, &own);
  ir terms = at_byte(e, fold, offsetof(rec_fold, terms));
  emit_loop loop = loop_begin(e, integer(e, 0), FOLD(fold, e->i64, term_count), 1, "term");
  ir at = int_mul_n(e, loop.index, sizeof(rec_fold_term));
  fold_term t = open_term(e, fold, element(e, LLVMInt8TypeInContext(e->context), terms, at), index,
                          maxima ? MOST_OPERANDS : WITHOUT_MAXIMA);
  apply_term(&t, sum, maxima);
  loop_end_kept(e, &loop);
  to = element(e, e->real, to, places[0]);
  emit_branch branch =
      branch_begin(e, int_compare(e, LLVMIntNE, FOLD(fold, e->i64, mark), integer(e, 0)));
  mark_beyond_limit(e, fold, to, load_real(e, sum, 0));
  branch_else(e, &branch);
  store_real(e, load_real(e, sum, 0), to);
  branch_end(e, &branch);
}

void gpu_fold_kernel(arena *a, llvm_module *m, bool maxima) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  ir kernel_function =
      gpu_kernel_function(e, "rec_gpu_fold", sizeof(rec_fold), REC_GPU_FOLD_THREADS);
  ir fold = LLVMGetParam(kernel_function, 0), threads = integer(e, REC_GPU_FOLD_THREADS);
  ir thread = gpu_thread_of_all(e, threads);
  ir first = int_add(e, FOLD(fold, e->i64, first), thread),
     all = int_mul(e, gpu_index(e, GPU_BLOCK_COUNT), threads);
  emit_loop loop = loop_begin_by(e, first, FOLD(fold, e->i64, end), all, "number");
  make_number(e, fold, loop.index, maxima);
  loop_end(e, &loop);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}
