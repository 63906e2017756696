// What the schedule chose, in numbers: operations, bytes, states, values saved for backward, values
// that backward recomputes.
//
//   chunk of 32 steps: ..
//     forward     53.25 k * G*R + 8192 * G operations a step, 776 * G*R bytes
//     saved       the state every 32 steps: 1024 * G*R bytes a step
//
// Sizes known at run time stay letters. An exp counts as its polynomial, a multiply-add as two
// operations. Values that depend on parameters alone are computed once and not counted.
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/base/text.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/programs.h"
#include "compiler/schedule/reporter.h"

// ---- numbers with run-time sizes ----

typedef struct amount_term {
  double count;
  axis_set axes;  // times the sizes of these axes
} amount_term;
typedef VEC(amount_term) amount;

static void add_amount(arena *a, amount *sum, double count, axis_set axes) {
  for (int i = 0; i < sum->count; i++) {
    if (sum->items[i].axes != axes) continue;
    sum->items[i].count += count;
    return;
  }
  if (count > 0) vec_push(a, sum, ((amount_term){count, axes}));
}

const char *count_with_unit(arena *a, double count) {
  static const char *const units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (count >= 1e4 && unit < 4) {
    count /= 1e3;
    unit++;
  }
  return arena_printf(a, unit || count < 10 ? "%.4g%s" : "%.0f%s", count, units[unit]);
}

// "53.25 k * G*R + 8192 * G"
static const char *amount_text(arena *a, const typed_body *body, const amount *sum) {
  const char *text = "";
  for (int i = 0; i < sum->count; i++) {
    const char *sizes = "";
    for (int axis = 0; axis < body->axes.count; axis++)
      if (axis_in(sum->items[i].axes, axis))
        sizes = arena_printf(a, "%s%s%s", sizes, *sizes ? "*" : " * ", body->axes.items[axis].name);
    text = arena_printf(a, "%s%s%s%s", text, i ? " + " : "",
                        count_with_unit(a, sum->items[i].count), sizes);
  }
  return *text ? text : "0";
}

// Entries of these axes; run-time ones are handed to `sizes`.
static double axis_entries(const typed_body *body, axis_set axes, axis_set *sizes) {
  double count = 1;
  for (int axis = 0; axis < body->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    if (body->axes.items[axis].size == TYPED_RUNTIME_SIZE)
      *sizes |= axis_bit(axis);
    else
      count *= (double)body->axes.items[axis].size;
  }
  return count;
}

static void add_entry_amount(arena *a, amount *sum, const typed_body *body, axis_set axes,
                             double factor) {
  axis_set sizes = 0;
  double count = axis_entries(body, axes, &sizes);
  add_amount(a, sum, factor * count, sizes);
}

// ---- operations ----

static axis_set runtime_axes_of(const tile_program *p, tile_id id) {
  const tile_value *v = &p->values.items[id];
  axis_set axes = v->axes, sizes = 0;
  for (int k = 0; k < tile_arity(v->op); k++) axes |= p->values.items[v->args[k]].axes;
  for (int axis = 0; axis < p->axes.count; axis++)
    if (axis_in(axes, axis) && p->axes.items[axis].size == TILE_RUNTIME_SIZE)
      sizes |= axis_bit(p->axes.items[axis].body_axis);
  return sizes;
}

// The operations of a program's body, per step; a kernel for a tile of an axis counts for the whole
// axis.
static void add_operations(arena *a, amount *sum, const tile_program *p, const typed_body *body) {
  if (!p) return;
  int64_t sizes[TYPED_MAX_AXES];
  const double *shares = cost_shares(a, p);
  for (int axis = 0; axis < TYPED_MAX_AXES; axis++) sizes[axis] = 1;
  vec_each(const tile_axis, t, p->axes)
    if (t->body_axis >= 0 && t->size != TILE_RUNTIME_SIZE)
      sizes[t->body_axis] = body->axes.items[t->body_axis].size;
  for (tile_id id = 0; id < p->values.count; id++) {
    if (shares[id] == 0) continue;
    add_amount(a, sum, shares[id] * tile_value_cost(p, id, sizes) / p->chunk,
               runtime_axes_of(p, id));
  }
}

