// States that are held relative to e^m, m a running maximum, and what a stretch of steps makes of
// them.
//
//   m = max(f + m[t-1], z)                                        F: f added up
//   S = exp(g + m[t-1] - m) * S[t-1] + exp(z - m) * x      ->     D: g - f added up
//
//   after the stretch: m' = max(F + m, M),  S' = exp(D + F + m - m') S + exp(M - m') S^
//
// M and S^ come of a stretch that begins with no maximum and with 0: S e^m is an ordinary linear
// state. S is such a state if its decay is e to the power of g + m[t-1] - m. Every term of its
// increment must have the power
// -m. No states stand in anything else.
#include <math.h>
#include <string.h>

#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

// before * m[t-1] + after * m + terms; `any`: -inf, whatever is added.
typedef struct signed_value {
  value_id value;
  bool minus;
} signed_value;

typedef struct exponent {
  bool fits, any;
  int before, after;
  VEC(signed_value) terms;
} exponent;

// A value that is e to the power of before * m[t-1] + after * m, times what knows no state.
typedef struct power {
  bool fits, zero;
  int before, after;
} power;

typedef struct finder {
  arena *memory;
  const recurrence *from;
  recurrence *made;
  builder builder;
  int count;      // values of the body as it came
  bool *depends;  // by value: a state enters
  int maximum;    // the state at hand, its next value without stop_gradient
  value_id next;
  exponent *exponents;  // by value, of that maximum
  power *powers;
} finder;

static value_id unstopped(const finder *f, value_id id) {
  const typed_value *v = value_at(&f->builder, id);
  return v->op == VALUE_STOP_GRADIENT ? v->args[0] : id;
}

static bool is_free_of_states(const finder *f, value_id id) {
  return id == NO_VALUE || !f->depends[id];
}

// ---- exponents ----------------------------------------------------------------------------------

static void add_exponent_terms(finder *f, exponent *sum, const exponent *x, bool minus) {
  for (int i = 0; i < x->terms.count; i++) {
    signed_value term = x->terms.items[i];
    term.minus ^= minus;
    int same = 0;
    while (same < sum->terms.count && (sum->terms.items[same].value != term.value ||
                                       sum->terms.items[same].minus == term.minus))
      same++;
    if (same == sum->terms.count)
      vec_push(f->memory, &sum->terms, term);
    else
      sum->terms.items[same] = sum->terms.items[--sum->terms.count];
  }
}

static exponent exponent_sum(finder *f, const exponent *x, const exponent *y, bool minus) {
  int sign = minus ? -1 : 1;
  exponent sum = {.fits = x->fits && y->fits, .any = x->any || (y->any && !minus)};
  if (!sum.fits) return sum;
  sum.before = x->before + sign * y->before;
  sum.after = x->after + sign * y->after;
  add_exponent_terms(f, &sum, x, false);
  add_exponent_terms(f, &sum, y, minus);
  return sum;
}

// The terms as one value; NO_VALUE: none.
static value_id value_of_exponent(finder *f, const exponent *x) {
  value_id sum = NO_VALUE;
  vec_each(const signed_value, term, x->terms)
    sum = make_added(&f->builder, sum, term->value, term->minus);
  return sum;
}

static exponent of_value(finder *f, value_id id) {
  exponent x = {.fits = true};
  const typed_value *v = value_at(&f->builder, id);
  x.any = v->op == VALUE_NUMBER && v->number == -INFINITY;
  if (!is_the_number(&f->builder, id, 0))
    vec_push(f->memory, &x.terms, ((signed_value){id, false}));
  return x;
}

static exponent choice_exponent(finder *f, const typed_value *v) {
  exponent none = {0};
  exponent x = f->exponents[v->args[1]], y = f->exponents[v->args[2]];
  bool alike = x.any || y.any || (x.before == y.before && x.after == y.after);
  if (f->depends[v->args[0]] || !x.fits || !y.fits || !alike) return none;
  value_id a = value_of_exponent(f, &x), b = value_of_exponent(f, &y),
           zero = make_number(&f->builder, 0);
  value_id chosen =
      make_where(&f->builder, v->args[0], a == NO_VALUE ? zero : a, b == NO_VALUE ? zero : b);
  exponent made = of_value(f, chosen), known = x.any ? y : x;
  made.before = known.before;
  made.after = known.after;
  return made;
}

