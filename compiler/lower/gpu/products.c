// Products by multiply-adds: each thread of a block takes blocks of rows x columns of the result.
//
//   %12 [t,P] = dot %10 %11 over s    thread n: rows 4 i .. 4 i + 3, columns j, j + P/4, j + P/2, j + 3 P/4
//                                     for s: 4 numbers of %10, 4 of %11, 16 multiply-adds
//
// Columns of a thread lie apart so that neighbouring threads read neighbouring numbers.
#include "compiler/lower/gpu/nests.h"

typedef enum row_range { RANGE_ALL, RANGE_TO_ROW, RANGE_FROM_ROW } row_range;

enum { MOST_BLOCK = 4 };

typedef struct gpu_product {
  const plan_nest *nest;
  const gpu_operands *o;
  int rows, columns;  // of a thread's block
  row_range range;
} gpu_product;

typedef struct sums {
  ir slots[MOST_BLOCK][MOST_BLOCK];
  ir i[MOST_BLOCK], j[MOST_BLOCK];  // rows and columns of the block
} sums;

static int block_side(int64_t size) { return size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1; }

static place_in_loops place_along(const place_in_loops *at, int axis, ir index) {
  place_in_loops here = *at;
  here.index[axis] = index;
  return here;
}

static void multiply_point(lower *l, const place_in_loops *at, void *data, sums *s) {
  const gpu_product *p = data;
  emitter *e = l->e;
  const plan_dot *dot = &p->nest->dot;
  ir a[MOST_BLOCK], b[MOST_BLOCK];
  for (int r = 0; r < p->rows; r++) {
    place_in_loops here = place_along(at, dot->i, s->i[r]);
    a[r] = view_load(l, &p->o->first.a, &here, p->o->first.a_axes);
    if (p->o->first.minus) a[r] = real_neg(e, a[r]);
  }
  for (int c = 0; c < p->columns; c++) {
    place_in_loops here = place_along(at, dot->j, s->j[c]);
    b[c] = view_load(l, &p->o->first.b, &here, p->o->first.b_axes);
  }
  for (int r = 0; r < p->rows; r++) {
    for (int c = 0; c < p->columns; c++) {
      ir sum = load_real(e, s->slots[r][c], 0);
      store_real(e, real_fma(e, a[r], b[c], sum), s->slots[r][c]);
    }
  }
}

// Loops over the summed axes. The last one, over k, skips elements that are 0.
static void summed_loops(lower *l, place_in_loops *at, gpu_product *p, sums *s, axis_set axes) {
  emitter *e = l->e;
  int k = p->nest->dot.k;
  ir begin = integer(e, 0), end = l->axis_size[k];
  int axis = k;
  for (int other = 0; axes && other < l->p->program->axes.count; other++)
    if (axis_in(axes, other)) axis = other;
  if (axes) end = l->axis_size[axis];
  if (!axes && p->range == RANGE_TO_ROW) end = int_min(e, end, int_add_n(e, s->i[p->rows - 1], 1));
  if (!axes && p->range == RANGE_FROM_ROW) begin = s->i[0];
  emit_loop loop = loop_begin(e, begin, end, 1, "k");
  at->index[axis] = loop.index;
  if (axes)
    summed_loops(l, at, p, s, axes & ~axis_bit(axis));
  else
    multiply_point(l, at, p, s);
  at->index[axis] = NULL;
  loop_end(e, &loop);
}

static void store_product_block(lower *l, const place_in_loops *at, const gpu_product *p,
                                const sums *s) {
  for (int r = 0; r < p->rows; r++) {
    for (int c = 0; c < p->columns; c++) {
      place_in_loops here = place_along(at, p->nest->dot.i, s->i[r]);
      here.index[p->nest->dot.j] = s->j[c];
      gpu_last_sum(l, p->nest, p->o, &here, load_real(l->e, s->slots[r][c], 0));
    }
  }
}

static void start_block(lower *l, const place_in_loops *at, const gpu_product *p, sums *s) {
  emitter *e = l->e;
  for (int r = 0; r < p->rows; r++) {
    for (int c = 0; c < p->columns; c++) {
      s->slots[r][c] = stack_slot(e, e->real, "sum");
      place_in_loops here = place_along(at, p->nest->dot.i, s->i[r]);
      here.index[p->nest->dot.j] = s->j[c];
      store_real(e, gpu_first_sum(l, p->o, &here, NULL), s->slots[r][c]);
    }
  }
}

// Block number `index`: columns count fastest, then rows, then the axes around.
static void product_block(lower *l, gpu_product *p, ir index, const loop_axes *around) {
  emitter *e = l->e;
  int64_t columns = known_size(l, p->nest->dot.j) / p->columns;
  int64_t rows = known_size(l, p->nest->dot.i) / p->rows;
  place_in_loops at = l->outside;
  sums s;
  ir j = int_rem_n(e, index, columns);
  ir rest = int_div_n(e, index, columns);
  ir i = int_rem_n(e, rest, rows);
  rest = int_div_n(e, rest, rows);
  gpu_go_to_point(l, around, rest, &at);
  for (int r = 0; r < p->rows; r++) s.i[r] = int_add_n(e, int_mul_n(e, i, p->rows), r);
  for (int c = 0; c < p->columns; c++) s.j[c] = int_add_n(e, j, c * columns);
  start_block(l, &at, p, &s);
  summed_loops(l, &at, p, &s, p->o->first.summed);
  store_product_block(l, &at, p, &s);
}

