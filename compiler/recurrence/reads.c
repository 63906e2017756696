// Reads of states in one form: the state times what multiplies it, summed once.
//
//   sum[J](u * S{K -> J})        ->   sum[K](u{J -> K} * S)      a rename leaves the state
//   sum[M](w * sum[K](q * S))    ->   sum[M,K](w * q * S)        where all reads of S sum over M
//   sum[K](where(c, q * S, 0))   ->   where(c, sum[K](q * S), 0)
//
// Inside of sums and differences as well. A rename stays where a factor of the sum has the axis
// that it takes away: that is a dense transition.
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

enum { BUDGET = 256 };  // values looked at for one sum

static const axis_set all_axes = ~(axis_set)0;

typedef struct reading {
  const typed_body *from;
  axis_set *held;  // by value: axes of states that it has without a sum; 0: it has no state
  axis_set *keys;  // by value: axes that all reads of these states sum over
  bool *reads;     // by value: it has a state or a sum over one
  bool *made;      // by value: it is made of states in any way
  builder *b;
  const value_id *map;
  int budget;
} reading;

static const typed_value *reading_value(const reading *r, value_id id) {
  return &r->from->values.items[id];
}

// ---- what values have of states -----------------------------------------------------------------

static bool value_adds(value_op op) {
  return op == VALUE_NEG || op == VALUE_ADD || op == VALUE_SUB;
}

static bool keeps_states(value_op op) {
  return value_adds(op) || op == VALUE_MUL || op == VALUE_DIV || op == VALUE_WHERE ||
         op == VALUE_RENAME || op == VALUE_REAL_PART || op == VALUE_IMAGINARY_PART;
}

static void describe_read_value(reading *r, value_id id) {
  const typed_value *v = reading_value(r, id);
  r->keys[id] = all_axes;
  for (int k = 0; keeps_states(v->op) && k < value_arity(v->op); k++) {
    r->held[id] |= r->held[v->args[k]];
    r->keys[id] &= r->keys[v->args[k]];
    bool passes = value_adds(v->op) || v->op == VALUE_MUL || v->op == VALUE_WHERE;
    r->reads[id] |= passes && r->reads[v->args[k]];
  }
  if (v->op == VALUE_RENAME) r->held[id] = axes_renamed(r->held[id], v->index, v->index2);
  for (int k = 0; k < value_arity(v->op); k++) r->made[id] |= r->made[v->args[k]];
  r->made[id] |= v->op == VALUE_PREVIOUS;
  r->reads[id] |= r->held[id] || (v->op == VALUE_SUM && r->held[v->args[0]]);
}

static void describe_state(reading *r, value_id id, const typed_tensor *t, axis_set keys) {
  r->held[id] = reading_value(r, id)->axes & t->axis_set;
  r->keys[id] = keys;
  r->reads[id] = true;
}

static reading reading_new(arena *memory, const typed_body *body) {
  int count = body->values.count;
  reading r = {.from = body};
  r.held = ARENA_ARRAY(memory, axis_set, count);
  r.keys = ARENA_ARRAY(memory, axis_set, count);
  r.reads = ARENA_ARRAY(memory, bool, count);
  r.made = ARENA_ARRAY(memory, bool, count);
  axis_set *keys = ARENA_ARRAY(memory, axis_set, body->tensors.count);
  for (int i = 0; i < body->tensors.count; i++) {
    bool state = body->tensors.items[i].kind == TENSOR_STATE;
    keys[i] = state ? axes_summed_by_reads(memory, body, i) : 0;
  }
  for (int id = 0; id < count; id++) {
    const typed_value *v = reading_value(&r, id);
    describe_read_value(&r, id);
    if (v->op == VALUE_PREVIOUS)
      describe_state(&r, id, &body->tensors.items[v->index], keys[v->index]);
    for (int i = 0; i < body->tensors.count; i++) {
      const typed_tensor *t = &body->tensors.items[i];
      if (t->kind == TENSOR_STATE && t->assigned == id) describe_state(&r, id, t, keys[i]);
    }
  }
  return r;
}

// ---- what may leave -----------------------------------------------------------------------------

static bool rename_leaves(const reading *r, const typed_value *v, axis_set outer) {
  return axis_in(r->held[v->args[0]], v->index) && !axis_in(outer, v->index);
}

// `outer` are the axes of what multiplies the inner sum, which lies in a sum over `over`.
static bool sums_join(const reading *r, const typed_value *inner, axis_set outer, axis_set over) {
  axis_set here = reading_value(r, inner->args[0])->axes;
  return r->held[inner->args[0]] && !(over & ~r->keys[inner->args[0]]) && !(outer & ~here) &&
         !(outer & inner->over) && !(over & ~here);
}

static bool choice_leaves(const reading *r, const typed_value *v, axis_set over) {
  value_id condition = v->args[0];
  return !r->made[condition] && !(reading_value(r, condition)->axes & over);
}

// The axes of factors that do not leave a sum over these axes.
static axis_set axes_within(const typed_body *body, value_id id, axis_set over) {
  const typed_value *v = &body->values.items[id];
  if (!(v->axes & over)) return 0;
  if (v->op != VALUE_MUL) return v->axes;
  return axes_within(body, v->args[0], over) | axes_within(body, v->args[1], over);
}

