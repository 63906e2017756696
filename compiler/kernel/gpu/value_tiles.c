// GPU: backward kernels that compute value-axis tiles, or entries of the lane axis, one after
// another in each group of chunks.
//
//   for group of chunks from the last:
//     for tile:
//       cotangents of its states in; recompute the states before each chunk of the group
//       chunks from the last
//       cotangents out
//
// All tiles read shared rows, of q or of B, while these are in a cache. Their gradient is added up
// from tile to tile, and the last tile stores it. Between tiles, the cotangents of states and the
// sums of a group lie in the scratch of the block. Only the current tile has recomputed states.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

// ---- sums over tiles ----

// i1: the tile is the first, or the last, along all of these axes.
static ir at_end_of(kernel_frame *h, axis_set axes, bool last) {
  emitter *e = h->e;
  const kernel *k = h->k;
  ir here = LLVMConstInt(e->i1, 1, 0), one = integer(e, 1);
  if (k->gpu.lanes == LANES_IN_TURN && axis_in(axes, k->lane_axis)) {
    ir end = last ? int_sub(e, h->gpu->tiles.entries, one) : integer(e, 0);
    here = int_compare(e, LLVMIntEQ, h->gpu->tiles.entry, end);
  }
  if (k->gpu.value_entries && axis_in(axes, k->gpu.value_axis)) {
    ir end = integer(e, last ? (gpu_tiles_of(k) - 1) * k->gpu.value_entries : 0);
    here = bit_and(e, here, int_compare(e, LLVMIntEQ, h->tile_first, end));
  }
  return here;
}

void gpu_value_tile_target(kernel_frame *h, const frame_program *p, int result,
                           result_target *target) {
  emitter *e = h->e;
  const tile_place *place = &p->program->results.items[result].place;
  location at = h->plan->sums_at[result];
  axis_set lacking = gpu_value_tile_axes(h->k) & ~tile_body_axes(place);
  target->first_pass = at_end_of(h, lacking, false);
  target->in_passes = at.offset >= 0;
  if (!target->in_passes) {  // all tiles make the same value; only the first one stores it
    target->active = bit_and(e, target->active, target->first_pass);
    return;
  }
  target->last_pass = at_end_of(h, lacking, true);
  view v = {.base = frame_located(h, at), .alignment = 4};
  int64_t stride = 1;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) continue;
    v.stride[axis] = integer(e, stride);
    if (axis_in(h->m.tiled, axis))
      v.base = element(e, e->real, v.base, int_mul(e, h->tile_first, v.stride[axis]));
    stride *= gpu_whole_size(h->plan, axis);
  }
  if (place->time) v.stride[p->program->time_axis] = integer(e, stride);
  if (place->time && h->gpu->tiles.chunk)
    v.base =
        element(e, e->real, v.base, int_mul_n(e, h->gpu->tiles.chunk, stride * p->program->chunk));
  target->sums = v;
}

// ---- one tile ----

static void open_pass(kernel_frame *h, ir pass) {
  emitter *e = h->e;
  const kernel *k = h->k;
  ir tiles = integer(e, gpu_tiles_of(k));
  h->gpu->tiles.entry = int_div(e, pass, tiles);
  h->tile_first = int_mul_n(e, int_rem(e, pass, tiles), k->gpu.value_entries);
  if (k->gpu.lanes == LANES_IN_TURN) {
    ir before = int_mul_n(e, h->gpu->lane_block, k->lane_block);
    h->at.index[k->lane_axis] = int_add(e, before, h->gpu->tiles.entry);
  }
  ir offset = int_mul_n(e, pass, h->plan->instance_numbers);
  h->local = element(e, e->real, frame_scratch_at(h, h->scratch, h->plan->shared_numbers), offset);
  frame_open_instance(h, &h->recompute);
  frame_open_instance(h, &h->main);
}

static bool varies(const kernel_frame *h, const frame_program *p) {
  for (int id = 0; id < p->p->program->values.count; id++) {
    const plan_value *v = &p->p->values[id];
    if (!v->needed || v->region != REGION_PROLOGUE) continue;
    if (tile_at(p->p->program, id)->axes & gpu_value_tile_axes(h->k)) return true;
  }
  return false;
}

// The prologue runs once, unless tiles have parameters of their own.
static void prologue_of_pass(kernel_frame *h, frame_program *p) {
  if (varies(h, p)) lower_region(&p->l, REGION_PROLOGUE);
}

static void move_carried_states(kernel_frame *h, bool in) {
  frame_program *p = &h->main;
  for (int c = 0; c < p->carried.count; c++) {
    view home = p->l.carried[c];
    home.base = frame_scratch_at(h, h->local, h->plan->spill_at[c].offset);
    const view *near = &p->l.carried[c];
    frame_copy_state(h, p, &p->carried.items[c].place, in ? &home : near, in ? near : &home);
  }
}

static emit_loop begin_passes(kernel_frame *h) {
  emitter *e = h->e;
  ir passes = int_mul_n(e, h->gpu->tiles.entries, gpu_tiles_of(h->k));
  emit_loop loop = loop_begin(e, integer(e, 0), passes, 1, "pass");
  open_pass(h, loop.index);
  return loop;
}

void gpu_group_in_value_tiles(kernel_frame *h, ir group, ir first, ir chunks) {
  emit_loop loop = begin_passes(h);
  move_carried_states(h, true);
  prologue_of_pass(h, &h->recompute);
  prologue_of_pass(h, &h->main);
  gpu_group_back(h, group, first, chunks);
  move_carried_states(h, false);
  loop_end(h->e, &loop);
}

void gpu_clear_value_tiles(kernel_frame *h) {
  emit_loop loop = begin_passes(h);
  frame_clear_sums(h, &h->main);
  loop_end(h->e, &loop);
}

// ---- the instance ----

static void count_entries(kernel_frame *h) {
  emitter *e = h->e;
  const kernel *k = h->k;
  h->gpu->tiles.entries = integer(e, 1);
  if (k->gpu.lanes != LANES_IN_TURN) return;
  ir before = int_mul_n(e, h->gpu->lane_block, k->lane_block);
  ir rest = int_sub(e, h->axis_size[k->lane_axis], before);
  h->gpu->tiles.entries = int_min(e, rest, integer(e, k->lane_block));
}

static void states_in(kernel_frame *h) {
  emit_loop loop = begin_passes(h);
  gpu_load_states(h, &h->main);
  move_carried_states(h, false);
  frame_clear_sums(h, &h->main);
  loop_end(h->e, &loop);
}

static void states_out(kernel_frame *h) {
  emit_loop loop = begin_passes(h);
  move_carried_states(h, true);
  prologue_of_pass(h, &h->main);
  gpu_store_states(h, &h->main);
  lower_region(&h->main.l, REGION_EPILOGUE);
  loop_end(h->e, &loop);
}

void gpu_instance_in_value_tiles(kernel_frame *h) {
  gpu_open_program(h, &h->recompute);
  gpu_open_program(h, &h->main);
  count_entries(h);
  states_in(h);
  open_pass(h, integer(h->e, 0));
  if (!varies(h, &h->recompute)) lower_region(&h->recompute.l, REGION_PROLOGUE);
  if (!varies(h, &h->main)) lower_region(&h->main.l, REGION_PROLOGUE);
  gpu_groups_back(h);
  states_out(h);
}