// ---- bytes ----

static void add_tokens(arena *a, amount *sum, const typed_body *body, tensor_kind kind,
                       double bytes) {
  vec_each(const typed_tensor, t, body->tensors)
    if (t->kind == kind)
      add_entry_amount(a, sum, body, t->axis_set, t->complex ? 2 * bytes : bytes);
}

static void add_state_amounts(arena *a, amount *sum, const typed_body *body, double factor) {
  add_tokens(a, sum, body, TENSOR_STATE, factor);
  vec_each(const typed_lag, lag, body->lags)
    add_entry_amount(a, sum, body, lag->axes, factor * lag->depth * (lag->complex ? 2 : 1));
}

static double state_number_bytes(number_type dtype) { return dtype == NUMBER_F64 ? 8 : 4; }

// ---- lines ----

const kernel *reported_kernel(const reporter *r, kernel_kind kind) {
  const kernel *found = schedule_kernel(r->kernels, kind);
  if (!found) ICE("report", "%s has no kernel of kind %d", r->body->name, kind);
  return found;
}

static const char *sum_text(const reporter *r, const amount *sum) {
  return amount_text(r->a, r->body, sum);
}

static const char *explained(const reporter *r) {
  const char *unit = "in multiply-adds of full products a step";
  for (int axis = 0; axis < r->body->axes.count; axis++)
    if (r->body->axes.items[axis].size == TYPED_RUNTIME_SIZE)
      return arena_printf(r->a, "%s, run-time sizes as %d", unit, COST_USUAL_SIZE);
  return unit;
}

// Does the backward read what the steps of a chunk make again?
bool reads_steps_again(const tile_program *backward) {
  return backward->form == TILE_STEP && tile_takes(backward, 1u << TILE_STATE | 1u << TILE_STASH);
}

// `recompute`: what makes its states again; NULL: nothing does.
static const char *operations_text(const reporter *r, const tile_program *program,
                                   const tile_program *recompute) {
  amount operations = {0};
  add_operations(r->a, &operations, program, r->body);
  if (reads_steps_again(program)) add_operations(r->a, &operations, recompute, r->body);
  return sum_text(r, &operations);
}

static const char *saved_bytes(const reporter *r, int chunk) {
  amount bytes = {0};
  add_state_amounts(r->a, &bytes, r->body, state_number_bytes(r->dtype) / chunk);
  return sum_text(r, &bytes);
}

// What the cost model said of each form that it looked at (cost.h).
static void put_alternatives(const reporter *r) {
  const recurrence_kernels *k = r->kernels;
  int back = reported_kernel(r, KERNEL_BACKWARD)->program->chunk;
  if (k->alternatives.count) fprintf(r->out, "  cost        %s\n", explained(r));
  vec_each(const schedule_alternative, x, k->alternatives) {
    bool steps = strcmp(x->form, "step") == 0;
    bool taken = strcmp(x->form, k->form) == 0 &&
                 (steps || (x->chunk == back && x->saved_every == k->chunk));
    fprintf(r->out, "  %-11s forward %s, backward %s%s; %s and %s operations, %s bytes saved\n",
            steps                        ? x->form
            : x->saved_every == x->chunk ? arena_printf(r->a, "%s of %d", x->form, x->chunk)
                                         : arena_printf(r->a, "%d by %d", x->chunk, x->saved_every),
            count_with_unit(r->a, cost_of_counts(&x->forward, k->clone)),
            count_with_unit(r->a, cost_of_counts(&x->backward, k->clone)), taken ? " (taken)" : "",
            operations_text(r, program_rewritten(r->a, PROGRAM_FINISH, x->program), NULL),
            operations_text(r, x->gradient.backward, x->gradient.recompute),
            saved_bytes(r, x->saved_every));
  }
}

// Forward in steps, or in chunks of another length than the backward's.
static void put_mixed(const reporter *r) {
  const recurrence_kernels *k = r->kernels;
  int forward = reported_kernel(r, KERNEL_FORWARD)->program->chunk,
      back = reported_kernel(r, KERNEL_BACKWARD)->program->chunk;
  if (k->steps_forward) {
    fprintf(r->out,
            "  forward in  single steps, which go over the state in few loops: %s a step (taken)\n",
            count_with_unit(r->a, k->fused_step));
  } else if (forward != back) {
    fprintf(r->out, "  forward in  chunks of %d (taken)\n", forward);
  }
}

