// Reads of states, and states after a chunk.
//
//   y = sum[K](q * S)   ->   scores = dot q k[s] over K, times the decay of each pair of steps
//                            y      = dot scores v[s] over s + dot (q * decay from start) S over K
//   S'                  =    decay of the chunk * S + dot (k * decay to end) v over t
//
// Rotations turn q, k, v and what is read (phase.c).
//
// A scale that needs a gradient stands on an operand of its product, not on the result. Its
// gradient then follows from products that are needed anyway.
#include "compiler/base/ice.h"
#include "compiler/chunk/scan.h"

// Keys are 0 on padded rows; values and reads must be finite there.
static tile_pair keys_of(scan *s, const scan_product *written, axis_set keys) {
  tile_pair k = linear_factors(s, written, keys, true);
  k.re = lower_valid(s->program, k.re);
  if (pair_is_complex(k)) k.im = lower_valid(s->program, k.im);
  return k;
}

static tile_pair safe(scan *s, tile_pair x) {
  x.re = lower_valid_if_unsafe(s->program, x.re);
  if (pair_is_complex(x)) x.im = lower_valid_if_unsafe(s->program, x.im);
  return x;
}

static tile_pair written_values(scan *s, const scan_product *written, axis_set keys) {
  tile_pair scale = pair_number(s->program, written->scale);
  return safe(s, pair_mul(s->program, linear_factors(s, written, keys, false), scale));
}

static tile_pair reads_of(scan *s, const scan_product *read, axis_set over) {
  return safe(s, linear_factors(s, read, over, true));
}

// The same in the frame of the chunk's start.
static tile_pair turned_reads(scan *s, const scan_product *read, axis_set over, int sides) {
  tile_pair phase = phase_of_read(s, read->state, over, sides);
  return pair_mul(s->program, reads_of(s, read, over), phase);
}

static tile_pair turned_keys(scan *s, const scan_product *read, const scan_product *written,
                             axis_set over, int sides) {
  tile_pair phase = phase_of_write(s, read->state, over, sides);
  return pair_mul(s->program, keys_of(s, written, over), phase);
}

static tile_pair turned_values(scan *s, const scan_product *read, const scan_product *written,
                               axis_set over) {
  tile_pair phase = phase_of_write(s, read->state, over, PHASE_VALUES);
  return pair_mul(s->program, written_values(s, written, over), phase);
}

static tile_pair turned_back(scan *s, const scan_product *read, axis_set over, tile_pair x) {
  tile_pair phase = phase_of_read(s, read->state, over, PHASE_VALUES);
  return pair_mul(s->program, x, phase);
}

tile_pair contract_at_pair(scan *s, tile_pair x) {
  if (!axis_in(pair_axes(s->program, x), s->program->time_axis)) return x;
  return pair_each(
      s->program, x,
      (tile_value){
          .op = TILE_RENAME, .index = s->program->time_axis, .index2 = s->program->pair_axis});
}

// ---- axes of a read --------------------------------------------------------------------------

static axis_set joined_axes(const scan *s, const scan_product *product, axis_set part,
                            axis_set over) {
  for (int i = 0; product && i < product->factors.count; i++) {
    axis_set axes = s->body->values.items[product->factors.items[i].value].axes;
    if (axes & part) part |= axes & over;
  }
  return product ? joined_axes(s, product->earlier, part, over) : part;
}

static axis_set joined_by_phases(const scan *s, int state, axis_set part, axis_set over) {
  for (int i = 0; i < s->states[state].phases.count; i++) {
    axis_set axes = s->states[state].phases.items[i].axes;
    if (axes & part) part |= axes & over;
  }
  return part;
}

// Splits the axes of a read into sets that no factor joins: the sum is then a product of sums. A
// decay that is no mask joins them all.
static int split_axes(const scan *s, const scan_product *read, const scan_product *written,
                      axis_set over, axis_set *parts) {
  int count = 0;
  if (!decay_is_mask(&s->states[read->state])) {
    parts[0] = over;
    return 1;
  }
  for (axis_set left = over; left; left &= ~parts[count++]) {
    axis_set part = left & (~left + 1);
    for (axis_set before = 0; before != part;) {
      before = part;
      part = joined_axes(s, written, joined_axes(s, read, part, over), over);
      part = joined_by_phases(s, read->state, part, over);
    }
    parts[count] = part;
  }
  return count;
}

