// GPU, single steps: a matrix of parameters times a vector, or times a few of them, among all
// threads of a block.
//
//   %7 [D,G] = dot %h [E], %weight [G,D,E] over E        the sum is along the rows of memory: lanes of a warp take whole
//                                                        rows, up to sixteen each, and add up their sums of all at once
//   %53 [E] = dot %50 [D,G], %weight [G,D,E] over D, G   the sum is across the rows: a thread takes neighbouring columns of
//                                                        some rows; parts of a column meet in shuffles, then in shared memory
//
// Either way neighbouring threads read neighbouring numbers, so that one copy of the matrix serves
// forward and backward. The copy stays in shared memory from the first step to the last if it fits
// (plan/products.c), with 16 bits where tokens have 16 bits.
//
// The other operand may have an axis that the matrix lacks. A thread then multiplies each loaded
// element of the matrix by up to four entries of that axis (vectors).
#include "compiler/lower/gpu/matrix_product.h"

enum {
  MOST_ROUNDS = 16,
  MOST_SUMS = 64,
  MOST_WIDTH = 8,
  MOST_VECTORS = GPU_MATRIX_VECTORS,
  FOUR = 4
};

// The axes by rank, with `last` moved to the end if it is among them.
static loop_axes axes_to(const lower *l, axis_set axes, int last) {
  bool has = axis_in(axes, last);
  loop_axes list = lower_by_rank(l, has ? axes & ~axis_bit(last) : axes);
  if (has) list.axes[list.count++] = last;
  return list;
}

void gpu_matrix_go_to(lower *l, const loop_axes *axes, ir number, place_in_loops *at) {
  for (int i = axes->count - 1; i > 0; i--) {
    at->index[axes->axes[i]] = int_rem(l->e, number, l->axis_size[axes->axes[i]]);
    number = int_div(l->e, number, l->axis_size[axes->axes[i]]);
  }
  if (axes->count) at->index[axes->axes[0]] = number;
}

// Does the axis of each number lie as far from the next one as it is long, so that all are one long
// axis?
static bool is_in_line(lower *l, const view *v, const loop_axes *axes) {
  for (int i = axes->count - 1; i > 0; i--) {
    ir inner = v->stride[axes->axes[i]], outer = v->stride[axes->axes[i - 1]];
    int64_t of_inner, of_outer;
    if (!inner || !outer || !int_known(inner, &of_inner) || !int_known(outer, &of_outer))
      return false;
    if (of_outer != of_inner * known_size(l, axes->axes[i])) return false;
  }
  return true;
}

// The same element of the matrix, by the index of the last of these axes alone.
void gpu_matrix_go(lower *l, const loop_axes *axes, bool in_line, ir number, place_in_loops *at) {
  if (!in_line) {
    gpu_matrix_go_to(l, axes, number, at);
    return;
  }
  for (int i = 0; i < axes->count - 1; i++) at->index[axes->axes[i]] = integer(l->e, 0);
  if (axes->count) at->index[axes->axes[axes->count - 1]] = number;
}

static place_in_loops wide(const matrix_product *p, const place_in_loops *at) {
  place_in_loops place = *at;
  place.vector_axis = p->g.width > 1 ? p->g.last : -1;
  place.lanes = p->g.width > 1 ? p->g.width : 0;
  return place;
}

static ir matrix_at(lower *l, const matrix_product *p, const place_in_loops *at) {
  place_in_loops place = wide(p, at);
  return view_load(l, &p->o->first.b, &place, p->o->first.b_axes);
}

// The place for vector number `vector` of the current ones.
static place_in_loops at_vector(lower *l, const matrix_product *p, const place_in_loops *at,
                                ir vector) {
  place_in_loops place = *at;
  int axis = p->g.vector_axis;
  if (p->vectors > 1) place.index[axis] = int_add(l->e, place.index[axis], vector);
  return place;
}

static ir load_vector(lower *l, const matrix_product *p, const place_in_loops *at, int vector) {
  place_in_loops place = at_vector(l, p, at, integer(l->e, vector));
  return view_load(l, &p->o->first.a, &place, p->o->first.a_axes);
}

// The column of number `n`, a constant, of those that a thread loads at once, where `first` is the
// place of the first one.
static ir column_of(lower *l, const matrix_product *p, ir first, int n) {
  emitter *e = l->e;
  if (!p->g.fours_apart) return int_add_n(e, first, n);
  ir all = integer(e, 2 * PLAN_FOURS_APART), two = integer(e, 2);
  ir block = int_mul(e, int_div(e, first, all), all),
     four = int_div(e, int_rem(e, first, all), two);
  return int_add_n(e, int_add(e, block, four), n / FOUR * PLAN_FOURS_APART + n % FOUR);
}

