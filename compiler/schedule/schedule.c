/* Scheduling: which program computes a recurrence, which axes become instances, which axis lies in the lanes.
 *
 *   ssd (G, R, P = 64, N = 128)   ->   step form: instances G, R; lanes P
 *
 * An axis may be cut into instances if nothing in the forward program consumes it, and if no cotangent of a state gets
 * it where the state lacks it: the partial cotangents would have to be added up at every step. Only where the size of
 * such an axis is not known do the parts stay apart (tile_place.partial), for what is not cut must have a size.
 * The lane axis is one that every state has, so that the states stay in registers, contiguous in as many tensors of the
 * recurrence as possible.
 */
#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/kernel.h"
#include "compiler/schedule/relative.h"
#include "compiler/schedule/save.h"

typedef struct scheduler {
  arena *a;
  const recurrence *r;
  schedule_options options;
  recurrence_kernels *out;
} scheduler;

static const char *const form_texts[FORM_COUNT] = {"chosen", "step", "chunk"};

const char *schedule_form_text(schedule_form form) { return form_texts[form]; }

schedule_form schedule_form_find(const char *text) {
  int form = 0;
  while (form < FORM_COUNT && strcmp(form_texts[form], text) != 0) form++;
  return (schedule_form)form;
}

static int64_t size_of(const scheduler *s, int axis) { return s->r->body.axes.items[axis].size; }

/* Axes that cotangents of states have and the states lack, but those whose parts stay apart until the end. */
static axis_set partial_axes(arena *a, const tile_program *backward) {
  const axis_set *partial = tile_partial(a, backward);
  axis_set axes = 0;
  for (int i = 0; i < backward->results.count; i++) {
    const tile_result *result = &backward->results.items[i];
    if (result->place.role != TILE_D_STATE) continue;
    axes |= partial[result->value] & ~result->place.partial;
    axes |= backward->values.items[result->value].axes & ~tile_place_axes(backward, &result->place);
  }
  return axes;
}

static axis_set state_axes(const scheduler *s) {
  axis_set common = ~(axis_set)0;
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE) common &= t->axis_set;
  }
  for (int i = 0; i < s->r->body.lags.count; i++) common &= s->r->body.lags.items[i].axes;
  return common;
}

enum { TYPICAL_SIZE = 16 }; /* of an axis of run-time size */

static double numbers_of(const scheduler *s, const typed_tensor *t) {
  double numbers = 1;
  for (int x = 0; x < t->axis_count; x++) {
    int64_t size = size_of(s, t->axes[x]);
    numbers *= size == TYPED_RUNTIME_SIZE ? TYPICAL_SIZE : (double)size;
  }
  return numbers;
}

/* The last axis of a tensor that fills a vector. */
static int long_last_axis(const scheduler *s, const typed_tensor *t) {
  for (int x = t->axis_count - 1; x >= 0; x--) {
    int64_t size = size_of(s, t->axes[x]);
    if (size == TYPED_RUNTIME_SIZE || size >= 8) return t->axes[x];
  }
  return t->axes[t->axis_count - 1];
}

/* Tensors in which the axis is contiguous, or all but, count for it, by the numbers in them. */
static double contiguity(const scheduler *s, int axis) {
  double score = 0;
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE || !t->axis_count || t->complex) continue;
    if (long_last_axis(s, t) == axis)
      score += (t->kind == TENSOR_PARAM ? 1 : 4) * numbers_of(s, t);
  }
  return score;
}

static bool is_matrix_state(const scheduler *s, int lane) {
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    int64_t points = 1;
    for (int x = 0; x < t->axis_count; x++) {
      if (t->axes[x] != lane && size_of(s, t->axes[x]) > 0) points *= size_of(s, t->axes[x]);
    }
    if (points > 32) return true;
  }
  return false;
}

/* Lanes along heads would hold a whole matrix each, and gather most tokens: each operation then takes lanes of its own. */
static bool is_beside_matrix(const scheduler *s, int axis) {
  double all = 0;
  for (int other = 0; other < s->r->body.axes.count; other++) all += contiguity(s, other);
  return is_matrix_state(s, axis) && contiguity(s, axis) < all / 4;
}

enum { SMALLEST_LANES = 2 };

static int choose_lane(const scheduler *s, axis_set grid) {
  int best = -1;
  double best_score = -1;
  axis_set candidates = grid & state_axes(s);
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    int64_t size = size_of(s, axis);
    if (!axis_in(candidates, axis) || (size != TYPED_RUNTIME_SIZE && size < SMALLEST_LANES))
      continue;
    if (is_beside_matrix(s, axis)) continue;
    double score = 2 * contiguity(s, axis) + (size == TYPED_RUNTIME_SIZE || size >= 16);
    if (score >= best_score) best = axis, best_score = score;
  }
  return best;
}

