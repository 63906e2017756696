// States that are not linear but go entry by entry, by a few cheap operations: a chunk makes their
// steps one after another.
//
//   n = where(n[t-1] >= 7, 0, n[t-1] + x)     before segment 0: n, before segment 1: f(f(n, x[0]), x[1]), ..
//                                             in all segments: n0 = f(before, x at the first step), n1 = f(n0, x at the second), ..
//
// First come the states before segments of some steps, then the steps of all segments at a time.
// Their gradient is that of a state that is linear, with the slopes of the update: backward scans
// the steps, and none waits for another.
#include "compiler/chunk/scan.h"
#include "compiler/recurrence/structure.h"

// Operations of the update times steps of a chunk: the chunk program has a value for each.
enum { STEPWISE_VALUES_MAX = 512 };

// Entry by entry, in an instruction or two: the code of a chunk has the update for each of its
// steps.
static bool is_cheap_entry(value_op op) {
  switch (op) {
    case VALUE_PREVIOUS:
    case VALUE_NEG:
    case VALUE_ADD:
    case VALUE_SUB:
    case VALUE_MUL:
    case VALUE_DIV:
    case VALUE_MIN:
    case VALUE_MAX:
    case VALUE_ABS:
    case VALUE_RELU:
    case VALUE_LESS:
    case VALUE_LESS_EQUAL:
    case VALUE_GREATER:
    case VALUE_GREATER_EQUAL:
    case VALUE_EQUAL:
    case VALUE_WHERE:
    case VALUE_STOP_GRADIENT: return true;
    default: return false;
  }
}

bool stepwise_fits(const scan *s, int state) {
  const typed_tensor *tensor = &s->body->tensors.items[s->states[state].tensor];
  const bool *made = scan_made_of(s, s->states[state].group), *needed = scan_needed_by(s, state);
  int operations = 0;
  if (tensor->complex || !scan_is_alone(s, state)) return false;
  for (value_id i = 0; i <= tensor->assigned; i++) {
    value_op op = s->body->values.items[i].op;
    if (!needed[i] || !made[i]) continue;
    if (!is_cheap_entry(op)) return false;
    operations += value_arity(op) > 0;
  }
  return operations * s->program->chunk <= STEPWISE_VALUES_MAX;
}

// ---- the steps -------------------------------------------------------------------------------

// An update being written out: `made` are the values that the state before the step enters,
// `beside` (by value) what these read.
typedef struct stepper {
  scan *s;
  int state, level;  // segments of 2^level steps
  value_id previous, update;
  const bool *made, *needed;
  const tile_pair *beside;
} stepper;

static stepper stepper_of(scan *s, int state, const tile_pair *beside) {
  int tensor = s->states[state].tensor;
  return (stepper){.s = s,
                   .state = state,
                   .level = decay_levels(s) / 2,
                   .previous = previous_value(s->body, tensor),
                   .update = s->body->tensors.items[tensor].assigned,
                   .made = scan_made_of(s, s->states[state].group),
                   .needed = scan_needed_by(s, state),
                   .beside = beside};
}

stepwise_operands stepwise_operands_of(scan *s, int state) {
  const bool *made = scan_made_of(s, s->states[state].group), *needed = scan_needed_by(s, state);
  stepwise_operands list = {0};
  for (value_id i = 0; i <= s->body->tensors.items[s->states[state].tensor].assigned; i++) {
    const typed_value *v = &s->body->values.items[i];
    for (int k = 0; needed[i] && made[i] && k < value_arity(v->op); k++)
      if (!made[v->args[k]]) vec_push(s->arena, &list, v->args[k]);
  }
  return list;
}

// Where in a chunk an update stands: at one step; at this step of each segment; or, both -1, at all
// steps.
typedef struct moment {
  int step, inner;
} moment;

static const moment all_steps = {-1, -1};

static tile_pair entry_along(scan *s, tile_pair x, int axis, int index) {
  if (axis < 0 || !axis_in(pair_axes(s->program, x), axis)) return x;
  return pair_on_axes(s->program, TILE_SLICE, x, axis, index, 0);
}

// The steps have no gradients, nor has what they read.
static tile_pair beside_at(const stepper *x, value_id id, moment at) {
  tile_program *p = x->s->program;
  tile_pair beside = x->beside[id];
  const tile_value *v = &p->values.items[beside.re];
  if (at.step < 0 && at.inner < 0) return beside;
  if (v->op == TILE_WITH_GRADIENT) beside.re = v->args[0];
  if (at.step >= 0) return entry_along(x->s, beside, p->time_axis, at.step);
  return entry_along(x->s, level_split(x->s, beside, x->level), level_axes(x->s, x->level)->step,
                     at.inner);
}

