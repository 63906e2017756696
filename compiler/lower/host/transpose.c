// Copies and results whose contiguous axis is not that of their nest, in square blocks of vectors.
//
//   pack %16 [s,N] as [N,s]     ->     16 rows of N, 4 rounds of shuffles, 16 rows of s
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

static void one_square(lower *l, const square *s, const place_in_loops *at) {
  emitter *e = l->e;
  ir *row = ARENA_ARRAY(e->a, ir, s->width);
  for (int i = 0; i < s->width; i++) {
    place_in_loops here = *at;
    here.index[s->rows] = int_add(e, at->index[s->rows], integer(e, i));
    row[i] = load_real(e, view_address(l, &s->from, &here, s->axes), s->width);
  }
  transpose(e, row, s->width);
  for (int i = 0; i < s->width; i++) {
    place_in_loops here = *at;
    here.index[s->columns] = int_add(e, at->index[s->columns], integer(e, i));
    store_real(e, row[i], view_address(l, &s->to, &here, s->axes));
  }
}

static void squares(lower *l, const place_in_loops *outer, void *data) {
  const square *s = data;
  emitter *e = l->e;
  place_in_loops at = *outer;
  emit_loop rows =
      loop_begin(e, integer(e, 0), integer(e, known_size(l, s->rows)), s->width, "rows");
  emit_loop columns =
      loop_begin(e, integer(e, 0), integer(e, known_size(l, s->columns)), s->width, "columns");
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
  square s = {
      .axes = value(l, nest->packed)->axes, .rows = to->axes[to->axis_count - 1], .width = width};
  s.columns = plan_contiguous_axis(l->m, l->p, nest->packed);
  if (s.columns < 0 || s.columns == s.rows || !axis_in(nest->axes, s.columns)) return false;
  if (known_size(l, s.rows) % width || known_size(l, s.columns) % width) return false;
  s.from = value_view(l, nest->packed);
  s.to = memory;
  int64_t stride;
  ir known = s.from.stride[s.columns];
  if (s.from.present || !known || !int_known(known, &stride) || stride != 1) return false;
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
              .width = l->m->width};
  all_squares(l, made->tile, &s);
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
    int64_t stride;
    if (axis == n->vector || !axis_in(n->nest->axes, axis) || !target->at.stride[axis]) continue;
    bool dense = int_known(target->at.stride[axis], &stride) && stride == 1;
    if (dense && known_size(l, axis) % width == 0) return axis;
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
    here.index[s->n->vector] = int_add(e, at->index[s->n->vector], integer(e, i));
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
    at.index[s->rows] = int_add(e, rows.index, integer(e, *s->row));
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
