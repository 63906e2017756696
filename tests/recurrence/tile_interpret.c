// The interpreter of tile values: each operation as the plainest loops that mean it.
#include "tests/recurrence/tile_interpret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/ice.h"

enum { MAX_OPERANDS = 4 };

// A walk over the product of some axes, the last axis fastest, with a position in each of several
// arrays.
typedef struct walk {
  int axis_count;
  int64_t size[64], index[64];
  int64_t stride[MAX_OPERANDS][64];
  int64_t at[MAX_OPERANDS];
  int axis[64];
  bool done;
} walk;

int64_t tile_machine_stride(const tile_machine *m, tile_id id, int axis) {
  axis_set axes = m->program->values.items[id].axes;
  if (!axis_in(axes, axis)) return 0;
  int64_t stride = 1;
  for (int i = m->program->axes.count - 1; i > axis; i--)
    if (axis_in(axes, i)) stride *= m->sizes[i];
  return stride;
}

static walk walk_over(const tile_machine *m, axis_set axes) {
  walk w = {.axis_count = 0};
  for (int i = 0; i < m->program->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    w.axis[w.axis_count] = i;
    w.size[w.axis_count++] = m->sizes[i];
    if (m->sizes[i] == 0) w.done = true;
  }
  return w;
}

static void walk_follow(walk *w, const tile_machine *m, int slot, tile_id id) {
  for (int i = 0; i < w->axis_count; i++)
    w->stride[slot][i] = tile_machine_stride(m, id, w->axis[i]);
}

static void walk_next(walk *w) {
  for (int i = w->axis_count - 1; i >= 0; i--) {
    w->index[i]++;
    for (int k = 0; k < MAX_OPERANDS; k++) w->at[k] += w->stride[k][i];
    if (w->index[i] < w->size[i]) return;
    for (int k = 0; k < MAX_OPERANDS; k++) w->at[k] -= w->stride[k][i] * w->size[i];
    w->index[i] = 0;
  }
  w->done = true;
}

static int64_t index_of(const walk *w, int axis) {
  for (int i = 0; i < w->axis_count; i++)
    if (w->axis[i] == axis) return w->index[i];
  return 0;
}

// ---- operations ------------------------------------------------------------------------------

static void run_elementwise(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  int arity = tile_arity(v->op);
  value_function *function = tile_function_of(v->op);
  walk w = walk_over(m, v->axes);
  walk_follow(&w, m, 3, id);
  for (int k = 0; k < arity; k++) walk_follow(&w, m, k, v->args[k]);
  for (; !w.done; walk_next(&w)) {
    double args[3] = {0, 0, 0};
    for (int k = 0; k < arity; k++) args[k] = m->data[v->args[k]][w.at[k]];
    m->data[id][w.at[3]] = function(args);
  }
}

static void run_leaf(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  double *out = m->data[id];
  switch (v->op) {
    case TILE_NUMBER: out[0] = v->number; break;
    case TILE_AXIS_SIZE: out[0] = (double)m->sizes[tile_index_axis(v)]; break;
    case TILE_INDEX:
      for (int64_t i = 0; i < m->count[id]; i++) out[i] = (double)i;
      break;
    case TILE_VALID:
      for (int64_t i = 0; i < m->count[id]; i++) out[i] = i < m->valid;
      break;
    case TILE_AT_END:
      for (int64_t i = 0; i < m->count[id]; i++)
        out[i] = i == m->valid - 1 - tile_steps_before_end(v);
      break;
    case TILE_LENGTH: out[0] = (double)m->valid; break;
    case TILE_CAUSAL: {
      walk w = walk_over(m, v->axes);
      walk_follow(&w, m, 0, id);
      for (; !w.done; walk_next(&w)) {
        int64_t t = index_of(&w, tile_step_axis(v)), s = index_of(&w, tile_other_step_axis(v));
        out[w.at[0]] = tile_is_exclusive(v) ? t > s : t >= s;
      }
      break;
    }
    default: break;  // arguments are loaded from outside
  }
}

