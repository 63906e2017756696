// GPU: time slices. Each work item computes a range of the steps.
//
//   without states:   the slices are independent
//   KERNEL_SUMMARY:   states 0 (the kernel has no slot for h0), factors 1 .. all chunks of the slice .. summary in frame.summary
//   KERNEL_FORWARD:   states before the first step; for each slice before this one: states = factor * states + summary
//                     .. all chunks of the slice .. the last slice hands the states out
//
// STATES does as FORWARD. Backward does the same from the end. With one slice these kernels run as
// if there were none.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/gpu/nests.h"

// A member of the frame's slice summaries.
static ir summary_field(kernel_frame *h, size_t offset, LLVMTypeRef type) {
  return frame_field(h, h->frame, (int64_t)(offsetof(rec_gpu_frame, summaries) + offset), type);
}

static bool cuts_time(const kernel_frame *h) {
  return h->described->time_splits || h->described->combines || gpu_makes_summaries(h->k);
}

// ---- steps ----

void gpu_read_slice(kernel_frame *h, ir *item) {
  emitter *e = h->e;
  h->gpu->tiles.count = integer(e, 1);
  h->gpu->slice.number = h->gpu->slice.last = integer(e, 0);
  if (!cuts_time(h)) return;
  h->gpu->tiles.count = gpu_frame_number(h, offsetof(rec_gpu_frame, slices));
  h->gpu->slice.number = int_split(e, item, h->gpu->tiles.count);
}

// No slice follows the last one, so its summary is not computed.
static void skip_last(kernel_frame *h) {
  emitter *e = h->e;
  ir last = kernel_goes_back(h->k->kind) ? integer(e, 0) : h->gpu->slice.last;
  h->time =
      int_choose(e, int_compare(e, LLVMIntEQ, h->gpu->slice.number, last), integer(e, 0), h->time);
}

// Do states depend on earlier steps of tokens? A slice then begins one chunk before its own steps,
// to warm up.
static bool warms_up(const kernel *k) {
  if (!gpu_makes_summaries(k) || k->program->form != TILE_CHUNK) return false;
  for (int i = 0; i < k->program->results.count; i++)
    if (k->program->results.items[i].place.lag >= 0) return true;
  return false;
}

static void begin_earlier(kernel_frame *h) {
  emitter *e = h->e;
  ir steps = integer(e, h->k->program->chunk), none = integer(e, 0);
  ir behind = int_compare(e, LLVMIntSGT, h->gpu->slice.number, none);
  h->gpu->slice.begins_earlier = bit_and(e, behind, int_compare(e, LLVMIntSGT, h->time, none));
  ir more = int_choose(e, h->gpu->slice.begins_earlier, steps, none);
  h->gpu->entry_step = int_sub(e, h->gpu->entry_step, more);
  h->time = int_add(e, h->time, more);
}

void gpu_end_warm_up(kernel_frame *h, frame_program *p, ir turn) {
  emitter *e = h->e;
  if (!warms_up(h->k)) return;
  ir now = bit_and(e, h->gpu->slice.begins_earlier, int_compare(e, LLVMIntEQ, turn, integer(e, 1)));
  emit_branch branch = branch_begin(e, now);
  gpu_begin_factors(h, p);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer || place->lag >= 0) continue;
    frame_copy_state(h, p, place, NULL, &p->l.carried[c]);
    gpu_begin_column(h, p, place, &p->l.carried[c]);
  }
  gpu_begin_maxima(h, p);
  gpu_show_states(h, p);
  branch_end(e, &branch);
}

// Backward: cotangents of earlier steps come from steps after the slice. BACKWARD takes a chunk
// more; the slices of SUMMARY_BACK lie a chunk later.
static ir begin_warm_up(kernel_frame *h, ir steps, ir *before) {
  emitter *e = h->e;
  ir more = integer(e, h->k->chunk);
  if (gpu_makes_summaries(h->k)) {
    *before = int_add(e, *before, more);
    return steps;
  }
  h->gpu->slice.own_groups = int_div(e, int_add_n(e, steps, h->k->chunk - 1), more);
  return int_add(e, steps, more);
}

static void open_summary(kernel_frame *h) {
  emitter *e = h->e;
  ir first = int_low(e, int_mul(e, h->batch, h->gpu->tiles.count)),
     base = summary_field(h, offsetof(rec_gpu_summaries, data), e->data);
  h->gpu->slice.summary_stride = summary_field(h, offsetof(rec_gpu_summaries, stride), e->i64);
  h->gpu->slice.summary =
      element(e, e->real, base, int_mul(e, first, h->gpu->slice.summary_stride));
}

