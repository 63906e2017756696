// The GPU kernels of models: embeddings, the loss, sums, AdamW; their matrix product is in
// product.c. One module, whose sizes all come with a launch.
//
//   rec_model_adamw_f32:   for i = thread of all; i < count; i += threads of all:
//                            d = gradient[i] * scale; m[i] = ..; v[i] = ..; values[i] = ..
#include "compiler/model_kernels/kernels.h"

#include <float.h>
#include <stdio.h>

#include "compiler/target/images.h"

// ---- words ----

static ir field_at(const model_kernel *k, size_t offset) {
  LLVMTypeRef bytes = LLVMInt8TypeInContext(k->e->context);
  return element(k->e, bytes, k->parameter, integer(k->e, (int64_t)offset));
}

ir model_number(const model_kernel *k, size_t offset) {
  return LLVMBuildLoad2(k->e->b, k->e->i64, field_at(k, offset), "");
}

static ir model_float(const model_kernel *k, size_t offset) {
  return load_real(k->e, field_at(k, offset), 0);
}

ir model_pointer(const model_kernel *k, size_t offset) {
  return LLVMBuildLoad2(k->e->b, k->e->data, field_at(k, offset), "");
}

ir model_load(const model_kernel *k, number_type type, ir data, ir place) {
  emitter *e = k->e;
  if (type == NUMBER_F32) return load_real(e, element(e, e->real, data, place), 0);
  return load_narrow(e, type, element(e, e->i16, data, place), NULL, NULL, 0);
}

void model_store(const model_kernel *k, number_type type, ir x, ir data, ir place) {
  emitter *e = k->e;
  if (type == NUMBER_F32)
    store_real(e, x, element(e, e->real, data, place));
  else
    store_narrow(e, type, x, element(e, e->i16, data, place), NULL, NULL);
}

void model_barrier(const model_kernel *k) { gpu_call(k->e, GPU_BARRIER, NULL, 0); }

#define ROWS(k, type, member, name) \
  model_number(k, offsetof(type, member) + offsetof(model_rows, name))
#define ROWS_DATA(k, type, member) \
  model_pointer(k, offsetof(type, member) + offsetof(model_rows, data))

static ir load_token(const model_kernel *k, ir tokens, ir place) {
  emitter *e = k->e;
  ir x = LLVMBuildLoad2(e->b, e->i32, element(e, e->i32, tokens, place), "");
  return LLVMBuildSExt(e->b, x, e->i64, "");
}

// A loop over all numbers of `count` by the threads of all blocks.
static emit_loop loop_of_all(const model_kernel *k, ir count) {
  return loop_begin_by(k->e, k->first, count, k->all, "number");
}

// A loop over the columns of a row by the threads of the block.
static emit_loop loop_of_block(const model_kernel *k, ir count) {
  return loop_begin_by(k->e, k->thread, count, integer(k->e, MODEL_THREADS), "column");
}

// The sum or the largest of the threads' numbers, for all of them: halves on halves in shared
// memory.
static ir of_block(const model_kernel *k, ir x, bool sum) {
  emitter *e = k->e;
  ir shared = gpu_call(e, GPU_SHARED, NULL, 0), own = element(e, e->real, shared, k->thread);
  store_real(e, x, own);
  for (int half = MODEL_THREADS / 2; half > 0; half /= 2) {
    model_barrier(k);
    emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, k->thread, integer(e, half)));
    ir other = load_real(e, element(e, e->real, shared, int_add_n(e, k->thread, half)), 0);
    ir mine = load_real(e, own, 0);
    ir larger = choose(e, real_compare(e, LLVMRealOGT, other, mine), other, mine);
    store_real(e, sum ? real_add(e, mine, other) : larger, own);
    branch_end(e, &branch);
  }
  model_barrier(k);
  ir result = load_real(e, shared, 0);
  model_barrier(k);
  return result;
}

static ir one_argument(const model_kernel *k, gpu_op op, ir x) { return gpu_call(k->e, op, &x, 1); }

