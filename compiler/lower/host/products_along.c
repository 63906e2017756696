// Products whose operands are both contiguous along the summed axis. A block of rows x columns has
// one vector of partial sums for each pair. The lanes of all vectors are added up together.
//
//   %13 [t,s] = dot %8 %9 over N      4 rows of t, 4 of s, 16 lanes along N: 16 vectors, 15 x (two shuffles, one
//                                     addition), one vector with the 16 sums
//
// This way suits few columns. With many columns, a copy of b that lies along them is faster
// (lower/host/products.c).
#include <stdio.h>

#include "compiler/lower/host/nests.h"

enum { MOST_LANES = 64 };

typedef struct along {
  emitter *e;
  int64_t rows, columns, depth;
  dot_start start;
  int block_rows, block_columns;  // their product is the number of lanes
  ir a, a_i, b, b_j, c, c_i;
} along;

typedef struct corner {
  ir i, j;
  int rows, columns;  // of the block that exist
} corner;

// Whole vectors of a row or column; the last, shorter one ends in zeros.
static ir load_along(const along *p, ir row, ir k, int lanes) {
  emitter *e = p->e;
  ir x = load_real(e, element(e, e->real, row, k), lanes);
  if (lanes == e->lanes) return x;
  ir mask[MOST_LANES];
  for (int i = 0; i < e->lanes; i++)
    mask[i] = LLVMConstInt(e->i32, (unsigned)(i < lanes ? i : lanes), 0);
  ir zeros = real_number(e, 0, lanes);
  return LLVMBuildShuffleVector(e->b, x, zeros, LLVMConstVector(mask, (unsigned)e->lanes), "");
}

static void multiply_at(const along *p, const corner *at, ir k, int lanes, ir *sums) {
  emitter *e = p->e;
  ir b[MOST_LANES];
  for (int c = 0; c < at->columns; c++) {
    ir offset = int_mul(e, int_add_n(e, at->j, c), p->b_j);
    b[c] = load_along(p, element(e, e->real, p->b, offset), k, lanes);
  }
  for (int r = 0; r < at->rows; r++) {
    ir offset = int_mul(e, int_add_n(e, at->i, r), p->a_i);
    ir a = load_along(p, element(e, e->real, p->a, offset), k, lanes);
    for (int c = 0; c < at->columns; c++) {
      ir slot = sums[r * p->block_columns + c];
      store_real(e, real_fma(e, a, b[c], load_real(e, slot, e->lanes)), slot);
    }
  }
}

static void store_sum_block(const along *p, const corner *at, ir x) {
  emitter *e = p->e;
  for (int r = 0; r < at->rows; r++) {
    ir offset = int_mul(e, int_add_n(e, at->i, r), p->c_i);
    ir address = element(e, e->real, p->c, int_add(e, offset, at->j));
    ir row = lanes_from(e, x, r * p->block_columns, at->columns);
    if (p->start != START_ZERO) {
      ir sum = load_real(e, address, at->columns);
      row = p->start == START_ADD ? real_add(e, sum, row) : real_sub(e, sum, row);
    }
    store_real(e, row, address);
  }
}

static void one_block(const along *p, ir i, ir j, int rows, int columns) {
  emitter *e = p->e;
  corner at = {i, j, rows, columns};
  ir sums[MOST_LANES];
  for (int n = 0; n < e->lanes; n++) sums[n] = real_slot(e, real_number(e, 0, e->lanes), "sums");
  int64_t whole = p->depth / e->lanes * e->lanes;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), e->lanes, "k");
    multiply_at(p, &at, loop.index, e->lanes, sums);
    loop_end(e, &loop);
  }
  if (p->depth > whole) multiply_at(p, &at, integer(e, whole), (int)(p->depth - whole), sums);
  ir parts[MOST_LANES];
  for (int n = 0; n < e->lanes; n++) parts[n] = load_real(e, sums[n], e->lanes);
  store_sum_block(p, &at, sums_of_rows(e, parts, e->lanes));
}

static void columns_of(const along *p, ir i, int rows) {
  emitter *e = p->e;
  int64_t whole = p->columns / p->block_columns * p->block_columns;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), p->block_columns, "j");
    one_block(p, i, loop.index, rows, p->block_columns);
    loop_end(e, &loop);
  }
  if (p->columns > whole) one_block(p, i, integer(e, whole), rows, (int)(p->columns - whole));
}

static void all_blocks(const along *p) {
  emitter *e = p->e;
  int64_t whole = p->rows / p->block_rows * p->block_rows;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), p->block_rows, "i");
    columns_of(p, loop.index, p->block_rows);
    loop_end(e, &loop);
  }
  if (p->rows > whole) columns_of(p, integer(e, whole), (int)(p->rows - whole));
}

// About square, but not more of either than there are.
static void choose_block(along *p) {
  int lanes = p->e->lanes;
  p->block_columns = 1;
  while (p->block_columns * p->block_columns < lanes && 2 * p->block_columns <= p->columns)
    p->block_columns *= 2;
  p->block_rows = lanes / p->block_columns;
  while (p->block_rows > p->rows && 2 * p->block_columns <= p->columns && p->block_rows > 1) {
    p->block_rows /= 2;
    p->block_columns *= 2;
  }
}

void dot_along(emitter *e, dot_sizes s, dot_start start, const ir *given) {
  char name[128];
  snprintf(name, sizeof name, "rec_along_%lldx%lldx%lld_%d%s", (long long)s.rows,
           (long long)s.columns, (long long)s.depth, start, clone_targets[e->clone].suffix);
  ir args[6];
  emitter inner;
  if (!emit_shared_call(e, name, given, 6, &inner, args)) return;
  along p = {.e = &inner, .rows = s.rows, .columns = s.columns, .depth = s.depth, .start = start};
  p.a = args[0], p.a_i = args[1], p.b = args[2], p.b_j = args[3], p.c = args[4], p.c_i = args[5];
  choose_block(&p);
  all_blocks(&p);
  emit_shared_end(&inner);
}
