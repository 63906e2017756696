// GPU: sums between pairs of steps. Levels of sums are stored, and each reader adds up two of their
// numbers.
//
//   segment [t,s] %20, 64 steps     level 5 of step u: sum over 32 .. u, or u + 1 .. 31 if u is before the middle;
//                                   level 4: from or to the middle of each 32 steps; ..
//   %21 at t, s                ->   level l of t + level l of s, where l is the highest bit in which t and s differ
//
// 64 steps take 444 numbers, not 4096. Products add two of them in their accumulator. Sums go
// towards their reference, never as a difference of two sums. A warp makes all levels of a column:
// the sum of a block of steps is exchanged with the neighbouring block. Where there are warps
// enough, each level of a column has a warp (plan/gpu/threads.c); the sums are the same.
#include "compiler/lower/gpu/nests.h"

enum { MOST_OF_LANE = GPU_MOST_STEPS_OF_LANE, MOST_LEVELS = 7 };

static view level_at(lower *l, tile_id id, ir level) {
  const plan_buffer *b = &l->p->buffers.items[l->p->values[id].buffer];
  int64_t numbers = b->numbers.factor / plan_levels_of(l->m, l->p->program, id);
  view v = lower_buffer(l, l->p->values[id].buffer);
  v.base = element(l->e, view_type(l->e, &v), v.base, int_mul_n(l->e, level, numbers));
  while (numbers % v.alignment) v.alignment /= 2;
  return v;
}

// Numbers of steps fit into 32 bits.
static ir of_32_bits(emitter *e, ir x) {
  return LLVMTypeOf(x) == e->i32 ? x : LLVMBuildTrunc(e->b, x, e->i32, "");
}

// ---- made ------------------------------------------------------------------------------------

// The steps of a lane, and the blocks of 2^level steps around them.
typedef struct lane_blocks {
  int count;  // steps of the lane
  // sums within the block: up to the step and with it; after the step
  ir up_to[MOST_OF_LANE], behind[MOST_OF_LANE];
  ir all[MOST_OF_LANE];
  ir levels[MOST_LEVELS][MOST_OF_LANE];
} lane_blocks;

// Doubles the blocks of one lane.
static void join_in_lane(emitter *e, lane_blocks *b, int level) {
  int other = 1 << level;
  ir all[MOST_OF_LANE];
  for (int i = 0; i < b->count; i++) {
    bool later = i & other;
    b->levels[level][i] = later ? b->up_to[i] : b->behind[i];
    if (later) b->up_to[i] = real_add(e, b->all[i ^ other], b->up_to[i]);
    if (!later) b->behind[i] = real_add(e, b->behind[i], b->all[i ^ other]);
    all[i] = real_add(e, b->all[i & ~other], b->all[i | other]);
  }
  for (int i = 0; i < b->count; i++) b->all[i] = all[i];
}

static void join_lanes(emitter *e, lane_blocks *b, int level, ir lane) {
  int mask = (1 << level) / b->count;
  ir other = gpu_from_lane(e, GPU_SHFL_BFLY_F32, b->all[0], mask);
  ir bit = int_rem_n(e, int_div_n(e, lane, mask), 2);
  ir later = int_compare(e, LLVMIntEQ, bit, integer(e, 1)), both = real_add(e, b->all[0], other);
  for (int i = 0; i < b->count; i++) {
    ir before = real_add(e, other, b->up_to[i]), after = real_add(e, b->behind[i], other);
    b->levels[level][i] = choose(e, later, b->up_to[i], b->behind[i]);
    b->up_to[i] = choose(e, later, before, b->up_to[i]);
    b->behind[i] = choose(e, later, b->behind[i], after);
    b->all[i] = both;
  }
}

// The sums of the steps of a lane.
static void store_level(lower *l, tile_id id, ir level, const ir *sums, int count,
                        place_in_loops at) {
  emitter *e = l->e;
  axis_set axes = value(l, id)->axes & ~axis_bit(tile_other_step_axis(value(l, id)));
  at.vector_axis = count > 1 ? tile_step_axis(value(l, id)) : -1;
  at.lanes = count > 1 ? count : 0;
  ir x = count > 1 ? LLVMGetPoison(real_type(e, count)) : sums[0];
  for (int i = 0; count > 1 && i < count; i++)
    x = LLVMBuildInsertElement(e->b, x, sums[i], integer(e, i), "");
  view v = level_at(l, id, level);
  view_store(l, &v, &at, axes, x);
}

