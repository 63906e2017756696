// Joins summaries of segments of time on a GPU: NAME_fold, NAME_combine. The kernel rec_gpu_fold
// does it, a launch or a few for each part of each summary; this file writes its parameters
// (compiler/abi/gpu_fold.h).
//
//   fold      states after = own + factor * states before              one summary after the other
//   combine   the same for two summaries, and factors of factors       (before: the summary of what came first)
#include "compiler/abi/gpu_fold.h"

#include <float.h>

#include "runtime/support/error.h"
#include "runtime/support/gpu_parts.h"
#include "runtime/support/segment.h"
#include "runtime/support/stage.h"

// ---- one launch ------------------------------------------------------------------------------

// Memory that launches touch, so that the executor checks them.
enum { MOST_REGIONS = 5 };

typedef struct gpu_folding {
  const gpu_parts *parts;
  const float *summary;   // the later segment
  const float *before;    // combine: the summary of the earlier one; NULL: states
  char *from, *to;        // states before and after
  char *shifted, *zeros;  // distances of maxima, of a few states; some zeros
  simt_region regions[MOST_REGIONS];
  int region_count;
  int64_t first, last, instances;  // those that are wanted, of so many
  rec_gpu_fold launch;
  rec_status status;
} gpu_folding;

static void add_memory(gpu_folding *f, const char *name, const void *data, int64_t bytes,
                       bool writable) {
  if (data && bytes > 0)
    f->regions[f->region_count++] = (simt_region){name, (void *)(uintptr_t)data, bytes, writable};
}

static void run_launch(gpu_folding *f) {
  const gpu_parts *p = f->parts;
  const rec_gpu_fold *x = &f->launch;
  int64_t numbers = x->end - x->first;
  if (f->status != REC_OK || numbers <= 0) return;
  gpu_launch launch = {.name = "rec_gpu_fold",
                       .simt = p->call->table->simt_fold,
                       .threads = REC_GPU_FOLD_THREADS,
                       .parameter = x,
                       .parameter_bytes = sizeof *x,
                       .regions = f->regions,
                       .region_count = f->region_count};
  launch.blocks =
      smaller((numbers + REC_GPU_FOLD_THREADS - 1) / REC_GPU_FOLD_THREADS, p->device->blocks);
  f->status = p->device->launch(p->call, &launch);
}

static void begin(gpu_folding *f, int64_t numbers) {
  f->launch = (rec_gpu_fold){.end = numbers};
  if (numbers >= UINT32_MAX)
    f->status =
        call_fail(f->parts->call, REC_ERROR_ARGUMENT,
                  "expected states of at most 4294967294 numbers, found %lld", (long long)numbers);
}

// An axis of what is made, behind those that were added before.
static int add_axis(gpu_folding *f, int64_t size) {
  f->launch.size[f->launch.axis_count] = size;
  return (int)f->launch.axis_count++;
}

// A term more: with too many, those before are added up first.
static rec_gpu_fold_term *add_term(gpu_folding *f, int kind) {
  rec_gpu_fold *x = &f->launch;
  if (x->term_count == REC_GPU_FOLD_TERMS) {
    run_launch(f);
    x->own = x->to;
    x->term_count = 0;
  }
  rec_gpu_fold_term *term = &x->terms[x->term_count++];
  *term = (rec_gpu_fold_term){.kind = kind, .rows = 1, .sign = 1};
  return term;
}

// ---- operands --------------------------------------------------------------------------------

// All of them have the axes of the part that is made: the entry, then the part's own.

// The strides of a part that is dense from `data` on, for the axes of the part that is made.
static rec_gpu_operand dense(const gpu_folding *f, const rec_table_gpu_part *made,
                             const rec_table_gpu_part *part, const float *data,
                             int64_t entry_stride, int64_t number_stride) {
  const gpu_parts *p = f->parts;
  const int32_t *axes = gpu_part_axes(p, part), *wanted = gpu_part_axes(p, made);
  rec_gpu_operand x = {.data = data};
  x.stride[0] = entry_stride;
  for (int k = part->axis_count - 1; k >= 0; k--) {
    for (int i = 0; i < made->axis_count; i++)
      if (wanted[i] == axes[k]) x.stride[1 + i] = number_stride;
    number_stride *= p->call->axis_size[axes[k]];
  }
  return x;
}

