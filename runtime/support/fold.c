// The steps that join segments of time, on the host and on GPUs alike.
//
//   fold      states after = own + factors * states before + matrix * states before
//   combine   the same of the earlier summary in place of states; factors of factors, matrix of matrix
//
// A complex number has two parts, which the host keeps as a pair.
#include "runtime/support/fold.h"

#include <float.h>
#include <string.h>

#include "runtime/support/error.h"

// ---- one step --------------------------------------------------------------------------------

// Memory that launches touch, so that the executor checks them.
enum { MOST_REGIONS = 4 };

static void launch_step(folding *f) {
  const segment_layout *l = f->layout;
  const rec_launch *of_call = l->call->launch;
  int64_t numbers = f->step.end - f->step.first;
  if (f->step.end >= UINT32_MAX) {
    f->status = call_fail(l->call, REC_ERROR_ARGUMENT,
                          "expected states of at most 4294967294 numbers, found %lld",
                          (long long)f->step.end);
    return;
  }
  const simt_region all[MOST_REGIONS] = {
      {"a summary", (void *)(uintptr_t)f->summary, segment_bytes(l), false},
      {"a summary", f->both, segment_bytes(l), true},
      {"workspace", of_call->workspace, of_call->workspace_bytes, true},
      {"out_of_range", f->out_of_range, sizeof(int32_t), true}};
  simt_region regions[MOST_REGIONS];
  gpu_launch launch = {.name = "rec_gpu_fold",
                       .simt = l->call->table->simt_fold,
                       .threads = REC_GPU_FOLD_THREADS,
                       .parameter = &f->step,
                       .parameter_bytes = sizeof f->step,
                       .regions = regions};
  for (int i = 0; i < MOST_REGIONS; i++)
    if (all[i].data && all[i].bytes > 0) regions[launch.region_count++] = all[i];
  launch.blocks =
      smaller((numbers + REC_GPU_FOLD_THREADS - 1) / REC_GPU_FOLD_THREADS, l->device->blocks);
  f->status = l->device->launch(l->call, &launch);
}

static void run_step(folding *f) {
  if (f->status != REC_OK || f->step.end <= f->step.first) return;
  if (f->layout->device)
    launch_step(f);
  else
    fold_step_run(&f->step, f->layout->number_bytes);
}

static void begin_step(folding *f) { f->step = (rec_fold){.end = 1}; }

// An axis of what is made, behind those that were added before.
static void add_axis(folding *f, int64_t size) {
  f->step.size[f->step.axis_count++] = size;
  f->step.end *= size;
}

// A term more: with too many, those before are added up first.
static rec_fold_term *add_term(folding *f, int kind) {
  rec_fold *x = &f->step;
  if (x->term_count == REC_FOLD_TERMS) {
    run_step(f);
    x->own = x->to;
    x->term_count = 0;
  }
  rec_fold_term *term = &x->terms[x->term_count++];
  *term = (rec_fold_term){.kind = kind, .rows = 1, .sign = 1};
  return term;
}

void fold_copy(folding *f, void *to, const void *from, int64_t bytes) {
  const segment_layout *l = f->layout;
  if (f->status != REC_OK || bytes == 0) return;
  if (!l->device)
    from ? memmove(to, from, (size_t)bytes) : memset(to, 0, (size_t)bytes);
  else if (from)
    f->status = l->device->copy(l->call, to, from, bytes);
  else
    f->status = l->device->clear(l->call, to, bytes);
}

folding fold_open(const segment_layout *l, void *zeros) {
  static const _Alignas(REC_ALIGNMENT) char none[REC_ALIGNMENT];
  folding f = {.layout = l, .zeros = l->device ? zeros : none, .last = l->instances};
  if (l->device && l->entries > 0) fold_copy(&f, zeros, NULL, REC_ALIGNMENT);
  return f;
}

// ---- operands --------------------------------------------------------------------------------

// All of them have the axes of the part that is made: the entry, then the part's own.

static const void *behind(const folding *f, const void *data, int64_t number) {
  return (const char *)data + number * f->layout->number_bytes;
}

