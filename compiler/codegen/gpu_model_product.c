/* The matrix product of the GPU kernels of models, for where there is no cuBLAS: a block makes tiles of 64 x 64, each thread
 * 4 x 4 numbers of one in registers.
 *
 *   for tile = block; tile < tiles; tile += blocks:
 *     for k = 0; k < depth; k += 16:
 *       A[16][64], B[16][64] in shared memory <- a, b; barrier
 *       sums[4][4] += A[k][4 y ..] B[k][4 x ..] for 16 k; barrier
 *     to <- sums
 */
#include "gpu_model.h"

enum {
  EACH = 4,                   /* rows and columns of a thread */
  ACROSS = MODEL_TILE / EACH, /* threads along a row of a tile */
  COPIES = MODEL_TILE * MODEL_DEPTH / MODEL_THREADS
};

#define FIELD(name) offsetof(model_product, name)

typedef struct product {
  const model_kernel *k;
  number_type b, to;
  ir row, column; /* of the tile's first number */
  ir rows, columns, depth;
  ir tile_a, tile_b; /* in shared memory */
  ir sums[EACH][EACH];
} product;

/* One factor as its tile sees it: number (i, k) of `from` stands at i * along + k * deep. */
typedef struct factor {
  ir from, first, size; /* first: of the tile, along it */
  ir along, deep;
  number_type type;
  ir tile;
} factor;

/* A weight as a row would hold it. */
static ir rounded(const product *p, ir x) {
  emitter *e = p->k->e;
  if (p->k->rows == NUMBER_F32) return x;
  ir pair = gpu_call(e, GPU_CVT_BF16X2, (ir[]){real_number(e, 0, 0), x}, 2);
  return LLVMBuildBitCast(e->b, pair, e->real, "");
}

static ir below(emitter *e, ir x, ir limit) { return int_compare(e, LLVMIntSLT, x, limit); }

/* Neighbouring threads take numbers that are neighbours in memory, whichever way the factor lies. */
static void copy_tile(const product *p, const factor *f, ir depth_first) {
  const model_kernel *k = p->k;
  emitter *e = k->e;
  ir deep_inside = int_compare(e, LLVMIntEQ, f->deep, integer(e, 1));
  for (int r = 0; r < COPIES; r++) {
    ir number = int_add(e, k->thread, integer(e, r * MODEL_THREADS));
    ir i = int_choose(e, deep_inside, int_div(e, number, integer(e, MODEL_DEPTH)),
                      int_rem(e, number, integer(e, MODEL_TILE)));
    ir d = int_choose(e, deep_inside, int_rem(e, number, integer(e, MODEL_DEPTH)),
                      int_div(e, number, integer(e, MODEL_TILE)));
    ir at = int_add(e, f->first, i), deep = int_add(e, depth_first, d);
    ir inside = LLVMBuildAnd(e->b, below(e, at, f->size), below(e, deep, p->depth), "");
    ir safe_at = int_choose(e, inside, at, integer(e, 0));
    ir safe_deep = int_choose(e, inside, deep, integer(e, 0));
    ir place = int_add(e, int_mul(e, safe_at, f->along), int_mul(e, safe_deep, f->deep));
    ir x = model_load(k, f->type, f->from, place);
    if (f->type == NUMBER_F32) x = rounded(p, x);
    x = choose(e, inside, x, real_number(e, 0, 0));
    ir to = int_add(e, int_mul(e, d, integer(e, MODEL_TILE)), i);
    store_real(e, x, element(e, e->real, f->tile, to));
  }
}

static void multiply_tiles(const product *p) {
  emitter *e = p->k->e;
  ir y = int_div(e, p->k->thread, integer(e, ACROSS)),
     x = int_rem(e, p->k->thread, integer(e, ACROSS));
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, MODEL_DEPTH), 1, "k");
  ir line = int_mul(e, loop.index, integer(e, MODEL_TILE)), a[EACH], b[EACH];
  for (int i = 0; i < EACH; i++) {
    ir at = int_add(e, int_mul(e, y, integer(e, EACH)), integer(e, i));
    a[i] = load_real(e, element(e, e->real, p->tile_a, int_add(e, line, at)), 0);
    at = int_add(e, int_mul(e, x, integer(e, EACH)), integer(e, i));
    b[i] = load_real(e, element(e, e->real, p->tile_b, int_add(e, line, at)), 0);
  }
  for (int i = 0; i < EACH; i++)
    for (int j = 0; j < EACH; j++)
      store_real(e, real_fma(e, a[i], b[j], load_real(e, p->sums[i][j], 0)), p->sums[i][j]);
  loop_end(e, &loop);
}

