// Copies and results whose contiguous axis is not that of their nest, in square blocks of vectors.
//
//   pack %16 [s,N] as [N,s]     ->     16 rows of N, 4 rounds of shuffles, 16 rows of s
//   h [P,N] to lanes of P       ->     the same, from 16 rows of N
//   %9 [K,t], a product         ->     the same, where its readers have K contiguous
//   d.B [N,H] += %16 [H,N]      ->     the same, added to 16 rows of H
//
// Gathering costs a load for each number; a block of w x w takes w loads, w log w shuffles and w
// stores.
#include "compiler/lower/host/nests.h"

typedef struct square {
  view from, to;
  axis_set axes;
  int rows, columns;  // axes: contiguous in `to`, contiguous in `from`
  int width;
  int lane;  // the axis of the two of which there are the lanes at hand alone; -1: none
} square;

// Halves of groups of 2h lanes: the first halves of x and y, or the second ones.
static ir halves(emitter *e, ir x, ir y, int h, bool second) {
  int lanes = ir_lanes(x);
  ir *mask = ARENA_ARRAY(e->a, ir, lanes);
  for (int i = 0; i < lanes; i++) {
    int group = i / (2 * h) * (2 * h), at = i % h, from = i / h % 2;
    mask[i] = LLVMConstInt(e->i32, (unsigned)(from * lanes + group + at + (second ? h : 0)), 0);
  }
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(mask, (unsigned)lanes), "");
}

static void transpose(emitter *e, ir *rows, int width) {
  for (int h = width / 2; h >= 1; h /= 2) {
    for (int i = 0; i < width; i++) {
      if (i & h) continue;
      ir x = rows[i], y = rows[i + h];
      rows[i] = halves(e, x, y, h, false);
      rows[i + h] = halves(e, x, y, h, true);
    }
  }
}

// In scratch there are the lanes at hand alone.
static ir square_address(lower *l, const square *s, const view *v, const place_in_loops *at) {
  ir address = view_address(l, v, at, s->axes);
  if (s->lane < 0 || !v->internal) return address;
  ir lane = int_sub(l->e, at->index[s->lane], l->outside.index[s->lane]);
  return element(l->e, view_type(l->e, v), address, lane);
}

// States of the next instances are fetched meanwhile: so many squares of rows ahead.
enum { AHEAD = 2 };

static void fetch_ahead(lower *l, const square *s, const view *v, place_in_loops *here,
                        bool write) {
  here->index[s->lane] = int_add_n(l->e, here->index[s->lane], AHEAD * s->width);
  fetch_line(l->e, view_address(l, v, here, s->axes), write, 3);
}

static void one_square(lower *l, const square *s, const place_in_loops *at) {
  emitter *e = l->e;
  ir *row = ARENA_ARRAY(e->a, ir, s->width);
  for (int i = 0; i < s->width; i++) {
    place_in_loops here = *at;
    here.index[s->rows] = int_add_n(e, at->index[s->rows], i);
    row[i] = load_real(e, square_address(l, s, &s->from, &here), s->width);
    if (s->lane == s->rows) fetch_ahead(l, s, &s->from, &here, false);
  }
  transpose(e, row, s->width);
  for (int i = 0; i < s->width; i++) {
    place_in_loops here = *at;
    here.index[s->columns] = int_add_n(e, at->index[s->columns], i);
    store_real(e, row[i], square_address(l, s, &s->to, &here));
    if (s->lane == s->columns) fetch_ahead(l, s, &s->to, &here, true);
  }
}

static emit_loop loop_of_blocks(lower *l, const square *s, int axis, const char *name) {
  emitter *e = l->e;
  bool lanes = axis == s->lane;
  ir first = lanes ? l->outside.index[axis] : integer(e, 0);
  int64_t count = lanes ? l->outside.lanes : known_size(l, axis);
  return loop_begin(e, first, int_add_n(e, first, count), s->width, name);
}

