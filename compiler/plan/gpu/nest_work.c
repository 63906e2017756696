// What the warps of a block do in a nest, counted from its plan as lower/gpu divides it.
//
//   points [t 16,K 128] with a sum over K     16 points: half a warp goes 128 times through loads, operations and stores
//   product t 64 x V 128 x K 128, mma         blocks of 16 rows and 32 columns: 16 for 8 warps, 8 steps of k each
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/nest_count.h"

// ---- operations ------------------------------------------------------------------------------

static double times_of(const nest_count *c, axis_set by) {
  double all = gpu_entries(c->p, c->over & by);
  return all > c->shares ? all / c->shares : 1;
}

// How many entries one operation takes: those of a vector, if there is one and these axes have it.
static int entries_at_once(const nest_count *c, axis_set by) {
  return c->at.vector >= 0 && axis_in(by, c->at.vector) ? c->at.numbers : 1;
}

static axis_set moved_by(const plan_access *x) {
  axis_set by = 0;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (x->stride[axis]) by |= axis_bit(axis);
  return by;
}

void count_shown(const nest_count *c, const plan_access *x, const plan_lanes *at, double times) {
  const nest_access access = {x, at, times, gpu_warps_in(c->p, c->turns), c->fragment, 0};
  if (c->visitor) c->visitor->visit(c->visitor, &access);
}

static void add_access(nest_count *c, const plan_access *x, access_kind kind, double times) {
  if (!x->placed) return;
  count_shown(c, x, &c->at, times * c->turns);
  warp_access own = plan_access_of_warp(x, kind, &c->at);
  double convert = kind == LOAD ? gpu_cost_widen : gpu_cost_narrow;
  if (number_is_narrow(x->stored))
    c->operations += times * convert * entries_at_once(c, moved_by(x));
  c->accesses += times * own.accesses;
  c->addresses += own.accesses;
  c->wavefronts += times * own.wavefronts;
  c->bytes += times * own.bytes;
  if (!x->in_shared) c->far = 1;
}

static void add_operation(nest_count *c, tile_op op, double times) {
  bool narrow = number_is_narrow(c->p->m->dtype);
  c->operations += times * (narrow ? tile_op_instructions(op) : tile_op_cost(op));
  if (narrow) c->specials += times * tile_op_specials(op);
}

static void add_operands(nest_count *c, tile_id id, const plan_index_map *maps);

// Is it the state that stays in the accumulators of this nest?
static bool is_accumulator(const nest_count *c, const tile_value *v) {
  const plan *p = c->p->p;
  bool is = false;
  for (int i = 0; v->op == TILE_ARGUMENT && i < p->carried_count; i++)
    is = is || (p->carried[i].argument == tile_argument_number(v) &&
                p->carried[i].accumulator == (int)(c->nest - p->nests.items));
  return is;
}

// A value that an operation reads: in registers, computed where it is read, or in memory.
static void add_below(nest_count *c, tile_id id, const plan_index_map *maps) {
  const plan *p = c->p->p;
  const tile_value *v = counted_value(c, id);
  const plan_index_map here = {v, maps};
  if (is_accumulator(c, v)) return;
  if (plan_is_inline(v->op) && tile_arity(v->op) == 1) {
    add_below(c, v->args[0], &here);
    return;
  }
  if (plan_at_hand(p, id) && v->op != TILE_ARGUMENT) {
    double times = times_of(c, v->axes & c->over) * entries_at_once(c, v->axes);
    if (tile_arity(v->op)) add_operation(c, v->op, times);
    if (!tile_arity(v->op) && v->op != TILE_NUMBER) c->operations += times;
    add_operands(c, id, maps);
    return;
  }
  for (int i = 0; i < c->nest->values.count; i++)
    if (c->nest->values.items[i] == id) return;
  if (v->op == TILE_SEGMENT && plan_levels_of(c->p->m, c->p->p->program, id)) {
    // two numbers of the level of both steps, added up
    double times = times_of(c, v->axes & c->over) * entries_at_once(c, v->axes);
    c->operations += times * GPU_COST_LEVEL_READ;
    c->accesses += 2 * times;
    c->wavefronts += 2 * times;
    return;
  }
  if (p->values[id].held == HELD_NEST || p->values[id].held == HELD_SCALAR) return;
  plan_access x = gpu_access_of(c->p, id, maps);
  add_access(c, &x, LOAD, times_of(c, moved_by(&x)));
}

void count_operand(nest_count *c, tile_id id, const plan_index_map *maps) {
  bool moved = c->seen[id];
  c->seen[id] = true;
  if (!moved) add_below(c, id, maps);
}