// The update, of the state before it.
static tile_pair updated(const stepper *x, tile_pair before, moment at) {
  const typed_body *body = x->s->body;
  lowering values = lowering_new(x->s->program, body);
  for (value_id i = 0; i <= x->update; i++) {
    const typed_value *v = &body->values.items[i];
    for (int k = 0; x->needed[i] && x->made[i] && k < value_arity(v->op); k++)
      if (!x->made[v->args[k]]) lowering_set(&values, v->args[k], beside_at(x, v->args[k], at));
  }
  lowering_set(&values, x->previous, before);
  return lower_value(&values, x->update);
}

tile_pair stepwise_updated(scan *s, int state, const tile_pair *beside, tile_pair before) {
  const stepper x = stepper_of(s, state, beside);
  return updated(&x, before, all_steps);
}

// Along an axis, an entry from each of these.
static tile_pair entries_along(scan *s, int axis, const tile_pair *entries, int count) {
  tile_pair all = entries[0];
  for (int i = 1; i < count; i++) {
    tile_id here = tile_binary(s->program, TILE_EQUAL, tile_leaf(s->program, TILE_INDEX, axis),
                               tile_number(s->program, i));
    all = pair_where(s->program, here, entries[i], all);
  }
  return all;
}

// The state before each segment, one step after another.
static tile_pair before_segments(const stepper *x) {
  scan *s = x->s;
  int length = 1 << x->level, segments = s->program->chunk / length;
  tile_pair *starts = ARENA_ARRAY(s->arena, tile_pair, segments), now = scan_before(s, x->state);
  for (int step = 0; step <= s->program->chunk - length; step++) {
    if (step % length == 0) starts[step / length] = now;
    now = updated(x, now, (moment){step, -1});
  }
  return entries_along(s, level_axes(s, x->level)->segment, starts, segments);
}

// The state after each step of the chunk, all segments at a time.
static tile_pair after_steps(const stepper *x) {
  scan *s = x->s;
  int count = 1 << x->level;
  tile_pair *steps = ARENA_ARRAY(s->arena, tile_pair, count), now = before_segments(x);
  for (int i = 0; i < count; i++) now = steps[i] = updated(x, now, (moment){-1, i});
  if (!x->level) return now;
  return level_place_rows(s, entries_along(s, level_axes(s, x->level)->step, steps, count),
                          -x->level);
}

// ---- the gradient ----------------------------------------------------------------------------

static bool stops_gradient(const stepper *x) {
  for (value_id id = 0; id <= x->update; id++)
    if (x->needed[id] && x->made[id] && x->s->body->values.items[id].op == VALUE_STOP_GRADIENT)
      return true;
  return false;
}

// The gradient of the steps is that of h = slope * h[t-1] + update, the update being one of a state
// before it that has none. Where the update itself stops the state's gradient, the slope is that by
// a state that has one: stopping twice is stopping once.
static tile_pair with_gradient(const stepper *x, tile_pair steps) {
  scan *s = x->s;
  tile_program *p = s->program;
  tile_pair shifted = scan_shifted(s, x->state, steps),
            before = pair_each(p, shifted, (tile_value){.op = TILE_STOP});
  tile_pair update = updated(x, before, all_steps);
  bool stops = stops_gradient(x);
  tile_pair moved = stops ? updated(x, shifted, all_steps) : update;
  tile_id slope =
      tile_unary(p, TILE_STOP,
                 tile_derivative(p, moved.re, stops ? shifted.re : before.re, tile_number(p, 1)));
  slope = tile_select(p, tile_leaf(p, TILE_VALID, 0), slope, tile_number(p, 1));
  tile_pair scanned =
      semiring_scan(s, PLUS_TIMES, pair_real(slope), update, scan_before(s, x->state));
  return pair_real(tile_binary(p, TILE_WITH_GRADIENT, steps.re, scanned.re));
}

// On padded rows it is the state before the chunk: steps behind the sequence may make numbers that
// no step in it has.
tile_pair stepwise_steps(scan *s, int state, const tile_pair *beside) {
  const stepper x = stepper_of(s, state, beside);
  tile_id valid = tile_leaf(s->program, TILE_VALID, 0);
  return with_gradient(&x, pair_where(s->program, valid, after_steps(&x), scan_before(s, state)));
}
