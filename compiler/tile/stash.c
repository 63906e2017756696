// Chooses the forward values that the backward of a step is handed, and writes the program that keeps them.
//
//   backward:  %4 = exp %3           ->    %0 = argument stash 0
//              .. mul %9 %4                .. mul %5 %0
//   recompute: result next S, result keep stash 0 = exp ..
//
// Worth keeping is what costs much more than a store and a load: transcendental functions and reductions that follow
// from inputs or states. Everything else is computed again from the state before the step.
#include "compiler/tile/stash.h"

enum { WORTH_KEEPING = 10 };  // floating-point operations per element

// Reductions over axes of unknown size count as long ones.
static double cost_per_element(const tile_program *p, tile_id id) {
  const tile_value *v = &p->values.items[id];
  double cost = tile_op_cost(v->op);
  if (v->op != TILE_SUM && v->op != TILE_DOT && v->op != TILE_MAX_OVER && v->op != TILE_MIN_OVER) {
    return cost;
  }
  for (int i = 0; i < p->axes.count; i++) {
    if (!axis_in(v->over, i)) continue;
    cost *= p->axes.items[i].size == TILE_RUNTIME_SIZE ? 16 : (double)p->axes.items[i].size;
  }
  return cost;
}

static tile_place stash_place(const tile_program *p, tile_id id, tile_role role, int number) {
  tile_place place = {.role = role, .tensor = -1, .lag = -1, .stash = number, .time = true};
  place.name = p->values.items[id].name;
  for (int i = 0; i < p->axes.count; i++) {
    if (axis_in(p->values.items[id].axes, i)) place.axes[place.axis_count++] = i;
  }
  return place;
}

// Forward values to keep: needed by the backward, costly, from the body.
static bool *choose(arena *a, const tile_program *forward, const tile_program *derived) {
  int count = forward->values.count;
  bool *needed = ARENA_ARRAY(a, bool, derived->values.count);
  bool *kept = ARENA_ARRAY(a, bool, count);
  tile_section *sections = tile_sections(a, forward);
  for (int i = 0; i < derived->results.count; i++) needed[derived->results.items[i].value] = true;
  for (int i = derived->values.count - 1; i >= 0; i--) {
    if (!needed[i]) continue;
    if (i < count && sections[i] == TILE_BODY && cost_per_element(forward, i) >= WORTH_KEEPING) {
      kept[i] = true;
      continue;
    }
    const tile_value *v = &derived->values.items[i];
    for (int k = 0; k < tile_arity(v->op); k++) needed[v->args[k]] = true;
  }
  return kept;
}

// The backward with its kept values as arguments; stash numbers are values of the forward program at first.
static tile_program *read_stash(arena *a, const tile_program *forward, const tile_program *derived,
                                const bool *kept) {
  tile_program *p = tile_program_like(a, derived->name, derived);
  tile_id *image = ARENA_ARRAY(a, tile_id, derived->values.count);
  for (int i = 0; i < derived->values.count; i++) {
    if (i < forward->values.count && kept[i]) {
      image[i] = tile_argument(p, stash_place(forward, i, TILE_STASH, i));
      continue;
    }
    tile_value v = derived->values.items[i];
    for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = image[v.args[k]];
    image[i] = tile_append_exact(p, v);
  }
  for (int i = 0; i < derived->results.count; i++) {
    tile_result result = derived->results.items[i];
    result.value = image[result.value];
    vec_push(a, &p->results, result);
  }
  return p;
}

tile_gradient stash_forward_values(arena *a, const tile_program *forward,
                                   const tile_program *derived) {
  bool *kept = choose(a, forward, derived);
  tile_program *backward = read_stash(a, forward, derived, kept);
  // What is read after simplification is kept, numbered in order.
  backward = tile_restrict(a, tile_simplify(a, backward), ~0u);
  tile_program *recompute = tile_program_like(a, forward->name, forward);
  for (int i = 0; i < forward->values.count; i++) {
    tile_append_exact(recompute, forward->values.items[i]);
  }
  for (int i = 0; i < forward->results.count; i++) {
    const tile_result *result = &forward->results.items[i];
    if (result->place.role == TILE_NEXT_STATE) vec_push(a, &recompute->results, *result);
  }
  int count = 0;
  for (int i = 0; i < backward->arguments.count; i++) {
    tile_place *place = &backward->arguments.items[i];
    if (place->role != TILE_STASH) continue;
    tile_id id = place->stash;
    place->stash = count++;
    tile_result result = {stash_place(forward, id, TILE_KEEP, place->stash), id};
    vec_push(a, &recompute->results, result);
  }
  return (tile_gradient){.backward = tile_finish(a, backward),
                         .recompute = tile_finish(a, tile_restrict(a, recompute, ~0u)),
                         .stash_count = count};
}
