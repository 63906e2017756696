// Folds the summary of a segment into states, and combines two summaries.
//
//   fold:     states after a segment = transfer * states before + own
//   combine:  own = transfer of the later * own of the earlier + own of the later; transfer = product of both
//
// A combination is a fold, too: of what the earlier segment makes of zero states, and of its
// transfer column by column.
#include <math.h>
#include <string.h>

#include "runtime/support/segment.h"

static int64_t folded_at(const fold *f, int part) {
  return f->block < 0 ? segment_part_at(f->call, f->of, part)
                      : segment_columns_at(f->call, f->of, part, f->block);
}

int64_t segment_instances(const call *c) {
  int64_t instances = segment_entries(c);
  for (int axis = 0; axis < c->table->axis_count; axis++)
    if (c->table->segment_instances >> axis & 1) instances *= c->axis_size[axis];
  return instances;
}

rec_status segment_find_instances(const call *c, int64_t all, int64_t *first, int64_t *last) {
  *first = c->first_instance;
  *last = c->instance_count ? *first + c->instance_count : all;
  if (*first >= 0 && c->instance_count >= 0 && *first <= all && c->instance_count <= all - *first)
    return REC_OK;
  return call_fail(c, REC_ERROR_ARGUMENT,
                   "expected instances within 0 to %lld, found %lld from %lld on",
                   (long long)all - 1, (long long)c->instance_count, (long long)c->first_instance);
}

// ---- rows: the entries of a state along its last axis -----------------------------------------

enum { MOST_AXES = REC_AXES_MAX + 1 };

static const int32_t *axes_of(const call *c, const rec_table_memory *memory) {
  return table_at(c->table, memory->axes_at);
}

static bool is_instance_axis(const call *c, int axis) {
  return c->table->segment_instances >> axis & 1;
}

// The number of an axis of the row; -1: a row is a single entry.
static int row_axis(const call *c, const rec_table_memory *state) {
  int last = state->axis_count - 1;
  return last < 0 || is_instance_axis(c, axes_of(c, state)[last]) ? -1 : axes_of(c, state)[last];
}

static int64_t row_length(const call *c, const rec_table_memory *state) {
  int axis = row_axis(c, state);
  return axis < 0 ? 1 : c->axis_size[axis];
}

// Numbers between the entries of a memory along each axis, 0 along those that it lacks. Returns its
// numbers, those of one entry of the call.
static int64_t find_strides(const call *c, const rec_table_memory *memory,
                            int64_t strides[REC_AXES_MAX]) {
  const int32_t *axes = axes_of(c, memory);
  int64_t stride = memory->factor;
  memset(strides, 0, REC_AXES_MAX * sizeof *strides);
  for (int k = memory->axis_count - 1; k >= 0; k--) {
    strides[axes[k]] = stride;
    stride *= c->axis_size[axes[k]];
  }
  return stride;
}

// Where the row of a state begins in another memory, which has some of its axes, in any order, in
// numbers. *step: numbers between its entries along the row, 0 if it lacks the axis.
static int64_t row_in(const call *c, const rec_table_memory *state, const rec_table_memory *other,
                      int64_t row, int64_t *step) {
  const int32_t *axes = axes_of(c, state);
  int64_t strides[REC_AXES_MAX], at = 0, all = find_strides(c, other, strides);
  int last = row_axis(c, state);
  *step = last < 0 ? 0 : strides[last];
  for (int i = state->axis_count - 1; i >= 0; i--) {
    if (axes[i] == last) continue;
    int64_t size = c->axis_size[axes[i]];
    at += row % size * strides[axes[i]];
    row /= size;
  }
  return at + row * all;
}

// ---- one row ---------------------------------------------------------------------------------

// A row of something along the row of a state.
typedef struct operand {
  const char *data;  // NULL: zeros
  int64_t step;
} operand;

#define DEFINE_ADD_SCALED(name, number)                                               \
  static void name(void *to, operand by, operand from, int64_t count, bool complex) { \
    number *y = to;                                                                   \
    const number *f = (const void *)by.data, *x = (const void *)from.data;            \
    if (complex) {                                                                    \
      for (int64_t k = 0; k < count; k++, f += by.step, x += from.step) {             \
        y[2 * k] += f[0] * x[0] - f[1] * x[1];                                        \
        y[2 * k + 1] += f[0] * x[1] + f[1] * x[0];                                    \
      }                                                                               \
    } else if (by.step == 0 && from.step == 1) {                                      \
      for (int64_t k = 0; k < count; k++) y[k] += f[0] * x[k];                        \
    } else {                                                                          \
      for (int64_t k = 0; k < count; k++) y[k] += f[k * by.step] * x[k * from.step];  \
    }                                                                                 \
  }
