// Nests with loops of their own: sums and products along time, scans, and the first extreme entry.
//
//   %20 [t,s] = segment %14     row = 0; for t: row = (row + x[t]) where s < t, else 0; store row
//   %21 [t,N] = scan %15 %16    for vectors of N: h = 0; for t: h = a[t] h + x[t]; store h
//
// Sums go step by step towards their reference; no sum is the difference of two others.
#include <math.h>

#include "compiler/emit/bits.h"
#include "compiler/lower/nest_target.h"

// ---- sums along time ----

typedef struct along_time {
  const plan_nest *nest;
  tile_id id;
  int rows_at_once;  // of a prefix
} along_time;

static ir operand_elsewhere(lower *l, const place_in_loops *at, tile_id id) {
  place_in_loops elsewhere = *at;
  elsewhere.moved = true;
  return lower_value_at(l, &elsewhere, id);
}

static int lanes_at(const lower *l, const place_in_loops *at, tile_id id) {
  return at->lanes && at->vector_axis >= 0 && axis_in(value(l, id)->axes, at->vector_axis)
             ? at->lanes
             : 0;
}

// The row number of iteration `i`: from the start or from the end.
static ir iteration_row(lower *l, ir i, bool from_end, int64_t size) {
  return from_end ? int_from_end(l->e, size - 1, 1, i) : i;
}

ir lower_running(lower *l, tile_op op, ir before, ir x) {
  return op == TILE_RUNNING_PRODUCT ? real_mul(l->e, before, x) : real_add(l->e, before, x);
}

ir lower_running_start(lower *l, tile_op op, int lanes) {
  return real_number(l->e, op == TILE_RUNNING_PRODUCT, lanes);
}

// The sum or product of a column, and what it has come to so far.
typedef struct prefix {
  const plan_nest *nest;
  tile_id id;
  place_in_loops at;
  ir sum;
  int lanes;
} prefix;

// Stores a row of the sum. The other values of the nest are made at that row.
static void keep_row(lower *l, const prefix *n, const place_in_loops *row, ir x) {
  lower_keep_value(l, row, n->id, x);
  if (n->nest->values.count == 1) return;
  lower_forget(l);
  l->memo[n->id] = x;
  for (int i = 1; i < n->nest->values.count; i++) lower_compute(l, row, n->nest->values.items[i]);
  lower_forget(l);
}

static void prefix_row(lower *l, const prefix *n, ir number) {
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  place_in_loops row = n->at;
  row.index[tile_step_axis(v)] = number;
  ir before = load_real(e, n->sum, n->lanes);
  ir after = lower_running(l, v->op, before, operand_elsewhere(l, &row, v->args[0]));
  store_real(e, after, n->sum);
  keep_row(l, n, &row, tile_is_exclusive(v) ? before : after);
}

// Rows of a group lie constants apart from its first one in memory. A variable counts that one down
// where sums begin at the end: LLVM would take the difference from the loop's index apart, and each
// row would compute its own address.
static void rows_in_groups(lower *l, const prefix *n, int64_t size, int rows_at_once) {
  emitter *e = l->e;
  bool from_end = tile_is_from_end(value(l, n->id));
  ir next = stack_slot(e, e->i32, "next");
  LLVMBuildStore(e->b, LLVMConstInt(e->i32, from_end ? (uint64_t)(size - rows_at_once) : 0, false),
                 next);
  emit_loop groups = loop_begin(e, integer(e, 0), integer(e, size), rows_at_once, "rows");
  ir first = LLVMBuildLoad2(e->b, e->i32, next, "");
  LLVMBuildStore(e->b, int_add_n(e, first, from_end ? -rows_at_once : rows_at_once), next);
  emit_loop rows = loop_begin(e, integer(e, 0), integer(e, rows_at_once), 1, "row");
  ir row = iteration_row(l, int_below(e, rows.index, rows_at_once), from_end, rows_at_once);
  prefix_row(l, n, int_add(e, int_multiple(e, first, rows_at_once), row));
  loop_end_unrolled(e, &rows);
  loop_end_kept(e, &groups);
}

