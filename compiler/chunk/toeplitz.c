// Time-invariant states, whose decay, written factors and read factors are the same at all steps.
// What a step reads of an earlier one depends on the distance of the two alone.
//
//   h = a * h[t-1] + b * x            lags  k[l]    = sum[N](c * a^l * b)
//   y = sum[N](c * h)          ->     block M[l,m]  = k[l - m] for m <= l, 0 above             once for all chunks
//                                     enter P[l,N]  = c * a^(l + 1),   leave Q[m,N] = a^(L - 1 - m) * b
//
// A chunk is cut into segments of L steps, which are the columns of three products:
//
//   U = dot Q x over m                what each segment adds to the state
//   H = states before the segments: H[i + 1] = a^L * H[i] + U[i], joined pair by pair
//   y = dot M x over m + dot P H over N
//
// Powers are products, never quotients: 0, negative, complex decays and those above 1 are ordinary.
// Everything without x and H depends on parameters alone, so it is computed once before the first
// chunk, and its gradients once after the last.
#include <math.h>

#include "compiler/chunk/scan.h"

// What is added at a step: key * value. The key is the same at all steps, the value has no axis
// that reads sum.
typedef struct toeplitz_write {
  tile_pair key, value;  // value: over segments and steps, 0 on padded rows
  tile_pair leave;       // Q
} toeplitz_write;

struct toeplitz {
  int level;         // segments of L = 2^level steps
  tile_pair powers;  // a^0 .. a^(L - 1)
  tile_pair decay;   // a
  tile_pair starts;  // states before the segments
  VEC(toeplitz_write) writes;
};

static tile_pair number_pair(scan *s, double x) { return pair_number(s->program, x); }
static tile_pair mul_pairs(scan *s, tile_pair x, tile_pair y) { return pair_mul(s->program, x, y); }

static tile_pair add_pairs(scan *s, tile_pair x, tile_pair y) {
  return pair_linear(s->program, TILE_ADD, x, y);
}

// ---- which states ----------------------------------------------------------------------------

typedef struct invariance {
  const typed_body *body;
  axis_set keys;
  bool *varies;   // by value: may differ from step to step
  bool *depends;  // by value: has the state in it, not summed
} invariance;

static bool is_key_invariant(const invariance *v, value_id id) {
  return !v->varies[id] || !(v->body->values.items[id].axes & v->keys);
}

// Is the value a product of parts that stay the same and of parts without keys? Sums of them are
// opened if `sums`.
static bool is_separable(const invariance *v, value_id id, bool sums) {
  const typed_value *x = &v->body->values.items[id];
  if (is_key_invariant(v, id)) return true;
  switch (x->op) {
    case VALUE_NEG: return is_separable(v, x->args[0], sums);
    case VALUE_ADD:
    case VALUE_SUB:
      return sums && is_separable(v, x->args[0], true) && is_separable(v, x->args[1], true);
    case VALUE_MUL: return is_separable(v, x->args[0], sums) && is_separable(v, x->args[1], sums);
    default: return false;
  }
}

static void find_varying(invariance *v) {
  for (int i = 0; i < v->body->values.count; i++) {
    const typed_value *x = &v->body->values.items[i];
    v->varies[i] = x->op == VALUE_INPUT || x->op == VALUE_PREVIOUS || x->op == VALUE_LAG;
    for (int k = 0; k < value_arity(x->op); k++) v->varies[i] |= v->varies[x->args[k]];
  }
}

// Is everything that the state is multiplied by on its way to a sum either the same at all steps or
// without keys?
static bool keeps_apart(const invariance *v, const typed_value *x) {
  const bool *depends = v->depends;
  switch (x->op) {
    case VALUE_MUL: return is_separable(v, x->args[depends[x->args[0]] ? 1 : 0], false);
    case VALUE_DIV: return is_key_invariant(v, x->args[1]);
    case VALUE_WHERE: return !v->varies[x->args[0]];
    default: return true;
  }
}

