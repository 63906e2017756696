// Scheduling: which program computes a recurrence, which axes become instances, which axis lies in
// the lanes.
//
//   ssd (G, R, P = 64, N = 128)   ->   step form: instances G, R; lanes P
#include <math.h>
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/scheduler.h"

static const char *const form_texts[FORM_COUNT] = {"chosen", "step", "chunk"};

const char *schedule_form_text(schedule_form form) { return form_texts[form]; }

schedule_form schedule_form_find(const char *text) {
  int form = 0;
  while (form < FORM_COUNT && strcmp(form_texts[form], text) != 0) form++;
  return (schedule_form)form;
}

// ---- step form ----

enum { STEP_CHUNK = 32 };

static axis_set chunk_instances(const scheduler *s, axis_set grid, bool pointwise);

// Do steps multiply with matrices of parameters that are large enough for blocks of their own?
// *heads: the axes of `grid` that every such matrix has.
static bool has_parameter_matrix(const scheduler *s, const tile_program *program, axis_set grid,
                                 axis_set *heads) {
  enum { FEWEST_NUMBERS = 256 };
  const tile_section *sections = tile_sections(s->a, program);
  bool found = false;
  *heads = grid;
  for (tile_id id = 0; id < program->values.count; id++) {
    int matrix = tile_parameter_matrix(program, sections, id);
    if (matrix < 0) continue;
    const tile_value *mul = tile_at(program, tile_at(program, id)->args[0]);
    axis_set axes = tile_at(program, mul->args[matrix])->axes;
    if (cost_elements(program, axes & ~grid) < FEWEST_NUMBERS) continue;
    *heads &= axes;
    found = true;
  }
  return found;
}

static kernel step_kernel(scheduler *s, const tile_program *forward, tile_gradient *gradient) {
  *gradient = scheduler_differentiated(s, forward);
  kernel k = {.chunk = s->out->chunk, .program = program_rewritten(s->a, PROGRAM_FINISH, forward)};
  axis_set grid = forward->grid & ~scheduler_partial_axes(s->a, gradient->backward);
  k.cut = forward->grid;
  axis_set heads;
  if (has_parameter_matrix(s, k.program, grid, &heads)) {
    // what shares a matrix is multiplied together
    scheduler_map_axes(s, &k, heads | (grid & scheduler_runtime_axes(s)), false);
    return k;
  }
  bool together = s->options.gpu && scheduler_threads(s, grid) < 0;
  scheduler_map_axes(s, &k, together ? chunk_instances(s, grid, false) : grid, !together);
  return k;
}

// One function serves FORWARD, STEP (a sequence of one step) and STATES (no output is wanted). A
// single step copies no matrix of parameters and opens no other step, so STEP is a function of its
// own where FORWARD does. Threads with an entry of the lane axis each never copy a matrix.
static void add_step_kernel(scheduler *s, kernel k) {
  axis_set heads;
  bool copies = !s->options.gpu || k.lane_axis < 0;
  bool own = copies && has_parameter_matrix(s, k.program, k.program->grid, &heads);
  kernel many = k;
  // STEP would be a function of its own, and a long program is not compiled twice for a sum.
  bool may_open = !s->options.gpu && k.lane_axis >= 0 && !kernel_is_long(&k);
  many.opens = may_open && tile_opens(s->a, k.program, k.lane_axis);
  own = own || many.opens;
  scheduler_add(s, KERNEL_FORWARD, "forward", many);
  scheduler_add(s, KERNEL_STEP, own ? "step" : "forward", k);
  scheduler_add(s, KERNEL_STATES, "forward", many);
}