static bool check_read_axes(scan *s, const scan_product *read, tile_pair scores, axis_set over) {
  const scan_state *state = &s->states[read->state];
  axis_set values = (state->keys | state->values) & ~over;
  if (pair_axes(s->program, scores) & values) scan_refuse(s, "a read mixes key and value axes");
  return !s->reason;
}

// ---- scores ----------------------------------------------------------------------------------

static tile_pair scores_at(scan *s, const scan_product *read, int writer,
                           const scan_product *written, axis_set over, int level) {
  const int sides = PHASE_SCALAR | PHASE_KEYS;
  tile_pair q = level_rows(s, turned_reads(s, read, over, sides), level);
  tile_pair k = level_columns(s, turned_keys(s, read, written, over, sides), level);
  tile_pair scores = pair_number(s->program, 0);
  for (int term = 0; term < level_terms(s, read->state, over, DECAY_KEYS); term++) {
    tile_pair row = level_row_decay(s, read->state, read->previous, over, DECAY_KEYS, level, term);
    tile_pair column = level_column_decay(s, read->state, writer, over, DECAY_KEYS, level, term);
    if (pair_is_zero(s->program, row) || pair_is_zero(s->program, column)) continue;
    tile_pair part =
        pair_dot(s->program, pair_mul(s->program, q, row), pair_mul(s->program, k, column), over);
    scores = pair_linear(s->program, TILE_ADD, scores, part);
  }
  if (level >= 0) return scores;
  return s->states[read->state].joint ? joint_masked(s, read->state, read->previous, scores)
                                      : block_masked(s, scores, level);
}

// What a step reads of a write in the same step.
static tile_pair own_score(scan *s, const scan_product *read, int writer,
                           const scan_product *written, axis_set over) {
  tile_pair q = reads_of(s, read, over);
  q = pair_mul(s->program, q, coupled_within_step(s, read->state, writer, over, DECAY_KEYS));
  return pair_dot(s->program, q, keys_of(s, written, over), over);
}

static tile_pair with_own_scores(scan *s, const scan_product *read, int writer,
                                 const scan_product *written, axis_set over, tile_pair scores) {
  tile_pair own = own_score(s, read, writer, written, over);
  return pair_linear(s->program, TILE_ADD, scores, pair_on_diagonal(s->program, own));
}

// Without decay. An angle that all keys share turns the scores.
static tile_pair turned_scores(scan *s, const scan_product *read, const scan_product *written,
                               axis_set over) {
  axis_set parts[TYPED_MAX_AXES];
  int count = split_axes(s, read, written, over, parts);
  tile_pair row = phase_of_read(s, read->state, over, PHASE_SCALAR);
  tile_pair column = phase_of_write(s, read->state, over, PHASE_SCALAR);
  tile_pair scores = pair_mul(s->program, row, contract_at_pair(s, column));
  for (int i = 0; i < count; i++) {
    tile_pair q = turned_reads(s, read, parts[i], PHASE_KEYS);
    tile_pair k = contract_at_pair(s, turned_keys(s, read, written, parts[i], PHASE_KEYS));
    scores = pair_mul(s->program, scores, pair_dot(s->program, q, k, parts[i]));
  }
  return scores;
}

static tile_pair mask_scores(scan *s, int state, int writer, bool previous, bool strict,
                             tile_pair scores) {
  if (writer != state || s->states[state].joint)
    return pair_mul(s->program, scores, coupled_mask(s, state, writer, previous));
  if (s->states[state].decay.count == 0) {
    tile_id causal = tile_leaf(s->program, TILE_CAUSAL, strict ? 1 : 0);
    return pair_where(s->program, causal, scores, pair_number(s->program, 0));
  }
  return pair_mul(s->program, scores, pair_real(decay_mask(s, state, previous, strict)));
}

// `own`: with the diagonal, which only states without rotations have together with the rest.
static tile_pair masked_scores(scan *s, const scan_product *read, int writer,
                               const scan_product *written, axis_set over, bool own) {
  bool apart = s->states[read->state].phases.count > 0;
  bool strict = read->previous || apart || !own;
  tile_pair scores = turned_scores(s, read, written, over);
  scores = mask_scores(s, read->state, writer, read->previous, strict, scores);
  if (!apart || !own) return scores;
  return with_own_scores(s, read, writer, written, over, scores);
}

