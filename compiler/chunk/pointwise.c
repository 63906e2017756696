// The chunk program of a recurrence without memory (pointwise parts of layers): all its steps at
// once.
//
//   y = silu(z) * x     ->     %2 [t,D] = silu %0   %3 [t,D] = mul %1 %2   result output y = %3
#include "compiler/chunk/chunk.h"
#include "compiler/chunk/lower.h"

tile_program *chunk_build_pointwise(arena *a, const recurrence *from, int length) {
  const typed_body *body = &from->body;
  if (from->states.count > 0 || body->lags.count > 0) return NULL;
  const char *name = arena_printf(a, "%s.forward", body->name);
  tile_program *p = tile_program_new(a, name, body, TILE_CHUNK, length);
  lower_declare(p, body);
  lowering l = lowering_new(p, body);
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind != TENSOR_OUTPUT) continue;
    lower_output(p, body, i, lower_value(&l, body->tensors.items[i].assigned));
  }
  tile_find_grid(p);
  return tile_simplify(a, tile_drop_unused(a, p));
}
