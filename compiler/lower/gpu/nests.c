// GPU nests that differ from those of the host: triangular systems, and sums over threads.
//
//   %6 [t,V] = solve %5 %2    each thread one column of V, four rows at a time in registers
//   d.B[n] += x[n] of every channel    sums of warps by shuffles, into shared memory; then thread n adds up the warps
#include "compiler/lower/gpu/nests.h"

#include "compiler/base/ice.h"

// The thread's number, computed anew for each nest. Addresses made of it would otherwise be kept through a chunk, in a third of
// the registers.
team gpu_team_of_nest(const lower *l) {
  emitter *e = l->e;
  team own = *l->team;
  if (!own.shares) return own;
  own.thread = gpu_call(e, GPU_OPAQUE, &own.thread, 1);
  own.thread = int_rem(e, own.thread, integer(e, own.threads));
  int64_t known;
  if (!own.warp || int_known(own.warp, &known)) return own;
  own.warp = gpu_call(e, GPU_OPAQUE, &own.warp, 1);
  own.warp = int_rem(e, own.warp, integer(e, own.threads / GPU_WARP_LANES));
  return own;
}

// thread / 32, taken from lane 0: only that tells ptxas that it is the same in all lanes.
ir gpu_warp_of_block(emitter *e, ir thread, int threads) {
  if (threads == GPU_WARP_LANES) return LLVMConstInt(e->i32, 0, 0);
  ir own = int_div(e, thread, integer(e, GPU_WARP_LANES));
  ir args[] = {LLVMBuildBitCast(e->b, own, e->real, ""), LLVMConstInt(e->i32, 0, 0)};
  return LLVMBuildBitCast(e->b, gpu_call(e, GPU_SHFL_IDX_F32, args, 2), e->i32, "");
}

ir gpu_warp(const lower *l) {
  return l->team->warp ? l->team->warp : int_div(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES));
}

ir gpu_lane(const lower *l) { return int_rem(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES)); }

// ---- triangular systems ----

enum { MOST_ROWS = 4, MOST_STEPS = 4 };

// x[t] += sum of a[t, s] x[s] over s < t; transposed: of a[s, t] x[s] over s > t, from the last row.
typedef struct gpu_system {
  tile_id id;
  view a, x;
  bool transposed;
  int row, pair;
  int rows;   // rows of x that a thread solves at a time, in registers
  int steps;  // rows, or columns, of `a` that it loads at once
  ir first;   // the first of the current rows
  ir own[MOST_ROWS];
} gpu_system;

static ir matrix_at(lower *l, const gpu_system *s, const place_in_loops *at, ir row, ir column, int lanes) {
  place_in_loops where = *at;
  where.index[s->row] = row;
  where.index[s->pair] = column;
  where.vector_axis = lanes > 1 ? s->pair : -1;
  where.lanes = lanes > 1 ? lanes : 0;
  return view_load(l, &s->a, &where, value(l, value(l, s->id)->args[0])->axes);
}

static ir number_of(emitter *e, ir x, int lane) {
  return ir_lanes(x) ? LLVMBuildExtractElement(e->b, x, integer(e, lane), "") : x;
}

static void load_own(lower *l, const gpu_system *s, ir *own) {
  for (int i = 0; i < s->rows; i++) own[i] = load_real(l->e, s->own[i], 0);
}

static void store_own(lower *l, const gpu_system *s, const ir *own) {
  for (int i = 0; i < s->rows; i++) store_real(l->e, own[i], s->own[i]);
}

// Adds the terms of solved rows of x, from `done` on, to the current rows.
static void add_made_rows(lower *l, const gpu_system *s, const place_in_loops *at, ir done) {
  emitter *e = l->e;
  ir x[MOST_STEPS], own[MOST_ROWS];
  load_own(l, s, own);
  for (int k = 0; k < s->steps; k++) {
    place_in_loops where = *at;
    where.index[s->row] = int_add(e, done, integer(e, k));
    x[k] = view_load(l, &s->x, &where, value(l, s->id)->axes);
  }
  for (int i = 0; i < s->rows && !s->transposed; i++) {
    ir a = matrix_at(l, s, at, int_add(e, s->first, integer(e, i)), done, s->steps);
    for (int k = 0; k < s->steps; k++) own[i] = real_fma(e, number_of(e, a, k), x[k], own[i]);
  }
  for (int n = 0; n < s->rows && s->transposed; n++) {
    int k = n % s->steps, first = n - k;
    ir a = matrix_at(l, s, at, int_add(e, done, integer(e, k)), int_add(e, s->first, integer(e, first)), s->steps);
    for (int i = 0; i < s->steps; i++) own[first + i] = real_fma(e, number_of(e, a, i), x[k], own[first + i]);
  }
  store_own(l, s, own);
}

// Solves the current rows among each other. A row of `a` holds the terms of all earlier rows for one row; transposed, of one
// row for all earlier ones.
static void add_own_rows(lower *l, const gpu_system *s, const place_in_loops *at) {
  emitter *e = l->e;
  ir own[MOST_ROWS];
  load_own(l, s, own);
  for (int turn = 0; turn < s->rows; turn++) {
    int line = s->transposed ? s->rows - 1 - turn : turn;
    ir row = int_add(e, s->first, integer(e, line));
    for (int i = 0; i < line; i += s->steps) {
      ir a = matrix_at(l, s, at, row, int_add(e, s->first, integer(e, i)), s->steps);
      for (int k = i; k < line && k < i + s->steps; k++) {
        int to = s->transposed ? k : line, from = s->transposed ? line : k;
        own[to] = real_fma(e, number_of(e, a, k - i), own[from], own[to]);
      }
    }
  }
  store_own(l, s, own);
}

