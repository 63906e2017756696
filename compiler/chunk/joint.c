// States that keep each other: a small matrix of decays at every step.
//
//   p = a * p[t-1] + b * u[t-1] + k * v       (p, u) = A (p, u)[t-1] + W (k * v, 0)
//   u = d * u[t-1] + c * p               ->   A = (a, b; c a, d + c b),  W = (1, 0; c, 1)
//
// What u has at t of what p wrote at s is row u of A[t] .. A[s+1] W[s] at column p. Pairs of steps
// meet at the level where they part into two halves (decay.c). A pair is a row of the product up to
// one step times a column of the product from the other. Each grows from the level below by the
// whole product of its sibling. Nothing is divided or subtracted, so that decays of any kind,
// complex ones and singular matrices are ordinary. Where no entry has a key or value axis, rows
// times columns are one mask [t,s] for each pair of states. Otherwise rows and columns stand on the
// operands of the scores.
//
// States that are used or made entry by entry are scanned: on the host from step to step
// (TILE_SCAN_JOINT), on GPUs by these products. There the matrix gets the increment as one more
// column, and a row (0, .., 0, 1). The products up to a step then hold the states in that column.
// Their other columns hold the factors of the states before the chunk.
#include "compiler/chunk/scan.h"

// Members, and what is added to them in scans.
enum { SIZE_MAX_JOINT = JOINT_MAX + 1 };

// By member; re = NO_TILE: 0.
typedef struct joint_vector {
  bool made;
  tile_pair x[SIZE_MAX_JOINT];
} joint_vector;

// Products over the steps of segments of 2^level. Rows reach up to a step, with it and without it.
// Columns reach from after a step's write to the end; whole rows reach over all steps.
typedef struct joint_level {
  joint_vector inclusive[SIZE_MAX_JOINT], exclusive[SIZE_MAX_JOINT];
  joint_vector suffix[SIZE_MAX_JOINT], total[SIZE_MAX_JOINT];
} joint_level;

typedef struct scan_joint {
  int count, members[SIZE_MAX_JOINT];
  bool in_order;    // each step is made of the one before (joint_steps_in_order)
  scan_turn *turn;  // NULL: any matrices
  axis_set axes;    // among the keys and values
  joint_vector keep[SIZE_MAX_JOINT], write[SIZE_MAX_JOINT];  // rows of A and W; made: composed
  joint_level levels[LEVELS_MAX];
} scan_joint;

static tile_pair number_pair(scan *s, double x) { return pair_number(s->program, x); }
static const tile_pair nothing = {NO_TILE, NO_TILE};
static bool is_nothing(tile_pair x) { return x.re == NO_TILE; }

static int member_position(const scan_joint *j, int state) {
  for (int i = 0; i < j->count; i++)
    if (j->members[i] == state) return i;
  return -1;
}

bool joint_has(const scan *s, int to, int from) {
  return member_position(s->states[to].joint, from) >= 0;
}

// ---- members ---------------------------------------------------------------------------------

static void add_joint_member(scan *s, scan_joint *j, int state) {
  if (member_position(j, state) >= 0 || s->reason) return;
  if (j->count == JOINT_MAX) {
    enum { NEXT = JOINT_MAX + 1 };
    scan_refuse(s, arena_printf(s->arena,
                                "more than %d states add each other: products of matrices, from "
                                "%d operations a level and step on",
                                JOINT_MAX, NEXT * NEXT * NEXT));
    return;
  }
  j->members[j->count++] = state;
  for (int i = 0; i < s->states[state].sources.count; i++)
    add_joint_member(s, j, s->states[state].sources.items[i].state);
}

// ---- the matrices of one step ----------------------------------------------------------------

// Padded rows keep the states as they are, where those are what the last row has.
static tile_pair decay_of(scan *s, const scan_joint *j, int state) {
  value_id decay = s->states[state].decay_value;
  if (decay == NO_VALUE) return number_pair(s, 1);
  if (j->in_order) return scan_pure(s, decay);
  return pair_where(s->program, tile_leaf(s->program, TILE_VALID, 0), scan_pure(s, decay),
                    number_pair(s, 1));
}