static void step_kernels(scheduler *s, const tile_program *forward, const char *why) {
  s->out->form = "step";
  s->out->why = why;
  axis_set heads;
  // its gradient is a product over the steps of a chunk
  bool dense = has_parameter_matrix(s, forward, 0, &heads);
  int chunk = s->options.gpu && !dense ? GPU_COST_STEP_CHUNK : STEP_CHUNK;
  s->out->chunk = s->options.chunk ? s->options.chunk : chunk;
  tile_gradient gradient;
  kernel k = step_kernel(s, forward, &gradient);
  add_step_kernel(s, k);
  k.program = gradient.backward;
  k.recompute = gradient.recompute;
  k.cut &= ~scheduler_partial_axes(s->a, gradient.backward);
  scheduler_add(s, KERNEL_BACKWARD, "backward", k);
  scheduler_add_summaries(s, forward, k);
}

// ---- chunk form ----

// The longest of these axes that outer products make; -1: they make none.
static int longest_value_axis(const scheduler *s, axis_set axes) {
  int longest = -1;
  axis_set values = 0;
  vec_each(const state_structure, state, s->r->states) values |= state->value_axes;
  for (int axis = 0; axis < s->r->body.axes.count; axis++)
    if (axis_in(axes & values, axis) &&
        (longest < 0 || scheduler_size(s, axis) > scheduler_size(s, longest)))
      longest = axis;
  return longest;
}

// One axis of the values stays in the tile, so that every product has long rows; pointwise programs
// keep all that can be looped over.
static axis_set chunk_instances(const scheduler *s, axis_set grid, bool pointwise) {
  axis_set runtime = grid & scheduler_runtime_axes(s);
  if (pointwise) return runtime;
  int kept = scheduler_lane(s, grid & ~runtime);
  if (kept < 0) kept = longest_value_axis(s, grid & ~runtime);
  return kept < 0 ? grid : grid & ~axis_bit(kept);
}

// Chunk programs know the sizes of all axes that are not cut into instances.
static bool has_runtime_tiles(const scheduler *s, const tile_program *program) {
  return scheduler_runtime_axes(s) & ~program->grid;
}

// GPU: chunks are short, and states as large as many steps: some are made again.
static int saved_every_on_gpu(const tile_program *forward) {
  return forward->chunk >= GPU_COST_SAVED_EVERY
             ? forward->chunk
             : GPU_COST_SAVED_EVERY / forward->chunk * forward->chunk;
}

// Does every product that has the axis have it in both factors? Then each entry has products of its
// own. Triangular systems are not solved in lanes.
static bool has_own_products(const tile_program *p, int axis) {
  vec_each(const tile_value, v, p->values) {
    if (v->op == TILE_SOLVE) return false;
    if (v->op != TILE_DOT || !axis_in(v->axes, axis)) continue;
    for (int k = 0; k < 2; k++)
      if (!axis_in(p->values.items[v->args[k]].axes, axis)) return false;
  }
  return true;
}

// Products that channels have by themselves are small: many channels lie in the lanes.
static bool channels_in_lanes(const scheduler *s, const tile_program *forward, axis_set grid) {
  int lane = scheduler_lane(s, grid);
  return lane >= 0 && has_own_products(forward, lane);
}

// The numbers that a step moves between caches where it shifts lag buffers, and the first-level
// cache does not hold all states of an instance. Loads and stores of states that are updated in place overlap with
// arithmetic.
static double moved_beyond_cache(const scheduler *s, const tile_program *step, axis_set grid) {
  enum { NUMBERS_IN_CACHE = 40 << 8 };
  int lane = scheduler_lane(s, grid);
  double moved = 0, of_instance = 0;
  for (int i = 0; i < step->results.count; i++) {
    const tile_place *place = &step->results.items[i].place;
    axis_set axes = tile_place_axes(step, place);
    bool in_lanes = lane >= 0 && axis_in(axes, lane);
    if (place->role != TILE_NEXT_STATE) continue;
    if (place->lag >= 0) moved += cost_elements(step, axes);
    double lanes =
        in_lanes ? fmin(cost_elements(step, axis_bit(lane)), scheduler_host_lanes(s, lane)) : 1;
    of_instance += cost_elements(step, axes & ~grid) * lanes;
  }
  return s->options.gpu || of_instance <= NUMBERS_IN_CACHE ? 0 : moved;
}