/* A small axis is one block; otherwise whole vectors of every clone, several where there is enough to share out. */
static int lane_block(int64_t size) {
  if (size != TYPED_RUNTIME_SIZE && size <= 16) return (int)size;
  return size == TYPED_RUNTIME_SIZE || size >= 128 ? 64 : 32;
}

/* What the lanes share is computed once for a whole value axis. */
static int host_lanes(const scheduler *s, int lane) {
  int64_t size = size_of(s, lane);
  return size > 0 && size <= 64 && is_matrix_state(s, lane) ? (int)size : lane_block(size);
}

enum { GPU_THREADS = 128, GPU_STEP_CHUNK = 8 };

/* GPU: every thread keeps the state of its entry in registers. */
static int choose_threads(const scheduler *s, axis_set grid) {
  int lane = choose_lane(s, grid);
  return lane >= 0 && is_matrix_state(s, lane) ? -1 : lane;
}

/* Whole warps; those without an entry would compute with the others. */
static int threads_for(int64_t size) {
  enum { WARP = 32 };
  if (size == TYPED_RUNTIME_SIZE || size >= GPU_THREADS) return GPU_THREADS;
  return (int)((size + WARP - 1) / WARP * WARP);
}

axis_set schedule_tensor_axes(const typed_body *body) {
  axis_set axes = 0;
  for (int i = 0; i < body->tensors.count; i++) axes |= body->tensors.items[i].axis_set;
  return axes;
}

static void map_axes(const scheduler *s, kernel *k, axis_set grid, bool lanes) {
  bool gpu = s->options.gpu;
  grid &= schedule_tensor_axes(&s->r->body);
  k->lane_axis = !lanes ? -1 : gpu ? choose_threads(s, grid) : choose_lane(s, grid);
  k->lane_block = 1;
  if (k->lane_axis >= 0 && gpu) {
    k->lane_block = threads_for(size_of(s, k->lane_axis));
  } else if (k->lane_axis >= 0) {
    k->lane_block = host_lanes(s, k->lane_axis);
  }
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    if (axis_in(grid, axis) && axis != k->lane_axis) k->grid_axes[k->grid_count++] = axis;
  }
}

static void add_kernel(scheduler *s, kernel_kind kind, const char *suffix, kernel k) {
  k.kind = kind;
  k.recurrence = s->r;
  k.symbol = arena_printf(s->a, "rec_kernel_%s_%s", s->r->body.name, suffix);
  vec_push(s->a, &s->out->kernels, k);
}

static const tile_program *checked(const scheduler *s, const tile_program *program) {
  const char *wrong = program ? tile_verify(s->a, program) : NULL;
  if (wrong) ICE("schedule", "%s: %s", program->name, wrong);
  return program;
}

/* The forms that the schedule has looked at have theirs. */
static tile_gradient gradient_of(const scheduler *s, const tile_program *forward) {
  for (int i = 0; i < s->out->alternatives.count; i++)
    if (s->out->alternatives.items[i].program == forward) return s->out->alternatives.items[i].gradient;
  return tile_differentiate(s->a, forward);
}

static tile_gradient differentiated(const scheduler *s, tile_program *forward) {
  tile_gradient gradient = gradient_of(s, forward);
  checked(s, gradient.backward);
  checked(s, gradient.recompute);
  return gradient;
}

/* Time is cut into parts only if there is but one instance (runtime/support/split.c): not with grid axes of a known size
 * above 1. */
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

static void carry_kernel(scheduler *s) {
  const kernel *forward = &s->out->kernels.items[0];
  if (!may_be_single(forward)) return;
  tile_program *program = chunk_build_carry(s->a, s->r);
  if (!program) return;
  int lane = choose_lane(s, forward->program->grid);
  axis_set grid = lane < 0 ? 0 : axis_bit(lane);
  for (int i = 0; i < forward->grid_count; i++) grid |= axis_bit(forward->grid_axes[i]);
  kernel k = {.chunk = s->out->chunk, .program = checked(s, tile_finish(s->a, program))};
  map_axes(s, &k, grid & program->grid, true);
  add_kernel(s, KERNEL_CARRY, "carry", k);
}

/* ---- parts of time on a GPU ---- */

