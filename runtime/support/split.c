// Combines time slices by their summaries.
//
//   summaries: every slice but the last from zero states      side by side
//   fold:      before[p + 1] = factors[p] * before[p] + own[p]    one after another
//   whole:     every slice from its states                    side by side
//
// Backward is the same in reverse with cotangents. Where a summary is out of range, the call runs
// as one slice.
//
// Forward may read values that the summaries keep (SLICE). They lie in rows of the workspace as
// those of `saved` do, and the states before chunks behind them. One thread takes a slice through all
// three passes before the next one. Its rows stay in a cache then, and a summary that is out of range
// shows early. Results are the same.
#include "runtime/support/split.h"

#include <string.h>

#include "runtime/support/fold.h"

enum { CUT_PARTS_MAX = 16, CUT_STEPS_MIN = 256 };

// Gradients of states that several instances share are sums; those are not cut.
static bool adds_states(const call *c, const rec_table_kernel *kernel) {
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    if (slot->accumulated && stage_is_state(table_memory(c->table, slot->memory))) return true;
  }
  return false;
}

static bool is_compiled(const rec_table_kernel *kernel) {
  for (int clone = 0; clone < REC_CLONES; clone++)
    if (kernel->functions[clone]) return true;
  return false;
}

// Columns of matrices would cost more than the slices save; earlier steps are in no summary.
static bool has_small_summaries(const call *c) {
  for (int i = 0; i < c->table->memory_count; i++)
    if (table_memory(c->table, i)->depth) return false;
  for (int back = 0; back < 2; back++) {
    segment_layout l = segment_layout_of(c, NULL, back);
    if (l.value_axis >= 0 || segment_has_many_axes(&l)) return false;
  }
  return is_compiled(kernel_of_call(c, REC_KERNEL_SUMMARY)) &&
         is_compiled(kernel_of_call(c, REC_KERNEL_SUMMARY_BACK));
}

static bool can_be_cut(const call *c) {
  return !c->packed && c->time >= SPLIT_TIME_MIN && has_small_summaries(c) &&
         !adds_states(c, kernel_of_call(c, REC_KERNEL_BACKWARD)) &&
         stage_plan(c, kernel_of_call(c, REC_KERNEL_FORWARD)).tasks == 1;
}

void split_most(call *c) {
  c->slices = c->slice_steps = 0;
  if (!can_be_cut(c)) return;
  c->slices = CUT_PARTS_MAX;
  c->slice_steps = round_up((c->time + c->slices - 1) / c->slices, c->table->chunk);
}

void split_plan(call *c) {
  c->slices = c->slice_steps = 0;
  if (!can_be_cut(c)) return;
  int64_t slices = smaller(CUT_PARTS_MAX, c->time / CUT_STEPS_MIN);
  c->slice_steps = round_up((c->time + slices - 1) / slices, c->table->chunk);
  c->slices = (c->time + c->slice_steps - 1) / c->slice_steps;
  if (c->slices < FEWEST_SLICES) c->slices = c->slice_steps = 0;
}

// ---- buffers: a summary and states of each slice ----------------------------------------------

typedef struct split {
  const call *call;
  segment_layout layout;
  int64_t stride;
  char *summaries;
  char *states;  // before each slice, backward the cotangents behind it
  void *stage;   // workspace of the stages
} split;

static int64_t summary_stride(const call *c) {
  segment_layout l = segment_layout_of(c, NULL, false), back = segment_layout_of(c, NULL, true);
  return larger(segment_columns_at(&l, -1, 0), segment_columns_at(&back, -1, 0));
}

static bool has_slice_kernel(const call *c) {
  return is_compiled(kernel_of_call(c, REC_KERNEL_SLICE));
}

// Numbers of the row of a chunk: what SUMMARY keeps, then the state before it.
static int64_t chunk_row_numbers(const call *c) {
  return round_up(call_count(c, &c->table->kept_of_slice, 0) + call_count(c, &c->table->saved, 0),
                  REC_ALIGNMENT / c->table->number_bytes);
}