static void rows_in_order(lower *l, const prefix *n, int64_t size) {
  emit_loop loop = loop_begin(l->e, integer(l->e, 0), integer(l->e, size), 1, "t");
  prefix_row(l, n, iteration_row(l, loop.index, tile_is_from_end(value(l, n->id)), size));
  loop_end(l->e, &loop);
}

// Without a loop: LLVM sees each row's number.
static void rows_written_out(lower *l, const prefix *n, int64_t size) {
  bool from_end = tile_is_from_end(value(l, n->id));
  for (int64_t i = 0; i < size; i++)
    prefix_row(l, n, iteration_row(l, integer(l->e, i), from_end, size));
}

static void prefix_column(lower *l, const place_in_loops *at, void *data) {
  const along_time *along = data;
  emitter *e = l->e;
  int lanes = lanes_at(l, at, along->id);
  int64_t size = known_size(l, tile_step_axis(value(l, along->id)));
  prefix n = {along->nest, along->id, *at, stack_slot(e, real_type(e, lanes), "prefix"), lanes};
  store_real(e, lower_running_start(l, value(l, along->id)->op, lanes), n.sum);
  if (along->rows_at_once >= size)
    rows_written_out(l, &n, size);
  else
    along->rows_at_once > 1 ? rows_in_groups(l, &n, size, along->rows_at_once)
                            : rows_in_order(l, &n, size);
}

// h = a h + x, step by step, with h in registers; vectors along the last axis.
typedef struct scan {
  tile_id id;
  place_in_loops at;
  ir h[TILE_PARTS_MAX];  // slots
  int count;             // of them: 1 for a real number
  int lanes;
} scan;

// The two parts of a factor.
static void factor_parts(lower *l, const scan *n, const place_in_loops *row, ir *a) {
  const tile_value *v = value(l, n->id);
  place_in_loops at = *row;
  for (int k = 0; k < 2; k++) {
    at.index[tile_part_axis(v)] = integer(l->e, k);
    a[k] = spread(l->e, operand_elsewhere(l, &at, v->args[0]), n->lanes);
  }
}

static void keep_part(lower *l, const scan *n, const place_in_loops *row, int part, ir h) {
  place_in_loops at = *row;
  at.index[tile_part_axis(value(l, n->id))] = integer(l->e, part);
  store_real(l->e, h, n->h[part]);
  lower_keep_value(l, &at, n->id, h);
}

static void scan_row_of_pairs(lower *l, const scan *n, const place_in_loops *row) {
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  ir a[2], x[2], h[2];
  factor_parts(l, n, row, a);
  for (int k = 0; k < 2; k++) {
    x[k] = spread(e, operand_elsewhere(l, row, v->args[1 + k]), n->lanes);
    h[k] = load_real(e, n->h[k], n->lanes);
  }
  ir re = real_fma(e, real_neg(e, a[1]), h[1], x[0]), im = real_fma(e, a[1], h[0], x[1]);
  keep_part(l, n, row, 0, real_fma(e, a[0], h[0], re));
  keep_part(l, n, row, 1, real_fma(e, a[0], h[1], im));
}

static void scan_row_of_joint(lower *l, const scan *n, const place_in_loops *row) {
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  place_in_loops at = *row;
  ir h[TILE_PARTS_MAX], next[TILE_PARTS_MAX];
  for (int k = 0; k < n->count; k++) h[k] = load_real(e, n->h[k], n->lanes);
  for (int i = 0; i < n->count; i++) {
    at.index[tile_part_axis(v)] = integer(e, i);
    next[i] = spread(e, operand_elsewhere(l, &at, v->args[1]), n->lanes);
    for (int k = 0; k < n->count; k++) {
      at.index[tile_from_axis(v)] = integer(e, k);
      next[i] =
          real_fma(e, spread(e, operand_elsewhere(l, &at, v->args[0]), n->lanes), h[k], next[i]);
    }
  }
  for (int i = 0; i < n->count; i++) keep_part(l, n, row, i, next[i]);
}

