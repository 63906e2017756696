// GPU, single steps: a matrix of parameters times a vector, or times a few, on tensor cores.
//
//   %7 [D,G] = dot %h [E], %weight [G,D,E] over E      warp n: 16 rows of the matrix at a time, 16 steps of E at once,
//                                                      times 8 columns: vectors, each in two parts
//
// A product on tensor cores has at least 8 columns. A vector has 32 bits and takes two of them: its
// first 8 bits, and the next 8. The sum of both columns is in one lane. A column that no vector has
// repeats others, and nothing reads it. Nothing is left of an infinity but a NaN, which the sum
// becomes.
//
// The matrix is the A operand: in registers from the first step to the last, or by ldmatrix from
// its copy, transposed where the sum is across the rows of memory. A copy in scratch is read number
// by number. Each warp converts the parts of the vectors that it multiplies. Where there are fewer
// blocks of rows than warps, warps share the summed axis.
#include "compiler/lower/gpu/matrix_product.h"

enum { ROWS = GPU_TILE_ROWS, DEPTH = 16, PARTS = 2, LANES_OF_ROW = 4 };

typedef struct warp_share {
  int tiles;          // blocks of 16 rows at once, one below the other
  int64_t all_tiles;  // of the warp
  int64_t steps;      // of 16 along the depth
  ir first_row, first_step, split;
  ir group, pair;  // lane / 4, lane % 4
  ir taken;        // of the bits of a number, those that the lane's part lacks
} warp_share;

static warp_share warp_share_of(lower *l, const matrix_product *p) {
  emitter *e = l->e;
  int64_t warps = l->team->threads / GPU_WARP_LANES, row_warps = warps / p->g.splits;
  ir warp = gpu_warp(l), lane = gpu_lane(l);
  warp_share s = {.all_tiles = p->row_count / ROWS / row_warps,
                  .steps = p->depth_count / DEPTH / p->g.splits};
  s.tiles = (int)(s.all_tiles < GPU_MATRIX_TILES ? s.all_tiles : GPU_MATRIX_TILES);
  while (s.all_tiles % s.tiles) s.tiles--;
  s.split = int_div_n(e, warp, row_warps);
  s.first_row = int_mul_n(e, int_rem_n(e, warp, row_warps), s.all_tiles * ROWS);
  s.first_step = int_mul_n(e, s.split, s.steps);
  s.group = int_div_n(e, lane, LANES_OF_ROW);
  s.pair = int_rem_n(e, lane, LANES_OF_ROW);
  ir second = int_compare(e, LLVMIntEQ, int_rem_n(e, s.group, PARTS), integer(e, 1));
  s.taken = LLVMBuildSelect(e->b, second, LLVMConstInt(e->i32, 0xffff0000u, 0),
                            LLVMConstInt(e->i32, 0, 0), "");
  return s;
}

// ---- the matrix ----

// From shared memory. Lane 8 m + i has the address of row i of matrix m: rows 0-7 and 8-15, then
// the same of the next 8 of the depth. A transposed matrix has rows along the depth.
static void load_matrix(lower *l, const matrix_product *p, const place_in_loops *at, ir row,
                        ir step, ir a[4]) {
  emitter *e = l->e;
  ir lane = gpu_lane(l), eight = integer(e, 8), line = int_rem(e, lane, eight),
     matrix = int_div(e, lane, eight);
  ir below = int_mul(e, int_rem_n(e, matrix, 2), eight),
     behind = int_mul(e, int_div_n(e, matrix, 2), eight);
  ir depth = int_add(e, int_mul_n(e, step, DEPTH), behind);
  row = int_add(e, row, below);
  if (p->g.along) row = int_add(e, row, line);
  if (!p->g.along) depth = int_add(e, depth, line);
  place_in_loops place = *at;
  gpu_matrix_go(l, &p->rows, p->rows_in_line, row, &place);
  gpu_matrix_go(l, &p->depth, p->depth_in_line, depth, &place);
  ir address = view_address(l, &p->o->first.b, &place, p->o->first.b_axes);
  ir all = gpu_call(e, p->g.along ? GPU_LDMATRIX_X4 : GPU_LDMATRIX_X4_TRANS, &address, 1);
  for (unsigned i = 0; i < 4; i++) a[i] = LLVMBuildExtractValue(e->b, all, i, "");
}

// ---- the matrix in registers ----

// Of the warp's block of rows: a tile of 16 of them, and a step of the warp along the depth.
typedef struct block_place {
  ir row;
  int tile;
  ir step;
} block_place;

// A row's two neighbours along the depth.
static ir pair_of_matrix(lower *l, const matrix_product *p, const place_in_loops *at, ir row,
                         ir depth) {
  emitter *e = l->e;
  ir x[2];
  for (int i = 0; i < 2; i++) {
    place_in_loops place = *at;
    gpu_matrix_go(l, &p->rows, p->rows_in_line, row, &place);
    gpu_matrix_go(l, &p->depth, p->depth_in_line, int_add_n(e, depth, i), &place);
    x[i] = view_load(l, &p->o->first.b, &place, p->o->first.b_axes);
  }
  return gpu_call(e, GPU_CVT_BF16X2, x, 2);
}