// The elements that belong to what a thread loads of a row at this place.
static ir load_vector_of_row(lower *l, const matrix_product *p, const place_in_loops *at,
                             int vector) {
  place_in_loops place = wide(p, at);
  if (!p->g.fours_apart) return load_vector(l, p, &place, vector);
  ir fours[2], numbers[2 * FOUR];
  place.lanes = FOUR;
  for (int i = 0; i < 2; i++) {
    place.index[p->g.last] = column_of(l, p, at->index[p->g.last], i * FOUR);
    fours[i] = load_vector(l, p, &place, vector);
  }
  for (int i = 0; i < 2 * FOUR; i++) numbers[i] = LLVMConstInt(l->e->i32, (unsigned)i, 0);
  return LLVMBuildShuffleVector(l->e->b, fours[0], fours[1], LLVMConstVector(numbers, 2 * FOUR),
                                "");
}

static ir open_sum(lower *l, const matrix_product *p) {
  return real_slot(l->e, real_number(l->e, 0, p->lanes), "sum");
}

static void add_to_sum(lower *l, const matrix_product *p, ir matrix, ir x, ir slot) {
  store_real(l->e, real_fma(l->e, matrix, x, load_real(l->e, slot, p->lanes)), slot);
}

// x is the finished product at this row, for this vector.
void gpu_matrix_finish(lower *l, const matrix_product *p, const place_in_loops *at, ir row,
                       ir vector, ir x) {
  place_in_loops place = at_vector(l, p, at, vector);
  emitter *e = l->e;
  gpu_matrix_go_to(l, &p->rows, row, &place);
  if (p->o->first.minus) x = real_neg(e, x);
  if (p->o->add || p->o->start != NO_TILE) x = real_add(e, gpu_first_sum(l, p->o, &place, NULL), x);
  gpu_last_sum(l, p->nest, p->o, &place, x);
}

// ---- along rows ----

typedef struct rounds {
  int64_t lanes;           // as matrix_vector.lanes
  int64_t turns;           // loads of a row that a lane makes
  int64_t side;            // rows of a warp in a round
  int64_t at_once, count;  // rows of all warps in a round; rounds
  // rounds at once; of these, rounds whose rows follow one another in a warp
  int batch, together;
  // of a batch: for each round those of all vectors, side by side, up to a power of two
  int sums;
} rounds;

// All rounds at once if there are registers for their sums, or as many in each turn.
static rounds rounds_of(const lower *l, const matrix_product *p) {
  int64_t pieces = p->depth_count / p->g.width;
  rounds r = {.lanes = p->g.lanes, .sums = 1};
  r.turns = pieces / r.lanes;
  r.side = GPU_WARP_LANES / r.lanes;
  r.at_once = l->team->threads / r.lanes;
  r.count = blocks_up(p->row_count, r.at_once);
  int64_t most = MOST_SUMS / p->vectors < MOST_ROUNDS ? MOST_SUMS / p->vectors : MOST_ROUNDS;
  r.batch = (int)blocks_up(r.count, blocks_up(r.count, most));
  r.together = r.batch & -r.batch;
  while (r.sums < r.batch * p->vectors) r.sums *= 2;
  return r;
}

// A lane that adds to few sums at a time would wait for each: it has a sum for each number of a
// load.
static bool has_few_sums(const lower *l, const matrix_product *p) {
  enum { ENOUGH = 4 };
  const rounds r = rounds_of(l, p);
  return r.batch * p->vectors < ENOUGH;
}

// Lanes whose sums are added up: those that differ in some bits of their number.
typedef struct shared_sums {
  int64_t most, least;  // of these bits
  int count;            // sums of a lane, a power of two; in the end, sums that are left
  ir first;             // in the end: the number of the first one
  ir here;              // in the end, i1: no lane before this one has the same
} shared_sums;