static bool reads_fit(invariance *v, int tensor) {
  for (int i = 0; i < v->body->values.count; i++) {
    const typed_value *x = &v->body->values.items[i];
    bool state = x->op == VALUE_PREVIOUS && x->index == tensor;
    for (int k = 0; k < value_arity(x->op); k++) v->depends[i] |= v->depends[x->args[k]];
    if (v->depends[i] && !keeps_apart(v, x)) return false;
    if (x->op == VALUE_SUM && (x->over & v->keys)) v->depends[i] = false;
    v->depends[i] |= state || v->body->tensors.items[tensor].assigned == i;
  }
  for (int i = 0; i < v->body->tensors.count; i++) {
    const typed_tensor *other = &v->body->tensors.items[i];
    if (other->kind == TENSOR_STATE && i != tensor && v->depends[other->assigned]) return false;
  }
  return true;
}

static invariance invariance_of(const scan *s, const scan_state *state) {
  int count = s->body->values.count;
  invariance v = {.body = s->body,
                  .keys = state->summed,
                  .varies = ARENA_ARRAY(s->arena, bool, count),
                  .depends = ARENA_ARRAY(s->arena, bool, count)};
  find_varying(&v);
  return v;
}

bool toeplitz_fits(const scan *s, int index) {
  const scan_state *state = &s->states[index];
  const state_structure *structure = state->structure;
  bool diagonal = structure->class == STATE_ELEMENTWISE || structure->class == STATE_AXIS_DECAY ||
                  structure->class == STATE_SCALAR_DECAY;
  if (!diagonal || !state->summed || state->entries) return false;
  invariance v = invariance_of(s, state);
  if (structure->decay != NO_VALUE && v.varies[structure->decay]) return false;
  if (structure->increment != NO_VALUE && !is_separable(&v, structure->increment, true))
    return false;
  return reads_fit(&v, state->tensor);
}

// ---- what blocks would cost where they are not made ------------------------------------------

// sum[H](B * x) by a matrix that is the same at all steps: the axes H; 0 where the increment is
// something else.
static axis_set axes_of_writes(const invariance *v, value_id id) {
  const typed_value *x = &v->body->values.items[id];
  if (x->op == VALUE_SUM && is_separable(v, x->args[0], false)) return x->over;
  if (x->op != VALUE_MUL) return 0;
  for (int k = 0; k < 2; k++)
    if (is_separable(v, x->args[1 - k], false) && axes_of_writes(v, x->args[k]))
      return axes_of_writes(v, x->args[k]);
  return 0;
}

// A read is a sum over key axes of the state. Returns the axes that are left in all reads together.
static axis_set axes_of_reads(const invariance *v, int tensor) {
  axis_set axes = 0;
  bool *depends = v->depends;
  for (int i = 0; i < v->body->values.count; i++) {
    const typed_value *x = &v->body->values.items[i];
    depends[i] = v->body->tensors.items[tensor].assigned == i ||
                 (x->op == VALUE_PREVIOUS && x->index == tensor);
    for (int k = 0; k < value_arity(x->op); k++) depends[i] |= depends[x->args[k]];
    if (!depends[i] || x->op != VALUE_SUM || !(x->over & v->keys)) continue;
    axes |= x->axes;
    depends[i] = false;
  }
  return axes;
}

axis_set toeplitz_of_matrices(const scan *s, int index) {
  const scan_state *state = &s->states[index];
  const state_structure *structure = state->structure;
  if (structure->class != STATE_ELEMENTWISE || !state->summed || state->entries) return 0;
  invariance v = invariance_of(s, state);
  if (structure->decay == NO_VALUE || v.varies[structure->decay]) return 0;
  if (structure->increment == NO_VALUE || !reads_fit(&v, state->tensor)) return 0;
  axis_set writes = axes_of_writes(&v, structure->increment);
  return writes ? writes | axes_of_reads(&v, state->tensor) : 0;
}

