// The matrix product of the GPU kernels of models, used without cuBLAS. A block makes tiles of 64 x
// 64; each thread has 16 elements of a tile in registers.
//
//   for tile = block; tile < tiles; tile += blocks:
//     for k = 0; k < depth; k += 16 (bf16: 32):
//       A, B in shared memory <- 64 rows of a, 64 columns of b at so many k; barrier
//       sums += A B: rows in f32 by multiply-adds of 4 x 4 numbers a thread, in bf16 on tensor cores; barrier
//     to <- sums
#include "compiler/model_kernels/kernels.h"

enum {
  SUMS = MODEL_TILE * MODEL_TILE / MODEL_THREADS,  // of a thread
  EACH = 4,                                        // multiply-adds: rows and columns of a thread
  ACROSS = MODEL_TILE / EACH,                      // threads along a row of a tile
  WARP_ROWS = 16,                                  // tensor cores: rows and columns of a warp
  WARP_COLUMNS = 32
};

#define FIELD(name) offsetof(model_product, name)

typedef struct product {
  const model_kernel *k;
  number_type b, to;
  // 16 bits in shared memory, row by row: [64][32 + 8]; else f32, column by column: [16][64]
  bool on_cores;
  int deep;        // of the factors in shared memory
  ir row, column;  // of the tile's first number
  ir rows, columns, depth;
  ir tile_a, tile_b;  // in shared memory
  ir sums[SUMS];
} product;

// One factor as its tile sees it: number (i, k) of `from` stands at i * along + k * deep.
typedef struct factor {
  ir from, first, size;  // first: of the tile, along it
  ir along, deep;
  number_type type;
  ir tile;
} factor;

static ir index_is_below(emitter *e, ir x, ir limit) {
  return int_compare(e, LLVMIntSLT, x, limit);
}

static void store_factor_number(const product *p, const factor *f, ir x, ir i, ir d) {
  emitter *e = p->k->e;
  if (p->on_cores)
    model_store(p->k, NUMBER_BF16, x, f->tile, int_add(e, int_mul_n(e, i, MODEL_PITCH), d));
  else
    model_store(p->k, NUMBER_F32, x, f->tile, int_add(e, int_mul_n(e, d, MODEL_TILE), i));
}

// Neighbouring threads take numbers that are neighbours in memory, whichever way the factor lies.
static void copy_tile(const product *p, const factor *f, ir depth_first) {
  const model_kernel *k = p->k;
  emitter *e = k->e;
  ir deep_inside = int_compare(e, LLVMIntEQ, f->deep, integer(e, 1));
  for (int r = 0; r < MODEL_TILE * p->deep / MODEL_THREADS; r++) {
    ir number = int_add_n(e, k->thread, r * MODEL_THREADS);
    ir i =
        int_choose(e, deep_inside, int_div_n(e, number, p->deep), int_rem_n(e, number, MODEL_TILE));
    ir d =
        int_choose(e, deep_inside, int_rem_n(e, number, p->deep), int_div_n(e, number, MODEL_TILE));
    ir at = int_add(e, f->first, i), deep = int_add(e, depth_first, d);
    ir inside = bit_and(e, index_is_below(e, at, f->size), index_is_below(e, deep, p->depth));
    ir safe_at = int_choose(e, inside, at, integer(e, 0));
    ir safe_deep = int_choose(e, inside, deep, integer(e, 0));
    ir place = int_add(e, int_mul(e, safe_at, f->along), int_mul(e, safe_deep, f->deep));
    ir x = model_load(k, f->type, f->from, place);
    store_factor_number(p, f, choose(e, inside, x, real_number(e, 0, 0)), i, d);
  }
}

// ---- multiply-adds ----