// Forward in single steps may go with a backward in chunks, which reads the same saved states. A
// step is then one loop over the lanes of the state. Chunks of keys that decay one by one take many
// small products and exponentials instead.
static bool may_step_forward(const scheduler *s, const kernel *stepwise, const kernel *chunkwise,
                             const tile_program *chunks) {
  if (s->options.gpu || s->options.form != FORM_CHOSEN || s->out->spared > 0) return false;
  if (choice_is_left_out(s->options.without, CHOICE_STEPS_FORWARD)) return false;
  kernel steps = *stepwise, in_chunks = *chunkwise;
  steps.recurrence = in_chunks.recurrence = s->r;
  in_chunks.beside_products = true;  // the backward has some
  if (steps.lane_axis < 0 || !scheduler_saves_alike(s, &steps, &in_chunks)) return false;
  static const double clearly = 0.95;
  s->out->fused_step = cost_of_counts(&s->out->alternatives.items[0].forward, s->out->clone);
  return s->out->fused_step < clearly * cost_of_run(s->a, chunks, s->out->clone);
}

// Forward keeps what is worth it, and backward reads it: rewrites all programs.
static const tile_program *saved_values(scheduler *s, const tile_program *forward,
                                        tile_gradient *gradient, axis_set instances) {
  program_work w = {
      .from = forward, .gradient = *gradient, .axes = instances, .clone = s->out->clone};
  program_run(s->a, PROGRAM_SAVE, &w);
  s->out->spared = w.spared;
  *gradient = w.gradient;
  return w.made;
}

// The chunks of a recurrence. Forward and backward may have different lengths: forward saves the
// states every so many steps, and backward recomputes those before its other chunks.
typedef struct chunk_choice {
  const tile_program *back;  // whose gradient is the backward
  // that of its groups of chunks; all NULL: all states are saved, or a GPU recomputes them
  tile_gradient grouped;
  const tile_program *forward;  // `back`, or chunks of another length
  int saved_every;              // steps between saved states: whole chunks of both
  bool pointwise;
} chunk_choice;

// The program of the forward kernel, of which no gradient is derived: its decays may be smaller.
static const tile_program *forward_alone(scheduler *s, const tile_program *forward) {
  const char *why = NULL;
  if (tile_has_op(forward, TILE_SELDOM)) {
    const tile_program *alone =
        program_of_length(s->a, PROGRAM_HOST_FORWARD, s->r, forward->chunk, &why);
    if (alone) forward = alone;
  }
  return program_rewritten(s->a, PROGRAM_FINISH, forward);
}

static void chunk_kernels(scheduler *s, chunk_choice chunks, const tile_program *step,
                          const char *why) {
  const tile_program *forward = chunks.back;
  bool pointwise = chunks.pointwise;
  s->out->form = pointwise ? "pointwise" : "chunk";
  s->out->why = why;
  tile_gradient gradient = scheduler_differentiated(s, forward), step_gradient;
  axis_set grid = forward->grid & ~scheduler_partial_axes(s->a, gradient.backward);
  bool lanes = !pointwise && !s->options.gpu && channels_in_lanes(s, forward, grid);
  axis_set instances = lanes ? grid : chunk_instances(s, grid, pointwise);
  const tile_program *finished = program_rewritten(s->a, PROGRAM_FINISH, forward);
  // GPUs compute more for each byte
  bool saves = !pass_is_left_out(s->options.without, program_stage.name_of(PROGRAM_SAVE));
  if (chunks.saved_every > forward->chunk) saves = false;
  if (saves && !pointwise && !lanes && !s->options.gpu)
    finished = saved_values(s, finished, &gradient, instances);
  bool apart = s->out->spared == 0;  // values that forward saves are those of the backward's chunks
  bool other = apart && chunks.forward != forward;
  if (apart) finished = forward_alone(s, chunks.forward);
  s->out->chunk = apart ? chunks.saved_every : forward->chunk;
  kernel k = {.chunk = s->out->chunk, .program = finished, .cut = forward->grid};
  scheduler_map_axes(s, &k, instances, lanes);
  kernel stepwise = step_kernel(s, step, &step_gradient);
  s->out->steps_forward =
      !pointwise && !lanes && may_step_forward(s, &stepwise, &k, chunks.forward);
  if (s->out->steps_forward) {
    add_step_kernel(s, stepwise);
  } else {
    scheduler_add(s, KERNEL_FORWARD, "forward", k);
    scheduler_add(s, KERNEL_STEP, "step", stepwise);
    if (!pointwise)
      k.program = other ? scheduler_states_alone(s, chunks.forward) : gradient.recompute;
    scheduler_add(s, KERNEL_STATES, "states", k);  // bit for bit those of FORWARD
  }
  const tile_gradient *groups = chunks.grouped.backward ? &chunks.grouped : &gradient;
  k.program = groups->backward;
  if (k.chunk > forward->chunk) k.recompute = groups->recompute;
  k.cut = grid;
  scheduler_add(s, KERNEL_BACKWARD, "backward", k);
  scheduler_add_summaries(s, forward, k);
}