DEFINE_ADD_SCALED(add_scaled_floats, float)
DEFINE_ADD_SCALED(add_scaled_doubles, double)

static double operand_number(const call *c, operand x, int64_t k) {
  if (!x.data) return 0;
  int64_t at = k * x.step;
  return c->table->number_bytes == 8 ? ((const double *)(const void *)x.data)[at]
                                     : (double)((const float *)(const void *)x.data)[at];
}

static void set_number(const call *c, char *to, int64_t k, double number) {
  if (c->table->number_bytes == 8)
    ((double *)(void *)to)[k] = number;
  else
    ((float *)(void *)to)[k] = (float)number;
}

static const char *part_data(const fold *f, int part) {
  return f->summary + segment_part_at(f->call, f->of, part);
}

static operand operand_at(const fold *f, const rec_table_memory *state, int memory,
                          const char *data, int64_t row) {
  operand x = {.data = data};
  int64_t at = row_in(f->call, state, table_memory(f->call->table, memory), row, &x.step);
  if (data) x.data += at * f->call->table->number_bytes;
  return x;
}

// The sum of logarithms of a state; none: 0.
static operand logarithm_of(const fold *f, const rec_table_memory *state, int of_state,
                            int64_t row) {
  for (int i = 0; i < f->of->part_count; i++) {
    const rec_table_part *part = segment_part(f->call, f->of, i);
    if (part->kind == REC_PART_LOGARITHM && part->state == of_state)
      return operand_at(f, state, part->memory, part_data(f, i), row);
  }
  return (operand){0};
}

// d = F + m - M:   m' = max(F + m, M),   s' = exp(min(0, d) + D) s + exp(min(0, -d)) own
static void join_relative(const fold *f, int part, const rec_table_memory *state, int64_t row,
                          int64_t length) {
  const call *c = f->call;
  const rec_table_part *own = segment_part(c, f->of, part);
  int maximum = segment_own_part(c, f->of, own->maximum),
      memory = segment_part(c, f->of, maximum)->memory;
  operand m = operand_at(f, state, memory, f->before + folded_at(f, maximum), row);
  operand largest = operand_at(f, state, memory, part_data(f, maximum), row);
  operand shift = logarithm_of(f, state, own->maximum, row),
          sum = logarithm_of(f, state, own->state, row);
  operand before = operand_at(f, state, own->memory, f->before + folded_at(f, part), row);
  operand mine = operand_at(f, state, own->memory, part_data(f, part), row);
  char *to = f->after + folded_at(f, part) + row * length * c->table->number_bytes;
  bool is_maximum = own->maximum == own->state;
  double keeps = 0, writes = 0;
  bool alike = !(m.step | largest.step | shift.step | sum.step);
  for (int64_t k = 0; k < length; k++) {
    double shifted = operand_number(c, m, k) + operand_number(c, shift, k),
           top = operand_number(c, largest, k);
    if (!is_maximum && (k == 0 || !alike)) {
      keeps = exp(fmin(0, shifted - top) + operand_number(c, sum, k));
      writes = exp(fmin(0, top - shifted));
    }
    double joined = keeps * operand_number(c, before, k) + writes * operand_number(c, mine, k);
    set_number(c, to, k, is_maximum ? fmax(shifted, top) : joined);
  }
}

// own + the sum of factor * source
static void join_factors(const fold *f, int part, const rec_table_memory *state, int64_t row,
                         int64_t length) {
  const call *c = f->call;
  const rec_table_part *own = segment_part(c, f->of, part);
  int64_t bytes = length * state->factor * c->table->number_bytes;
  char *to = f->after + folded_at(f, part) + row * bytes;
  memcpy(to, part_data(f, part) + row * bytes, (size_t)bytes);
  for (int i = 0; i < f->of->part_count; i++) {
    const rec_table_part *factor = segment_part(c, f->of, i);
    if (factor->kind != REC_PART_FACTOR || factor->state != own->state) continue;
    operand by = operand_at(f, state, factor->memory, part_data(f, i), row);
    int source = segment_own_part(c, f->of, factor->source);
    operand from = operand_at(f, state, segment_part(c, f->of, source)->memory,
                              f->before + folded_at(f, source), row);
    (c->table->number_bytes == 8 ? add_scaled_doubles : add_scaled_floats)(to, by, from, length,
                                                                           state->factor == 2);
  }
}

// ---- matrices --------------------------------------------------------------------------------

// Axes of a state that are counted through, the last one innermost.
typedef struct counter {
  int count;
  int64_t size[MOST_AXES], stride[MOST_AXES];
} counter;

static int64_t counted(const counter *x) {
  int64_t all = 1;
  for (int i = 0; i < x->count; i++) all *= x->size[i];
  return all;
}