// The factor of another state at each step, 0 on padded rows.
static tile_pair link_of(scan *s, const scan_joint *j, int to, const scan_product *link) {
  const typed_tensor *own = &s->body->tensors.items[s->states[to].tensor];
  const typed_tensor *other = &s->body->tensors.items[s->states[link->state].tensor];
  bool unknown = false;
  for (int i = 0; i < link->factors.count; i++) unknown |= s->unknown[link->factors.items[i].value];
  if (link->part != PART_WHOLE || unknown || own->axis_set != other->axis_set) {
    const char *what = link->part == PART_WHOLE ? "more of %s than a factor times all of it"
                                                : "a part of %s, which is no factor times it";
    what = arena_printf(s->arena, what, other->name);
    scan_refuse(s, arena_printf(s->arena, "%s adds %s", own->name, what));
    return number_pair(s, 0);
  }
  return j->in_order ? coupled_unmasked_factor(s, link) : coupled_factor(s, link);
}

static void add_scaled_pair(scan *s, tile_pair *sum, tile_pair factor, tile_pair x) {
  if (is_nothing(x) || is_nothing(factor)) return;
  x = pair_mul(s->program, factor, x);
  *sum = is_nothing(*sum) ? x : pair_linear(s->program, TILE_ADD, *sum, x);
}

// A state that is added after its own step brings what made it.
static void compose_row(scan *s, scan_joint *j, int row) {
  joint_vector *keep = &j->keep[row], *write = &j->write[row];
  if (keep->made) return;
  keep->made = write->made = true;
  for (int k = 0; k < j->count; k++) keep->x[k] = write->x[k] = nothing;
  int state = j->members[row];
  keep->x[row] = decay_of(s, j, state);
  write->x[row] = number_pair(s, 1);
  for (int i = 0; i < s->states[state].sources.count && !s->reason; i++) {
    const scan_product *link = &s->states[state].sources.items[i];
    int other = member_position(j, link->state);
    tile_pair c = link_of(s, j, state, link);
    if (link->previous) {
      add_scaled_pair(s, &keep->x[other], c, number_pair(s, 1));
      continue;
    }
    compose_row(s, j, other);
    for (int k = 0; k < j->count; k++) {
      add_scaled_pair(s, &keep->x[k], c, j->keep[other].x[k]);
      add_scaled_pair(s, &write->x[k], c, j->write[other].x[k]);
    }
  }
}

static axis_set joint_axes(const scan *s, tile_pair x) {
  return is_nothing(x) ? 0 : pair_axes(s->program, x);
}

// Entries may differ along keys or along values, not both.
static void find_axes(scan *s, scan_joint *j, const scan_state *first) {
  for (int i = 0; i < j->count; i++)
    for (int k = 0; k < j->count; k++)
      j->axes |= joint_axes(s, j->keep[i].x[k]) | joint_axes(s, j->write[i].x[k]);
  j->axes &= first->keys | first->values | first->summed;
  if ((j->axes & first->keys) && (j->axes & ~first->keys))
    scan_refuse(s,
                arena_printf(s->arena, "what %s and others add to each other mixes keys and values",
                             s->body->tensors.items[first->tensor].name));
}

static scan_joint *joint_of(scan *s, int group, bool in_order) {
  scan_joint *j = ARENA_NEW(s->arena, scan_joint);
  decay_check_length(s,
                     arena_printf(s->arena, "the states that %s adds", scan_state_name(s, group)));
  for (int i = 0; i < s->state_count; i++)
    if (s->states[i].group == group) add_joint_member(s, j, i);
  j->in_order = in_order && s->host;
  for (int i = 0; i < j->count; i++)
    if (s->body->tensors.items[s->states[j->members[i]].tensor].complex) j->in_order = false;
  for (int i = 0; i < j->count && !s->reason; i++) compose_row(s, j, i);
  return j;
}

void joint_make(scan *s, int group) {
  scan_joint *j = joint_of(s, group, false);
  if (!s->reason) find_axes(s, j, &s->states[group]);
  if (s->reason) return;
  j->turn = j->count == 2 ? turn_find(s, j->members[0], j->members[1]) : NULL;
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].group != group) continue;
    s->states[i].joint = j;
    s->states[i].block = j->turn ? decay_levels(s) : 0;  // one reference for all pairs of steps
    s->states[i].by_start = s->states[i].seldom_levels = false;
    s->states[i].phases.count = 0;
  }
}