// A chunk of pointwise steps and its intermediate values should stay in the first-level cache.
static int pointwise_chunk(const scheduler *s) {
  enum { FEW_NUMBERS = 4096 };
  int64_t row = 1;
  for (int axis = 0; axis < s->r->body.axes.count && row <= FEW_NUMBERS; axis++)
    if (scheduler_size(s, axis) > 0) row *= scheduler_size(s, axis);
  int chunk = 32;
  while (chunk > 1 && chunk * row > FEW_NUMBERS) chunk /= 2;
  return chunk;
}

static bool try_pointwise(scheduler *s, const tile_program *step) {
  if (s->r->states.count || s->r->body.lags.count || scheduler_runtime_axes(s)) return false;
  int chunk = s->options.chunk ? s->options.chunk : pointwise_chunk(s);
  const char *why = NULL;
  const tile_program *program = program_of_length(s->a, PROGRAM_POINTWISE, s->r, chunk, &why);
  if (!program) return false;
  chunk_choice all_steps = {
      .back = program, .forward = program, .saved_every = program->chunk, .pointwise = true};
  chunk_kernels(s, all_steps, step, "no state: all steps at once");
  return true;
}

// ---- the choice ----

static double alternative_cost(const scheduler *s, const schedule_alternative *x) {
  return cost_of_counts(&x->forward, s->out->clone) + cost_of_counts(&x->backward, s->out->clone);
}

// The numbers of all states, or those of the tokens of a step.
static double state_or_token_numbers(const scheduler *s, const tile_program *program, bool states) {
  double numbers = 0;
  vec_each(const typed_tensor, t, s->r->body.tensors) {
    if (t->kind == TENSOR_PARAM || (t->kind == TENSOR_STATE) != states) continue;
    numbers += cost_elements(program, t->axis_set) * (t->complex ? 2 : 1);
  }
  return numbers;
}

// Forward writes a state every so many steps, and backward reads it. Where it makes states again
// before each step or chunk between them, those go through a cache.
static void add_state_traffic(const scheduler *s, schedule_alternative *x, bool again) {
  double numbers = state_or_token_numbers(s, x->program, true);
  x->backward.of[COST_MEMORY] += 2 * numbers / x->saved_every;
  if (again) x->backward.of[COST_CACHED] += 2 * numbers / x->program->chunk;
}

static schedule_alternative alternative(scheduler *s, const char *form,
                                        const tile_program *forward) {
  const tile_program *values = program_rewritten(s->a, PROGRAM_VALUES, forward);
  tile_gradient gradient = program_gradient(s->a, forward);
  axis_set grid = forward->grid & ~scheduler_partial_axes(s->a, gradient.backward),
           cut = chunk_instances(s, grid, false) & schedule_tensor_axes(&s->r->body);
  codegen_clone clone = s->out->clone;
  return (schedule_alternative){.form = form,
                                .chunk = forward->chunk,
                                .instances = cut,
                                .forward = cost_count(s->a, values, cut, 0, clone),
                                .backward = cost_count(s->a, gradient.backward, cut, 0, clone),
                                .program = forward,
                                .gradient = gradient};
}