static int64_t counter_at(const counter *x, int64_t index) {
  int64_t at = 0;
  for (int i = x->count - 1; i >= 0; i--) {
    at += index % x->size[i] * x->stride[i];
    index /= x->size[i];
  }
  return at;
}

// The numbers of a state as a matrix: of the instances of its matrices, rows, and the stride along
// the value axis.
typedef struct matrix_side {
  counter instances, rows;
  int64_t value_stride;
} matrix_side;

static void count_axis(counter *x, int64_t size, int64_t stride) {
  x->size[x->count] = size;
  x->stride[x->count++] = stride;
}

// Instances of matrices are counted alike for all states: first along the axes that all states
// begin with.
static matrix_side matrix_side_of(const call *c, const rec_table_summary *of, int memory) {
  const rec_table_memory *m = table_memory(c->table, memory);
  const int32_t *axes = axes_of(c, m);
  matrix_side x = {0};
  int64_t strides[REC_AXES_MAX], all = find_strides(c, m, strides);
  x.value_stride = strides[of->value_axis];
  count_axis(&x.instances, segment_entries(c), all);
  for (int k = 0; k < m->axis_count; k++) {
    int64_t size = c->axis_size[axes[k]];
    if (is_instance_axis(c, axes[k]))
      count_axis(&x.instances, size, strides[axes[k]]);
    else if (axes[k] != of->value_axis && !(of->instance_axes >> axes[k] & 1))
      count_axis(&x.rows, size, strides[axes[k]]);
  }
  for (int axis = 0; axis < c->table->axis_count; axis++)
    if ((of->instance_axes >> axis & 1) && !is_instance_axis(c, axis))
      count_axis(&x.instances, c->axis_size[axis], strides[axis]);
  count_axis(&x.rows, m->factor, 1);
  return x;
}

#define DEFINE_ADD_COLUMN(name, number)                                               \
  static void name(void *to, int64_t to_stride, const void *by, const void *from,     \
                   int64_t from_stride, int64_t count) {                              \
    number *y = to;                                                                   \
    const number *x = from, f = *(const number *)by;                                  \
    if (to_stride == 1 && from_stride == 1) {                                         \
      for (int64_t k = 0; k < count; k++) y[k] += f * x[k];                           \
    } else {                                                                          \
      for (int64_t k = 0; k < count; k++) y[k * to_stride] += f * x[k * from_stride]; \
    }                                                                                 \
  }
DEFINE_ADD_COLUMN(add_column_floats, float)
DEFINE_ADD_COLUMN(add_column_doubles, double)

// after += matrix * before, of the states `part` after and `from` before, in one instance.
static void multiply_instance(const fold *f, int part, const matrix_side *rows, int64_t row_base,
                              int from, const matrix_side *cols, int64_t col_base) {
  const call *c = f->call;
  int64_t bytes = c->table->number_bytes, entries = c->axis_size[f->of->value_axis];
  int64_t first = segment_first_column(c, f->of, from), count = counted(&cols->rows),
          height = counted(&rows->rows);
  char *after = f->after + folded_at(f, part);
  const char *before = f->before + folded_at(f, from);
  for (int64_t r = 0; r < height; r++) {
    int64_t to = row_base + counter_at(&rows->rows, r);
    for (int64_t k = 0; k < count; k++) {
      int64_t column = first + k, block = segment_columns_at(c, f->of, part, column / entries);
      const char *by = f->summary + block + (to + column % entries * rows->value_stride) * bytes;
      int64_t at = col_base + counter_at(&cols->rows, k);
      (bytes == 8 ? add_column_doubles : add_column_floats)(after + to * bytes, rows->value_stride,
                                                            by, before + at * bytes,
                                                            cols->value_stride, entries);
    }
  }
}

static void multiply(const fold *f, int part, int from) {
  const call *c = f->call;
  matrix_side rows = matrix_side_of(c, f->of, segment_part(c, f->of, part)->memory);
  matrix_side cols = matrix_side_of(c, f->of, segment_part(c, f->of, from)->memory);
  // all states begin with the axes of instances
  int64_t matrices = counted(&rows.instances) / f->all;
  for (int64_t i = f->first * matrices; i < f->last * matrices; i++)
    multiply_instance(f, part, &rows, counter_at(&rows.instances, i), from, &cols,
                      counter_at(&cols.instances, i));
}

// ---- one segment -----------------------------------------------------------------------------

static void multiply_columns(const fold *f, int part) {
  for (int i = 0; i < f->of->part_count; i++)
    if (segment_part(f->call, f->of, i)->columns) multiply(f, part, i);
}