// ---- kernels ----

static void product_kernel(const model_kernel *k) { model_product_body(k, NUMBER_F32, k->rows); }
static void weight_product_kernel(const model_kernel *k) {
  model_product_body(k, k->rows, NUMBER_F32);
}

static void column_sums_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir from = ROWS_DATA(k, model_column_sums, from),
     to = model_pointer(k, offsetof(model_column_sums, to));
  ir stride = ROWS(k, model_column_sums, from, stride), sum = stack_slot(e, e->real, "sum");
  emit_loop columns = loop_of_all(k, ROWS(k, model_column_sums, from, width));
  store_real(e, model_load(k, NUMBER_F32, to, columns.index), sum);
  emit_loop loop = loop_begin(e, integer(e, 0), ROWS(k, model_column_sums, from, count), 1, "row");
  ir place = int_add(e, int_mul(e, loop.index, stride), columns.index);
  real_add_to(e, sum, model_load(k, k->rows, from, place));
  loop_end(e, &loop);
  model_store(k, NUMBER_F32, load_real(e, sum, 0), to, columns.index);
  loop_end(e, &columns);
}

static void embed_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir tokens = model_pointer(k, offsetof(model_embed, tokens));
  ir table = model_pointer(k, offsetof(model_embed, table)), to = ROWS_DATA(k, model_embed, rows);
  ir width = ROWS(k, model_embed, rows, width), stride = ROWS(k, model_embed, rows, stride);
  emit_loop loop = loop_of_all(k, int_mul(e, ROWS(k, model_embed, rows, count), width));
  ir row = int_div(e, loop.index, width), column = int_rem(e, loop.index, width);
  ir from = int_add(e, int_mul(e, load_token(k, tokens, row), width), column);
  ir place = int_add(e, int_mul(e, row, stride), column);
  model_store(k, k->rows, model_load(k, NUMBER_F32, table, from), to, place);
  loop_end(e, &loop);
}

// A thread has a column and every MODEL_PARTS-th symbol: nobody else adds where it adds, in the
// order of the tokens.
static void embed_backward_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir tokens = model_pointer(k, offsetof(model_embed, tokens));
  ir table = model_pointer(k, offsetof(model_embed, table)), from = ROWS_DATA(k, model_embed, rows);
  ir width = ROWS(k, model_embed, rows, width), stride = ROWS(k, model_embed, rows, stride);
  emit_loop loop = loop_of_all(k, int_mul_n(e, width, MODEL_PARTS));
  ir part = int_div(e, loop.index, width), column = int_rem(e, loop.index, width);
  emit_loop all = loop_begin(e, integer(e, 0), ROWS(k, model_embed, rows, count), 1, "row");
  ir token = load_token(k, tokens, all.index);
  ir its = int_rem_n(e, token, MODEL_PARTS);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, its, part));
  ir to = int_add(e, int_mul(e, token, width), column);
  ir d = model_load(k, k->rows, from, int_add(e, int_mul(e, all.index, stride), column));
  model_store(k, NUMBER_F32, real_add(e, model_load(k, NUMBER_F32, table, to), d), table, to);
  branch_end(e, &branch);
  loop_end(e, &all);
  loop_end(e, &loop);
}

// What a row of the loss knows before its sums.
typedef struct loss_row {
  ir logits, first;  // number of the row's first logit
  ir target, weight, at_target;
  ir largest, sum;
} loss_row;

static ir logit(const model_kernel *k, const loss_row *r, ir column) {
  return model_load(k, k->rows, r->logits, int_add(k->e, r->first, column));
}

static ir logit_exponential(const model_kernel *k, const loss_row *r, ir column) {
  emitter *e = k->e;
  ir x = real_sub(e, logit(k, r, column), r->largest);
  return one_argument(k, GPU_EXP2_F32, real_mul(e, x, real_number(e, 1.4426950408889634, 0)));
}