static int64_t chunk_rows(const call *c) {
  return (c->time + c->table->chunk - 1) / c->table->chunk;
}

static int64_t rows_bytes(const call *c) {
  if (!has_slice_kernel(c)) return 0;
  return chunk_rows(c) * chunk_row_numbers(c) * c->table->number_bytes;
}

int64_t split_bytes(const call *c, bool backward) {
  int64_t stage = 0;
  for (int i = 0; i < REC_KERNEL_COUNT; i++) {
    const rec_table_kernel *kernel = kernel_of_call(c, i);
    bool back = i == REC_KERNEL_BACKWARD || i == REC_KERNEL_SUMMARY_BACK;
    if (i == REC_KERNEL_STEP || (back && !backward)) continue;
    if (is_compiled(kernel)) stage = larger(stage, stage_bytes(c, kernel));  // some are GPUs' alone
  }
  return 2 * c->slices * summary_stride(c) + (backward ? 0 : rows_bytes(c)) + stage;
}

static split split_new(const call *c, bool back, char *workspace) {
  int64_t stride = summary_stride(c), bytes = stride * c->slices;
  return (split){.call = c,
                 .layout = segment_layout_of(c, NULL, back),
                 .stride = stride,
                 .summaries = workspace,
                 .states = workspace + bytes,
                 .stage = workspace + 2 * bytes};
}

// ---- passes: which memory holds a slice's states ----------------------------------------------

// Every slice begins with zeros.
static void *summary_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  const segment_layout *l = &s->layout;
  for (int i = 0; i < l->part_count; i++)
    if (segment_part(l, i)->memory == memory)
      return s->summaries + slice * s->stride + segment_memory_at(l, memory);
  return NULL;
}

// The caller's states lie at the ends of time. Backward, states themselves come from `saved`.
static void *whole_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  const call *c = s->call;
  const rec_table_memory *m = table_memory(c->table, memory);
  bool back = s->layout.back;
  if (segment_find_part(&s->layout, REC_PART_OWN, memory, -1, 0) >= 0)
    return s->states + slice * s->stride + segment_state_at(&s->layout, memory);
  if (back && m->forward_use != REC_UNUSED) return NULL;
  bool result = m->copy_from >= 0;
  return slice == (result != back ? c->slices - 1 : 0) ? call_data(c, m) : NULL;
}

static void run_split_pass(split *s, int kind, stage_saved saved, stage_results results,
                           int64_t first, int64_t last, void *(*state)(void *, int, int64_t)) {
  stage_slices slices = {.first = first, .last = last, .state = state, .context = s};
  stage_run(s->call, kernel_of_call(s->call, kind), saved, results, &slices, s->stage);
}

// ---- calls -----------------------------------------------------------------------------------

// Walks over the slices: from the caller's states to those of every slice.
typedef struct slice_walk {
  folding fold;
  int64_t at, step;  // the slice whose states are known last
} slice_walk;

static slice_walk begin_walk(split *s) {
  bool back = s->layout.back;
  slice_walk w = {.fold = fold_open(&s->layout, NULL),
                  .at = back ? s->call->slices - 1 : 0,
                  .step = back ? -1 : 1};
  w.fold.from = s->states + w.at * s->stride;
  fold_read_states(&w.fold);
  return w;
}

// The states of `count` more slices; false: a summary is out of range. Decays above 1 may have a
// product without a number where the states, step by step, stay finite.
static bool walk_slices(split *s, slice_walk *w, int64_t count) {
  for (int64_t i = 0; i < count; i++, w->at += w->step) {
    char *summary = s->summaries + w->at * s->stride;
    segment_guard(&s->layout, summary, false);
    if (segment_is_out_of_range(summary)) return false;
    w->fold.summary = summary;
    w->fold.to = w->fold.from + w->step * s->stride;
    fold_states(&w->fold);
    w->fold.from = w->fold.to;
  }
  return true;
}