static rec_gpu_operand in_summary(const gpu_folding *f, const rec_table_gpu_part *made, int index,
                                  const float *summary) {
  return dense(f, made, gpu_part(f->parts, index), summary + gpu_part_at(f->parts, index),
               f->parts->stride, 1);
}

// A state as the caller has it: complex numbers are pairs.
static rec_gpu_operand in_states(const gpu_folding *f, const rec_table_gpu_part *made, int index,
                                 const float *states) {
  const rec_table_gpu_part *part = gpu_part(f->parts, index);
  const rec_table_memory *memory = gpu_state_after(f->parts, part->state);
  return dense(f, made, part, states + part->component, call_numbers(f->parts->call, memory),
               memory->factor);
}

// What came before the segment, of the state of an OWN part: the state, or its part of the summary.
static rec_gpu_operand before_segment(const gpu_folding *f, const rec_table_gpu_part *made,
                                      int index) {
  if (f->before) return in_summary(f, made, index, f->before);
  const char *state = f->from + gpu_state_at(f->parts, gpu_part(f->parts, index)->state);
  return in_states(f, made, index, (const float *)(const void *)state);
}

static void open_part(gpu_folding *f, const rec_table_gpu_part *made) {
  const gpu_parts *p = f->parts;
  const int32_t *axes = gpu_part_axes(p, made);
  begin(f, p->entries * gpu_part_numbers(p, made));
  add_axis(f, p->entries);
  for (int k = 0; k < made->axis_count; k++) add_axis(f, p->call->axis_size[axes[k]]);
}

// ---- the terms of a part ---------------------------------------------------------------------

// Backward and forward alike: the imaginary part of a factor takes the other part of a number.
static int other_component(const rec_table_gpu_part *made, const rec_table_gpu_part *factor) {
  return made->component ^ factor->component;
}

static float sign_of(const rec_table_gpu_part *made, const rec_table_gpu_part *factor) {
  return factor->component && !made->component ? -1 : 1;
}

static void add_factor(gpu_folding *f, const rec_table_gpu_part *made, int factor,
                       rec_gpu_operand from) {
  rec_gpu_fold_term *term = add_term(f, REC_GPU_FOLD_PRODUCT);
  term->factor = in_summary(f, made, factor, f->summary);
  term->from = from;
  term->sign = sign_of(made, gpu_part(f->parts, factor));
}

// factor * state, of each state that this one is made of.
static void add_factors(gpu_folding *f, const rec_table_gpu_part *made) {
  const gpu_parts *p = f->parts;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *factor = gpu_part(p, i);
    if (factor->kind != REC_PART_FACTOR || factor->state != made->state) continue;
    int from = gpu_find_part(p, REC_PART_OWN, factor->source, -1, other_component(made, factor));
    if (from >= 0) add_factor(f, made, i, before_segment(f, made, from));
  }
}

// Rows of a state in an instance that a matrix sums over, by its axes from number `k` on.
typedef struct matrix_rows {
  const rec_table_gpu_part *part;
  int64_t stride[REC_GPU_FOLD_AXES];  // by axis of the part: of the operand that is summed
  bool summed[REC_GPU_FOLD_AXES];
} matrix_rows;

