// States that are an ordinary value at every step of a chunk: all steps are there before anything
// else uses them.
//
//   kprev = k                     S[t-1] at step t is k at step t - 1; at the first step, the state before the chunk
//   W[n] = n == 0 ? x : W[n - 1]  entry n is x at step t - n
//   m = max(f + m[t-1], i)        a scan over the steps (semiring.c), and so is
//   n = a * n[t-1] + k            where n is used entry by entry, or where matrix products make k and use n
//   c = f(c[t-1], x)              step by step (stepwise.c), linear ones by matrices of a small axis (mixed.c)
//
// On padded rows they run on with inputs of 0: what is stabilised by a maximum stays so. On the host a
// scan ends with the sequence. On GPUs factors that may exceed 1 are 1 there, unless they are the
// same at all steps: their powers are made once for all chunks, and overflow where those of a whole
// chunk do. The state after the chunk is taken from the last step inside the sequence.
#include <math.h>

#include "compiler/chunk/scan.h"

static double state_entries(const scan *s, int state) {
  const typed_tensor *tensor = &s->body->tensors.items[s->states[state].tensor];
  return (tensor->complex ? 2 : 1) * scan_entries(s, tensor->axis_set);
}

static bool has_matrix_structure(const state_structure *structure) {
  return structure->class == STATE_SCALAR_DECAY || structure->class == STATE_AXIS_DECAY ||
         structure->class == STATE_LOW_RANK;
}

// An entry-by-entry chunk keeps every step of the state. That pays beside a larger state, or where
// steps cost more than the state itself. The cost model knows.
static bool beside_larger(const scan *s, int state) {
  for (int i = 0; i < s->state_count; i++)
    if (has_matrix_structure(s->states[i].structure) &&
        state_entries(s, i) > state_entries(s, state))
      return true;
  return false;
}

bool sequence_fits(const scan *s, int state, bool or_matrix) {
  switch (s->states[state].structure->class) {
    case STATE_DELAY:
    case STATE_MAX_PLUS: return true;
    case STATE_ELEMENTWISE: return beside_larger(s, state) || !or_matrix;
    case STATE_SCALAR_DECAY:
    case STATE_AXIS_DECAY: return !or_matrix;
    case STATE_NONLINEAR: return stepwise_fits(s, state);
    default: return false;
  }
}

// ---- shift registers -------------------------------------------------------------------------
//
//   W = where(index[N] == 0, x, where(index[N] == 1, W[t-1][N = 0], W[t-1][N = 1]))
//
//   entry 2 at step t is x at step t - 2; at step 0 it is entry 1 before the chunk, at step 1 entry 0

static tile_pair entry_before(scan *s, int state, int entry) {
  tile_value slice = {.op = TILE_SLICE, .index = s->states[state].shift->axis, .index2 = entry};
  return pair_each(s->program, scan_before(s, state), slice);
}

// An entry at every step, or (`back` 1) before it.
static tile_pair entry_at(scan *s, int state, int entry, int back) {
  const recurrence_shift *shift = s->states[state].shift;
  tile_pair before[SHIFT_ENTRIES_MAX + 1];
  int steps = 0;
  if (back) before[steps++] = entry_before(s, state, entry);
  for (; shift->entries[entry].from >= 0; entry = shift->entries[entry].from)
    before[steps++] = entry_before(s, state, shift->entries[entry].from);
  tile_pair x = scan_value(s, shift->entries[entry].value,
                           arena_printf(s->arena, "the update of %s", scan_state_name(s, state)));
  return s->reason ? x : lag_shifted(s, x, steps, before);
}

tile_pair sequence_entry_before(scan *s, int state, int entry) {
  return entry_at(s, state, entry, 1);
}

// Entries, one for each number along the axis.
static tile_pair entries_together(scan *s, int state, const tile_pair *entries) {
  const recurrence_shift *shift = s->states[state].shift;
  tile_pair all = entries[shift->count - 1];
  tile_id index = tile_leaf(s->program, TILE_INDEX, shift->axis);
  for (int i = shift->count - 2; i >= 0; i--) {
    tile_id here = tile_binary(s->program, TILE_EQUAL, index, tile_number(s->program, i));
    all = pair_where(s->program, here, entries[i], all);
  }
  return all;
}

static tile_pair shift_steps(scan *s, int state) {
  tile_pair entries[SHIFT_ENTRIES_MAX];
  for (int i = 0; i < s->states[state].shift->count; i++) entries[i] = entry_at(s, state, i, 0);
  return entries_together(s, state, entries);
}

