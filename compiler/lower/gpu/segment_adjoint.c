// GPU: gradients of sums between pairs of steps.
//
//   dx[j] = sum of g[t, s] over t >= j, s < j       exclusive: over t > j
//
//            s: before the block   in it              A warp makes eight neighbouring j, here 4 .. 11.
//   t: in it      rows             corner             the rectangle counts for all of them,
//   after it      rectangle        columns            row t for each j up to t, column s for each j behind s
//
// Lane m + 8 p of a warp has row, column and j number m of the block, of which it adds up part p. No sum is the difference of
// two others, and their order depends on sizes alone. Chunks that are no multiple of eight steps add up for each j by itself.
#include "compiler/lower/gpu/nests.h"

enum { BLOCK = 8, PARTS = GPU_WARP_LANES / BLOCK, AT_ONCE = 4 };

typedef struct adjoint {
  tile_id id;
  int t, s;
  int64_t steps;
  place_in_loops at;  // of the column
  ir first, row;      // steps: the first j of the block, and the first t that one of them leaves out
  ir own, part;       // m and p
} adjoint;

// The sum of `numbers` neighbours along s, of one if 0.
static ir number_at(lower *l, const adjoint *a, ir t, ir s, int numbers) {
  place_in_loops at = a->at;
  at.moved = true;
  at.index[a->t] = t;
  at.index[a->s] = s;
  if (numbers) at.vector_axis = a->s, at.lanes = numbers;
  ir x = lower_value_at(l, &at, value(l, a->id)->args[0]);
  return numbers ? sum_of_lanes(l->e, spread(l->e, x, numbers)) : x;
}

static ir open_sum(emitter *e) {
  ir sum = stack_slot(e, e->real, "sum");
  store_real(e, real_number(e, 0, 0), sum);
  return sum;
}

static void add_to(emitter *e, ir sum, ir x) { store_real(e, real_add(e, load_real(e, sum, 0), x), sum); }

// Neighbours along s before the block, from number `first` on, `step` further each time.
static void add_row(lower *l, const adjoint *a, ir sum, ir t, ir first, int step, ir end) {
  emit_loop pairs = loop_begin(l->e, int_mul(l->e, first, integer(l->e, AT_ONCE)), end, step, "s");
  add_to(l->e, sum, number_at(l, a, t, pairs.index, AT_ONCE));
  loop_end(l->e, &pairs);
}

static ir rectangle(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir sum = open_sum(e), begin = int_add(e, int_add(e, a->row, integer(e, BLOCK - 1)), a->part);
  emit_loop rows = loop_begin(e, begin, integer(e, a->steps), PARTS, "t");
  add_row(l, a, sum, rows.index, a->own, BLOCK * AT_ONCE, a->first);
  loop_end(e, &rows);
  return load_real(e, sum, 0);
}

// Rows and columns are one less than a block: the last of each counts for no j.
static ir counts(lower *l, const adjoint *a, ir end) {
  ir inside = int_compare(l->e, LLVMIntSLT, a->own, integer(l->e, BLOCK - 1));
  return int_choose(l->e, inside, end, integer(l->e, 0));
}

static ir own_row(lower *l, const adjoint *a) {
  ir sum = open_sum(l->e);
  add_row(l, a, sum, int_add(l->e, a->row, a->own), a->part, PARTS * AT_ONCE, counts(l, a, a->first));
  return load_real(l->e, sum, 0);
}

static ir own_column(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir sum = open_sum(e), begin = int_add(e, int_add(e, a->row, integer(e, BLOCK - 1)), a->part);
  emit_loop rows = loop_begin(e, begin, counts(l, a, integer(e, a->steps)), PARTS, "t");
  add_to(e, sum, number_at(l, a, rows.index, int_add(e, a->first, a->own), 0));
  loop_end(e, &rows);
  return load_real(e, sum, 0);
}

// Rows of the block from number m on, columns before m.
static ir corner(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir sum = open_sum(e);
  emit_loop rows = loop_begin(e, a->part, integer(e, BLOCK - 1), PARTS, "t");
  ir counted = int_compare(e, LLVMIntSGE, rows.index, a->own);
  emit_loop columns = loop_begin(e, integer(e, 0), int_choose(e, counted, a->own, integer(e, 0)), 1, "s");
  add_to(e, sum, number_at(l, a, int_add(e, a->row, rows.index), int_add(e, a->first, columns.index), 0));
  loop_end(e, &columns);
  loop_end(e, &rows);
  return load_real(e, sum, 0);
}

