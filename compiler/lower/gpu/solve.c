// GPU: triangular systems.
//
//   %6 [t,V] = solve %5 %2    each thread a column of V, four rows at a time in registers
//
// Several lanes share a column where there are threads for them. Each solves some of its blocks of
// four rows. A solved block goes to the other lanes by shuffles, and each adds its terms to the
// rows behind it.
#include "compiler/emit/bits.h"
#include "compiler/lower/gpu/nests.h"

enum { MOST_ROWS = GPU_SYSTEM_ROWS, MOST_STEPS = GPU_SYSTEM_ROWS, MOST_KEPT = GPU_MOST_BLOCKS };

// x[t] += sum of a[t, s] x[s] over s < t; transposed: of a[s, t] x[s] over s > t, from the last
// row.
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

static ir matrix_at(lower *l, const gpu_system *s, const place_in_loops *at, ir row, ir column,
                    int lanes) {
  place_in_loops where = *at;
  where.index[s->row] = row;
  where.index[s->pair] = column;
  where.vector_axis = lanes > 1 ? s->pair : -1;
  where.lanes = lanes > 1 ? lanes : 0;
  return view_load(l, &s->a, &where, value(l, value(l, s->id)->args[0])->axes);
}

static void load_own(lower *l, const gpu_system *s, ir *own) {
  for (int i = 0; i < s->rows; i++) own[i] = load_real(l->e, s->own[i], 0);
}

static void store_own(lower *l, const gpu_system *s, const ir *own) {
  for (int i = 0; i < s->rows; i++) store_real(l->e, own[i], s->own[i]);
}

// Adds the terms of these solved rows of x, from `done` on, to the current rows.
static void add_solved_terms(lower *l, const gpu_system *s, const place_in_loops *at, ir done,
                             const ir *x) {
  emitter *e = l->e;
  ir own[MOST_ROWS];
  load_own(l, s, own);
  for (int i = 0; i < s->rows && !s->transposed; i++) {
    ir a = matrix_at(l, s, at, int_add_n(e, s->first, i), done, s->steps);
    for (int k = 0; k < s->steps; k++) own[i] = real_fma(e, lane_of(e, a, k), x[k], own[i]);
  }
  for (int n = 0; n < s->rows && s->transposed; n++) {
    int k = n % s->steps, first = n - k;
    ir a = matrix_at(l, s, at, int_add_n(e, done, k), int_add_n(e, s->first, first), s->steps);
    for (int i = 0; i < s->steps; i++)
      own[first + i] = real_fma(e, lane_of(e, a, i), x[k], own[first + i]);
  }
  store_own(l, s, own);
}

static void add_made_rows(lower *l, const gpu_system *s, const place_in_loops *at, ir done) {
  ir x[MOST_STEPS];
  for (int k = 0; k < s->steps; k++) {
    place_in_loops where = *at;
    where.index[s->row] = int_add_n(l->e, done, k);
    x[k] = view_load(l, &s->x, &where, value(l, s->id)->axes);
  }
  add_solved_terms(l, s, at, done, x);
}

// What ties the current rows to each other. A row of `a` holds the terms of all earlier rows for
// one row; transposed, of one row for all earlier ones.
static void load_ties(lower *l, const gpu_system *s, const place_in_loops *at, ir *ties) {
  for (int i = 1; i < s->rows; i++)
    ties[i] = matrix_at(l, s, at, int_add_n(l->e, s->first, i), s->first, s->steps);
}

// Solves these rows among each other.
static void solve_block(emitter *e, const gpu_system *s, const ir *ties, ir *own) {
  for (int turn = 0; turn < s->rows; turn++) {
    int line = s->transposed ? s->rows - 1 - turn : turn;
    for (int k = 0; k < line; k++) {
      int to = s->transposed ? k : line, from = s->transposed ? line : k;
      own[to] = real_fma(e, lane_of(e, ties[line], k), own[from], own[to]);
    }
  }
}

static void add_own_rows(lower *l, const gpu_system *s, const place_in_loops *at) {
  ir own[MOST_ROWS], ties[MOST_ROWS];
  load_own(l, s, own);
  load_ties(l, s, at, ties);
  solve_block(l->e, s, ties, own);
  store_own(l, s, own);
}

// Loads the right side, or stores x.
static void each_own_row(lower *l, const gpu_system *s, const place_in_loops *at, bool stores) {
  emitter *e = l->e;
  const tile_value *v = value(l, s->id);
  for (int i = 0; i < s->rows; i++) {
    place_in_loops where = *at;
    where.index[s->row] = int_add_n(e, s->first, i);
    lower_forget(l);
    if (stores)
      view_store(l, &s->x, &where, v->axes, load_real(e, s->own[i], 0));
    else
      store_real(e, lower_value_at(l, &where, v->args[1]), s->own[i]);
  }
  lower_forget(l);
}

// Rows of a block are known apart from its first one: swizzled addresses are made of constants.
static ir first_solved_row(lower *l, const gpu_system *s, ir begin) {
  int64_t last = known_size(l, s->row) - s->rows;
  return int_multiple(l->e, s->transposed ? int_from_end(l->e, last, s->rows, begin) : begin,
                      s->rows);
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
  s->first = first_solved_row(l, s, blocks.index);
  each_own_row(l, s, at, false);
  ir begin = s->transposed ? int_add(e, s->first, rows) : integer(e, 0);
  emit_loop done = loop_begin(e, begin, s->transposed ? end : s->first, s->steps, "done");
  add_made_rows(l, s, at, int_multiple(e, done.index, s->steps));
  loop_end_kept(e, &done);
  add_own_rows(l, s, at);
  each_own_row(l, s, at, true);
  loop_end_kept(e, &blocks);
}