static void squares(lower *l, const place_in_loops *outer, void *data) {
  const square *s = data;
  emitter *e = l->e;
  place_in_loops at = *outer;
  emit_loop rows = loop_of_blocks(l, s, s->rows, "rows");
  emit_loop columns = loop_of_blocks(l, s, s->columns, "columns");
  at.index[s->rows] = rows.index;
  at.index[s->columns] = columns.index;
  one_square(l, s, &at);
  loop_end(e, &columns);
  loop_end(e, &rows);
}

static void all_squares(lower *l, axis_set axes, square *s) {
  loop_axes outer = lower_by_rank(l, axes & ~axis_bit(s->rows) & ~axis_bit(s->columns));
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &outer, 0, &at, squares, s);
}

// Whether the copy could be made so; sizes that are no multiple of the width, and what is not in
// memory, are gathered.
bool host_transpose(lower *l, const plan_nest *nest, view memory) {
  const plan_buffer *to = &l->p->buffers.items[nest->pack];
  int width = l->m->width;
  if (to->axis_count < 2 || to->lane || !plan_viewable(l->m, l->p, nest->packed)) return false;
  square s = {.axes = value(l, nest->packed)->axes,
              .rows = to->axes[to->axis_count - 1],
              .width = width,
              .lane = -1};
  s.columns = plan_contiguous_axis(l->m, l->p, nest->packed);
  if (s.columns < 0 || s.columns == s.rows || !axis_in(nest->axes, s.columns)) return false;
  if (known_size(l, s.rows) % width || known_size(l, s.columns) % width) return false;
  s.from = value_view(l, nest->packed);
  s.to = memory;
  if (s.from.present || !int_is(s.from.stride[s.columns], 1)) return false;
  all_squares(l, nest->axes, &s);
  return true;
}

void host_turn(lower *l, const plan_nest *nest, view from, view to) {
  const plan_value *made = &l->p->values[nest->values.items[0]];
  const plan_buffer *b = &l->p->buffers.items[made->buffer];
  square s = {.from = from,
              .to = to,
              .axes = value(l, nest->values.items[0])->axes,
              .rows = b->axes[b->axis_count - 1],
              .columns = nest->dot.j,
              .width = l->m->width,
              .lane = -1};
  all_squares(l, made->tile, &s);
}

// The tile axis along which the memory is contiguous, in whole vectors; -1: none.
static int axis_of_vectors(const lower *l, const view *memory, axis_set tile) {
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    int64_t size = axis_in(tile, axis) ? known_size(l, axis) : 0;
    if (size > 0 && size % l->m->width == 0 && int_is(memory->stride[axis], 1)) return axis;
  }
  return -1;
}

// A tensor to lanes in scratch, or back, where it is contiguous along another axis than the lanes'.
static bool copy_across(lower *l, const view_copy *c) {
  int lane = l->m->lane_axis;
  if (!c->from || lane < 0 || !axis_in(c->axes, lane) || c->from->internal == c->to.internal)
    return false;
  bool loads = c->to.internal;
  axis_set tile = plan_tile_axes(l->m, c->axes);
  int other = axis_of_vectors(l, loads ? c->from : &c->to, tile);
  bool plain = !c->from->present && !l->outside.mask && c->from->stored == c->to.stored &&
               view_type(l->e, &c->to) == l->e->real && !number_is_narrow(c->to.stored);
  if (other < 0 || !plain || !l->outside.lanes || l->outside.lanes % l->m->width) return false;
  square s = {.from = *c->from,
              .to = c->to,
              .axes = c->axes,
              .rows = loads ? lane : other,
              .columns = loads ? other : lane,
              .width = l->m->width,
              .lane = lane};
  loop_axes outer = lower_by_rank(l, tile & ~axis_bit(other));
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &outer, 0, &at, squares, &s);
  return true;
}

void host_copy(lower *l, const view_copy *c) {
  if (!copy_across(l, c)) lower_copy_by_loops(l, c);
}

// ---- results ---------------------------------------------------------------------------------

