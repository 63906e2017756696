// What states keep from step to step, over a chunk.
//
//   scalar decay exp(g[t])         mask [t,s] = exp(segment g): sums towards a reference, exact for g = -inf
//   exp(i angle[t,K])              no part of it: reads and writes turn instead (phase.c)
//   exp(g[t,K])                    segments of 1, 2, 4, .. steps: pairs of steps meet at the level where they part into
//                                  two halves, each with a sum of its own towards the boundary between them
//                                  (block.c: one reference for all pairs of a segment where g is not large)
//   any other factor a[t,K]        the same with products: a pyramid, each level made of two products of the one below
//
// A product of the pyramid is made by multiplication alone; no quotient or difference of products
// is formed. Factors of 0, negative or complex factors and factors above 1 are therefore ordinary,
// in gradients as well.
#include "compiler/chunk/scan.h"

// Products over the steps of each segment. There are four: up to a step with it, up to a step
// without it, after a step to the end, over all steps.
typedef struct decay_level {
  bool made;
  tile_pair inclusive, exclusive, suffix, total;
} decay_level;

// ---- factors ---------------------------------------------------------------------------------

tile_pair decay_one_on_padding(scan *s, tile_pair x) {
  tile_id valid = tile_leaf(s->program, TILE_VALID, 0);
  return pair_where(s->program, valid, x, pair_number(s->program, 1));
}

static decay_factor *factor_with(scan *s, scan_state *state, axis_set axes) {
  for (int i = 0; i < state->decay.count; i++)
    if (state->decay.items[i].axes == axes) return &state->decay.items[i];
  decay_factor new = {.log = NO_TILE, .factor = pair_number(s->program, 1), .axes = axes};
  vec_push(s->arena, &state->decay, new);
  return &state->decay.items[state->decay.count - 1];
}

// The key or value axes of a factor or of one of its parts.
static axis_set side_axes(scan *s, scan_state *state, tile_pair x) {
  axis_set axes = pair_axes(s->program, x) & (state->keys | state->values | state->summed);
  if ((axes & state->keys) && (axes & state->values))
    scan_refuse(s, arena_printf(s->arena, "the decay of %s mixes keys and values",
                                s->body->tensors.items[state->tensor].name));
  return axes;
}

static tile_pair value_of_term(scan *s, const recurrence_term *term) {
  scan_product product = {.scale = term->scale, .state = -1};
  for (int i = 0; i < term->factors.count; i++)
    vec_push(s->arena, &product.factors, term->factors.items[i]);
  tile_pair scale = pair_number(s->program, term->scale);
  return pair_mul(s->program, linear_factors(s, &product, 0, false), scale);
}

static void multiply_by(scan *s, scan_state *state, tile_pair x) {
  decay_factor *factor = factor_with(s, state, side_axes(s, state, x));
  factor->factor = pair_mul(s->program, factor->factor, x);
}

static void add_to_logarithm(scan *s, scan_state *state, tile_id g) {
  if (tile_is_number(s->program, g, 0)) return;
  tile_id *sum = &factor_with(s, state, side_axes(s, state, pair_real(g)))->log;
  *sum = *sum == NO_TILE ? g : tile_binary(s->program, TILE_ADD, *sum, g);
}

static void add_angle(scan *s, scan_state *state, tile_id angle) {
  if (phase_fits(s, state)) {
    phase_add(s, state, side_axes(s, state, pair_real(angle)), angle);
  } else {
    angle = lower_valid(s->program, angle);
    multiply_by(s, state, pair_polar(s->program, tile_number(s->program, 1), angle));
  }
}

// Terms of the logarithm, by the keys or values that they have. The imaginary part is an angle.
static void add_logarithm(scan *s, scan_state *state, value_id log) {
  recurrence_terms terms =
      recurrence_split_terms(s->arena, s->body, log, state->keys, state->values);
  for (int i = 0; i < terms.count && !s->reason; i++) {
    tile_pair g = value_of_term(s, &terms.items[i]);
    add_to_logarithm(s, state, g.re);
    if (pair_is_complex(g)) add_angle(s, state, g.im);
  }
}