void gpu_cut_slice(kernel_frame *h) {
  emitter *e = h->e;
  if (!cuts_time(h)) return;
  ir whole = int_compare(e, LLVMIntEQ, h->gpu->tiles.count, integer(e, 1));
  if (h->described->combines) open_summary(h);
  if (h->described->combines) whole = bit_or(e, whole, gpu_summaries_overflow(h, whole));
  ir all = int_max(e, h->time, integer(e, 1));
  ir steps = int_choose(e, whole, all, gpu_frame_number(h, offsetof(rec_gpu_frame, slice_steps)));
  ir before = int_mul(e, h->gpu->slice.number, steps);
  h->gpu->slice.last = int_sub_n(e, all, 1);
  int_split(e, &h->gpu->slice.last, steps);
  if (h->k->warms_up) steps = begin_warm_up(h, steps, &before);
  h->gpu->entry_step = int_add(e, h->gpu->entry_step, before);
  h->time = int_max(e, int_min(e, int_sub(e, h->time, before), steps), integer(e, 0));
  if (gpu_makes_summaries(h->k)) skip_last(h);
  if (warms_up(h->k)) begin_earlier(h);
  if (!h->described->combines && !h->described->reads_saved) return;
  ir stride = gpu_frame_number(h, offsetof(rec_gpu_frame, saved_chunk_stride));
  ir chunks = int_div_n(e, before, h->k->chunk);
  h->gpu->saved_first = int_add(e, h->gpu->saved_first, int_mul(e, chunks, stride));
}

ir gpu_is_last_slice(kernel_frame *h, const frame_program *p) {
  return int_compare(h->e, LLVMIntEQ, h->gpu->slice.number,
                     p->backward ? integer(h->e, 0) : h->gpu->slice.last);
}

void gpu_begin_group(kernel_frame *h, ir group) {
  bool behind = h->k->warms_up && h->k->kind == KERNEL_BACKWARD;
  h->gpu->slice.in_warm_up =
      behind ? int_compare(h->e, LLVMIntSGE, group, h->gpu->slice.own_groups) : NULL;
}

// The steps of the warm-up belong to another slice: their sums begin again at 0.
void gpu_end_group(kernel_frame *h) {
  if (!h->gpu->slice.in_warm_up) return;
  emit_branch branch = branch_begin(h->e, h->gpu->slice.in_warm_up);
  if (h->plan->in_tiles)
    gpu_clear_value_tiles(h);
  else
    frame_clear_sums(h, &h->main);
  branch_end(h->e, &branch);
}

// ---- at the start and the end of a slice ----

void gpu_begin_factors(kernel_frame *h, frame_program *p) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->transfer)
      frame_fill_state(h, p, place, kernel_first_transfer(place), &p->l.carried[c]);
  }
}

void gpu_end_slice(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  open_summary(h);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *state = &p->carried.items[c].place;
    const tile_place *place = gpu_summary_place(h, state, state->transfer, state->component);
    view to = gpu_summary_entry(h, place, h->gpu->slice.number);
    if (h->gpu->team.shares) to.aligned = gpu_aligned(h, p, &to, tile_body_axes(place));
    ir here = gpu_by_this_thread(h, frame_writes_state(h, place));
    if (h->gpu->slice.of_matrix) here = bit_and(e, here, bit_not(e, h->gpu->slice.of_matrix));
    emit_branch branch = branch_begin(e, here);
    frame_copy_state(h, p, state, &p->l.carried[c], &to);
    branch_end(e, &branch);
    if (h->gpu->slice.of_matrix) gpu_end_column(h, p, state, &p->l.carried[c]);
  }
  gpu_overflow_of_slice(h, p);
}

// ---- combining summaries ----

enum { MOST_JOINED = 4 };

// A state that is combined: its components, and the view of each in the summary of slice 0. Or
// states that are made of each other: across[i][k] is the factor of state k in state i.
typedef struct combined {
  kernel_frame *h;
  int count;
  const view *state[MOST_JOINED];
  view kept[MOST_JOINED], factor[2];
  bool coupled, leads[MOST_JOINED][MOST_JOINED];
  view across[MOST_JOINED][MOST_JOINED];
  axis_set axes, factor_axes;
  ir stride;  // elements between the summaries of two slices
  bool back;
} combined;

static view at_slice(const combined *j, const view *v, ir number) {
  view there = *v;
  there.base = element(j->h->e, j->h->e->real, v->base, int_mul(j->h->e, number, j->stride));
  return there;
}