static void run_reduction(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  double start = v->op == TILE_MAX_OVER ? -INFINITY : v->op == TILE_MIN_OVER ? INFINITY : 0;
  for (int64_t i = 0; i < m->count[id]; i++) m->data[id][i] = start;
  int arity = tile_arity(v->op);
  axis_set all = 0;
  for (int k = 0; k < arity; k++) all |= m->program->values.items[v->args[k]].axes;
  walk w = walk_over(m, all);
  walk_follow(&w, m, 3, id);
  for (int k = 0; k < arity; k++) walk_follow(&w, m, k, v->args[k]);
  for (; !w.done; walk_next(&w)) {
    double x = m->data[v->args[0]][w.at[0]], *out = &m->data[id][w.at[3]];
    switch (v->op) {
      case TILE_SUM: *out += x; break;
      case TILE_DOT: *out += x * m->data[v->args[1]][w.at[1]]; break;
      case TILE_MAX_OVER: *out = x > *out ? x : *out; break;
      default: *out = x < *out ? x : *out; break;
    }
  }
}

// For every position of the other axes 1 at the first extreme entry over `over`.
static void run_first_extreme(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  double sign = v->op == TILE_FIRST_MAX ? 1 : -1;
  walk outer = walk_over(m, v->axes & ~v->over);
  walk_follow(&outer, m, 0, v->args[0]);
  walk_follow(&outer, m, 3, id);
  for (; !outer.done; walk_next(&outer)) {
    walk w = walk_over(m, v->over);
    walk_follow(&w, m, 0, v->args[0]);
    walk_follow(&w, m, 3, id);
    double best = -INFINITY, *first = NULL;
    for (; !w.done; walk_next(&w)) {
      double x = sign * m->data[v->args[0]][outer.at[0] + w.at[0]],
             *to = &m->data[id][outer.at[3] + w.at[3]];
      *to = 0;
      if (first && !(x > best)) continue;
      best = x;
      first = to;
    }
    *first = 1;
  }
}

static void walk_set_stride(walk *w, int slot, int axis, int64_t stride) {
  for (int i = 0; i < w->axis_count; i++)
    if (w->axis[i] == axis) w->stride[slot][i] = stride;
}

// EXPAND, RENAME, SLICE, PLACE, SPLIT, JOIN: an element of the result is one of the operand, or 0.
static void run_axis_op(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  if (v->op == TILE_PLACE) memset(m->data[id], 0, (size_t)m->count[id] * sizeof(double));
  axis_set operand = m->program->values.items[v->args[0]].axes;
  bool by_operand = v->op == TILE_PLACE || v->op == TILE_JOIN;
  walk w = walk_over(m, by_operand ? operand : v->axes);
  walk_follow(&w, m, 0, v->args[0]);
  walk_follow(&w, m, 3, id);
  int64_t from = 0, to = 0;
  if (v->op == TILE_SLICE)
    from = tile_entry(v) * tile_machine_stride(m, v->args[0], tile_entry_axis(v));
  if (v->op == TILE_PLACE) to = tile_entry(v) * tile_machine_stride(m, id, tile_entry_axis(v));
  if (v->op == TILE_RENAME) {
    walk_set_stride(&w, 0, tile_renamed_to(v),
                    tile_machine_stride(m, v->args[0], tile_renamed_from(v)));
  }
  if (v->op == TILE_SPLIT || v->op == TILE_JOIN) {
    bool split = v->op == TILE_SPLIT;
    int64_t stride = tile_machine_stride(m, split ? v->args[0] : id, tile_whole_axis(v));
    walk_set_stride(&w, split ? 0 : 3, tile_outer_axis(v), stride * m->sizes[tile_inner_axis(v)]);
    walk_set_stride(&w, split ? 0 : 3, tile_inner_axis(v), stride);
  }
  for (; !w.done; walk_next(&w)) m->data[id][w.at[3] + to] = m->data[v->args[0]][w.at[0] + from];
}

