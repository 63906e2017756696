// Combines time slices by their summaries.
//
//   summaries: every slice but the last from zero states      side by side
//   fold:      before[p + 1] = factors[p] * before[p] + own[p]    one after another
//   whole:     every slice from its states                    side by side
//
// Backward is the same in reverse with cotangents. Where a summary is out of range, the call runs
// as one slice.
#include "runtime/support/split.h"

#include "runtime/support/fold.h"

enum { CUT_PARTS_MAX = 16, CUT_STEPS_MIN = 256 };

static const rec_table_kernel *split_kernel(const call *c, int kind) {
  return &c->table->kernels[kind];
}

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
  return is_compiled(split_kernel(c, REC_KERNEL_SUMMARY)) &&
         is_compiled(split_kernel(c, REC_KERNEL_SUMMARY_BACK));
}

static bool can_be_cut(const call *c) {
  return !c->packed && c->time >= SPLIT_TIME_MIN && has_small_summaries(c) &&
         !adds_states(c, split_kernel(c, REC_KERNEL_BACKWARD)) &&
         stage_plan(c, split_kernel(c, REC_KERNEL_FORWARD)).tasks == 1;
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

int64_t split_bytes(const call *c, bool backward) {
  int64_t stage = 0;
  for (int i = 0; i < REC_KERNEL_COUNT; i++) {
    const rec_table_kernel *kernel = split_kernel(c, i);
    bool back = i == REC_KERNEL_BACKWARD || i == REC_KERNEL_SUMMARY_BACK;
    if (i == REC_KERNEL_STEP || (back && !backward)) continue;
    if (is_compiled(kernel)) stage = larger(stage, stage_bytes(c, kernel));  // some are GPUs' alone
  }
  return 2 * c->slices * summary_stride(c) + stage;
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
  stage_run(s->call, split_kernel(s->call, kind), saved, results, &slices, s->stage);
}

// ---- calls -----------------------------------------------------------------------------------

// Finds the states of every slice; false: a summary is out of range. Decays above 1 may have a
// product without a number where the states, step by step, stay finite.
static bool find_slice_states(split *s, stage_saved saved) {
  bool back = s->layout.back;
  int64_t slices = s->call->slices, from = back ? slices - 1 : 0, step = back ? -1 : 1;
  run_split_pass(s, back ? REC_KERNEL_SUMMARY_BACK : REC_KERNEL_SUMMARY, saved, STAGE_STATES, back,
                 slices - !back, summary_state);
  folding f = fold_open(&s->layout, NULL);
  f.from = s->states + from * s->stride;
  fold_read_states(&f);
  for (int64_t i = 1; i < slices; i++, from += step) {
    char *summary = s->summaries + from * s->stride;
    segment_guard(&s->layout, summary, false);
    if (segment_is_out_of_range(summary)) return false;
    f.summary = summary;
    f.to = f.from + step * s->stride;
    fold_states(&f);
    f.from = f.to;
  }
  return true;
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
    stage_run(&whole, split_kernel(c, kind), saved, results, NULL, s.stage);
}

void split_forward_call(const call *c, stage_saved saved, void *workspace) {
  run_slices(c, REC_KERNEL_FORWARD, saved, STAGE_ALL, workspace);
}

void split_backward_call(const call *c, stage_saved saved, bool recompute, void *workspace) {
  if (recompute) run_slices(c, REC_KERNEL_STATES, saved, STAGE_SAVED, workspace);
  split s = split_new(c, true, workspace);
  call whole = uncut(c);
  if (find_slice_states(&s, saved))
    run_split_pass(&s, REC_KERNEL_BACKWARD, saved, STAGE_ALL, 0, c->slices, whole_state);
  else
    stage_run(&whole, split_kernel(c, REC_KERNEL_BACKWARD), saved, STAGE_ALL, NULL, s.stage);
}