// What Toeplitz blocks would take where matrices write and read (chunk.h).
static void put_toeplitz(const reporter *r) {
  axis_set axes = chunk_toeplitz_axes(r->a, r->kernels->recurrence);
  amount entries = {0};
  if (!axes || strcmp(r->kernels->form, "chunk") != 0 || r->kernels->steps_forward) return;
  add_entry_amount(r->a, &entries, r->body, axes, 0.5);
  double scan = 0;
  const tile_program *p = reported_kernel(r, KERNEL_FORWARD)->program;
  const double *costs = cost_of_values(r->a, p, r->kernels->clone);
  for (int i = 0; i < p->values.count; i++)
    scan += p->values.items[i].op == TILE_DOT ? 0 : costs[i] / p->chunk;
  fprintf(r->out,
          "  not taken   Toeplitz blocks of L steps, L * %s multiply-adds a step beside the same "
          "matrices, in place of all that is no product: %s\n",
          sum_text(r, &entries), count_with_unit(r->a, scan));
}

// Operations and bytes of one step, forward or backward.
const char *step_cost_text(const reporter *r, kernel_kind kind) {
  bool back = kind == KERNEL_BACKWARD,
       states = r->kernels->recurrence->states.count || r->body->lags.count;
  const kernel *k = reported_kernel(r, kind);
  amount bytes = {0};
  add_tokens(r->a, &bytes, r->body, TENSOR_INPUT, (back ? 2 : 1) * number_type_bytes(r->dtype));
  add_tokens(r->a, &bytes, r->body, TENSOR_OUTPUT, number_type_bytes(r->dtype));
  if (states)
    add_state_amounts(r->a, &bytes, r->body, state_number_bytes(r->dtype) / r->kernels->chunk);
  return arena_printf(r->a, "%s operations a step, %s bytes",
                      operations_text(r, k->program, back ? k->recompute : NULL),
                      sum_text(r, &bytes));
}

char *schedule_report_step(arena *a, const recurrence_kernels *kernels, number_type dtype,
                           kernel_kind kind) {
  reporter r = {.a = a, .kernels = kernels, .body = &kernels->recurrence->body, .dtype = dtype};
  return arena_strdup(a, step_cost_text(&r, kind));
}

// The names of what a program keeps, "" if nothing, and how much it is: `factor` for each entry.
static const char *kept_names(const reporter *r, const tile_program *program, double factor,
                              amount *sum) {
  const char *names = "";
  int unnamed = 0;
  vec_each(const tile_result, result, program->results) {
    if (result->place.role != TILE_KEEP) continue;
    add_entry_amount(r->a, sum, r->body, tile_body_axes(&result->place), factor);
    unnamed += !result->place.name;
    if (result->place.name)
      names = arena_printf(r->a, "%s%s%s", names, *names ? ", " : "", result->place.name);
  }
  if (unnamed)
    names = arena_printf(r->a, *names ? "%s and %d value%s" : "%s%d value%s", names, unnamed,
                         unnamed == 1 ? "" : "s");
  return names;
}

// Values that the steps of a chunk hand to the backward of the same chunk, in memory that is used
// again.
static const char *kept_text(const reporter *r, const tile_program *recompute) {
  amount numbers = {0};
  const char *names = kept_names(r, recompute, 1, &numbers);
  if (!*names) return "";
  return arena_printf(r->a, "; kept meanwhile: %s, %s numbers a step", names,
                      sum_text(r, &numbers));
}

// Values of the forward that the backward reads in place of computing them (save.h).
static void put_saved_values(const reporter *r) {
  const tile_program *forward = reported_kernel(r, KERNEL_FORWARD)->program;
  amount bytes = {0};
  const char *names = kept_names(r, forward, state_number_bytes(r->dtype), &bytes);
  if (!*names) return;
  fprintf(r->out, "  saved more  %s: %s bytes a step, which spares %.0f %% of the backward\n",
          names, sum_text(r, &bytes), 100 * r->kernels->spared);
}

