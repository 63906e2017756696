// The cheapest order of products, and signs where they cost nothing.
//
//   mul (mul B dt) x      [D,N] twice       ->   mul (mul dt x) B          [D], then [D,N]
//   sum (mul a b) over t, both with axes of their own   ->   dot a b over t
//   exp (neg (segment (mul dt e)))          ->   exp (segment (mul dt (neg e))), e from the prologue
//
// A product becomes the list of its factors and is formed again pair by pair. A pair whose product
// exists comes first. Then comes the pair with the smallest result for each product that can use
// it. Pairs of the prologue come before others. Only what results need is formed; nothing is
// simplified on the way (a sign moved down would come up again).
#include "compiler/base/ice.h"
#include "compiler/tile/products.h"

typedef VEC(bool) flags;

typedef struct arranger {
  arena *arena;
  const tile_program *from;
  tile_program *to;
  const tile_section *sections;  // of `from`
  tile_factors *factors;         // by value of `from`: MUL and NEG, and the operand of SUM
  bool *wanted, *wanted_negative;
  // by value of `from`: by readers other than products, signs and values that a sign sinks through
  bool *read_as_it_is;
  tile_id *image, *negative;
  flags free_of_charge;   // by value of `to`: formed once
  tile_factors *used_in;  // by value of `from`: the wanted products that have it as a factor
} arranger;

// A factor on its way into a product: its value in `to`, and the factors of `from` that it is made
// of.
typedef struct part {
  tile_id value;
  tile_factors made_of;
} part;

typedef VEC(part) parts;

// ---- what has to be formed -------------------------------------------------------------------

static bool has_fixed_factor(const arranger *r, tile_id id) {
  for (int i = 0; i < r->factors[id].count; i++)
    if (r->sections[r->factors[id].items[i]] == TILE_PROLOGUE) return true;
  return false;
}

// The operand that the sign of a value sinks to, products apart; -1: there is none.
static int operand_with_sign(const arranger *r, const tile_value *v) {
  if (tile_op_is(v->op, TILE_SINKS_FACTOR)) return 0;
  return v->op == TILE_SELECT && tile_is_number(r->from, v->args[2], 0) ? 1 : -1;
}

// Can the sign go down to a value of the prologue, or a number?
static bool sinks(const arranger *r, tile_id id) {
  while (r->sections[id] != TILE_PROLOGUE) {
    const tile_value *v = tile_at(r->from, id);
    int operand = operand_with_sign(r, v);
    if (operand < 0) return v->op == TILE_MUL && has_fixed_factor(r, id);
    id = v->args[operand];
  }
  return true;
}

static bool is_product(const tile_value *v) { return v->op == TILE_MUL || v->op == TILE_NEG; }

static void want_factors(arranger *r, tile_id id) {
  const tile_factors *factors = &r->factors[id];
  for (int i = 0; i < factors->count; i++) {
    r->wanted[factors->items[i]] = true;
    vec_push(r->arena, &r->used_in[factors->items[i]], id);
  }
}

// Is the value, or what a sign would sink through below it, read with its own sign?
static bool keeps_sign(const arranger *r, tile_id id) {
  while (r->sections[id] != TILE_PROLOGUE && !r->read_as_it_is[id]) {
    const tile_value *v = tile_at(r->from, id);
    if (is_product(v)) return false;
    id = v->args[operand_with_sign(r, v)];
  }
  return r->sections[id] != TILE_PROLOGUE;
}

// A lone negative factor takes the sign itself where it sinks. On the host it then has other sums
// along time than what is read with its own sign, and those of both cost more than a sign.
static bool lone_negative(const arranger *r, const tile_factors *factors, bool negative) {
  if (factors->count != 1 || !negative) return false;
  tile_id x = factors->items[0];
  if (r->sections[x] == TILE_PROLOGUE || !sinks(r, x)) return false;
  return !r->from->host || !keeps_sign(r, x);
}

static void want_operands(arranger *r, tile_id id, bool negative) {
  const tile_value *v = tile_at(r->from, id);
  if (is_product(v)) {
    bool sign = r->factors[id].negative != negative;
    if (lone_negative(r, &r->factors[id], sign))
      r->wanted_negative[r->factors[id].items[0]] = true;
    else
      want_factors(r, id);
    return;
  }
  if (v->op == TILE_SUM && is_product(tile_at(r->from, v->args[0])) && !negative) {
    want_factors(r, id);
    return;
  }
  for (int k = 0; k < tile_arity(v->op); k++) {
    bool takes_sign = negative && !(v->op == TILE_SELECT && k != 1);
    (takes_sign ? r->wanted_negative : r->wanted)[v->args[k]] = true;
  }
}

static void find_readers(arranger *r) {
  for (int i = 0; i < r->from->results.count; i++)
    r->read_as_it_is[r->from->results.items[i].value] = true;
  for (int i = r->from->values.count - 1; i >= 0; i--) {
    const tile_value *v = tile_at(r->from, i);
    for (int k = 0; k < tile_arity(v->op) && !is_product(v); k++)
      if (operand_with_sign(r, v) != k || r->read_as_it_is[i]) r->read_as_it_is[v->args[k]] = true;
  }
}