static void levels_of_column(lower *l, tile_id id, place_in_loops at, ir lane) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  int64_t steps = known_size(l, tile_step_axis(v));
  int levels = plan_levels_of(l->m, l->p->program, id);
  lane_blocks b = {.count = (int)(steps / GPU_WARP_LANES)};
  ir first = int_mul_n(e, lane, b.count);
  at.moved = true;
  for (int i = 0; i < b.count; i++) {
    at.index[tile_step_axis(v)] = int_add_n(e, first, i);
    b.up_to[i] = b.all[i] = lower_value_at(l, &at, v->args[0]);
    b.behind[i] = real_number(e, 0, 0);
  }
  for (int level = 0; level < levels; level++) {
    if (1 << level < b.count) join_in_lane(e, &b, level);
    if (1 << level >= b.count) join_lanes(e, &b, level, lane);
  }
  at.index[tile_step_axis(v)] = first;
  for (int level = 0; level < levels; level++)
    store_level(l, id, integer(e, level), b.levels[level], b.count, at);
}

// ---- a level by itself ----

// Whether a bit of a number is set, i1.
static ir has_bit(emitter *e, ir number, int bit) {
  ir all = bit_and(e, number, LLVMConstInt(e->i32, (unsigned long long)1 << bit, 0));
  return int_compare(e, LLVMIntNE, all, LLVMConstInt(e->i32, 0, 0));
}

// The sums of a level for the steps of a lane. A later step takes up the blocks before it, an
// earlier one those after it.
typedef struct lane_level {
  int count;
  ir sum[MOST_OF_LANE], all[MOST_OF_LANE];
  ir takes[MOST_OF_LANE];  // bit b: the neighbouring block of 2^b steps belongs to the sum
} lane_level;

static void open_level(lower *l, lane_level *s, int i, ir step, ir level) {
  emitter *e = l->e;
  ir one = LLVMConstInt(e->i32, 1, 0), size = LLVMBuildShl(e->b, one, level, "");
  ir later = int_compare(e, LLVMIntNE, bit_and(e, step, size), LLVMConstInt(e->i32, 0, 0));
  ir bits = LLVMBuildSelect(e->b, later, step, bit_not(e, step), "");
  s->takes[i] = bit_and(e, bits, LLVMBuildSub(e->b, size, one, ""));
  s->sum[i] = choose(e, later, s->all[i], real_number(e, 0, 0));
}

// The block, if the step takes it up.
static ir taken(emitter *e, const lane_level *s, int i, int bit, ir block) {
  return choose(e, has_bit(e, s->takes[i], bit), block, real_number(e, 0, 0));
}

static void add_in_lane(emitter *e, lane_level *s, int bit) {
  int other = 1 << bit;
  ir all[MOST_OF_LANE];
  for (int i = 0; i < s->count; i++) {
    s->sum[i] = real_add(e, s->sum[i], taken(e, s, i, bit, s->all[i ^ other]));
    all[i] = real_add(e, s->all[i & ~other], s->all[i | other]);
  }
  for (int i = 0; i < s->count; i++) s->all[i] = all[i];
}

// All steps of a lane are on the same side of such blocks.
static void add_lanes(emitter *e, lane_level *s, int bit) {
  ir other = gpu_from_lane(e, GPU_SHFL_BFLY_F32, s->all[0], (1 << bit) / s->count),
     block = taken(e, s, 0, bit, other);
  s->all[0] = real_add(e, s->all[0], other);
  for (int i = 0; i < s->count; i++) s->sum[i] = real_add(e, s->sum[i], block);
}

static void level_of_column(lower *l, tile_id id, place_in_loops at, ir lane, ir level) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  int levels = plan_levels_of(l->m, l->p->program, id);
  lane_level s = {.count = (int)(known_size(l, tile_step_axis(v)) / GPU_WARP_LANES)};
  ir first = int_mul_n(e, lane, s.count);
  at.moved = true;
  for (int i = 0; i < s.count; i++) {
    ir step = at.index[tile_step_axis(v)] = int_add_n(e, first, i);
    s.all[i] = lower_value_at(l, &at, v->args[0]);
    open_level(l, &s, i, of_32_bits(e, step), of_32_bits(e, level));
  }
  for (int bit = 0; bit < levels - 1; bit++)
    1 << bit < s.count ? add_in_lane(e, &s, bit) : add_lanes(e, &s, bit);
  at.index[tile_step_axis(v)] = first;
  store_level(l, id, level, s.sum, s.count, at);
}

// ---- the warps of the block ----