// polar(r, angle): r and the phase apart, in products too.
static void add_decay_factor(scan *s, scan_state *state, recurrence_factor factor) {
  const typed_value v = s->body->values.items[factor.value];
  if (v.complex && v.op == VALUE_MUL && !factor.divides) {
    add_decay_factor(s, state, (recurrence_factor){v.args[0], false});
    add_decay_factor(s, state, (recurrence_factor){v.args[1], false});
  } else if (v.op == VALUE_POLAR && !factor.divides) {
    multiply_by(s, state, scan_pure(s, v.args[0]));
    add_angle(s, state, scan_pure(s, v.args[1]).re);
  } else {
    recurrence_term single = {.scale = 1};
    vec_push(s->arena, &single.factors, factor);
    multiply_by(s, state, value_of_term(s, &single));
  }
}

// A single product, each of its factors by itself; sums stay whole.
static void add_decay_factors(scan *s, scan_state *state, value_id decay) {
  recurrence_terms terms =
      recurrence_split_terms(s->arena, s->body, decay, state->keys, state->values);
  recurrence_term whole = {.scale = 1};
  vec_push(s->arena, &whole.factors, ((recurrence_factor){decay, false}));
  const recurrence_term *term = terms.count == 1 ? &terms.items[0] : &whole;
  for (int i = 0; i < term->factors.count && !s->reason; i++)
    add_decay_factor(s, state, term->factors.items[i]);
  if (term->scale != 1) multiply_by(s, state, pair_number(s->program, term->scale));
}

static bool is_one(const scan *s, tile_pair x) {
  return !pair_is_complex(x) && tile_is_number(s->program, x.re, 1);
}

// Phases alone leave no decay; a decay of 1 is none.
static void drop_ones(scan *s, scan_state *state) {
  for (int i = state->decay.count - 1; i >= 0; i--) {
    const decay_factor *factor = &state->decay.items[i];
    if (factor->log == NO_TILE && is_one(s, factor->factor))
      state->decay.items[i] = state->decay.items[--state->decay.count];
  }
}

// One number for the whole matrix joins a factor that has keys or values: its pyramid is made
// anyway.
static void join_scalar(scan *s, scan_state *state) {
  if (state->decay.count < 2) return;
  for (int i = 0; i < state->decay.count; i++) {
    decay_factor scalar = state->decay.items[i];
    if (scalar.axes) continue;
    decay_factor *other = &state->decay.items[i ? 0 : 1];
    if (scalar.log != NO_TILE) {
      bool both = other->log != NO_TILE;
      other->log = both ? tile_binary(s->program, TILE_ADD, other->log, scalar.log) : scalar.log;
    }
    other->factor = pair_mul(s->program, other->factor, scalar.factor);
    state->decay.items[i] = state->decay.items[--state->decay.count];
    return;
  }
}

// The chunk starts behind the decay of its first step.
static void skip_first_decay(scan *s, scan_state *state) {
  tile_id first = scan_is_first_step(s), zero = tile_number(s->program, 0);
  tile_pair one = pair_number(s->program, 1);
  vec_each(scan_phase, phase, state->phases)
    phase->angle = tile_select(s->program, first, zero, phase->angle);
  vec_each(decay_factor, factor, state->decay) {
    if (factor->log != NO_TILE) factor->log = tile_select(s->program, first, zero, factor->log);
    if (!is_one(s, factor->factor))
      factor->factor = pair_where(s->program, first, one, factor->factor);
  }
}

// A logarithm stays where there is nothing else.
static void finish_factor(scan *s, decay_factor *factor) {
  bool alone = is_one(s, factor->factor);
  if (!alone || factor->log == NO_TILE) factor->factor = decay_one_on_padding(s, factor->factor);
  if (factor->log != NO_TILE) {
    factor->log = lower_valid(s->program, factor->log);
    tile_pair x = pair_real(tile_unary(s->program, TILE_EXP, factor->log));
    factor->factor = pair_mul(s->program, factor->factor, x);
  }
  if (!alone) factor->log = NO_TILE;
  factor->levels = ARENA_ARRAY(s->arena, decay_level, LEVELS_MAX);
}