static void multiply_plainly(const product *p) {
  emitter *e = p->k->e;
  ir y = int_div_n(e, p->k->thread, ACROSS), x = int_rem_n(e, p->k->thread, ACROSS);
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, MODEL_DEPTH), 1, "k");
  ir line = int_mul_n(e, loop.index, MODEL_TILE), a[EACH], b[EACH];
  for (int i = 0; i < EACH; i++) {
    ir at = int_add_n(e, int_mul_n(e, y, EACH), i);
    a[i] = model_load(p->k, NUMBER_F32, p->tile_a, int_add(e, line, at));
    at = int_add_n(e, int_mul_n(e, x, EACH), i);
    b[i] = model_load(p->k, NUMBER_F32, p->tile_b, int_add(e, line, at));
  }
  for (int r = 0; r < SUMS; r++)
    store_real(e, real_fma(e, a[r / EACH], b[r % EACH], load_real(e, p->sums[r], 0)), p->sums[r]);
  loop_end(e, &loop);
}

// ---- tensor cores: lanes hold what the rows of gpu_ops.def say ----

static ir warp_row(const product *p) {
  emitter *e = p->k->e;
  ir warp = int_div_n(e, p->k->thread, 32);
  return int_mul_n(e, int_rem_n(e, warp, MODEL_TILE / WARP_ROWS), WARP_ROWS);
}

static ir warp_column(const product *p) {
  emitter *e = p->k->e;
  ir warp = int_div_n(e, p->k->thread, 32);
  return int_mul_n(e, int_div_n(e, warp, MODEL_TILE / WARP_ROWS), WARP_COLUMNS);
}

// Four lanes have a row (of b: a column), each two neighbours along it.
static ir lane_group(const product *p) {
  emitter *e = p->k->e;
  return int_div_n(e, int_rem_n(e, p->k->thread, 32), 4);
}
static ir lane_pair(const product *p) {
  emitter *e = p->k->e;
  return int_mul_n(e, int_rem_n(e, p->k->thread, 4), 2);
}

// Two neighbours along k.
static ir two_numbers(const product *p, ir tile, ir row, ir k) {
  emitter *e = p->k->e;
  ir place = int_add(e, int_mul_n(e, row, MODEL_PITCH), k);
  ir x = LLVMBuildLoad2(e->b, e->i32, element(e, e->i16, tile, place), "");
  LLVMSetAlignment(x, 4);
  return x;
}

static void multiply_on_cores(const product *p) {
  emitter *e = p->k->e;
  ir row = int_add(e, warp_row(p), lane_group(p)), pair = lane_pair(p);
  ir column = int_add(e, warp_column(p), lane_group(p));
  for (int k = 0; k < p->deep; k += 16) {
    ir args[10];
    for (int r = 0; r < 4; r++)
      args[r] = two_numbers(p, p->tile_a, int_add_n(e, row, r % 2 * 8),
                            int_add_n(e, pair, k + r / 2 * 8));
    for (int tile = 0; tile < WARP_COLUMNS / 8; tile++) {
      for (int r = 0; r < 2; r++)
        args[4 + r] = two_numbers(p, p->tile_b, int_add_n(e, column, tile * 8),
                                  int_add_n(e, pair, k + r * 8));
      for (int r = 0; r < 4; r++) args[6 + r] = load_real(e, p->sums[4 * tile + r], 0);
      ir d = gpu_call(e, GPU_MMA_M16N8K16_BF16, args, 10);
      for (unsigned r = 0; r < 4; r++)
        store_real(e, LLVMBuildExtractValue(e->b, d, r, ""), p->sums[4 * tile + (int)r]);
    }
  }
}

// ---- a tile ----

// Where a sum stands in the tile.
static void place_of_register(const product *p, int r, ir *i, ir *j) {
  emitter *e = p->k->e;
  if (p->on_cores) {
    *i = int_add_n(e, int_add(e, warp_row(p), lane_group(p)), r % 4 / 2 * 8);
    *j = int_add_n(e, int_add(e, warp_column(p), lane_pair(p)), r / 4 * 8 + r % 2);
    return;
  }
  ir y = int_div_n(e, p->k->thread, ACROSS), x = int_rem_n(e, p->k->thread, ACROSS);
  *i = int_add_n(e, int_mul_n(e, y, EACH), r / EACH);
  *j = int_add_n(e, int_mul_n(e, x, EACH), r % EACH);
}