// A part that lies at a place behind `data`, by the axes of the part that is made.
static rec_fold_operand fold_operand_at(const folding *f, const rec_table_part *made,
                                        const rec_table_part *part, const void *data,
                                        segment_place place) {
  const segment_layout *l = f->layout;
  const int32_t *axes = segment_axes(l, part), *wanted = segment_axes(l, made);
  rec_fold_operand x = {.data = behind(f, data, place.at)};
  int64_t stride = place.number_stride;
  x.stride[0] = place.entry_stride;
  for (int k = part->axis_count - 1; k >= 0; k--) {
    bool left_out = axes[k] == place.left_out;
    for (int i = 0; i < made->axis_count && !left_out; i++)
      if (wanted[i] == axes[k]) x.stride[1 + i] = stride;
    stride *= left_out ? place.left_out_size : l->call->axis_size[axes[k]];
  }
  return x;
}

static rec_fold_operand in_summary(const folding *f, const rec_table_part *made, int index,
                                   const void *summary) {
  return fold_operand_at(f, made, segment_part(f->layout, index), summary,
                         segment_place_of(f->layout, index));
}

// A state as the caller has it: complex numbers are pairs.
static rec_fold_operand in_state(const folding *f, const rec_table_part *made, int index,
                                 const void *state) {
  const rec_table_part *part = segment_part(f->layout, index);
  const call *c = f->layout->call;
  const rec_table_memory *memory = table_memory(c->table, part->memory);
  return fold_operand_at(f, made, part, state,
                         (segment_place){.at = part->component,
                                         .entry_stride = call_numbers(c, memory),
                                         .number_stride = memory->factor,
                                         .left_out = -1});
}

static rec_fold_operand in_states(const folding *f, const rec_table_part *made, int index,
                                  const char *states) {
  int64_t at = segment_state_at(f->layout, segment_part(f->layout, index)->state);
  return in_state(f, made, index, states + at);
}

// What came before the segment, of the state of an OWN part: the state, or its part of the summary.
static rec_fold_operand before_segment(const folding *f, const rec_table_part *made, int index) {
  return f->before ? in_summary(f, made, index, f->before) : in_states(f, made, index, f->from);
}

// The rows of a state's matrix, of their first columns.
static rec_fold_operand in_rows(const folding *f, const rec_table_part *made, int index,
                                const void *summary) {
  return fold_operand_at(f, made, segment_part(f->layout, index), summary,
                         segment_rows_of(f->layout, index).place);
}

static void open_part(folding *f, const rec_table_part *made) {
  const segment_layout *l = f->layout;
  begin_step(f);
  add_axis(f, l->entries);
  for (int k = 0; k < made->axis_count; k++)
    add_axis(f, l->call->axis_size[segment_axes(l, made)[k]]);
}

// ---- factors ---------------------------------------------------------------------------------

// The imaginary part of a factor takes the other part of a number. Of a pair both products are one
// term.
static void add_factor(folding *f, const rec_table_part *made, int factor, rec_fold_operand from) {
  const rec_table_part *part = segment_part(f->layout, factor);
  bool pair = segment_pair(f->layout, part) == 2;
  rec_fold_term *term = add_term(f, pair ? REC_FOLD_PAIR : REC_FOLD_PRODUCT);
  term->factor = in_summary(f, made, factor, f->summary);
  term->from = from;
  if (pair) {
    term->factor_stride = 1;
    term->from_stride = made->component ? -1 : 1;
  }
  term->sign = (pair || part->component) && !made->component ? -1 : 1;
}

// The factors of what is made, by the states that they take or (`source`) by way of these of one
// state.
static void add_factors(folding *f, const rec_table_part *made, int kind) {
  const segment_layout *l = f->layout;
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *factor = segment_part(l, i);
    bool taken = factor->component && segment_pair(l, factor) == 2;
    if (factor->kind != REC_PART_FACTOR || factor->state != made->state || taken) continue;
    int from = segment_find_part(l, kind, factor->source, made->source,
                                 made->component ^ factor->component);
    if (from < 0) continue;
    add_factor(f, made, i,
               kind == REC_PART_OWN ? before_segment(f, made, from)
                                    : in_summary(f, made, from, f->before));
  }
}

// ---- matrices --------------------------------------------------------------------------------

// The rows of a state in an instance, which a matrix sums over: by axis.
typedef struct summed_rows {
  int count;
  int64_t size[SEGMENT_AXES + 1], stride[SEGMENT_AXES + 1];
  rec_fold_operand factor, from;
  segment_rows rows;  // of the factor
} summed_rows;