// ---- levels ----------------------------------------------------------------------------------

static tile_pair at_all_steps(scan *s, tile_pair x) {
  if (is_nothing(x) || axis_in(pair_axes(s->program, x), s->program->time_axis)) return x;
  return pair_each(s->program, x, (tile_value){.op = TILE_EXPAND, .over = scan_time_bit(s)});
}

static tile_pair level_half_of(scan *s, tile_pair x, int level, int half) {
  return is_nothing(x) ? x : level_half(s, x, level, half);
}

// The segments of a level from both of their halves.
static tile_pair from_halves(scan *s, tile_pair first, tile_pair second, int level) {
  tile_pair x = nothing;
  if (!is_nothing(first)) x = level_place_half(s, first, 0);
  if (!is_nothing(second)) {
    second = level_place_half(s, second, 1);
    x = is_nothing(x) ? second : pair_linear(s->program, TILE_ADD, x, second);
  }
  return is_nothing(x) ? x : level_join(s, x, level);
}

static const joint_vector *total_at(scan *s, scan_joint *j, int row, int level) {
  joint_vector *total = &j->levels[level].total[row];
  if (total->made) return total;
  total->made = true;
  for (int k = 0; k < j->count; k++) total->x[k] = nothing;
  for (int m = 0; m < j->count; m++) {
    if (level == 0) {
      total->x[m] = at_all_steps(s, j->keep[row].x[m]);
      continue;
    }
    tile_pair second = level_half_of(s, total_at(s, j, row, level - 1)->x[m], level - 1, 1);
    if (is_nothing(second)) continue;
    const joint_vector *below = total_at(s, j, m, level - 1);
    for (int k = 0; k < j->count; k++)
      add_scaled_pair(s, &total->x[k], second, level_half_of(s, below->x[k], level - 1, 0));
  }
  return total;
}

// In the second half, a row times all of the first.
static const joint_vector *row_vector(scan *s, scan_joint *j, int row, bool previous, int level) {
  joint_level *l = &j->levels[level];
  joint_vector *v = previous ? &l->exclusive[row] : &l->inclusive[row], second;
  if (v->made) return v;
  v->made = true;
  for (int k = 0; k < j->count; k++) {
    v->x[k] = previous ? (k == row ? number_pair(s, 1) : nothing) : j->keep[row].x[k];
    v->x[k] = at_all_steps(s, v->x[k]);
    second.x[k] = nothing;
  }
  if (level == 0) return v;
  const joint_vector *below = row_vector(s, j, row, previous, level - 1);
  for (int m = 0; m < j->count; m++) {
    tile_pair x = level_half_of(s, below->x[m], level - 1, 1);
    if (is_nothing(x)) continue;
    const joint_vector *total = total_at(s, j, m, level - 1);
    for (int k = 0; k < j->count; k++)
      add_scaled_pair(s, &second.x[k], x, level_half_of(s, total->x[k], level - 1, 0));
  }
  for (int k = 0; k < j->count; k++)
    v->x[k] = from_halves(s, level_half_of(s, below->x[k], level - 1, 0), second.x[k], level - 1);
  return v;
}

// In the first half, all of the second times a column.
static const joint_vector *joint_suffix_column(scan *s, scan_joint *j, int column, int level) {
  joint_vector *v = &j->levels[level].suffix[column], first;
  if (v->made) return v;
  v->made = true;
  for (int k = 0; k < j->count; k++) {
    v->x[k] = at_all_steps(s, j->write[k].x[column]);
    first.x[k] = nothing;
  }
  if (level == 0) return v;
  const joint_vector *below = joint_suffix_column(s, j, column, level - 1);
  for (int m = 0; m < j->count; m++) {
    tile_pair x = level_half_of(s, below->x[m], level - 1, 0);
    for (int k = 0; k < j->count && !is_nothing(x); k++) {
      tile_pair total = level_half_of(s, total_at(s, j, k, level - 1)->x[m], level - 1, 1);
      add_scaled_pair(s, &first.x[k], x, total);
    }
  }
  for (int k = 0; k < j->count; k++)
    v->x[k] = from_halves(s, first.x[k], level_half_of(s, below->x[k], level - 1, 1), level - 1);
  return v;
}