// ---- axes ------------------------------------------------------------------------------------

// The same value along an axis that it lacks.
static tile_pair expanded_along(scan *s, tile_pair x, int axis) {
  if (axis_in(pair_axes(s->program, x), axis)) return x;
  return pair_each(s->program, x, (tile_value){.op = TILE_EXPAND, .over = axis_bit(axis)});
}

static tile_pair in_half(scan *s, int half, tile_pair x, tile_pair elsewhere) {
  tile_pair y = pair_where(s->program, level_is_half(s, half), x, elsewhere);
  return expanded_along(s, y, level_half_axis(s, false));
}

static int step_axis(scan *s, const toeplitz *of) { return level_axes(s, of->level)->step; }

// Of 2^level distances between steps.
static int distance_axis(scan *s, int level) {
  if (s->distances[level] < 0) {
    const char *name = arena_printf(s->arena, "distance%d", 1 << level);
    s->distances[level] = tile_axis_new(s->program, name, 1 << level);
  }
  return s->distances[level];
}

// ---- powers ----------------------------------------------------------------------------------

// Powers of strong decays fall below the normal numbers of 32 bits, which cost a hundred times as
// much as others. What is so small beside a^0 = 1 is 0.
static const double least_power = 0x1p-100;

static tile_id not_tiny(scan *s, tile_id x) {
  tile_program *p = s->program;
  if (x == NO_TILE) return x;
  tile_id size = tile_unary(p, TILE_ABS, x), least = tile_number(p, least_power);
  return tile_select(p, tile_binary(p, TILE_LESS, size, least), tile_number(p, 0), x);
}

static tile_pair power(scan *s, tile_pair x) {
  return (tile_pair){not_tiny(s, x.re), not_tiny(s, x.im)};
}

// a^0, a^1, .. over the steps of a segment; falling: a^(L - 1), .. a^0.
static tile_pair powers_of(scan *s, tile_pair a, int level, bool falling) {
  tile_pair powers = number_pair(s, 1);
  for (int i = 0; i < level; i++) {
    powers = level_join(s, in_half(s, falling ? 0 : 1, mul_pairs(s, powers, a), powers), i);
    a = mul_pairs(s, a, a);
  }
  return power(s, powers);
}

static tile_pair squared(scan *s, tile_pair a, int times) {
  for (int i = 0; i < times; i++) a = mul_pairs(s, a, a);
  return times ? power(s, a) : a;
}

// The binary digits of a number below 2^digits, from the last one; chosen[i]: is 2^i in it?
static void digits_of(scan *s, tile_id x, int digits, tile_id *chosen) {
  tile_program *p = s->program;
  for (int i = digits - 1; i >= 0; i--) {
    tile_id unit = tile_number(p, 1 << i);
    chosen[i] = tile_binary(p, TILE_LESS_EQUAL, unit, x);
    x = tile_binary(p, TILE_SUB, x, tile_binary(p, TILE_MUL, unit, chosen[i]));
  }
}

// ---- writes ----------------------------------------------------------------------------------

// A factor that varies and has keys is a sum, or linear_of_factor would have opened it.
static int mixed_factor(scan *s, int state, const scan_product *product) {
  for (int i = 0; i < product->factors.count; i++) {
    recurrence_factor factor = product->factors.items[i];
    axis_set axes = pair_axes(s->program, scan_pure(s, factor.value));
    bool mixed = (axes & s->states[state].keys) && (axes & scan_time_bit(s));
    if (mixed) return i;
  }
  return -1;
}