/* The lane axis, or axes of known size that a block of threads may have a part of. */
static axis_set column_axes(const scheduler *s, const kernel *part) {
  axis_set axes = part->cut;
  if (part->lane_axis >= 0) return axis_bit(part->lane_axis);
  for (int i = 0; i < part->grid_count; i++) axes &= ~axis_bit(part->grid_axes[i]);
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (size_of(s, axis) == TYPED_RUNTIME_SIZE) axes &= ~axis_bit(axis);
  return axes & (((axis_set)1 << s->r->body.axes.count) - 1);
}

bool kernel_has_factor(const tile_program *ends, int tensor) {
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (place->transfer && !place->relative && place->tensor == tensor) return true;
  }
  return false;
}

bool kernel_couples(const tile_program *ends, int tensor, int other) {
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (!place->source) continue;
    int from = place->source - 1;
    if (place->tensor == tensor && from == other) return true;
    if (place->tensor == other && from == tensor) return true;
  }
  return false;
}

/* Numbers of a column of all states that have no factor, in one instance; 0: one has an axis of run-time size. */
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

/* More columns than this cost more than a state's own. */
enum { MOST_COLUMNS = 256 };

/* Backward: the states before each run, from those that are saved before every few. */
static const tile_program *states_again(scheduler *s, const tile_program *forward, const kernel *part) {
  if (forward->form == TILE_CHUNK && part->chunk == forward->chunk) return NULL;
  const tile_program *states = tile_restrict(s->a, forward, 1u << TILE_NEXT_STATE);
  return checked(s, tile_finish(s->a, tile_simplify(s->a, states)));
}

