// Decays that are at most 1 though intervals do not show it: what is added belongs together.
//
//   f = b + (1 - b) * sigmoid x            between b and 1, where b is between 0 and 1
//   a = 1 - b * k^2 / (1 + b * sum(k^2))   what is taken away is a part of the whole below it
#include "compiler/recurrence/bounds.h"

enum { FACTORS_MAX = 8, DEEPEST = 8 };

typedef struct finder {
  bounds b;
  const typed_body *body;
} finder;

typedef struct factors {
  int count;
  bool many;  // more than there is room for
  value_id of[FACTORS_MAX];
  bool divides[FACTORS_MAX];
} factors;

static bool is_in_unit(finder *f, value_id id, int depth);

static const typed_value *value_at(const finder *f, value_id id) {
  return &f->body->values.items[id];
}

static bool is_not_negative(finder *f, value_id id) { return bounds_of(&f->b, id).low >= 0; }

static bool is_one(const finder *f, value_id id) {
  return value_at(f, id)->op == VALUE_NUMBER && value_at(f, id)->number == 1;
}

static void collect(const finder *f, factors *x, value_id id, bool divides) {
  const typed_value *v = value_at(f, id);
  if (v->op == VALUE_MUL || v->op == VALUE_DIV) {
    collect(f, x, v->args[0], divides);
    collect(f, x, v->args[1], divides != (v->op == VALUE_DIV));
  } else if (x->count == FACTORS_MAX) {
    x->many = true;
  } else {
    x->of[x->count] = id;
    x->divides[x->count++] = divides;
  }
}

static factors factors_of(const finder *f, value_id id) {
  factors x = {0};
  collect(f, &x, id, false);
  return x;
}

static void take_out(factors *x, int k) {
  x->count--;
  x->of[k] = x->of[x->count];
  x->divides[k] = x->divides[x->count];
}

// Whether they are all between 0 and 1; the product of none is 1.
static bool are_in_unit(finder *f, const factors *x, int depth) {
  if (x->many) return false;
  for (int k = 0; k < x->count; k++) {
    if (x->divides[k] ? bounds_of(&f->b, x->of[k]).low < 1 : !is_in_unit(f, x->of[k], depth))
      return false;
  }
  return true;
}

// Takes one factor that is at most `of` out: the same, or what it is a sum of.
static bool take_part(finder *f, factors *parts, value_id of) {
  const typed_value *whole = value_at(f, of);
  for (int k = 0; k < parts->count; k++) {
    bool same = parts->of[k] == of || (whole->op == VALUE_SUM && whole->args[0] == parts->of[k]);
    if (!same || parts->divides[k] || !is_not_negative(f, parts->of[k])) continue;
    take_out(parts, k);
    return true;
  }
  return false;
}

// The other factors, where those of `summand` are at least some of these: then these are at most a part of it.
static bool is_part_of(finder *f, factors parts, value_id summand, int depth) {
  factors whole = factors_of(f, summand);
  bool all = !whole.many && !parts.many;
  for (int k = 0; k < whole.count && all; k++)
    all = !whole.divides[k] && take_part(f, &parts, whole.of[k]);
  return all && are_in_unit(f, &parts, depth);
}

// x y / (c + x sum(y)), c above 0.
static bool is_part_of_whole(finder *f, const factors *x, int depth) {
  for (int k = 0; k < x->count; k++) {
    const typed_value *below = value_at(f, x->of[k]);
    if (!x->divides[k] || below->op != VALUE_ADD) continue;
    factors above = *x;
    take_out(&above, k);
    for (int side = 0; side < 2; side++) {
      if (!bounds_of(&f->b, below->args[1 - side]).positive) continue;
      if (is_part_of(f, above, below->args[side], depth)) return true;
    }
  }
  return false;
}

// x u + (1 - x) v.
static bool is_mixture(finder *f, value_id left, value_id right, int depth) {
  factors x = factors_of(f, left), y = factors_of(f, right);
  for (int k = 0; k < y.count; k++) {
    const typed_value *rest = value_at(f, y.of[k]);
    if (y.divides[k] || rest->op != VALUE_SUB || !is_one(f, rest->args[0])) continue;
    factors u = x, v = y;
    take_out(&v, k);
    if (!take_part(f, &u, rest->args[1]) || !is_in_unit(f, rest->args[1], depth)) continue;
    if (are_in_unit(f, &u, depth) && are_in_unit(f, &v, depth)) return true;
  }
  return false;
}

static bool is_in_unit(finder *f, value_id id, int depth) {
  const typed_value *v = value_at(f, id);
  interval known = bounds_of(&f->b, id);
  if (v->complex || depth == DEEPEST) return false;
  if (known.low >= 0 && known.high <= 1) return true;
  if (v->op == VALUE_SUB && is_one(f, v->args[0])) return is_in_unit(f, v->args[1], depth + 1);
  if (v->op == VALUE_ADD)
    return is_mixture(f, v->args[0], v->args[1], depth + 1) ||
           is_mixture(f, v->args[1], v->args[0], depth + 1);
  if (v->op != VALUE_MUL && v->op != VALUE_DIV) return false;
  factors x = factors_of(f, id);
  return is_part_of_whole(f, &x, depth + 1) || are_in_unit(f, &x, depth + 1);
}

bool recurrence_is_fraction(arena *a, const recurrence *r, value_id value) {
  finder f = {.b = {.memory = a, .body = &r->body}, .body = &r->body};
  return is_in_unit(&f, value, 0);
}
