// Unit lower triangular systems: blocks of rows in registers, columns in the lanes.
//
//   %6 [t,V] = solve %5 %2 along t,s      x = %2; for each block of 8 rows and 2 vectors of V:
//                                           for s before the block: x[row] += a[row, s] * x[s, V..]
//                                           rows of the block among themselves, in order
//
// One function per shape and clone. The transposed system is the same from the last row to the
// first, with the strides of the matrix exchanged. The caller passes the far ends and negative
// strides.
#include <stdio.h>

#include "compiler/lower/host/nests.h"

enum { SOLVE_ROWS = 8, SOLVE_VECTORS = 2 };

typedef struct system {
  emitter *e;
  int64_t rows, columns;
  ir a, a_t, a_s, x, x_t;
} system;

// Rows i .. i + rows of the vectors at column j.
typedef struct panel {
  int rows, vectors, lanes[SOLVE_VECTORS];
  ir i, j;
} panel;

static ir factor_at(system *s, ir row, ir column) {
  emitter *e = s->e;
  ir offset = int_add(e, int_mul(e, row, s->a_t), int_mul(e, column, s->a_s));
  return load_real(e, element(e, e->real, s->a, offset), 0);
}

static ir x_address(system *s, const panel *p, ir row, int vector) {
  emitter *e = s->e;
  int64_t column = 0;
  for (int v = 0; v < vector; v++) column += p->lanes[v];
  ir offset = int_add(e, int_mul(e, row, s->x_t), int_add_n(e, p->j, column));
  return element(e, e->real, s->x, offset);
}

static void rows_before(system *s, const panel *p, ir sums[SOLVE_ROWS][SOLVE_VECTORS]) {
  emitter *e = s->e;
  emit_loop loop = loop_begin(e, integer(e, 0), p->i, 1, "s");
  for (int v = 0; v < p->vectors; v++) {
    ir x = load_real(e, x_address(s, p, loop.index, v), p->lanes[v]);
    for (int r = 0; r < p->rows; r++) {
      ir factor = factor_at(s, int_add_n(e, p->i, r), loop.index);
      ir sum = load_real(e, sums[r][v], p->lanes[v]);
      store_real(e, real_fma(e, factor, x, sum), sums[r][v]);
    }
  }
  loop_end(e, &loop);
}

static void one_panel(system *s, const panel *p) {
  emitter *e = s->e;
  ir sums[SOLVE_ROWS][SOLVE_VECTORS], row[SOLVE_ROWS];
  for (int r = 0; r < p->rows; r++) {
    row[r] = int_add_n(e, p->i, r);
    for (int v = 0; v < p->vectors; v++)
      sums[r][v] = real_slot(e, load_real(e, x_address(s, p, row[r], v), p->lanes[v]), "sum");
  }
  rows_before(s, p, sums);
  ir solved[SOLVE_ROWS][SOLVE_VECTORS];
  for (int r = 0; r < p->rows; r++) {
    for (int v = 0; v < p->vectors; v++) solved[r][v] = load_real(e, sums[r][v], p->lanes[v]);
    for (int before = 0; before < r; before++) {
      ir factor = factor_at(s, row[r], row[before]);
      for (int v = 0; v < p->vectors; v++)
        solved[r][v] = real_fma(e, factor, solved[before][v], solved[r][v]);
    }
    for (int v = 0; v < p->vectors; v++) store_real(e, solved[r][v], x_address(s, p, row[r], v));
  }
}

static void all_rows(system *s, panel p) {
  emitter *e = s->e;
  int64_t whole = s->rows / SOLVE_ROWS * SOLVE_ROWS;
  p.rows = SOLVE_ROWS;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), SOLVE_ROWS, "t");
    p.i = loop.index;
    one_panel(s, &p);
    loop_end(e, &loop);
  }
  if (s->rows > whole) {
    p.rows = (int)(s->rows - whole);
    p.i = integer(e, whole);
    one_panel(s, &p);
  }
}