static void add_operands(nest_count *c, tile_id id, const plan_index_map *maps) {
  const tile_value *v = counted_value(c, id);
  for (int k = 0; k < tile_arity(v->op); k++) count_operand(c, v->args[k], maps);
}

void count_buffer(nest_count *c, int buffer, access_kind kind, double times) {
  plan_access x = gpu_access_of_buffer(c->p, buffer);
  add_access(c, &x, kind, times);
}

static bool is_block(const nest_count *c) { return c->p->m->kind == MAP_BLOCK; }

// Where the value goes when it is made.
static void add_stores(nest_count *c, tile_id id, double times) {
  const plan_value *pv = &c->p->p->values[id];
  if (!is_block(c) && !c->p->m->looped) return;
  if (pv->held == HELD_BUFFER && pv->buffer >= 0 && pv->into == NO_TILE)
    count_buffer(c, pv->buffer, STORE, times);
}

// A value that a later product is added to begins as the other summand, and does nothing where that
// has its place already.
static bool begins(nest_count *c, tile_id id) {
  const plan *p = c->p->p;
  const plan_value *pv = &p->values[id];
  if (pv->nest == (int)(c->nest - p->nests.items) || pv->dot == NO_TILE) return false;
  tile_id other = plan_begins_as(p, id);
  if (pv->buffer >= 0 && p->values[other].buffer == pv->buffer) return true;
  count_operand(c, other, NULL);
  add_stores(c, id, times_of(c, counted_value(c, id)->axes));
  return true;
}

// A value of the nest at all its points.
void count_value(nest_count *c, tile_id id) {
  const tile_value *v = counted_value(c, id);
  if (begins(c, id)) return;
  bool reduces = tile_op_is(v->op, TILE_REDUCES);
  double points = times_of(c, reduces ? ~(axis_set)0 : v->axes);
  int numbers = entries_at_once(c, v->axes | (reduces ? v->over : 0));
  bool in_product = c->p->p->values[id].dot != NO_TILE;  // tensor cores add it
  if (!in_product) add_operation(c, v->op == TILE_DOT ? TILE_ADD : v->op, points * numbers);
  add_operands(c, id, NULL);
  add_stores(c, id, reduces ? 1 : points);
}

void count_result(nest_count *c, int result) {
  const tile_program *program = c->p->p->program;
  const tile_result *r = &program->results.items[result];
  axis_set axes = tile_place_axes(program, &r->place);
  count_operand(c, r->value, NULL);
  if (plan_is_carried_role(r->place.role)) return;
  bool summed =
      !is_block(c) && r->place.role != TILE_KEEP && !axis_in(axes, c->p->m->kernel->lane_axis);
  if (summed) c->operations += times_of(c, axes) * GPU_COST_SUM_OF_WARP;
  if (summed) return;
  plan_access x = gpu_access_of_tensor(c->p, &r->place);
  add_access(c, &x, STORE, times_of(c, axes));
  c->far = 0;  // nothing waits for a store
}

// ---- who runs a point ------------------------------------------------------------------------

// Each warp begins the nest once, also to find that it has no work, and goes through its body at
// each turn.
static nest_work total(const nest_count *c, gpu_turns t) {
  double warps = (double)c->p->threads / GPU_WARP_LANES, used = t.all < warps ? t.all : warps;
  double own = (c->operations + c->accesses + gpu_cost_loop * c->loops),
         addresses = gpu_cost_address * c->addresses;
  return (nest_work){.all.instructions = t.all * own + warps * gpu_cost_begin + used * addresses,
                     .all.busiest = t.busiest * own + gpu_cost_begin + addresses,
                     .used = (int)ceil(used),
                     .operations = t.all * c->operations,
                     .accesses = t.all * c->accesses,
                     .loops = t.all * c->loops,
                     .begins = warps,
                     .addresses = used * c->addresses,
                     .all.wavefronts = t.all * c->wavefronts,
                     .all.specials = t.all * c->specials,
                     .all.bytes = t.all * c->bytes,
                     .all.far = c->far};
}

static void add_values(nest_count *c) {
  if (c->nest->kind == NEST_PACK) {
    count_operand(c, c->nest->packed, NULL);
    count_buffer(c, c->nest->pack, STORE, times_of(c, c->nest->axes));
  }
  for (int i = 0; i < c->nest->values.count; i++) count_value(c, c->nest->values.items[i]);
  for (int i = 0; i < c->nest->results.count; i++) count_result(c, c->nest->results.items[i]);
}

