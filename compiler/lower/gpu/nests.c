// GPU: who a thread is in a nest, and triangular systems.
//
//   %6 [t,V] = solve %5 %2    each thread one column of V, four rows at a time in registers
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