/* The kernel that makes of each part what FORWARD, or BACKWARD, begins the parts behind it with. */
static void part_kernel(scheduler *s, const tile_program *forward, bool back, kernel part) {
  const tile_program *program = back ? tile_backward(s->a, forward) : schedule_relative(s->a, s->r, forward);
  const char **why = &s->out->whole[back];
  tile_role states = back ? TILE_D_STATE : TILE_NEXT_STATE;
  int axis = -1;
  const tile_program *made =
      tile_transfer(s->a, program, states, column_axes(s, &part), &axis, why);
  if (!made) return;
  part.program = checked(s, tile_finish(s->a, tile_simplify(s->a, made)));
  part.recompute = tile_takes(part.program, 1u << TILE_STATE) ? states_again(s, forward, &part) : NULL;
  if (axis >= 0) {
    int64_t columns = column_numbers(&part, axis);
    *why = "a column of the states has too many entries";
    if (columns < 1 || columns > MOST_COLUMNS) return;
    part.columns = (int)columns;
    part.column_axis = axis;
  }
  kernel *kernels = s->out->kernels.items, *joins = schedule_kernel(s->out, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
  part.behind = back && s->r->body.lags.count > 0;
  *why = "earlier steps are states, too";
  if (part.behind && !joins->recompute) return;
  for (int i = 0; i < s->out->kernels.count; i++) {
    if (strcmp(kernels[i].symbol, joins->symbol) != 0) continue;
    kernels[i].ends = part.program;
    kernels[i].behind = part.behind;
    kernels[i].columns = part.columns;
    kernels[i].column_axis = part.column_axis;
  }
  if (back) {
    add_kernel(s, KERNEL_PART_BACK, "part_backward", part);
  } else if (part.program->form == TILE_STEP) {
    add_kernel(s, KERNEL_PART, "part", part);
  } else {
    /* one function: it makes the states that backward begins chunks with, too */
    add_kernel(s, KERNEL_PART, "states", part);
    for (int i = 0; i < s->out->kernels.count; i++) {
      kernel *k = &s->out->kernels.items[i];
      if (k->kind != KERNEL_STATES) continue;
      k->program = part.program;
      k->columns = part.columns;
      k->column_axis = part.column_axis;
    }
  }
}

kernel *schedule_kernel(const recurrence_kernels *kernels, kernel_kind kind) {
  for (int i = 0; i < kernels->kernels.count; i++)
    if (kernels->kernels.items[i].kind == kind) return &kernels->kernels.items[i];
  return NULL;
}

/* Has every state the axes that are cut into instances? Else several of these would save the same one. */
static bool states_are_apart(const scheduler *s, const kernel *k) {
  axis_set grid = k->lane_axis >= 0 ? axis_bit(k->lane_axis) : 0;
  for (int i = 0; i < k->grid_count; i++) grid |= axis_bit(k->grid_axes[i]);
  return !(grid & ~state_axes(s));
}

/* Without what forward saved, who needs states first makes them, of the parts of states. Where that is BACKWARD, these are made
 * beside the parts of cotangents: three launches with the sums. Where parts of cotangents are made of states, these parts make
 * them, and save them for BACKWARD: three launches, too, of which the last makes sums itself (kernel.sums). Returns why not. */
static const char *make_states_too(scheduler *s) {
  kernel *back = schedule_kernel(s->out, KERNEL_BACKWARD), *part = schedule_kernel(s->out, KERNEL_PART),
         *part_back = schedule_kernel(s->out, KERNEL_PART_BACK);
  if (!tile_takes(back->program, 1u << TILE_STATE | 1u << TILE_STASH) || !part_back) return NULL;
  if (!part) return s->out->whole[0];
  bool first = tile_takes(part_back->program, 1u << TILE_STATE);
  if (first && back->behind) return "earlier steps are states, too";
  if (first && part_back->columns) return "a matrix of cotangents is made of states";
  kernel *makes = first ? part_back : back;
  if (!makes->recompute) return "states are made for single chunks";
  if (!states_are_apart(s, back)) return "blocks share states";
  makes->states = part->program;
  makes->states_columns = part->columns;
  makes->states_column_axis = part->column_axis;
  return NULL;
}

/* `back` is mapped to threads as the backward. */
static void part_kernels(scheduler *s, const tile_program *forward, kernel back) {
  kernel part = back;
  part.cut = forward->grid;
  if (!s->options.gpu || !s->r->states.count) return;
  part_kernel(s, forward, false, part);
  part_kernel(s, forward, true, back);
  s->out->whole_unsaved = make_states_too(s);
}

/* ---- step form ---- */

enum { STEP_CHUNK = 32 };

static axis_set chunk_instances(const scheduler *s, axis_set grid, bool pointwise);

static axis_set of_runtime_size(const scheduler *s, axis_set axes) {
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (size_of(s, axis) != TYPED_RUNTIME_SIZE) axes &= ~axis_bit(axis);
  return axes;
}

/* Do steps multiply with matrices of parameters that are worth blocks of their own? `heads`: the axes of `grid` along which each
 * entry has its own matrix, in all of them. */
static bool has_parameter_matrix(const scheduler *s, const tile_program *program, axis_set grid, axis_set *heads) {
  enum { FEWEST_NUMBERS = 256 };
  const tile_section *sections = tile_sections(s->a, program);
  bool found = false;
  *heads = grid;
  for (tile_id id = 0; id < program->values.count; id++) {
    int matrix = tile_parameter_matrix(program, sections, id);
    if (matrix < 0) continue;
    const tile_value *mul = &program->values.items[program->values.items[id].args[0]];
    axis_set axes = program->values.items[mul->args[matrix]].axes;
    if (cost_elements(program, axes & ~grid) < FEWEST_NUMBERS) continue;
    *heads &= axes;
    found = true;
  }
  return found;
}

static kernel step_kernel(scheduler *s, tile_program *forward, tile_gradient *gradient) {
  *gradient = differentiated(s, forward);
  kernel k = {.chunk = s->out->chunk, .program = checked(s, tile_finish(s->a, forward))};
  axis_set grid = forward->grid & ~partial_axes(s->a, gradient->backward);
  k.cut = forward->grid;
  axis_set heads;
  if (has_parameter_matrix(s, k.program, grid, &heads)) {
    map_axes(s, &k, heads | of_runtime_size(s, grid), false); /* what shares a matrix is multiplied together */
    return k;
  }
  bool together = s->options.gpu && choose_threads(s, grid) < 0;
  map_axes(s, &k, together ? chunk_instances(s, grid, false) : grid, !together);
  return k;
}

/* The same function: a sequence of one step; states that are kept and outputs that are not wanted. But many steps copy the
 * matrices that they multiply with, and one does not; threads that have an entry each never do. */
static void add_steps(scheduler *s, kernel k) {
  axis_set heads;
  bool copies = !s->options.gpu || k.lane_axis < 0;
  bool own = copies && has_parameter_matrix(s, k.program, k.program->grid, &heads);
  add_kernel(s, KERNEL_FORWARD, "forward", k);
  add_kernel(s, KERNEL_STEP, own ? "step" : "forward", k);
  add_kernel(s, KERNEL_STATES, "forward", k);
}

static void step_kernels(scheduler *s, tile_program *forward, const char *why) {
  s->out->form = "step";
  s->out->why = why;
  axis_set heads;
  bool dense = has_parameter_matrix(s, forward, 0, &heads); /* its gradient is a product over the steps of a chunk */
  int chunk = s->options.gpu && !dense ? GPU_STEP_CHUNK : STEP_CHUNK;
  s->out->chunk = s->options.chunk ? s->options.chunk : chunk;
  tile_gradient gradient;
  kernel k = step_kernel(s, forward, &gradient);
  add_steps(s, k);
  k.program = gradient.backward;
  k.recompute = gradient.recompute;
  k.cut &= ~partial_axes(s->a, gradient.backward);
  add_kernel(s, KERNEL_BACKWARD, "backward", k);
  part_kernels(s, forward, k);
}

/* ---- chunk form ---- */

static bool runtime_axes(const scheduler *s, axis_set axes) {
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    if (axis_in(axes, axis) && size_of(s, axis) == TYPED_RUNTIME_SIZE) return true;
  }
  return false;
}