static void load_target(const model_kernel *k, loss_row *r, ir row) {
  emitter *e = k->e;
  ir weights = model_pointer(k, offsetof(model_cross_entropy, weights));
  ir weight = stack_slot(e, e->real, "weight");
  r->target = load_token(k, model_pointer(k, offsetof(model_cross_entropy, targets)), row);
  store_real(e, real_number(e, 1, 0), weight);
  emit_branch branch = branch_begin(e, is_given(e, weights));
  store_real(e, model_load(k, NUMBER_F32, weights, row), weight);
  branch_end(e, &branch);
  ir none = int_compare(e, LLVMIntEQ, r->target, integer(e, NO_TARGET));
  r->weight = choose(e, none, real_number(e, 0, 0), load_real(e, weight, 0));
  r->at_target = logit(k, r, int_choose(e, none, integer(e, 0), r->target));
}

static void sum_row(const model_kernel *k, loss_row *r, ir width) {
  emitter *e = k->e;
  ir own = real_slot(e, real_number(e, -FLT_MAX, 0), "own");
  emit_loop loop = loop_of_block(k, width);
  ir x = logit(k, r, loop.index), before = load_real(e, own, 0);
  store_real(e, choose(e, real_compare(e, LLVMRealOGT, x, before), x, before), own);
  loop_end(e, &loop);
  r->largest = of_block(k, load_real(e, own, 0), false);
  store_real(e, real_number(e, 0, 0), own);
  loop = loop_of_block(k, width);
  real_add_to(e, own, logit_exponential(k, r, loop.index));
  loop_end(e, &loop);
  r->sum = of_block(k, load_real(e, own, 0), true);
}

// weight * scale * (softmax - one hot)
static void write_gradient(const model_kernel *k, const loss_row *r, ir row, ir width) {
  emitter *e = k->e;
  ir to = ROWS_DATA(k, model_cross_entropy, d_logits);
  ir scale = real_mul(e, r->weight, model_float(k, offsetof(model_cross_entropy, scale)));
  ir factor = real_div(e, scale, r->sum);
  ir first = int_mul(e, row, ROWS(k, model_cross_entropy, d_logits, stride));
  emit_branch branch = branch_begin(e, is_given(e, to));
  emit_loop loop = loop_of_block(k, width);
  ir hit = int_compare(e, LLVMIntEQ, loop.index, r->target);
  ir d = real_mul(e, logit_exponential(k, r, loop.index), factor);
  ir less = choose(e, hit, scale, real_number(e, 0, 0));
  model_store(k, k->rows, real_sub(e, d, less), to, int_add(e, first, loop.index));
  loop_end(e, &loop);
  branch_end(e, &branch);
}

// A block has a row.
static void cross_entropy_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir width = ROWS(k, model_cross_entropy, logits, width);
  ir losses = model_pointer(k, offsetof(model_cross_entropy, losses));
  emit_loop rows =
      loop_begin_by(e, k->block, ROWS(k, model_cross_entropy, logits, count), k->blocks, "row");
  loss_row r = {.logits = ROWS_DATA(k, model_cross_entropy, logits)};
  r.first = int_mul(e, rows.index, ROWS(k, model_cross_entropy, logits, stride));
  load_target(k, &r, rows.index);
  sum_row(k, &r, width);
  write_gradient(k, &r, rows.index, width);
  ir log =
      real_mul(e, one_argument(k, GPU_LOG2_F32, r.sum), real_number(e, 0.69314718055994531, 0));
  ir loss = real_mul(e, r.weight, real_add(e, log, real_sub(e, r.largest, r.at_target)));
  ir none = real_compare(e, LLVMRealOEQ, r.weight, real_number(e, 0, 0));
  emit_branch one = branch_begin(e, int_compare(e, LLVMIntEQ, k->thread, integer(e, 0)));
  model_store(k, NUMBER_F32, choose(e, none, real_number(e, 0, 0), loss), losses, rows.index);
  branch_end(e, &one);
  loop_end(e, &rows);
}

