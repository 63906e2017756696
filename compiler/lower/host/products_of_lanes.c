// Products that every lane has by itself: blocks of rows x columns, one vector of lanes for each
// pair of them.
//
//   %14 [segment,step,N] x D = dot %12 %13 over m      a[i, k], b[j, k] and c[i, j] are vectors along D:
//                                                      4 rows, 4 columns: 8 loads for 16 multiply-adds
//
// Rows, columns and steps of k may lie anywhere, at strides of whole vectors.
#include <stdio.h>

#include "compiler/lower/host/nests.h"

enum { MOST_SIDE = 4 };

typedef struct lanes_product {
  emitter *e;
  int64_t rows, columns, depth;
  dot_start start;
  int lanes;
  ir a, a_i, a_k, b, b_j, b_k, c, c_i, c_j;
} lanes_product;

typedef struct corner {
  ir i, j;
  int rows, columns;
} corner;

static ir at_stride(emitter *e, ir base, ir index, int more, ir stride) {
  return element(e, e->real, base, int_mul(e, int_add_n(e, index, more), stride));
}

static ir c_address(const lanes_product *p, const corner *at, int row, int column) {
  ir base = at_stride(p->e, p->c, at->i, row, p->c_i);
  return at_stride(p->e, base, at->j, column, p->c_j);
}

static void multiply_at(const lanes_product *p, const corner *at, ir k,
                        ir sums[MOST_SIDE][MOST_SIDE]) {
  emitter *e = p->e;
  ir b[MOST_SIDE];
  for (int j = 0; j < at->columns; j++) {
    ir column = at_stride(e, p->b, at->j, j, p->b_j);
    b[j] = load_real(e, at_stride(e, column, k, 0, p->b_k), p->lanes);
  }
  for (int i = 0; i < at->rows; i++) {
    ir row = at_stride(e, p->a, at->i, i, p->a_i);
    ir a = load_real(e, at_stride(e, row, k, 0, p->a_k), p->lanes);
    if (p->start == START_SUBTRACT) a = real_neg(e, a);
    for (int j = 0; j < at->columns; j++) {
      ir sum = load_real(e, sums[i][j], p->lanes);
      store_real(e, real_fma(e, a, b[j], sum), sums[i][j]);
    }
  }
}

static void one_block(const lanes_product *p, const corner *at) {
  emitter *e = p->e;
  ir sums[MOST_SIDE][MOST_SIDE];
  for (int i = 0; i < at->rows; i++) {
    for (int j = 0; j < at->columns; j++) {
      ir start = p->start == START_ZERO ? real_number(e, 0, p->lanes)
                                        : load_real(e, c_address(p, at, i, j), p->lanes);
      sums[i][j] = real_slot(e, start, "sum");
    }
  }
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, p->depth), 1, "k");
  multiply_at(p, at, loop.index, sums);
  loop_end(e, &loop);
  for (int i = 0; i < at->rows; i++)
    for (int j = 0; j < at->columns; j++)
      store_real(e, load_real(e, sums[i][j], p->lanes), c_address(p, at, i, j));
}

static void columns_of(const lanes_product *p, ir i, int rows, int block) {
  emitter *e = p->e;
  int64_t whole = p->columns / block * block;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), block, "j");
    one_block(p, &(corner){i, loop.index, rows, block});
    loop_end(e, &loop);
  }
  if (p->columns > whole)
    one_block(p, &(corner){i, integer(e, whole), rows, (int)(p->columns - whole)});
}

static int64_t least_size(int64_t x, int64_t y) { return x < y ? x : y; }

static void all_blocks(const lanes_product *p) {
  emitter *e = p->e;
  int most = clone_targets[e->clone].vector_registers >= 32 ? MOST_SIDE : MOST_SIDE / 2;
  int rows = (int)least_size(MOST_SIDE, p->rows), columns = (int)least_size(most, p->columns);
  int64_t whole = p->rows / rows * rows;
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), rows, "i");
  columns_of(p, loop.index, rows, columns);
  loop_end(e, &loop);
  if (p->rows > whole) columns_of(p, integer(e, whole), (int)(p->rows - whole), columns);
}

void dot_lanes(emitter *e, dot_sizes s, int lanes, dot_start start, const ir *given) {
  char name[128];
  snprintf(name, sizeof name, "rec_lanes_%lldx%lldx%lld_%d_%d%s", (long long)s.rows,
           (long long)s.columns, (long long)s.depth, lanes, start, clone_targets[e->clone].suffix);
  ir v[9];
  emitter inner;
  if (!emit_shared_call(e, name, given, 9, &inner, v)) return;
  lanes_product p = {&inner, s.rows, s.columns, s.depth, start, lanes, v[0], v[1],
                     v[2],   v[3],   v[4],      v[5],    v[6],  v[7],  v[8]};
  all_blocks(&p);
  emit_shared_end(&inner);
}