static void scan_row(lower *l, const scan *n, ir number) {
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  place_in_loops row = n->at;
  row.index[tile_step_axis(v)] = number;
  if (v->op == TILE_SCAN_PAIR) {
    scan_row_of_pairs(l, n, &row);
    return;
  }
  if (v->op == TILE_SCAN_JOINT) {
    scan_row_of_joint(l, n, &row);
    return;
  }
  ir a = spread(e, operand_elsewhere(l, &row, v->args[0]), n->lanes);
  ir x = spread(e, operand_elsewhere(l, &row, v->args[1]), n->lanes);
  ir h = real_fma(e, a, load_real(e, n->h[0], n->lanes), x);
  store_real(e, h, n->h[0]);
  lower_keep_value(l, &row, n->id, h);
}

// A padded row: what grows from step to step could overflow there.
static void keep_zeros(lower *l, const scan *n, ir number) {
  const tile_value *v = value(l, n->id);
  place_in_loops row = n->at;
  row.index[tile_step_axis(v)] = number;
  for (int k = 0; k < n->count; k++) {
    if (v->op != TILE_SCAN) row.index[tile_part_axis(v)] = integer(l->e, k);
    lower_keep_value(l, &row, n->id, real_number(l->e, 0, n->lanes));
  }
}

static void scan_column(lower *l, const place_in_loops *at, void *data) {
  const along_time *along = data;
  emitter *e = l->e;
  const tile_value *v = value(l, along->id);
  int64_t size = known_size(l, tile_step_axis(v));
  int count = v->op == TILE_SCAN ? 1 : (int)known_size(l, tile_part_axis(v));
  scan n = {.id = along->id, .at = *at, .count = count, .lanes = lanes_at(l, at, along->id)};
  for (int k = 0; k < count; k++) n.h[k] = real_slot(e, real_number(e, 0, n.lanes), "h");
  // Before the first chunk and after the last there are no rows.
  region of = l->p->values[along->id].region;
  bool in_time = tile_step_axis(v) == l->p->program->time_axis && of != REGION_PROLOGUE &&
                 of != REGION_EPILOGUE;
  ir rows = in_time ? l->rows : integer(e, size);
  emit_loop loop = loop_begin(e, integer(e, 0), rows, 1, "t");
  scan_row(l, &n, tile_is_from_end(v) ? int_sub(e, int_sub_n(e, rows, 1), loop.index) : loop.index);
  loop_end(e, &loop);
  if (!in_time) return;
  emit_loop padded = loop_begin(e, rows, integer(e, size), 1, "t");
  keep_zeros(l, &n, padded.index);
  loop_end(e, &padded);
}

// [t, s]: row t is row t - 1 plus x[t] (index 1: x[t - 1]) where s < t; vectors along s.
static void segment_column(lower *l, const place_in_loops *at, void *data) {
  const along_time *n = data;
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  int t = tile_step_axis(v), s = tile_other_step_axis(v), lanes = lanes_at(l, at, n->id);
  place_in_loops row = *at;
  ir sum = real_slot(e, real_number(e, 0, lanes), "segment");
  ir late = stack_slot(e, real_type(e, lanes), "late");
  store_real(e, real_number(e, 0, lanes), late);
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, known_size(l, t)), 1, "t");
  row.index[t] = loop.index;
  ir zero = real_number(e, 0, lanes);
  ir below = real_compare(e, LLVMRealOGT, lower_real_of_index(l, &row, t),
                          lower_real_of_index(l, &row, s));
  if (lanes) below = spread(e, below, lanes);
  ir before = load_real(e, sum, lanes);
  ir x = spread(e, operand_elsewhere(l, &row, v->args[0]), lanes);
  if (tile_is_exclusive(v)) {
    // sum over s < j < t: x[t] enters at the next row
    lower_keep_value(l, &row, n->id, choose(e, below, before, zero));
    store_real(e, choose(e, below, real_add(e, before, x), zero), sum);
  } else {
    ir after = choose(e, below, real_add(e, before, x), zero);
    store_real(e, after, sum);
    lower_keep_value(l, &row, n->id, after);
  }
  loop_end(e, &loop);
}

