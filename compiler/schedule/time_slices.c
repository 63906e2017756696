// Kernels for parts of time on a GPU: what each part makes of states, or of their cotangents, from none (tile_transfer). The parts
// behind it begin with that.
#include <string.h>

#include "compiler/schedule/scheduler.h"
#include "runtime/shared/gpu_costs.h"

// The lane axis, or axes of known size that a block of threads may have a part of.
static axis_set column_axes(const scheduler *s, const kernel *part) {
  axis_set axes = part->cut;
  if (part->lane_axis >= 0) return axis_bit(part->lane_axis);
  for (int i = 0; i < part->grid_count; i++) axes &= ~axis_bit(part->grid_axes[i]);
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (scheduler_size(s, axis) == TYPED_RUNTIME_SIZE) axes &= ~axis_bit(axis);
  return axes & (((axis_set)1 << s->r->body.axes.count) - 1);
}

// Numbers of a column of all states that have no factor, in one instance; 0: one has an axis of run-time size.
static int64_t column_numbers(const kernel *part, int axis) {
  axis_set cut = axis_bit(axis);
  int64_t all = 0;
  for (int i = 0; i < part->grid_count; i++) cut |= axis_bit(part->grid_axes[i]);
  for (int i = 0; i < part->program->results.count; i++) {
    const tile_place *place = &part->program->results.items[i].place;
    int64_t numbers = 1;
    if (place->lag >= 0 || kernel_has_factor(part->program, place->tensor)) continue;
    if (place->relative) continue;
    for (int x = 0; x < place->axis_count; x++) {
      int64_t size = part->program->axes.items[place->axes[x]].size;
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

// Backward: the states before each run, from those that are saved before every few.
static const tile_program *states_again(scheduler *s, const tile_program *forward, const kernel *part) {
  if (forward->form == TILE_CHUNK && part->chunk == forward->chunk) return NULL;
  program_work w = {.from = forward, .roles = 1u << TILE_NEXT_STATE};
  program_run(s->a, PROGRAM_RESTRICT, &w);
  return finished(s, w.made);
}

// The kernel that makes of each part what FORWARD, or BACKWARD, begins the parts behind it with.
static void summary_kernel(scheduler *s, const tile_program *forward, bool back, kernel part) {
  const char **why = &s->out->whole[back];
  program_work w = {.recurrence = s->r, .from = forward};
  program_run(s->a, back ? PROGRAM_BACKWARD : PROGRAM_RELATIVE, &w);
  w = (program_work){.from = w.made, .axes = column_axes(s, &part), .axis = -1, .why = *why};
  w.roles = back ? TILE_D_STATE : TILE_NEXT_STATE;
  program_run(s->a, PROGRAM_TRANSFER, &w);
  *why = w.why;
  if (!w.made) return;
  part.program = finished(s, w.made);
  part.recompute = tile_takes(part.program, 1u << TILE_STATE) ? states_again(s, forward, &part) : NULL;
  if (w.axis >= 0) {
    int64_t columns = column_numbers(&part, w.axis);
    *why = "a column of the states has too many entries";
    if (columns < 1 || columns > GPU_COST_MOST_COLUMNS) return;
    part.transition_size = (int)columns;
    part.value_axis = w.axis;
  }
  kernel *kernels = s->out->kernels.items, *joins = schedule_kernel(s->out, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
  part.warms_up = back && s->r->body.lags.count > 0;
  *why = "earlier steps are states, too";
  if (part.warms_up && !joins->recompute) return;
  for (int i = 0; i < s->out->kernels.count; i++) {
    bool makes_states = !back && kernels[i].kind == KERNEL_STATES;
    if (!makes_states && strcmp(kernels[i].symbol, joins->symbol) != 0) continue;
    kernels[i].summary = part.program;
    kernels[i].warms_up = part.warms_up;
    kernels[i].transition_size = part.transition_size;
    kernels[i].value_axis = part.value_axis;
  }
  scheduler_add(s, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY, back ? "part_backward" : "part", part);
}

kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind) {
  for (int i = 0; i < kernels->kernels.count; i++)
    if (kernels->kernels.items[i].kind == kind) return &kernels->kernels.items[i];
  return NULL;
}

// `back` is mapped to threads as the backward.
void scheduler_add_slices(scheduler *s, const tile_program *forward, kernel back) {
  kernel part = back;
  part.cut = forward->grid;
  if (!s->options.gpu || !s->r->states.count) return;
  summary_kernel(s, forward, false, part);
  summary_kernel(s, forward, true, back);
}