// Finds the states of every slice.
static bool find_slice_states(split *s, stage_saved saved) {
  bool back = s->layout.back;
  int64_t slices = s->call->slices;
  run_split_pass(s, back ? REC_KERNEL_SUMMARY_BACK : REC_KERNEL_SUMMARY, saved, STAGE_STATES, back,
                 slices - !back, summary_state);
  slice_walk w = begin_walk(s);
  return walk_slices(s, &w, slices - 1);
}

// The call without its cut: one slice needs no more workspace than many.
static call uncut(const call *c) {
  call whole = *c;
  whole.slices = whole.slice_steps = 0;
  return whole;
}

// Outputs, or the saved states alone.
static void run_slices(const call *c, int kind, stage_saved saved, stage_results results,
                       void *workspace) {
  split s = split_new(c, false, workspace);
  call whole = uncut(c);
  if (find_slice_states(&s, (stage_saved){0}))
    run_split_pass(&s, kind, saved, results, 0, c->slices, whole_state);
  else
    stage_run(&whole, kernel_of_call(c, kind), saved, results, NULL, s.stage);
}

// Backward wants states alone of the rows of the chunks from `first` on.
static void save_states(const call *c, stage_saved saved, stage_saved rows, int64_t first,
                        int64_t last) {
  int64_t kept = call_count(c, &c->table->kept_of_slice, 0), bytes = c->table->number_bytes;
  size_t state = (size_t)(call_count(c, &c->table->saved, 0) * bytes);
  for (int64_t i = first; i < last; i++)
    memcpy((char *)saved.data + i * saved.chunk_stride * bytes,
           (const char *)rows.data + (i * rows.chunk_stride + kept) * bytes, state);
}

// Forward by SLICE. If backward wants kept values, it is all that SUMMARY keeps.
static void run_kept_slices(const call *c, stage_saved saved, void *workspace) {
  split s = split_new(c, false, workspace);
  call whole = uncut(c);
  bool in_saved = saved.data && call_count(c, &c->table->kept, 0) > 0;
  int64_t chunks = c->slice_steps / c->table->chunk, all = chunk_rows(c),
          numbers = chunk_row_numbers(c), slice_bytes = chunks * numbers * c->table->number_bytes,
          most = c->threads == 1 && !c->launch->parallel_for ? 1 : c->slices;
  char *memory = s.stage;
  s.stage = memory + rows_bytes(c);
  slice_walk w = begin_walk(&s);
  for (int64_t first = 0; first < c->slices; first += most) {
    int64_t last = smaller(first + most, c->slices), known = smaller(last, c->slices - 1);
    stage_saved rows = {memory - first * slice_bytes, all * numbers, numbers};
    if (in_saved) rows = saved;
    run_split_pass(&s, REC_KERNEL_SUMMARY, rows, STAGE_STATES, first, last, summary_state);
    if (!walk_slices(&s, &w, known - first)) {
      stage_run(&whole, kernel_of_call(c, REC_KERNEL_FORWARD), saved, STAGE_ALL, NULL, s.stage);
      return;
    }
    run_split_pass(&s, REC_KERNEL_SLICE, rows, STAGE_ALL, first, last, whole_state);
    if (saved.data && !in_saved)
      save_states(c, saved, rows, first * chunks, smaller(last * chunks, all));
  }
}

void split_forward_call(const call *c, stage_saved saved, void *workspace) {
  if (has_slice_kernel(c))
    run_kept_slices(c, saved, workspace);
  else
    run_slices(c, REC_KERNEL_FORWARD, saved, STAGE_ALL, workspace);
}

void split_backward_call(const call *c, stage_saved saved, bool recompute, void *workspace) {
  if (recompute) run_slices(c, REC_KERNEL_STATES, saved, STAGE_SAVED, workspace);
  split s = split_new(c, true, workspace);
  call whole = uncut(c);
  if (find_slice_states(&s, saved))
    run_split_pass(&s, REC_KERNEL_BACKWARD, saved, STAGE_ALL, 0, c->slices, whole_state);
  else
    stage_run(&whole, kernel_of_call(c, REC_KERNEL_BACKWARD), saved, STAGE_ALL, NULL, s.stage);
}