// Products of so many columns, which lie behind each other in a block.
static void add_columns(folding *f, const summed_rows *s, const void *from, int64_t from_stride,
                        int64_t column, int64_t columns) {
  while (columns > 0) {
    int64_t in_block = column % s->rows.width;
    rec_fold_term *term = add_term(f, REC_FOLD_PRODUCT);
    term->rows = smaller(columns, s->rows.width - in_block);
    term->factor = s->factor;
    term->factor.data =
        behind(f, s->factor.data,
               column / s->rows.width * s->rows.block_stride + in_block * s->rows.column_stride);
    term->factor_stride = s->rows.column_stride;
    term->from = s->from;
    term->from.data = from;
    term->from_stride = from_stride;
    from = behind(f, from, term->rows * from_stride);
    column += term->rows;
    columns -= term->rows;
  }
}

// The axes from `axis` on: those that lie behind each other count as one.
static void add_summed(folding *f, const summed_rows *s, int axis, const void *from,
                       int64_t column) {
  int64_t rows = 1, stride = 0;
  bool one = true;
  for (int i = s->count - 1; i >= axis; i--) {
    if (rows == 1) stride = s->stride[i];
    one &= s->stride[i] == stride * rows;
    rows *= s->size[i];
  }
  if (one) {
    add_columns(f, s, from, stride, column, rows);
    return;
  }
  for (int64_t i = 0; i < s->size[axis]; i++)
    add_summed(f, s, axis + 1, behind(f, from, i * s->stride[axis]),
               column + i * (rows / s->size[axis]));
}

static rec_fold_operand multiplied(const folding *f, const rec_table_part *made, int index,
                                   bool rows) {
  return rows ? in_rows(f, made, index, f->before) : before_segment(f, made, index);
}

// The columns of rows are the last axes of the step.
static void set_columns(const folding *f, const segment_rows *rows, rec_fold_operand *x) {
  x->stride[f->step.axis_count - 1] = rows->column_stride;
  if (rows->blocks > 1) x->stride[f->step.axis_count - 2] = rows->block_stride;
}

// What the matrix multiplies of one state. Axes that are summed_rows lie by the rows of that state,
// those of an instance by its own.
static summed_rows summed_rows_of(const folding *f, int index, int from, bool rows) {
  const segment_layout *l = f->layout;
  const rec_table_part *made = segment_part(l, index), *part = segment_part(l, from);
  const int32_t *axes = segment_axes(l, part), *wanted = segment_axes(l, made);
  summed_rows s = {.rows = segment_rows_of(l, index),
                   .factor = in_rows(f, made, index, f->summary),
                   .from = multiplied(f, made, from, rows)};
  rec_fold_operand own = multiplied(f, part, from, rows);
  for (int k = 0; k < part->axis_count; k++) {
    if (!segment_counts_along(l, axes[k])) continue;
    s.size[s.count] = l->call->axis_size[axes[k]];
    s.stride[s.count++] = own.stride[1 + k];
    for (int i = 0; i < made->axis_count; i++)
      if (wanted[i] == axes[k]) s.from.stride[1 + i] = 0;
  }
  s.size[s.count] = segment_pair(l, part);
  s.stride[s.count++] = 1;
  if (!rows) return s;
  segment_rows of_columns = segment_rows_of(l, from);
  set_columns(f, &of_columns, &s.from);
  return s;
}

// matrix * states, or the matrix of both: the rows of every state that has columns.
static void add_products(folding *f, int index, bool rows) {
  const segment_layout *l = f->layout;
  for (int i = 0; i < l->part_count && segment_part(l, index)->columns; i++) {
    const rec_table_part *part = segment_part(l, i);
    bool taken = part->component && segment_pair(l, part) == 2;
    if (!part->columns || taken) continue;
    summed_rows s = summed_rows_of(f, index, i, rows);
    add_summed(f, &s, 0, s.from.data, segment_first_column(l, i));
  }
}

// ---- maxima ----------------------------------------------------------------------------------