static void open_factor(scan *s, linear *sum, const scan_product *product, int factor) {
  const typed_value v = s->body->values.items[product->factors.items[factor].value];
  if ((v.op != VALUE_ADD && v.op != VALUE_SUB) || product->factors.items[factor].divides) {
    scan_refuse(s, "an increment is no product of what varies and what has keys");
    return;
  }
  for (int k = 0; k < 2; k++) {
    const linear *term = linear_of_factor(s, v.args[k]);
    for (int i = 0; i < term->products.count; i++) {
      scan_product opened = term->products.items[i];
      opened.scale *= product->scale * (k == 1 && v.op == VALUE_SUB ? -1 : 1);
      for (int n = 0; n < product->factors.count; n++)
        if (n != factor) vec_push(s->arena, &opened.factors, product->factors.items[n]);
      vec_push(s->arena, &sum->products, opened);
    }
  }
}

static tile_pair valid(scan *s, tile_pair x) {
  return pair_where(s->program, tile_leaf(s->program, TILE_VALID, 0), x, number_pair(s, 0));
}

static void add_write(scan *s, int state, const scan_product *product, tile_pair falling) {
  toeplitz *of = s->states[state].toeplitz;
  const axis_set keys = s->states[state].keys;
  tile_pair value = linear_factors(s, product, keys, false);
  value = valid(s, mul_pairs(s, expanded_along(s, value, s->program->time_axis),
                             number_pair(s, product->scale)));
  toeplitz_write write = {.key = linear_factors(s, product, keys, true),
                          .value = level_split(s, value, of->level)};
  write.leave = mul_pairs(s, falling, write.key);
  vec_push(s->arena, &of->writes, write);
}

static void make_writes(scan *s, int state, tile_pair falling) {
  linear all = *linear_sum(s, &s->states[state].increment, linear_new(s), 1);
  for (int i = 0; i < all.products.count && !s->reason; i++) {
    const scan_product product = all.products.items[i];
    int mixed = mixed_factor(s, state, &product);
    if (mixed < 0)
      add_write(s, state, &product, falling);
    else
      open_factor(s, &all, &product, mixed);
    if (all.products.count > PRODUCTS_MAX) scan_refuse(s, "an increment has too many products");
  }
}

// ---- states before the segments --------------------------------------------------------------

// H[i + 1] = a * H[i] + added[i]: pairs of segments first, then the second of each pair from the
// first.
static tile_pair starts_of(scan *s, tile_pair a, tile_pair added, int level, tile_pair before) {
  if (level_axes(s, level)->segment < 0) return before;
  tile_pair first = level_half(s, added, level, 0), second = level_half(s, added, level, 1);
  tile_pair both = add_pairs(s, mul_pairs(s, a, first), second);
  tile_pair starts = starts_of(s, squared(s, a, 1), both, level + 1, before);
  tile_pair middle = add_pairs(s, mul_pairs(s, a, starts), first);
  return level_unhalve(s, in_half(s, 1, middle, starts), level);
}

// The Toeplitz block of a segment costs L / 2 a step, handing on a state of N numbers some 4 N / L.
static int best_level(scan *s, int state) {
  double numbers = scan_entries(s, s->states[state].keys);
  int level = 1;
  while (level < decay_levels(s) && ldexp(1, 2 * level) < 8 * numbers) level++;
  return level;
}

void toeplitz_make(scan *s, int index) {
  scan_state *state = &s->states[index];
  decay_check_length(s, arena_printf(s->arena, "the state %s", scan_state_name(s, index)));
  if (state->sources.count) scan_refuse(s, "an update adds another state");
  if (s->reason) return;
  toeplitz *of = state->toeplitz = ARENA_NEW(s->arena, toeplitz);
  value_id decay = state->decay_value;
  of->level = best_level(s, index);
  of->decay = decay == NO_VALUE ? number_pair(s, 1) : scan_pure(s, decay);
  of->powers = powers_of(s, of->decay, of->level, false);
  make_writes(s, index, powers_of(s, of->decay, of->level, true));
  tile_pair added = number_pair(s, 0);
  vec_each(const toeplitz_write, write, of->writes) {
    axis_set steps = axis_bit(step_axis(s, of));
    added = add_pairs(s, added, pair_dot(s->program, write->leave, write->value, steps));
  }
  tile_pair before = scan_before(s, index);
  of->starts = starts_of(s, squared(s, of->decay, of->level), added, of->level, before);
}