// `sides`: DECAY_ALL has the decays of the values as well, and with them one matrix for each of
// their entries.
static tile_pair decayed_scores_at(scan *s, const scan_product *read, int writer,
                                   const scan_product *written, axis_set over, int level,
                                   decay_side sides) {
  tile_pair scores = scores_at(s, read, writer, written, over, level);
  if (sides != DECAY_ALL || !decay_has_values(s, read->state, over)) return scores;
  tile_pair decay = pair_number(s->program, 0);
  for (int term = 0; term < level_terms(s, read->state, over, DECAY_VALUES); term++) {
    tile_pair row =
        level_row_decay(s, read->state, read->previous, over, DECAY_VALUES, level, term);
    tile_pair column = level_column_decay(s, read->state, writer, over, DECAY_VALUES, level, term);
    if (pair_is_zero(s->program, row) || pair_is_zero(s->program, column)) continue;
    decay = pair_linear(s->program, TILE_ADD, decay, pair_mul(s->program, row, column));
  }
  return pair_mul(s->program, scores, decay);
}

static tile_pair level_scores(scan *s, const scan_product *read, int writer,
                              const scan_product *written, axis_set over, bool own,
                              decay_side sides) {
  tile_pair scores[LEVELS_MAX];
  int first = level_first(s, read->state);
  for (int level = first; level < decay_levels(s); level = level_next(level))
    scores[level_place(level)] = decayed_scores_at(s, read, writer, written, over, level, sides);
  tile_pair all = level_assemble(s, first, scores);
  if (s->states[read->state].seldom_levels) {
    tile_pair by_start = decayed_scores_at(s, read, writer, written, over, -decay_levels(s), sides);
    all = pair_seldom(s->program, s->states[read->state].unsafe, all, by_start);
  }
  return read->previous || !own ? all : with_own_scores(s, read, writer, written, over, all);
}

static tile_pair scores_of(scan *s, const scan_product *read, int writer,
                           const scan_product *written, axis_set over, bool own, decay_side sides) {
  bool mask = decay_is_mask(&s->states[read->state]);
  tile_pair scores = mask ? masked_scores(s, read, writer, written, over, own)
                          : level_scores(s, read, writer, written, over, own, sides);
  if (sides == DECAY_KEYS) check_read_axes(s, read, scores, over);
  return scores;
}

tile_pair contract_pairs(scan *s, const scan_product *read, int writer, const scan_product *written,
                         axis_set over) {
  return scores_of(s, read, writer, written, over, true, DECAY_ALL);
}

// ---- reads -----------------------------------------------------------------------------------

static tile_pair with_own(scan *s, const scan_product *read, int writer,
                          const scan_product *written, axis_set over, tile_pair sum) {
  if (read->previous) return sum;
  tile_pair own = own_score(s, read, writer, written, over), v = written_values(s, written, over);
  v = pair_mul(s->program, v, coupled_within_step(s, read->state, writer, over, DECAY_VALUES));
  own = pair_mul(s->program, own, v);
  return pair_linear(s->program, TILE_ADD, sum, own);
}

// One level of what was written, where values decay as well: its two decays stand on the values and
// on what is read of them.
static tile_pair written_at(scan *s, const scan_product *read, int writer, tile_pair scores,
                            tile_pair v, axis_set over, int level) {
  int step = level_axes(s, level)->pair_step;
  tile_pair sum = pair_number(s->program, 0);
  v = level_columns(s, v, level);
  for (int term = 0; term < level_terms(s, read->state, over, DECAY_VALUES); term++) {
    tile_pair column = level_column_decay(s, read->state, writer, over, DECAY_VALUES, level, term);
    tile_pair row =
        level_row_decay(s, read->state, read->previous, over, DECAY_VALUES, level, term);
    if (pair_is_zero(s->program, row) || pair_is_zero(s->program, column)) continue;
    tile_pair scaled = pair_mul(s->program, v, column);
    tile_pair part = step < 0 ? pair_mul(s->program, scores, scaled)
                              : pair_dot(s->program, scores, scaled, axis_bit(step));
    sum = pair_linear(s->program, TILE_ADD, sum, pair_mul(s->program, part, row));
  }
  return level_place_rows(s, sum, level);
}

