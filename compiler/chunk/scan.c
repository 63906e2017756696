// What all parts of the chunk builder for linear states share: values added to the body, states
// before the chunk, reasons against a chunk program.
#include "compiler/chunk/scan.h"

#include <string.h>

#define GROWN(s, array, type)                                              \
  do {                                                                     \
    type *grown = ARENA_ARRAY((s)->arena, type, (s)->capacity);            \
    if ((s)->array) memcpy(grown, (s)->array, sizeof(type) * (size_t)old); \
    (s)->array = grown;                                                    \
  } while (0)

void scan_refuse(scan *s, const char *reason) {
  if (!s->reason) s->reason = reason;
}

const char *scan_state_name(const scan *s, int state) {
  return s->body->tensors.items[s->states[state].tensor].name;
}

static void grow_arrays(scan *s, int count) {
  int old = s->capacity;
  if (count <= old) return;
  s->capacity = count * 2;
  GROWN(s, linears, linear *);
  GROWN(s, visited, bool);
  GROWN(s, unknown, bool);
  GROWN(s, definition, const linear *);
  GROWN(s, values.values, tile_pair);
  GROWN(s, values.done, bool);
}

void scan_grow(scan *s) { grow_arrays(s, s->body->values.count); }

value_id scan_append(scan *s, typed_value value) {
  value_id id = body_append(s->arena, s->body, value);
  grow_arrays(s, s->body->values.count);
  s->visited[id] = true;
  return id;
}

tile_pair scan_pure(scan *s, value_id id) { return lower_value(&s->values, id); }

// What a delay holds is nothing but that value.
int scan_updated_state(const scan *s, value_id id) {
  for (int i = 0; i < s->state_count; i++) {
    if (s->states[i].structure->class == STATE_DELAY) continue;
    if (s->body->tensors.items[s->states[i].tensor].assigned == id) return i;
  }
  return -1;
}

span scan_update_span(const scan *s, int state) {
  return s->body->values.items[s->body->tensors.items[s->states[state].tensor].assigned].span;
}

bool scan_is_outer(const scan *s, value_id id, axis_set axes) {
  const typed_value *v = &s->body->values.items[id];
  if (v->axes != axes) return false;
  switch (v->op) {
    case VALUE_NEG: return scan_is_outer(s, v->args[0], axes);
    case VALUE_ADD:
    case VALUE_SUB: return scan_is_outer(s, v->args[0], axes) && scan_is_outer(s, v->args[1], axes);
    case VALUE_DIV:
      return scan_is_outer(s, v->args[0], axes) && s->body->values.items[v->args[1]].axes != axes;
    case VALUE_MUL:
      for (int k = 0; k < 2; k++) {
        value_id factor = v->args[k];
        if (s->body->values.items[factor].axes == axes && !scan_is_outer(s, factor, axes))
          return false;
      }
      return true;
    default: return false;
  }
}

bool scan_multiplies_apart(const scan *s, value_id id, axis_set axes) {
  const typed_value *of = s->body->values.items, *v = &of[id];
  return v->op == VALUE_MUL && !(axes & ~v->axes) && (axes & ~of[v->args[0]].axes) &&
         (axes & ~of[v->args[1]].axes);
}

static bool is_made(const scan *s, int group, const bool *made, const typed_value *v) {
  if (v->op == VALUE_LAG) return made[s->body->lags.items[v->index].source];
  for (int k = 0; v->op == VALUE_PREVIOUS && k < s->state_count; k++)
    if (s->states[k].tensor == v->index && s->states[k].group == group) return true;
  for (int k = 0; k < value_arity(v->op); k++)
    if (made[v->args[k]]) return true;
  return false;
}

// A lag may remember what stands behind it.
bool scan_is_alone(const scan *s, int state) {
  for (int i = 0; i < s->state_count; i++)
    if (i != state && s->states[i].group == s->states[state].group) return false;
  return true;
}

bool *scan_made_of(const scan *s, int group) {
  bool *made = ARENA_ARRAY(s->arena, bool, s->body->values.count);
  for (bool grows = true; grows;) {
    grows = false;
    for (value_id i = 0; i < s->body->values.count; i++) {
      bool now = is_made(s, group, made, &s->body->values.items[i]);
      grows |= now && !made[i];
      made[i] |= now;
    }
  }
  return made;
}

bool *scan_needed_by(const scan *s, int state) {
  value_id update = s->body->tensors.items[s->states[state].tensor].assigned;
  bool *needed = ARENA_ARRAY(s->arena, bool, update + 1);
  needed[update] = true;
  for (value_id i = update; i >= 0; i--) {
    const typed_value *v = &s->body->values.items[i];
    for (int k = 0; needed[i] && k < value_arity(v->op); k++) needed[v->args[k]] = true;
  }
  return needed;
}

tile_pair scan_before(scan *s, int state) {
  const scan_state *of = &s->states[state];
  if (of->after_decay.re != NO_TILE) return of->after_decay;
  if (of->lag >= 0) return lag_slot_before(s, of->lag, of->slot);
  return lower_tensor(s->program, s->body, TILE_STATE, of->tensor);
}

double scan_entries(const scan *s, axis_set axes) {
  double count = 1;
  for (int i = 0; i < s->body->axes.count; i++) {
    int64_t size = s->body->axes.items[i].size;
    if (axis_in(axes, i) && size > 0) count *= (double)size;
  }
  return count;
}

tile_pair lag_slot_before(scan *s, int lag, int slot) {
  if (lag >= s->declared_lags) {
    int begins = s->reads->begins.items[lag - s->declared_lags].tensor;
    return begins < 0 ? pair_number(s->program, 0)
                      : lower_tensor(s->program, s->body, TILE_STATE, begins);
  }
  return lower_lag(s->program, s->body, lag, slot);
}

tile_id scan_is_first_step(scan *s) {
  return tile_binary(s->program, TILE_EQUAL,
                     tile_leaf(s->program, TILE_INDEX, s->program->time_axis),
                     tile_number(s->program, 0));
}

tile_pair scan_first_step(scan *s, tile_pair x) {
  if (!axis_in(pair_axes(s->program, x), s->program->time_axis)) return x;
  return pair_on_axes(s->program, TILE_SLICE, x, s->program->time_axis, 0, 0);
}

tile_pair scan_shifted(scan *s, int index, tile_pair steps) {
  tile_pair before = scan_before(s, index);
  tile_pair shifted = pair_on_axes(s->program, TILE_SHIFT, steps, s->program->time_axis, 1, 0);
  return pair_where(s->program, scan_is_first_step(s), before, shifted);
}

tile_pair scan_at_end(scan *s, tile_pair x, int back) {
  tile_id here = tile_append(s->program, (tile_value){.op = TILE_AT_END, .index2 = back});
  tile_pair chosen = pair_where(s->program, here, x, pair_number(s->program, 0));
  return pair_sum(s->program, chosen, scan_time_bit(s));
}