/* One axis of the values stays in the tile, so that every product has long rows; pointwise programs keep all that can be
 * looped over. */
static axis_set chunk_instances(const scheduler *s, axis_set grid, bool pointwise) {
  axis_set sized = 0, instances = 0;
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    if (axis_in(grid, axis) && size_of(s, axis) != TYPED_RUNTIME_SIZE) sized |= axis_bit(axis);
  }
  int kept = choose_lane(s, sized);
  for (int axis = 0; axis < s->r->body.axes.count; axis++) {
    if (!axis_in(grid, axis)) continue;
    bool runtime = size_of(s, axis) == TYPED_RUNTIME_SIZE;
    if (runtime || (!pointwise && axis != kept)) instances |= axis_bit(axis);
  }
  return instances;
}

/* Chunk programs know the sizes of all axes that are not cut into instances. */
static bool has_runtime_tiles(const scheduler *s, const tile_program *program) {
  return runtime_axes(s, ~program->grid);
}

enum { GPU_KEPT_EVERY = 128 };

/* GPU: chunks are short, and states as large as many steps: some are made again. */
static int kept_every(const scheduler *s, const tile_program *forward, bool pointwise) {
  if (!s->options.gpu || pointwise || forward->chunk >= GPU_KEPT_EVERY) return forward->chunk;
  return GPU_KEPT_EVERY / forward->chunk * forward->chunk;
}

/* Does every product that has the axis have it in both factors? Then each entry has products of its own. Triangular systems
 * are not solved in lanes. */
static bool has_own_products(const tile_program *p, int axis) {
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (v->op == TILE_SOLVE) return false;
    if (v->op != TILE_DOT || !axis_in(v->axes, axis)) continue;
    for (int k = 0; k < 2; k++)
      if (!axis_in(p->values.items[v->args[k]].axes, axis)) return false;
  }
  return true;
}

/* Products that channels have by themselves are small: many channels lie in the lanes. */
static bool channels_in_lanes(const scheduler *s, const tile_program *forward, axis_set grid) {
  int lane = choose_lane(s, grid);
  return lane >= 0 && has_own_products(forward, lane);
}

static axis_set instances_of(const kernel *k) {
  axis_set axes = 0;
  for (int i = 0; i < k->grid_count; i++) axes |= axis_bit(k->grid_axes[i]);
  return k->lane_axis >= 0 ? axes & ~axis_bit(k->lane_axis) : axes;
}

/* Do the steps save states as chunks read them? In steps lanes lie side by side; in chunks, of the axes of a tile, the last one
 * that nothing sums and that is no short one (kernel/memory.c: rank_of_body_axis). */
static bool saves_alike(const scheduler *s, const kernel *steps, const kernel *chunks) {
  enum { SHORT = 8 };
  axis_set low = ~chunks->program->grid;
  int64_t lanes = size_of(s, steps->lane_axis);
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    axis_set tile = t->axis_set & ~instances_of(chunks), lane = axis_bit(steps->lane_axis) & t->axis_set;
    if ((t->axis_set & ~instances_of(steps)) != tile) return false;
    if (lane && tile != lane && lanes > 0 && lanes < SHORT) return false;
    for (int axis = 0; lane && axis < s->r->body.axes.count; axis++) {
      bool summed = axis_in(low, axis), lane_summed = axis_in(low, steps->lane_axis);
      bool before = summed == lane_summed ? axis < steps->lane_axis : summed;
      if (axis_in(tile, axis) && axis != steps->lane_axis && !before) return false;
    }
  }
  return true;
}

