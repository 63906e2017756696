// GPU: gradients of sums between pairs of steps.
//
//   dx[j] = sum of g[t, s] over t >= j, s < j       exclusive: over t > j
//
//            s: before the block   in it              A warp makes eight neighbouring j, here 4 .. 11.
//   t: in it      rows             corner             the rectangle counts for all of them,
//   after it      rectangle        columns            row t for each j up to t, column s for each j behind s
//
// Lane m + 8 p of a warp has column and j number m of the block, of which it adds up part p. Rows
// after the block are read 32 numbers at a time, rectangle and columns together: eight lanes side
// by side, so that no two need the same bank. Where warps would be left over, each makes four j, in
// twice as many parts (plan/gpu/threads.c). No sum is the difference of two others, and their order
// depends on sizes alone. Chunks that are no multiple of eight steps add up for each j by itself.
#include "compiler/lower/gpu/nests.h"

enum { AT_ONCE = 4 };

typedef struct adjoint {
  tile_id id;
  int t, s;
  int64_t steps;
  int block, parts;   // steps j of a warp; parts of a column, and lanes of a row of the block
  bool late;          // the sums are exclusive
  place_in_loops at;  // of the column
  // steps: the first j of the block, and the first t that one of them leaves out
  ir first, row;
  ir own, part;  // m and p
} adjoint;

// Neighbours along s; one if `numbers` is 0.
static ir numbers_at(lower *l, const adjoint *a, ir t, ir s, int numbers) {
  place_in_loops at = a->at;
  at.moved = true;
  at.index[a->t] = t;
  at.index[a->s] = s;
  if (numbers) at.vector_axis = a->s, at.lanes = numbers;
  return spread(l->e, lower_value_at(l, &at, value(l, a->id)->args[0]), numbers);
}

static ir open_sum(emitter *e) { return real_slot(e, real_number(e, 0, 0), "sum"); }

static ir sum_across_lanes(emitter *e, ir x, int first, int end) {
  for (int mask = first; mask < end; mask *= 2)
    x = real_add(e, x, gpu_from_lane(e, GPU_SHFL_BFLY_F32, x, mask));
  return x;
}

// ---- rows after the block ----

// Sums of rows after the block, which part p of the lanes has: of numbers before the block, and of
// each of four columns.
typedef struct later_rows {
  ir before, columns;
  ir own, last;  // the lane's first number of a row; where it is in the piece that has the block
} later_rows;

// Numbers of a row, for all lanes of a part.
static int piece_of(const adjoint *a) { return a->block * AT_ONCE; }

static void add_later_row(lower *l, const adjoint *a, const later_rows *r, ir t) {
  emitter *e = l->e;
  emit_loop pieces =
      loop_begin(e, integer(e, 0), LLVMBuildSub(e->b, r->last, r->own, ""), piece_of(a), "s");
  real_add_to(
      e, r->before,
      sum_of_lanes(
          e, numbers_at(l, a, t, int_add(e, int_multiple(e, pieces.index, piece_of(a)), r->own),
                        AT_ONCE)));
  loop_end(e, &pieces);
  ir x = numbers_at(l, a, t, r->last, AT_ONCE);
  ir before = int_compare(e, LLVMIntSLT, r->last, a->first);
  real_add_to(e, r->before, choose(e, before, sum_of_lanes(e, x), real_number(e, 0, 0)));
  real_add_to(e, r->columns, x);
}

// Of the columns of the block two lanes of each part have four each: number m takes its own.
static ir own_column(lower *l, const adjoint *a, const later_rows *r) {
  emitter *e = l->e;
  ir four = integer(e, AT_ONCE), columns = load_real(e, r->columns, AT_ONCE), sum = NULL;
  ir first = int_div(e, int_rem_n(e, a->first, piece_of(a)), four),
     number = int_rem(e, a->own, four);
  ir from =
      int_add(e, int_add(e, first, int_div(e, a->own, four)), int_mul_n(e, a->part, a->block));
  for (int i = 0; i < AT_ONCE; i++) {
    ir x = LLVMBuildExtractElement(e->b, columns, integer(e, i), "");
    x = gpu_call(e, GPU_SHFL_IDX_F32, (ir[]){x, from}, 2);
    sum = sum ? choose(e, int_compare(e, LLVMIntEQ, number, integer(e, i)), x, sum) : x;
  }
  return sum;
}