// x = factor * x + summary, for complex numbers.
static void combine_slice(lower *l, const place_in_loops *at, const combined *j, ir number,
                          const ir *slots) {
  emitter *e = l->e;
  ir x[2], f[2], next[2];
  int lanes = at->vector_axis >= 0 ? at->lanes : 0;
  for (int k = 0; k < j->count; k++) {
    view kept = at_slice(j, &j->kept[k], number), factor = at_slice(j, &j->factor[k], number);
    x[k] = load_real(e, slots[k], lanes);
    f[k] = spread(e, view_load(l, &factor, at, j->factor_axes), lanes);
    next[k] = view_load(l, &kept, at, j->axes);
  }
  next[0] = real_fma(e, f[0], x[0], next[0]);
  if (j->count == 2) {
    next[0] = real_fma(e, real_neg(e, f[1]), x[1], next[0]);
    next[1] = real_fma(e, f[0], x[1], real_fma(e, f[1], x[0], next[1]));
  }
  for (int k = 0; k < j->count; k++) store_real(e, next[k], slots[k]);
}

// The same for states that are made of each other.
static void combine_coupled(lower *l, const place_in_loops *at, const combined *j, ir number,
                            const ir *slots) {
  emitter *e = l->e;
  ir x[MOST_JOINED], next[MOST_JOINED];
  int lanes = at->vector_axis >= 0 ? at->lanes : 0;
  for (int k = 0; k < j->count; k++) x[k] = load_real(e, slots[k], lanes);
  for (int i = 0; i < j->count; i++) {
    view kept = at_slice(j, &j->kept[i], number);
    next[i] = view_load(l, &kept, at, j->axes);
    for (int k = 0; k < j->count; k++) {
      if (!j->leads[i][k]) continue;
      view across = at_slice(j, &j->across[i][k], number);
      ir factor = spread(e, view_load(l, &across, at, j->factor_axes), lanes);
      next[i] = real_fma(e, factor, x[k], next[i]);
    }
  }
  for (int k = 0; k < j->count; k++) store_real(e, next[k], slots[k]);
}

static ir number_in_order(const combined *j, ir index) {
  return j->back ? int_sub(j->h->e, j->h->gpu->slice.last, index) : index;
}

static emit_loop each_part_before(const combined *j) {
  kernel_frame *h = j->h;
  ir slices =
      j->back ? int_sub(h->e, h->gpu->slice.last, h->gpu->slice.number) : h->gpu->slice.number;
  return loop_begin(h->e, integer(h->e, 0), slices, 1, "part");
}

// A register-resident state: all elements of a thread at once, so that the loads of a summary
// overlap.
static void combine_registers(lower *l, const combined *j, const register_accumulators *kept) {
  emit_loop loop = each_part_before(j);
  ir number = number_in_order(j, loop.index);
  view left = at_slice(j, &j->kept[0], number), factor = at_slice(j, &j->factor[0], number);
  gpu_accumulators_combine(l, kept, &left, j->axes, &factor, j->factor_axes);
  loop_end(l->e, &loop);
}

// A state in memory: several elements of a thread at once, so that the loads of a summary overlap.
// A single element is read by the thread that stores it.
static void combine_points(lower *l, const place_in_loops *at, int count, void *data) {
  enum { PLENTY = 8 };
  const combined *j = data;
  emitter *e = l->e;
  emit_branch own = {0};
  if (l->only) own = branch_begin(e, l->only);
  int lanes = at->vector_axis >= 0 ? at->lanes : 0;
  ir slots[MOST_POINTS_AT_ONCE][MOST_JOINED];
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < j->count; k++) {
      slots[i][k] = stack_slot(e, real_type(e, lanes), "joined");
      store_real(e, view_load(l, j->state[k], &at[i], j->axes), slots[i][k]);
    }
  }
  emit_loop loop = each_part_before(j);
  for (int i = 0; i < count; i++)
    (j->coupled ? combine_coupled : combine_slice)(l, &at[i], j, number_in_order(j, loop.index),
                                                   slots[i]);
  (count * lanes >= PLENTY ? loop_end_kept : loop_end)(e, &loop);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < j->count; k++)
      view_store(l, j->state[k], &at[i], j->axes, load_real(e, slots[i][k], lanes));
  if (l->only) branch_end(e, &own);
}

static void join_point(lower *l, const place_in_loops *at, void *data) {
  combine_points(l, at, 1, data);
}

static const view *carried_view(const frame_program *p, const tile_place *state, int component) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->tensor == state->tensor && place->component == component) return &p->l.carried[c];
  }
  ICE("kernel", "no component %d of state %s", component, state->name ? state->name : "?");
}

