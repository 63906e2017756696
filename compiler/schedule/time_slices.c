// Kernels that summarise a stretch of time: what its steps make of zero states, and their
// transition (tile_transfer).
//
//   h = a h + b x, 512 steps    ->    KERNEL_SUMMARY: the state from zero, and the product of a
//
// Backward has the same for cotangents, from the last step. On GPUs they are time slices, which
// later slices of the same call combine. On the host they are segments (NAME_summary), whose
// summaries the caller combines, and time slices of a call that is a single instance.
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/scheduler.h"

// Axes along which the columns of states are independent: the lane axis, or axes of known size that
// instances may be cut along.
static axis_set column_axes(const scheduler *s, const kernel *summary) {
  axis_set axes = summary->cut;
  if (summary->lane_axis >= 0) return axis_bit(summary->lane_axis);
  axes &= ~kernel_instances(summary) & ~scheduler_runtime_axes(s);
  return axes & (((axis_set)1 << s->r->body.axes.count) - 1);
}

// The rows of the transition matrix of an instance: entries of a column of all states without a
// factor. 0: one has an axis of run-time size. `cut`: the axes of instances and of columns.
static int64_t transition_size(const kernel *summary, axis_set cut) {
  int64_t all = 0;
  for (int i = 0; i < summary->program->results.count; i++) {
    const tile_place *place = &summary->program->results.items[i].place;
    int64_t numbers = 1;
    if (place->lag >= 0 || kernel_has_factor(summary->program, place->tensor)) continue;
    if (place->relative) continue;
    for (int x = 0; x < place->axis_count; x++) {
      int64_t size = summary->program->axes.items[place->axes[x]].size;
      if (axis_in(cut, place->axes[x])) continue;
      if (size == TILE_RUNTIME_SIZE) return 0;
      numbers *= size;
    }
    all += numbers;
  }
  return all;
}

static const tile_program *finished(const scheduler *s, const tile_program *program) {
  return program_rewritten(s->a, PROGRAM_FINISH,
                           program_rewritten(s->a, PROGRAM_SIMPLIFY, program));
}

const tile_program *scheduler_states_alone(const scheduler *s, const tile_program *forward) {
  program_work w = {.from = forward, .roles = 1u << TILE_NEXT_STATE};
  program_run(s->a, PROGRAM_RESTRICT, &w);
  return finished(s, w.made);
}

// Backward: the program that recomputes the states before each chunk, from those that forward has
// saved; NULL: all are saved.
static const tile_program *recomputed_states(scheduler *s, const tile_program *forward,
                                             const kernel *summary) {
  bool saved = forward->form == TILE_CHUNK && summary->chunk == forward->chunk;
  return saved ? NULL : scheduler_states_alone(s, forward);
}

// The program that summarises a stretch of time (made: NULL, there is none), and the axis of its
// columns.
static program_work transfer_of(scheduler *s, const tile_program *forward, bool back,
                                axis_set columns) {
  program_work w = {.recurrence = s->r, .from = forward};
  program_run(s->a, back ? PROGRAM_BACKWARD : PROGRAM_RELATIVE, &w);
  w = (program_work){.from = w.made, .axes = columns, .axis = -1};
  w.roles = back ? TILE_D_STATE : TILE_NEXT_STATE;
  w.given = !s->options.gpu;
  program_run(s->a, PROGRAM_TRANSFER, &w);
  return w;
}

// Adds SUMMARY, or SUMMARY_BACK, and tells the kernels that combine its summaries.
static void summary_kernel(scheduler *s, const tile_program *forward, bool back, kernel summary) {
  const char **why = &s->out->whole[back];
  program_work w = transfer_of(s, forward, back, column_axes(s, &summary));
  *why = w.why;
  if (!w.made) return;
  summary.program = finished(s, w.made);
  summary.recompute = tile_takes(summary.program, 1u << TILE_STATE)
                          ? recomputed_states(s, forward, &summary)
                          : NULL;
  if (w.axis >= 0) {
    int64_t columns = transition_size(&summary, kernel_instances(&summary) | axis_bit(w.axis));
    *why = "a column of the states has too many entries";
    if (columns < 1 || columns > GPU_COST_MOST_COLUMNS) return;
    summary.transition_size = (int)columns;
    summary.value_axis = w.axis;
  }
  kernel *kernels = s->out->kernels.items,
         *combines = schedule_kernel(s->out, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
  summary.warms_up = back && s->r->body.lags.count > 0;
  *why = "earlier steps are states, too";
  if (summary.warms_up && !combines->recompute) return;
  for (int i = 0; i < s->out->kernels.count; i++) {
    bool makes_states = !back && kernels[i].kind == KERNEL_STATES;
    if (!makes_states && strcmp(kernels[i].symbol, combines->symbol) != 0) continue;
    kernels[i].summary = summary.program;
    kernels[i].warms_up = summary.warms_up;
    kernels[i].transition_size = summary.transition_size;
    kernels[i].value_axis = summary.value_axis;
  }
  scheduler_add(s, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY, back ? "part_backward" : "part",
                summary);
}

kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind) {
  for (int i = 0; i < kernels->kernels.count; i++)
    if (kernels->kernels.items[i].kind == kind) return &kernels->kernels.items[i];
  return NULL;
}