// The same number by number, wherever the matrix lies.
static void load_numbers(lower *l, const matrix_product *p, const warp_share *s,
                         const place_in_loops *at, ir row, ir step, ir a[4]) {
  emitter *e = l->e;
  ir first = int_add(e, int_mul_n(e, step, DEPTH), int_mul_n(e, s->pair, 2));
  for (int r = 0; r < 4; r++) {
    ir own = int_add_n(e, int_add(e, row, s->group), r % 2 * 8);
    a[r] = pair_of_matrix(l, p, at, own, int_add_n(e, first, r / 2 * 8));
  }
}

void gpu_matrix_load(lower *l, const matrix_product *p, const place_in_loops *at) {
  emitter *e = l->e;
  warp_share s = warp_share_of(l, p);
  ir *slots = ARENA_ARRAY(e->a, ir, 4 * s.tiles * s.steps), a[4];
  for (int i = 0; i < 4 * s.tiles * s.steps; i++) {
    int64_t tile = i / 4 / s.steps, step = i / 4 % s.steps, r = i % 4;
    ir row = int_add_n(e, s.first_row, tile * ROWS);
    if (!r) load_numbers(l, p, &s, at, row, int_add_n(e, s.first_step, step), a);
    slots[i] = stack_slot(e, e->i32, "matrix");
    LLVMBuildStore(e->b, a[r], slots[i]);
  }
  l->matrices[p->nest - l->p->nests.items] = slots;
}

static void load_tile(lower *l, const matrix_product *p, const warp_share *s,
                      const place_in_loops *at, block_place where, ir a[4]) {
  emitter *e = l->e;
  int64_t step;
  const ir *slots = l->matrices[p->nest - l->p->nests.items];
  if (!slots || !int_known(where.step, &step)) {
    ir row = int_add_n(e, where.row, where.tile * ROWS),
       at_step = int_add(e, s->first_step, where.step);
    if (gpu_in_shared_memory(p->o->first.b.base))
      load_matrix(l, p, at, row, at_step, a);
    else
      load_numbers(l, p, s, at, row, at_step, a);
    return;
  }
  for (int r = 0; r < 4; r++)
    a[r] = LLVMBuildLoad2(e->b, e->i32, slots[4 * (where.tile * s->steps + step) + r], "");
}

// ---- the vectors ----

// Two neighbours along the depth, of the vector that the lane's column has.
static void load_pair(lower *l, const matrix_product *p, const place_in_loops *at, ir depth,
                      ir x[2]) {
  emitter *e = l->e;
  const gpu_factors *f = &p->o->first;
  int last = p->depth.axes[p->depth.count - 1];
  place_in_loops place = *at;
  gpu_matrix_go_to(l, &p->depth, depth, &place);
  if (!gpu_has_pairs(l, &f->a, last)) {
    x[0] = view_load(l, &f->a, &place, f->a_axes);
    gpu_matrix_go_to(l, &p->depth, int_add_n(e, depth, 1), &place);
    x[1] = view_load(l, &f->a, &place, f->a_axes);
    return;
  }
  place.vector_axis = last, place.lanes = 2;
  ir both = view_load(l, &f->a, &place, f->a_axes);
  for (int i = 0; i < 2; i++) x[i] = LLVMBuildExtractElement(e->b, both, integer(e, i), "");
}

// The upper 16 bits of two numbers of 32: the first one in the low half.
static ir upper_halves(emitter *e, ir low, ir high) {
  ir sixteen = LLVMConstInt(e->i32, 16, 0), upper = LLVMConstInt(e->i32, 0xffff0000u, 0);
  low = LLVMBuildLShr(e->b, LLVMBuildBitCast(e->b, low, e->i32, ""), sixteen, "");
  high = bit_and(e, LLVMBuildBitCast(e->b, high, e->i32, ""), upper);
  return bit_or(e, high, low);
}

// Column 2 c has the first 8 bits of vector c, column 2 c + 1 what is left of it.
static void load_vectors(lower *l, const matrix_product *p, const warp_share *s,
                         const place_in_loops *at, ir step, ir b[2]) {
  emitter *e = l->e;
  place_in_loops place = *at;
  int axis = p->g.vector_axis;
  ir vector = int_rem_n(e, int_div_n(e, s->group, PARTS), p->vectors);
  if (p->vectors > 1) place.index[axis] = int_add(e, place.index[axis], vector);
  ir depth = int_add(e, int_mul_n(e, step, DEPTH), int_mul_n(e, s->pair, 2));
  for (int half = 0; half < 2; half++) {
    ir x[2];
    load_pair(l, p, &place, int_add_n(e, depth, half * 8), x);
    for (int i = 0; i < 2; i++) {
      ir first = bit_and(e, LLVMBuildBitCast(e->b, x[i], e->i32, ""), s->taken);
      x[i] = real_sub(e, x[i], LLVMBuildBitCast(e->b, first, e->real, ""));
    }
    b[half] = upper_halves(e, x[0], x[1]);
  }
}