static tile_pair written_by_levels(scan *s, const scan_product *read, int writer,
                                   const scan_product *written, axis_set over) {
  tile_pair v = turned_values(s, read, written, over);
  tile_pair sum = pair_number(s->program, 0);
  int first = level_first(s, read->state);
  for (int level = first; level < decay_levels(s); level = level_next(level)) {
    tile_pair scores = scores_at(s, read, writer, written, over, level);
    if (!check_read_axes(s, read, scores, over)) return sum;
    tile_pair part = written_at(s, read, writer, scores, v, over, level);
    sum = pair_linear(s->program, TILE_ADD, sum, part);
  }
  return with_own(s, read, writer, written, over, turned_back(s, read, over, sum));
}

tile_pair contract_written(scan *s, const scan_product *read, int writer,
                           const scan_product *written, axis_set over) {
  if (decay_has_values(s, read->state, over))
    return written_by_levels(s, read, writer, written, over);
  bool turned = phase_has_side(s, read->state, over, PHASE_VALUES);
  tile_pair scores = scores_of(s, read, writer, written, over, !turned, DECAY_KEYS);
  tile_pair v = contract_at_pair(s, turned_values(s, read, written, over));
  tile_pair sum = pair_dot(s->program, scores, v, axis_bit(s->program->pair_axis));
  return turned ? with_own(s, read, writer, written, over, turned_back(s, read, over, sum)) : sum;
}

// The read x of S[t-1]: in the first step that is the state before its decay, and behind it nothing
// of a matrix whose decay is 0.
static tile_pair read_at_first_step(scan *s, const scan_product *read, axis_set over, tile_pair x) {
  const scan_state *of = &s->states[read->state];
  if (of->joint || (!of->delayed && of->after_decay.re == NO_TILE)) return x;
  tile_pair before = of->delayed ? scan_before(s, read->state)
                                 : lower_tensor(s->program, s->body, TILE_STATE, of->tensor);
  tile_pair first = pair_dot(s->program, scan_first_step(s, reads_of(s, read, over)), before, over);
  if (of->delayed) x = pair_number(s->program, 0);
  return pair_where(s->program, scan_is_first_step(s), first, x);
}

static tile_pair before_of(scan *s, const scan_product *read, int from, axis_set over) {
  axis_set parts[TYPED_MAX_AXES];
  int count = split_axes(s, read, NULL, over, parts);
  tile_pair state = scan_before(s, from);
  for (int i = 0; i < count; i++) {
    tile_pair q = turned_reads(s, read, parts[i], PHASE_KEYS);
    if (i == 0) {
      tile_pair decay = coupled_from_start(s, read->state, from, read->previous, over, DECAY_KEYS);
      q = pair_mul(s->program, q, decay);
    }
    state = pair_dot(s->program, q, state, parts[i]);
  }
  const int other_sides = PHASE_SCALAR | PHASE_VALUES;
  tile_pair phase = phase_of_read(s, read->state, over, other_sides);
  tile_pair decay = coupled_from_start(s, read->state, from, read->previous, over, DECAY_VALUES);
  state = pair_mul(s->program, state, pair_mul(s->program, decay, phase));
  bool first = read->previous && from == read->state;
  return first ? read_at_first_step(s, read, over, state) : state;
}

tile_pair contract_before(scan *s, const scan_product *read, axis_set over) {
  tile_pair sum = before_of(s, read, read->state, over);
  for (int from = 0; from < s->state_count; from++) {
    if (from == read->state || !coupled_reaches(s, read->state, from)) continue;
    sum = pair_linear(s->program, TILE_ADD, sum, before_of(s, read, from, over));
  }
  return sum;
}