// Adds up the sums of the lanes by halving. Half of a lane's sums go to the lane on the other side,
// and as many come from there, until each lane has one sum. Then lanes with equal sums remain.
static void add_up_lanes(lower *l, shared_sums *s, ir *sums) {
  emitter *e = l->e;
  ir lane = gpu_lane(l);
  int64_t alike = s->least;
  int count = s->count;
  s->first = integer(e, 0);
  for (int64_t mask = s->most; mask >= s->least; mask /= 2) {
    if (count == 1) {
      sums[0] = real_add(e, sums[0], gpu_from_lane(l->e, GPU_SHFL_BFLY_F32, sums[0], mask));
      alike *= 2;
      continue;
    }
    count /= 2;
    ir bit = int_rem_n(e, int_div_n(e, lane, mask), 2);
    ir upper = int_compare(e, LLVMIntNE, bit, integer(e, 0));
    for (int i = 0; i < count; i++) {
      ir own = choose(e, upper, sums[i + count], sums[i]),
         other = choose(e, upper, sums[i], sums[i + count]);
      sums[i] = real_add(e, own, gpu_from_lane(l->e, GPU_SHFL_BFLY_F32, other, mask));
    }
    s->first = int_add(e, s->first, int_mul_n(e, bit, count));
  }
  s->count = count;
  ir number = int_rem_n(e, int_div_n(e, lane, s->least), alike / s->least);
  s->here = int_compare(e, LLVMIntEQ, number, integer(e, 0));
}

// The row of a lane in the first round of a batch. As many rounds as a power of two follow one
// another in the rows of a warp, so that its sums are neighbours in memory, and addresses are made
// of bits.
static ir first_row_of(lower *l, const rounds *r, ir first_round) {
  emitter *e = l->e;
  ir own = int_div_n(e, gpu_lane(l), r->lanes),
     of_warp = int_mul_n(e, gpu_warp(l), r->side * r->together);
  return int_add(e, int_mul_n(e, first_round, r->at_once), int_add(e, of_warp, own));
}

static ir round_row(lower *l, const rounds *r, ir first, ir round) {
  emitter *e = l->e;
  ir together = integer(e, r->together),
     beyond = int_mul_n(e, int_div(e, round, together), r->at_once * r->together);
  return int_add(e, first, int_add(e, beyond, int_mul_n(e, int_rem(e, round, together), r->side)));
}

// Adds one load of a row to the sums of all vectors.
static void add_to_vectors(lower *l, const matrix_product *p, ir matrix, const ir *x,
                           const ir *slots) {
  emitter *e = l->e;
  for (int n = 0; n < (p->lanes ? 1 : p->g.width); n++) {
    ir own = p->lanes ? matrix : lane_of(e, matrix, n);
    for (int c = 0; c < p->vectors; c++)
      add_to_sum(l, p, own, p->lanes ? x[c] : lane_of(e, x[c], n), slots[c]);
  }
}

static void add_vector_piece(lower *l, const matrix_product *p, const rounds *r,
                             const place_in_loops *at, ir piece, const ir *rows, const ir *slots) {
  emitter *e = l->e;
  ir x[MOST_VECTORS];
  place_in_loops place = *at;
  gpu_matrix_go_to(l, &p->depth, int_mul_n(e, piece, p->g.width), &place);
  for (int c = 0; c < p->vectors; c++) x[c] = load_vector_of_row(l, p, &place, c);
  gpu_matrix_go(l, &p->depth, p->depth_in_line, int_mul_n(e, piece, p->g.width), &place);
  for (int i = 0; i < r->batch; i++) {
    gpu_matrix_go(l, &p->rows, p->rows_in_line, rows[i], &place);
    add_to_vectors(l, p, matrix_at(l, p, &place), x, &slots[i * p->vectors]);
  }
}

static ir sum_of_slot(lower *l, const matrix_product *p, ir slot) {
  ir sum = load_real(l->e, slot, p->lanes);
  return p->lanes ? sum_of_lanes(l->e, sum) : sum;
}