/* Per step, what it costs more to move slots of lag buffers on, where the first-level cache cannot hold all states of an instance.
 * States that are updated in place come and go beside the arithmetic. */
static double cost_beyond_cache(const scheduler *s, const tile_program *step, axis_set grid) {
  enum { NUMBERS_IN_CACHE = 40 << 8, MULTIPLY_ADDS_OF_A_MOVE = 8 };
  int lane = choose_lane(s, grid);
  double moved = 0, of_instance = 0;
  for (int i = 0; i < step->results.count; i++) {
    const tile_place *place = &step->results.items[i].place;
    axis_set axes = tile_place_axes(step, place);
    bool in_lanes = lane >= 0 && axis_in(axes, lane);
    if (place->role != TILE_NEXT_STATE) continue;
    if (place->lag >= 0) moved += cost_elements(step, axes);
    double lanes = in_lanes ? fmin(cost_elements(step, axis_bit(lane)), host_lanes(s, lane)) : 1;
    of_instance += cost_elements(step, axes & ~grid) * lanes;
  }
  return s->options.gpu || of_instance <= NUMBERS_IN_CACHE ? 0 : MULTIPLY_ADDS_OF_A_MOVE * moved;
}

static axis_set grid_of_steps(const scheduler *s, const tile_program *step, const tile_gradient *gradient) {
  return step->grid & ~partial_axes(s->a, gradient->backward);
}

/* Forward in single steps beside a backward in chunks: the states that it saves are the same. A loop over lanes of the state is
 * all that a step is then; chunks of keys that decay one by one take many small products and exponentials. */
static bool steps_forward(const scheduler *s, const tile_program *step, const kernel *stepwise,
                          const kernel *chunkwise, const tile_program *chunks, const tile_gradient *gradient) {
  if (s->options.gpu || s->options.form != FORM_CHOSEN || s->out->spared > 0) return false;
  if (stepwise->lane_axis < 0 || !saves_alike(s, stepwise, chunkwise)) return false;
  static const double clearly = 0.95;
  s->out->fused_step = cost_of_fused_step(s->a, step) + cost_beyond_cache(s, step, grid_of_steps(s, step, gradient));
  return s->out->fused_step < clearly * cost_of_run(s->a, chunks);
}

static void chunk_kernels(scheduler *s, tile_program *forward, tile_program *step, bool pointwise,
                          const char *why) {
  checked(s, forward);
  s->out->form = pointwise ? "pointwise" : "chunk";
  s->out->why = why;
  s->out->chunk = kept_every(s, forward, pointwise);
  tile_gradient gradient = differentiated(s, forward), step_gradient;
  axis_set grid = forward->grid & ~partial_axes(s->a, gradient.backward);
  bool lanes = !pointwise && !s->options.gpu && channels_in_lanes(s, forward, grid);
  axis_set instances = lanes ? grid : chunk_instances(s, grid, pointwise);
  const tile_program *finished = tile_finish(s->a, forward);
  /* GPUs compute more for each byte */
  if (!pointwise && !lanes && !s->options.gpu)
    s->out->spared = save_values(s->a, &finished, &gradient, instances);
  kernel k = {.chunk = s->out->chunk, .program = checked(s, finished), .cut = forward->grid};
  map_axes(s, &k, instances, lanes);
  kernel stepwise = step_kernel(s, step, &step_gradient);
  s->out->steps_forward = !pointwise && !lanes && steps_forward(s, step, &stepwise, &k, forward, &step_gradient);
  if (s->out->steps_forward) {
    add_steps(s, stepwise);
  } else {
    add_kernel(s, KERNEL_FORWARD, "forward", k);
    add_kernel(s, KERNEL_STEP, "step", stepwise);
    k.program = pointwise ? finished : checked(s, gradient.recompute);
    add_kernel(s, KERNEL_STATES, "states", k);
  }
  k.program = checked(s, gradient.backward);
  if (k.chunk > forward->chunk) k.recompute = gradient.recompute;
  k.cut = grid;
  add_kernel(s, KERNEL_BACKWARD, "backward", k);
  part_kernels(s, forward, k);
}

/* A chunk of pointwise steps and its intermediate values should stay in the first-level cache. */
static int pointwise_chunk(const scheduler *s) {
  enum { FEW_NUMBERS = 4096 };
  int64_t row = 1;
  for (int axis = 0; axis < s->r->body.axes.count && row <= FEW_NUMBERS; axis++) {
    if (size_of(s, axis) > 0) row *= size_of(s, axis);
  }
  int chunk = 32;
  while (chunk > 1 && chunk * row > FEW_NUMBERS) chunk /= 2;
  return chunk;
}