static later_rows sum_later_rows(lower *l, const adjoint *a) {
  emitter *e = l->e;
  later_rows r = {.before = open_sum(e),
                  .columns = stack_slot(e, real_type(e, AT_ONCE), "columns")};
  ir piece = integer(e, piece_of(a));
  store_real(e, real_number(e, 0, AT_ONCE), r.columns);
  r.own = int_mul_n(e, a->own, AT_ONCE);
  r.last = int_add(e, int_mul(e, int_div(e, a->first, piece), piece), r.own);
  if (a->steps % piece_of(a)) r.last = int_min(e, r.last, integer(e, a->steps - AT_ONCE));
  ir begin = int_add(e, int_add_n(e, a->row, a->block - 1), a->part);
  emit_loop rows = loop_begin(e, begin, integer(e, a->steps), a->parts, "t");
  add_later_row(l, a, &r, rows.index);
  loop_end(e, &rows);
  return r;
}

// ---- rows of the block ----

// Numbers before the block. Four lanes have a row together; then the first part has row m. The last
// row counts for no j.
static ir own_row(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir sum = open_sum(e), lanes = integer(e, a->parts), lane = gpu_lane(l),
     zero = real_number(e, 0, 0);
  ir row = int_div(e, lane, lanes), own = int_mul_n(e, int_rem(e, lane, lanes), AT_ONCE);
  ir end = int_choose(e, int_compare(e, LLVMIntSLT, row, integer(e, a->block - 1)), a->first,
                      LLVMConstInt(e->i32, 0, 0));
  emit_loop pieces = loop_begin(e, own, end, a->parts * AT_ONCE, "s");
  real_add_to(e, sum,
              sum_of_lanes(e, numbers_at(l, a, int_add(e, a->row, row), pieces.index, AT_ONCE)));
  loop_end(e, &pieces);
  ir x = sum_across_lanes(e, load_real(e, sum, 0), 1, a->parts);
  x = gpu_call(e, GPU_SHFL_IDX_F32, (ir[]){x, int_mul(e, a->own, lanes)}, 2);
  return choose(e, int_compare(e, LLVMIntEQ, a->part, integer(e, 0)), x, zero);
}

// The columns before m of one row of the block.
static ir row_of_corner(lower *l, const adjoint *a, ir t) {
  emitter *e = l->e;
  ir zero = real_number(e, 0, 0), sum = NULL;
  for (int first = 0; first < a->block; first += AT_ONCE) {
    ir x = numbers_at(l, a, t, int_add_n(e, a->first, first), AT_ONCE);
    for (int i = 0; i < AT_ONCE && first + i < a->block - 1; i++) {
      ir before = int_compare(e, LLVMIntSGT, a->own, integer(e, first + i));
      ir y = choose(e, before, LLVMBuildExtractElement(e->b, x, integer(e, i), ""), zero);
      sum = sum ? real_add(e, sum, y) : y;
    }
  }
  return sum;
}

// Rows of the block from number m on, columns before m. Rows behind the last of them may lie beyond
// the chunk.
static ir corner(lower *l, const adjoint *a) {
  emitter *e = l->e;
  ir zero = real_number(e, 0, 0), sum = NULL;
  for (int first = 0; first < a->block; first += a->parts) {
    ir number = int_add_n(e, a->part, first), t = int_add(e, a->row, number);
    ir counted = bit_and(e, int_compare(e, LLVMIntSGE, number, a->own),
                         int_compare(e, LLVMIntSLT, number, integer(e, a->block - 1)));
    if (a->late || a->parts > a->block) t = int_min(e, t, integer(e, a->steps - 1));
    ir x = choose(e, counted, row_of_corner(l, a, t), zero);
    sum = sum ? real_add(e, sum, x) : x;
  }
  return sum;
}

// The sum over this lane's number and all later ones of the block.
static ir sum_from(lower *l, const adjoint *a, ir x) {
  emitter *e = l->e;
  for (int by = 1; by < a->block; by *= 2) {
    ir there = int_compare(e, LLVMIntSLT, int_add_n(e, a->own, by), integer(e, a->block));
    x = real_add(
        e, x, choose(e, there, gpu_from_lane(e, GPU_SHFL_DOWN_F32, x, by), real_number(e, 0, 0)));
  }
  return x;
}