// Loads the right side, or stores x.
static void each_own_row(lower *l, const gpu_system *s, const place_in_loops *at, bool stores) {
  emitter *e = l->e;
  const tile_value *v = value(l, s->id);
  for (int i = 0; i < s->rows; i++) {
    place_in_loops where = *at;
    where.index[s->row] = int_add(e, s->first, integer(e, i));
    lower_forget(l);
    if (stores)
      view_store(l, &s->x, &where, v->axes, load_real(e, s->own[i], 0));
    else
      store_real(e, lower_value_at(l, &where, v->args[1]), s->own[i]);
  }
  lower_forget(l);
}

static void one_column(lower *l, const place_in_loops *at, void *data) {
  gpu_system *s = data;
  emitter *e = l->e;
  int64_t size = known_size(l, s->row);
  ir rows = integer(e, s->rows), end = integer(e, size);
  for (int i = 0; i < s->rows; i++) s->own[i] = stack_slot(e, e->real, "own");
  emit_loop blocks = loop_begin(e, integer(e, 0), end, s->rows, "rows");
  s->first = s->transposed ? int_from_end(e, size - s->rows, s->rows, blocks.index) : blocks.index;
  each_own_row(l, s, at, false);
  ir begin = s->transposed ? int_add(e, s->first, rows) : integer(e, 0);
  emit_loop done = loop_begin(e, begin, s->transposed ? end : s->first, s->steps, "done");
  add_made_rows(l, s, at, done.index);
  loop_end_kept(e, &done);
  add_own_rows(l, s, at);
  each_own_row(l, s, at, true);
  loop_end_kept(e, &blocks);
}

// A system of a single column is one thread's. The other threads must not read elements before it stores them.
static void by_first_thread(lower *l, place_in_loops *at, const gpu_system *s) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, l->team->thread, integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  one_column(l, at, (void *)s);
  branch_end(e, &branch);
}

void gpu_solve(lower *l, const plan_nest *nest) {
  gpu_system s = {.id = nest->values.items[0], .rows = MOST_ROWS, .steps = MOST_STEPS};
  const tile_value *v = value(l, s.id);
  int pack = nest->dot.pack_a;
  s.a = pack < 0 ? value_view(l, nest->dot.a) : lower_buffer(l, pack);
  s.x = lower_buffer(l, l->p->values[s.id].buffer);
  s.row = tile_row_axis(v), s.pair = tile_column_axis(v), s.transposed = tile_is_transposed(v);
  while (known_size(l, s.row) % s.rows) s.rows /= 2;
  if (s.steps > s.rows) s.steps = s.rows;
  loop_axes columns = lower_by_rank(l, plan_tile_axes(l->m, v->axes) & ~axis_bit(tile_row_axis(v)));
  place_in_loops at = lower_start_place(l, false);
  if (columns.count || !l->team->shares) {
    gpu_each_point(l, &columns, &at, one_column, &s);
  } else {
    by_first_thread(l, &at, &s);
  }
}

// ---- sums over threads ----

static ir warp_sum(emitter *e, ir x) {
  for (int mask = GPU_WARP_LANES / 2; mask; mask /= 2) {
    ir other = gpu_call(e, GPU_SHFL_BFLY_F32, (ir[]){x, LLVMConstInt(e->i32, (unsigned)mask, 0)}, 2);
    x = real_add(e, x, other);
  }
  return x;
}

// The first lane of every warp stores the sum of its warp.
static void store_of_warp(lower *l, ir x, ir row) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, gpu_lane(l), integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  store_real(e, x, element(e, e->real, l->team->sums, int_add(e, row, gpu_warp(l))));
  branch_end(e, &branch);
}

ir team_all(lower *l, tile_op op, ir x) {
  emitter *e = l->e;
  for (int mask = GPU_WARP_LANES / 2; mask; mask /= 2) {
    ir other = gpu_call(e, GPU_SHFL_BFLY_F32, (ir[]){x, LLVMConstInt(e->i32, (unsigned)mask, 0)}, 2);
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

// The first row of a result in shared memory: after those of the nest's earlier results.
static ir rows_of(lower *l, const plan_nest *nest, int position, const place_in_loops *at) {
  emitter *e = l->e;
  int64_t points = plan_entries(l->m, l->p->program, nest->axes);
  ir row = integer(e, 0);
  for (int axis = 0; points >= 0 && axis < l->p->program->axes.count; axis++) {
    if (axis_in(nest->axes, axis)) row = int_add(e, int_mul(e, row, l->axis_size[axis]), at->index[axis]);
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

// Run-time sizes: every point is summed at once, with barriers of its own.
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
  if (plan_entries(l->m, l->p->program, nest->axes) < 0) sum_here(l, nest, position, at);
}

static void point_among_threads(lower *l, const plan_nest *nest, int position) {
  emitter *e = l->e;
  int64_t points = plan_entries(l->m, l->p->program, nest->axes);
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
  for (int i = 0; i < nest->results.count; i++) sums = sums || l->results[nest->results.items[i]].over_threads;
  if (!sums || plan_entries(l->m, l->p->program, nest->axes) < 0) return;
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
  for (int i = 0; i < nest->results.count; i++) {
    if (l->results[nest->results.items[i]].over_threads) point_among_threads(l, nest, i);
  }
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
}