static void fold_part(const fold *f, int part) {
  const call *c = f->call;
  const rec_table_part *own = segment_part(c, f->of, part);
  const rec_table_memory *state = table_memory(c->table, own->memory);
  int64_t length = row_length(c, state);
  // of an instance
  int64_t rows = segment_numbers(c, own->memory) / state->factor / length / f->all;
  for (int64_t row = f->first * rows; row < f->last * rows; row++)
    (own->maximum >= 0 ? join_relative : join_factors)(f, part, state, row, length);
  if (own->columns) multiply_columns(f, part);
}

void fold_segment(const fold *f) {
  for (int i = 0; i < f->of->part_count; i++)
    if (segment_part(f->call, f->of, i)->kind == REC_PART_OWN) fold_part(f, i);
}

// ---- two segments as one -----------------------------------------------------------------------

// The part of this kind of a state, in itself or in `source`; -1: there is none.
static int find_part(const fold *f, int kind, int state, int source) {
  for (int i = 0; i < f->of->part_count; i++) {
    const rec_table_part *part = segment_part(f->call, f->of, i);
    if (part->kind == kind && part->state == state && part->source == source) return i;
  }
  return -1;
}

static void add_logarithms(const fold *f, int part) {
  const call *c = f->call;
  int64_t numbers = segment_numbers(c, segment_part(c, f->of, part)->memory),
          at = segment_part_at(c, f->of, part);
  operand x = {f->before + at, 1}, y = {f->summary + at, 1};
  for (int64_t k = 0; k < numbers; k++)
    set_number(c, f->after + at, k, operand_number(c, x, k) + operand_number(c, y, k));
}

// The factor of `source` in a state: by way of every state.
static void multiply_factors(const fold *f, int part) {
  const call *c = f->call;
  const rec_table_part *made = segment_part(c, f->of, part);
  const rec_table_memory *memory = table_memory(c->table, made->memory);
  int64_t numbers = segment_numbers(c, made->memory), at = segment_part_at(c, f->of, part);
  int64_t length = row_length(c, memory), rows = numbers / memory->factor / larger(1, length);
  memset(f->after + at, 0, (size_t)(numbers * c->table->number_bytes));
  for (int i = 0; i < f->of->part_count; i++) {
    const rec_table_part *later = segment_part(c, f->of, i);
    if (later->kind != REC_PART_FACTOR || later->state != made->state) continue;
    int earlier = find_part(f, REC_PART_FACTOR, later->source, made->source);
    if (earlier < 0) continue;
    for (int64_t row = 0; row < rows; row++) {
      operand by = operand_at(f, memory, later->memory, part_data(f, i), row);
      operand from = operand_at(f, memory, segment_part(c, f->of, earlier)->memory,
                                f->before + segment_part_at(c, f->of, earlier), row);
      char *to = f->after + at + row * length * memory->factor * c->table->number_bytes;
      (c->table->number_bytes == 8 ? add_scaled_doubles : add_scaled_floats)(to, by, from, length,
                                                                             memory->factor == 2);
    }
  }
}

static void multiply_matrices(fold *f) {
  const call *c = f->call;
  for (f->block = 0; f->block < segment_blocks(c, f->of); f->block++) {
    for (int i = 0; i < f->of->part_count; i++) {
      const rec_table_part *part = segment_part(c, f->of, i);
      if (!part->columns) continue;
      memset(f->after + folded_at(f, i), 0,
             (size_t)(segment_numbers(c, part->memory) * c->table->number_bytes));
      multiply_columns(f, i);
    }
  }
  f->block = -1;
}

void fold_summaries(fold *f) {
  fold_segment(f);
  for (int i = 0; i < f->of->part_count; i++) {
    int kind = segment_part(f->call, f->of, i)->kind;
    if (kind == REC_PART_FACTOR) multiply_factors(f, i);
    if (kind == REC_PART_LOGARITHM) add_logarithms(f, i);
  }
  multiply_matrices(f);
}

// ---- slices of a call ------------------------------------------------------------------------

void segment_states_before(const call *c, bool back, char *states) {
  const rec_table_summary *of = segment_of(c, back);
  for (int i = 0; i < of->part_count; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind != REC_PART_OWN) continue;
    const void *before = call_data(c, table_memory(c->table, part->state));
    size_t bytes = (size_t)(segment_numbers(c, part->memory) * c->table->number_bytes);
    char *to = states + segment_part_at(c, of, i);
    before ? memcpy(to, before, bytes) : memset(to, 0, bytes);
  }
}

void segment_states_after(const call *c, bool back, const char *summary, const char *before,
                          char *after) {
  int64_t all = segment_instances(c);
  fold_segment(&(fold){c, segment_of(c, back), summary, before, after, -1, 0, all, all});
}