static void find_wanted(arranger *r) {
  for (int i = 0; i < r->from->results.count; i++)
    r->wanted[r->from->results.items[i].value] = true;
  for (int i = r->from->values.count - 1; i >= 0; i--) {
    if (r->wanted[i]) want_operands(r, i, false);
    if (!r->wanted_negative[i]) continue;
    if (r->sections[i] == TILE_PROLOGUE) {
      if (!r->wanted[i]) want_operands(r, i, false);
      r->wanted[i] = true;
    } else {
      want_operands(r, i, true);
    }
  }
}

// ---- forming products ------------------------------------------------------------------------

static bool is_free_of_cost(arranger *r, tile_id id) {
  for (int i = r->free_of_charge.count; i < r->to->values.count; i++) {
    const tile_value *v = &r->to->values.items[i];
    bool once = !tile_op_is(v->op, TILE_PER_RUN) && v->op != TILE_ACCUMULATE &&
                (v->op != TILE_ARGUMENT || tile_place_of(r->to, v)->role == TILE_PARAM);
    for (int k = 0; k < tile_arity(v->op); k++) once &= r->free_of_charge.items[v->args[k]];
    vec_push(r->arena, &r->free_of_charge, once);
  }
  return r->free_of_charge.items[id];
}

static double elements(const tile_program *p, axis_set axes) {
  double count = 1;
  for (int i = 0; i < p->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    int64_t size = p->axes.items[i].size;
    count *= size == TILE_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : (double)size;
  }
  return count;
}

static tile_value product_value(tile_id x, tile_id y) {
  tile_value v = {.op = TILE_MUL, .args = {x < y ? x : y, x < y ? y : x}};
  return v;
}

static bool is_constant(const arranger *r, tile_id id) {
  return r->to->values.items[id].op == TILE_NUMBER;
}

static bool contains_all(const tile_factors *product, const tile_factors *x) {
  for (int i = 0; i < x->count; i++) {
    bool found = false;
    for (int k = 0; k < product->count && !found; k++) found = product->items[k] == x->items[i];
    if (!found) return false;
  }
  return true;
}

// more products are not looked at: a value that many share is formed anyway
enum { USES_MAX = 64 };

static int uses_of_pair(const arranger *r, const part *x, const part *y) {
  const tile_factors *candidates = &r->used_in[x->made_of.items[0]];
  int uses = 0;
  for (int i = 0; i < candidates->count && i < USES_MAX; i++) {
    const tile_factors *f = &r->factors[candidates->items[i]];
    uses += contains_all(f, &x->made_of) && contains_all(f, &y->made_of);
  }
  return uses > 0 ? uses : 1;
}

// Cost of forming a pair, for each product that has it: nothing if it does not depend on the run,
// or is there. What does not depend on it comes first, so that all of it is one factor in the end:
// there, too, the smallest results first.
static double pair_cost(arranger *r, const part *x, const part *y) {
  bool once = is_free_of_cost(r, x->value) && is_free_of_cost(r, y->value);
  if (tile_find(r->to, product_value(x->value, y->value)) != NO_TILE) return once ? -3 : -1;
  axis_set axes = r->to->values.items[x->value].axes | r->to->values.items[y->value].axes;
  double count = elements(r->to, axes);
  return once ? -2 - 1 / (1 + count) : count / uses_of_pair(r, x, y);
}

static tile_id form_pair(arranger *r, tile_id x, tile_id y) {
  if (is_constant(r, y)) {
    tile_id constant = y;
    y = x;
    x = constant;
  }
  tile_value v = {.op = TILE_MUL, .args = {x, y}};
  if (!is_constant(r, x)) v = product_value(x, y);
  return tile_append_exact(r->to, v);
}

// Replaces the best pair by its product until `left` factors remain.
static void form_pairs(arranger *r, parts *f, int left) {
  while (f->count > left) {
    int best_i = 0, best_k = 1;
    double best = 0;
    for (int i = 0; i < f->count; i++) {
      for (int k = i + 1; k < f->count; k++) {
        double cost = f->count == 2 ? 0 : pair_cost(r, &f->items[i], &f->items[k]);
        if ((i > 0 || k > 1) && cost >= best) continue;
        best = cost;
        best_i = i;
        best_k = k;
      }
    }
    part *x = &f->items[best_i], *y = &f->items[best_k];
    x->value = form_pair(r, x->value, y->value);
    for (int i = 0; i < y->made_of.count; i++) vec_push(r->arena, &x->made_of, y->made_of.items[i]);
    *y = f->items[--f->count];
  }
}

static tile_id negated_tile(arranger *r, tile_id x) {
  const tile_value *v = &r->to->values.items[x];
  if (v->op == TILE_NUMBER)
    return tile_append_exact(r->to, (tile_value){.op = TILE_NUMBER, .number = -v->number});
  if (v->op == TILE_NEG) return v->args[0];
  return tile_append_exact(r->to, (tile_value){.op = TILE_NEG, .args = {x}});
}

