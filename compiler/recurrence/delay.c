// Long lags leave the body: what they read becomes tokens that the support code lays out
// (runtime/support/delay.c).
//
//   y = w * x[t-512]           ->   input x, x[t-512]                      output y = w * x[t-512]
//
//   let k2 = k + b                  input k, k[t-512], before k2[t-512], k2[t-512] before the start
//   y = k2[t-512]                   output k2, y = where(k2[t-512] before the start, before k2[t-512], k[t-512] + b)
//
// A lagged let is computed again of its inputs' earlier values; before the start, its buffer has
// it. A lag therefore costs a row of tokens at each step, whatever its length. The program has no
// state and no loop for it. A let that depends on a state, or on itself, is not made of inputs
// alone. Its buffer stays, one slot for each step, and is short.
#include "compiler/base/ice.h"
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/recurrence.h"

enum {
  SLOTS_SHORT = 16,  // a buffer of so few slots stays
  // one of so many, too, if a quarter of its steps or more are read, as by a convolution
  SLOTS_DENSE = 64,
  SLOTS_MAX = 64,   // of all buffers of a body that stay
  DELAYS_MAX = 64,  // tensors that take the place of lags
  VALUES_MAX = TYPED_MAX_VALUES
};

// The value of the old body, `steps` steps earlier, in the new one.
typedef struct earlier {
  int steps;
  value_id made;
  int next;  // position + 1 of another of the same value
} earlier;

typedef struct delayer {
  arena *memory;
  const typed_body *from;
  recurrence_delays *to;
  typed_body *body;
  bool *delayed;  // by lag
  value_id *now;  // by value of the old body
  VEC(earlier) earlier;
  int *bucket;  // of `earlier`, by value: position + 1
  bool too_many;
} delayer;

// ---- which -----------------------------------------------------------------------------------

static int slots_of(const typed_lag *lag) { return lag->depth * (lag->complex ? 2 : 1); }

// Is the value made of a state, or of this lag?
static bool is_made_of(const typed_body *body, value_id id, int lag, bool *seen) {
  if (seen[id]) return false;
  seen[id] = true;
  const typed_value *v = &body->values.items[id];
  if (v->op == VALUE_PREVIOUS || (v->op == VALUE_LAG && v->index == lag)) return true;
  if (v->op == VALUE_LAG) return is_made_of(body, body->lags.items[v->index].source, lag, seen);
  for (int k = 0; k < value_arity(v->op); k++)
    if (is_made_of(body, v->args[k], lag, seen)) return true;
  return false;
}

static bool can_be_delayed(arena *a, const typed_body *body, int lag) {
  bool *seen = ARENA_ARRAY(a, bool, body->values.count);
  return !is_made_of(body, body->lags.items[lag].source, lag, seen);
}

// The value that reads this buffer so many steps back; `steps` 0: that reads it at all. Or NULL.
static const typed_value *find_read(const typed_body *body, int lag, int steps) {
  vec_each(const typed_value, v, body->values)
    if (v->op == VALUE_LAG && v->index == lag && (!steps || v->steps == steps)) return v;
  return NULL;
}

static bool is_long_lag(const typed_body *body, int lag) {
  int depth = body->lags.items[lag].depth, reads = 0;
  if (depth <= SLOTS_SHORT) return false;
  if (depth > SLOTS_DENSE) return true;
  for (int steps = 1; steps <= depth; steps++) reads += find_read(body, lag, steps) != NULL;
  return 4 * reads < depth;
}

// The largest buffer that stays though it could be delayed; `possible` NULL: that stays. -1: there
// is none.
static int largest_left(const delayer *d, const bool *possible) {
  int largest = -1;
  for (int i = 0; i < d->from->lags.count; i++) {
    if (d->delayed[i] || (possible && !possible[i])) continue;
    if (largest < 0 || slots_of(&d->from->lags.items[i]) > slots_of(&d->from->lags.items[largest]))
      largest = i;
  }
  return largest;
}

static int slots_left(const delayer *d) {
  int slots = 0;
  for (int i = 0; i < d->from->lags.count; i++)
    if (!d->delayed[i]) slots += slots_of(&d->from->lags.items[i]);
  return slots;
}

static void choose_delayed(delayer *d) {
  int count = d->from->lags.count, largest;
  bool *possible = ARENA_ARRAY(d->memory, bool, count);
  for (int i = 0; i < count; i++) {
    possible[i] = can_be_delayed(d->memory, d->from, i);
    d->delayed[i] = possible[i] && is_long_lag(d->from, i);
  }
  while (slots_left(d) > SLOTS_MAX && (largest = largest_left(d, possible)) >= 0)
    d->delayed[largest] = true;
}

// ---- tensors ---------------------------------------------------------------------------------

