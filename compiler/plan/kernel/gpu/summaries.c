// GPU: what the summary of a time slice holds (kernel/gpu/time_slices): states, transition
// matrices, marks of overflow.
#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/kernel_plan.h"

// ---- programs that make summaries ----

bool gpu_makes_summaries(const kernel *k) {
  if (k->summary) return false;
  if (k->transition_size) return true;
  for (int i = 0; i < k->program->results.count; i++)
    if (k->program->results.items[i].place.transfer || k->program->results.items[i].place.relative)
      return true;
  return false;
}

const tile_program *gpu_summary_program(const kernel *k) {
  return gpu_makes_summaries(k) ? k->program : k->summary;
}

// ---- transition matrices ----

bool gpu_is_column(const kernel *k, const tile_place *state) {
  if (!k->transition_size || state->transfer || state->lag >= 0) return false;
  const tile_program *ends = gpu_summary_program(k);
  bool summarised = false;
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    summarised = summarised || (plan_same_state(place, state) && !place->relative);
  }
  return summarised && !kernel_has_factor(ends, state->tensor);
}

int gpu_transition_blocks(const kernel *k) {
  if (!k->transition_size || !gpu_makes_summaries(k)) return 0;
  return (k->transition_size + k->lane_block - 1) / k->lane_block;
}

// The matrix has whole blocks of columns, because a block stores all columns of its own.
int64_t gpu_row_numbers(const kernel *k) {
  int64_t whole = k->recurrence->body.axes.items[k->value_axis].size;
  return kernel_has_own_lanes(k) ? k->transition_size
                                 : (k->transition_size + whole - 1) / whole * whole;
}

static void columns_numbers(arena *a, const kernel *k, codegen_bytes *numbers) {
  const tile_program *ends = gpu_summary_program(k);
  for (int i = 0; ends && i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (!gpu_is_column(k, place)) continue;
    axis_set axes = tile_body_axes(place) & ~axis_bit(k->value_axis);
    codegen_bytes_add(a, numbers, (codegen_bytes_term){gpu_row_numbers(k), axes});
  }
}

// Elements of the states before a slice, which need memory of their own while summaries are
// combined; *begin: the end of the states' memory.
static int64_t elements_before_slice(const kernel *k, const program_plan *p, int64_t *begin) {
  int64_t numbers = 0;
  for (int c = 0; c < p->carried.count; c++) {
    const plan_buffer *b = &p->carried.items[c].memory;
    location at = p->carried_at[c];
    if (gpu_is_column(k, &p->carried.items[c].place)) numbers += b->numbers.factor;
    if (at.in_shared && at.offset + b->numbers.factor > *begin)
      *begin = at.offset + b->numbers.factor;
  }
  return numbers;
}

void gpu_place_columns(kernel_plan *w) {
  if (!w->k->summary || !w->k->transition_size) return;
  if (kernel_has_own_lanes(w->k)) {
    w->combined_at = gpu_take(w, w->k->transition_size);
    return;
  }
  int64_t begin = w->sums + GPU_MOST_WARPS, numbers = elements_before_slice(w->k, &w->main, &begin);
  begin = (begin + 31) / 32 * 32;
  bool fits = begin + numbers <= w->shared_limit;  // no buffer is alive yet
  w->combined_at = (location){fits ? begin : w->shared_numbers, -1, fits};
  int64_t *used = fits ? &w->shared_words : &w->shared_numbers;
  int64_t end = w->combined_at.offset + (numbers + 31) / 32 * 32;
  if (end > *used) *used = end;
}

// ---- marks of overflow ----

axis_set gpu_overflow_axes(const kernel *k) {
  axis_set axes = kernel_grid_of(k) & ~kernel_tiled_axes(k);
  return kernel_has_own_lanes(k) ? axes & ~axis_bit(k->lane_axis) : axes;
}

// The most thread blocks that share an instance: tiles of the longest axis, and blocks of columns.
int64_t gpu_most_blocks(const kernel *k) {
  const typed_body *body = &k->recurrence->body;
  int64_t longest = 1, fewest = GPU_COST_FEWEST_ENTRIES;
  for (int i = 0; i < body->axes.count; i++)
    if (body->axes.items[i].size > longest) longest = body->axes.items[i].size;
  if (k->transition_size && body->axes.items[k->value_axis].size < fewest)
    fewest = body->axes.items[k->value_axis].size;
  return (longest + GPU_COST_FEWEST_ENTRIES - 1) / GPU_COST_FEWEST_ENTRIES +
         (k->transition_size + fewest - 1) / fewest;
}

static void guard_numbers(arena *a, const kernel *k, codegen_bytes *numbers) {
  axis_set axes = gpu_overflow_axes(k);
  if (kernel_has_own_lanes(k))
    codegen_bytes_add(a, numbers, (codegen_bytes_term){1, axes | axis_bit(k->lane_axis)});
  int64_t rest = kernel_has_own_lanes(k) ? k->transition_size : gpu_most_blocks(k);
  if (rest) codegen_bytes_add(a, numbers, (codegen_bytes_term){rest, axes});
}

int64_t gpu_overflow_sums(const kernel_plan *w) {
  bool guards = w->k->summary || gpu_makes_summaries(w->k);
  return guards ? w->threads / GPU_WARP_LANES : 0;
}

// ---- all of a summary ----

codegen_bytes gpu_summary_numbers(arena *a, const kernel *k) {
  codegen_bytes numbers = {0};
  const tile_program *ends = gpu_summary_program(k);
  for (int i = 0; ends && i < ends->results.count; i++) {
    axis_set axes = tile_body_axes(&ends->results.items[i].place);
    codegen_bytes_add(a, &numbers, (codegen_bytes_term){1, axes});
  }
  if (!ends) return numbers;
  columns_numbers(a, k, &numbers);
  guard_numbers(a, k, &numbers);
  return numbers;
}
