// What nests become on GPUs. The threads of a block divide the points of a loop. Where each thread
// has an entry of the lane axis, every thread runs the loop (team.shares).
#include "compiler/lower/nest_target.h"

#include "compiler/lower/gpu/nests.h"

static void region_in_order(lower *l, nest_range nests) {
  turn_functions turns = {0};
  if (nests.region != REGION_BODY) gpu_forget_accesses(l, false);
  for (int n = nests.first; n <= nests.last;) n += lower_nests_from(l, nests, n, &turns);
  gpu_forget_accesses(l, false);
}

static void around_gpu_nest(lower *l, const plan_nest *nest, nest_lowering *body) {
  team *all = l->team, own = gpu_team_of_nest(l, nest->threads.begin);
  place_in_loops outside = l->outside;
  l->team = &own;
  l->scratch = gpu_scratch_use(l, nest);
  if (gpu_lacks_registers(l)) gpu_place_of_nest(l);
  gpu_before_nest(l, nest);
  body(l, nest);
  if (gpu_nest_feeds_groups(l, nest)) gpu_fence_groups(l);
  l->team = all;
  l->outside = outside;
  l->scratch = SCRATCH_NONE;
}

static void pack_gpu_operand(lower *l, const plan_nest *nest) {
  lower_pack(l, nest, lower_buffer(l, nest->pack));
}

static ir gpu_buffered_value(lower *l, const place_in_loops *at, tile_id id) {
  if (plan_levels_of(l->m, l->p->program, id)) return gpu_segment_at(l, at, id);
  view v = lower_buffer(l, l->p->values[id].buffer);
  return view_load(l, &v, at, value(l, id)->axes);
}

// Threads that share nothing have a copy of a buffer each; equal elements of neighbouring threads
// lie side by side.
static int gpu_buffer_spacing(lower *l, const plan_buffer *b, ir *base) {
  if (l->m->kind != MAP_THREADS || b->stack) return 1;
  *base = element(l->e, l->e->real, *base, l->team->thread);
  return l->team->threads;
}

static bool by_bits(const lower *l, int_fields *f) {
  if (!l->team->shares) return false;
  f->whole = l->team->thread;
  f->groups = l->team->warp;
  return true;
}

// Scratch has no banks, but products read 16 bits there as they read shared memory.
static plan_layout gpu_buffer_layout(const lower *l, const plan_buffer *b, ir base) {
  if (number_is_narrow(b->stored))
    return plan_layout_of_rows(b->stored, known_size(l, b->axes[b->axis_count - 1]));
  return gpu_in_shared_memory(base) ? b->layout : (plan_layout){0};
}

// A thread of a block knows its number in any function.
static void enter_gpu_function(lower *l) {
  team *threads = ARENA_NEW(l->e->a, team);
  *threads = *l->team;
  threads->thread = gpu_call(l->e, GPU_THREAD_X, NULL, 0);
  threads->warp = NULL;
  l->team = threads;
}

static void list_block_sums(lower *l, arena *a, ir_list *into) {
  if (!LLVMIsConstant(l->team->sums)) vec_push(a, into, &l->team->sums);
}

static void points(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner,
                   void *data) {
  gpu_each_point(l, axes, GPU_BODY, at, inner, data);
}

const nest_target gpu_nest_target = {
    .region = region_in_order,
    .around = around_gpu_nest,
    .nests = {[NEST_POINTS] = gpu_points,
              [NEST_PACK] = pack_gpu_operand,
              [NEST_DOT] = gpu_dot,
              [NEST_SOLVE] = gpu_solve,
              [NEST_PREFIX] = gpu_prefix,
              [NEST_SCAN] = lower_scan,
              [NEST_SEGMENT] = gpu_segment,
              [NEST_SEGMENT_ADJOINT] = gpu_segment_adjoint,
              [NEST_FIRST_EXTREME] = lower_first_extreme},
    .points = points,
    .vectors = gpu_vectors,
    .wait = gpu_wait,
    .load = gpu_load,
    .store = gpu_store,
    .buffered = gpu_buffered_value,
    .result = gpu_result,
    .copy = gpu_copy_view,
    .by_bits = by_bits,
    .spacing = gpu_buffer_spacing,
    .layout = gpu_buffer_layout,
    .enter = enter_gpu_function,
    .list = list_block_sums,
    .calls_frequent = true,
    .hands_values = true,
};