// A thread by itself goes through all points.
static nest_work work_of_thread(nest_count *c) {
  c->over = plan_tile_axes(c->p->m, c->nest->axes);
  for (int lane = 0; lane < GPU_WARP_LANES; lane++)
    plan_put_index(&c->at, c->p->m->kernel->lane_axis, lane, lane);
  add_values(c);
  return total(c, (gpu_turns){(double)c->p->threads / GPU_WARP_LANES, 1});
}

static int sums_of(const nest_count *c) {
  int sums = 0;
  for (int i = 0; i < c->nest->values.count; i++)
    sums += tile_op_is(counted_value(c, c->nest->values.items[i])->op, TILE_REDUCES);
  return sums;
}

// All threads share out one sum, or copy numbers.
static nest_work work_of_numbers(nest_count *c) {
  double all = gpu_entries(c->p, c->nest->axes);
  axis_list axes = plan_by_rank(c->p->m, c->p->p->program, c->nest->axes);
  bool copies = c->nest->kind == NEST_PACK;
  int last = axes.count ? axes.axes[axes.count - 1] : -1, numbers = 1;
  if (copies && last >= 0)
    numbers = plan_numbers_at_once(gpu_size_in(c->p, last), (int64_t)all, c->p->threads);
  all /= numbers;
  plan_put_pieces(c->p->p->program, &axes, numbers, &c->at);
  c->over = 0;
  gpu_turns turns = gpu_turns_of(c->p, all);
  c->turns = turns.all;
  add_values(c);
  nest_work work = total(c, turns);
  double sums = copies ? 0 : 2.0 * sums_of(c) * GPU_COST_SUM_OF_WARP;
  work.all.busiest += sums;
  work.all.instructions += sums * c->p->threads / GPU_WARP_LANES;
  return work;
}

static nest_work work_of_points(nest_count *c) {
  const placed_program *p = c->p;
  const plan_nest *nest = c->nest;
  if (!is_block(c)) return work_of_thread(c);
  plan_threads t = nest->threads;
  double points = gpu_entries(p, nest->axes & ~nest->over);
  if (t.lanes == PLAN_ALL_THREADS || !t.lanes) return work_of_numbers(c);
  bool of_sums = t.width > 1 && axis_in(nest->over, t.vector);
  c->shares = t.lanes * (of_sums ? t.width : 1);
  if (!of_sums) points /= t.width;
  plan_put_lanes(p->m, p->p->program, nest, &t, &c->at);
  gpu_turns turns = gpu_turns_of(p, points * t.lanes);
  c->turns = turns.all;
  if (nest->over) c->loops = ceil(gpu_entries(p, nest->over) / c->shares);
  add_values(c);
  if (!c->operations && !c->accesses) return (nest_work){0};
  if (t.lanes > 1)
    c->operations += sums_of(c) * (of_sums ? 1 : t.width) * log2(t.lanes) * GPU_COST_SHUFFLED;
  return total(c, turns);
}

// ---- along time ------------------------------------------------------------------------------

// Lanes of a column load their rows, add up, meet, load them again unless they kept them, add up
// and store.
static void add_shared_scan(nest_count *c, tile_id id, double rows) {
  enum { MOST_KEPT = 4 };  // of rows in registers (lower/gpu/scan.c)
  bool kept = rows <= MOST_KEPT;
  double loads = kept ? 1 : 2, turns = c->turns;
  c->turns *= loads;
  add_operands(c, id, NULL);
  c->turns = turns;
  c->operations *= loads, c->accesses *= loads, c->wavefronts *= loads, c->bytes *= loads;
  add_stores(c, id, rows);
  c->operations += 2 * rows + (log2(c->shares) + 1) * GPU_COST_MEETING;
  if (!kept) c->operations += c->accesses * gpu_cost_row;
}

// A warp makes all levels of the sums of a column, or one of them, for which it goes through the
// levels below.
static nest_work work_of_levels(const placed_program *p, const plan_nest *nest, double columns,
                                double steps, int levels) {
  double turns = ceil(steps / GPU_WARP_LANES), warps = (double)p->threads / GPU_WARP_LANES;
  double tasks = columns * nest->threads.warps, stored = columns * levels * turns;
  double own = (nest->threads.warps > 1 ? levels - 1 : levels) *
               (GPU_COST_LEVEL + GPU_COST_LEVEL_STEP * turns);
  return (nest_work){
      .all.instructions = tasks * own + gpu_cost_begin * (tasks < warps ? tasks : warps),
      .all.busiest = ceil(tasks / warps) * own + gpu_cost_begin,
      .used = (int)(tasks < warps ? tasks : warps),
      .all.wavefronts = stored + tasks * turns};
}