// ---- what reads and writes see ---------------------------------------------------------------

bool joint_is_mask(const scan_state *state) { return state->joint->axes == 0; }

bool joint_on_side(const scan *s, int state, axis_set keys, decay_side side) {
  const scan_joint *j = s->states[state].joint;
  bool of_keys = j->axes == 0 || (j->axes & keys);
  return side == DECAY_ALL || of_keys == (side == DECAY_KEYS);
}

int joint_count(const scan *s, int state) { return s->states[state].joint->count; }

static tile_pair or_zero(scan *s, tile_pair x) { return is_nothing(x) ? number_pair(s, 0) : x; }

tile_pair joint_row(scan *s, int to, bool previous, int level, int member) {
  scan_joint *j = s->states[to].joint;
  if (j->turn) return turn_row(s, j->turn, previous, member_position(j, to), member);
  return or_zero(
      s, level_half_of(s, row_vector(s, j, member_position(j, to), previous, level)->x[member],
                       level, 1));
}

tile_pair joint_column(scan *s, int to, int from, int level, int member) {
  scan_joint *j = s->states[to].joint;
  if (j->turn) {
    tile_pair turned = turn_column(s, j->turn, member, member_position(j, from));
    return level_to_pair_step(s, turned, decay_levels(s));
  }
  tile_pair x = level_half_of(
      s, joint_suffix_column(s, j, member_position(j, from), level)->x[member], level, 0);
  return is_nothing(x) ? number_pair(s, 0) : level_to_pair_step(s, x, level);
}

tile_pair joint_within_step(scan *s, int to, int from) {
  scan_joint *j = s->states[to].joint;
  return or_zero(s, j->write[member_position(j, to)].x[member_position(j, from)]);
}

tile_pair joint_masked(scan *s, int to, bool previous, tile_pair scores) {
  return pair_mul(s->program, scores, pair_real(turn_mask(s, s->states[to].joint->turn, previous)));
}

static tile_pair rows_times_columns(scan *s, int to, int from, bool previous, int level) {
  tile_pair sum = number_pair(s, 0);
  for (int m = 0; m < joint_count(s, to); m++) {
    tile_pair row = joint_row(s, to, previous, level, m);
    tile_pair column = joint_column(s, to, from, level, m);
    if (pair_is_zero(s->program, row) || pair_is_zero(s->program, column)) continue;
    tile_pair pairs = pair_mul(s->program, row, column);
    sum = pair_linear(s->program, TILE_ADD, sum, pairs);
  }
  return sum;
}

static tile_pair mask_of_pairs(scan *s, int to, int from, bool previous) {
  tile_pair scores[LEVELS_MAX];
  int last = decay_levels(s);
  if (s->states[to].joint->turn)
    return joint_masked(s, to, previous, rows_times_columns(s, to, from, previous, last));
  for (int level = 0; level < last; level++)
    scores[level] = rows_times_columns(s, to, from, previous, level);
  return level_assemble(s, 0, scores);
}

tile_pair joint_mask(scan *s, int to, int from, bool previous) {
  tile_pair mask = mask_of_pairs(s, to, from, previous);
  if (previous) return mask;
  tile_pair own = pair_on_diagonal(s->program, joint_within_step(s, to, from));
  return pair_linear(s->program, TILE_ADD, mask, own);
}

tile_pair joint_from_start(scan *s, int to, int from, bool previous) {
  scan_joint *j = s->states[to].joint;
  if (j->turn) {
    phase_sum which = previous ? PHASE_BEFORE : PHASE_UP_TO;
    return turn_over(s, j->turn, which, member_position(j, to), member_position(j, from));
  }
  const joint_vector *row = row_vector(s, j, member_position(j, to), previous, decay_levels(s));
  return or_zero(s, row->x[member_position(j, from)]);
}

tile_pair joint_to_end(scan *s, int to, int from) {
  scan_joint *j = s->states[to].joint;
  if (j->turn)
    return turn_over(s, j->turn, PHASE_AFTER, member_position(j, to), member_position(j, from));
  const joint_vector *column = joint_suffix_column(s, j, member_position(j, from), decay_levels(s));
  return or_zero(s, column->x[member_position(j, to)]);
}

