// Splits a value into the parts of an affine function of a leaf, by structural recursion over the
// operations that are linear. The parts are built with the simplifying constructor, so a part that
// stands in the body already is found there again.
//
//   let Sd = a * S[t-1]                      leaf S[t-1]
//   let e  = v - sum[K](k * Sd)        ->    e: rest v, one read -1 * sum[K](k * a * leaf)
//   S = Sd + b * k * e                       S: factor a, rest b*k*v,
//                                               one read -(b*k) * sum[K](k * a * leaf)
#include "compiler/recurrence/affine.h"

enum { READS_MAX = 64 };  // more reads than this in one value are not told apart

static const affine *split_affine(affine_analysis *a, value_id id);

affine_analysis affine_begin(builder *b, value_id leaf, const char *leaf_text) {
  affine_analysis a = {
      .builder = b, .leaf = leaf, .count = b->body->values.count, .leaf_text = leaf_text};
  a.leaf_axes = value_at(b, leaf)->axes;
  a.forms = ARENA_ARRAY(b->memory, affine, a.count);
  a.depends = ARENA_ARRAY(b->memory, bool, a.count);
  for (int i = leaf; i < a.count; i++) {
    const typed_value *v = value_at(b, i);
    a.depends[i] = i == leaf;
    for (int k = 0; k < value_arity(v->op) && i > leaf; k++) a.depends[i] |= a.depends[v->args[k]];
  }
  return a;
}

// ---- arithmetic of parts ------------------------------------------------------------------------

static value_id made_one(affine_analysis *a) { return make_number(a->builder, 1); }

static value_id part_negated(affine_analysis *a, value_id x) {
  return x == NO_VALUE ? x : make_unary(a->builder, VALUE_NEG, x);
}

static value_id part_sum(affine_analysis *a, value_id x, value_id y) {
  if (x == NO_VALUE) return y;
  return y == NO_VALUE ? x : make_binary(a->builder, VALUE_ADD, x, y);
}

static value_id part_product(affine_analysis *a, value_id x, value_id y) {
  if (x == NO_VALUE) return x;
  if (is_the_number(a->builder, y, 1)) return x;
  return is_the_number(a->builder, x, 1) ? y : make_binary(a->builder, VALUE_MUL, x, y);
}

static value_id part_quotient(affine_analysis *a, value_id x, value_id y) {
  return x == NO_VALUE ? x : make_binary(a->builder, VALUE_DIV, x, y);
}

static void give_up(affine *form, bool linear, value_id limit, const char *reason) {
  form->split = false;
  form->linear = linear;
  form->limit = limit;
  form->reason = reason;
}

static void add_read(affine_analysis *a, affine *form, affine_read read) {
  vec_each(affine_read, other, form->reads) {
    if (other->over != read.over || other->inner != read.inner) continue;
    other->outer = part_sum(a, other->outer, read.outer);
    return;
  }
  if (form->reads.count == READS_MAX) {
    give_up(form, true, read.source, "adds too many sums over the state");
    return;
  }
  vec_push(a->builder->memory, &form->reads, read);
}

// ---- one case per linear operation --------------------------------------------------------------

// Takes over why an operand is not split; false if it is.
static bool inherit_limit(affine *form, const affine *x) {
  if (x->split) return false;
  give_up(form, x->linear, x->limit, x->reason);
  return true;
}

// The same for two operands: what is not linear prevents more, and the first such term is the one
// to tell.
static bool inherit_first_limit(affine *form, const affine *x, const affine *y) {
  bool second = !y->split && (x->split || x->linear > y->linear ||
                              (x->linear == y->linear && y->limit < x->limit));
  return inherit_limit(form, second ? y : x);
}

typedef value_id part_function(affine_analysis *a, value_id part, value_id by);

// The form of `x` with every part changed alike.
static void map_parts(affine_analysis *a, affine *form, const affine *x, part_function *change,
                      value_id by) {
  if (inherit_limit(form, x)) return;
  form->factor = change(a, x->factor, by);
  form->rest = change(a, x->rest, by);
  for (int i = 0; i < x->reads.count; i++) {
    affine_read read = x->reads.items[i];
    read.outer = change(a, read.outer, by);
    add_read(a, form, read);
  }
}