static void system_body(system *s) {
  emitter *e = s->e;
  int64_t wide = (int64_t)SOLVE_VECTORS * e->lanes, whole = s->columns / wide * wide;
  panel p = {.vectors = SOLVE_VECTORS};
  for (int v = 0; v < p.vectors; v++) p.lanes[v] = e->lanes;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), wide, "j");
    p.j = loop.index;
    all_rows(s, p);
    loop_end(e, &loop);
  }
  p.vectors = 0;
  p.j = integer(e, whole);
  for (int64_t rest = s->columns - whole; rest > 0; rest -= e->lanes)
    p.lanes[p.vectors++] = rest < e->lanes ? (int)rest : e->lanes;
  if (p.vectors) all_rows(s, p);
}

static void call_system_function(emitter *e, int64_t rows, int64_t columns, const ir *given) {
  char name[96];
  snprintf(name, sizeof name, "rec_solve_%lldx%lld%s", (long long)rows, (long long)columns,
           clone_targets[e->clone].suffix);
  ir args[5];
  emitter inner;
  if (!emit_shared_call(e, name, given, 5, &inner, args)) return;
  system s = {&inner, rows, columns, args[0], args[1], args[2], args[3], args[4]};
  system_body(&s);
  emit_shared_end(&inner);
}

// ---- a system of the plan ----

typedef struct solve_data {
  tile_id id;
  int j;  // column axis in the lanes, or -1
  view a, x;
} solve_data;

static ir far_end(lower *l, ir base, ir stride, int64_t rows) {
  return element(l->e, l->e->real, base, int_mul_n(l->e, stride, rows - 1));
}

static void call_system(lower *l, const place_in_loops *at, void *data) {
  const solve_data *d = data;
  emitter *e = l->e;
  const tile_value *v = value(l, d->id);
  int64_t rows = known_size(l, tile_row_axis(v)), columns = d->j < 0 ? 1 : known_size(l, d->j);
  axis_set pair = axis_bit(tile_row_axis(v)) | axis_bit(tile_column_axis(v));
  axis_set lanes = d->j < 0 ? 0 : axis_bit(d->j);
  ir a = view_address(l, &d->a, at, value(l, v->args[0])->axes & ~pair);
  ir x = view_address(l, &d->x, at, v->axes & ~pair & ~lanes);
  ir a_t = d->a.stride[tile_row_axis(v)], a_s = d->a.stride[tile_column_axis(v)],
     x_t = d->x.stride[tile_row_axis(v)];
  if (tile_is_transposed(v)) {
    a = far_end(l, far_end(l, a, a_t, rows), a_s, rows);
    x = far_end(l, x, x_t, rows);
    ir minus_t = int_sub(e, integer(e, 0), a_t);
    a_t = int_sub(e, integer(e, 0), a_s);
    a_s = minus_t;
    x_t = int_sub(e, integer(e, 0), x_t);
  }
  ir args[] = {a, a_t, a_s, x, x_t};
  call_system_function(e, rows, columns, args);
}

void host_solve(lower *l, const plan_nest *nest) {
  solve_data d = {.id = nest->values.items[0], .j = nest->dot.j};
  const tile_value *v = value(l, d.id);
  d.a = lower_operand(l, nest->dot.a, nest->dot.pack_a);
  d.x = lower_buffer(l, l->p->values[d.id].buffer);
  value_copy right_side = {.from = v->args[1], .to = d.x, .axes = v->axes, .apart = -1};
  lower_points(l, plan_tile_axes(l->m, v->axes), false, lower_copy_value, &right_side);
  axis_set around = plan_tile_axes(l->m, v->axes) & ~axis_bit(tile_row_axis(v));
  if (d.j >= 0) around &= ~axis_bit(d.j);
  loop_axes outer = lower_by_rank(l, around);
  place_in_loops at = lower_start_place(l, false);
  lower_loops_over(l, &outer, 0, &at, call_system, &d);
}