// Axes that all states without a factor have and that may be cut: their matrices differ.
static axis_set matrix_axes(const kernel *summary) {
  axis_set axes = summary->cut & ~axis_bit(summary->value_axis);
  for (int i = 0; i < summary->program->results.count; i++) {
    const tile_place *place = &summary->program->results.items[i].place;
    bool column =
        place->lag < 0 && !place->relative && !kernel_has_factor(summary->program, place->tensor);
    if (column) axes &= tile_place_axes(summary->program, place);
  }
  return axes;
}

// May a call have a single instance? Only then is time cut on the host (runtime/support/split.c). A
// grid axis of a known size above 1 rules it out.
static bool may_be_single(const kernel *forward) {
  int64_t instances = 1;
  const typed_body *body = &forward->recurrence->body;
  for (int i = 0; i < forward->grid_count; i++) {
    int64_t size = body->axes.items[forward->grid_axes[i]].size;
    if (size != TYPED_RUNTIME_SIZE) instances *= size;
  }
  int64_t lanes = forward->lane_axis < 0 ? 1 : body->axes.items[forward->lane_axis].size;
  return instances == 1 && lanes <= forward->lane_block;
}

// The last slice is summarised for its kept values alone, and these go through a cache: less of
// forward is not worth it. Measured: gla and hgrn2 of one head would spare less and lose.
static const double least_spared = 0.2;

// Lets the summary keep values for the forward of the same slice, in a row for each chunk. `forward`
// has the chunks of the summary.
static void slice_kernel(scheduler *s, const tile_program *forward, kernel *summary) {
  kernel slice = s->out->kernels.items[0];
  bool rows = slice.program->form == TILE_CHUNK && summary->program->form == TILE_CHUNK &&
              summary->program->chunk == slice.chunk && slice.lane_axis < 0 &&
              summary->lane_axis < 0;
  if (!rows || pass_is_left_out(s->options.without, program_stage.name_of(PROGRAM_SLICE))) return;
  if (slice.program->chunk != slice.chunk)
    slice.program = program_rewritten(s->a, PROGRAM_FINISH, forward);
  program_work w = {.from = summary->program, .forward = slice.program, .clone = s->out->clone};
  for (int i = 0; i < slice.grid_count; i++) w.axes |= axis_bit(slice.grid_axes[i]);
  program_run(s->a, PROGRAM_SLICE, &w);
  if (w.spared < least_spared || !tile_has_op(w.forward, TILE_DOT)) return;
  s->out->spared_of_slice = w.spared;
  summary->program = w.made;
  slice.program = w.forward;
  scheduler_add(s, KERNEL_SLICE, "slice", slice);
}

static const char without_summaries[] = "it was compiled without --summary";

// Adds the kernel that summarises a segment. It is mapped as `like`, forward or backward. Without
// --summary it is for time slices, which want no columns.
static void segment_kernel(scheduler *s, const tile_program *forward, bool back, kernel like) {
  program_work w = transfer_of(s, forward, back, like.cut);
  bool slices = !s->options.summaries;
  s->out->whole[back] = slices ? without_summaries : w.made ? NULL : w.why;
  if (!w.made || (slices && w.axis >= 0)) return;
  kernel k = like;
  k.segment = true;
  k.program = finished(s, w.made);
  k.recompute =
      back && tile_takes(k.program, 1u << TILE_STATE) ? recomputed_states(s, forward, &k) : NULL;
  k.saved_with = back && !like.recompute ? like.program : NULL;
  if (w.axis >= 0) {
    k.value_axis = w.axis;
    k.transition_axes = matrix_axes(&k);
    int64_t columns = transition_size(&k, k.transition_axes | axis_bit(w.axis));
    if (columns < 1 || columns > GPU_COST_MOST_COLUMNS)
      s->out->whole[back] = "a column of the states has too many entries";
    if (s->out->whole[back]) return;
    k.transition_size = (int)columns;
  } else if (!back && !s->r->body.lags.count && may_be_single(&s->out->kernels.items[0])) {
    slice_kernel(s, forward, &k);
  }
  scheduler_add(s, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY,
                back ? "summary_backward" : "summary", k);
}

// `back` is mapped as the backward.
void scheduler_add_summaries(scheduler *s, const tile_program *forward, kernel back) {
  kernel summary = back;
  summary.cut = forward->grid;
  if (!s->r->states.count) return;
  if (s->options.gpu && choice_is_left_out(s->options.without, CHOICE_TIME_SLICES)) {
    s->out->whole[0] = s->out->whole[1] = "it was compiled without time slices";
  } else if (s->options.gpu) {
    summary_kernel(s, forward, false, summary);
    summary_kernel(s, forward, true, back);
  } else if (!s->options.summaries &&
             (s->r->body.lags.count || !may_be_single(&s->out->kernels.items[0]))) {
    s->out->whole[0] = s->out->whole[1] = without_summaries;
  } else {
    segment_kernel(s, forward, false, summary);
    segment_kernel(s, forward, true, back);
  }
}