static value_id negated_by(affine_analysis *a, value_id part, value_id unused) {
  (void)unused;
  return part_negated(a, part);
}

static void split_add(affine_analysis *a, affine *form, const affine *x, const affine *y,
                      bool subtract) {
  if (inherit_first_limit(form, x, y)) return;
  form->factor = part_sum(a, x->factor, subtract ? part_negated(a, y->factor) : y->factor);
  form->rest = x->rest;
  if (x->rest != NO_VALUE && y->rest != NO_VALUE)
    form->rest = make_binary(a->builder, subtract ? VALUE_SUB : VALUE_ADD, x->rest, y->rest);
  else if (y->rest != NO_VALUE)
    form->rest = subtract ? part_negated(a, y->rest) : y->rest;
  for (int i = 0; i < x->reads.count; i++) add_read(a, form, x->reads.items[i]);
  for (int i = 0; i < y->reads.count; i++) {
    affine_read read = y->reads.items[i];
    if (subtract) read.outer = part_negated(a, read.outer);
    add_read(a, form, read);
  }
}

static value_id chosen_value(affine_analysis *a, value_id condition, value_id x, value_id y) {
  if (x == NO_VALUE && y == NO_VALUE) return NO_VALUE;
  value_id zero = make_number(a->builder, 0);
  return make_where(a->builder, condition, x == NO_VALUE ? zero : x, y == NO_VALUE ? zero : y);
}

static void split_where(affine_analysis *a, affine *form, value_id condition, const affine *x,
                        const affine *y) {
  if (inherit_first_limit(form, x, y)) return;
  form->factor = chosen_value(a, condition, x->factor, y->factor);
  form->rest = chosen_value(a, condition, x->rest, y->rest);
  for (int i = 0; i < x->reads.count; i++) {
    affine_read read = x->reads.items[i];
    read.outer = chosen_value(a, condition, read.outer, NO_VALUE);
    add_read(a, form, read);
  }
  for (int i = 0; i < y->reads.count; i++) {
    affine_read read = y->reads.items[i];
    read.outer = chosen_value(a, condition, NO_VALUE, read.outer);
    add_read(a, form, read);
  }
}

// sum[axes](inner * leaf) where some of the axes may be the leaf's.
static void add_contraction(affine_analysis *a, affine *form, value_id inner, axis_set axes,
                            value_id at) {
  axis_set of_leaf = axes & a->leaf_axes;
  inner = make_sum(a->builder, inner, axes & ~of_leaf);
  if (of_leaf)
    add_read(a, form, (affine_read){made_one(a), of_leaf, inner, at});
  else
    form->factor = part_sum(a, form->factor, inner);
}

static void sum_read(affine_analysis *a, affine *form, affine_read read, axis_set axes,
                     value_id at) {
  axis_set outer_axes = value_at(a->builder, read.outer)->axes;
  axis_set read_axes = (a->leaf_axes | value_at(a->builder, read.inner)->axes) & ~read.over;
  if ((axes & read_axes) == 0) {
    read.outer = make_sum(a->builder, read.outer, axes);
    add_read(a, form, read);
  } else if ((outer_axes & read.over) == 0) {
    add_contraction(a, form, part_product(a, read.outer, read.inner), axes | read.over, at);
  } else {
    give_up(form, true, at, "sums over the state twice");
  }
}

static void split_sum(affine_analysis *a, affine *form, const affine *x, axis_set axes,
                      value_id id) {
  if (inherit_limit(form, x)) return;
  if (x->rest != NO_VALUE) form->rest = make_sum(a->builder, x->rest, axes);
  if (x->factor != NO_VALUE) add_contraction(a, form, x->factor, axes, id);
  for (int i = 0; i < x->reads.count && form->split; i++)
    sum_read(a, form, x->reads.items[i], axes, id);
}