// A square of each result that is taken, while its rows are computed.
typedef struct results_across {
  point_nest *n;
  int rows, width;
  ir **taken;  // by position in nest->results; NULL: stored at each point
  int *row;
} results_across;

// The axis that is contiguous in the tensor of a result, if it is another one than the nest's; -1.
static int axis_across(const lower *l, const point_nest *n, int result) {
  const result_target *target = &l->results[result];
  int width = l->m->width;
  bool plain = !target->limit && !target->own && !number_is_narrow(target->at.stored);
  if (!plain || known_size(l, n->vector) % width) return -1;
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    if (axis == n->vector || !axis_in(n->nest->axes, axis)) continue;
    if (int_is(target->at.stride[axis], 1) && known_size(l, axis) % width == 0) return axis;
  }
  return -1;
}

static bool take_row(lower *l, const point_nest *n, int position, const place_in_loops *at) {
  const results_across *s = n->staged;
  tile_id id = l->p->program->results.items[n->nest->results.items[position]].value;
  if (s->taken[position])
    s->taken[position][*s->row] = spread(l->e, lower_value_at(l, at, id), s->width);
  return s->taken[position] != NULL;
}

static void store_square(lower *l, const results_across *s, int position,
                         const place_in_loops *at) {
  emitter *e = l->e;
  int result = s->n->nest->results.items[position];
  const result_target *target = &l->results[result];
  axis_set axes = tile_place_axes(l->p->program, &l->p->program->results.items[result].place);
  transpose(e, s->taken[position], s->width);
  emit_branch branch = branch_begin(e, target->active);
  place_in_loops here = *at;
  here.vector_axis = s->rows;
  for (int i = 0; i < s->width; i++) {
    here.index[s->n->vector] = int_add_n(e, at->index[s->n->vector], i);
    l->target->result(l, target, &here, axes, s->taken[position][i]);
  }
  branch_end(e, &branch);
}

static void squares_of_results(lower *l, const place_in_loops *outer, void *data) {
  results_across *s = data;
  emitter *e = l->e;
  int vector = s->n->vector;
  place_in_loops at = *outer;
  emit_loop rows =
      loop_begin(e, integer(e, 0), integer(e, known_size(l, s->rows)), s->width, "rows");
  emit_loop columns =
      loop_begin(e, integer(e, 0), integer(e, known_size(l, vector)), s->width, "columns");
  at.vector_axis = vector;
  at.lanes = s->width;
  at.index[vector] = columns.index;
  for (*s->row = 0; *s->row < s->width; ++*s->row) {
    at.index[s->rows] = int_add_n(e, rows.index, *s->row);
    lower_inner_point(l, &at, s->n);
  }
  at.index[s->rows] = rows.index;
  for (int i = 0; i < s->n->nest->results.count; i++)
    if (s->taken[i]) store_square(l, s, i, &at);
  loop_end(e, &columns);
  loop_end(e, &rows);
}

bool host_results_across(lower *l, point_nest *n) {
  const plan_nest *nest = n->nest;
  results_across s = {.n = n, .rows = -1, .width = l->m->width};
  if (nest->lane || nest->over || nest->wide || n->vector < 0) return false;
  s.taken = ARENA_ARRAY(l->e->a, ir *, nest->results.count + 1);
  s.row = ARENA_NEW(l->e->a, int);
  for (int i = 0; i < nest->results.count; i++) {
    int rows = axis_across(l, n, nest->results.items[i]);
    if (rows < 0 || (s.rows >= 0 && rows != s.rows)) continue;
    s.rows = rows;
    s.taken[i] = ARENA_ARRAY(l->e->a, ir, s.width);
  }
  if (s.rows < 0) return false;
  n->stage = take_row;
  n->staged = &s;
  loop_axes outer = lower_by_rank(l, nest->axes & ~axis_bit(s.rows) & ~axis_bit(n->vector));
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &outer, 0, &at, squares_of_results, &s);
  return true;
}
