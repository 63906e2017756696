// What keeps a recurrence from being computed in chunks though another way to write it would not.
//
//   let u = k * v                                 a lag remembers u whole: lag its factors,
//   S = a * S[t-1] + u + u[t-1]                   k[t-1] * v[t-1]
//
// Each function below knows one such way, and says in its first line what the user wrote. What no
// other way of writing would mend (a GRU) is not spoken of: the report has it. The user hears of an
// advice where a trial (advised.c) costs clearly less.
#include "compiler/recurrence/factor.h"
#include "compiler/recurrence/structure.h"

enum {
  MATRIX_SIDE = 8,       // states with two axes as long as this ..
  MATRIX_NUMBERS = 256,  // .. and so many numbers between them gain by chunks
};

typedef struct advisor {
  arena *memory;
  const typed_body *body;
  bool *needed;  // by value, as the following
  bool *reads_state, *has_outer, *in_update;
  recurrence_advices found;
} advisor;

static const typed_value *advisor_value(const advisor *a, value_id id) {
  return &a->body->values.items[id];
}

static void advise(advisor *a, value_id id, const char *expected, const char *found,
                   const char *instead) {
  const char *text = arena_printf(a->memory, "expected %s, found %s; so %s goes step by step: %s",
                                  expected, found, a->body->name, instead);
  vec_push(a->memory, &a->found, ((recurrence_advice){id, text}));
}

// ---- what values are made of --------------------------------------------------------------------

static void find_state_readers(advisor *a) {
  bool *of_lag = ARENA_ARRAY(a->memory, bool, a->body->lags.count + 1);
  for (int round = 0; round < 2; round++) {  // a lag may stand before the value that it remembers
    for (int i = 0; i < a->body->values.count; i++) {
      const typed_value *v = advisor_value(a, i);
      a->reads_state[i] = v->op == VALUE_PREVIOUS || (v->op == VALUE_LAG && of_lag[v->index]);
      for (int k = 0; k < value_arity(v->op); k++) a->reads_state[i] |= a->reads_state[v->args[k]];
    }
    for (int i = 0; i < a->body->lags.count; i++) {
      value_id remembered = a->body->lags.items[i].source;
      of_lag[i] = remembered >= 0 && a->reads_state[remembered];
    }
  }
}

static bool is_additive(value_op op) {
  return op == VALUE_ADD || op == VALUE_SUB || op == VALUE_NEG;
}

// Both operands lack an axis of the result: k * v.
static bool is_outer(const advisor *a, value_id id) {
  const typed_value *v = advisor_value(a, id);
  if (v->op != VALUE_MUL && v->op != VALUE_ADD && v->op != VALUE_SUB) return false;
  return advisor_value(a, v->args[0])->axes != v->axes &&
         advisor_value(a, v->args[1])->axes != v->axes;
}

// An outer product, times whatever, or a sum of such.
static void find_outer_products(advisor *a) {
  for (int i = 0; i < a->body->values.count; i++) {
    const typed_value *v = advisor_value(a, i);
    a->has_outer[i] = v->op == VALUE_MUL && is_outer(a, i);
    bool passes = v->op == VALUE_MUL || is_additive(v->op);
    for (int k = 0; passes && k < value_arity(v->op); k++)
      a->has_outer[i] |= a->has_outer[v->args[k]];
  }
}

// What a state after the step is made of.
static void find_updates(advisor *a) {
  vec_each(const typed_tensor, t, a->body->tensors)
    if (t->kind == TENSOR_STATE && t->assigned >= 0) a->in_update[t->assigned] = true;
  for (int i = a->body->values.count - 1; i >= 0; i--) {
    const typed_value *v = advisor_value(a, i);
    for (int k = 0; a->in_update[i] && k < value_arity(v->op); k++) a->in_update[v->args[k]] = true;
  }
}

// The name by which the source can lag a value; NULL: it has none.
static const char *lagged_name(const advisor *a, value_id id, int steps) {
  const typed_value *v = advisor_value(a, id);
  if (v->op == VALUE_PARAM) return a->body->tensors.items[v->index].name;
  const char *name = v->op == VALUE_INPUT ? a->body->tensors.items[v->index].name : v->name;
  return name ? arena_printf(a->memory, "%s[t-%d]", name, steps) : NULL;
}

// "k[t-1] * v[t-1]"; a state among the factors is read before the step. NULL: some factor has no
// name.
static const char *lagged_factors(const advisor *a, value_id product, int steps) {
  factors list = {.count = 0};
  const char *text = NULL;
  if (!collect_factors(a->body, product, NULL, &list) || list.count < 2) return NULL;
  for (int i = 0; i < list.count; i++) {
    const char *name = lagged_name(a, list.items[i], steps);
    if (!name) return NULL;
    text = text ? arena_printf(a->memory, "%s * %s", text, name) : name;
  }
  return text;
}