static void split_product(affine_analysis *a, affine *form, value_id id, const typed_value *v) {
  const affine *x = split_affine(a, v->args[0]), *y = split_affine(a, v->args[1]);
  if (!x->linear || !y->linear) {
    inherit_first_limit(form, x, y);
  } else if (x->depends && y->depends) {
    give_up(form, false, id,
            arena_printf(a->builder->memory, "multiplies two values that read %s", a->leaf_text));
  } else if (x->depends) {
    map_parts(a, form, x, part_product, v->args[1]);
  } else {
    map_parts(a, form, y, part_product, v->args[0]);
  }
}

static void split_quotient(affine_analysis *a, affine *form, value_id id, const typed_value *v) {
  if (split_affine(a, v->args[1])->depends) {
    give_up(form, false, id,
            arena_printf(a->builder->memory, "divides by a value that reads %s", a->leaf_text));
  } else {
    map_parts(a, form, split_affine(a, v->args[0]), part_quotient, v->args[1]);
  }
}

// Operations that are linear over the reals but have no parts here: their operands decide whether
// they are linear.
static void split_rearranged(affine_analysis *a, affine *form, value_id id, const typed_value *v,
                             const char *reason) {
  give_up(form, true, id, reason);
  for (int k = 0; k < value_arity(v->op); k++) {
    const affine *x = split_affine(a, v->args[k]);
    if (x->depends && !x->linear) inherit_limit(form, x);
  }
}

static void split_operation(affine_analysis *a, affine *form, value_id id) {
  const typed_value v = *value_at(a->builder, id);
  switch (v.op) {
    case VALUE_NEG: map_parts(a, form, split_affine(a, v.args[0]), negated_by, NO_VALUE); break;
    case VALUE_ADD:
    case VALUE_SUB:
      split_add(a, form, split_affine(a, v.args[0]), split_affine(a, v.args[1]), v.op == VALUE_SUB);
      break;
    case VALUE_MUL: split_product(a, form, id, &v); break;
    case VALUE_DIV: split_quotient(a, form, id, &v); break;
    case VALUE_WHERE:
      if (split_affine(a, v.args[0])->depends) {
        give_up(form, false, id,
                arena_printf(a->builder->memory, "chooses by a value that reads %s", a->leaf_text));
      } else {
        split_where(a, form, v.args[0], split_affine(a, v.args[1]), split_affine(a, v.args[2]));
      }
      break;
    case VALUE_SUM: split_sum(a, form, split_affine(a, v.args[0]), v.over, id); break;
    case VALUE_RENAME:
      split_rearranged(a, form, id, &v, "moves the state to another axis: a dense transition");
      break;
    case VALUE_SLICE: split_rearranged(a, form, id, &v, "takes one slice of the state"); break;
    case VALUE_REAL_PART:
    case VALUE_IMAGINARY_PART:
    case VALUE_CONJUGATE:
    case VALUE_COMPLEX:
      split_rearranged(a, form, id, &v, "takes real and imaginary part of the state apart");
      break;
    case VALUE_STOP_GRADIENT: give_up(form, false, id, "stops the gradient of the state"); break;
    default: give_up(form, false, id, arena_printf(a->builder->memory, "reads %s", a->leaf_text));
  }
}

static const affine *split_affine(affine_analysis *a, value_id id) {
  affine *form = &a->forms[id];
  if (form->done) return form;
  *form = (affine){.depends = a->depends[id], .linear = true, .split = true};
  form->factor = form->rest = form->limit = NO_VALUE;
  if (!form->depends) {
    form->rest = id;
  } else if (id == a->leaf) {
    form->factor = made_one(a);
  } else {
    a->builder->span = value_at(a->builder, id)->span;
    split_operation(a, form, id);
  }
  form->done = true;
  return form;
}

// Operands first, so that the recursion stays shallow however long a chain of values is.
const affine *affine_form(affine_analysis *a, value_id id) {
  bool *needed = ARENA_ARRAY(a->builder->memory, bool, a->count);
  needed[id] = true;
  for (int i = id; i > a->leaf; i--) {
    const typed_value *v = value_at(a->builder, i);
    for (int k = 0; k < value_arity(v->op) && needed[i] && a->depends[i]; k++)
      needed[v->args[k]] = true;
  }
  for (int i = 0; i <= id; i++)
    if (needed[i]) split_affine(a, i);
  return &a->forms[id];
}