static void rounds_at_once(lower *l, const matrix_product *p, const rounds *r,
                           const place_in_loops *at, ir first_round) {
  emitter *e = l->e;
  ir of_row = int_rem_n(e, gpu_lane(l), r->lanes);
  ir first_row = first_row_of(l, r, first_round), end = integer(e, p->row_count);
  ir rows[MOST_ROUNDS], slots[MOST_SUMS], sums[MOST_SUMS];
  bool whole = p->row_count % (r->at_once * r->batch) == 0;
  for (int i = 0; i < r->batch; i++) {
    rows[i] = round_row(l, r, first_row, integer(e, i));
    if (!whole)
      rows[i] = int_choose(e, int_compare(e, LLVMIntSLT, rows[i], end), rows[i], integer(e, 0));
    for (int c = 0; c < p->vectors; c++) slots[i * p->vectors + c] = open_sum(l, p);
  }
  emit_loop turns = loop_begin(e, integer(e, 0), integer(e, r->turns), 1, "turn");
  add_vector_piece(l, p, r, at, int_add(e, int_mul_n(e, turns.index, r->lanes), of_row), rows,
                   slots);
  loop_end(e, &turns);
  int made = r->batch * p->vectors;
  for (int i = 0; i < r->sums; i++)
    sums[i] = i < made ? sum_of_slot(l, p, slots[i]) : real_number(e, 0, 0);
  shared_sums left = {.most = r->lanes / 2, .least = 1, .count = r->sums};
  add_up_lanes(l, &left, sums);
  ir vectors = integer(e, p->vectors);
  for (int i = 0; i < left.count; i++) {
    ir number = int_add_n(e, left.first, i);
    ir row = round_row(l, r, first_row, int_div(e, number, vectors));
    ir here = whole ? left.here : bit_and(e, left.here, int_compare(e, LLVMIntSLT, row, end));
    if (made < r->sums)
      here = bit_and(e, here, int_compare(e, LLVMIntSLT, number, integer(e, made)));
    emit_branch branch = branch_begin(e, here);
    gpu_matrix_finish(l, p, at, row, int_rem(e, number, vectors), sums[i]);
    branch_end(e, &branch);
  }
}

static void along_rows(lower *l, const matrix_product *p, const place_in_loops *at) {
  rounds r = rounds_of(l, p);
  emit_loop loop = loop_begin(l->e, integer(l->e, 0), integer(l->e, r.count), r.batch, "rows");
  rounds_at_once(l, p, &r, at, loop.index);
  loop_end(l->e, &loop);
}

// ---- across rows ----

// The column of a number of the piece at this place.
static ir column_in_piece(lower *l, const matrix_product *p, ir piece, ir number) {
  emitter *e = l->e;
  if (!p->g.fours_apart) return int_add(e, piece, number);
  ir four = integer(e, FOUR), apart = int_mul_n(e, int_div(e, number, four), PLAN_FOURS_APART);
  return int_add(e, column_of(l, p, piece, 0), int_add(e, apart, int_rem(e, number, four)));
}

ir gpu_matrix_partial_sum(lower *l, const matrix_product *p, ir split, ir row, ir vector) {
  emitter *e = l->e;
  ir line = int_add(e, int_mul_n(e, split, p->vectors), vector);
  return element(e, e->real, p->partial_sums.base,
                 int_add(e, int_mul_n(e, line, p->row_count), row));
}

static void add_matrix_row(lower *l, const matrix_product *p, const place_in_loops *at, const ir *x,
                           const ir *slots) {
  ir matrix = matrix_at(l, p, at);
  for (int c = 0; c < p->vectors; c++)
    add_to_sum(l, p, matrix, spread(l->e, x[c], p->lanes), slots[c]);
}

// So many consecutive rows, which differ in the last axis of the depth alone. Their elements of x
// are one load.
static void add_matrix_rows(lower *l, const matrix_product *p, const place_in_loops *at, ir first,
                            int count, const ir *slots) {
  emitter *e = l->e;
  int last = p->depth.axes[p->depth.count - 1];
  ir x[MOST_VECTORS], own[MOST_VECTORS];
  place_in_loops place = *at;
  gpu_matrix_go_to(l, &p->depth, first, &place);
  place_in_loops of_x = place;
  if (count > 1) of_x.vector_axis = last, of_x.lanes = count;
  for (int c = 0; c < p->vectors; c++) x[c] = load_vector(l, p, &of_x, c);
  gpu_matrix_go(l, &p->depth, p->depth_in_line, first, &place);
  ir index = place.index[last];
  for (int n = 0; n < count; n++) {
    place.index[last] = int_add_n(e, index, n);
    for (int c = 0; c < p->vectors; c++) own[c] = lane_of(e, x[c], n);
    add_matrix_row(l, p, &place, own, slots);
  }
}

enum { ROWS_IN_FLIGHT = 8 };

// May a split take consecutive rows? Eight threads read all banks once, so rows of different splits
// must not share banks.
static int consecutive_rows(const lower *l, const matrix_product *p) {
  enum { THREADS_OF_BANKS = 8, MOST = 4 };
  int64_t last = known_size(l, p->depth.axes[p->depth.count - 1]);
  int rows = p->row_count / p->g.width >= THREADS_OF_BANKS ? MOST : 1;
  while (rows > 1 && (last % rows || p->depth_count % (p->g.splits * rows))) rows /= 2;
  return rows;
}

