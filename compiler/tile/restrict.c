// Keeps a part of a program: the results of some roles and what they need.
//
//   y = .., S' = ..   restricted to 1 << TILE_NEXT_STATE   ->   S' = .. alone
//
// Arguments that nothing reads any more are dropped; the others keep their order.
#include "compiler/tile/tile.h"

static void mark_operands_needed(const tile_program *program, bool *needed) {
  for (int i = program->values.count - 1; i >= 0; i--) {
    const tile_value *v = &program->values.items[i];
    for (int k = 0; needed[i] && k < tile_arity(v->op); k++) needed[v->args[k]] = true;
  }
}

static void copy_needed(tile_program *kept, const tile_program *program, const bool *needed,
                        const int *argument, unsigned roles) {
  tile_id *image = ARENA_ARRAY(kept->arena, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    if (!needed[i]) continue;
    tile_value v = tile_with_images(program->values.items[i], image);
    if (v.op == TILE_ARGUMENT) v.index = argument[tile_argument_number(&v)];
    image[i] = tile_append_exact(kept, v);
  }
  for (int i = 0; i < program->results.count; i++) {
    tile_result result = program->results.items[i];
    if (!(roles >> result.place.role & 1)) continue;
    result.value = image[result.value];
    vec_push(kept->arena, &kept->results, result);
  }
}

static tile_program *keep_roles(arena *a, const tile_program *program, unsigned roles,
                                bool arguments) {
  bool *needed = ARENA_ARRAY(a, bool, program->values.count);
  vec_each(const tile_result, result, program->results)
    if (roles >> result->place.role & 1) needed[result->value] = true;
  mark_operands_needed(program, needed);
  bool *read = ARENA_ARRAY(a, bool, program->arguments.count);
  for (int i = 0; i < program->values.count; i++) {
    const tile_value *v = &program->values.items[i];
    if (needed[i] && v->op == TILE_ARGUMENT) read[tile_argument_number(v)] = true;
  }
  tile_program *kept = tile_program_like(a, program->name, program);
  kept->arguments.count = 0;
  int *argument = ARENA_ARRAY(a, int, program->arguments.count);
  for (int i = 0; i < program->arguments.count; i++) {
    if (!arguments && !read[i]) continue;
    argument[i] = kept->arguments.count;
    vec_push(a, &kept->arguments, program->arguments.items[i]);
  }
  copy_needed(kept, program, needed, argument, roles);
  return kept;
}

tile_program *tile_restrict(arena *a, const tile_program *program, unsigned roles) {
  return keep_roles(a, program, roles, false);
}

tile_program *tile_drop_unused(arena *a, const tile_program *program) {
  return keep_roles(a, program, ~0u, true);
}

bool tile_takes(const tile_program *program, unsigned roles) {
  for (int i = 0; i < program->arguments.count; i++)
    if (roles >> program->arguments.items[i].role & 1) return true;
  return false;
}