// Calls for each column, or for each level of each column, with a warp for each.
bool gpu_make_levels(lower *l, const plan_nest *nest) {
  emitter *e = l->e;
  tile_id id = nest->values.items[0];
  const tile_value *v = value(l, id);
  int levels = plan_levels_of(l->m, l->p->program, id), warps = nest->threads.warps;
  if (!levels) return false;
  loop_axes columns = lower_by_rank(
      l, nest->axes & ~axis_bit(tile_step_axis(v)) & ~axis_bit(tile_other_step_axis(v)));
  ir lane = gpu_lane(l), count = integer(e, gpu_point_count(l, &columns) * warps);
  lower_forget(l);
  emit_loop loop = loop_begin(e, gpu_warp(l), count, l->team->threads / GPU_WARP_LANES, "column");
  place_in_loops at = lower_start_place(l, false);
  gpu_go_to_point(l, &columns, int_div_n(e, loop.index, warps), &at);
  if (warps > 1)
    level_of_column(l, id, at, lane, int_rem_n(e, loop.index, warps));
  else
    levels_of_column(l, id, at, lane);
  loop_end(e, &loop);
  lower_forget(l);
  return true;
}

// ---- read ------------------------------------------------------------------------------------

// The highest bit in which two steps differ, 0 if there is none.
static ir differing_bit(emitter *e, ir t, ir s) {
  ir differ = LLVMBuildXor(e->b, of_32_bits(e, t), of_32_bits(e, s), "");
  differ = bit_or(e, differ, LLVMConstInt(e->i32, 1, 0));
  ir args[] = {differ, LLVMConstInt(LLVMInt1TypeInContext(e->context), 1, 0)};
  ir zeros = call_intrinsic(e, "llvm.ctlz", &e->i32, 1, args, 2);
  return LLVMBuildSub(e->b, LLVMConstInt(e->i32, 31, 0), zeros, "");
}

static ir later_than(emitter *e, ir t, ir s, int lanes) {
  if (!lanes) return int_compare(e, LLVMIntSGT, t, s);
  ir both = LLVMGetPoison(LLVMVectorType(LLVMInt1TypeInContext(e->context), (unsigned)lanes));
  for (int i = 0; i < lanes; i++) {
    ir later = int_compare(e, LLVMIntSGT, t, int_add_n(e, s, i));
    both = LLVMBuildInsertElement(e->b, both, later, integer(e, i), "");
  }
  return both;
}

// The sum for one s, or for an even s and the next, which share the level.
static ir sum_between(lower *l, tile_id id, const place_in_loops *at, ir s, int lanes) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  axis_set axes = v->axes & ~axis_bit(tile_other_step_axis(v));
  ir t = at->index[tile_step_axis(v)];
  // an exclusive sum lacks the last step
  if (tile_is_exclusive(v)) t = int_sub_n(e, t, 1);
  ir row = tile_is_exclusive(v) ? int_max(e, t, integer(e, 0)) : t;
  view levels = level_at(l, id, differing_bit(e, row, s));
  place_in_loops where = *at;
  where.vector_axis = -1;
  where.lanes = 0;
  where.index[tile_step_axis(v)] = row;
  ir to_row = view_load(l, &levels, &where, axes);
  where.index[tile_step_axis(v)] = s;
  if (lanes) where.vector_axis = tile_step_axis(v), where.lanes = lanes;
  ir sum = real_add(e, spread(e, to_row, lanes), view_load(l, &levels, &where, axes));
  return choose(e, later_than(e, t, s, lanes), sum, real_number(e, 0, lanes));
}

ir gpu_segment_at(lower *l, const place_in_loops *at, tile_id id) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  if (!at->lanes || !axis_in(v->axes, at->vector_axis))
    return sum_between(l, id, at, at->index[tile_other_step_axis(v)], 0);
  bool pairs = at->vector_axis == tile_other_step_axis(v) && at->lanes % 2 == 0;
  int step = pairs ? 2 : 1;
  ir all = LLVMGetPoison(real_type(e, at->lanes));
  for (int i = 0; i < at->lanes; i += step) {
    place_in_loops one = *at;
    one.index[at->vector_axis] = int_add_n(e, at->index[at->vector_axis], i);
    ir x = sum_between(l, id, &one, one.index[tile_other_step_axis(v)], pairs ? 2 : 0);
    for (int k = 0; k < step; k++) {
      ir number = pairs ? LLVMBuildExtractElement(e->b, x, integer(e, k), "") : x;
      all = LLVMBuildInsertElement(e->b, all, number, integer(e, i + k), "");
    }
  }
  return all;
}