// ---- one block of rows ----

typedef struct tile_sums {
  ir slots[GPU_MATRIX_TILES][4];
} tile_sums;

static tile_sums open_tile_sums(lower *l, int tiles) {
  emitter *e = l->e;
  tile_sums sums;
  for (int i = 0; i < 4 * tiles; i++)
    sums.slots[i / 4][i % 4] = real_slot(e, real_number(e, 0, 0), "sum");
  return sums;
}

static void multiply_warp_tiles(lower *l, const matrix_product *p, const warp_share *s,
                                const place_in_loops *at, ir row, ir step, const tile_sums *sums) {
  emitter *e = l->e;
  ir args[10];
  load_vectors(l, p, s, at, int_add(e, s->first_step, step), args + 4);
  for (int tile = 0; tile < s->tiles; tile++) {
    load_tile(l, p, s, at, (block_place){row, tile, step}, args);
    for (int r = 0; r < 4; r++) args[6 + r] = load_real(e, sums->slots[tile][r], 0);
    ir d = gpu_call(e, GPU_MMA_M16N8K16_BF16, args, 10);
    for (unsigned r = 0; r < 4; r++)
      store_real(e, LLVMBuildExtractValue(e->b, d, r, ""), sums->slots[tile][r]);
  }
}

static void along_depth(lower *l, const matrix_product *p, const warp_share *s,
                        const place_in_loops *at, ir row, const tile_sums *sums) {
  enum { WRITTEN_OUT = 8 };
  emitter *e = l->e;
  bool written_out = s->steps <= WRITTEN_OUT || p->nest->dot.held_b;
  for (int64_t k = 0; written_out && k < s->steps; k++)
    multiply_warp_tiles(l, p, s, at, row, integer(e, k), sums);
  if (written_out) return;
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, s->steps), 1, "k");
  multiply_warp_tiles(l, p, s, at, row, loop.index, sums);
  loop_end(e, &loop);
}

static void end_sum(lower *l, const matrix_product *p, const warp_share *s,
                    const place_in_loops *at, ir row, ir vector, ir x) {
  if (p->g.splits == 1)
    gpu_matrix_finish(l, p, at, row, vector, x);
  else
    LLVMBuildStore(l->e->b, x, gpu_matrix_partial_sum(l, p, s->split, row, vector));
}

// Of four lanes with the same rows, as many have sums as there are vectors. They share these rows
// with the others: number `first` and the `others - 1` that follow.
static void end_rows(lower *l, const matrix_product *p, const warp_share *s,
                     const place_in_loops *at, ir row, const ir *x, int first, int count) {
  emitter *e = l->e;
  int others = LANES_OF_ROW / p->vectors;
  ir vectors = integer(e, p->vectors), vector = int_rem(e, s->pair, vectors),
     own = int_div(e, s->pair, vectors);
  ir maker = int_add(e, int_mul_n(e, s->group, LANES_OF_ROW), vector), sum = x[first];
  for (int i = 0; others > 1 && i < others && first + i < count; i++) {
    ir here = gpu_call(e, GPU_SHFL_IDX_F32, (ir[]){x[first + i], maker}, 2);
    sum = i ? choose(e, int_compare(e, LLVMIntEQ, own, integer(e, i)), here, sum) : here;
  }
  ir number = int_add_n(e, own, first);
  row = int_add(e, row, int_add(e, int_mul_n(e, number, ROWS / 2), s->group));
  emit_branch branch = {0};
  if (first + others > count)
    branch = branch_begin(e, int_compare(e, LLVMIntSLT, number, integer(e, count)));
  end_sum(l, p, s, at, row, vector, sum);
  if (first + others > count) branch_end(e, &branch);
}

static void block_of_rows(lower *l, const matrix_product *p, const warp_share *s,
                          const place_in_loops *at, ir row) {
  emitter *e = l->e;
  tile_sums sums = open_tile_sums(l, s->tiles);
  ir x[2 * GPU_MATRIX_TILES];
  along_depth(l, p, s, at, row, &sums);
  for (int i = 0; i < 2 * s->tiles; i++) {
    const ir *parts = &sums.slots[i / 2][i % 2 * PARTS];
    x[i] = real_add(e, load_real(e, parts[0], 0), load_real(e, parts[1], 0));
  }
  for (int i = 0; i < 2 * s->tiles; i += LANES_OF_ROW / p->vectors)
    end_rows(l, p, s, at, row, x, i, 2 * s->tiles);
}

void gpu_matrix_mma(lower *l, const matrix_product *p, const place_in_loops *at) {
  emitter *e = l->e;
  warp_share s = warp_share_of(l, p);
  if (s.all_tiles == s.tiles) {
    block_of_rows(l, p, &s, at, s.first_row);
  } else {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, s.all_tiles / s.tiles), 1, "rows");
    block_of_rows(l, p, &s, at, int_add(e, s.first_row, int_mul_n(e, loop.index, s.tiles * ROWS)));
    loop_end(e, &loop);
  }
  if (p->g.splits > 1) gpu_matrix_add_up(l, p, at);
}
