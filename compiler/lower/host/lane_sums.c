// Sums over lanes of many rows at once.
//
//   d.B[n] += sum of the lanes of x[n], n = 0 .. 15      ->      16 vectors, 15 x (two shuffles, one add), one vector
//
// A result that lacks the lane axis adds up its lanes. One row at a time, each halving costs a
// shuffle and an addition. Sixteen rows share them, and the sums come out side by side as they lie
// in memory. The rows of a nest are staged: each point stores its lanes, and after the loops,
// blocks of rows are added to the tensor.
#include "compiler/lower/host/nests.h"

static int last_axis_of(const lower *l, axis_set axes) {
  int last = -1;
  for (int axis = 0; axis < l->p->program->axes.count; axis++)
    if (axis_in(axes, axis) && (last < 0 || l->m->rank[axis] > l->m->rank[last])) last = axis;
  return last;
}

// Rows that are summed together, or 0: the axis is too short, its sums are not side by side, lanes
// do not halve.
int lane_block_of(const lower *l, const plan_nest *nest, int result) {
  const tile_result *r = &l->p->program->results.items[result];
  const result_target *target = &l->results[result];
  int lane = l->m->lane_axis, lanes = l->m->lanes;
  axis_set axes = tile_place_axes(l->p->program, &r->place);
  if (!nest->lane || !l->p->values[r->value].lane || r->place.role == TILE_KEEP) return 0;
  if (axis_in(axes, lane) || target->limit || !nest->axes || lanes & (lanes - 1)) return 0;
  int block = lanes < l->m->width ? lanes : l->m->width;
  int axis = last_axis_of(l, nest->axes);
  bool dense = int_is(target->at.stride[axis], 1);
  bool sized = plan_sized(l->p->program, nest->axes);
  bool enough = sized && plan_axis_size(l->p->program, axis) >= block;
  return dense && block > 1 && enough ? block : 0;
}

static ir picked(emitter *e, ir x, ir y, const int *lanes, int count) {
  ir *mask = ARENA_ARRAY(e->a, ir, count);
  for (int i = 0; i < count; i++) mask[i] = LLVMConstInt(e->i32, (unsigned)lanes[i], 0);
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(mask, (unsigned)count), "");
}

// Lanes of vectors wider than the block fold in halves first.
static ir folded(emitter *e, ir x, int block) {
  while (ir_lanes(x) > block) {
    int half = ir_lanes(x) / 2;
    int *low = ARENA_ARRAY(e->a, int, half), *high = ARENA_ARRAY(e->a, int, half);
    for (int i = 0; i < half; i++) low[i] = i, high[i] = i + half;
    ir poison = LLVMGetPoison(LLVMTypeOf(x));
    ir a = picked(e, x, poison, low, half), b = picked(e, x, poison, high, half);
    x = LLVMBuildFAdd(e->b, a, b, "");
  }
  return x;
}

// Segments of `size` lanes, each a partial sum of one row. The halves of the segments of x and y,
// side by side, add up to segments of half the size.
static ir merged(emitter *e, ir x, ir y, int size) {
  int block = ir_lanes(x), half = size / 2, at = 0;
  int *low = ARENA_ARRAY(e->a, int, block), *high = ARENA_ARRAY(e->a, int, block);
  for (int segment = 0; segment < block / size; segment++) {
    for (int from = 0; from < 2; from++) {
      for (int i = 0; i < half; i++) {
        low[at] = from * block + segment * size + i;
        high[at++] = from * block + segment * size + half + i;
      }
    }
  }
  return LLVMBuildFAdd(e->b, picked(e, x, y, low, block), picked(e, x, y, high, block), "");
}

ir sums_of_rows(emitter *e, ir *rows, int block) {
  for (int count = block, size = block; count > 1; count /= 2, size /= 2)
    for (int i = 0; i < count / 2; i++) rows[i] = merged(e, rows[i], rows[i + count / 2], size);
  return rows[0];
}

static ir row_address(lower *l, const staged_lanes *s, const place_in_loops *at) {
  return view_address(l, &s->rows, at, s->axes);
}

static ir staged_row(lower *l, const staged_lanes *s, const place_in_loops *at, int row) {
  emitter *e = l->e;
  int axis = last_axis_of(l, s->axes);
  place_in_loops where = *at;
  where.index[axis] = int_add_n(e, at->index[axis], row);
  return load_real(e, row_address(l, s, &where), s->block);
}

static void add_lane_block(lower *l, const staged_lanes *s, place_in_loops *at, int rows) {
  emitter *e = l->e;
  const tile_result *r = &l->p->program->results.items[s->result];
  axis_set axes = tile_place_axes(l->p->program, &r->place);
  ir *row = ARENA_ARRAY(e->a, ir, rows);
  for (int i = 0; i < rows; i++) row[i] = staged_row(l, s, at, i);
  place_in_loops to = *at;
  to.mask = NULL;
  if (rows == s->block) {
    to.vector_axis = last_axis_of(l, s->axes);
    to.lanes = rows;
    host_result(l, &l->results[s->result], &to, axes, sums_of_rows(e, row, rows));
    return;
  }
  to.vector_axis = -1;
  to.lanes = 0;
  for (int i = 0; i < rows; i++) {
    place_in_loops one = to;
    one.index[last_axis_of(l, s->axes)] = int_add_n(e, at->index[last_axis_of(l, s->axes)], i);
    host_result(l, &l->results[s->result], &one, axes, sum_of_lanes(e, row[i]));
  }
}

static void blocks_over(lower *l, const staged_lanes *s, axis_set axes, place_in_loops *at) {
  emitter *e = l->e;
  int last = last_axis_of(l, s->axes);
  axis_set outer = axes & ~axis_bit(last);
  if (outer) {
    int axis = axis_first(outer);
    emit_loop loop =
        loop_begin(e, integer(e, 0), integer(e, plan_axis_size(l->p->program, axis)), 1, "outer");
    at->index[axis] = loop.index;
    blocks_over(l, s, axes & ~axis_bit(axis), at);
    loop_end(e, &loop);
    return;
  }
  int64_t size = plan_axis_size(l->p->program, last), whole = size / s->block * s->block;
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), s->block, "rows");
  at->index[last] = loop.index;
  add_lane_block(l, s, at, s->block);
  loop_end(e, &loop);
  if (size > whole) {
    at->index[last] = integer(e, whole);
    add_lane_block(l, s, at, (int)(size - whole));
  }
}

staged_lanes stage_lanes(lower *l, const plan_nest *nest, int result, int block) {
  staged_lanes staged = {.result = result, .block = block, .axes = nest->axes};
  plan_buffer b = plan_buffer_for(l->m, l->p->program, nest->axes, false, -1);
  ir memory =
      stack_slot(l->e, LLVMArrayType2(l->e->real, (uint64_t)(b.numbers.factor * block)), "lanes");
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) b.stride[axis].factor *= block;
  staged.rows = buffer_view(l, &b, memory);
  return staged;
}

void stage_point(lower *l, const staged_lanes *s, const place_in_loops *at, ir x) {
  emitter *e = l->e;
  x = spread(e, x, l->m->lanes);
  if (at->mask) x = choose(e, at->mask, x, real_number(e, 0, at->lanes));
  store_real(e, folded(e, x, s->block), row_address(l, s, at));
}

void add_staged_lanes(lower *l, const staged_lanes *s) {
  emit_branch branch = branch_begin(l->e, l->results[s->result].active);
  place_in_loops at = l->outside;
  blocks_over(l, s, s->axes, &at);
  branch_end(l->e, &branch);
}