// Axes from `k` on that lie behind each other count as one.
static void add_summed(gpu_folding *f, const matrix_rows *r, rec_gpu_fold_term base, int k) {
  const gpu_parts *p = f->parts;
  const int32_t *axes = gpu_part_axes(p, r->part);
  int64_t rows = 1, stride = 0;
  bool one = true;
  for (int i = r->part->axis_count - 1; i >= k; i--) {
    if (!r->summed[i]) continue;
    if (rows == 1) stride = r->stride[i];
    one &= r->stride[i] == stride * rows;
    rows *= p->call->axis_size[axes[i]];
  }
  if (one) {
    rec_gpu_fold_term *term = add_term(f, REC_GPU_FOLD_PRODUCT);
    *term = base;
    term->rows = rows;
    term->factor_stride = 1;
    term->from_stride = stride;
    return;
  }
  while (!r->summed[k]) k++;
  int64_t size = p->call->axis_size[axes[k]];
  for (int64_t i = 0; i < size; i++) {
    add_summed(f, r, base, k + 1);
    base.factor.data += rows / size;
    base.from.data += r->stride[k];
  }
}

static matrix_rows summed_rows(const gpu_folding *f, int index) {
  const gpu_parts *p = f->parts;
  matrix_rows r = {.part = gpu_part(p, index)};
  const int32_t *axes = gpu_part_axes(p, r.part);
  for (int k = 0; k < r.part->axis_count; k++)
    r.summed[k] = axes[k] != p->maker->value_axis && !gpu_parts_have_instances_along(p, axes[k]);
  return r;
}

// An operand that has a row for each row of the part that is made: `strides` by axis of that part,
// 0 along the value axis.
static rec_gpu_operand in_rows(const gpu_folding *f, const rec_table_gpu_part *made,
                               const rec_table_gpu_part *part, const float *data) {
  const gpu_parts *p = f->parts;
  const int32_t *axes = gpu_part_axes(p, part), *wanted = gpu_part_axes(p, made);
  rec_gpu_operand x = {.data = data};
  int64_t stride = p->maker->row_numbers;
  x.stride[0] = p->stride;
  for (int k = part->axis_count - 1; k >= 0; k--) {
    if (axes[k] == p->maker->value_axis) continue;
    for (int i = 0; i < made->axis_count; i++)
      if (wanted[i] == axes[k]) x.stride[1 + i] = stride;
    stride *= p->call->axis_size[axes[k]];
  }
  return x;
}

// Axes that are summed lie in `from` by the rows of the state that is multiplied, those of an
// instance by its own.
static void leave_summed(const gpu_folding *f, const matrix_rows *r, const rec_table_gpu_part *made,
                         rec_gpu_operand *from) {
  const int32_t *axes = gpu_part_axes(f->parts, r->part), *wanted = gpu_part_axes(f->parts, made);
  for (int k = 0; k < r->part->axis_count; k++)
    for (int i = 0; r->summed[k] && i < made->axis_count; i++)
      if (wanted[i] == axes[k]) from->stride[1 + i] = 0;
}

// matrix * states: the rows of every state that has columns.
static void add_products(gpu_folding *f, int index) {
  const gpu_parts *p = f->parts;
  const rec_table_gpu_part *made = gpu_part(p, index);
  for (int i = 0; i < p->maker->part_count && made->columns; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (!part->columns) continue;
    rec_gpu_fold_term term = {.kind = REC_GPU_FOLD_PRODUCT, .sign = 1};
    matrix_rows r = summed_rows(f, i);
    term.factor =
        in_rows(f, made, made, f->summary + gpu_rows_at(p, index) + gpu_first_column(p, i));
    term.from = before_segment(f, part, i);
    for (int k = 0; k < part->axis_count; k++) r.stride[k] = term.from.stride[1 + k];
    term.from = before_segment(f, made, i);
    leave_summed(f, &r, made, &term.from);
    add_summed(f, &r, term, 0);
  }
}

// ---- maxima ----------------------------------------------------------------------------------

// F + m - M of a maximum, for each number of it.
static rec_gpu_operand shift_of(gpu_folding *f, int state) {
  const gpu_parts *p = f->parts;
  int own = gpu_find_part(p, REC_PART_OWN, state, -1, 0),
      sum = gpu_find_part(p, REC_PART_LOGARITHM, state, -1, 0);
  const rec_table_gpu_part *made = gpu_part(p, own);
  float *data = (float *)(void *)f->shifted;
  open_part(f, made);
  f->launch.to = dense(f, made, made, data, gpu_part_numbers(p, made), 1);
  f->launch.own = before_segment(f, made, own);
  rec_gpu_fold_term *term = add_term(f, REC_GPU_FOLD_ADD);
  term->from = sum < 0 ? (rec_gpu_operand){.data = (const float *)(const void *)f->zeros}
                       : in_summary(f, made, sum, f->summary);
  term = add_term(f, REC_GPU_FOLD_ADD);
  term->from = in_summary(f, made, own, f->summary);
  term->sign = -1;
  run_launch(f);
  return f->launch.to;
}

