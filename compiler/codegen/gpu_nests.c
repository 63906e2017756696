/* Nests that GPU threads run in another way than the host: systems, sums over threads.
 *
 *   %6 [t,V] = solve %5 %2    each thread one column of V, row after row
 *   d.B[n] += x[n] of every channel    sums of warps by shuffles, into shared memory; then thread n adds up the warps
 */
#include "gpu_parts.h"

#include "../base/ice.h"
#include "gpu.h"

/* Addresses of all nests are made from few parts: those of a thread's number, kept through a chunk, would take a third of the
 * registers. */
team gpu_team_of_nest(const lower *l) {
  emitter *e = l->e;
  team own = *l->team;
  if (!own.shares) return own;
  own.thread = gpu_call(e, GPU_OPAQUE, &own.thread, 1);
  own.thread = int_rem(e, own.thread, integer(e, own.threads));
  return own;
}

/* ---- triangular systems ---- */

typedef struct gpu_system {
  tile_id id;
  view a, x;
} gpu_system;

static void copy_right_side(lower *l, const place_in_loops *at, void *data) {
  const gpu_system *s = data;
  lower_forget(l);
  const tile_value *v = value(l, s->id);
  view_store(l, &s->x, at, v->axes, lower_value_at(l, at, v->args[1]));
  lower_forget(l);
}

/* x[t] += sum of a[t, s] x[s] over s < t, row by row; transposed: of a[s, t] x[s] over s > t, from the last row. */
static void one_column(lower *l, const place_in_loops *at, void *data) {
  const gpu_system *s = data;
  emitter *e = l->e;
  const tile_value *v = value(l, s->id);
  int row = v->index, pair = v->index2;
  ir last = integer(e, known_size(l, row) - 1);
  axis_set matrix = value(l, v->args[0])->axes;
  ir sum = stack_slot(e, e->real, "sum");
  emit_loop rows = loop_begin(e, integer(e, 0), integer(e, known_size(l, row)), 1, "row");
  place_in_loops here = *at, before = *at, factor = *at;
  here.index[row] = v->index3 ? int_sub(e, last, rows.index) : rows.index;
  store_real(e, view_load(l, &s->x, &here, v->axes), sum);
  emit_loop done = loop_begin(e, integer(e, 0), rows.index, 1, "done");
  before.index[row] = v->index3 ? int_sub(e, last, done.index) : done.index;
  factor.index[row] = v->index3 ? before.index[row] : here.index[row];
  factor.index[pair] = v->index3 ? here.index[row] : before.index[row];
  ir a = view_load(l, &s->a, &factor, matrix);
  ir x = view_load(l, &s->x, &before, v->axes);
  store_real(e, real_fma(e, a, x, load_real(e, sum, 0)), sum);
  loop_end(e, &done);
  view_store(l, &s->x, &here, v->axes, load_real(e, sum, 0));
  loop_end(e, &rows);
}

/* A system of one column alone is one thread's: the others must not read what it has not stored. */
static void by_first_thread(lower *l, place_in_loops *at, const gpu_system *s) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, l->team->thread, integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  one_column(l, at, (void *)s);
  branch_end(e, &branch);
}

void gpu_solve(lower *l, const plan_nest *nest) {
  gpu_system s = {.id = nest->values.items[0]};
  const tile_value *v = value(l, s.id);
  int pack = nest->dot.pack_a;
  s.a = pack < 0 ? value_view(l, nest->dot.a) : lower_buffer(l, pack);
  s.x = lower_buffer(l, l->p->values[s.id].buffer);
  lower_points(l, plan_tile_axes(l->m, v->axes), false, copy_right_side, &s);
  lower_barrier(l);
  loop_axes columns = lower_by_rank(l, plan_tile_axes(l->m, v->axes) & ~axis_bit(v->index));
  place_in_loops at = lower_start_place(l, false);
  if (columns.count || !l->team->shares) {
    lower_shared_loops(l, &columns, &at, one_column, &s);
  } else {
    by_first_thread(l, &at, &s);
  }
}

/* ---- sums over threads ---- */

static ir warp_sum(emitter *e, ir x) {
  for (int mask = GPU_WARP_LANES / 2; mask; mask /= 2) {
    ir other =
        gpu_call(e, GPU_SHFL_BFLY_F32, (ir[]){x, LLVMConstInt(e->i32, (unsigned)mask, 0)}, 2);
    x = real_add(e, x, other);
  }
  return x;
}

static ir lane_number(lower *l) {
  return int_rem(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES));
}

static ir warp_number(lower *l) {
  return int_div(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES));
}

/* The first lane of every warp stores what its warp came to. */
static void store_of_warp(lower *l, ir x, ir row) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, lane_number(l), integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  store_real(e, x, element(e, e->real, l->team->sums, int_add(e, row, warp_number(l))));
  branch_end(e, &branch);
}

ir team_all(lower *l, tile_op op, ir x) {
  emitter *e = l->e;
  for (int mask = GPU_WARP_LANES / 2; mask; mask /= 2) {
    ir other =
        gpu_call(e, GPU_SHFL_BFLY_F32, (ir[]){x, LLVMConstInt(e->i32, (unsigned)mask, 0)}, 2);
    x = lower_combine(e, op, x, other);
  }
  lower_barrier(l);
  store_of_warp(l, x, integer(e, 0));
  lower_barrier(l);
  for (int warp = 0; warp < l->team->threads / GPU_WARP_LANES; warp++) {
    ir y = load_real(e, element(e, e->real, l->team->sums, integer(e, warp)), 0);
    x = warp ? lower_combine(e, op, x, y) : y;
  }
  return x;
}