// Does a state in the sum of outer * x over these axes lie behind something that may leave?
static bool state_is_behind(reading *r, axis_set outer, value_id id, axis_set over) {
  const typed_value *v = reading_value(r, id);
  // parts of an update are no reads
  if (!r->reads[id] || state_assigned(r->from, id) >= 0 || r->budget-- <= 0) return false;
  if (v->op == VALUE_RENAME) return rename_leaves(r, v, outer);
  if (v->op == VALUE_SUM) return sums_join(r, v, outer, over);
  if (v->op == VALUE_WHERE) return choice_leaves(r, v, over);
  if (v->op != VALUE_MUL && !value_adds(v->op)) return false;
  bool behind = false, product = v->op == VALUE_MUL;
  for (int k = 0; k < value_arity(v->op); k++) {
    if (product && r->made[v->args[1 - k]]) continue;
    axis_set beside = product ? axes_within(r->from, v->args[1 - k], over) : 0;
    behind |= state_is_behind(r, outer | beside, v->args[k], over);
  }
  return behind;
}

// ---- the sum that is made -----------------------------------------------------------------------

// NO_VALUE: 1.
static value_id value_product(reading *r, value_id x, value_id y) {
  if (x == NO_VALUE || y == NO_VALUE) return x == NO_VALUE ? y : x;
  return make_binary(r->b, VALUE_MUL, x, y);
}

// The factors of a product with some of these axes, or with none of them.
static value_id factors_over(reading *r, value_id id, axis_set over, bool with) {
  typed_value v = *value_at(r->b, id);
  if (!(v.axes & over)) return with ? NO_VALUE : id;
  if (v.op != VALUE_MUL) return with ? id : NO_VALUE;
  return value_product(r, factors_over(r, v.args[0], over, with),
                       factors_over(r, v.args[1], over, with));
}

static value_id summed_product(reading *r, value_id outer, value_id id, axis_set over);

static value_id sum_of_renamed(reading *r, value_id outer, const typed_value *v, axis_set over) {
  int from = v->index, to = v->index2;
  if (outer != NO_VALUE) outer = make_renamed(r->b, outer, to, from);
  value_id sum = summed_product(r, outer, v->args[0], axes_renamed(over, to, from));
  return make_renamed(r->b, sum, from, to);
}

static value_id sum_of_choice(reading *r, value_id outer, const typed_value *v, axis_set over) {
  value_id branch[2];
  for (int k = 0; k < 2; k++) {
    const typed_value *x = reading_value(r, v->args[k + 1]);
    bool none = x->op == VALUE_NUMBER && x->number == 0;
    branch[k] = none ? make_number(r->b, 0) : summed_product(r, outer, v->args[k + 1], over);
  }
  return make_where(r->b, r->map[v->args[0]], branch[0], branch[1]);
}

static value_id sum_of_product(reading *r, value_id outer, const typed_value *v, axis_set over) {
  int k = r->reads[v->args[1]];
  return summed_product(r, value_product(r, outer, r->map[v->args[1 - k]]), v->args[k], over);
}

static value_id sum_of_operation(reading *r, value_id outer, const typed_value *v, axis_set over) {
  switch (v->op) {
    case VALUE_RENAME: return sum_of_renamed(r, outer, v, over);
    case VALUE_SUM: return summed_product(r, outer, v->args[0], over | v->over);
    case VALUE_WHERE: return sum_of_choice(r, outer, v, over);
    case VALUE_MUL: return sum_of_product(r, outer, v, over);
    case VALUE_NEG: return make_unary(r->b, VALUE_NEG, summed_product(r, outer, v->args[0], over));
    default: {
      value_id first = summed_product(r, outer, v->args[0], over);
      return make_binary(r->b, v->op, first, summed_product(r, outer, v->args[1], over));
    }
  }
}

// The sum of outer * x. `outer` is a value that is made; NO_VALUE: 1.
static value_id summed_product(reading *r, value_id outer, value_id id, axis_set over) {
  axis_set within = outer == NO_VALUE ? 0 : axes_within(r->b->body, outer, over);
  r->budget = BUDGET;
  if (!state_is_behind(r, within, id, over))
    return make_sum(r->b, value_product(r, outer, r->map[id]), over);
  value_id left = outer == NO_VALUE ? outer : factors_over(r, outer, over, false);
  if (outer != NO_VALUE) outer = factors_over(r, outer, over, true);
  return value_product(r, left, sum_of_operation(r, outer, reading_value(r, id), over));
}

static value_id with_plain_read(builder *b, const value_id *map, value_id old, void *context) {
  reading *r = context;
  const typed_value *v = reading_value(r, old);
  r->b = b;
  r->map = map;
  r->budget = BUDGET;
  bool behind = v->op == VALUE_SUM && state_is_behind(r, 0, v->args[0], v->over);
  return behind ? summed_product(r, NO_VALUE, v->args[0], v->over) : NO_VALUE;
}

void make_reads_plain(arena *memory, recurrence *r) {
  reading all = reading_new(memory, &r->body);
  r->body = body_rewritten(memory, &r->body, with_plain_read, &all);
  remove_dead_values(memory, r);
}