static int add_delay_tensor(delayer *d, tensor_kind kind, const char *name, axis_set axes,
                            const int *order, bool complex) {
  typed_tensor t = {.kind = kind,
                    .name = name,
                    .axis_set = axes,
                    .complex = complex,
                    .wide = true,
                    .wide_gradient = true,
                    .assigned = NO_VALUE,
                    .span = d->from->span};
  t.axes = ARENA_ARRAY(d->memory, int, TYPED_MAX_AXES);
  for (int i = 0; i < d->from->axes.count; i++)
    if (!order && axis_in(axes, i)) t.axes[t.axis_count++] = i;
  for (axis_set left = axes; order && left; left &= ~axis_bit(order[t.axis_count - 1]))
    t.axes[t.axis_count] = order[t.axis_count], t.axis_count++;
  vec_push(d->memory, &d->body->tensors, t);
  return d->body->tensors.count - 1;
}

static value_id input_of_tensor(delayer *d, int tensor) {
  return body_append(d->memory, d->body,
                     (typed_value){.op = VALUE_INPUT, .index = tensor, .span = d->from->span});
}

// The value of an input with these rows: found, or made.
static value_id delayed_rows(delayer *d, recurrence_delay rows, const char *name, axis_set axes,
                             const int *order, bool complex) {
  vec_each(const recurrence_delay, x, d->to->delays)
    if (x->source == rows.source && x->lag == rows.lag && x->steps == rows.steps &&
        x->starts == rows.starts)
      return input_of_tensor(d, x->tensor);
  d->too_many = d->too_many || d->to->delays.count >= DELAYS_MAX;
  rows.tensor = add_delay_tensor(d, TENSOR_INPUT, name, axes, order, complex);
  vec_push(d->memory, &d->to->delays, rows);
  return input_of_tensor(d, rows.tensor);
}

static int lag_of_input(const typed_body *body, int input) {
  for (int i = 0; i < body->lags.count; i++)
    if (body->lags.items[i].input == input) return i;
  return -1;
}

static value_id delayed_input(delayer *d, int input, int steps) {
  typed_tensor *t = &d->body->tensors.items[input];
  recurrence_delay rows = {.source = input, .lag = lag_of_input(d->from, input), .steps = steps};
  t->wide_gradient = true;
  return delayed_rows(d, rows, arena_printf(d->memory, "%s[t-%d]", t->name, steps), t->axis_set,
                      t->axes, t->complex);
}

// ---- values ----------------------------------------------------------------------------------

static value_id value_before(delayer *d, value_id id, int steps);

// A let that was lagged: before the start its buffer has it.
static value_id delayed_let(delayer *d, int lag, int steps) {
  const typed_lag *l = &d->from->lags.items[lag];
  const char *name = arena_printf(d->memory, "%s[t-%d]", l->name, steps);
  value_id inside = value_before(d, l->source, steps);
  value_id starts =
      delayed_rows(d, (recurrence_delay){.source = -1, .lag = -1, .steps = steps, .starts = true},
                   arena_printf(d->memory, "first %d steps", steps), 0, NULL, false);
  value_id before =
      delayed_rows(d, (recurrence_delay){.source = -1, .lag = lag, .steps = steps},
                   arena_printf(d->memory, "before %s", name), l->axes, NULL, l->complex);
  return body_append(
      d->memory, d->body,
      (typed_value){.op = VALUE_WHERE, .args = {starts, before, inside}, .span = d->from->span});
}

static value_id make_before(delayer *d, value_id id, int steps) {
  typed_value v = d->from->values.items[id];
  if (v.op == VALUE_INPUT && steps > 0) return delayed_input(d, v.index, steps);
  if (v.op == VALUE_LAG && (steps > 0 || d->delayed[v.index])) {
    int input = d->from->lags.items[v.index].input, back = steps + v.steps;
    return input >= 0 ? delayed_input(d, input, back) : delayed_let(d, v.index, back);
  }
  if (v.op == VALUE_PREVIOUS && steps > 0) ICE("delay", "a lag of a state in %s", d->from->name);
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = value_before(d, v.args[k], steps);
  if (steps > 0) v.name = NULL;
  return body_append(d->memory, d->body, v);
}

static value_id *find_earlier(delayer *d, value_id id, int steps) {
  if (steps == 0) return &d->now[id];
  for (int i = d->bucket[id]; i; i = d->earlier.items[i - 1].next)
    if (d->earlier.items[i - 1].steps == steps) return &d->earlier.items[i - 1].made;
  return NULL;
}

static void keep_before(delayer *d, value_id id, int steps, value_id made) {
  if (steps == 0) {
    d->now[id] = made;
    return;
  }
  vec_push(d->memory, &d->earlier, (earlier){steps, made, d->bucket[id]});
  d->bucket[id] = d->earlier.count;
}

