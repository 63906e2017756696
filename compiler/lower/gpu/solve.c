// GPU: triangular systems.
//
//   %6 [t,V] = solve %5 %2    each thread a column of V, four rows at a time in registers
//
// Several lanes share a column where there are threads for them. Each adds the terms of some of the solved rows, which it keeps
// in registers; shuffles add up the lanes.
#include "compiler/emit/bits.h"
#include "compiler/lower/gpu/nests.h"

enum { MOST_ROWS = GPU_SYSTEM_ROWS, MOST_STEPS = GPU_SYSTEM_ROWS, MOST_KEPT = GPU_MOST_BLOCKS };

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

// Adds the terms of these solved rows of x, from `done` on, to the current rows.
static void add_terms(lower *l, const gpu_system *s, const place_in_loops *at, ir done, const ir *x) {
  emitter *e = l->e;
  ir own[MOST_ROWS];
  load_own(l, s, own);
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

static void add_made_rows(lower *l, const gpu_system *s, const place_in_loops *at, ir done) {
  ir x[MOST_STEPS];
  for (int k = 0; k < s->steps; k++) {
    place_in_loops where = *at;
    where.index[s->row] = int_add(l->e, done, integer(l->e, k));
    x[k] = view_load(l, &s->x, &where, value(l, s->id)->axes);
  }
  add_terms(l, s, at, done, x);
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

// Rows of a block are known apart from its first one: swizzled addresses are made of constants.
static ir first_row(lower *l, const gpu_system *s, ir begin) {
  int64_t last = known_size(l, s->row) - s->rows;
  return int_multiple(l->e, s->transposed ? int_from_end(l->e, last, s->rows, begin) : begin, s->rows);
}

static void open_own(lower *l, gpu_system *s) {
  for (int i = 0; i < s->rows; i++) s->own[i] = stack_slot(l->e, l->e->real, "own");
}

// ---- a thread for each column ----

static void one_column(lower *l, const place_in_loops *at, void *data) {
  gpu_system *s = data;
  emitter *e = l->e;
  ir rows = integer(e, s->rows), end = integer(e, known_size(l, s->row));
  open_own(l, s);
  emit_loop blocks = loop_begin(e, integer(e, 0), end, s->rows, "rows");
  s->first = first_row(l, s, blocks.index);
  each_own_row(l, s, at, false);
  ir begin = s->transposed ? int_add(e, s->first, rows) : integer(e, 0);
  emit_loop done = loop_begin(e, begin, s->transposed ? end : s->first, s->steps, "done");
  add_made_rows(l, s, at, int_multiple(e, done.index, s->steps));
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

// ---- lanes for each column ----

// Blocks of four rows go to the lanes in turn. A lane keeps the rows of x of its blocks.
typedef struct shared_system {
  gpu_system *s;
  gpu_column column;
  int kept;  // blocks of a lane
  ir x[MOST_KEPT][MOST_ROWS];
} shared_system;

static ir own_block(lower *l, const shared_system *c, int i) {
  return int_add(l->e, c->column.lane, integer(l->e, i * c->column.lanes));
}

static void load_kept(lower *l, const shared_system *c, int i, ir *x) {
  for (int k = 0; k < MOST_ROWS; k++) x[k] = load_real(l->e, c->x[i][k], 0);
}

// Adds the terms of this lane's blocks, as far as they are solved.
static void add_kept(lower *l, const shared_system *c, ir block) {
  emitter *e = l->e;
  for (int i = 0; i < c->kept; i++) {
    ir own = own_block(l, c, i), x[MOST_ROWS];
    ir solved = int_compare(e, c->s->transposed ? LLVMIntSGT : LLVMIntSLT, own, block);
    emit_branch branch = branch_begin(e, solved);
    load_kept(l, c, i, x);
    add_terms(l, c->s, &c->column.at, int_mul(e, own, integer(e, MOST_ROWS)), x);
    branch_end(e, &branch);
  }
}

static void add_lanes(lower *l, const shared_system *c) {
  emitter *e = l->e;
  ir own[MOST_ROWS];
  load_own(l, c->s, own);
  for (int mask = c->column.side; mask < GPU_WARP_LANES; mask *= 2)
    for (int i = 0; i < MOST_ROWS; i++) own[i] = real_add(e, own[i], gpu_from_lane(e, GPU_SHFL_BFLY_F32, own[i], mask));
  store_own(l, c->s, own);
}

// All lanes have the block; one keeps it, and the first one stores it.
static void keep_block(lower *l, const shared_system *c, ir block) {
  emitter *e = l->e;
  ir own[MOST_ROWS], x[MOST_ROWS];
  load_own(l, c->s, own);
  for (int i = 0; i < c->kept; i++) {
    ir mine = int_compare(e, LLVMIntEQ, own_block(l, c, i), block);
    load_kept(l, c, i, x);
    for (int k = 0; k < MOST_ROWS; k++) store_real(e, choose(e, mine, own[k], x[k]), c->x[i][k]);
  }
  ir first = int_compare(e, LLVMIntEQ, c->column.lane, integer(e, 0));
  if (c->column.inside) first = LLVMBuildAnd(e->b, first, c->column.inside, "");
  emit_branch branch = branch_begin(e, first);
  each_own_row(l, c->s, &c->column.at, true);
  branch_end(e, &branch);
}

// The right side enters the sums of the first lane.
static void start_block(lower *l, const shared_system *c) {
  emitter *e = l->e;
  for (int i = 0; i < MOST_ROWS; i++) store_real(e, real_number(e, 0, 0), c->s->own[i]);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, c->column.lane, integer(e, 0)));
  each_own_row(l, c->s, &c->column.at, false);
  branch_end(e, &branch);
}

static void column_of_lanes(lower *l, shared_system *c) {
  emitter *e = l->e;
  open_own(l, c->s);
  for (int i = 0; i < c->kept; i++)
    for (int k = 0; k < MOST_ROWS; k++) {
      c->x[i][k] = stack_slot(e, e->real, "kept");
      store_real(e, real_number(e, 0, 0), c->x[i][k]);
    }
  emit_loop blocks = loop_begin(e, integer(e, 0), integer(e, known_size(l, c->s->row)), MOST_ROWS, "rows");
  c->s->first = first_row(l, c->s, blocks.index);
  ir block = int_div(e, c->s->first, integer(e, MOST_ROWS));
  start_block(l, c);
  add_kept(l, c, block);
  add_lanes(l, c);
  add_own_rows(l, c->s, &c->column.at);
  keep_block(l, c, block);
  loop_end_kept(e, &blocks);
}

// Where columns are at most a fourth of the threads.
static bool by_lanes(lower *l, gpu_system *s, const loop_axes *columns) {
  int64_t rows = known_size(l, s->row), count = gpu_point_count(l, columns);
  int lanes = count < 0 ? 1 : plan_lanes_of_system(l->m, (double)count, rows);
  if (lanes == 1) return false;
  shared_system c = {.s = s, .column = gpu_column_of(l, columns, lanes), .kept = (int)(rows / MOST_ROWS / lanes)};
  column_of_lanes(l, &c);
  return true;
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
  if (by_lanes(l, &s, &columns)) return;
  place_in_loops at = lower_start_place(l, false);
  if (columns.count || !l->team->shares) {
    gpu_each_point(l, &columns, GPU_LONG_BODY, &at, one_column, &s);
  } else {
    by_first_thread(l, &at, &s);
  }
}