static rec_gpu_operand logarithms_of_state(const gpu_folding *f, const rec_table_gpu_part *made,
                                           int state) {
  int sum = gpu_find_part(f->parts, REC_PART_LOGARITHM, state, -1, made->component);
  if (sum < 0) return (rec_gpu_operand){.data = (const float *)(const void *)f->zeros};
  return in_summary(f, made, sum, f->summary);
}

static void add_relative(gpu_folding *f, int index, rec_gpu_operand shift) {
  const gpu_parts *p = f->parts;
  const rec_table_gpu_part *made = gpu_part(p, index);
  bool maximum = made->maximum == made->state;
  rec_gpu_fold_term *term = add_term(f, maximum ? REC_GPU_FOLD_MAXIMUM : REC_GPU_FOLD_RELATIVE);
  term->factor = logarithms_of_state(f, made, made->state);
  term->from = before_segment(f, made, index);
  const rec_table_gpu_part *of = gpu_part(p, gpu_find_part(p, REC_PART_OWN, made->maximum, -1, 0));
  term->by = dense(f, made, of, shift.data, gpu_part_numbers(p, of), 1);
}

// ---- parts -----------------------------------------------------------------------------------

// The instances that are wanted: they are outermost.
static void take_instances(gpu_folding *f) {
  int64_t of_one = f->launch.end / larger(1, f->instances);
  f->launch.first = f->first * of_one;
  f->launch.end = f->last * of_one;
}

static void make_own(gpu_folding *f, int index, rec_gpu_operand to) {
  const rec_table_gpu_part *made = gpu_part(f->parts, index);
  rec_gpu_operand shift = {0};
  if (made->maximum >= 0 && made->maximum != made->state) shift = shift_of(f, made->maximum);
  open_part(f, made);
  f->launch.to = to;
  f->launch.own = in_summary(f, made, index, f->summary);
  take_instances(f);
  add_factors(f, made);
  add_products(f, index);
  if (made->maximum >= 0) add_relative(f, index, shift);
  run_launch(f);
}

static float *floats(char *data) { return (float *)(void *)data; }

// The states after the segment.
static void fold_states(gpu_folding *f) {
  const gpu_parts *p = f->parts;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind != REC_PART_OWN) continue;
    make_own(f, i, in_states(f, part, i, floats(f->to + gpu_state_at(p, part->state))));
  }
}

// ---- two summaries as one --------------------------------------------------------------------

// By way of every state that is between the two.
static void make_factor(gpu_folding *f, int index, float *both) {
  const gpu_parts *p = f->parts;
  const rec_table_gpu_part *made = gpu_part(p, index);
  open_part(f, made);
  f->launch.to = in_summary(f, made, index, both);
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *later = gpu_part(p, i);
    if (later->kind != REC_PART_FACTOR || later->state != made->state) continue;
    int earlier = gpu_find_part(p, REC_PART_FACTOR, later->source, made->source,
                                other_component(made, later));
    if (earlier >= 0) add_factor(f, made, i, in_summary(f, made, earlier, f->before));
  }
  run_launch(f);
}

static void make_logarithm(gpu_folding *f, int index, float *both) {
  const rec_table_gpu_part *made = gpu_part(f->parts, index);
  open_part(f, made);
  f->launch.to = in_summary(f, made, index, both);
  f->launch.own = in_summary(f, made, index, f->summary);
  add_term(f, REC_GPU_FOLD_ADD)->from = in_summary(f, made, index, f->before);
  run_launch(f);
}