// x - m for an operand x of m = max(x, z), as simplify.c has rewritten it.
static bool is_below(finder *f, value_id id, exponent *found) {
  value_id m = f->from->body.tensors.items[f->maximum].assigned;
  typed_value top = *value_at(&f->builder, f->next);
  exponent maximum = {.fits = true, .after = 1};
  for (int k = 0; k < 2 && top.op == VALUE_MAX && top.args[k] < id; k++) {
    if (make_binary(&f->builder, VALUE_SUB, top.args[k], m) != id) continue;
    *found = exponent_sum(f, &f->exponents[top.args[k]], &maximum, true);
    return true;
  }
  return false;
}

static exponent exponent_of(finder *f, value_id id) {
  typed_value v = *value_at(&f->builder, id);
  exponent none = {0}, zero = {.fits = true}, below;
  if (v.op == VALUE_PREVIOUS && v.index == f->maximum) return (exponent){.fits = true, .before = 1};
  if (unstopped(f, id) == f->next) return (exponent){.fits = true, .after = 1};
  if (!f->depends[id]) return of_value(f, id);
  if (is_below(f, id, &below)) return below;
  switch (v.op) {
    case VALUE_STOP_GRADIENT: return f->exponents[v.args[0]];
    case VALUE_NEG: return exponent_sum(f, &zero, &f->exponents[v.args[0]], true);
    case VALUE_ADD:
    case VALUE_SUB:
      return exponent_sum(f, &f->exponents[v.args[0]], &f->exponents[v.args[1]], v.op == VALUE_SUB);
    case VALUE_WHERE: return choice_exponent(f, &v);
    default: return none;
  }
}

// ---- powers -------------------------------------------------------------------------------------

static power both_powers(power x, power y) {
  if (x.zero) return y;
  bool alike = y.zero || (x.before == y.before && x.after == y.after);
  x.fits = x.fits && y.fits && alike;
  return x;
}

static power power_product(power x, power y, int sign) {
  return (power){.fits = x.fits && y.fits,
                 .zero = x.zero || y.zero,
                 .before = x.before + sign * y.before,
                 .after = x.after + sign * y.after};
}

static power value_power(const finder *f, value_id id) {
  const typed_value *v = value_at(&f->builder, id);
  axis_set removed = 0, own = f->from->body.tensors.items[f->maximum].axis_set;
  const power *args[3] = {0};
  for (int k = 0; k < value_arity(v->op); k++) args[k] = &f->powers[v->args[k]];
  if (!f->depends[id]) return (power){.fits = true, .zero = is_the_number(&f->builder, id, 0)};
  switch (v->op) {
    case VALUE_EXP: {
      const exponent *x = &f->exponents[v->args[0]];
      return (power){.fits = x->fits && !x->any, .before = x->before, .after = x->after};
    }
    case VALUE_NEG:
    case VALUE_STOP_GRADIENT: return *args[0];
    case VALUE_ADD:
    case VALUE_SUB: return both_powers(*args[0], *args[1]);
    case VALUE_WHERE: return f->depends[v->args[0]] ? (power){0} : both_powers(*args[1], *args[2]);
    case VALUE_MUL: return power_product(*args[0], *args[1], 1);
    case VALUE_DIV: return power_product(*args[0], *args[1], -1);
    case VALUE_SUM:
    case VALUE_RENAME:
    case VALUE_SLICE:
      removed = value_at(&f->builder, v->args[0])->axes & ~v->axes;
      return removed & own ? (power){0} : *args[0];
    default: return (power){0};
  }
}

// ---- states -------------------------------------------------------------------------------------

static bool is_maximum(const finder *f, const state_structure *s) {
  return s->class == STATE_MAX_PLUS && is_free_of_states(f, s->log_decay) &&
         is_free_of_states(f, s->increment);
}

static void begin_maximum(finder *f, int tensor) {
  f->maximum = tensor;
  f->next = unstopped(f, f->from->body.tensors.items[tensor].assigned);
  f->exponents = ARENA_ARRAY(f->memory, exponent, f->count);
  f->powers = ARENA_ARRAY(f->memory, power, f->count);
  for (int i = 0; i < f->count; i++) {
    f->exponents[i] = exponent_of(f, i);
    f->powers[i] = value_power(f, i);
  }
}

