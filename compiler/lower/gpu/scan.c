// GPU: sums along time with fewer columns than threads.
//
//   prefix [t] %20, 64 steps    lane p adds up rows 2 p and 2 p + 1; five shuffles add up the lanes before it; from there
//                               on it stores its two rows
//   segment [t,s] %21           four lanes to a column, 16 rows each; rows at or before s count as 0
//
// Sums go towards their reference, never as a difference of two sums. Their order depends on sizes
// alone.
#include "compiler/emit/bits.h"
#include "compiler/lower/gpu/nests.h"

static int lanes_of_scan(const lower *l, const loop_axes *columns, int64_t size) {
  int64_t count = gpu_point_count(l, columns);
  return l->team->shares && count >= 0 ? plan_lanes_of_scan(l->m, (double)count, size) : 1;
}

gpu_column gpu_column_of(lower *l, const loop_axes *columns, int lanes) {
  emitter *e = l->e;
  gpu_column c = {
      .lanes = lanes, .side = GPU_WARP_LANES / lanes, .at = lower_start_place(l, false)};
  ir warp = gpu_warp(l), lane = gpu_lane(l);
  c.lane = int_div_n(e, lane, c.side);
  ir rest = int_add(e, int_mul_n(e, warp, c.side), int_rem_n(e, lane, c.side));
  int64_t count = gpu_point_count(l, columns);
  if (count * lanes < l->team->threads) {
    c.inside = int_compare(e, LLVMIntSLT, rest, integer(e, count));
    rest = int_choose(e, c.inside, rest, integer(e, 0));
  }
  gpu_go_to_point(l, columns, rest, &c.at);
  return c;
}

// ---- prefixes and segments ----

enum { MOST_KEPT = 16 };

// Row i of a column, from the start or from the end.
static void place_row(lower *l, tile_id id, place_in_loops *at, ir i) {
  const tile_value *v = value(l, id);
  bool from_end = tile_is_running(v->op) && tile_is_from_end(v);
  int64_t last = known_size(l, tile_step_axis(v)) - 1;
  at->index[tile_step_axis(v)] = from_end ? int_from_end(l->e, last, 1, i) : i;
}

// The element of a row; 0 where the sum leaves it out.
static ir scan_row_element(lower *l, tile_id id, place_in_loops *at, ir i) {
  emitter *e = l->e;
  const tile_value *v = value(l, id);
  place_row(l, id, at, i);
  place_in_loops elsewhere = *at;
  elsewhere.moved = true;
  ir x = lower_value_at(l, &elsewhere, v->args[0]);
  if (tile_is_running(v->op)) return x;
  ir counts =
      int_compare(e, LLVMIntSGT, at->index[tile_step_axis(v)], at->index[tile_other_step_axis(v)]);
  return choose(e, counts, x, real_number(e, 0, 0));
}

// The sum (or product) of the lanes before this one.
static ir sum_before(lower *l, const gpu_column *c, tile_op op, ir own) {
  emitter *e = l->e;
  ir start = lower_running_start(l, op, 0), sum = own;
  for (int step = 1; step < 2 * c->lanes; step *= 2) {
    bool last = step == c->lanes;
    int by = last ? 1 : step;
    ir other = gpu_from_lane(e, GPU_SHFL_UP_F32, sum, by * c->side);
    ir there = int_compare(e, LLVMIntSGE, c->lane, integer(e, by));
    other = choose(e, there, other, start);
    sum = last ? other : lower_running(l, op, sum, other);
  }
  return sum;
}

// The rows of a lane; a few rows are loaded once and kept in registers.
typedef struct lane_rows {
  tile_id id;
  const gpu_column *column;
  ir first;
  int64_t count;
  ir kept[MOST_KEPT];
} lane_rows;

typedef void row_function(lower *l, const lane_rows *r, place_in_loops *at, ir i, ir x, ir sum);

static void add_scanned_row(lower *l, const lane_rows *r, place_in_loops *at, ir i, ir x, ir sum) {
  (void)at, (void)i;
  tile_op op = value(l, r->id)->op;
  store_real(l->e, lower_running(l, op, load_real(l->e, sum, 0), x), sum);
}

static void store_row(lower *l, const lane_rows *r, place_in_loops *at, ir i, ir x, ir sum) {
  const tile_value *v = value(l, r->id);
  ir before = load_real(l->e, sum, 0), after = lower_running(l, v->op, before, x);
  store_real(l->e, after, sum);
  place_row(l, r->id, at, i);
  lower_keep_value(l, at, r->id, tile_is_exclusive(v) ? before : after);
}

// Calls `body` for each row in turn. Returns the sum of all rows, which begins with `start`.
static ir fold_rows(lower *l, const lane_rows *r, ir start, row_function *body) {
  emitter *e = l->e;
  place_in_loops at = r->column->at;
  ir sum = real_slot(e, start, "sum");
  if (r->count <= MOST_KEPT) {
    for (int i = 0; i < r->count; i++) body(l, r, &at, int_add_n(e, r->first, i), r->kept[i], sum);
  } else {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, r->count), 1, "row");
    ir i = int_add(e, r->first, int_below(e, loop.index, r->count));
    body(l, r, &at, i, scan_row_element(l, r->id, &at, i), sum);
    loop_end(e, &loop);
  }
  return load_real(e, sum, 0);
}

// Lowers a prefix or a segment, if several threads share a column.
static bool lower_shared_scan(lower *l, const plan_nest *nest) {
  tile_id id = nest->values.items[0];
  int t = tile_step_axis(value(l, id));
  tile_op op = value(l, id)->op;
  loop_axes columns = lower_by_rank(l, nest->axes & ~axis_bit(t));
  int lanes = lanes_of_scan(l, &columns, known_size(l, t));
  if (lanes == 1) return false;
  emitter *e = l->e;
  gpu_column c = gpu_column_of(l, &columns, lanes);
  lane_rows r = {.id = id, .column = &c, .count = known_size(l, t) / lanes};
  r.first = int_mul_n(e, c.lane, r.count);
  lower_forget(l);
  place_in_loops at = c.at;
  for (int i = 0; r.count <= MOST_KEPT && i < r.count; i++)
    r.kept[i] = scan_row_element(l, id, &at, int_add_n(e, r.first, i));
  ir before =
      sum_before(l, &c, op, fold_rows(l, &r, lower_running_start(l, op, 0), add_scanned_row));
  emit_branch branch = {0};
  if (c.inside) branch = branch_begin(e, c.inside);
  fold_rows(l, &r, before, store_row);
  if (c.inside) branch_end(e, &branch);
  lower_forget(l);
  return true;
}

// A thread with a whole column takes sixteen rows at a time: their addresses are constants apart.
static int rows_at_once(const lower *l, const plan_nest *nest) {
  enum { ROWS_AT_ONCE = 16 };
  int64_t size = known_size(l, tile_step_axis(value(l, nest->values.items[0])));
  if (!l->team->shares) return 1;
  return size <= ROWS_AT_ONCE ? (int)size : size % ROWS_AT_ONCE == 0 ? ROWS_AT_ONCE : 1;
}

void gpu_prefix(lower *l, const plan_nest *nest) {
  if (!lower_shared_scan(l, nest)) lower_prefix(l, nest, rows_at_once(l, nest));
}

void gpu_segment(lower *l, const plan_nest *nest) {
  if (!gpu_make_levels(l, nest) && !lower_shared_scan(l, nest)) lower_segment(l, nest);
}