static void store_product_number(const product *p, ir i, ir j, ir sum) {
  const model_kernel *k = p->k;
  emitter *e = k->e;
  ir to = model_pointer(k, FIELD(to)), bias = model_pointer(k, FIELD(bias));
  ir place = int_add(e, int_mul(e, i, model_number(k, FIELD(to_row))), j);
  ir total = real_slot(e, sum, "total");
  emit_branch has_bias = branch_begin(e, is_given(e, bias));
  real_add_to(e, total, model_load(k, NUMBER_F32, bias, j));
  branch_end(e, &has_bias);
  ir adds = int_compare(e, LLVMIntNE, model_number(k, FIELD(add)), integer(e, 0));
  emit_branch add = branch_begin(e, adds);
  real_add_to(e, total, model_load(k, p->to, to, place));
  branch_end(e, &add);
  model_store(k, p->to, load_real(e, total, 0), to, place);
}

static void store_tile(const product *p) {
  emitter *e = p->k->e;
  for (int r = 0; r < SUMS; r++) {
    ir i, j;
    place_of_register(p, r, &i, &j);
    i = int_add(e, p->row, i);
    j = int_add(e, p->column, j);
    ir inside = bit_and(e, index_is_below(e, i, p->rows), index_is_below(e, j, p->columns));
    emit_branch branch = branch_begin(e, inside);
    store_product_number(p, i, j, load_real(e, p->sums[r], 0));
    branch_end(e, &branch);
  }
}

static void one_tile(product *p) {
  const model_kernel *k = p->k;
  emitter *e = k->e;
  factor a = {model_pointer(k, FIELD(a)),       p->row,  p->rows,  model_number(k, FIELD(a_row)),
              model_number(k, FIELD(a_column)), k->rows, p->tile_a};
  factor b = {
      model_pointer(k, FIELD(b)),    p->column, p->columns, model_number(k, FIELD(b_column)),
      model_number(k, FIELD(b_row)), p->b,      p->tile_b};
  for (int r = 0; r < SUMS; r++) store_real(e, real_number(e, 0, 0), p->sums[r]);
  emit_loop loop = loop_begin(e, integer(e, 0), p->depth, p->deep, "depth");
  copy_tile(p, &a, loop.index);
  copy_tile(p, &b, loop.index);
  model_barrier(k);
  if (p->on_cores)
    multiply_on_cores(p);
  else
    multiply_plainly(p);
  model_barrier(k);
  loop_end(e, &loop);
  store_tile(p);
}

static ir tile_count(emitter *e, ir size) {
  return int_div_n(e, int_add_n(e, size, MODEL_TILE - 1), MODEL_TILE);
}

void model_product_body(const model_kernel *k, number_type b, number_type to) {
  emitter *e = k->e;
  product p = {.k = k, .b = b, .to = to, .on_cores = k->rows == NUMBER_BF16};
  p.deep = p.on_cores ? MODEL_CORE_DEPTH : MODEL_DEPTH;
  p.rows = model_number(k, FIELD(rows));
  p.columns = model_number(k, FIELD(columns));
  p.depth = model_number(k, FIELD(depth));
  p.tile_a = gpu_call(e, GPU_SHARED, NULL, 0);
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  p.tile_b = element(e, bytes, p.tile_a, integer(e, MODEL_SHARED_BYTES / 2));
  for (int r = 0; r < SUMS; r++) p.sums[r] = stack_slot(e, e->real, "sum");
  ir across = tile_count(e, p.columns), count = int_mul(e, tile_count(e, p.rows), across);
  emit_loop loop = loop_begin_by(e, k->block, count, k->blocks, "tile");
  p.row = int_mul_n(e, int_div(e, loop.index, across), MODEL_TILE);
  p.column = int_mul_n(e, int_rem(e, loop.index, across), MODEL_TILE);
  one_tile(&p);
  loop_end(e, &loop);
}
