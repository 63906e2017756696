// GPU: tokens of the next steps in shared memory, where each thread runs a recurrence by itself
// (kernel/gpu/step_rows.c).
//
// Rows are copied ahead as long as a multiprocessor holds as many blocks as without them. Short
// rows, which all threads read, come first. They lie in f32: what all threads read is widened once,
// and four numbers are one load.
#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/kernel_plan.h"

row_shape gpu_row_shape(const kernel_plan *w, const program_plan *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  row_shape s = {.axes = tile_body_axes(place), .numbers = 1};
  int slot = kernel_find_slot(w->described, place->role, place);
  s.lane = axis_in(s.axes, w->k->lane_axis);
  s.narrow = s.lane && number_is_narrow(w->m.dtype) && w->described->slots.items[slot].narrow;
  axis_set tile = plan_tile_axes(&w->m, s.axes);
  for (int axis = 0; axis < p->program->axes.count; axis++) {
    int64_t size = axis_in(tile, axis) ? plan_axis_size(p->program, axis) : 1;
    s.numbers = size == TILE_RUNTIME_SIZE ? 0 : s.numbers * size;
  }
  if (s.numbers > GPU_COST_STEP_ROW) s.numbers = 0;
  return s;
}

int64_t gpu_numbers_of_row(const kernel_plan *w, row_shape s) {
  return s.lane ? s.numbers * w->threads : s.numbers;
}

static bool is_token_place(const tile_place *place) {
  return place->time && (place->role == TILE_INPUT || place->role == TILE_D_OUTPUT);
}

bool gpu_is_step_ahead(const program_plan *p, int argument) {
  return is_token_place(tile_argument_place(p->program, argument)) &&
         p->staging_buffers[argument].ahead.in_shared;
}

// Backward: the argument of the main program with the same tokens as this argument of the
// recomputed steps, or -1.
static int same_of_main(const kernel_plan *w, const program_plan *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  for (int i = 0; p != &w->main && i < w->main.program->arguments.count; i++) {
    const tile_place *other = tile_argument_place(w->main.program, i);
    bool same = other->role == place->role && other->tensor == place->tensor &&
                other->lag == place->lag && other->component == place->component;
    if (same && gpu_is_step_ahead(&w->main, i)) return i;
  }
  return -1;
}

static location take_shared_words(kernel_plan *w, int64_t words) {
  location at = {w->shared_words, -1, true};
  w->shared_words += words;
  return at;
}

// Elements of shared memory that a block may take for rows.
static int64_t limit_of(const kernel_plan *w) {
  enum { OF_A_KIB = 256, OF_A_BLOCK = GPU_SYSTEM_KIB * OF_A_KIB };
  bool large = w->shared_limit > GPU_SMALL_KIB * OF_A_KIB;
  int64_t all = machine_device_of(large ? GPU_SM_90A : GPU_SM_80).shared_kib * OF_A_KIB,
          blocks = all / (w->shared_words + OF_A_BLOCK);
  if (blocks > GPU_COST_STEP_BLOCKS) blocks = GPU_COST_STEP_BLOCKS;
  int64_t limit = blocks ? all / blocks - OF_A_BLOCK : 0;
  return limit < w->shared_limit ? limit : w->shared_limit;
}

static void place_step_rows(kernel_plan *w, program_plan *p, int argument, int64_t limit) {
  enum { LINE = 32 };
  row_shape s = gpu_row_shape(w, p, argument);
  int same = same_of_main(w, p, argument);
  int64_t numbers = gpu_numbers_of_row(w, s) * w->k->chunk;
  int64_t words = ((s.narrow ? (numbers + 1) / 2 : numbers) + LINE - 1) / LINE * LINE;
  if (same >= 0) {
    p->staging_buffers[argument] = w->main.staging_buffers[same];
  } else if (words && w->shared_words + 2 * words <= limit) {
    p->staging_buffers[argument].at = take_shared_words(w, words);
    p->staging_buffers[argument].ahead = take_shared_words(w, words);
  }
}

// The programs of the kernel; returns their number.
static int programs_of(kernel_plan *w, program_plan *programs[2]) {
  programs[0] = &w->main;
  programs[1] = &w->recompute;
  return w->recomputes ? 2 : 1;
}

void gpu_place_steps(kernel_plan *w) {
  program_plan *programs[2];
  if (w->m.kind != MAP_THREADS) return;
  int64_t limit = limit_of(w);
  for (int n = 0, count = 2 * programs_of(w, programs); n < count; n++) {
    program_plan *p = programs[n / 2];
    for (int i = 0; i < p->program->arguments.count; i++) {
      bool lane = is_token_place(tile_argument_place(p->program, i)) && gpu_row_shape(w, p, i).lane;
      if (is_token_place(tile_argument_place(p->program, i)) && lane == n % 2)
        place_step_rows(w, p, i, limit);
    }
  }
}

bool gpu_copies_step(const kernel_plan *w, const program_plan *p, int argument) {
  return gpu_is_step_ahead(p, argument) && same_of_main(w, p, argument) < 0;
}