// ---- reads -----------------------------------------------------------------------------------

// One level of the block. Parts [d, i, j] hold the distances n * d + i - j of steps i and j below
// n. Parts of twice the size have every other one of them on the diagonal, and their neighbours
// beside it.
static tile_pair wider(scan *s, tile_pair parts, int distance, int twice, int level) {
  tile_program *p = s->program;
  const scan_axes *axes = level_axes(s, level), *next = level_axes(s, level + 1);
  int half = level_half_axis(s, false), other = level_half_axis(s, true);
  tile_id i = tile_leaf(p, TILE_INDEX, half), j = tile_leaf(p, TILE_INDEX, other);
  tile_pair pairs = pair_on_axes(s->program, TILE_SPLIT, parts, distance, twice, half);
  tile_pair same = pair_on_axes(s->program, TILE_SLICE, pairs, half, 0, 0);
  tile_pair below = pair_on_axes(s->program, TILE_SLICE, pairs, half, 1, 0);
  tile_pair above = pair_on_axes(s->program, TILE_SHIFT, below, twice, 1, 0);
  tile_pair beside = pair_where(p, tile_binary(p, TILE_LESS, j, i), below, above);
  tile_pair all = pair_where(p, tile_binary(p, TILE_EQUAL, i, j), same, beside);
  all = expanded_along(s, expanded_along(s, all, half), other);
  all = level_join_halves(s, all, half, axes->step, next->step);
  return level_join_halves(s, all, other, axes->pair_step, next->pair_step);
}

// M[i, j] = lags[i - j] for j <= i, 0 above.
static tile_pair toeplitz_block(scan *s, tile_pair lags, int level) {
  int half = level_half_axis(s, false), step = level_axes(s, level)->step;
  tile_pair parts = pair_on_axes(s->program, TILE_PLACE, expanded_along(s, lags, step), half, 1, 0);
  // from -L on
  parts = pair_on_axes(s->program, TILE_JOIN, parts, distance_axis(s, level + 1), half, step);
  for (int i = 0; i < level; i++)
    parts = wider(s, parts, distance_axis(s, level + 1 - i), distance_axis(s, level - i), i);
  return pair_on_axes(s->program, TILE_SLICE, parts, distance_axis(s, 1), 1, 0);
}

// What the steps of a segment read of its own writes.
static tile_pair inside(scan *s, const toeplitz *of, const toeplitz_write *write, tile_pair read,
                        bool previous, axis_set over) {
  const scan_axes *axes = level_axes(s, of->level);
  tile_pair lags = pair_dot(s->program, mul_pairs(s, read, write->key), of->powers, over);
  if (previous)
    lags =
        pair_on_axes(s->program, TILE_SHIFT, expanded_along(s, lags, axes->step), axes->step, 1, 0);
  return pair_dot(s->program, toeplitz_block(s, lags, of->level),
                  level_to_pair_step(s, write->value, of->level), axis_bit(axes->pair_step));
}

static tile_pair back_on_time(scan *s, tile_pair x, const toeplitz *of) {
  const scan_axes *axes = level_axes(s, of->level);
  x = expanded_along(s, x, axes->step);
  if (axes->segment < 0) return x;
  return pair_on_axes(s->program, TILE_JOIN, expanded_along(s, x, axes->segment),
                      s->program->time_axis, axes->segment, axes->step);
}

