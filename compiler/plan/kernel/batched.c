// Several sequences in one pass over time: an axis `sequences` on all tokens, states and the values
// made of them.
//
//   %6 [D,E] = mul %weight %h      ->    %6 [D,E,sequences] = ..
//   %7 [D] = sum %6 over E               %7 [D,sequences]: a product of two matrices
//   %9 = accumulate %8                   %9 = accumulate of the sum of %8 over sequences; on a GPU the sum over sequences of the
//                                        accumulate, unless %8 is a product
//
// The host reads a matrix of parameters that exceeds the first-level cache from the second level at
// every step. A GPU reads it from shared memory or the second-level cache. Each read then serves
// several sequences.
#include "compiler/plan/kernel_plan.h"

// Longer programs are not compiled twice.
enum { SEQUENCES = 4, MOST_VALUES = 1000 };

typedef struct widening {
  const tile_program *from;
  tile_program *to;
  const tile_section *sections;
  tile_id *image;
  int axis;
  bool late;  // terms that are no product are summed over the sequences after the last step
} widening;

static tile_place widened_place(const widening *w, tile_place place) {
  if (place.role == TILE_PARAM || place.role == TILE_D_PARAM) return place;
  for (int i = place.axis_count++; i > 0; i--) place.axes[i] = place.axes[i - 1];
  place.axes[0] = w->axis;
  return place;
}

static bool multiplies_outer(const widening *w, const tile_value *mul) {
  axis_set a = tile_at(w->from, mul->args[0])->axes, b = tile_at(w->from, mul->args[1])->axes;
  return (a & ~b) && (b & ~a);
}

// A product of two values of a step (with `late`, an outer product), or a sum of such products.
// plan/dense_products.c adds it up as one product over all steps.
static bool has_products(const widening *w, tile_id id) {
  const tile_value *v = tile_at(w->from, id);
  if (v->op == TILE_SUM) v = tile_at(w->from, v->args[0]);
  if (v->op == TILE_MUL && w->late && !multiplies_outer(w, v)) return false;
  if (v->op == TILE_MUL)
    return w->sections[v->args[0]] == TILE_BODY && w->sections[v->args[1]] == TILE_BODY;
  bool has = false;
  for (int k = 0; tile_op_is(v->op, TILE_KEEPS_ENTRIES) && k < tile_arity(v->op); k++)
    has |= has_products(w, v->args[k]);
  return has;
}

// The sum over the sequences, of each product by itself.
static tile_id summed(const widening *w, tile_id id) {
  tile_value v = *tile_at(w->from, id);
  if (!tile_op_is(v.op, TILE_KEEPS_ENTRIES) || !has_products(w, id)) {
    axis_set over = axis_bit(w->axis);
    if (v.op != TILE_SUM) return tile_reduce(w->to, TILE_SUM, w->image[id], over);
    return tile_reduce(w->to, TILE_SUM, w->image[v.args[0]], v.over | over);
  }
  for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = summed(w, v.args[k]);
  return tile_append_exact(w->to, v);
}

static tile_id accumulated_value(const widening *w, tile_id id) {
  return tile_append_exact(w->to,
                           (tile_value){.op = TILE_ACCUMULATE, .args = {id, NO_TILE, NO_TILE}});
}

// Each sequence has its own sum over the steps. The threads divide the entries of a sum over
// sequences: each thread would otherwise loop over the sequences at every step.
static tile_id accumulated_late(const widening *w, tile_id id) {
  tile_value v = *tile_at(w->from, id);
  if (!has_products(w, id))
    return tile_reduce(w->to, TILE_SUM, accumulated_value(w, w->image[id]), axis_bit(w->axis));
  if (!tile_op_is(v.op, TILE_KEEPS_ENTRIES)) return accumulated_value(w, summed(w, id));
  for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = accumulated_late(w, v.args[k]);
  return tile_append_exact(w->to, v);
}

static tile_id widened_value(const widening *w, tile_id id) {
  tile_value v = *tile_at(w->from, id);
  if (v.op == TILE_ACCUMULATE && w->late) return accumulated_late(w, v.args[0]);
  if (v.op != TILE_ACCUMULATE) return tile_append_exact(w->to, tile_with_images(v, w->image));
  v.args[0] = summed(w, v.args[0]);
  return tile_append_exact(w->to, v);
}

// The axis has the same number in all programs of a kernel: they share memory.
static tile_program *widened_program(arena *a, const tile_program *program, int axis, bool late) {
  widening w = {.from = program,
                .to = tile_program_like(a, arena_printf(a, "%s.batched", program->name), program),
                .axis = axis,
                .late = late};
  w.sections = tile_sections(a, program);
  w.image = ARENA_ARRAY(a, tile_id, program->values.count);
  while (w.to->axes.count <= axis) tile_axis_new(w.to, "sequences", SEQUENCES);
  for (int i = 0; i < w.to->arguments.count; i++)
    w.to->arguments.items[i] = widened_place(&w, w.to->arguments.items[i]);
  for (tile_id id = 0; id < program->values.count; id++) {
    w.to->where = tile_at(w.from, id)->where;
    w.image[id] = widened_value(&w, id);
  }
  vec_each(const tile_result, r, program->results)
    tile_add_result(w.to, widened_place(&w, r->place), w.image[r->value]);
  return w.to;
}

// A place has one axis more, and so has the program.
static bool may_widen(const tile_program *program) {
  bool has = tile_axes_left(program) > 0 && program->values.count <= MOST_VALUES;
  for (int i = 0; i < program->arguments.count; i++)
    has &= program->arguments.items[i].axis_count < TYPED_MAX_AXES;
  for (int i = 0; i < program->results.count; i++)
    has &= program->results.items[i].place.axis_count < TYPED_MAX_AXES;
  return has;
}

static bool gains(arena *a, const kernel *k, const tile_program *program) {
  const mapping m = {.kernel = k, .lane_axis = -1, .instance = kernel_instances(k)};
  return program && plan_multiplies_parameters(a, &m, program);
}

static const kernel *widened(arena *a, const kernel *k, bool gpu) {
  kernel *batched = ARENA_NEW(a, kernel);
  *batched = *k;
  batched->sequences = SEQUENCES;
  batched->sequences_axis = k->program->axes.count;
  if (k->recompute && k->recompute->axes.count > batched->sequences_axis)
    batched->sequences_axis = k->recompute->axes.count;
  batched->program = widened_program(a, k->program, batched->sequences_axis, gpu);
  if (k->recompute)
    batched->recompute = widened_program(a, k->recompute, batched->sequences_axis, gpu);
  return batched;
}

static int verified_batched(arena *a, const tile_program *program) {
  const char *wrong = program ? tile_verify(a, program) : NULL;
  if (wrong) ICE(kernel_stage.name_of(KERNEL_PASS_BATCHED), "%s: %s", program->name, wrong);
  return program != NULL;
}

const kernel *kernel_batched(arena *a, const kernel *k, bool gpu) {
  if (k->program->form != TILE_STEP || k->lane_axis >= 0 || k->segment) return NULL;
  if (pass_is_left_out(k->without, kernel_stage.name_of(KERNEL_PASS_BATCHED))) return NULL;
  if (!gains(a, k, k->program) && !gains(a, k, k->recompute)) return NULL;
  if (!may_widen(k->program) || (k->recompute && !may_widen(k->recompute))) return NULL;
  double start = pass_clock();
  const kernel *batched = widened(a, k, gpu);
  pass_ran(&kernel_stage, KERNEL_PASS_BATCHED, pass_clock() - start,
           verified_batched(a, batched->program) + verified_batched(a, batched->recompute));
  return batched;
}