// The sum over all numbers of the block before this lane's.
static ir sum_before(lower *l, const adjoint *a, ir x) {
  emitter *e = l->e;
  ir zero = real_number(e, 0, 0);
  for (int by = 0; by < a->block; by = by ? 2 * by : 1) {
    int from = by ? by : 1;
    ir there = int_compare(e, LLVMIntSGE, a->own, integer(e, from));
    ir other = choose(e, there, gpu_from_lane(e, GPU_SHFL_UP_F32, x, from), zero);
    x = by ? real_add(e, x, other) : other;
  }
  return x;
}

static void block_of_steps(lower *l, const adjoint *a) {
  emitter *e = l->e;
  const later_rows later = sum_later_rows(l, a);
  ir row = own_row(l, a), column = own_column(l, a, &later), within = corner(l, a);
  ir sum = real_add(e, sum_across_lanes(e, load_real(e, later.before, 0), 1, a->block), within);
  sum = real_add(e, sum, real_add(e, sum_from(l, a, row), sum_before(l, a, column)));
  sum = sum_across_lanes(e, sum, a->block, GPU_WARP_LANES);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, a->part, integer(e, 0)));
  place_in_loops at = a->at;
  at.index[a->t] = int_add(e, a->first, a->own);
  lower_keep_value(l, &at, a->id, sum);
  branch_end(e, &branch);
}

// The block that a warp has in its turn. Early blocks have most rows after them: every other turn
// goes the other way.
static ir block_of_turn(lower *l, ir number, int64_t count) {
  emitter *e = l->e;
  int64_t warps = l->team->threads / GPU_WARP_LANES;
  if (count <= warps || count % warps) return number;
  ir all = integer(e, warps), turn = int_div(e, number, all), own = int_rem(e, number, all);
  ir back = int_compare(e, LLVMIntNE, int_rem_n(e, turn, 2), integer(e, 0));
  return int_add(e, int_mul(e, turn, all),
                 int_choose(e, back, int_sub(e, integer(e, warps - 1), own), own));
}

// A warp for each block of steps of each column.
static void by_blocks(lower *l, adjoint *a, const loop_axes *columns) {
  emitter *e = l->e;
  int64_t blocks = a->steps / a->block, count = blocks * gpu_point_count(l, columns);
  ir lane = gpu_lane(l);
  a->own = int_rem_n(e, lane, a->block);
  a->part = int_div_n(e, lane, a->block);
  emit_loop loop =
      loop_begin(e, gpu_warp(l), integer(e, count), l->team->threads / GPU_WARP_LANES, "block");
  ir number = block_of_turn(l, loop.index, count);
  a->first = int_mul_n(e, int_rem_n(e, number, blocks), a->block);
  a->row = a->late ? int_add_n(e, a->first, 1) : a->first;
  a->at = lower_start_place(l, false);
  gpu_go_to_point(l, columns, int_div_n(e, number, blocks), &a->at);
  block_of_steps(l, a);
  loop_end(e, &loop);
}

// ---- each step by itself ----

static void step_alone(lower *l, const place_in_loops *at, void *data) {
  adjoint *a = data;
  emitter *e = l->e;
  a->at = *at;
  ir j = at->index[a->t], sum = open_sum(e), late = integer(e, a->late);
  emit_loop rows = loop_begin(e, int_add(e, j, late), integer(e, a->steps), 1, "t");
  emit_loop pairs = loop_begin(e, integer(e, 0), j, 1, "s");
  real_add_to(e, sum, numbers_at(l, a, rows.index, pairs.index, 0));
  loop_end(e, &pairs);
  loop_end(e, &rows);
  lower_keep_value(l, at, a->id, load_real(e, sum, 0));
}

void gpu_segment_adjoint(lower *l, const plan_nest *nest) {
  adjoint a = {.id = nest->values.items[0]};
  const tile_value *v = value(l, a.id);
  a.t = tile_step_axis(v), a.s = tile_other_step_axis(v), a.steps = known_size(l, a.t);
  a.late = tile_is_exclusive(v);
  axis_set points = nest->axes & ~axis_bit(a.s);
  loop_axes columns = lower_by_rank(l, points & ~axis_bit(a.t));
  lower_forget(l);
  a.block = nest->threads.steps;
  if (a.block) {
    a.parts = GPU_WARP_LANES / a.block;
    by_blocks(l, &a, &columns);
  } else {
    loop_axes all = lower_by_rank(l, points);
    place_in_loops at = lower_start_place(l, false);
    gpu_each_point(l, &all, GPU_LONG_BODY, &at, step_alone, &a);
  }
  lower_forget(l);
}