// The closure of the states that this state is made of or that are made of it, in order, with
// itself.
static int find_coupled(const kernel_frame *h, const frame_program *p, const tile_place *state,
                        const tile_place *all[MOST_JOINED]) {
  const tile_place *group[MOST_JOINED] = {state};
  int count = 1, ordered = 0;
  for (int i = 0; i < count; i++) {
    for (int c = 0; c < p->carried.count; c++) {
      const tile_place *other = &p->carried.items[c].place;
      bool known =
          other->lag >= 0 || !kernel_couples(h->k->summary, group[i]->tensor, other->tensor);
      for (int k = 0; k < count; k++) known = known || group[k]->tensor == other->tensor;
      if (!known && count == MOST_JOINED) ICE("kernel", "%s joins too many states", h->symbol);
      if (!known) group[count++] = other;
    }
  }
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    for (int k = 0; k < count && place->lag < 0 && !place->component; k++)
      if (group[k]->tensor == place->tensor) all[ordered++] = place;
  }
  return ordered;
}

// Combines a closure of states at once, when the first of them comes.
static void combine_states(kernel_frame *h, frame_program *p, const tile_place *const *states,
                           int count) {
  combined j = {.h = h, .count = count, .back = p->backward, .coupled = true};
  j.stride = h->gpu->slice.summary_stride;
  j.axes = tile_body_axes(states[0]);
  for (int i = 0; i < count; i++) {
    j.state[i] = carried_view(p, states[i], 0);
    j.kept[i] = gpu_aligned_summary_entry(h, p, gpu_summary_place(h, states[i], false, 0),
                                          integer(h->e, 0));
    for (int k = 0; k < count; k++) {
      int from = i == k ? 0 : 1 + states[k]->tensor;
      const tile_place *factor = gpu_find_summary_place(h, states[i], true, 0, from);
      j.leads[i][k] = factor;
      if (!factor) continue;
      j.across[i][k] = gpu_aligned_summary_entry(h, p, factor, integer(h->e, 0));
      j.factor_axes = tile_body_axes(factor);
    }
  }
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, j.axes), false, join_point, &j);
}

static void join_state(kernel_frame *h, frame_program *p, const tile_place *state) {
  const tile_place *all[MOST_JOINED];
  int coupled = find_coupled(h, p, state, all);
  if (coupled > 1) {
    if (all[0]->tensor == state->tensor) combine_states(h, p, all, coupled);
    return;
  }
  combined j = {.h = h, .count = kernel_is_complex(h->k, state) ? 2 : 1, .back = p->backward};
  j.stride = h->gpu->slice.summary_stride;
  j.axes = tile_body_axes(state);
  for (int k = 0; k < j.count; k++) {
    const tile_place *factor = gpu_summary_place(h, state, true, k);
    j.state[k] = carried_view(p, state, k);
    j.kept[k] =
        gpu_aligned_summary_entry(h, p, gpu_summary_place(h, state, false, k), integer(h->e, 0));
    j.factor[k] = gpu_aligned_summary_entry(h, p, factor, integer(h->e, 0));
    j.factor_axes = tile_body_axes(factor);
  }
  p->l.outside = h->at;
  const register_accumulators *kept = gpu_registers_of(p, j.state[0]);
  if (kept)
    combine_registers(&p->l, &j, kept);
  else if (j.count == 2)
    lower_points(&p->l, plan_tile_axes(&h->m, j.axes), false, join_point, &j);
  else
    gpu_copies_at_once(&p->l, plan_tile_axes(&h->m, j.axes), combine_points, &j);
}

// Applies `combine` to each earlier slice, in order.
static void combine_each_slice(kernel_frame *h, frame_program *p,
                               void combine(kernel_frame *, frame_program *, ir)) {
  combined j = {.h = h, .back = p->backward};
  p->l.outside = h->at;
  emit_loop loop = each_part_before(&j);
  combine(h, p, number_in_order(&j, loop.index));
  loop_end(h->e, &loop);
}

// Slices after the last one with steps compute nothing, so they combine nothing.
void gpu_combine_summaries(kernel_frame *h, frame_program *p) {
  emitter *e = h->e;
  ir other = p->backward
                 ? int_compare(e, LLVMIntSLT, h->gpu->slice.number, h->gpu->slice.last)
                 : bit_and(e, int_compare(e, LLVMIntSGT, h->gpu->slice.number, integer(e, 0)),
                           int_compare(e, LLVMIntSLE, h->gpu->slice.number, h->gpu->slice.last));
  emit_branch branch = branch_begin(e, other);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->lag >= 0 && p->backward) continue;
    if (place->lag >= 0) {
      view before = gpu_summary_view(h, p, place, int_sub_n(e, h->gpu->slice.number, 1));
      frame_copy_state(h, p, place, &before, &p->l.carried[c]);
    } else if (place->component == 0 && kernel_has_factor(h->k->summary, place->tensor)) {
      join_state(h, p, place);
    }
  }
  if (h->k->transition_size) combine_each_slice(h, p, gpu_combine_columns);
  if (gpu_combines_maxima(h->k)) combine_each_slice(h, p, gpu_combine_maxima);
  branch_end(e, &branch);
}