static int64_t points_of(const mapping *m, const tile_program *program, axis_set axes) {
  int64_t points = 1;
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    int64_t size = plan_axis_size(m, program, axis);
    if (size == TILE_RUNTIME_SIZE) return -1;
    points *= size;
  }
  return points;
}

static bool may_sum(const mapping *m, const tile_place *place) {
  if (m->kind != MAP_THREADS || place->role == TILE_KEEP) return false;
  for (int x = 0; x < place->axis_count; x++) {
    if (place->axes[x] == m->kernel->lane_axis) return false;
  }
  return true;
}

int64_t team_numbers(const mapping *m, const plan *p, const plan_nest *nest, int threads) {
  int64_t numbers = 0;
  for (int i = 0; i < nest->results.count; i++) {
    const tile_place *place = &p->program->results.items[nest->results.items[i]].place;
    int64_t points = points_of(m, p->program, nest->axes);
    if (may_sum(m, place)) numbers += (points < 0 ? 1 : points) * (threads / GPU_WARP_LANES);
  }
  return numbers;
}

/* Where the rows of a result begin: behind those of the earlier results of the nest. */
static ir rows_of(lower *l, const plan_nest *nest, int position, const place_in_loops *at) {
  emitter *e = l->e;
  int64_t points = points_of(l->m, l->p->program, nest->axes);
  ir row = integer(e, 0);
  for (int axis = 0; points >= 0 && axis < l->p->program->axes.count; axis++) {
    if (axis_in(nest->axes, axis))
      row = int_add(e, int_mul(e, row, l->axis_size[axis]), at->index[axis]);
  }
  int before = 0;
  for (int i = 0; i < position; i++) before += l->results[nest->results.items[i]].over_threads;
  row = int_add(e, row, integer(e, before * (points < 0 ? 1 : points)));
  return int_mul(e, row, integer(e, l->team->threads / GPU_WARP_LANES));
}

static void store_sum(lower *l, const plan_nest *nest, int position, const place_in_loops *at) {
  emitter *e = l->e;
  const result_target *target = &l->results[nest->results.items[position]];
  const tile_result *r = &l->p->program->results.items[nest->results.items[position]];
  ir rows = element(e, e->real, l->team->sums, rows_of(l, nest, position, at)), sum = NULL;
  for (int warp = 0; warp < l->team->threads / GPU_WARP_LANES; warp++) {
    ir x = load_real(e, element(e, e->real, rows, integer(e, warp)), 0);
    sum = sum ? real_add(e, sum, x) : x;
  }
  emit_branch branch = branch_begin(e, target->active);
  view_store(l, &target->at, at, tile_place_axes(l->p->program, &r->place), sum);
  branch_end(e, &branch);
}

/* Run-time sizes: every point is summed at once. */
static void sum_here(lower *l, const plan_nest *nest, int position, const place_in_loops *at) {
  emitter *e = l->e;
  gpu_call(e, GPU_BARRIER, NULL, 0);
  ir first = int_compare(e, LLVMIntEQ, l->team->thread, integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  store_sum(l, nest, position, at);
  branch_end(e, &branch);
  gpu_call(e, GPU_BARRIER, NULL, 0);
}

void team_stage(lower *l, const plan_nest *nest, int position, const place_in_loops *at, ir x) {
  emitter *e = l->e;
  const team *t = l->team;
  const result_target *target = &l->results[nest->results.items[position]];
  ir zero = real_number(e, 0, 0);
  if (target->own) x = choose(e, target->own, x, zero);
  x = warp_sum(e, choose(e, t->inside, x, zero));
  store_of_warp(l, x, rows_of(l, nest, position, at));
  if (points_of(l->m, l->p->program, nest->axes) < 0) sum_here(l, nest, position, at);
}

static void point_among_threads(lower *l, const plan_nest *nest, int position) {
  emitter *e = l->e;
  int64_t points = points_of(l->m, l->p->program, nest->axes);
  emit_loop loop = loop_begin(e, l->team->thread, integer(e, points), l->team->threads, "sum");
  place_in_loops at = l->outside;
  ir rest = loop.index;
  for (int axis = l->p->program->axes.count - 1; axis >= 0; axis--) {
    if (!axis_in(nest->axes, axis)) continue;
    at.index[axis] = int_rem(e, rest, l->axis_size[axis]);
    rest = int_div(e, rest, l->axis_size[axis]);
  }
  store_sum(l, nest, position, &at);
  loop_end(e, &loop);
}

void team_finish(lower *l, const plan_nest *nest) {
  bool sums = false;
  for (int i = 0; i < nest->results.count; i++)
    sums = sums || l->results[nest->results.items[i]].over_threads;
  if (!sums || points_of(l->m, l->p->program, nest->axes) < 0) return;
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
  for (int i = 0; i < nest->results.count; i++) {
    if (l->results[nest->results.items[i]].over_threads) point_among_threads(l, nest, i);
  }
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
}