// Two axes of known size that are worth a product of matrices.
static bool is_matrix_sized(const advisor *a, axis_set axes) {
  int64_t longest = 0, second = 0;
  for (int i = 0; i < a->body->axes.count; i++) {
    int64_t size = axis_in(axes, i) ? a->body->axes.items[i].size : 0;
    if (size > longest) {
      second = longest;
      longest = size;
    } else if (size > second) {
      second = size;
    }
  }
  return second >= MATRIX_SIDE && longest * second >= MATRIX_NUMBERS;
}

static const char *body_axis_name(const advisor *a, int axis) {
  return a->body->axes.items[axis].name;
}

// ---- lags of products ---------------------------------------------------------------------------

// let u = k * v    .. + u[t-1]
static void lag_of_a_product(advisor *a, value_id id) {
  const typed_value *v = advisor_value(a, id);
  if (v->op != VALUE_LAG) return;
  const typed_lag *lag = &a->body->lags.items[v->index];
  if (lag->source < 0 || !is_matrix_sized(a, lag->axes) || a->reads_state[lag->source]) return;
  if (!a->has_outer[lag->source]) return;
  const char *product = lagged_factors(a, lag->source, v->steps);
  advise(a, id, "lags of factors",
         arena_printf(a->memory, "a lag of '%s', which is remembered with all its axes", lag->name),
         product ? arena_printf(a->memory, "write %s", product)
                 : "name the factors of its products by let and lag these");
}

// let P = b * S    .. P[t-1]
static void lag_of_a_state(advisor *a, value_id id) {
  const typed_value *v = advisor_value(a, id);
  if (v->op != VALUE_LAG || v->steps != 1) return;
  const typed_lag *lag = &a->body->lags.items[v->index];
  factors list = {.count = 0};
  if (lag->source < 0 || lag->depth != 1 || !is_matrix_sized(a, lag->axes)) return;
  if (!collect_factors(a->body, lag->source, NULL, &list)) return;
  for (int i = 0; i < list.count; i++) {
    int state = state_assigned(a->body, list.items[i]);
    if (state < 0) continue;
    const char *name = a->body->tensors.items[state].name;
    const char *product = lagged_factors(a, lag->source, 1);
    advise(a, id, arena_printf(a->memory, "the state before the step, %s[t-1]", name),
           arena_printf(a->memory, "a lag of '%s', which is made of %s", lag->name, name),
           product
               ? arena_printf(a->memory, "write %s", product)
               : arena_printf(a->memory, "write %s[t-1] and the lags of what multiplies it", name));
    return;
  }
}

// ---- reads --------------------------------------------------------------------------------------

// y = S[K = 3]
static void slice_of_a_state(advisor *a, value_id id) {
  const typed_value *v = advisor_value(a, id);
  if (v->op != VALUE_SLICE) return;
  int state = state_assigned(a->body, v->args[0]);
  const typed_value *operand = advisor_value(a, v->args[0]);
  if (operand->op == VALUE_PREVIOUS) state = operand->index;
  if (state < 0 || !is_matrix_sized(a, operand->axes)) return;
  const typed_tensor *t = &a->body->tensors.items[state];
  if (a->in_update[id]) return;
  const char *axis = body_axis_name(a, v->index);
  advise(a, id, arena_printf(a->memory, "a sum over %s to read %s", axis, t->name),
         arena_printf(a->memory, "its entry [%s = %d]", axis, v->steps),
         arena_printf(
             a->memory, "write sum[%s](%s * (index[%s] == %d))", axis,
             operand->op == VALUE_PREVIOUS ? arena_printf(a->memory, "%s[t-1]", t->name) : t->name,
             axis, v->steps));
}

// ---- writes -------------------------------------------------------------------------------------

// S = .. + (k + v)^2
static void square_of_a_sum(advisor *a, value_id id) {
  const typed_value *v = advisor_value(a, id);
  if (v->op != VALUE_WHOLE_POWER || v->index != 2) return;
  value_op op = advisor_value(a, v->args[0])->op;
  if ((op != VALUE_ADD && op != VALUE_SUB) || !is_outer(a, v->args[0])) return;
  if (!is_matrix_sized(a, v->axes) || a->reads_state[id]) return;
  advise(a, id, "a sum of products", "the square of a sum",
         "multiply it out: x^2 + 2 * x * z + z^2");
}

// ---- all of them --------------------------------------------------------------------------------

recurrence_advices recurrence_advise(arena *memory, const recurrence *r) {
  advisor a = {.memory = memory,
               .body = &r->body,
               .needed = recurrence_needed(memory, r),
               .reads_state = ARENA_ARRAY(memory, bool, r->body.values.count + 1)};
  a.has_outer = ARENA_ARRAY(memory, bool, r->body.values.count + 1);
  a.in_update = ARENA_ARRAY(memory, bool, r->body.values.count + 1);
  find_state_readers(&a);
  find_outer_products(&a);
  find_updates(&a);
  for (int i = 0; i < r->body.values.count; i++) {
    if (!a.needed[i]) continue;
    lag_of_a_product(&a, i);
    lag_of_a_state(&a, i);
    slice_of_a_state(&a, i);
    square_of_a_sum(&a, i);
  }
  return a.found;
}