// The sum of logarithms of a state; none: 0.
static rec_fold_operand logarithms_of(const folding *f, const rec_table_part *made, int state,
                                      int component) {
  int sum = segment_find_part(f->layout, REC_PART_LOGARITHM, state, -1, component);
  if (sum < 0) return (rec_fold_operand){.data = f->zeros};
  return in_summary(f, made, sum, f->summary);
}

// A maximum, or a state relative to one.
static void add_relative(folding *f, int index) {
  const rec_table_part *made = segment_part(f->layout, index);
  bool is_maximum = made->maximum == made->state;
  rec_fold_term *term = add_term(f, is_maximum ? REC_FOLD_MAXIMUM : REC_FOLD_RELATIVE);
  term->factor = logarithms_of(f, made, made->state, made->component);
  term->from = before_segment(f, made, index);
  int maximum = segment_find_part(f->layout, REC_PART_OWN, made->maximum, -1, 0);
  term->maximum = before_segment(f, made, maximum);
  term->shift = logarithms_of(f, made, made->maximum, 0);
  term->largest = in_summary(f, made, maximum, f->summary);
}

// ---- parts -----------------------------------------------------------------------------------

// Of the instances that are wanted: they are outermost.
static void make_own(folding *f, int index, rec_fold_operand to) {
  const rec_table_part *made = segment_part(f->layout, index);
  open_part(f, made);
  int64_t of_one = f->step.end / larger(1, f->layout->instances);
  f->step.first = f->first * of_one;
  f->step.end = f->last * of_one;
  f->step.to = to;
  f->step.own = in_summary(f, made, index, f->summary);
  add_factors(f, made, REC_PART_OWN);
  add_products(f, index, false);
  if (made->maximum >= 0) add_relative(f, index);
  run_step(f);
}

void fold_states(folding *f) {
  for (int i = 0; i < f->layout->part_count; i++) {
    const rec_table_part *part = segment_part(f->layout, i);
    if (part->kind == REC_PART_OWN) make_own(f, i, in_states(f, part, i, f->to));
  }
}

// By way of every state that is between the two.
static void make_factor(folding *f, int index) {
  const rec_table_part *made = segment_part(f->layout, index);
  open_part(f, made);
  f->step.to = in_summary(f, made, index, f->both);
  add_factors(f, made, REC_PART_FACTOR);
  run_step(f);
}

static void make_logarithm(folding *f, int index) {
  const rec_table_part *made = segment_part(f->layout, index);
  open_part(f, made);
  f->step.to = in_summary(f, made, index, f->both);
  f->step.own = in_summary(f, made, index, f->summary);
  add_term(f, REC_FOLD_ADD)->from = in_summary(f, made, index, f->before);
  run_step(f);
}

// The rows of a state in the product of two matrices: the axes but value_axis, then the columns.
static void make_rows(folding *f, int index) {
  const segment_layout *l = f->layout;
  const rec_table_part *made = segment_part(l, index);
  segment_rows rows = segment_rows_of(l, index);
  begin_step(f);
  add_axis(f, l->entries);
  for (int k = 0; k < made->axis_count; k++) {
    int axis = segment_axes(l, made)[k];
    add_axis(f, axis == l->value_axis ? 1 : l->call->axis_size[axis]);
  }
  if (rows.blocks > 1) add_axis(f, rows.blocks);
  add_axis(f, rows.width);
  f->step.to = in_rows(f, made, index, f->both);
  set_columns(f, &rows, &f->step.to);
  add_products(f, index, true);
  run_step(f);
}

static void combine_parts(folding *f) {
  for (int i = 0; i < f->layout->part_count; i++) {
    const rec_table_part *part = segment_part(f->layout, i);
    if (part->kind == REC_PART_OWN) make_own(f, i, in_summary(f, part, i, f->both));
    if (part->kind == REC_PART_FACTOR) make_factor(f, i);
    if (part->kind == REC_PART_LOGARITHM) make_logarithm(f, i);
    if (part->columns) make_rows(f, i);
  }
}

// ---- states of the caller ----------------------------------------------------------------------

// The instances of a state that are wanted; without `from` they are 0.
static void move_state(folding *f, const rec_table_memory *memory, char *to, const char *from) {
  const segment_layout *l = f->layout;
  int64_t of_one =
      l->entries * call_numbers(l->call, memory) * l->number_bytes / larger(1, l->instances);
  int64_t at = f->first * of_one;
  if (to) fold_copy(f, to + at, from ? from + at : NULL, (f->last - f->first) * of_one);
}

