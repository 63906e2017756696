// Rewrites of whole programs, until nothing changes.
#include "compiler/tile/tile.h"

// Appends every value again: rules that look at operands (fold.c) see them in their final form.
static tile_program *rebuild(arena *a, const tile_program *program) {
  tile_program *p = tile_program_like(a, program->name, program);
  tile_id *image = ARENA_ARRAY(a, tile_id, program->values.count);
  for (int i = 0; i < program->values.count; i++) {
    tile_value v = program->values.items[i];
    for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = image[v.args[k]];
    image[i] = tile_append(p, v);
  }
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *result = &program->results.items[i];
    tile_add_result(p, result->place, image[result->value]);
  }
  return tile_drop_unused(a, p);
}

tile_program *tile_simplify(arena *a, const tile_program *program) {
  tile_program *p = rebuild(a, program);
  for (int before = -1; before != p->values.count;) {
    before = p->values.count;
    p = rebuild(a, p);
  }
  return p;
}