// The value in the new body, some steps earlier. Operands come first.
static value_id value_before(delayer *d, value_id id, int steps) {
  value_id *found = find_earlier(d, id, steps);
  if (found && *found != NO_VALUE) return *found;
  d->too_many = d->too_many || d->body->values.count >= VALUES_MAX;
  value_id made = d->too_many ? input_of_tensor(d, 0) : make_before(d, id, steps);
  keep_before(d, id, steps, made);
  return made;
}

// ---- the new body ----------------------------------------------------------------------------

// What the buffer of a let holds after the last step.
static void keep_let(delayer *d, int lag) {
  const typed_lag *l = &d->from->lags.items[lag];
  int tensor = add_delay_tensor(d, TENSOR_OUTPUT, arena_printf(d->memory, "%s kept", l->name),
                                l->axes, NULL, l->complex);
  d->body->tensors.items[tensor].assigned = d->now[l->source];
  d->to->kept[lag] = tensor;
}

static void make_delayed_body(delayer *d) {
  const typed_body *from = d->from;
  for (int i = 0; i < from->tensors.count; i++) {
    typed_tensor *t = &d->body->tensors.items[i];
    if (t->assigned >= 0) {
      value_id assigned = value_before(d, t->assigned, 0);
      d->body->tensors.items[i].assigned = assigned;
    }
  }
  for (int i = 0; i < from->lags.count; i++)
    d->body->lags.items[i].source = value_before(d, from->lags.items[i].source, 0);
  for (int i = 0; i < from->lags.count; i++) {
    d->to->kept[i] = -1;
    int input = from->lags.items[i].input;
    // Some values were folded away: nothing reads the buffer, but what it holds after the last step
    // is a result.
    if (!d->delayed[i] && find_read(from, i, 0)) continue;
    if (input < 0)
      keep_let(d, i);
    else
      d->body->tensors.items[input].wide_gradient = true;
  }
}

// Where the buffers that stay are in the new body, which has lost the others.
static void find_lags_left(delayer *d, const recurrence *made) {
  for (int i = 0; i < d->from->lags.count; i++) {
    d->to->lags[i] = -1;
    for (int n = 0; n < made->body.lags.count && !d->delayed[i]; n++)
      if (made->body.lags.items[n].name == d->from->lags.items[i].name) d->to->lags[i] = n;
  }
}

// Of buffers that cannot be delayed: the largest is named.
static bool refuse_slots(delayer *d, diag *messages) {
  int slots = slots_left(d);
  if (slots <= SLOTS_MAX) return false;
  int largest = largest_left(d, NULL);
  const typed_lag *lag = &d->from->lags.items[largest];
  const typed_value *read = find_read(d->from, largest, lag->depth);
  diag_error(messages, read ? read->span : d->from->span,
             "expected lags of values that depend on a state over at most %d steps together, found "
             "%d; %s[t-%d] is the "
             "longest. Lags of inputs, and of what is made of inputs alone, may be of any length",
             SLOTS_MAX, slots, lag->name, lag->depth);
  return true;
}

recurrence_delays *recurrence_delay_lags(arena *a, diag *messages, const recurrence *from) {
  const typed_body *body = &from->body;
  int count = body->lags.count;
  delayer d = {.memory = a, .from = body, .delayed = ARENA_ARRAY(a, bool, count)};
  choose_delayed(&d);
  bool any = false;
  for (int i = 0; i < count; i++) any = any || d.delayed[i];
  if (refuse_slots(&d, messages) || !any) return NULL;
  d.to = ARENA_NEW(a, recurrence_delays);
  d.to->kept = ARENA_ARRAY(a, int, count);
  d.to->lags = ARENA_ARRAY(a, int, count);
  typed_body made = body_declared(a, body);
  d.body = &made;
  d.bucket = ARENA_ARRAY(a, int, body->values.count);
  d.now = ARENA_ARRAY(a, value_id, body->values.count);
  for (int i = 0; i < body->values.count; i++) d.now[i] = NO_VALUE;
  make_delayed_body(&d);
  if (d.too_many) {
    diag_error(messages, body->span,
               "expected at most %d different lags of more than %d steps, those of lets counted "
               "for each input that they are "
               "made of, and %d values; found more",
               DELAYS_MAX, SLOTS_SHORT, VALUES_MAX);
    return NULL;
  }
  body_prune(a, d.body);
  d.to->made = recurrence_analyse(a, d.body);
  find_lags_left(&d, d.to->made);
  return d.to;
}

char *recurrence_delay_report(arena *a, const recurrence_delays *delays) {
  const char *list = "";
  vec_each(const recurrence_delay, d, delays->delays) {
    const char *name = delays->made->body.tensors.items[d->tensor].name;
    if (d->source >= 0) list = arena_printf(a, "%s%s%s", list, *list ? ", " : "", name);
  }
  return arena_printf(a, "  long lags   laid out as tokens before the kernels run: %s\n", list);
}
