// Folds summaries of segments into states, and combines them: NAME_fold, NAME_combine.
//
//   fold:     states after a segment = transfer * states before + own, segment after segment (backward from the last)
//   combine:  own = transfer of the later * own of the earlier + own of the later; transfer = product of both
//
// A combination is a fold, too: of what the earlier segment makes of zero states, and of its
// transfer column by column.
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/support/begin.h"
#include "runtime/support/gpu.h"
#include "runtime/support/segment.h"

// A fold of one segment. States lie as in a summary: as its parts, or as a block of its columns.
typedef struct fold {
  const call *call;
  const rec_table_summary *of;
  const char *summary;
  const char *before;
  char *after;
  int64_t block;        // of columns; -1: parts
  int64_t first, last;  // instances
  int64_t all;          // instances of the call
} fold;

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

static void fold_segment(const fold *f) {
  for (int i = 0; i < f->of->part_count; i++)
    if (segment_part(f->call, f->of, i)->kind == REC_PART_OWN) fold_part(f, i);
}

// ---- calls -----------------------------------------------------------------------------------

typedef struct folding {
  const call *call;
  const rec_segments *segments;
  bool back;
  char *states[2];
  int64_t first, last, all;  // instances
  int64_t blocks;            // of instances
  _Atomic int64_t next;      // block
} folding;

static const void *summary_in_order(const rec_segments *segments, int64_t number) {
  return segments->summaries[segments->backward ? segments->count - 1 - number : number];
}

int64_t segment_fold_workspace(const call *c) {
  int64_t bytes = 0;
  for (int back = 0; back < 2; back++) bytes = larger(bytes, segment_bytes(c, back));
  return 2 * bytes;
}

// Copies the states of instances between a caller's memory and the states of a fold; `from` NULL:
// zeros.
static void copy_folded(const folding *x, int part, char *to, const char *from) {
  const call *c = x->call;
  int64_t bytes = segment_numbers(c, part) * c->table->number_bytes / x->all;
  if (!to) return;
  if (from)
    memmove(to + x->first * bytes, from + x->first * bytes, (size_t)((x->last - x->first) * bytes));
  else
    memset(to + x->first * bytes, 0, (size_t)((x->last - x->first) * bytes));
}

static void each_folded(const folding *x, bool out) {
  const call *c = x->call;
  const rec_table_summary *of = segment_of(c, x->back);
  for (int i = 0; i < of->part_count; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind != REC_PART_OWN) continue;
    char *states = x->states[out ? x->segments->count & 1 : 0] + segment_part_at(c, of, i);
    void *before = call_data(c, table_memory(c->table, part->state)),
         *after = call_data(c, table_memory(c->table, part->memory));
    copy_folded(x, part->memory, out ? after : states, out ? states : before);
  }
}

void segment_states_before(const call *c, bool back, char *states) {
  int64_t all = segment_instances(c);
  rec_segments none = {.backward = back};
  each_folded(&(folding){c, &none, back, {states}, 0, all, all, 0, 0}, false);
}

void segment_fold(const call *c, bool back, const char *summary, const char *before, char *after) {
  int64_t all = segment_instances(c);
  fold_segment(&(fold){c, segment_of(c, back), summary, before, after, -1, 0, all, all});
}

// Cotangents that no earlier step reads have no part.
static void clear_unread(const folding *x) {
  const call *c = x->call;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    bool state = stage_is_state(memory) && !memory->depth && memory->copy_from >= 0;
    bool written = (x->back ? memory->backward_use : memory->forward_use) == REC_WRITE_OPTIONAL;
    if (state && written && segment_own_part(c, segment_of(c, x->back), memory->copy_from) < 0)
      copy_folded(x, i, call_data(c, memory), NULL);
  }
}

// Takes the instances of a block through all segments.
static void fold_block(const folding *x, int64_t block) {
  int64_t count = x->last - x->first;
  fold f = {.call = x->call, .of = segment_of(x->call, x->back), .block = -1, .all = x->all};
  f.first = x->first + count * block / x->blocks;
  f.last = x->first + count * (block + 1) / x->blocks;
  for (int64_t i = 0; i < x->segments->count; i++) {
    f.summary = summary_in_order(x->segments, i);
    f.before = x->states[i & 1];
    f.after = x->states[~i & 1];
    fold_segment(&f);
  }
}

static void fold_lane(void *argument, int64_t lane) {
  folding *x = argument;
  (void)lane;
  for (;;) {
    int64_t block = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed);
    if (block >= x->blocks) return;
    fold_block(x, block);
  }
}

static rec_status check_segments(const call *c, const rec_segments *segments) {
  if (!segments) return call_fail(c, REC_ERROR_ARGUMENT, "expected rec_segments, found NULL");
  if (segments->size < sizeof *segments)
    return call_fail(c, REC_ERROR_ABI,
                     "expected rec_segments of at least %zu bytes, found size = %llu; set it to "
                     "sizeof(rec_segments)",
                     sizeof *segments, (unsigned long long)segments->size);
  if (segments->count < 0 || (segments->count && !segments->summaries))
    return call_fail(c, REC_ERROR_ARGUMENT, "expected a list of at least 0 summaries, found %s%lld",
                     segments->summaries ? "" : "NULL, ", (long long)segments->count);
  if (segments->backward != 0 && segments->backward != 1)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected backward = 0 or 1, found %d",
                     segments->backward);
  if (c->packed)
    return call_fail(
        c, REC_ERROR_ARGUMENT,
        "expected batch = 1 and no cu_seqlens of packed sequences, found %lld sequences",
        (long long)c->sequences);
  rec_status status = REC_OK;
  for (int64_t i = 0; i < segments->count && status == REC_OK; i++)
    if (c->batch > 0) status = segment_check_memory(c, segments->summaries[i]);
  return status;
}