void decay_make(scan *s, int index) {
  scan_state *state = &s->states[index];
  value_id decay = state->decay_value, log = state->log_decay;
  if (decay == NO_VALUE) return;
  if (log == NO_VALUE)
    add_decay_factors(s, state, decay);
  else
    add_logarithm(s, state, log);
  drop_ones(s, state);
  join_scalar(s, state);
  if (state->after_decay.re != NO_TILE) skip_first_decay(s, state);
  phase_make(s, state);
  for (int i = 0; i < state->decay.count; i++) finish_factor(s, &state->decay.items[i]);
  if (!decay_is_mask(state)) {
    decay_check_length(s, arena_printf(s->arena, "the decay of %s", scan_state_name(s, index)));
    block_make(s, index);
  }
}

bool decay_is_mask(const scan_state *state) {
  if (state->joint) return joint_is_mask(state);
  return state->decay.count == 0 || (state->decay.count == 1 && state->decay.items[0].axes == 0 &&
                                     state->decay.items[0].log != NO_TILE);
}

static bool on_side(const decay_factor *factor, axis_set keys, decay_side side) {
  if (side == DECAY_ALL) return true;
  bool of_keys = factor->axes == 0 || (factor->axes & keys);
  return of_keys == (side == DECAY_KEYS);
}

bool decay_has_values(const scan *s, int state, axis_set keys) {
  if (s->states[state].joint) return joint_on_side(s, state, keys, DECAY_VALUES);
  for (int i = 0; i < s->states[state].decay.count; i++)
    if (on_side(&s->states[state].decay.items[i], keys, DECAY_VALUES)) return true;
  return false;
}

// ---- pyramids --------------------------------------------------------------------------------

// The products of one level from those of the level below, times the whole other half where `half`
// says so.
static tile_pair grow_level(scan *s, tile_pair x, tile_pair whole_other, int half, int level) {
  tile_pair factor =
      pair_where(s->program, level_is_half(s, half), whole_other, pair_number(s->program, 1));
  return level_join(s, pair_mul(s->program, level_halve(s, x, level - 1), factor), level - 1);
}

// A chunk of one step has no axis of segments that tells its totals apart.
static tile_pair of_only_step(scan *s, tile_pair x) {
  int time = s->program->time_axis;
  if (!axis_in(pair_axes(s->program, x), time)) return x;
  return pair_each(s->program, x, (tile_value){.op = TILE_SLICE, .index = time});
}

static const decay_level *decay_level_of(scan *s, decay_factor *factor, int level) {
  decay_level *l = &factor->levels[level];
  if (l->made) return l;
  if (level == 0) {
    tile_pair total = decay_levels(s) ? factor->factor : of_only_step(s, factor->factor);
    *l = (decay_level){true, factor->factor, pair_number(s->program, 1), pair_number(s->program, 1),
                       total};
    return l;
  }
  const decay_level *below = decay_level_of(s, factor, level - 1);
  tile_pair first = level_half(s, below->total, level - 1, 0);
  tile_pair second = level_half(s, below->total, level - 1, 1);
  l->made = true;
  l->inclusive = grow_level(s, below->inclusive, first, 1, level);
  l->exclusive = grow_level(s, below->exclusive, first, 1, level);
  l->suffix = grow_level(s, below->suffix, second, 0, level);
  l->total = pair_mul(s->program, first, second);
  return l;
}

typedef enum level_product { INCLUSIVE, EXCLUSIVE, SUFFIX, TOTAL } level_product;

static tile_pair product_at(const decay_level *l, level_product which) {
  return which == INCLUSIVE   ? l->inclusive
         : which == EXCLUSIVE ? l->exclusive
         : which == SUFFIX    ? l->suffix
                              : l->total;
}

// Of one half of the segments (-1: of all): by sums of logarithms where there are, else from the
// pyramid.
static tile_pair product_of_factor(scan *s, decay_factor *factor, int level, int half,
                                   level_product which) {
  if (factor->log == NO_TILE || level == 0) {
    tile_pair x = product_at(decay_level_of(s, factor, level), which);
    return half < 0 ? x : level_half(s, x, level, half);
  }
  tile_pair log = level_split(s, pair_real(factor->log), level);
  if (half >= 0) log = level_half(s, log, level, half);
  int step = level_axes(s, level)->step;
  if (which == TOTAL) return pair_exp(s->program, pair_sum(s->program, log, axis_bit(step)));
  int kind = which == INCLUSIVE ? 0 : which == EXCLUSIVE ? 1 : 3;
  tile_id sums = tile_along(s->program, TILE_PREFIX, log.re, kind, step, 0);
  return pair_exp(s->program, pair_real(sums));
}