// A sequence by itself is cut in time where it is a single instance.
static void put_kept_of_slice(const reporter *r) {
  amount bytes = {0};
  if (!r->kernels->spared_of_slice) return;
  const char *names = kept_names(r, reported_kernel(r, KERNEL_SUMMARY)->program,
                                 state_number_bytes(r->dtype), &bytes);
  fprintf(r->out,
          "  slices      of time: forward reads what summaries keep, %s: %s bytes a step, which "
          "spares %.0f %% of it\n",
          names, sum_text(r, &bytes), 100 * r->kernels->spared_of_slice);
}

static void put_saved(const reporter *r, bool states) {
  int chunk = r->kernels->chunk;
  amount numbers = {0};
  if (!states) {
    fputs("  saved       nothing but inputs\n", r->out);
    return;
  }
  add_state_amounts(r->a, &numbers, r->body, 1);
  fprintf(r->out, "  state       %s numbers a sequence\n", sum_text(r, &numbers));
  fprintf(r->out, "  saved       the state every %d steps: %s bytes a step\n", chunk,
          saved_bytes(r, chunk));
  put_saved_values(r);
}

static void put_again(const reporter *r, bool states) {
  const kernel *k = reported_kernel(r, KERNEL_BACKWARD);
  const char *from = states ? " from its saved state" : "";
  if (reads_steps_again(k->program))
    fprintf(r->out, "  again       the steps of a chunk%s%s\n", from, kept_text(r, k->recompute));
  else if (k->program->form == TILE_CHUNK)
    fprintf(r->out, "  again       the values of a chunk%s\n", from);
}

// Which axes are cut into independent instances, which lie in the lanes, which are computed
// together.
static void report_axes(const reporter *r) {
  const kernel *k = reported_kernel(r, KERNEL_FORWARD);
  axis_set instances = kernel_instances(k), all = 0;
  for (int axis = 0; axis < r->body->axes.count; axis++) all |= axis_bit(axis);
  axis_set tile = all & ~instances & (~k->program->grid | schedule_tensor_axes(r->body));
  if (k->lane_axis >= 0) tile &= ~axis_bit(k->lane_axis);
  if (!all) return;
  fputs("  axes       ", r->out);
  if (instances) fprintf(r->out, " [%s] instances", body_axes_text(r->a, r->body, instances));
  if (k->lane_axis >= 0)
    fprintf(r->out, "%s [%s] in lanes, %d at a time", instances ? "," : "",
            r->body->axes.items[k->lane_axis].name, k->lane_block);
  if (tile)
    fprintf(r->out, "%s [%s] together", instances || k->lane_axis >= 0 ? "," : "",
            body_axes_text(r->a, r->body, tile));
  fputc('\n', r->out);
}

// The axes of the factors in a slice summary; complex ones count once.
static const char *factors_text(arena *a, const typed_body *body, const tile_program *summary) {
  const char *text = "";
  for (int i = 0; i < summary->results.count; i++) {
    const tile_place *place = &summary->results.items[i].place;
    if (!place->transfer || place->component || place->relative) continue;
    text = arena_printf(a, "%s%s%s by %s[%s]", text, *text ? ", " : "", place->name,
                        body->tensors.items[place->tensor].complex ? "complex " : "",
                        body_axes_text(a, body, tile_body_axes(place)));
    if (!place->source) continue;
    text = arena_printf(a, "%s of %s", text, body->tensors.items[place->source - 1].name);
  }
  return text;
}

// "C relative to m, m as a maximum".
static const char *relatives_text(arena *a, const typed_body *body, const tile_program *summary,
                                  const char *text) {
  for (int i = 0; i < summary->results.count; i++) {
    const tile_place *place = &summary->results.items[i].place;
    if (place->transfer || !place->relative) continue;
    const char *how = "as a maximum";
    if (place->relative - 1 != place->tensor)
      how = arena_printf(a, "relative to %s", body->tensors.items[place->relative - 1].name);
    text = arena_printf(a, "%s%s%s %s", text, *text ? ", " : "", place->name, how);
  }
  return text;
}