static bool try_pointwise(scheduler *s, tile_program *step) {
  axis_set all = 0;
  for (int axis = 0; axis < s->r->body.axes.count; axis++) all |= axis_bit(axis);
  if (s->r->states.count || s->r->body.lags.count) return false;
  if (runtime_axes(s, all)) return false;
  int chunk = s->options.chunk ? s->options.chunk : pointwise_chunk(s);
  tile_program *program = chunk_build_pointwise(s->a, s->r, chunk);
  if (!program) return false;
  chunk_kernels(s, program, step, true, "no state: all steps at once");
  return true;
}

/* ---- the choice ---- */

static double total(const schedule_alternative *x) { return x->forward + x->backward; }

static int saved_every(const scheduler *s, const tile_program *p) {
  if (p->form != TILE_STEP) return p->chunk;
  return s->options.chunk ? s->options.chunk : STEP_CHUNK;
}

/* Per step, the traffic of states that forward writes and backward reads: those saved, in main memory, which moves a number
 * in the time of so many multiply-adds; in step form also those before each step of a chunk, in a cache. */
static double cost_of_saving(const scheduler *s, const tile_program *p) {
  enum { MULTIPLY_ADDS_OF_A_MOVE = 56, MULTIPLY_ADDS_OF_A_MOVE_IN_CACHE = 8 };
  double numbers = 0;
  for (int i = 0; i < s->r->body.tensors.count; i++) {
    const typed_tensor *t = &s->r->body.tensors.items[i];
    if (t->kind == TENSOR_STATE) numbers += cost_elements(p, t->axis_set) * (t->complex ? 2 : 1);
  }
  double moves = (double)MULTIPLY_ADDS_OF_A_MOVE / saved_every(s, p);
  if (p->form == TILE_STEP) moves += MULTIPLY_ADDS_OF_A_MOVE_IN_CACHE;
  return s->options.gpu ? 0 : 2 * moves * numbers;
}

static schedule_alternative alternative(scheduler *s, const char *form,
                                        const tile_program *forward) {
  tile_gradient gradient = tile_differentiate(s->a, forward);
  schedule_alternative x = {.form = form,
                            .chunk = forward->chunk,
                            .saved_every = saved_every(s, forward),
                            .forward = cost_of_run(s->a, forward),
                            .program = forward,
                            .gradient = gradient};
  x.backward = cost_of_run(s->a, gradient.backward) + cost_of_saving(s, forward);
  if (forward->form == TILE_STEP) {
    double beyond = cost_beyond_cache(s, forward, grid_of_steps(s, forward, &gradient));
    x.forward += beyond;
    x.backward += cost_of_run(s->a, gradient.recompute) + 2 * beyond; /* the states again, then their gradients */
  }
  vec_push(s->a, &s->out->alternatives, x);
  return x;
}

enum { SMALLEST_CHUNK = 16, LARGEST_CHUNK = 64 };

/* Backward, in chunks. Each product is a loop nest of its own, and M sums over a state in its update take some M * M of them:
 * code for more takes longer to compile than it is worth. The standard library has up to 217 (s4). */
enum { MOST_PRODUCTS = 250 };

static int products_of(const tile_program *p) {
  int products = 0;
  for (int i = 0; i < p->values.count; i++) products += p->values.items[i].op == TILE_DOT;
  return products;
}

static bool passes_gradient(const typed_value *v, int operand) {
  if (v->op == VALUE_STOP_GRADIENT || value_op_class(v->op) == CLASS_COMPARE) return false;
  return v->op != VALUE_WHERE || operand > 0;
}

/* Does a gradient come to the state from what reads it, rather than from itself alone? */
static bool is_read_with_gradient(arena *a, const typed_body *body, int state) {
  bool *reads = ARENA_ARRAY(a, bool, body->values.count);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    reads[i] = (v->op == VALUE_PREVIOUS && v->index == state) || i == body->tensors.items[state].assigned;
    for (int k = 0; k < value_arity(v->op); k++) reads[i] |= reads[v->args[k]] && passes_gradient(v, k);
  }
  bool any = false;
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    any |= i != state && t->assigned >= 0 && reads[t->assigned];
  }
  for (int i = 0; i < body->lags.count; i++) any |= reads[body->lags.items[i].source];
  return any;
}

/* States that are not linear have a value for each step of a chunk (chunk/autonomous.c). Where they are read with a gradient,
 * backward goes through all of these, which a GPU thread has no registers for. */