static tile_pair products(scan *s, int state, axis_set keys, decay_side side, int level, int half,
                          level_product which) {
  tile_pair product = pair_number(s->program, 1);
  vec_each(decay_factor, factor, s->states[state].decay)
    if (on_side(factor, keys, side))
      product = pair_mul(s->program, product, product_of_factor(s, factor, level, half, which));
  return product;
}

static bool is_by_start(const scan *s, int state, int level) {
  return s->states[state].by_start && -level == decay_levels(s);
}

tile_pair level_row_decay(scan *s, int state, bool previous, axis_set keys, decay_side side,
                          int level, int term) {
  if (s->states[state].joint)
    return joint_on_side(s, state, keys, side) ? joint_row(s, state, previous, level, term)
                                               : pair_number(s->program, 1);
  if (level < 0) {
    decay_factor *only = &s->states[state].decay.items[0];
    if (!on_side(only, keys, side)) return pair_number(s->program, 1);
    return is_by_start(s, state, level) ? block_start_row(s, state, previous)
                                        : block_row_decay(s, only, previous, level);
  }
  return products(s, state, keys, side, level, 1, previous ? EXCLUSIVE : INCLUSIVE);
}

tile_pair level_column_decay(scan *s, int state, int writer, axis_set keys, decay_side side,
                             int level, int term) {
  if (s->states[state].joint)
    return joint_on_side(s, state, keys, side) ? joint_column(s, state, writer, level, term)
                                               : pair_number(s->program, 1);
  if (level < 0) {
    decay_factor *only = &s->states[state].decay.items[0];
    if (!on_side(only, keys, side)) return pair_number(s->program, 1);
    tile_pair x = is_by_start(s, state, level) ? block_start_column(s, state)
                                               : block_column_decay(s, only, level);
    return level_to_pair_step(s, x, level);
  }
  return level_to_pair_step(s, products(s, state, keys, side, level, 0, SUFFIX), level);
}

int level_terms(const scan *s, int state, axis_set keys, decay_side side) {
  bool joint = s->states[state].joint && joint_on_side(s, state, keys, side);
  return joint ? joint_count(s, state) : 1;
}

// ---- whole chunks ----------------------------------------------------------------------------

// Of a state whose chunk is one block.
static decay_factor *whole_block(scan *s, int state) {
  const scan_state *of = &s->states[state];
  bool whole = of->block && of->block == decay_levels(s) && !of->joint && !of->by_start;
  return whole ? &of->decay.items[0] : NULL;
}

tile_pair decay_from_start(scan *s, int state, bool previous, axis_set keys, decay_side side) {
  decay_factor *only = whole_block(s, state);
  if (only && on_side(only, keys, side))
    return block_from_start(s, only, previous, -s->states[state].block);
  return products(s, state, keys, side, decay_levels(s), -1, previous ? EXCLUSIVE : INCLUSIVE);
}

tile_pair decay_to_end(scan *s, int state, axis_set keys, decay_side side) {
  decay_factor *only = whole_block(s, state);
  if (only && on_side(only, keys, side)) return block_to_end(s, only, -s->states[state].block);
  return products(s, state, keys, side, decay_levels(s), -1, SUFFIX);
}

tile_pair decay_total(scan *s, int state) {
  if (s->states[state].by_start) return block_total(s, &s->states[state]);
  return products(s, state, 0, DECAY_ALL, decay_levels(s), -1, TOTAL);
}

tile_id decay_mask(scan *s, int state, bool previous, bool strict) {
  const scan_state *of = &s->states[state];
  tile_id causal = tile_leaf(s->program, TILE_CAUSAL, strict ? 1 : 0);
  tile_id zero = tile_number(s->program, 0), mask = tile_number(s->program, 1);
  if (of->decay.count) {
    tile_id sums =
        tile_indexed(s->program, TILE_SEGMENT, of->decay.items[0].log, previous ? 1 : 0, 0);
    mask = tile_unary(s->program, TILE_EXP, sums);
  }
  return tile_select(s->program, causal, mask, zero);
}