// The sum over this lane's number and all later ones of the block.
static ir sum_from(lower *l, const adjoint *a, ir x) {
  emitter *e = l->e;
  for (int by = 1; by < BLOCK; by *= 2) {
    ir there = int_compare(e, LLVMIntSLT, int_add(e, a->own, integer(e, by)), integer(e, BLOCK));
    x = real_add(e, x, choose(e, there, gpu_from_lane(e, GPU_SHFL_DOWN_F32, x, by), real_number(e, 0, 0)));
  }
  return x;
}

// The sum over all numbers of the block before this lane's.
static ir sum_before(lower *l, const adjoint *a, ir x) {
  emitter *e = l->e;
  ir zero = real_number(e, 0, 0);
  for (int by = 0; by < BLOCK; by = by ? 2 * by : 1) {
    int from = by ? by : 1;
    ir there = int_compare(e, LLVMIntSGE, a->own, integer(e, from));
    ir other = choose(e, there, gpu_from_lane(e, GPU_SHFL_UP_F32, x, from), zero);
    x = by ? real_add(e, x, other) : other;
  }
  return x;
}

static ir sum_of(emitter *e, ir x, int first, int end) {
  for (int mask = first; mask < end; mask *= 2) x = real_add(e, x, gpu_from_lane(e, GPU_SHFL_BFLY_F32, x, mask));
  return x;
}

static void block_of_steps(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir all = rectangle(l, a), row = own_row(l, a), column = own_column(l, a), within = corner(l, a);
  ir sum = real_add(e, sum_of(e, all, 1, BLOCK), within);
  sum = real_add(e, sum, real_add(e, sum_from(l, a, row), sum_before(l, a, column)));
  sum = sum_of(e, sum, BLOCK, GPU_WARP_LANES);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, a->part, integer(e, 0)));
  place_in_loops at = a->at;
  at.index[a->t] = int_add(e, a->first, a->own);
  lower_keep_value(l, &at, a->id, sum);
  branch_end(e, &branch);
}

// A warp for each block of steps of each column.
static void by_blocks(lower *l, adjoint *a, const loop_axes *columns) {
  emitter *e = l->e;
  int64_t blocks = a->steps / BLOCK, late = tile_is_exclusive(value(l, a->id));
  ir lane = gpu_lane(l), count = integer(e, blocks * gpu_point_count(l, columns));
  a->own = int_rem(e, lane, integer(e, BLOCK));
  a->part = int_div(e, lane, integer(e, BLOCK));
  emit_loop loop = loop_begin(e, gpu_warp(l), count, l->team->threads / GPU_WARP_LANES, "block");
  a->first = int_mul(e, int_rem(e, loop.index, integer(e, blocks)), integer(e, BLOCK));
  a->row = int_add(e, a->first, integer(e, late));
  a->at = lower_start_place(l, false);
  gpu_go_to_point(l, columns, int_div(e, loop.index, integer(e, blocks)), &a->at);
  block_of_steps(l, a);
  loop_end(e, &loop);
}

// ---- each step by itself ----

static void step_alone(lower *l, const place_in_loops *at, void *data) {
  adjoint *a = data;
  emitter *e = l->e;
  a->at = *at;
  ir j = at->index[a->t], sum = open_sum(e), late = integer(e, tile_is_exclusive(value(l, a->id)));
  emit_loop rows = loop_begin(e, int_add(e, j, late), integer(e, a->steps), 1, "t");
  emit_loop pairs = loop_begin(e, integer(e, 0), j, 1, "s");
  add_to(e, sum, number_at(l, a, rows.index, pairs.index, 0));
  loop_end(e, &pairs);
  loop_end(e, &rows);
  lower_keep_value(l, at, a->id, load_real(e, sum, 0));
}

void gpu_segment_adjoint(lower *l, const plan_nest *nest) {
  adjoint a = {.id = nest->values.items[0]};
  const tile_value *v = value(l, a.id);
  a.t = tile_step_axis(v), a.s = tile_other_step_axis(v), a.steps = known_size(l, a.t);
  axis_set points = nest->axes & ~axis_bit(a.s);
  loop_axes columns = lower_by_rank(l, points & ~axis_bit(a.t));
  lower_forget(l);
  if (l->team->shares && a.steps % BLOCK == 0 && gpu_point_count(l, &columns) >= 0) {
    by_blocks(l, &a, &columns);
  } else {
    loop_axes all = lower_by_rank(l, points);
    place_in_loops at = lower_start_place(l, false);
    gpu_each_point(l, &all, GPU_LONG_BODY, &at, step_alone, &a);
  }
  lower_forget(l);
}