// A system of a single column is one thread's. The other threads must not read elements before it
// stores them.
static void by_first_thread(lower *l, place_in_loops *at, const gpu_system *s) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, l->team->thread, integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  one_column(l, at, (void *)s);
  branch_end(e, &branch);
}

// ---- lanes for each column ----

// Blocks of four rows go to the lanes in turn, in the order in which they are solved.
typedef struct shared_system {
  gpu_system blocks[MOST_KEPT];  // of this lane
  gpu_column column;
  int kept;
} shared_system;

static ir row_of_block(lower *l, const gpu_system *s, ir block) {
  return first_solved_row(l, s, int_mul_n(l->e, block, MOST_ROWS));
}

static void open_system_block(lower *l, shared_system *c, int i) {
  gpu_system *s = &c->blocks[i];
  s->first = row_of_block(l, s, int_add_n(l->e, c->column.lane, i * c->column.lanes));
  open_own(l, s);
  each_own_row(l, s, &c->column.at, false);
}

// Solves the block of this lane of the column, and hands it to the other lanes.
static void take_solved(lower *l, const shared_system *c, const gpu_system *s, const ir *ties,
                        ir lane, ir *x) {
  emitter *e = l->e;
  ir side = integer(e, c->column.side),
     from = int_add(e, int_mul(e, lane, side), int_rem(e, gpu_lane(l), side));
  load_own(l, s, x);
  solve_block(e, s, ties, x);
  for (int k = 0; k < MOST_ROWS; k++) x[k] = gpu_call(e, GPU_SHFL_IDX_F32, (ir[]){x[k], from}, 2);
}

// Solves block number i of one lane after the other. Behind each lie those of the lanes behind it,
// and all later ones.
static void solve_turn(lower *l, const shared_system *c, int i, const ir *ties) {
  emitter *e = l->e;
  const gpu_system *s = &c->blocks[i];
  const place_in_loops *at = &c->column.at;
  int end = c->column.lanes - (i + 1 == c->kept);
  emit_loop lanes = loop_begin(e, integer(e, 0), integer(e, end), 1, "lane");
  // A swizzle needs to know the bits of the index. LLVM does not see that the loop has no others.
  ir lane = s->a.layout.pattern ? int_below(e, lanes.index, c->column.lanes) : lanes.index;
  ir x[MOST_ROWS], done = row_of_block(l, s, int_add_n(e, lane, i * c->column.lanes));
  take_solved(l, c, s, ties, lane, x);
  for (int k = i + 1; k < c->kept; k++) add_solved_terms(l, &c->blocks[k], at, done, x);
  emit_branch behind = branch_begin(e, int_compare(e, LLVMIntSGT, c->column.lane, lane));
  add_solved_terms(l, s, at, done, x);
  branch_end(e, &behind);
  // Unrolled, the coefficients of all turns would be loaded at once, each into registers of its
  // own.
  (l->scratch == SCRATCH_READ || l->team->resident > 1 ? loop_end_kept : loop_end)(e, &lanes);
}

static void store_blocks(lower *l, const shared_system *c) {
  for (int i = 0; i < c->kept; i++) each_own_row(l, &c->blocks[i], &c->column.at, true);
}

static void column_of_lanes(lower *l, shared_system *c) {
  emitter *e = l->e;
  for (int i = 0; i < c->kept; i++) open_system_block(l, c, i);
  for (int i = 0; i < c->kept; i++) {
    const gpu_system *s = &c->blocks[i];
    ir ties[MOST_ROWS], own[MOST_ROWS];
    load_ties(l, s, &c->column.at, ties);
    solve_turn(l, c, i, ties);
    load_own(l, s, own);
    solve_block(e, s, ties, own);
    store_own(l, s, own);
  }
  if (!c->column.inside) {
    store_blocks(l, c);
    return;
  }
  emit_branch inside = branch_begin(e, c->column.inside);
  store_blocks(l, c);
  branch_end(e, &inside);
}

// Where columns are at most a fourth of the threads.
static bool solves_by_lanes(lower *l, gpu_system *s, const loop_axes *columns) {
  int64_t rows = known_size(l, s->row), count = gpu_point_count(l, columns);
  int lanes = count < 0 ? 1 : plan_lanes_of_system(l->m, (double)count, rows);
  if (lanes == 1) return false;
  shared_system c = {.column = gpu_column_of(l, columns, lanes),
                     .kept = (int)(rows / MOST_ROWS / lanes)};
  for (int i = 0; i < c.kept; i++) c.blocks[i] = *s;
  column_of_lanes(l, &c);
  return true;
}

void gpu_solve(lower *l, const plan_nest *nest) {
  gpu_system s = {.id = nest->values.items[0], .rows = MOST_ROWS, .steps = MOST_STEPS};
  const tile_value *v = value(l, s.id);
  s.a = lower_operand(l, nest->dot.a, nest->dot.pack_a);
  s.x = lower_buffer(l, l->p->values[s.id].buffer);
  s.row = tile_row_axis(v), s.pair = tile_column_axis(v), s.transposed = tile_is_transposed(v);
  while (known_size(l, s.row) % s.rows) s.rows /= 2;
  if (s.steps > s.rows) s.steps = s.rows;
  loop_axes columns = lower_by_rank(l, plan_tile_axes(l->m, v->axes) & ~axis_bit(tile_row_axis(v)));
  if (solves_by_lanes(l, &s, &columns)) return;
  place_in_loops at = lower_start_place(l, false);
  if (columns.count || !l->team->shares)
    gpu_each_point(l, &columns, GPU_LONG_BODY, &at, one_column, &s);
  else
    by_first_thread(l, &at, &s);
}
