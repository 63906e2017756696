// Values that forward saves for backward in `saved`, in addition to the states at the start of each
// chunk.
//
//   backward:  %4 = dot %1 %2 over s        ->   %4 = argument stash 0, the dots and what only they need are gone
//              %6 = add %4 %5, %7 = div %6 %3    forward: result keep stash 0 = %7
//              .. mul %7 %9                      .. mul %4 %9
//
// A value is saved if recomputing it costs clearly more than its bytes. Examples are a quotient
// whose numerator has no other use, and the solution of a triangular system. It must be a value
// that forward computes anyway, one for each step and instance. Saving it then costs forward a
// store and nothing else.
#include "compiler/schedule/save.h"

#include "compiler/schedule/cost.h"

// The cost of writing an element and reading it much later, or from a cache, in the unit of cost.h.
// A saved value must spare `clearly` times that, and a share of the whole backward. Measured: the
// solutions of delta rules break even at K = V = 128. At 256 they gain 5 % of forward and backward;
// at 64 they lose 2 to 6 %.
static const double costs_of_number[] = {
    [SAVE_IN_MEMORY] = 220, [SAVE_IN_SCRATCH] = 6, [SAVE_OF_SLICE] = 20};
static const double clearly = 1.25,
                    least_shares[] = {
                        [SAVE_IN_MEMORY] = 0.03, [SAVE_IN_SCRATCH] = 0.002, [SAVE_OF_SLICE] = 0.03};

typedef struct saver {
  arena *a;
  const tile_program *backward;
  const double *costs;           // of the backward's values
  const tile_section *sections;  // of the forward's
  const tile_id *image;          // by value of the backward: the same of the forward
  axis_set instances;
  save_place place;
  int *uses;
  bool *read;  // by value of the backward: saved, so nothing below is needed
  // SAVE_OF_SLICE: by value, whether it follows from states
  bool *after_states;
} saver;

// Takes away the operands of a value (or gives them back), and all that nobody else needs; returns
// what it costs.
static double take_away(saver *s, tile_id id, int sign) {
  const tile_value *v = &s->backward->values.items[id];
  if (s->read[id]) return 0;
  double cost = s->costs[id];
  for (int k = 0; k < tile_arity(v->op); k++) {
    int *uses = &s->uses[v->args[k]];
    if (sign < 0) {
      if (--*uses == 0) cost += take_away(s, v->args[k], sign);
    } else if ((*uses)++ == 0) {
      take_away(s, v->args[k], sign);
    }
  }
  return cost;
}

// One number for each step of each instance, along axes of the recurrence.
static bool may_be_saved(const saver *s, tile_id id) {
  const tile_program *p = s->backward;
  const tile_value *v = &p->values.items[id];
  if (!s->uses[id] || s->read[id] || s->image[id] == NO_TILE ||
      s->sections[s->image[id]] != TILE_BODY)
    return false;
  if (s->after_states && s->after_states[id]) return false;
  if (!tile_arity(v->op) || !axis_in(v->axes, p->time_axis)) return false;
  for (int i = 0; i < p->axes.count; i++) {
    bool own = i == p->time_axis || p->axes.items[i].body_axis >= 0;
    if (axis_in(v->axes, i) && !own) return false;
  }
  return (s->instances & ~v->axes) == 0;
}

// The value that spares most, NO_TILE if none is worth its bytes.
static tile_id best_value(saver *s, double whole) {
  tile_id best = NO_TILE;
  double most = 0;
  for (tile_id id = 0; id < s->backward->values.count; id++) {
    if (!may_be_saved(s, id)) continue;
    double work = take_away(s, id, -1);
    take_away(s, id, 1);
    double bytes =
        costs_of_number[s->place] * cost_elements(s->backward, s->backward->values.items[id].axes);
    if (work < clearly * bytes || work < least_shares[s->place] * whole || work - bytes <= most)
      continue;
    most = work - bytes;
    best = id;
  }
  return best;
}