static rec_status read_fold(call *c, const rec_table *table, const char *entry,
                            const void *arguments, const rec_launch *launch,
                            const rec_segments *segments) {
  rec_status status = call_read(c, table, entry, arguments, launch);
  if (status == REC_OK) status = check_segments(c, segments);
  if (status == REC_OK && launch->device_kind == REC_DEVICE_HOST)
    status = segment_check(c, segments->backward);
  return status;
}

static rec_status find_instances(const call *c, folding *x) {
  x->all = segment_instances(c);
  x->first = c->first_instance;
  x->last = c->instance_count ? x->first + c->instance_count : x->all;
  if (x->first >= 0 && c->instance_count >= 0 && x->first <= x->all &&
      c->instance_count <= x->all - x->first)
    return REC_OK;
  return call_fail(
      c, REC_ERROR_ARGUMENT, "expected instances within 0 to %lld, found %lld from %lld on",
      (long long)x->all - 1, (long long)c->instance_count, (long long)c->first_instance);
}

static rec_status check_fold_workspace(const call *c) {
  const rec_launch *launch = c->launch;
  return call_check_buffer(c, "a workspace", launch->workspace, launch->workspace_bytes,
                           segment_fold_workspace(c));
}

static rec_status check_folded(const call *c, bool back) {
  const rec_table_summary *of = segment_of(c, back);
  rec_status status = REC_OK;
  for (int i = 0; i < of->part_count && status == REC_OK; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind != REC_PART_OWN) continue;
    status = call_check_memory(c, table_memory(c->table, part->state), REC_READ_OPTIONAL);
    if (status == REC_OK)
      status = call_check_memory(c, table_memory(c->table, part->memory), REC_WRITE_OPTIONAL);
  }
  return status;
}

static bool any_out_of_range(const rec_segments *segments) {
  bool any = false;
  for (int64_t i = 0; i < segments->count; i++)
    any |= segment_is_out_of_range(segments->summaries[i]);
  return any;
}

int rec_fold_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                   const rec_segments *segments) {
  bool forward = segments && segments->size >= sizeof *segments && !segments->backward;
  if (forward && begin_is_due(table, arguments))
    return begin_call(table, BEGIN_FOLD, &(begin_operands){arguments, launch, segments, NULL});
  enum { MOST_BLOCKS = 64, WORTH_THREADS = 1 << 17 };
  call c;
  folding x = {.call = &c, .segments = segments};
  rec_status status = read_fold(&c, table, "fold", arguments, launch, segments);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return gpu_fold_call(&c, segments);
  if (status == REC_OK) status = check_folded(&c, segments->backward);
  if (status == REC_OK) status = find_instances(&c, &x);
  if (status == REC_OK) status = check_fold_workspace(&c);
  if (status != REC_OK) return status;
  if (segments->out_of_range) *segments->out_of_range = c.batch > 0 && any_out_of_range(segments);
  x.back = segments->backward;
  if (x.last == x.first) return REC_OK;
  x.states[0] = launch->workspace;
  x.states[1] = x.states[0] + segment_bytes(&c, x.back);
  x.blocks = smaller(MOST_BLOCKS, x.last - x.first);
  each_folded(&x, false);
  stage_run_parallel(&c, x.blocks, segment_states_bytes(&c, x.back) > WORTH_THREADS, fold_lane, &x);
  each_folded(&x, true);
  clear_unread(&x);
  return REC_OK;
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

static void combine_segment(fold *f) {
  fold_segment(f);
  for (int i = 0; i < f->of->part_count; i++) {
    int kind = segment_part(f->call, f->of, i)->kind;
    if (kind == REC_PART_FACTOR) multiply_factors(f, i);
    if (kind == REC_PART_LOGARITHM) add_logarithms(f, i);
  }
  multiply_matrices(f);
}

int rec_combine_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      const rec_segments *segments, void *summary) {
  call c;
  rec_status status = read_fold(&c, table, "combine", arguments, launch, segments);
  if (status == REC_OK) status = call_check_instances(&c);
  if (status == REC_OK && segments->count < 1)
    status = call_fail(&c, REC_ERROR_ARGUMENT, "expected at least 1 summary, found %lld",
                       (long long)segments->count);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return gpu_combine_call(&c, segments, summary);
  if (status == REC_OK) status = segment_check_memory(&c, summary);
  if (status == REC_OK) status = check_fold_workspace(&c);
  if (status != REC_OK) return status;
  bool back = segments->backward;
  int64_t bytes = segment_bytes(&c, back), all = segment_instances(&c);
  char *both[2] = {launch->workspace, (char *)launch->workspace + bytes};
  fold f = {.call = &c, .of = segment_of(&c, back), .block = -1, .last = all, .all = all};
  bool out_of_range = c.batch > 0 && any_out_of_range(segments);
  if (c.batch > 0) memcpy(both[0], summary_in_order(segments, 0), (size_t)bytes);
  for (int64_t i = 1; i < segments->count && c.batch > 0; i++) {
    f.summary = summary_in_order(segments, i);
    f.before = both[~i & 1];
    f.after = both[i & 1];
    combine_segment(&f);
  }
  memcpy(summary, both[~segments->count & 1], (size_t)bytes);
  segment_guard(&c, back, summary, out_of_range);
  if (segments->out_of_range) *segments->out_of_range = segment_is_out_of_range(summary);
  return REC_OK;
}