static void run_shift(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  int64_t size = m->sizes[tile_shift_axis(v)],
          stride = tile_machine_stride(m, id, tile_shift_axis(v));
  walk w = walk_over(m, v->axes & ~axis_bit(tile_shift_axis(v)));
  walk_follow(&w, m, 0, id);
  walk_follow(&w, m, 1, v->args[0]);
  for (; !w.done; walk_next(&w)) {
    for (int64_t i = 0; i < size; i++) {
      int64_t from = i - tile_shift_distance(v);
      bool inside = from >= 0 && from < size;
      m->data[id][w.at[0] + i * stride] = inside ? m->data[v->args[0]][w.at[1] + from * stride] : 0;
    }
  }
}

// Rows in order, or from the last to the first for the transposed system.
static void run_solve(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  tile_id matrix = v->args[0], r = v->args[1];
  int64_t size = m->sizes[tile_row_axis(v)], stride = tile_machine_stride(m, id, tile_row_axis(v));
  int64_t r_stride = tile_machine_stride(m, r, tile_row_axis(v));
  int64_t first = tile_machine_stride(m, matrix, tile_row_axis(v));
  int64_t second = tile_machine_stride(m, matrix, tile_column_axis(v));
  walk w = walk_over(m, v->axes & ~axis_bit(tile_row_axis(v)));
  walk_follow(&w, m, 0, matrix);
  walk_follow(&w, m, 1, r);
  walk_follow(&w, m, 3, id);
  for (; !w.done; walk_next(&w)) {
    const double *a = m->data[matrix] + w.at[0];
    double *x = m->data[id] + w.at[3];
    for (int64_t i = 0; i < size; i++) {
      int64_t row = tile_is_transposed(v) ? size - 1 - i : i;
      double sum = m->data[r][w.at[1] + row * r_stride];
      for (int64_t k = 0; k < i; k++) {
        int64_t other = tile_is_transposed(v) ? size - 1 - k : k;
        double factor = tile_is_transposed(v) ? a[other * first + row * second]
                                              : a[row * first + other * second];
        sum += factor * x[other * stride];
      }
      x[row * stride] = sum;
    }
  }
}

// The number of an operand at a place of the walk, `step` steps on; operands may lack the axis.
static double scanned(const tile_machine *m, const walk *w, int k, tile_id x, int axis,
                      int64_t step) {
  bool has = axis_in(m->program->values.items[x].axes, axis);
  return m->data[x][w->at[k] + (has ? step * tile_machine_stride(m, x, axis) : 0)];
}

// Entry `row` of a scan of several parts: what its factors make of all parts of the step before.
static double joint_row(const tile_machine *m, const walk *w, tile_id factor, const double *h,
                        const tile_value *v, int64_t step, int64_t row) {
  walk at = *w;
  double sum = 0;
  at.at[0] += row * tile_machine_stride(m, factor, tile_part_axis(v));
  for (int64_t k = 0; k < m->sizes[tile_part_axis(v)]; k++) {
    sum += scanned(m, &at, 0, factor, tile_step_axis(v), step) * h[k];
    at.at[0] += tile_machine_stride(m, factor, tile_from_axis(v));
  }
  return sum;
}

static void run_joint_step(tile_machine *m, walk w, tile_id id, double *h, int64_t step) {
  const tile_value *v = &m->program->values.items[id];
  double next[TILE_PARTS_MAX];
  int part = tile_part_axis(v), t = tile_step_axis(v);
  bool each = axis_in(m->program->values.items[v->args[1]].axes, part);
  int64_t of_added = each ? tile_machine_stride(m, v->args[1], part) : 0;
  for (int64_t i = 0; i < m->sizes[part]; i++) {
    next[i] = joint_row(m, &w, v->args[0], h, v, step, i) + scanned(m, &w, 1, v->args[1], t, step);
    w.at[1] += of_added;
    m->data[id][w.at[3] + step * tile_machine_stride(m, id, t) +
                i * tile_machine_stride(m, id, part)] = next[i];
  }
  memcpy(h, next, sizeof *h * (size_t)m->sizes[part]);
}