// The states that a stretch of time maps by a transition matrix, and those that it multiplies by
// factors.
const char *matrix_text(arena *a, const typed_body *body, const tile_program *summary,
                        int transition_size) {
  const char *text = relatives_text(a, body, summary, factors_text(a, body, summary));
  for (int i = 0; transition_size && i < summary->results.count; i++) {
    const tile_place *place = &summary->results.items[i].place;
    if (place->transfer || place->component || place->relative || place->lag >= 0) continue;
    if (kernel_has_factor(summary, place->tensor)) continue;
    text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", place->name);
    if (body->tensors.items[place->tensor].complex) text = arena_printf(a, "%s, both parts", text);
  }
  if (!transition_size) return text;
  return arena_printf(a, "%s by a matrix of %d x %d", text, transition_size, transition_size);
}

const char *schedule_summary_text(arena *a, const recurrence_kernels *kernels, bool back) {
  const kernel *k = schedule_kernel(kernels, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY);
  return k ? matrix_text(a, &kernels->recurrence->body, k->program, k->transition_size) : NULL;
}

// Segments of time, and what a summary of one costs; or why there is none.
static void put_segments(const reporter *r, bool back) {
  const kernel *k = schedule_kernel(r->kernels, back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY);
  fprintf(r->out, "  segments    %s", back ? "backward " : "");
  if (!k) {
    fprintf(r->out, "none: %s\n",
            r->kernels->whole[back] ? r->kernels->whole[back] : "it has no states");
    return;
  }
  fprintf(r->out, "joined: %s\n", schedule_summary_text(r->a, r->kernels, back));
}

char *schedule_report(arena *a, const recurrence_kernels *kernels, number_type dtype) {
  text_stream text;
  reporter r = {.a = a, .kernels = kernels, .body = &kernels->recurrence->body, .dtype = dtype};
  r.out = text_begin(&text);
  bool states = kernels->recurrence->states.count || r.body->lags.count;
  fprintf(r.out, "%s: %s, %d steps between saved states; %s\n", r.body->name, kernels->form,
          kernels->chunk, kernels->why);
  put_alternatives(&r);
  put_mixed(&r);
  put_toeplitz(&r);
  fprintf(r.out, "  forward     %s\n", step_cost_text(&r, KERNEL_FORWARD));
  fprintf(r.out, "  backward    %s\n", step_cost_text(&r, KERNEL_BACKWARD));
  put_saved(&r, states);
  put_again(&r, states);
  put_kept_of_slice(&r);
  report_axes(&r);
  for (int back = 0; back < 2 && kernels->summarises; back++) put_segments(&r, back);
  return text_end(&text, a);
}

// ---- the cost model ----

static void put_counts(const reporter *r, const schedule_alternative *x, const char *direction,
                       const cost_counts *counts) {
  fprintf(r->out, "  %s %d by %d %s:", x->form, x->chunk, x->saved_every, direction);
  for (int term = 0; term < COST_TERMS; term++)
    fprintf(r->out, "%s %s %.6g", term ? "," : "", cost_term_name((cost_term)term),
            counts->of[term]);
  fprintf(r->out, "; %.6g\n", cost_of_counts(counts, r->kernels->clone));
}

char *schedule_costs(arena *a, const recurrence_kernels *kernels) {
  text_stream text;
  reporter r = {.a = a, .kernels = kernels, .body = &kernels->recurrence->body};
  r.out = text_begin(&text);
  fprintf(r.out, "%s for %s: %s %d by %d, forward %d; states at least %.6g steps apart\n",
          r.body->name, codegen_clone_name(kernels->clone), kernels->form,
          reported_kernel(&r, KERNEL_BACKWARD)->program->chunk, kernels->chunk,
          reported_kernel(&r, KERNEL_FORWARD)->program->chunk, kernels->spacing);
  vec_each(const schedule_alternative, x, kernels->alternatives) {
    put_counts(&r, x, "forward", &x->forward);
    put_counts(&r, x, "backward", &x->backward);
  }
  return text_end(&text, a);
}