// The sign goes to a factor that is formed once, else to the smallest.
static void apply_sign(arranger *r, parts *f) {
  int best = 0;
  double best_cost = 0;
  for (int i = 0; i < f->count; i++) {
    tile_id x = f->items[i].value;
    double cost = is_free_of_cost(r, x) ? 0 : elements(r->to, r->to->values.items[x].axes);
    if (i && cost >= best_cost) continue;
    best = i;
    best_cost = cost;
  }
  f->items[best].value = negated_tile(r, f->items[best].value);
}

static parts factor_parts(arranger *r, const tile_factors *old) {
  parts f = {.items = NULL};
  for (int i = 0; i < old->count; i++) {
    part x = {.value = r->image[old->items[i]]};
    vec_push(r->arena, &x.made_of, old->items[i]);
    vec_push(r->arena, &f, x);
  }
  return f;
}

static tile_id form_product(arranger *r, tile_id id, bool negative) {
  const tile_factors *old = &r->factors[id];
  bool sign = old->negative != negative;
  if (lone_negative(r, old, sign)) return r->negative[old->items[0]];
  parts f = factor_parts(r, old);
  if (sign && f.count > 1) {
    apply_sign(r, &f);
    sign = false;
  }
  form_pairs(r, &f, 1);
  return sign ? negated_tile(r, f.items[0].value) : f.items[0].value;
}

// Both operands of a matrix product have axes that the other lacks.
static bool is_matrix_product(const arranger *r, tile_id x, tile_id y, axis_set over) {
  axis_set a = r->to->values.items[x].axes, b = r->to->values.items[y].axes;
  bool contracts = (over & ~(a & b)) == 0;
  return r->to->form == TILE_CHUNK && contracts && (a & ~b) && (b & ~a);
}

static tile_id form_sum(arranger *r, tile_id id) {
  const tile_value *v = tile_at(r->from, id);
  parts f = factor_parts(r, &r->factors[id]);
  if (r->factors[id].negative) apply_sign(r, &f);
  if (f.count > 2) form_pairs(r, &f, 2);
  if (f.count == 2 && is_matrix_product(r, f.items[0].value, f.items[1].value, v->over)) {
    tile_value dot = product_value(f.items[0].value, f.items[1].value);
    dot.op = TILE_DOT;
    dot.over = v->over;
    return tile_append_exact(r->to, dot);
  }
  form_pairs(r, &f, 1);
  tile_value sum = {.op = TILE_SUM, .args = {f.items[0].value}, .over = v->over};
  return tile_append_exact(r->to, sum);
}

static tile_id form(arranger *r, tile_id id, bool negative) {
  tile_value v = *tile_at(r->from, id);
  if (is_product(&v)) return form_product(r, id, negative);
  if (v.op == TILE_SUM && is_product(tile_at(r->from, v.args[0])) && !negative)
    return form_sum(r, id);
  if (negative && r->sections[id] == TILE_PROLOGUE) return negated_tile(r, r->image[id]);
  for (int k = 0; k < tile_arity(v.op); k++) {
    bool takes_sign = negative && !(v.op == TILE_SELECT && k != 1);
    v.args[k] = (takes_sign ? r->negative : r->image)[v.args[k]];
  }
  return tile_append_exact(r->to, v);
}

static void name_image(arranger *r, tile_id id, tile_id image) {
  const char *name = tile_at(r->from, id)->name;
  if (name && !r->to->values.items[image].name) r->to->values.items[image].name = name;
}

tile_program *tile_arrange(arena *a, const tile_program *program) {
  int count = program->values.count;
  arranger r = {.arena = a,
                .from = program,
                .to = tile_program_like(a, program->name, program),
                .sections = tile_sections(a, program),
                .factors = ARENA_ARRAY(a, tile_factors, count),
                .used_in = ARENA_ARRAY(a, tile_factors, count),
                .wanted = ARENA_ARRAY(a, bool, count),
                .read_as_it_is = ARENA_ARRAY(a, bool, count),
                .wanted_negative = ARENA_ARRAY(a, bool, count),
                .image = ARENA_ARRAY(a, tile_id, count),
                .negative = ARENA_ARRAY(a, tile_id, count)};
  for (int i = 0; i < count; i++) {
    const tile_value *v = tile_at(r.from, i);
    if (is_product(v)) tile_collect_factors(program, i, a, &r.factors[i]);
    if (v->op == TILE_SUM) tile_collect_factors(program, v->args[0], a, &r.factors[i]);
  }
  find_readers(&r);
  find_wanted(&r);
  for (int i = 0; i < count; i++) {
    r.to->where = tile_at(r.from, i)->where;
    if (r.wanted[i]) name_image(&r, i, r.image[i] = form(&r, i, false));
    if (r.wanted_negative[i]) r.negative[i] = form(&r, i, true);
  }
  tile_copy_results(r.to, program, r.image);
  return tile_drop_unused(a, r.to);
}
