// Host, step form: a panel is the lanes that go through time together. What has no lanes and follows
// from tokens alone, such as gates of keys, is the same in all panels of an instance.
//
//   for panel: for t: %8 [K] = exp2 ..; the step   ->   for chunk: for t: stash 0 = exp2 ..
//                                                                  for panel: for t: the step
//
// The states of all panels are in memory from chunk to chunk.
#include "compiler/plan/kernel_plan.h"

// Work of the values of a section, for a panel.
static double section_work(const kernel_plan *w, const tile_program *p, tile_section section) {
  const tile_section *sections = tile_sections(w->a, p);
  int64_t *sizes = ARENA_ARRAY(w->a, int64_t, p->axes.count);
  for (int i = 0; i < p->axes.count; i++)
    sizes[i] = axis_in(w->m.instance, i) ? 1 : p->axes.items[i].size;
  if (w->m.lane_axis >= 0) sizes[w->m.lane_axis] = w->m.lanes;
  double work = 0;
  for (int i = 0; i < p->values.count; i++)
    if (sections[i] == section) work += tile_value_cost(p, i, sizes);
  return work;
}

static bool has_known_sizes(const kernel_plan *w, const tile_program *p) {
  axis_set axes = 0;
  for (int i = 0; i < p->values.count; i++) axes |= p->values.items[i].axes;
  return plan_sized(p, plan_tile_axes(&w->m, axes));
}

// Last lanes without masks go one by one, and each would be a panel. The chunks of panels run forward
// in time: the kernels of a backward make all values in each panel.
static bool may_share(const kernel_plan *w, codegen_clone clone) {
  const kernel *k = w->k;
  if (w->m.kind != MAP_LANES || k->program->form != TILE_STEP || w->m.lane_axis < 0) return false;
  if (pass_is_left_out(k->without, kernel_stage.name_of(KERNEL_PASS_PANELS))) return false;
  if (!clone_targets[clone].masks && host_has_rest(w)) return false;
  int64_t lanes = k->program->axes.items[w->m.lane_axis].size;
  bool several = lanes == TILE_RUNTIME_SIZE || lanes > w->m.lanes;
  bool reverse = kernel_goes_back(k->kind);
  return several && !reverse && has_known_sizes(w, k->program);
}

void host_share_between_panels(kernel_plan *w, codegen_clone clone) {
  if (!may_share(w, clone)) return;
  double start = pass_clock();
  tile_program *rest;
  tile_program *shared = tile_values_without(w->a, w->k->program, w->m.lane_axis, &rest);
  double saved = section_work(w, shared, TILE_BODY) * w->k->chunk;
  bool gains = shared->results.count && saved > section_work(w, rest, TILE_PROLOGUE);
  if (gains) {
    kernel *k = ARENA_NEW(w->a, kernel);
    *k = *w->k;
    k->program = rest;
    w->k = w->m.kernel = k;
    w->common.program = shared;
    w->panels = (k->lane_block + w->m.lanes - 1) / w->m.lanes;
  }
  pass_ran(&kernel_stage, KERNEL_PASS_PANELS, pass_clock() - start, gains ? 2 : 0);
}