static tile_pair shift_next(scan *s, int state) {
  tile_pair entries[SHIFT_ENTRIES_MAX];
  for (int i = 0; i < s->states[state].shift->count; i++)
    entries[i] = scan_at_end(s, entry_at(s, state, i, 0), 0);
  return entries_together(s, state, entries);
}

// ---- values at all steps ---------------------------------------------------------------------

static tile_pair part_of_update(scan *s, int state, value_id id, double without) {
  if (id == NO_VALUE) return pair_number(s->program, without);
  return scan_value(s, id, arena_printf(s->arena, "the update of %s", scan_state_name(s, state)));
}

static tile_pair scanned_state(scan *s, int state, semiring ring, tile_pair a, tile_pair x) {
  decay_check_length(s, arena_printf(s->arena, "the state %s", scan_state_name(s, state)));
  if (s->reason) return x;
  tile_pair before = scan_before(s, state);
  return semiring_scan(s, ring, a, x, before);
}

// Is the state multiplied by at most 1 at each step, whatever the inputs are?
static bool never_grows(const scan *s, const state_structure *structure) {
  bool by_logarithm = structure->log_decay != NO_VALUE;
  value_id id = by_logarithm ? structure->log_decay : structure->decay;
  if (id == NO_VALUE) return true;
  const typed_value *v = &s->from->body.values.items[id];
  double low, high;
  if (by_logarithm && v->op == VALUE_COMPLEX) id = v->args[0];
  recurrence_bounds(s->arena, s->from, id, &low, &high);
  return by_logarithm ? high <= 0 : low >= -1 && high <= 1;
}

static tile_pair linear_steps(scan *s, int state) {
  const state_structure *structure = s->states[state].structure;
  tile_pair x = part_of_update(s, state, structure->increment, 0), a;
  value_id log = structure->log_decay;
  if (log != NO_VALUE && !s->body->values.items[log].complex)
    a = pair_exp(s->program, part_of_update(s, state, log, 0));
  else
    a = part_of_update(s, state, structure->decay, 1);
  if (s->reason) return x;
  bool varies = axis_in(pair_axes(s->program, a), s->program->time_axis);
  if (!s->host && varies && !never_grows(s, structure)) a = decay_one_on_padding(s, a);
  return scanned_state(s, state, PLUS_TIMES, a, x);
}

// max(x, y) has its gradient at y where the two are equal: which of them carries the state?
static semiring ring_of_maximum(const scan *s, value_id update, value_id increment) {
  const typed_value *v = &s->body->values.items[update];
  return v->op == VALUE_MAX && v->args[0] == increment ? MAX_PLUS_KEPT : MAX_PLUS;
}

static tile_pair maximum_steps(scan *s, int state) {
  const state_structure *structure = s->states[state].structure;
  value_id update = s->body->tensors.items[s->states[state].tensor].assigned;
  bool stops = s->body->values.items[update].op == VALUE_STOP_GRADIENT;
  if (stops) update = s->body->values.items[update].args[0];
  tile_pair f = part_of_update(s, state, structure->log_decay, 0);
  tile_pair x = part_of_update(s, state, structure->increment, -INFINITY);
  if (s->reason) return x;
  tile_pair m = scanned_state(s, state, ring_of_maximum(s, update, structure->increment), f, x);
  return stops ? pair_each(s->program, m, (tile_value){.op = TILE_STOP}) : m;
}

static tile_pair ordered_steps(scan *s, int state) {
  decay_check_length(s, arena_printf(s->arena, "the state %s", scan_state_name(s, state)));
  stepwise_operands operands = stepwise_operands_of(s, state);
  tile_pair *beside = ARENA_ARRAY(s->arena, tile_pair, s->body->values.count);
  for (int i = 0; i < operands.count; i++)
    beside[operands.items[i]] = part_of_update(s, state, operands.items[i], 0);
  if (s->reason) return scan_before(s, state);
  return s->states[state].mixed ? mixed_steps(s, state, beside) : stepwise_steps(s, state, beside);
}

void sequence_make(scan *s, int index) {
  scan_state *state = &s->states[index];
  switch (state->structure->class) {
    case STATE_MAX_PLUS: state->steps = maximum_steps(s, index); break;
    case STATE_SCALAR_DECAY:
    case STATE_AXIS_DECAY:
    case STATE_ELEMENTWISE: state->steps = linear_steps(s, index); break;
    case STATE_LINEAR:
    case STATE_NONLINEAR: state->steps = ordered_steps(s, index); break;
    default:
      state->steps = state->shift ? shift_steps(s, index)
                                  : part_of_update(s, index, state->structure->increment, 0);
  }
}

tile_pair sequence_next(scan *s, int index) {
  if (s->states[index].shift) return shift_next(s, index);
  return scan_at_end(s, s->states[index].steps, 0);
}