static row_range nonzero_rows(const lower *l, const plan_dot *d) {
  int t = l->p->program->time_axis, s = l->p->program->pair_axis;
  if (!l->p->values[d->a].zero_above) return RANGE_ALL;
  if (d->i == t && d->k == s) return RANGE_TO_ROW;
  if (d->i == s && d->k == t) return RANGE_FROM_ROW;
  return RANGE_ALL;
}

static void by_threads(lower *l, const plan_nest *nest, const gpu_operands *o) {
  emitter *e = l->e;
  const plan_dot *dot = &nest->dot;
  gpu_product p = {.nest = nest, .o = o, .range = nonzero_rows(l, dot)};
  p.rows = block_side(known_size(l, dot->i));
  p.columns = block_side(known_size(l, dot->j));
  loop_axes around = lower_by_rank(l, o->around);
  int64_t blocks = known_size(l, dot->i) / p.rows * (known_size(l, dot->j) / p.columns);
  blocks *= gpu_point_count(l, &around);
  emit_loop loop = loop_begin(e, l->team->thread, integer(e, blocks), l->team->threads, "block");
  product_block(l, &p, loop.index, &around);
  loop_end(e, &loop);
}

// REGION_STEPS: the rows of all steps of a chunk.
static view rows_of_steps(lower *l, tile_id id, int pack, view v) {
  plan_buffer row = plan_kept_row(l->m, l->p, id, pack);
  bool in_shared = gpu_in_shared_memory(v.base);
  int64_t words = plan_words_of_kept_row(l->p, &row, in_shared).factor;
  v.stride[l->p->steps] = integer(l->e, number_is_narrow(row.stored) ? 2 * words : words);
  return v;
}

static gpu_factors product_factors(lower *l, tile_id id, const plan_dot *dot) {
  gpu_factors f = {.dot = dot,
                   .a = lower_operand(l, dot->a, dot->pack_a),
                   .b = lower_operand(l, dot->b, dot->pack_b)};
  f.a_axes = value(l, dot->a)->axes;
  f.b_axes = value(l, dot->b)->axes;
  if (dot->k == l->p->steps) {
    f.a = rows_of_steps(l, dot->a, dot->pack_a, f.a);
    f.b = rows_of_steps(l, dot->b, dot->pack_b, f.b);
    f.a_axes |= axis_bit(dot->k);
    f.b_axes |= axis_bit(dot->k);
  }
  f.summed = plan_tile_axes(l->m, value(l, id)->over) & ~plan_inner_axes(dot);
  return f;
}

// Notes the register-resident state, if the sum is one.
static void note_resident_sum(lower *l, const plan_nest *nest, tile_id sum, gpu_operands *o) {
  int buffer = l->p->values[sum].buffer,
      carried = buffer < 0 ? -1 : l->p->buffers.items[buffer].carried;
  if (carried < 0 || l->p->carried[carried].accumulator != (int)(nest - l->p->nests.items)) return;
  o->kept = &l->kept[carried];
  o->state = l->p->carried[carried].argument;
  o->hidden = !l->p->carried[carried].has_copy;
}

static bool is_subtracted(const lower *l, tile_id product) {
  tile_id sum = l->p->values[product].into;
  return sum != NO_TILE && value(l, sum)->op == TILE_SUB;
}

static gpu_operands operands_of(lower *l, const plan_nest *nest) {
  tile_id id = nest->values.items[0];
  const plan_dot *dot = &nest->dot;
  const plan_value *pv = &l->p->values[id];
  gpu_operands o = {.start = plan_begun_sum(l->p, nest)};
  o.add = o.start != NO_TILE || (pv->into != NO_TILE && !nest->two);
  o.goes_on = nest->values.count > 1 + (o.start != NO_TILE) || nest->results.count;
  tile_id made = pv->into != NO_TILE ? pv->into : id;
  o.first = product_factors(l, id, dot);
  o.first.minus = is_subtracted(l, id);
  if (nest->two) o.other = product_factors(l, nest->other, &nest->other_dot);
  if (nest->two) o.other.minus = is_subtracted(l, nest->other);
  int buffer = l->p->values[made].buffer;
  if (buffer >= 0) o.c = lower_buffer(l, buffer);
  if (o.add) {
    if (buffer >= 0) o.c = view_of_product(l, l->p->values[made].dot, o.c);
    note_resident_sum(l, nest, made, &o);
  }
  o.c_axes = value(l, id)->axes;
  o.around = nest->axes & ~plan_inner_axes(dot) & ~o.first.summed;
  return o;
}

void gpu_dot(lower *l, const plan_nest *nest) {
  gpu_operands o = operands_of(l, nest);
  if (nest->dot.i < 0)
    gpu_matrix_product(l, nest, &o);
  else if (plan_is_mma(l->m, l->p->program, &nest->dot))
    gpu_mma(l, nest, &o);
  else
    by_threads(l, nest, &o);
}

void gpu_hold_matrices(lower *l) {
  vec_each(const plan_nest, nest, l->p->nests) {
    if (nest->kind != NEST_DOT || !nest->dot.held_b) continue;
    gpu_operands o = operands_of(l, nest);
    gpu_hold_matrix(l, nest, &o);
  }
}