// Single steps, whose backward makes the states of some steps again.
static schedule_alternative step_alternative(scheduler *s, const tile_program *step) {
  schedule_alternative x = alternative(s, "step", step);
  axis_set grid = step->grid & ~scheduler_partial_axes(s->a, x.gradient.backward);
  double beyond = moved_beyond_cache(s, step, grid);
  cost_counts again = cost_count(s->a, x.gradient.recompute, x.instances, 0, s->out->clone);
  if (!s->options.gpu && scheduler_lane(s, grid) >= 0) {
    x.forward = cost_count_fused(s->a, step, !s->options.gpu);
    x.backward = cost_count_fused(s->a, x.gradient.backward, false);
    again = cost_count_fused(s->a, x.gradient.recompute, false);
  }
  x.forward.of[COST_CACHED] += beyond;
  again.of[COST_CACHED] += 2 * beyond;
  x.backward = cost_sum(x.backward, 1, again);
  x.saved_every = s->options.chunk ? s->options.chunk : STEP_CHUNK;
  add_state_traffic(s, &x, true);
  vec_push(s->a, &s->out->alternatives, x);
  return x;
}

enum { SMALLEST_CHUNK = 16, LARGEST_CHUNK = 64 };

// May backward recompute states before chunks?
static bool may_recompute(const scheduler *s, const schedule_alternative *x) {
  axis_set grid = x->program->grid & ~scheduler_partial_axes(s->a, x->gradient.backward);
  return !s->options.gpu && !channels_in_lanes(s, x->program, grid);
}

// The axis of instances that share products of a chunk, as a set.
static axis_set sharing_instances(const scheduler *s, const schedule_alternative *x) {
  kernel k = {.program = x->gradient.backward};
  scheduler_map_axes(s, &k, x->instances, false);
  return kernel_shares_work(&k) ? axis_bit(k.grid_axes[k.grid_count - 1]) : 0;
}

// Chunks whose backward recomputes a group of them before it goes back over the group. Instances
// share no products then, for a group would need the states of all of them at once. The recompute
// keeps values for the backward, which is worth a recompute of the last chunk as well; without such
// values the last chunk is not recomputed.
static schedule_alternative grouped(scheduler *s, schedule_alternative x, int saved_every) {
  codegen_clone clone = s->out->clone;
  program_work w = {.from = program_rewritten(s->a, PROGRAM_FINISH, x.program),
                    .gradient = x.gradient,
                    .axes = x.instances,
                    .clone = clone};
  axis_set apart = sharing_instances(s, &x);
  cost_counts again = cost_count(s->a, x.gradient.recompute, x.instances, apart, clone);
  cost_counts back = cost_count(s->a, x.gradient.backward, x.instances, apart, clone);
  cost_counts plain = cost_sum(back, 1 - (double)x.chunk / saved_every, again), kept = plain;
  if (!pass_is_left_out(s->options.without, program_stage.name_of(PROGRAM_KEEP)))
    program_run(s->a, PROGRAM_KEEP, &w);
  if (w.spared > 0)
    kept = cost_sum(cost_count(s->a, w.gradient.recompute, x.instances, apart, clone), 1,
                    cost_count(s->a, w.gradient.backward, x.instances, apart, clone));
  bool keeps = cost_of_counts(&kept, clone) < cost_of_counts(&plain, clone);
  x.grouped = keeps ? w.gradient : x.gradient;
  x.backward = keeps ? kept : plain;
  x.saved_every = saved_every;
  add_state_traffic(s, &x, true);
  return x;
}

