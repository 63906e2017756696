// GPU: the summary of a time slice in memory: the results of the summary program, one after
// another.
#include "compiler/kernel/gpu/frame.h"

ir gpu_summary_elements_of(kernel_frame *h, const tile_place *place) {
  ir numbers = integer(h->e, 1);
  for (int x = 0; x < place->axis_count; x++)
    numbers = int_mul(h->e, numbers, h->axis_size[place->axes[x]]);
  return numbers;
}

const tile_place *gpu_find_summary_place(const kernel_frame *h, const tile_place *state,
                                         bool transfer, int component, int from) {
  const tile_program *ends = gpu_summary_program(h->k);
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    tile_place wanted = *state;
    wanted.transfer = transfer;
    wanted.component = component;
    wanted.source = from;
    if (plan_same_state(place, &wanted)) return place;
  }
  return NULL;
}

const tile_place *gpu_summary_place(const kernel_frame *h, const tile_place *state, bool transfer,
                                    int component) {
  const tile_place *place = gpu_find_summary_place(h, state, transfer, component, state->source);
  if (!place) ICE("kernel", "%s keeps no %s", h->symbol, state->name ? state->name : "?");
  return place;
}

ir gpu_summary_at(kernel_frame *h, ir number, ir offset) {
  return element(h->e, h->e->real, h->gpu->slice.summary,
                 int_add(h->e, int_mul(h->e, number, h->gpu->slice.summary_stride), offset));
}

view gpu_summary_entry(kernel_frame *h, const tile_place *place, ir number) {
  emitter *e = h->e;
  const tile_program *ends = gpu_summary_program(h->k);
  ir offset = integer(e, 0);
  for (int i = 0; &ends->results.items[i].place != place; i++)
    offset = int_add(e, offset, gpu_summary_elements_of(h, &ends->results.items[i].place));
  view v = {.base = gpu_summary_at(h, number, offset)};
  ir stride = integer(e, 1);
  for (int x = place->axis_count - 1; x >= 0; x--) {
    v.stride[place->axes[x]] = stride;
    stride = int_mul(e, stride, h->axis_size[place->axes[x]]);
  }
  frame_move_to_tile(h, &v, tile_body_axes(place));
  return v;
}

view gpu_aligned_summary_entry(kernel_frame *h, frame_program *p, const tile_place *place,
                               ir number) {
  view v = gpu_summary_entry(h, place, number);
  ir rest = bit_and(h->e, h->gpu->slice.summary_stride, integer(h->e, 3));
  if (!h->gpu->team.shares) return v;
  v.aligned = bit_and(h->e, gpu_aligned(h, p, &v, tile_body_axes(place)),
                      int_compare(h->e, LLVMIntEQ, rest, integer(h->e, 0)));
  return v;
}

view gpu_summary_view(kernel_frame *h, frame_program *p, const tile_place *state, ir number) {
  return gpu_aligned_summary_entry(
      h, p, gpu_summary_place(h, state, state->transfer, state->component), number);
}