static bool has_costly_state(const scheduler *s) {
  const typed_body *body = &s->r->body;
  int state = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind != TENSOR_STATE) continue;
    if (s->r->states.items[state++].class == STATE_NONLINEAR && is_read_with_gradient(s->a, body, i)) return true;
  }
  return false;
}

/* Chunks of the length asked for, or of the longest that costs little more than the best: fewer states are kept. */
static tile_program *best_chunks(scheduler *s, schedule_alternative *best, const char **reason) {
  static const double little = 1.05;
  int first = s->options.chunk ? s->options.chunk : SMALLEST_CHUNK;
  int last = s->options.chunk ? s->options.chunk : LARGEST_CHUNK;
  tile_program *chosen = NULL;
  double least = 0;
  for (int chunk = first; chunk <= last; chunk *= 2) {
    tile_program *program = chunk_build_linear_scan(s->a, s->r, chunk, reason);
    if (!program) break;
    if (s->options.gpu && has_costly_state(s)) {
      *reason = "a state that is not linear goes step by step, and so does its gradient";
      break;
    }
    if (has_runtime_tiles(s, program)) {
      *reason = "an axis of run-time size is sliced or renamed";
      break;
    }
    schedule_alternative x = alternative(s, "chunk", program);
    int products = products_of(x.gradient.backward);
    if (products > MOST_PRODUCTS) {
      *reason = arena_printf(s->a, "chunks would take %d products backward, more than %d", products,
                             MOST_PRODUCTS);
      s->out->alternatives.count--;
      break;
    }
    if (chosen && total(&x) > little * least) continue;
    if (!chosen || total(&x) < least) least = total(&x);
    chosen = program;
    *best = x;
  }
  return chosen;
}

/* Times the work of single steps that chunks may take where a block of GPU threads runs an instance. */
enum { GPU_MORE_WORK = 8 };

/* Times the work of single steps that chunks may take where forward may go by single steps beside them. */
static const double slightly_more = 1.25;

/* Forward is the same then, and the backward decides. */
static bool wins_beside_steps(const scheduler *s, const tile_program *step,
                              const schedule_alternative *steps, const schedule_alternative *chunks) {
  const tile_program *program = chunks->program;
  axis_set grid = program->grid & ~partial_axes(s->a, chunks->gradient.backward);
  if (s->options.gpu || choose_lane(s, step->grid) < 0 || channels_in_lanes(s, program, grid)) return false;
  double forward = cost_of_fused_step(s->a, step) + cost_beyond_cache(s, step, grid_of_steps(s, step, &steps->gradient));
  return forward < chunks->forward && chunks->backward < steps->backward &&
         total(chunks) < slightly_more * total(steps);
}

static bool try_linear_scan(scheduler *s, tile_program *step, const char **reason) {
  schedule_alternative steps = alternative(s, "step", step), chunks = {0};
  tile_program *program = best_chunks(s, &chunks, reason);
  if (!program) return false;
  double ratio = total(&chunks) / total(&steps);
  *reason = arena_printf(s->a, "chunks of %d steps would cost %.2f times as much%s", chunks.chunk,
                         ratio, chunk_has_products(program) ? "" : ", for they have no products");
  /* GPU threads that hold small states in registers need no products; blocks of them pass some ten barriers a step, in
   * the time of many multiply-adds. Without products a chunk only keeps more: each level of its scans goes through memory.
   */
  double limit = !s->options.gpu ? 1 : choose_threads(s, step->grid) < 0 ? GPU_MORE_WORK : 0;
  bool wins = ratio <= limit || wins_beside_steps(s, step, &steps, &chunks);
  wins = wins && chunk_has_products(program);
  if (!wins && s->options.form != FORM_CHUNK) return false;
  chunk_kernels(
      s, program, step, false,
      arena_printf(s->a, "chunks of %d steps cost %.2f times single ones", chunks.chunk, ratio));
  return true;
}

recurrence_kernels *schedule_recurrence(arena *a, const recurrence *r, schedule_options options) {
  scheduler s = {.a = a, .r = r, .options = options};
  s.out = ARENA_NEW(a, recurrence_kernels);
  s.out->recurrence = r;
  tile_program *step = chunk_build_step(a, r);
  checked(&s, step);
  const char *why = "asked for";
  if (options.form == FORM_STEP || !(try_pointwise(&s, step) || try_linear_scan(&s, step, &why))) {
    step_kernels(&s, step, why);
  }
  if (!options.gpu) carry_kernel(&s);
  return s.out;
}