tile_pair toeplitz_read(scan *s, const scan_product *product, axis_set over) {
  const toeplitz *of = s->states[product->state].toeplitz;
  tile_pair read = linear_factors(s, product, over, true);
  if (pair_axes(s->program, read) & scan_time_bit(s)) {
    scan_refuse(s, "what a time-invariant state is read with varies");
    return read;
  }
  tile_pair enter = mul_pairs(s, read, of->powers);
  if (!product->previous) enter = mul_pairs(s, enter, of->decay);
  tile_pair sum = pair_dot(s->program, enter, of->starts, over);
  for (int i = 0; i < of->writes.count; i++) {
    tile_pair part = inside(s, of, &of->writes.items[i], read, product->previous, over);
    sum = add_pairs(s, sum, part);
  }
  return back_on_time(s, sum, of);
}

// ---- the state after the chunk ---------------------------------------------------------------

// The segment with the last step inside the sequence, and how many steps of it are inside, less
// one.
typedef struct last_segment {
  tile_id here;  // over segments; NO_TILE: there is but one
  tile_id steps;
} last_segment;

static last_segment find_last(scan *s, const toeplitz *of) {
  tile_program *p = s->program;
  int segment = level_axes(s, of->level)->segment;
  tile_id length = tile_leaf(p, TILE_LENGTH, 0), one = tile_number(p, 1);
  tile_id last = tile_binary(p, TILE_SUB, length, one);
  if (segment < 0) return (last_segment){NO_TILE, last};
  tile_id size = tile_number(p, 1 << of->level);
  tile_id begin = tile_binary(p, TILE_MUL, tile_leaf(p, TILE_INDEX, segment), size);
  tile_id begun = tile_binary(p, TILE_LESS, begin, length);
  tile_id ends = tile_binary(p, TILE_LESS, last, tile_binary(p, TILE_ADD, begin, size));
  tile_id here = tile_binary(p, TILE_MUL, begun, ends);
  tile_id before =
      tile_reduce(p, TILE_SUM, tile_binary(p, TILE_MUL, here, begin), axis_bit(segment));
  return (last_segment){here, tile_binary(p, TILE_SUB, last, before)};
}

static tile_pair at_last(scan *s, const toeplitz *of, last_segment last, tile_pair x) {
  int segment = level_axes(s, of->level)->segment;
  if (last.here == NO_TILE || !axis_in(pair_axes(s->program, x), segment)) return x;
  return pair_sum(s->program, pair_where(s->program, last.here, x, number_pair(s, 0)),
                  axis_bit(segment));
}

// Moved to the end of the segment, so that the last step inside the sequence is its last one.
static tile_pair at_segment_end(scan *s, const toeplitz *of, tile_pair x, const tile_id *missing) {
  x = expanded_along(s, x, step_axis(s, of));
  for (int i = of->level - 1; i >= 0; i--) {
    tile_pair moved = pair_on_axes(s->program, TILE_SHIFT, x, step_axis(s, of), 1 << i, 0);
    x = pair_where(s->program, missing[i], moved, x);
  }
  return x;
}

tile_pair toeplitz_next(scan *s, int state) {
  const toeplitz *of = s->states[state].toeplitz;
  last_segment last = find_last(s, of);
  tile_id missing[LEVELS_MAX];
  tile_id most = tile_number(s->program, (1 << of->level) - 1);
  digits_of(s, tile_binary(s->program, TILE_SUB, most, last.steps), of->level, missing);
  tile_id here = tile_binary(s->program, TILE_EQUAL, last.steps,
                             tile_leaf(s->program, TILE_INDEX, step_axis(s, of)));
  tile_pair longer = expanded_along(s, mul_pairs(s, of->powers, of->decay), step_axis(s, of));
  tile_pair kept = pair_sum(s->program, pair_where(s->program, here, longer, number_pair(s, 0)),
                            axis_bit(step_axis(s, of)));
  tile_pair next = mul_pairs(s, kept, at_last(s, of, last, of->starts));
  vec_each(const toeplitz_write, write, of->writes) {
    tile_pair x = at_segment_end(s, of, at_last(s, of, last, write->value), missing);
    axis_set steps = axis_bit(step_axis(s, of));
    next = add_pairs(s, next, pair_dot(s->program, write->leave, x, steps));
  }
  return next;
}