// The rows of a state in the product of two matrices: the axes but value_axis, then the columns.
static void make_rows(gpu_folding *f, int index, float *both) {
  const gpu_parts *p = f->parts;
  const rec_table_gpu_part *made = gpu_part(p, index);
  const int32_t *axes = gpu_part_axes(p, made);
  begin(f, p->entries * gpu_part_rows(p, made) * p->maker->row_numbers);
  add_axis(f, p->entries);
  for (int k = 0; k < made->axis_count; k++)
    add_axis(f, axes[k] == p->maker->value_axis ? 1 : p->call->axis_size[axes[k]]);
  int column = add_axis(f, p->maker->row_numbers);
  f->launch.to = in_rows(f, made, made, both + gpu_rows_at(p, index));
  f->launch.to.stride[column] = 1;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (!part->columns) continue;
    rec_gpu_fold_term term = {.kind = REC_GPU_FOLD_PRODUCT, .sign = 1};
    matrix_rows r = summed_rows(f, i);
    const float *rows = f->before + gpu_rows_at(p, i);
    term.factor =
        in_rows(f, made, made, f->summary + gpu_rows_at(p, index) + gpu_first_column(p, i));
    term.from = in_rows(f, part, part, rows);
    for (int k = 0; k < part->axis_count; k++) r.stride[k] = term.from.stride[1 + k];
    term.from = in_rows(f, made, part, rows);
    leave_summed(f, &r, made, &term.from);
    term.from.stride[column] = 1;
    add_summed(f, &r, term, 0);
  }
  run_launch(f);
}

static void combine_parts(gpu_folding *f, float *both) {
  const gpu_parts *p = f->parts;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind == REC_PART_OWN) make_own(f, i, in_summary(f, part, i, both));
    if (part->kind == REC_PART_FACTOR) make_factor(f, i, both);
    if (part->kind == REC_PART_LOGARITHM) make_logarithm(f, i, both);
    if (part->columns) make_rows(f, i, both);
  }
}

// ---- marks -----------------------------------------------------------------------------------

// Marks `to`, for each entry `to_stride` apart, where numbers of a summary are beyond the limit.
static void mark(gpu_folding *f, const float *numbers, int64_t count, double limit, float *to,
                 int64_t to_stride, int64_t bits) {
  begin(f, f->parts->entries * count);
  add_axis(f, f->parts->entries);
  add_axis(f, count);
  f->launch.own = (rec_gpu_operand){.data = numbers, .stride = {f->parts->stride, 1}};
  f->launch.to = (rec_gpu_operand){.data = to, .stride = {to_stride}};
  f->launch.most = (float)limit;
  f->launch.mark = bits;
  run_launch(f);
}

static int64_t mark_count(const gpu_parts *p) {
  return call_count(p->call, &p->maker->summary, 0) - gpu_marks_at(p);
}

static void mark_if_out_of_range(gpu_folding *f, const float *summary, int32_t *out_of_range) {
  const gpu_parts *p = f->parts;
  if (out_of_range)
    mark(f, summary + gpu_marks_at(p), mark_count(p), 0, (float *)(void *)out_of_range, 0, 1);
}

// Those of two summaries stay, and what has grown is marked.
static void mark_both(gpu_folding *f, const float *earlier, float *both) {
  enum { ONE = 0x3f800000 };
  const gpu_parts *p = f->parts;
  float *to = both + gpu_marks_at(p);
  if (earlier) mark(f, earlier + gpu_marks_at(p), mark_count(p), 0, to, p->stride, ONE);
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    double limit = part->kind == REC_PART_FACTOR ? GPU_PARTS_LARGEST : FLT_MAX;
    bool ranged = part->kind == REC_PART_FACTOR || part->kind == REC_PART_OWN;
    if (ranged)
      mark(f, both + gpu_part_at(p, i), gpu_part_numbers(p, part), limit, to, p->stride, ONE);
    if (!part->columns) continue;
    int64_t rows = gpu_part_rows(p, part) * p->maker->row_numbers;
    mark(f, both + gpu_rows_at(p, i), rows, GPU_PARTS_LARGEST, to, p->stride, ONE);
  }
}