static void run_scan(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  int t = tile_step_axis(v);
  bool pairs = v->op == TILE_SCAN_PAIR;
  int64_t size = t == m->program->time_axis ? m->valid : m->sizes[t];
  int64_t stride = tile_machine_stride(m, id, t), part = 0, of_factor = 0;
  memset(m->data[id], 0, sizeof(double) * (size_t)m->count[id]);
  if (pairs) part = tile_machine_stride(m, id, tile_part_axis(v));
  if (pairs) of_factor = tile_machine_stride(m, v->args[0], tile_part_axis(v));
  walk w = walk_over(m, v->axes & ~tile_scan_axes(v));
  for (int k = 0; k < tile_arity(v->op); k++) walk_follow(&w, m, k, v->args[k]);
  walk_follow(&w, m, 3, id);
  for (; !w.done; walk_next(&w)) {
    double re = 0, im = 0, h[TILE_PARTS_MAX] = {0};
    for (int64_t i = 0; i < size; i++) {
      int64_t step = tile_is_from_end(v) ? size - 1 - i : i;
      if (v->op == TILE_SCAN_JOINT) {
        run_joint_step(m, w, id, h, step);
        continue;
      }
      double a = scanned(m, &w, 0, v->args[0], t, step), b = 0;
      double x = scanned(m, &w, 1, v->args[1], t, step), y = 0;
      if (pairs) {
        y = scanned(m, &w, 2, v->args[2], t, step);
        w.at[0] += of_factor;
        b = scanned(m, &w, 0, v->args[0], t, step);
        w.at[0] -= of_factor;
      }
      double next = a * re - b * im + x;
      im = a * im + b * re + y;
      re = next;
      m->data[id][w.at[3] + step * stride] = re;
      if (pairs) m->data[id][w.at[3] + step * stride + part] = im;
    }
  }
}

static void run_prefix(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  int t = tile_step_axis(v);
  bool exclusive = tile_is_exclusive(v), reverse = tile_is_from_end(v);
  bool product = v->op == TILE_RUNNING_PRODUCT;
  int64_t steps = m->sizes[t], stride = tile_machine_stride(m, id, t);
  walk w = walk_over(m, v->axes & ~axis_bit(t));
  walk_follow(&w, m, 0, id);
  for (; !w.done; walk_next(&w)) {
    double before = product;
    for (int64_t i = 0; i < steps; i++) {
      int64_t at = w.at[0] + (reverse ? steps - 1 - i : i) * stride;
      double x = m->data[v->args[0]][at], after = product ? before * x : before + x;
      m->data[id][at] = exclusive ? before : after;
      before = after;
    }
  }
}

// The steps j of a pair: s < j <= t, or s < j < t.
static void run_segment(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  int t_axis = tile_step_axis(v), s_axis = tile_other_step_axis(v);
  bool adjoint = v->op == TILE_SEGMENT_ADJOINT;
  tile_id pairs = adjoint ? v->args[0] : id, steps = adjoint ? id : v->args[0];
  int64_t size = m->sizes[t_axis];
  int64_t pair_t = tile_machine_stride(m, pairs, t_axis);
  int64_t pair_s = tile_machine_stride(m, pairs, s_axis);
  int64_t step_t = tile_machine_stride(m, steps, t_axis);
  memset(m->data[id], 0, (size_t)m->count[id] * sizeof(double));
  axis_set both = axis_bit(t_axis) | axis_bit(s_axis);
  walk w = walk_over(m, m->program->values.items[pairs].axes & ~both);
  walk_follow(&w, m, 0, pairs);
  walk_follow(&w, m, 1, steps);
  for (; !w.done; walk_next(&w)) {
    for (int64_t s = 0; s < size; s++) {
      for (int64_t t = s + 1; t < size; t++) {
        int64_t last = tile_is_exclusive(v) ? t - 1 : t;
        double *pair = &m->data[pairs][w.at[0] + t * pair_t + s * pair_s];
        for (int64_t j = s + 1; j <= last; j++) {
          double *step = &m->data[steps][w.at[1] + j * step_t];
          *(adjoint ? step : pair) += *(adjoint ? pair : step);
        }
      }
    }
  }
}