// dx[j] = sum over t >= j (index 1: t > j), s < j of g[t, s]: column sums from the last row up,
// then over s < j.
static void segment_adjoint_column(lower *l, const place_in_loops *at, void *data) {
  const along_time *n = data;
  emitter *e = l->e;
  const tile_value *v = value(l, n->id);
  int t = tile_step_axis(v), s = tile_other_step_axis(v);
  int64_t size = known_size(l, t);
  tile_id g = v->args[0];
  // column sums live in vectors of a whole row when s is in the lanes
  bool vector = at->vector_axis < 0;
  int lanes = vector ? (int)size : lanes_at(l, at, g);
  ir columns = stack_slot(
      e, vector ? real_type(e, lanes) : LLVMArrayType2(real_type(e, lanes), (uint64_t)size),
      "columns");
  place_in_loops row = *at;
  if (vector) {
    row.vector_axis = s;
    row.lanes = lanes;
    row.index[s] = integer(e, 0);
    store_real(e, real_number(e, 0, lanes), columns);
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, size), 1, "j");
    row.index[t] = iteration_row(l, loop.index, true, size);
    ir below = real_compare(e, LLVMRealOGT, spread(e, lower_real_of_index(l, &row, t), lanes),
                            lower_real_of_index(l, &row, s));
    ir zero = real_number(e, 0, lanes);
    ir before = load_real(e, columns, lanes);
    ir after = real_add(e, before, spread(e, operand_elsewhere(l, &row, g), lanes));
    store_real(e, after, columns);
    ir sum = sum_of_lanes(e, choose(e, below, tile_is_exclusive(v) ? before : after, zero));
    place_in_loops out = *at;
    out.index[t] = row.index[t];
    lower_keep_value(l, &out, n->id, sum);
    loop_end(e, &loop);
    return;
  }
  ir total = stack_slot(e, real_type(e, lanes), "total");
  emit_loop clear = loop_begin(e, integer(e, 0), integer(e, size), 1, "s");
  store_real(e, real_number(e, 0, lanes), element(e, real_type(e, lanes), columns, clear.index));
  loop_end(e, &clear);
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, size), 1, "j");
  row.index[t] = iteration_row(l, loop.index, true, size);
  store_real(e, real_number(e, 0, lanes), total);
  emit_loop pair = loop_begin(e, integer(e, 0), row.index[t], 1, "s");
  row.index[s] = pair.index;
  ir address = element(e, real_type(e, lanes), columns, pair.index);
  ir before = load_real(e, address, lanes);
  ir after = real_add(e, before, operand_elsewhere(l, &row, g));
  store_real(e, after, address);
  real_add_to(e, total, tile_is_exclusive(v) ? before : after);
  loop_end(e, &pair);
  place_in_loops out = *at;
  out.index[t] = row.index[t];
  lower_keep_value(l, &out, n->id, load_real(e, total, lanes));
  loop_end(e, &loop);
}

// Each of these columns. What it reads and stores has no part in other columns.
static void each_column(lower *l, const plan_nest *nest, axis_set columns, point_function *body,
                        along_time n) {
  lower_forget(l);
  lower_point_loops(l, columns, nest->lane, body, &n);
  lower_forget(l);
}

static axis_set without_steps(const lower *l, const plan_nest *nest) {
  return nest->axes & ~axis_bit(tile_step_axis(value(l, nest->values.items[0])));
}

void lower_prefix(lower *l, const plan_nest *nest, int rows_at_once) {
  along_time n = {nest, nest->values.items[0], rows_at_once};
  each_column(l, nest, without_steps(l, nest), prefix_column, n);
}