static void add_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir to = ROWS_DATA(k, model_add, to), from = ROWS_DATA(k, model_add, from);
  ir width = ROWS(k, model_add, to, width), sum = stack_slot(e, e->real, "sum");
  emit_loop loop = loop_of_all(k, int_mul(e, ROWS(k, model_add, to, count), width));
  ir row = int_div(e, loop.index, width), column = int_rem(e, loop.index, width);
  ir at = int_add(e, int_mul(e, row, ROWS(k, model_add, to, stride)), column);
  store_real(e, real_number(e, 0, 0), sum);
  emit_branch branch = branch_begin(e, is_given(e, from));
  ir place = int_add(e, int_mul(e, row, ROWS(k, model_add, from, stride)), column);
  ir x = model_load(k, k->rows, to, at), y = model_load(k, k->rows, from, place);
  store_real(e, real_add(e, x, y), sum);
  branch_end(e, &branch);
  model_store(k, k->rows, load_real(e, sum, 0), to, at);
  loop_end(e, &loop);
}

static void square_sums_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir from = ROWS_DATA(k, model_square_sums, from), own = stack_slot(e, e->real, "own");
  ir width = ROWS(k, model_square_sums, from, width),
     stride = ROWS(k, model_square_sums, from, stride);
  store_real(e, real_number(e, 0, 0), own);
  emit_loop loop = loop_of_all(k, int_mul(e, ROWS(k, model_square_sums, from, count), width));
  ir place =
      int_add(e, int_mul(e, int_div(e, loop.index, width), stride), int_rem(e, loop.index, width));
  ir x = model_load(k, k->rows, from, place);
  store_real(e, real_fma(e, x, x, load_real(e, own, 0)), own);
  loop_end(e, &loop);
  ir sum = of_block(k, load_real(e, own, 0), true);
  emit_branch one = branch_begin(e, int_compare(e, LLVMIntEQ, k->thread, integer(e, 0)));
  model_store(k, NUMBER_F32, sum, model_pointer(k, offsetof(model_square_sums, sums)), k->block);
  branch_end(e, &one);
}

#define ADAMW(name) offsetof(model_adamw, name)

// beta * before + (1 - beta) * now, written back.
static ir move_moment(const model_kernel *k, size_t moment, size_t beta_at, ir now, ir place) {
  emitter *e = k->e;
  ir data = model_pointer(k, moment), beta = model_float(k, beta_at);
  ir rest = real_sub(e, real_number(e, 1, 0), beta);
  ir x = real_add(e, real_mul(e, beta, model_load(k, NUMBER_F32, data, place)),
                  real_mul(e, rest, now));
  model_store(k, NUMBER_F32, x, data, place);
  return x;
}

static void adamw_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir values = model_pointer(k, ADAMW(values));
  emit_loop loop = loop_of_all(k, model_number(k, ADAMW(count)));
  ir i = loop.index, g = model_load(k, NUMBER_F32, model_pointer(k, ADAMW(gradient)), i);
  ir d = real_mul(e, g, model_float(k, ADAMW(gradient_scale)));
  ir m = move_moment(k, ADAMW(moment1), ADAMW(beta1), d, i);
  ir v = move_moment(k, ADAMW(moment2), ADAMW(beta2), real_mul(e, d, d), i);
  ir spread_v = real_mul(e, v, model_float(k, ADAMW(spread)));
  ir root = call_intrinsic(e, "llvm.sqrt", &e->real, 1, &spread_v, 1);
  ir step = real_div(e, real_mul(e, model_float(k, ADAMW(rate)), m),
                     real_add(e, root, model_float(k, ADAMW(epsilon))));
  ir kept = real_mul(e, model_float(k, ADAMW(shrink)), model_load(k, NUMBER_F32, values, i));
  model_store(k, NUMBER_F32, real_sub(e, kept, step), values, i);
  loop_end(e, &loop);
}