tile_pair joint_total(scan *s, int to, int from) {
  scan_joint *j = s->states[to].joint;
  if (j->turn)
    return turn_over(s, j->turn, PHASE_ALL, member_position(j, to), member_position(j, from));
  return or_zero(
      s, total_at(s, j, member_position(j, to), decay_levels(s))->x[member_position(j, from)]);
}

// ---- scans -----------------------------------------------------------------------------------

// What a state adds at each step of its own, without other states.
static tile_pair added_by(scan *s, int state) {
  const linear *increment = &s->states[state].increment;
  return increment->products.count ? linear_pure(s, increment) : nothing;
}

static void add_column(scan *s, scan_joint *j) {
  int last = j->count++;
  for (int i = 0; i < last; i++) j->keep[i].x[last] = nothing;
  for (int k = 0; k < last; k++) {
    tile_pair added = added_by(s, j->members[k]);
    for (int i = 0; i < last && !is_nothing(added); i++)
      add_scaled_pair(s, &j->keep[i].x[last], added, j->write[i].x[k]);
  }
  for (int k = 0; k < last; k++) j->keep[last].x[k] = nothing;
  j->keep[last].x[last] = number_pair(s, 1);
}

static tile_pair joint_steps(scan *s, scan_joint *j, int row) {
  const joint_vector *up_to = row_vector(s, j, row, false, decay_levels(s));
  tile_pair steps = up_to->x[j->count - 1];
  for (int k = 0; k + 1 < j->count; k++) {
    tile_pair before = scan_before(s, j->members[k]);
    add_scaled_pair(s, &steps, up_to->x[k], before);
  }
  return steps;
}

// What a member becomes at a step beside what the matrix makes of the step before. The states before
// the chunk enter the first step.
static tile_id added_in_order(scan *s, const scan_joint *j, int row) {
  tile_program *p = s->program;
  tile_pair first = nothing, sum = number_pair(s, 0);
  for (int k = 0; k < j->count; k++) {
    tile_pair keep = j->keep[row].x[k], added = added_by(s, j->members[k]);
    if (!is_nothing(keep)) keep = scan_first_step(s, keep);
    add_scaled_pair(s, &first, keep, scan_before(s, j->members[k]));
    add_scaled_pair(s, &sum, j->write[row].x[k], added);
  }
  if (!is_nothing(first))
    sum = pair_linear(p, TILE_ADD, sum, pair_on_axes(p, TILE_PLACE, first, p->time_axis, 0, 0));
  return sum.re;
}

// The host goes from step to step, with many entries at a time.
static void joint_steps_in_order(scan *s, const scan_joint *j) {
  tile_program *p = s->program;
  int to = tile_axis_new(p, "part", j->count), from = tile_axis_new(p, "before", j->count);
  tile_id a = tile_number(p, 0), x = a;
  for (int i = 0; i < j->count; i++) {
    for (int k = 0; k < j->count; k++) {
      if (is_nothing(j->keep[i].x[k])) continue;
      tile_id row = tile_indexed(p, TILE_PLACE, j->keep[i].x[k].re, to, i);
      a = tile_binary(p, TILE_ADD, a, tile_indexed(p, TILE_PLACE, row, from, k));
    }
    tile_id added = tile_indexed(p, TILE_PLACE, added_in_order(s, j, i), to, i);
    x = tile_binary(p, TILE_ADD, x, added);
  }
  tile_id h = tile_scan_joint(p, a, x, p->time_axis, from, to, false);
  for (int i = 0; i < j->count; i++)
    s->states[j->members[i]].steps = pair_real(tile_indexed(p, TILE_SLICE, h, to, i));
}

void joint_scan(scan *s, int group) {
  scan_joint *j = joint_of(s, group, true);
  if (s->reason) return;
  if (j->in_order) {
    joint_steps_in_order(s, j);
    return;
  }
  add_column(s, j);
  for (int i = 0; i + 1 < j->count; i++) s->states[j->members[i]].steps = joint_steps(s, j, i);
}