// ---- calls -----------------------------------------------------------------------------------

// Room for F + m - M of the largest maximum.
static int64_t shifted_bytes(const gpu_parts *p) {
  int64_t bytes = 0;
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    bool maximum = part->kind == REC_PART_OWN && part->maximum == part->state;
    if (maximum)
      bytes = larger(bytes, p->entries * gpu_part_numbers(p, part) * (int64_t)sizeof(float));
  }
  return round_up(bytes, REC_ALIGNMENT);
}

// Zeros, distances of maxima, then states before and after, or two summaries.
int64_t gpu_fold_workspace(const gpu_parts *p) {
  if (!p->stride || p->entries == 0) return 0;
  return REC_ALIGNMENT + shifted_bytes(p) + 2 * larger(gpu_states_bytes(p), gpu_parts_bytes(p));
}

static gpu_folding open_folding(const gpu_parts *p, char **workspace) {
  gpu_folding f = {.parts = p, .instances = gpu_parts_instances(p)};
  f.last = f.instances;
  f.zeros = *workspace;
  f.shifted = f.zeros + REC_ALIGNMENT;
  f.status = p->device->clear(p->call, f.zeros, REC_ALIGNMENT);
  *workspace = f.shifted + shifted_bytes(p);
  return f;
}

static void set_regions(gpu_folding *f, const float *earlier, const rec_segments *segments) {
  const gpu_parts *p = f->parts;
  f->region_count = 0;
  add_memory(f, "a summary", f->summary, gpu_parts_bytes(p), false);
  add_memory(f, "an earlier summary", earlier, gpu_parts_bytes(p), false);
  add_memory(f, "workspace", f->zeros, gpu_fold_workspace(p), true);
  add_memory(f, "out_of_range", segments->out_of_range, sizeof(int32_t), true);
}

// In the order in which they are joined.
static const void *summary_number(const rec_segments *s, int64_t number) {
  return s->summaries[s->backward ? s->count - 1 - number : number];
}

static void swap(gpu_folding *f) {
  char *from = f->from;
  f->from = f->to;
  f->to = from;
}

// The caller's states into the workspace, or the instances that are wanted of those after into the
// caller's.
static void move_states(gpu_folding *f, bool after) {
  const gpu_parts *p = f->parts;
  const call *c = p->call;
  for (int i = 0; i < p->maker->part_count && f->status == REC_OK; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind != REC_PART_OWN || part->component) continue;
    const rec_table_memory *memory = gpu_state_after(p, part->state);
    char *own = f->from + gpu_state_at(p, part->state);
    char *data = call_data(c, after ? memory : table_memory(c->table, part->state));
    int64_t of_one =
        p->entries * call_numbers(c, memory) * (int64_t)sizeof(float) / larger(1, f->instances);
    int64_t at = f->first * of_one, bytes = (f->last - f->first) * of_one;
    if (bytes == 0 || (after && !data)) continue;
    if (after)
      f->status = p->device->copy(c, data + at, own + at, bytes);
    else
      f->status = data ? p->device->copy(c, own + at, data + at, bytes)
                       : p->device->clear(c, own + at, bytes);
  }
}

static rec_status check_states(const gpu_parts *p) {
  rec_status status = REC_OK;
  for (int i = 0; i < p->maker->part_count && status == REC_OK; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind != REC_PART_OWN) continue;
    status =
        call_check_memory(p->call, table_memory(p->call->table, part->state), REC_READ_OPTIONAL);
    if (status == REC_OK)
      status = call_check_memory(p->call, gpu_state_after(p, part->state), REC_WRITE_OPTIONAL);
  }
  return status;
}

static rec_status check_call(const gpu_parts *p) {
  const rec_launch *launch = p->call->launch;
  rec_status status = gpu_check_made(p);
  if (status != REC_OK) return status;
  return call_check_buffer(p->call, "a workspace", launch->workspace, launch->workspace_bytes,
                           gpu_fold_workspace(p));
}