static int unrolled_rows(const matrix_product *p, int rows) {
  int64_t turns = p->depth_count / (p->g.splits * rows);
  int at_once = ROWS_IN_FLIGHT / rows;
  while (turns % at_once) at_once--;
  return at_once;
}

// The sums of one split for all vectors; each element of x is loaded once.
static void sums_of_split(lower *l, const matrix_product *p, const place_in_loops *at, ir split,
                          ir *sums) {
  emitter *e = l->e;
  ir slots[MOST_VECTORS], begin = integer(e, 0), end = integer(e, p->depth_count);
  for (int c = 0; c < p->vectors; c++) slots[c] = open_sum(l, p);
  if (p->depth_count % p->g.splits) {
    emit_loop loop = loop_begin(e, split, end, p->g.splits, "turn");
    add_matrix_rows(l, p, at, loop.index, 1, slots);
    loop_end(e, &loop);
  } else {
    int rows = consecutive_rows(l, p);
    emit_groups groups = groups_begin(e, begin, end, p->g.splits * rows, unrolled_rows(p, rows),
                                      (group_names){"turns", "turn"});
    add_matrix_rows(l, p, at, int_add(e, groups.index, int_mul_n(e, split, rows)), rows, slots);
    groups_end(e, &groups);
  }
  for (int c = 0; c < p->vectors; c++) sums[c] = load_real(e, slots[c], p->lanes);
}

// Stores neighbouring sums of a split as partial sums.
static void store_partial_sums(lower *l, const matrix_product *p, ir split, ir row, ir vector,
                               const ir *sums, int count) {
  emitter *e = l->e;
  ir all = sums[0];
  if (count > 1) all = LLVMGetPoison(real_type(e, count));
  for (int i = 0; i < count && count > 1; i++)
    all = LLVMBuildInsertElement(e->b, all, sums[i], integer(e, i), "");
  ir store = LLVMBuildStore(
      e->b, all, gpu_matrix_partial_sum(l, p, int_div_n(e, split, p->g.in_warp), row, vector));
  LLVMSetAlignment(store, (unsigned)(4 * count));
}

// What a lane has of the sums of a piece: as partial sums, or as the finished product. Sum `i` of
// vector c is number c * width + i.
static void end_piece(lower *l, const matrix_product *p, const place_in_loops *at, ir split, ir row,
                      const shared_sums *left, const ir *sums) {
  emitter *e = l->e;
  int run = left->count < p->g.width ? left->count : p->g.width;
  if (run > FOUR) run = FOUR;
  for (int n = 0; n < left->count; n += run) {
    ir number = int_add_n(e, left->first, n), width = integer(e, p->g.width);
    ir vector = int_div(e, number, width),
       first = column_in_piece(l, p, row, int_rem(e, number, width));
    if (p->g.splits / p->g.in_warp > 1) {
      store_partial_sums(l, p, split, first, vector, sums + n, run);
      continue;
    }
    for (int i = 0; i < run; i++)
      gpu_matrix_finish(l, p, at, int_add_n(e, first, i), vector, sums[n + i]);
  }
}

static void one_piece(lower *l, const matrix_product *p, const place_in_loops *at, ir index) {
  emitter *e = l->e;
  int64_t pieces = p->row_count / p->g.width;
  ir split = int_div_n(e, index, pieces), row = int_rem_n(e, index, pieces);
  row = int_mul_n(e, row, p->g.width);
  place_in_loops place = *at;
  gpu_matrix_go(l, &p->rows, p->rows_in_line, row, &place);
  ir all[MOST_VECTORS], sums[MOST_VECTORS * MOST_WIDTH];
  sums_of_split(l, p, &place, split, all);
  for (int c = 0; c < p->vectors; c++)
    for (int i = 0; i < p->g.width; i++) sums[c * p->g.width + i] = lane_of(e, all[c], i);
  shared_sums left = {.count = p->vectors * p->g.width, .first = integer(e, 0)};
  bool some = p->g.in_warp > 1;
  emit_branch branch = {0};
  if (some) {
    left.most = GPU_WARP_LANES / 2, left.least = pieces;
    add_up_lanes(l, &left, sums);
    branch = branch_begin(e, left.here);
  }
  end_piece(l, p, at, split, row, &left, sums);
  if (some) branch_end(e, &branch);
}