static bool is_relative(const finder *f, int tensor, const state_structure *s) {
  const typed_tensor *t = &f->from->body.tensors.items[tensor];
  bool decays = s->class == STATE_SCALAR_DECAY || s->class == STATE_AXIS_DECAY ||
                s->class == STATE_ELEMENTWISE;
  if (!decays || t->complex || s->log_decay == NO_VALUE) return false;
  if (f->from->body.tensors.items[f->maximum].axis_set & ~t->axis_set) return false;
  const exponent *decay = &f->exponents[s->log_decay];
  if (!decay->fits || decay->before != 1 || decay->after != -1) return false;
  if (s->increment == NO_VALUE) return true;
  const power *increment = &f->powers[s->increment];
  return increment->fits && (increment->zero || (increment->before == 0 && increment->after == -1));
}

// A state of the copy that adds up the value; its axes are in the order of those of `like`.
static int add_sum_state(finder *f, int like, value_id value) {
  typed_body *body = &f->made->body;
  typed_tensor sum = {.kind = TENSOR_STATE}, of = f->from->body.tensors.items[like];
  axis_set axes = value_at(&f->builder, value)->axes;
  sum.name = arena_printf(f->memory, "%s.sum", of.name);
  sum.axis_set = axes & of.axis_set;
  sum.axes = ARENA_ARRAY(f->memory, int, of.axis_count + 1);
  for (int i = 0; i < of.axis_count; i++)
    if (axis_in(axes, of.axes[i])) sum.axes[sum.axis_count++] = of.axes[i];
  sum.span = of.span;
  vec_push(f->memory, &body->tensors, sum);
  int tensor = body->tensors.count - 1;
  value_id before = make_value(&f->builder, (typed_value){.op = VALUE_PREVIOUS, .index = tensor});
  body->tensors.items[tensor].assigned = make_binary(&f->builder, VALUE_ADD, before, value);
  return tensor;
}

static void add_relative_state(finder *f, recurrence_relatives *found, int tensor,
                               const state_structure *s, const state_structure *maximum) {
  exponent none = {.fits = true};
  exponent own = maximum->log_decay == NO_VALUE ? none : f->exponents[maximum->log_decay];
  exponent more = exponent_sum(f, &f->exponents[s->log_decay], &own, true);
  value_id value = value_of_exponent(f, &more);
  bool nothing = value == NO_VALUE || is_the_number(&f->builder, value, 0);
  recurrence_relative r = {tensor, f->maximum, nothing ? -1 : add_sum_state(f, tensor, value)};
  vec_push(f->memory, found, r);
}

// The states relative to a maximum, then itself.
static void find_relatives(finder *f, recurrence_relatives *found, int tensor,
                           const state_structure *maximum) {
  begin_maximum(f, tensor);
  int state = 0;
  for (int i = 0; i < f->from->body.tensors.count; i++) {
    if (f->from->body.tensors.items[i].kind != TENSOR_STATE) continue;
    const state_structure *s = &f->from->states.items[state++];
    if (i != tensor && is_relative(f, i, s)) add_relative_state(f, found, i, s, maximum);
  }
  // A sum of zeros, too: after another packed sequence it says that nothing is left of the maximum
  // before.
  value_id shift =
      maximum->log_decay == NO_VALUE ? make_number(&f->builder, 0) : maximum->log_decay;
  recurrence_relative r = {tensor, tensor, add_sum_state(f, tensor, shift)};
  vec_push(f->memory, found, r);
}

recurrence *recurrence_with_sums(arena *a, const recurrence *from, recurrence_relatives *found) {
  finder f = {.memory = a,
              .from = from,
              .made = ARENA_NEW(a, recurrence),
              .count = from->body.values.count};
  f.made->body = body_copy(a, &from->body);
  f.builder = builder_new(a, &f.made->body);
  f.depends = values_made_of(a, &f.made->body, -1);
  int state = 0;
  for (int i = 0; i < from->body.tensors.count; i++) {
    if (from->body.tensors.items[i].kind != TENSOR_STATE) continue;
    const state_structure *s = &from->states.items[state++];
    if (is_maximum(&f, s)) find_relatives(&f, found, i, s);
  }
  if (!found->count) return NULL;
  find_structure(a, f.made);
  return f.made;
}