// Chunks with the states before each of them saved.
static schedule_alternative alone(const scheduler *s, schedule_alternative x) {
  x.saved_every = x.chunk;
  add_state_traffic(s, &x, false);
  return x;
}

// The ways to save states for chunks of a length: as far apart as is asked for, or before each
// chunk, and before the longest there may be.
static void add_spaced(scheduler *s, schedule_alternative x) {
  int asked = (s->options.save_every + x.chunk - 1) / x.chunk * x.chunk;
  bool groups = may_recompute(s, &x);
  schedule_alternative plain = alone(s, x);
  if (asked > x.chunk && groups) plain = grouped(s, x, asked);
  vec_push(s->a, &s->out->alternatives, plain);
  bool free = !s->options.save_every && !s->options.chunk;
  if (free && groups && x.chunk < LARGEST_CHUNK)
    vec_push(s->a, &s->out->alternatives, grouped(s, x, LARGEST_CHUNK));
}

// The most products of a backward in chunks. Each product is a loop nest of its own, and M sums
// over a state in its update take some M * M products. More code takes longer to compile than it is
// worth. The standard library has up to 217 (s4).
enum { MOST_PRODUCTS = 250 };

static int products_of(const tile_program *p) {
  int products = 0;
  for (int i = 0; i < p->values.count; i++) products += p->values.items[i].op == TILE_DOT;
  return products;
}

// Adds the chunk forms of the length asked for, or of all lengths, to the alternatives. False:
// there are none.
static bool add_chunks(scheduler *s, const char **reason) {
  int first = s->options.chunk ? s->options.chunk : SMALLEST_CHUNK;
  int last = s->options.chunk ? s->options.chunk : LARGEST_CHUNK;
  bool any = false;
  for (int chunk = first; chunk <= last; chunk *= 2) {
    program_pass pass = s->options.gpu ? PROGRAM_CHUNK : PROGRAM_HOST_CHUNK;
    const tile_program *program = program_of_length(s->a, pass, s->r, chunk, reason);
    if (!program) break;
    if (has_runtime_tiles(s, program)) {
      *reason = "an axis of run-time size is sliced or renamed";
      break;
    }
    schedule_alternative x = alternative(s, "chunk", program);
    int products = products_of(x.gradient.backward);
    if (products > MOST_PRODUCTS) {
      *reason = arena_printf(s->a, "chunks would take %d products backward, more than %d", products,
                             MOST_PRODUCTS);
      break;
    }
    add_spaced(s, x);
    any = true;
  }
  return any;
}

// The forward that costs least in whole chunks between the saved states of `back`.
static const schedule_alternative *forward_beside(const scheduler *s,
                                                  const schedule_alternative *back) {
  const schedule_alternative *best = back;
  vec_each(const schedule_alternative, x, s->out->alternatives) {
    bool chunks =
        x->program->form == TILE_CHUNK && !s->options.gpu && back->saved_every % x->chunk == 0;
    if (chunks &&
        cost_of_counts(&x->forward, s->out->clone) < cost_of_counts(&best->forward, s->out->clone))
      best = x;
  }
  return best;
}

// Of chunks that cost little more than the best, those are taken that save the fewest states.
static const double little = 1.03;

// The fewest steps between saved states with which these take no more memory than the tokens of the
// steps; where no alternative has so many, the most that one has.
static double least_spacing(const scheduler *s) {
  double most = 0, even = INFINITY;
  vec_each(const schedule_alternative, x, s->out->alternatives) {
    if (x->program->form != TILE_CHUNK) continue;
    most = fmax(most, x->saved_every);
    even =
        state_or_token_numbers(s, x->program, true) / state_or_token_numbers(s, x->program, false);
  }
  return fmin(most, even);
}