static void run_accumulate(tile_machine *m, tile_id id) {
  const double *x = m->data[m->program->values.items[id].args[0]];
  for (int64_t i = 0; i < m->count[id]; i++) m->data[id][i] += x[i];
}

static void run_value(tile_machine *m, tile_id id) {
  const tile_value *v = &m->program->values.items[id];
  if (tile_arity(v->op) == 0) {
    run_leaf(m, id);
  } else if (tile_elementwise(v->op)) {
    run_elementwise(m, id);
  } else {
    switch (v->op) {
      case TILE_SUM:
      case TILE_DOT:
      case TILE_MAX_OVER:
      case TILE_MIN_OVER: run_reduction(m, id); break;
      case TILE_FIRST_MAX:
      case TILE_FIRST_MIN: run_first_extreme(m, id); break;
      case TILE_PREFIX:
      case TILE_RUNNING_PRODUCT: run_prefix(m, id); break;
      case TILE_SCAN:
      case TILE_SCAN_PAIR:
      case TILE_SCAN_JOINT: run_scan(m, id); break;
      case TILE_SEGMENT:
      case TILE_SEGMENT_ADJOINT: run_segment(m, id); break;
      case TILE_SHIFT: run_shift(m, id); break;
      case TILE_SOLVE: run_solve(m, id); break;
      default: run_axis_op(m, id); break;
    }
  }
}

// ---- machines --------------------------------------------------------------------------------

bool tile_machine_new(arena *a, tile_machine *m, const tile_program *program,
                      const int64_t *axis_sizes) {
  *m = (tile_machine){.program = program};
  for (int i = 0; i < program->axes.count; i++) {
    const tile_axis *axis = &program->axes.items[i];
    m->sizes[i] = axis->body_axis >= 0 ? axis_sizes[axis->body_axis] : axis->size;
  }
  m->data = ARENA_ARRAY(a, double *, program->values.count);
  m->count = ARENA_ARRAY(a, int64_t, program->values.count);
  m->sections = tile_sections(a, program);
  for (int i = 0; i < program->values.count; i++) {
    m->count[i] = 1;
    for (int k = 0; k < program->axes.count; k++)
      if (axis_in(program->values.items[i].axes, k)) m->count[i] *= m->sizes[k];
    m->data[i] = calloc((size_t)m->count[i] + 1, sizeof(double));
    if (!m->data[i]) return false;
  }
  return true;
}

void tile_machine_free(tile_machine *m) {
  for (int i = 0; m->data && i < m->program->values.count; i++) free(m->data[i]);
}

void tile_machine_reset(tile_machine *m) {
  for (int i = 0; i < m->program->values.count; i++) {
    if (m->program->values.items[i].op != TILE_ACCUMULATE) continue;
    memset(m->data[i], 0, (size_t)m->count[i] * sizeof(double));
  }
}

void tile_machine_run(tile_machine *m, tile_section section) {
  for (int i = 0; i < m->program->values.count; i++) {
    bool adds = m->program->values.items[i].op == TILE_ACCUMULATE;
    if (adds && section == TILE_BODY) run_accumulate(m, i);
    if (!adds && m->sections[i] == section) run_value(m, i);
  }
}
