// Copies that make another axis contiguous, in square blocks of vectors.
//
//   pack %16 [s,N] as [N,s]     ->     16 rows of N, 4 rounds of shuffles, 16 rows of s
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
  loop_axes outer = lower_by_rank(l, nest->axes & ~axis_bit(s.rows) & ~axis_bit(s.columns));
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &outer, 0, &at, squares, &s);
  return true;
}