void fold_read_states(folding *f) {
  const call *c = f->layout->call;
  for (int i = 0; i < f->layout->part_count; i++) {
    const rec_table_part *part = segment_part(f->layout, i);
    const rec_table_memory *before = table_memory(c->table, part->state);
    if (segment_is_state(part))
      move_state(f, before, f->from + segment_state_at(f->layout, part->state),
                 call_data(c, before));
  }
}

// Cotangents that no earlier step reads have no part: they are 0.
void fold_write_states(folding *f) {
  const segment_layout *l = f->layout;
  const rec_table *table = l->call->table;
  for (int i = 0; i < table->memory_count; i++) {
    const rec_table_memory *after = table_memory(table, i);
    int32_t use = l->back ? after->backward_use : after->forward_use;
    if (!stage_is_state(after) || after->depth || after->copy_from < 0 || use != REC_WRITE_OPTIONAL)
      continue;
    bool read = segment_find_part(l, REC_PART_OWN, after->copy_from, -1, 0) >= 0;
    move_state(f, after, call_data(l->call, after),
               read ? f->from + segment_state_at(l, after->copy_from) : NULL);
  }
}

// ---- marks of a GPU --------------------------------------------------------------------------

// Marks `to`, for each entry `to_stride` apart, where numbers of a summary are beyond the limit.
static void mark(folding *f, const void *numbers, int64_t count, double limit, void *to,
                 int64_t to_stride, int64_t bits) {
  begin_step(f);
  add_axis(f, f->layout->entries);
  add_axis(f, count);
  f->step.own = (rec_fold_operand){.data = numbers, .stride = {f->layout->stride, 1}};
  f->step.to = (rec_fold_operand){.data = to, .stride = {to_stride}};
  f->step.most = (float)limit;
  f->step.mark = bits;
  run_step(f);
}

static int64_t mark_count(const segment_layout *l) {
  return call_count(l->call, &l->maker->summary, 0) - segment_marks_at(l);
}

void fold_note_out_of_range(folding *f, const void *summary) {
  const segment_layout *l = f->layout;
  if (!f->out_of_range || l->entries == 0) return;
  f->summary = summary;
  if (l->device)
    mark(f, behind(f, summary, segment_marks_at(l)), mark_count(l), 0, f->out_of_range, 0, 1);
  else
    *f->out_of_range |= segment_is_out_of_range(summary);
}

// Those of both summaries stay, and what has grown is marked.
static void mark_both(folding *f) {
  enum { ONE = 0x3f800000 };
  const segment_layout *l = f->layout;
  char *to = f->both + segment_marks_at(l) * l->number_bytes;
  const char *const earlier[] = {f->summary, f->before};
  for (int i = 0; i < 2; i++)
    mark(f, behind(f, earlier[i], segment_marks_at(l)), mark_count(l), 0, to, l->stride, ONE);
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    double limit = part->kind == REC_PART_FACTOR ? SEGMENT_LARGEST : FLT_MAX;
    segment_rows rows = segment_rows_of(l, i);
    if (part->kind == REC_PART_FACTOR || part->kind == REC_PART_OWN)
      mark(f, behind(f, f->both, segment_place_of(l, i).at), segment_numbers(l, part), limit, to,
           l->stride, ONE);
    if (part->columns)
      mark(f, behind(f, f->both, rows.place.at), rows.numbers, SEGMENT_LARGEST, to, l->stride, ONE);
  }
}

// ---- two summaries as one --------------------------------------------------------------------

void fold_summaries(folding *f) {
  const segment_layout *l = f->layout;
  if (l->device) fold_copy(f, f->both, NULL, segment_bytes(l));
  combine_parts(f);
  if (l->device) mark_both(f);
}

void fold_given(folding *f, int index, const void *state) {
  const rec_table_part *part = segment_part(f->layout, index);
  if (!state && part->kind != REC_PART_LOGARITHM) return;
  open_part(f, part);
  f->step.absent = (float)SEGMENT_NO_MAXIMUM;
  f->step.to = in_summary(f, part, index, f->both);
  if (state) f->step.own = in_state(f, part, index, state);
  run_step(f);
}