static void store_number(const product *p, ir i, ir j, ir sum) {
  const model_kernel *k = p->k;
  emitter *e = k->e;
  ir to = model_pointer(k, FIELD(to)), bias = model_pointer(k, FIELD(bias));
  ir place = int_add(e, int_mul(e, i, model_number(k, FIELD(to_row))), j);
  ir total = stack_slot(e, e->real, "total");
  store_real(e, sum, total);
  emit_branch has_bias = branch_begin(e, LLVMBuildIsNotNull(e->b, bias, ""));
  store_real(e, real_add(e, load_real(e, total, 0), model_load(k, NUMBER_F32, bias, j)), total);
  branch_end(e, &has_bias);
  ir adds = int_compare(e, LLVMIntNE, model_number(k, FIELD(add)), integer(e, 0));
  emit_branch add = branch_begin(e, adds);
  store_real(e, real_add(e, load_real(e, total, 0), model_load(k, p->to, to, place)), total);
  branch_end(e, &add);
  model_store(k, p->to, load_real(e, total, 0), to, place);
}

static void store_tile(const product *p) {
  emitter *e = p->k->e;
  ir y = int_div(e, p->k->thread, integer(e, ACROSS)),
     x = int_rem(e, p->k->thread, integer(e, ACROSS));
  for (int r = 0; r < EACH * EACH; r++) {
    ir i = int_add(e, p->row, int_add(e, int_mul(e, y, integer(e, EACH)), integer(e, r / EACH)));
    ir j = int_add(e, p->column, int_add(e, int_mul(e, x, integer(e, EACH)), integer(e, r % EACH)));
    ir inside = LLVMBuildAnd(e->b, below(e, i, p->rows), below(e, j, p->columns), "");
    emit_branch branch = branch_begin(e, inside);
    store_number(p, i, j, load_real(e, p->sums[r / EACH][r % EACH], 0));
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
  for (int r = 0; r < EACH * EACH; r++)
    store_real(e, real_number(e, 0, 0), p->sums[r / EACH][r % EACH]);
  emit_loop loop = loop_begin(e, integer(e, 0), p->depth, MODEL_DEPTH, "depth");
  copy_tile(p, &a, loop.index);
  copy_tile(p, &b, loop.index);
  model_barrier(k);
  multiply_tiles(p);
  model_barrier(k);
  loop_end(e, &loop);
  store_tile(p);
}

static ir tiles_of(emitter *e, ir size) {
  return int_div(e, int_add(e, size, integer(e, MODEL_TILE - 1)), integer(e, MODEL_TILE));
}

void model_product_body(const model_kernel *k, number_type b, number_type to) {
  emitter *e = k->e;
  product p = {.k = k, .b = b, .to = to};
  p.rows = model_number(k, FIELD(rows));
  p.columns = model_number(k, FIELD(columns));
  p.depth = model_number(k, FIELD(depth));
  p.tile_a = gpu_call(e, GPU_SHARED, NULL, 0);
  p.tile_b = element(e, e->real, p.tile_a, integer(e, MODEL_TILE * MODEL_DEPTH));
  for (int r = 0; r < EACH * EACH; r++) p.sums[r / EACH][r % EACH] = stack_slot(e, e->real, "sum");
  ir across = tiles_of(e, p.columns), count = int_mul(e, tiles_of(e, p.rows), across);
  emit_loop loop = loop_begin_by(e, k->block, count, k->blocks, "tile");
  p.row = int_mul(e, int_div(e, loop.index, across), integer(e, MODEL_TILE));
  p.column = int_mul(e, int_rem(e, loop.index, across), integer(e, MODEL_TILE));
  one_tile(&p);
  loop_end(e, &loop);
}