#define COMBINE(name) offsetof(model_combine, name)

static void combine_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir to = model_pointer(k, COMBINE(to)), from = model_pointer(k, COMBINE(from));
  emit_loop loop = loop_of_all(k, model_number(k, COMBINE(count)));
  ir kept = real_mul(e, model_float(k, COMBINE(alpha)), model_load(k, NUMBER_F32, to, loop.index));
  ir added =
      real_mul(e, model_float(k, COMBINE(beta)), model_load(k, NUMBER_F32, from, loop.index));
  model_store(k, NUMBER_F32, real_add(e, kept, added), to, loop.index);
  loop_end(e, &loop);
}

#define NORMALIZE(name) offsetof(model_normalize, name)

// Each thread adds up all sums, in their order.
static void normalize_kernel(const model_kernel *k) {
  emitter *e = k->e;
  ir values = model_pointer(k, NORMALIZE(values)), sums = model_pointer(k, NORMALIZE(sums));
  ir slot = real_slot(e, real_number(e, 0, 0), "sum");
  emit_loop all = loop_begin(e, integer(e, 0), model_number(k, NORMALIZE(sum_count)), 1, "block");
  ir next = model_load(k, NUMBER_F32, sums, all.index);
  real_add_to(e, slot, next);
  loop_end(e, &all);
  ir sum = load_real(e, slot, 0), root = call_intrinsic(e, "llvm.sqrt", &e->real, 1, &sum, 1);
  ir norm = real_add(e, root, model_float(k, NORMALIZE(epsilon)));
  emit_loop loop = loop_of_all(k, model_number(k, NORMALIZE(count)));
  ir x = model_load(k, NUMBER_F32, values, loop.index);
  model_store(k, NUMBER_F32, real_div(e, x, norm), values, loop.index);
  loop_end(e, &loop);
}

static void round_kernel(const model_kernel *k) {
  ir from = model_pointer(k, offsetof(model_round, from)),
     to = model_pointer(k, offsetof(model_round, to));
  emit_loop loop = loop_of_all(k, model_number(k, offsetof(model_round, count)));
  model_store(k, k->rows, model_load(k, NUMBER_F32, from, loop.index), to, loop.index);
  loop_end(k->e, &loop);
}

// ---- the module ----

static void make_kernel(arena *a, llvm_module *m, const char *name, int64_t parameter_bytes,
                        void (*body)(const model_kernel *), number_type rows) {
  emitter own = emitter_new(a, m, CLONE_GPU, NUMBER_F32), *e = &own;
  const char *symbol = arena_printf(a, "rec_model_%s_%s", name, number_type_text(rows));
  model_kernel k = {.e = e, .rows = rows};
  k.parameter = LLVMGetParam(gpu_kernel_function(e, symbol, parameter_bytes, MODEL_THREADS), 0);
  k.thread = gpu_index(e, GPU_THREAD_X);
  k.block = gpu_index(e, GPU_BLOCK_X);
  k.blocks = gpu_index(e, GPU_BLOCK_COUNT);
  k.first = int_add(e, int_mul_n(e, k.block, MODEL_THREADS), k.thread);
  k.all = int_mul_n(e, k.blocks, MODEL_THREADS);
  body(&k);
  LLVMBuildRetVoid(e->b);
  emitter_free(e);
}

gpu_model_images codegen_gpu_model(arena *a) {
  static const number_type types[] = {NUMBER_F32, NUMBER_BF16};
  llvm_module m = gpu_module_new("rec_model");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
#define MAKE(name, parameter) \
  make_kernel(a, &m, #name, (int64_t)sizeof(parameter), name##_kernel, types[i]);
    MODEL_KERNELS(MAKE)
#undef MAKE
  }
  llvm_verify(&m);
  gpu_model_images images = {.ptx = nvptx_text(a, &m, GPU_SM_80)};
  images.executor = simt_object(a, &m, 2, NULL);
  llvm_module_free(&m);
  return images;
}