void lower_scan(lower *l, const plan_nest *nest) {
  along_time n = {.id = nest->values.items[0]};
  each_column(l, nest, nest->axes & ~tile_scan_axes(value(l, n.id)), scan_column, n);
}

void lower_segment(lower *l, const plan_nest *nest) {
  along_time n = {.id = nest->values.items[0]};
  each_column(l, nest, without_steps(l, nest), segment_column, n);
}

void lower_segment_adjoint(lower *l, const plan_nest *nest) {
  along_time n = {.id = nest->values.items[0]};
  axis_set pair = axis_bit(tile_other_step_axis(value(l, n.id)));
  each_column(l, nest, without_steps(l, nest) & ~pair, segment_adjoint_column, n);
}

// ---- the first extreme entry ----
//
// A first loop over the entries finds the position, a second one writes 1 there and 0 elsewhere.
// Entries are compared with one another alone: the extreme that forward found may have been
// computed in another rounding.

typedef struct first_extreme {
  tile_id id;
  // slots: the extreme so far, where it was, the position of the entry at hand
  ir best, position, next;
  int lanes;
  loop_axes over;
} first_extreme;

// The position of the entry at hand; the next one is behind it.
static ir take_position(lower *l, const first_extreme *f) {
  ir here = load_real(l->e, f->next, f->lanes);
  store_real(l->e, real_add(l->e, here, real_number(l->e, 1, f->lanes)), f->next);
  return here;
}

static void find_extreme(lower *l, const place_in_loops *at, void *data) {
  emitter *e = l->e;
  const first_extreme *f = data;
  const tile_value *v = value(l, f->id);
  ir x = spread(e, operand_elsewhere(l, at, v->args[0]), f->lanes),
     best = load_real(e, f->best, f->lanes);
  ir better = real_compare(e, v->op == TILE_FIRST_MAX ? LLVMRealOGT : LLVMRealOLT, x, best);
  store_real(e, choose(e, better, x, best), f->best);
  store_real(e, choose(e, better, take_position(l, f), load_real(e, f->position, f->lanes)),
             f->position);
}

static void mark_extreme(lower *l, const place_in_loops *at, void *data) {
  emitter *e = l->e;
  const first_extreme *f = data;
  ir position = load_real(e, f->position, f->lanes);
  lower_keep_value(l, at, f->id,
                   lower_one_if(l, real_compare(e, LLVMRealOEQ, take_position(l, f), position)));
}

static void first_extreme_of_point(lower *l, const place_in_loops *at, void *data) {
  emitter *e = l->e;
  const first_extreme *f = data;
  ir zero = real_number(e, 0, f->lanes);
  store_real(e,
             real_number(e, value(l, f->id)->op == TILE_FIRST_MAX ? -INFINITY : INFINITY, f->lanes),
             f->best);
  store_real(e, zero, f->position);
  for (int pass = 0; pass < 2; pass++) {
    place_in_loops inner = *at;
    store_real(e, zero, f->next);
    lower_loops_over(l, &f->over, 0, &inner, pass ? mark_extreme : find_extreme, data);
  }
}

void lower_first_extreme(lower *l, const plan_nest *nest) {
  first_extreme f = {.id = nest->values.items[0]};
  f.lanes = nest->lane ? l->m->lanes : 0;
  f.best = stack_slot(l->e, real_type(l->e, f.lanes), "best");
  f.position = stack_slot(l->e, real_type(l->e, f.lanes), "position");
  f.next = stack_slot(l->e, real_type(l->e, f.lanes), "next");
  axis_set over = plan_tile_axes(l->m, value(l, f.id)->over);
  f.over = lower_by_rank(l, over);
  loop_axes outer = lower_by_rank(l, nest->axes & ~over);
  place_in_loops at = lower_start_place(l, nest->lane);
  lower_forget(l);
  l->target->points(l, &outer, &at, first_extreme_of_point, &f);
}
