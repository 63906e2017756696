// Values that one program keeps and another one is handed: chooses those of a step, and writes the
// programs that keep and read them.
//
//   backward:  %4 = exp %3           ->    %0 = argument stash 0
//              .. mul %9 %4                .. mul %5 %0
//   recompute: result next S, result keep stash 0 = exp ..
//
// A forward program hands values to its backward, or those without an axis to the rest of itself.
// Worth keeping is what costs much more than a store and a load: transcendental functions and
// reductions that follow from inputs or states. Everything else is computed again from the state
// before the step. Of a chunk the schedule chooses (schedule/save.c), for there the forward itself
// must keep them.
#include "compiler/tile/stash.h"

enum { WORTH_KEEPING = 10 };  // floating-point operations per element

// Reductions over axes of unknown size count as long ones.
static double cost_per_element(const tile_program *p, tile_id id) {
  const tile_value *v = &p->values.items[id];
  double cost = tile_op_cost(v->op);
  if (!tile_op_is(v->op, TILE_REDUCES)) return cost;
  for (int i = 0; i < p->axes.count; i++) {
    if (!axis_in(v->over, i)) continue;
    int64_t size = p->axes.items[i].size;
    cost *= size == TILE_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : (double)size;
  }
  return cost;
}

tile_place tile_stash_place(const tile_program *p, tile_id id, tile_role role, int number) {
  tile_place place = {.role = role, .tensor = -1, .lag = -1, .stash = number, .time = true};
  place.name = p->values.items[id].name;
  for (int i = 0; i < p->axes.count; i++)
    if (axis_in(p->values.items[id].axes, i) && i != p->time_axis)
      place.axes[place.axis_count++] = i;
  return place;
}

// Forward values to keep: needed by the backward, costly, from the body. Their stashes are called
// like them at first.
static int *choose_stashed(arena *a, const tile_program *forward, const tile_program *derived) {
  int count = forward->values.count;
  bool *needed = ARENA_ARRAY(a, bool, derived->values.count);
  int *numbers = ARENA_ARRAY(a, int, derived->values.count);
  for (int i = 0; i < derived->values.count; i++) numbers[i] = -1;
  tile_section *sections = tile_sections(a, forward);
  for (int i = 0; i < derived->results.count; i++) needed[derived->results.items[i].value] = true;
  for (int i = derived->values.count - 1; i >= 0; i--) {
    if (!needed[i]) continue;
    if (i < count && sections[i] == TILE_BODY && cost_per_element(forward, i) >= WORTH_KEEPING) {
      numbers[i] = i;
      continue;
    }
    const tile_value *v = &derived->values.items[i];
    for (int k = 0; k < tile_arity(v->op); k++) needed[v->args[k]] = true;
  }
  return numbers;
}

// The backward with some values as arguments; their stash numbers by value, -1: computed.
static tile_program *read_stash(arena *a, const tile_program *derived, const int *numbers) {
  tile_program *p = tile_program_like(a, derived->name, derived);
  tile_id *image = ARENA_ARRAY(a, tile_id, derived->values.count);
  for (int i = 0; i < derived->values.count; i++) {
    if (numbers[i] >= 0) {
      image[i] = tile_argument(p, tile_stash_place(derived, i, TILE_STASH, numbers[i]));
      continue;
    }
    image[i] = tile_append_exact(p, tile_with_images(derived->values.items[i], image));
  }
  tile_copy_results(p, derived, image);
  return p;
}

// The same values, with the results of some roles.
static tile_program *program_copy(arena *a, const tile_program *program, unsigned roles) {
  tile_program *copy = tile_program_like(a, program->name, program);
  for (int i = 0; i < program->values.count; i++) tile_append_exact(copy, program->values.items[i]);
  vec_each(const tile_result, result, program->results)
    if (roles >> result->place.role & 1) vec_push(a, &copy->results, *result);
  return copy;
}

// The results of these roles, and the values that `reader` has as stashes, which are numbered in
// order.
static tile_program *keep_for(arena *a, const tile_program *program, unsigned roles,
                              tile_program *reader, int *count) {
  tile_program *keeps = program_copy(a, program, roles);
  vec_each(tile_place, place, reader->arguments) {
    if (place->role != TILE_STASH) continue;
    tile_id id = place->stash;
    place->stash = (*count)++;
    tile_result result = {tile_stash_place(program, id, TILE_KEEP, place->stash), id};
    vec_push(a, &keeps->results, result);
  }
  return tile_restrict(a, keeps, ~0u);
}