static rec_status clear_flag(const gpu_parts *p, const rec_segments *segments) {
  if (!segments->out_of_range) return REC_OK;
  return p->device->clear(p->call, segments->out_of_range, sizeof *segments->out_of_range);
}

rec_status gpu_fold_call(const call *c, const rec_segments *segments) {
  gpu_device device;
  rec_status status = gpu_device_find(c, c->launch->device_kind, &device);
  if (status != REC_OK) return status;
  gpu_parts p = gpu_parts_of(c, &device, segments->backward);
  status = check_call(&p);
  if (status == REC_OK) status = check_states(&p);
  if (status == REC_OK) status = clear_flag(&p, segments);
  if (status != REC_OK || p.entries == 0) return status;
  char *workspace = c->launch->workspace;
  gpu_folding f = open_folding(&p, &workspace);
  if (f.status == REC_OK) f.status = segment_find_instances(c, f.instances, &f.first, &f.last);
  f.from = workspace;
  f.to = workspace + gpu_states_bytes(&p);
  move_states(&f, false);
  for (int64_t i = 0; i < segments->count && f.status == REC_OK; i++) {
    f.summary = summary_number(segments, i);
    set_regions(&f, NULL, segments);
    mark_if_out_of_range(&f, f.summary, segments->out_of_range);
    fold_states(&f);
    swap(&f);
  }
  move_states(&f, true);
  return f.status;
}

static void combine_all(gpu_folding *f, const rec_segments *segments, float *const both[2]) {
  const gpu_parts *p = f->parts;
  int64_t bytes = gpu_parts_bytes(p);
  for (int64_t i = 1; i < segments->count && f->status == REC_OK; i++) {
    float *made = both[i & 1];
    f->summary = summary_number(segments, i);
    f->before = both[~i & 1];
    set_regions(f, NULL, segments);
    f->status = p->device->clear(p->call, made, bytes);
    combine_parts(f, made);
    mark_both(f, f->summary, made);
    mark_both(f, f->before, made);
  }
}

rec_status gpu_combine_call(const call *c, const rec_segments *segments, void *summary) {
  gpu_device device;
  rec_status status = gpu_device_find(c, c->launch->device_kind, &device);
  if (status != REC_OK) return status;
  gpu_parts p = gpu_parts_of(c, &device, segments->backward);
  status = check_call(&p);
  if (status == REC_OK) status = segment_check_memory(c, summary);
  if (status == REC_OK) status = clear_flag(&p, segments);
  if (status != REC_OK || p.entries == 0) return status;
  char *workspace = c->launch->workspace;
  gpu_folding f = open_folding(&p, &workspace);
  int64_t bytes = gpu_parts_bytes(&p);
  float *both[2] = {floats(workspace), floats(workspace + bytes)};
  if (f.status == REC_OK) f.status = device.copy(c, both[0], summary_number(segments, 0), bytes);
  combine_all(&f, segments, both);
  float *made = both[~segments->count & 1];
  set_regions(&f, NULL, segments);
  mark_if_out_of_range(&f, made, segments->out_of_range);
  return f.status == REC_OK ? device.copy(c, summary, made, bytes) : f.status;
}

rec_status gpu_fold_given(const gpu_parts *p, float *summary, int index, const float *state) {
  const rec_table_gpu_part *part = gpu_part(p, index);
  gpu_folding f = {.parts = p};
  if (!state && part->kind != REC_PART_LOGARITHM) return REC_OK;
  add_memory(&f, "a summary", summary, gpu_parts_bytes(p), true);
  if (state) {
    const rec_table_memory *memory = gpu_state_after(p, part->state);
    add_memory(&f, "states", state, call_numbers(p->call, memory) * (int64_t)sizeof(float), false);
  }
  open_part(&f, part);
  f.launch.absent = (float)SEGMENT_NO_MAXIMUM;
  f.launch.to = in_summary(&f, part, index, summary);
  if (state) f.launch.own = in_states(&f, part, index, state);
  run_launch(&f);
  return f.status;
}
