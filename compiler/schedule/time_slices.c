// GPU: kernels that summarise time slices: what the steps of a slice make of zero states, and their transition (tile_transfer).
//
//   h = a h + b x, 512 steps    ->    KERNEL_SUMMARY: the state from zero, and the product of a; later slices combine both
//
// Backward has the same for cotangents, from the last step.
#include <string.h>

#include "compiler/schedule/scheduler.h"
#include "runtime/shared/gpu_costs.h"

// Axes along which the columns of states are independent: the lane axis, or axes of known size that instances may be cut along.
static axis_set column_axes(const scheduler *s, const kernel *summary) {
  axis_set axes = summary->cut;
  if (summary->lane_axis >= 0) return axis_bit(summary->lane_axis);
  for (int i = 0; i < summary->grid_count; i++) axes &= ~axis_bit(summary->grid_axes[i]);
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (scheduler_size(s, axis) == TYPED_RUNTIME_SIZE) axes &= ~axis_bit(axis);
  return axes & (((axis_set)1 << s->r->body.axes.count) - 1);
}

// The rows of the transition matrix of an instance: entries of a column of all states without a factor. 0: one has an axis of
// run-time size.
static int64_t transition_size(const kernel *summary, int axis) {
  axis_set cut = axis_bit(axis);
  int64_t all = 0;
  for (int i = 0; i < summary->grid_count; i++) cut |= axis_bit(summary->grid_axes[i]);
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
  return program_rewritten(s->a, PROGRAM_FINISH, program_rewritten(s->a, PROGRAM_SIMPLIFY, program));
}

// Backward: the program that recomputes the states before each chunk, from those that forward has saved; NULL: all are saved.
static const tile_program *recomputed_states(scheduler *s, const tile_program *forward, const kernel *summary) {
  if (forward->form == TILE_CHUNK && summary->chunk == forward->chunk) return NULL;
  program_work w = {.from = forward, .roles = 1u << TILE_NEXT_STATE};
  program_run(s->a, PROGRAM_RESTRICT, &w);
  return finished(s, w.made);
}

// Adds SUMMARY, or SUMMARY_BACK, and tells the kernels that combine its summaries.
static void summary_kernel(scheduler *s, const tile_program *forward, bool back, kernel summary) {
  const char **why = &s->out->whole[back];
  program_work w = {.recurrence = s->r, .from = forward};
  program_run(s->a, back ? PROGRAM_BACKWARD : PROGRAM_RELATIVE, &w);
  w = (program_work){.from = w.made, .axes = column_axes(s, &summary), .axis = -1, .why = *why};
  w.roles = back ? TILE_D_STATE : TILE_NEXT_STATE;
  program_run(s->a, PROGRAM_TRANSFER, &w);
  *why = w.why;
  if (!w.made) return;
  summary.program = finished(s, w.made);
  summary.recompute = tile_takes(summary.program, 1u << TILE_STATE) ? recomputed_states(s, forward, &summary) : NULL;
  if (w.axis >= 0) {
    int64_t columns = transition_size(&summary, w.axis);
    *why = "a column of the states has too many entries";
    if (columns < 1 || columns > GPU_COST_MOST_COLUMNS) return;
    summary.transition_size = (int)columns;
    summary.value_axis = w.axis;
  }
  kernel *kernels = s->out->kernels.items, *combines = schedule_kernel(s->out, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
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
  scheduler_add(s, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY, back ? "part_backward" : "part", summary);
}

kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind) {
  for (int i = 0; i < kernels->kernels.count; i++)
    if (kernels->kernels.items[i].kind == kind) return &kernels->kernels.items[i];
  return NULL;
}

// `back` is mapped to threads as the backward.
void scheduler_add_slices(scheduler *s, const tile_program *forward, kernel back) {
  kernel summary = back;
  summary.cut = forward->grid;
  if (!s->options.gpu || !s->r->states.count) return;
  summary_kernel(s, forward, false, summary);
  summary_kernel(s, forward, true, back);
}