tile_gradient stash_forward_values(arena *a, const tile_program *forward,
                                   const tile_program *derived) {
  tile_program *backward = read_stash(a, derived, choose_stashed(a, forward, derived));
  // What is read after simplification is kept.
  backward = tile_restrict(a, tile_simplify(a, backward), ~0u);
  int count = 0;
  tile_program *recompute = keep_for(a, forward, 1u << TILE_NEXT_STATE, backward, &count);
  return (tile_gradient){.backward = tile_finish(a, backward),
                         .recompute = tile_finish(a, recompute),
                         .stash_count = count};
}

// ---- values without an axis --------------------------------------------------------------------

// Is the value the same along the axis, and does it follow from tokens, not from states?
static bool is_apart_along(const tile_program *p, tile_id id, int axis, const bool *apart,
                           tile_section section) {
  const tile_value *v = &p->values.items[id];
  if (axis_in(v->axes | v->over, axis) || section == TILE_EPILOGUE) return false;
  if (v->op == TILE_ARGUMENT) {
    tile_role role = tile_place_of(p, v)->role;
    return role == TILE_INPUT || role == TILE_PARAM;
  }
  for (int k = 0; k < tile_arity(v->op); k++)
    if (!apart[v->args[k]]) return false;
  return true;
}

tile_program *tile_values_without(arena *a, const tile_program *program, int axis,
                                  tile_program **rest) {
  int values = program->values.count;
  bool *apart = ARENA_ARRAY(a, bool, values), *dear = ARENA_ARRAY(a, bool, values);
  int *numbers = ARENA_ARRAY(a, int, values);
  const tile_section *sections = tile_sections(a, program);
  for (int i = 0; i < values; i++) {
    const tile_value *v = &program->values.items[i];
    apart[i] = is_apart_along(program, i, axis, apart, sections[i]);
    dear[i] = sections[i] == TILE_BODY && cost_per_element(program, i) >= WORTH_KEEPING;
    for (int k = 0; k < tile_arity(v->op); k++) dear[i] |= dear[v->args[k]];
    bool kept = apart[i] && dear[i] && !tile_op_is(v->op, TILE_COPIES);
    numbers[i] = kept ? i : -1;
  }
  *rest = tile_restrict(a, read_stash(a, program, numbers), ~0u);
  int count = 0;
  return keep_for(a, program, 0, *rest, &count);
}

// ---- chunk form ------------------------------------------------------------------------------

tile_program *tile_read_stashes(arena *a, const tile_program *backward, const tile_id *values,
                                int count) {
  int *numbers = ARENA_ARRAY(a, int, backward->values.count);
  for (int i = 0; i < backward->values.count; i++) numbers[i] = -1;
  for (int i = 0; i < count; i++) numbers[values[i]] = i;
  return tile_restrict(a, read_stash(a, backward, numbers), ~0u);
}

tile_program *tile_keep_stashes(arena *a, const tile_program *forward, const tile_id *values,
                                int count) {
  tile_program *p = program_copy(a, forward, ~0u);
  for (int i = 0; i < count; i++) {
    tile_result result = {tile_stash_place(forward, values[i], TILE_KEEP, i), values[i]};
    vec_push(a, &p->results, result);
  }
  return p;
}

int tile_find_argument(const tile_program *p, const tile_place *place) {
  for (int i = 0; i < p->arguments.count; i++) {
    const tile_place *x = &p->arguments.items[i];
    if (x->role == place->role && x->tensor == place->tensor && x->lag == place->lag &&
        x->slot == place->slot && x->component == place->component && x->stash == place->stash &&
        x->ahead == place->ahead) {
      return i;
    }
  }
  return -1;
}

tile_id *tile_find_equal(arena *a, const tile_program *in, const tile_program *program) {
  tile_id *image = ARENA_ARRAY(a, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    tile_value v = program->values.items[i];
    bool found = true;
    for (int k = 0; k < tile_arity(v.op); k++) {
      v.args[k] = image[v.args[k]];
      found = found && v.args[k] != NO_TILE;
    }
    if (v.op == TILE_ARGUMENT) v.index = tile_find_argument(in, tile_place_of(program, &v));
    image[i] = found && (v.op != TILE_ARGUMENT || tile_argument_number(&v) >= 0) ? tile_find(in, v)
                                                                                 : NO_TILE;
    if (image[i] != NO_TILE || !found || !tile_op_is(v.op, TILE_COMMUTES)) continue;
    tile_id first = v.args[0];
    v.args[0] = v.args[1];
    v.args[1] = first;
    image[i] = tile_find(in, v);
  }
  return image;
}