void gpu_matrix_add_up(lower *l, const matrix_product *p, const place_in_loops *at) {
  emitter *e = l->e;
  lower_barrier(l);
  emit_loop loop = loop_begin(e, l->team->thread, integer(e, p->row_count * p->vectors),
                              l->team->threads, "row");
  ir rows = integer(e, p->row_count), sum = NULL;
  ir row = p->vectors > 1 ? int_rem(e, loop.index, rows) : loop.index;
  ir vector = p->vectors > 1 ? int_div(e, loop.index, rows) : integer(e, 0);
  for (int64_t split = 0; split < p->g.splits / p->g.in_warp; split++) {
    ir x = load_real(e, gpu_matrix_partial_sum(l, p, integer(e, split), row, vector), 0);
    sum = sum ? real_add(e, sum, x) : x;
  }
  gpu_matrix_finish(l, p, at, row, vector, sum);
  loop_end(e, &loop);
}

static void across_rows(lower *l, const matrix_product *p, const place_in_loops *at) {
  emitter *e = l->e;
  int64_t all = p->row_count / p->g.width * p->g.splits;
  if (all == l->team->threads) {
    one_piece(l, p, at, int_rem_n(e, l->team->thread, all));
  } else {
    emit_loop loop = loop_begin(e, l->team->thread, integer(e, all), l->team->threads, "piece");
    one_piece(l, p, at, loop.index);
    loop_end(e, &loop);
  }
  if (p->g.splits / p->g.in_warp > 1) gpu_matrix_add_up(l, p, at);
}

// ---- the product ----

static void vectors_at_once(lower *l, const matrix_product *p, const place_in_loops *at) {
  p->g.mma ? gpu_matrix_mma(l, p, at) : p->g.along ? along_rows(l, p, at) : across_rows(l, p, at);
}

// `number` counts the points of the axes around the product, and within each point the blocks of
// vectors.
static void around_vectors(lower *l, const matrix_product *p, const loop_axes *around, ir number,
                           place_in_loops *at) {
  emitter *e = l->e;
  int axis = p->g.vector_axis;
  if (axis >= 0) {
    ir blocks = integer(e, known_size(l, axis) / p->vectors);
    at->index[axis] = int_mul_n(e, int_rem(e, number, blocks), p->vectors);
    number = int_div(e, number, blocks);
  }
  gpu_matrix_go_to(l, around, number, at);
}

static matrix_product matrix_vector_product(lower *l, const plan_nest *nest,
                                            const gpu_operands *o) {
  tile_id id = nest->values.items[0];
  matrix_product p = {.g = plan_matrix_vector(l->m, l->p, id, &nest->dot), .nest = nest, .o = o};
  p.rows = axes_to(l, p.g.rows, p.g.last);
  p.depth = axes_to(l, p.g.depth, p.g.last);
  p.rows_in_line = is_in_line(l, &o->first.b, &p.rows);
  p.depth_in_line = is_in_line(l, &o->first.b, &p.depth);
  p.row_count = plan_entries(l->p->program, p.g.rows);
  p.depth_count = plan_entries(l->p->program, p.g.depth);
  p.vectors = p.g.vectors;
  p.lanes = p.g.width > 1 && (!p.g.along || has_few_sums(l, &p)) ? p.g.width : 0;
  int partial_sums = l->p->values[id].partial_sums;
  if (partial_sums >= 0) p.partial_sums = lower_buffer(l, partial_sums);
  return p;
}

void gpu_hold_matrix(lower *l, const plan_nest *nest, const gpu_operands *o) {
  matrix_product p = matrix_vector_product(l, nest, o);
  team *all = l->team, own = gpu_team_of_nest(l, 0);
  l->team = &own;
  gpu_matrix_load(l, &p, &l->outside);
  l->team = all;
}

void gpu_matrix_product(lower *l, const plan_nest *nest, const gpu_operands *o) {
  emitter *e = l->e;
  matrix_product p = matrix_vector_product(l, nest, o);
  axis_set vector = p.vectors > 1 ? axis_bit(p.g.vector_axis) : 0;
  loop_axes around = lower_by_rank(l, p.g.around & ~vector);
  int64_t turns = plan_entries(l->p->program, p.g.around) / p.vectors;
  place_in_loops at = l->outside;
  if (!p.g.around || (turns == 1 && !around.count)) {
    if (vector) at.index[p.g.vector_axis] = integer(e, 0);
    vectors_at_once(l, &p, &at);
    return;
  }
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, turns), 1, "around");
  around_vectors(l, &p, &around, loop.index, &at);
  if (p.partial_sums.base) lower_barrier(l);  // other threads may still read the last partial sums
  vectors_at_once(l, &p, &at);
  loop_end(e, &loop);
}