static tile_pair contracted_state(scan *s, const scan_product *read, axis_set over) {
  tile_pair sum = pair_number(s->program, 0);
  if (over & ~s->body->tensors.items[s->states[read->state].tensor].axis_set)
    scan_refuse(s, "a read sums over an axis that the state lacks");
  if (s->reason) return sum;
  if (s->groups[s->states[read->state].group].progress != MADE)
    ICE("chunk", "the state %s is read before it is made", scan_state_name(s, read->state));
  if (s->states[read->state].invariant) return toeplitz_read(s, read, over);
  for (int writer = 0; writer < s->state_count; writer++) {
    const linear *increment = &s->states[writer].increment;
    if (!coupled_reaches(s, read->state, writer)) continue;
    for (int i = 0; i < increment->products.count && !s->reason; i++) {
      tile_pair part = contract_written(s, read, writer, &increment->products.items[i], over);
      sum = pair_linear(s->program, TILE_ADD, sum, part);
    }
  }
  return pair_linear(s->program, TILE_ADD, sum, contract_before(s, read, over));
}

static tile_pair real_or_imaginary(scan *s, tile_pair x, scan_part part) {
  if (part == PART_WHOLE) return x;
  return pair_real(part == PART_REAL ? x.re : pair_imaginary(s->program, x));
}

tile_pair contract_product(scan *s, const scan_product *product, axis_set over) {
  tile_pair inside = product->state < 0
                         ? pair_sum(s->program, linear_factors(s, product, over, true), over)
                         : contracted_state(s, product, over);
  if (s->reason) return inside;
  tile_pair outside = linear_factors(s, product, over, false);
  tile_pair scale = pair_number(s->program, product->scale);
  outside = safe(s, pair_mul(s->program, outside, scale));
  return real_or_imaginary(s, pair_mul(s->program, outside, inside), product->part);
}

// ---- the state after the chunk ---------------------------------------------------------------

// Of what one product of the increment of `from` wrote.
static tile_pair kept_at_end(scan *s, int index, int from, const scan_product *written) {
  const scan_state *state = &s->states[index];
  tile_pair k = keys_of(s, written, state->keys), v = written_values(s, written, state->keys);
  k = pair_mul(s->program, k, phase_to_end(s, index, state->keys, PHASE_KEYS));
  v = pair_mul(s->program, v, phase_to_end(s, index, state->keys, PHASE_SCALAR | PHASE_VALUES));
  // one number for the whole matrix stands on the values
  tile_pair of_keys = coupled_to_end(s, index, from, state->keys, DECAY_KEYS);
  if (decay_is_mask(state)) {
    v = pair_mul(s->program, v, of_keys);
  } else {
    k = pair_mul(s->program, k, of_keys);
    v = pair_mul(s->program, v, coupled_to_end(s, index, from, state->keys, DECAY_VALUES));
  }
  return pair_dot(s->program, k, v, scan_time_bit(s));
}

// What the last step made of other states, and what it wrote.
static tile_pair made_at_end(scan *s, const scan_state *state) {
  tile_pair next = pair_number(s->program, 0);
  vec_each(const scan_product, link, state->sources) {
    tile_pair factor = scan_at_end(s, coupled_factor(s, link), 0);
    tile_pair of = pair_mul(s->program, factor, contract_next_state(s, link->state));
    next = pair_linear(s->program, TILE_ADD, next, of);
  }
  vec_each(const scan_product, written, state->increment.products) {
    tile_pair k = scan_at_end(s, keys_of(s, written, state->keys), 0);
    tile_pair v = scan_at_end(s, written_values(s, written, state->keys), 0);
    next = pair_linear(s->program, TILE_ADD, next, pair_mul(s->program, k, v));
  }
  return next;
}

tile_pair contract_next_state(scan *s, int index) {
  const scan_state *state = &s->states[index];
  if (state->invariant) return toeplitz_next(s, index);
  if (state->at_end || (state->delayed && !state->sources.count && !state->joint))
    return made_at_end(s, state);
  tile_pair next = pair_number(s->program, 0);
  for (int from = 0; from < s->state_count; from++) {
    const linear *increment = &s->states[from].increment;
    if (!coupled_reaches(s, index, from)) continue;
    tile_pair before = scan_before(s, from);
    tile_pair total = pair_mul(s->program, coupled_total(s, index, from), phase_of_chunk(s, index));
    next = pair_linear(s->program, TILE_ADD, next, pair_mul(s->program, total, before));
    for (int i = 0; i < increment->products.count; i++) {
      tile_pair kept = kept_at_end(s, index, from, &increment->products.items[i]);
      next = pair_linear(s->program, TILE_ADD, next, kept);
    }
  }
  return next;
}