// A warp for each block of steps of each column (lower/gpu/segment_adjoint.c). It reads the rows behind
// it, so many neighbours along a row at once.
static nest_work work_of_adjoint(nest_count *c, double columns, double steps) {
  enum { USUAL = 8, AT_ONCE = 4 };
  const placed_program *p = c->p;
  const plan_nest *nest = c->nest;
  const tile_value *v = counted_value(c, nest->values.items[0]);
  int block = nest->threads.steps ? nest->threads.steps : USUAL;
  double blocks = columns * steps / block,
         of_block = gpu_cost_adjoint_block + gpu_cost_adjoint_step * steps;
  if (block < USUAL) of_block *= gpu_cost_adjoint_half;
  plan_put_none(&c->at, tile_other_step_axis(v), AT_ONCE);
  for (int lane = 0; lane < GPU_WARP_LANES; lane++) {
    plan_put_index(&c->at, tile_step_axis(v), lane, lane / block);
    plan_put_index(&c->at, tile_other_step_axis(v), lane, lane % block * AT_ONCE);
  }
  c->turns = blocks;
  c->over = ~(axis_set)0;
  c->shares = 2.0 * AT_ONCE * GPU_WARP_LANES * columns;  // numbers before the block alone
  add_operands(c, nest->values.items[0], NULL);
  return (nest_work){.all.instructions = blocks * of_block,
                     .all.busiest = ceil(blocks * GPU_WARP_LANES / p->threads) * of_block,
                     .all.wavefronts = blocks * c->wavefronts};
}

// A prefix, a segment or its adjoint; several lanes share a column where there are few.
static nest_work work_of_scan(nest_count *c) {
  const placed_program *p = c->p;
  const plan_nest *nest = c->nest;
  tile_id id = nest->values.items[0];
  int t = tile_step_axis(counted_value(c, id));
  axis_list columns = plan_by_rank(p->m, p->p->program, nest->axes & ~axis_bit(t));
  double count = gpu_entries(p, nest->axes & ~axis_bit(t)), steps = (double)gpu_size_in(p, t);
  int lanes = plan_lanes_of_scan(p->m, count, gpu_size_in(p, t));
  int levels = nest->kind == NEST_SEGMENT ? plan_levels_of(p->m, p->p->program, id) : 0;
  if (levels)
    return work_of_levels(
        p, nest, count / (double)gpu_size_in(p, tile_other_step_axis(counted_value(c, id))), steps,
        levels);
  if (nest->kind == NEST_SEGMENT_ADJOINT && is_block(c))
    return work_of_adjoint(
        c, count / (double)gpu_size_in(p, tile_other_step_axis(counted_value(c, id))), steps);
  c->over = axis_bit(t);
  c->shares = lanes;
  if (lanes > 1) {
    plan_put_rows(p->p->program, &columns, t, lanes, gpu_size_in(p, t) / lanes, &c->at);
    gpu_turns turns = gpu_turns_of(p, count * lanes);
    c->fragment = true, c->turns = turns.all;
    add_shared_scan(c, id, steps / lanes);
    double warps = (double)p->threads / GPU_WARP_LANES;
    if (turns.all < warps) turns.all = warps;  // those without a column exchange sums, too
    return total(c, turns);
  }
  plan_put_pieces(p->p->program, &columns, 1, &c->at);
  gpu_turns turns = gpu_turns_of(p, count);
  c->turns = turns.all;
  add_operands(c, id, NULL);
  add_stores(c, id, steps);
  c->operations += steps + gpu_cost_row;
  return total(c, turns);
}

static nest_work work_of_nest(nest_count *c) {
  const plan_dot *dot = &c->nest->dot;
  switch (c->nest->kind) {
    case NEST_DOT:
      if (dot->i >= 0 && plan_is_mma(c->p->m, c->p->p->program, dot)) return gpu_work_of_mma(c);
      return gpu_work_by_threads(c->p, c->nest);
    case NEST_SOLVE: return gpu_work_of_solve(c->p, c->nest, c->visitor);
    case NEST_PREFIX:
    case NEST_SEGMENT:
    case NEST_SEGMENT_ADJOINT: return work_of_scan(c);
    default: return work_of_points(c);
  }
}

nest_work gpu_work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest,
                           memory_since *since, access_visitor *visitor) {
  nest_count c = {.p = p,
                  .nest = nest,
                  .at.numbers = 1,
                  .over = nest->over,
                  .seen = ARENA_ARRAY(scratch, bool, p->p->program->values.count + 1),
                  .shares = 1,
                  .visitor = visitor};
  nest_work work = work_of_nest(&c);
  if (since) work.all.barriers += p->m->kind == MAP_BLOCK && plan_waits(scratch, since, nest);
  return work;
}