// Alternatives in chunks, with the forward that costs least beside them. *cost: of the best, by
// cost, then by the states that they save.
static chunk_choice best_chunks(scheduler *s, schedule_alternative *cost) {
  const tile_program *forward = NULL;
  double least = INFINITY, spacing = s->options.gpu ? 0 : least_spacing(s);
  s->out->spacing = spacing;
  *cost = (schedule_alternative){0};
  for (int again = 0; again < 2; again++) {
    for (int i = 0; i < s->out->alternatives.count; i++) {
      schedule_alternative x = s->out->alternatives.items[i];
      if (x.program->form != TILE_CHUNK || x.saved_every < spacing) continue;
      const schedule_alternative *beside = forward_beside(s, &x);
      x.forward = beside->forward;
      double costs = alternative_cost(s, &x);
      bool fewer = x.saved_every > cost->saved_every,
           cheaper = x.saved_every == cost->saved_every && costs < alternative_cost(s, cost);
      if (!again) least = fmin(least, costs);
      if (!again || costs > little * least || !(fewer || cheaper)) continue;
      *cost = x;
      forward = beside->program;
    }
  }
  int saved_every = s->options.gpu ? saved_every_on_gpu(cost->program) : cost->saved_every;
  return (chunk_choice){cost->program, cost->grouped, forward, saved_every, false};
}

// Times the work of single steps that chunks may take where forward goes by single steps beside
// them.
static const double slightly_more = 1.25;

// Forward is the same then, and the backward decides.
static bool wins_beside_steps(const scheduler *s, const schedule_alternative *steps,
                              const schedule_alternative *chunks) {
  codegen_clone clone = s->out->clone;
  return !s->options.gpu &&
         cost_of_counts(&steps->forward, clone) < cost_of_counts(&chunks->forward, clone) &&
         cost_of_counts(&chunks->backward, clone) < cost_of_counts(&steps->backward, clone) &&
         alternative_cost(s, chunks) < slightly_more * alternative_cost(s, steps);
}

static bool try_linear_scan(scheduler *s, const tile_program *step, const char **reason) {
  schedule_alternative steps = step_alternative(s, step), chunks = {0};
  s->out->cost = alternative_cost(s, &steps);
  if (!add_chunks(s, reason)) return false;
  chunk_choice best = best_chunks(s, &chunks);
  double ratio = alternative_cost(s, &chunks) / alternative_cost(s, &steps);
  bool has_products = tile_has_op(best.back, TILE_DOT);
  *reason = arena_printf(s->a, "chunks of %d steps would cost %.2f times as much%s", chunks.chunk,
                         ratio, has_products ? "" : ", for they have no products");
  // Of a GPU's forms the time of their kernels decides (gpu/schedule.c).
  bool chunks_alone = s->options.gpu || s->options.form == FORM_CHUNK,
       wins = ratio <= 1 || chunks_alone;
  bool beside_steps = !wins && wins_beside_steps(s, &steps, &chunks);
  if (!wins && !beside_steps) return false;
  if (!has_products && !chunks_alone) return false;
  const recurrence_kernels before = *s->out;
  chunk_kernels(
      s, best, step,
      arena_printf(s->a, "chunks of %d steps cost %.2f times single ones", chunks.chunk, ratio));
  if (beside_steps && !s->out->steps_forward) {  // forward does not go by single steps
    *s->out = before;
    return false;
  }
  s->out->of_steps = ratio;
  if (s->out->steps_forward) chunks.forward = steps.forward;
  s->out->cost = alternative_cost(s, &chunks);
  return true;
}

recurrence_kernels *schedule_recurrence(arena *a, const recurrence *r, schedule_options options) {
  scheduler s = {.a = a, .r = r, .options = options};
  s.out = ARENA_NEW(a, recurrence_kernels);
  s.out->recurrence = r;
  s.out->summarises = options.summaries && !options.gpu;
  s.out->clone = options.gpu ? CLONE_GPU : cost_clone(options.clones);
  const tile_program *step = program_of(a, PROGRAM_STEP, r);
  const char *why = "asked for";
  if (options.form == FORM_STEP || !(try_pointwise(&s, step) || try_linear_scan(&s, step, &why)))
    step_kernels(&s, step, why);
  scheduler_lay_out_saved(&s);
  return s.out;
}