static bool *find_after_states(arena *a, const tile_program *p) {
  bool *after = ARENA_ARRAY(a, bool, p->values.count);
  for (tile_id id = 0; id < p->values.count; id++) {
    const tile_value *v = &p->values.items[id];
    if (v->op == TILE_ARGUMENT) after[id] = tile_place_of(p, v)->role == TILE_STATE;
    for (int k = 0; k < tile_arity(v->op); k++) after[id] |= after[v->args[k]];
  }
  return after;
}

static double total_cost(const double *costs, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += costs[i];
  return sum;
}

static void choose_saved(saver *s) {
  double whole = total_cost(s->costs, s->backward->values.count);
  for (tile_id id = best_value(s, whole); id != NO_TILE; id = best_value(s, whole)) {
    take_away(s, id, -1);
    s->read[id] = true;
  }
}

static saver saver_of(arena *a, const tile_program *forward, const tile_program *backward,
                      axis_set instances, codegen_clone clone, save_place place) {
  saver s = {.a = a, .backward = backward, .instances = instances, .place = place};
  s.costs = cost_of_values(a, backward, clone);
  s.sections = tile_sections(a, forward);
  s.image = tile_find_equal(a, forward, backward);
  s.uses = tile_count_uses(s.a, s.backward);
  s.read = ARENA_ARRAY(s.a, bool, s.backward->values.count);
  return s;
}

double save_values(arena *a, const tile_program **forward, tile_gradient *gradient,
                   axis_set instances, codegen_clone clone, save_place place) {
  const tile_program *backward = gradient->backward;
  saver s = saver_of(a, *forward, backward, instances, clone, place);
  choose_saved(&s);
  tile_id *read = ARENA_ARRAY(a, tile_id, backward->values.count);
  tile_id *kept = ARENA_ARRAY(a, tile_id, backward->values.count);
  int count = 0;
  for (tile_id id = 0; id < backward->values.count; id++) {
    // chosen early, it may be needed for nothing but what was chosen later
    if (!s.read[id] || !s.uses[id]) continue;
    read[count] = id;
    kept[count++] = s.image[id];
  }
  if (!count) return 0;
  gradient->backward = tile_read_stashes(a, backward, read, count);
  gradient->stash_count = count;
  *forward = tile_keep_stashes(a, *forward, kept, count);
  gradient->recompute = tile_restrict(a, *forward, 1u << TILE_NEXT_STATE | 1u << TILE_KEEP);
  return 1 - cost_of_run(a, gradient->backward, clone) / cost_of_run(a, backward, clone);
}

// What forward saves for backward, in its order; *count -1: the summary does not have all of it.
static tile_id *saved_of_forward(const saver *s, int *count) {
  const tile_program *p = s->backward;
  tile_id *saved = ARENA_ARRAY(s->a, tile_id, p->values.count);
  *count = 0;
  for (int i = 0; i < p->results.count; i++) *count += p->results.items[i].place.role == TILE_KEEP;
  vec_each(const tile_result, r, p->results) {
    if (r->place.role != TILE_KEEP) continue;
    saved[r->place.stash] = r->value;
    if (!may_be_saved(s, r->value)) *count = -1;
    if (*count < 0) break;
  }
  return saved;
}

double save_of_slice(arena *a, const tile_program **summary, const tile_program **forward,
                     axis_set instances, codegen_clone clone) {
  const tile_program *whole = *forward;
  saver s = saver_of(a, *summary, whole, instances, clone, SAVE_OF_SLICE);
  s.after_states = find_after_states(a, whole);
  int count;
  tile_id *read = saved_of_forward(&s, &count),
          *kept = ARENA_ARRAY(a, tile_id, whole->values.count);
  if (count < 0) return 0;
  if (count == 0) {
    choose_saved(&s);
    for (tile_id id = 0; id < whole->values.count; id++)
      if (s.read[id] && s.uses[id]) read[count++] = id;
  }
  if (count == 0) return 0;
  for (int i = 0; i < count; i++) kept[i] = s.image[read[i]];
  *summary = tile_keep_stashes(a, *summary, kept, count);
  *forward = tile_restrict(a, tile_read_stashes(a, whole, read, count),
                           1u << TILE_OUTPUT | 1u << TILE_NEXT_STATE);
  return 1 - cost_of_run(a, *forward, clone) / cost_of_run(a, whole, clone);
}
