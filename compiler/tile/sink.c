// Slices go below what is computed entry by entry, so that the other entries are not computed.
//
//   %5 [u,i] = split %4 t -> u,i, %4 = exp %3       ->   %4 [u,i] = split %3 t -> u,i
//   %6 [u] = slice %5 i = 0                              %5 [u] = slice %4 i = 0
//                                                        %6 [u] = exp %5
//
// Only below values that nobody else uses: what is there as a whole is sliced for nothing.
#include "compiler/tile/products.h"

static bool is_map(tile_op op) { return op == TILE_SLICE || op == TILE_SPLIT || op == TILE_RENAME; }

// The maps from the value `below` up to the slice `top`, in the new program, over x.
static tile_id mapped_through(tile_rewrite *s, tile_id top, tile_id below, tile_id x) {
  if (top == below) return x;
  tile_value v = *tile_at(s->from, top);
  v.args[0] = mapped_through(s, v.args[0], below, x);
  v.name = NULL;
  return tile_append(s->to, v);
}

static bool may_sink(const tile_rewrite *s, tile_id id) {
  const tile_value *v = tile_at(s->from, id);
  bool costs = tile_op_cost(v->op) > 0 && v->op != TILE_NEG;  // signs go elsewhere, see arrange.c
  return tile_elementwise(v->op) && costs && v->op != TILE_ACCUMULATE && s->uses[id] == 1;
}

// The maps over a value: on its operands, as far down as it is used here alone.
static tile_id sunk(tile_rewrite *s, tile_id top, tile_id below, tile_id id) {
  if (!may_sink(s, id)) return mapped_through(s, top, below, s->image[id]);
  tile_value v = *tile_at(s->from, id);
  for (int k = 0; k < tile_arity(v.op); k++) v.args[k] = sunk(s, top, below, v.args[k]);
  return tile_append(s->to, v);
}

static tile_id sink_value(tile_rewrite *s, tile_id id) {
  tile_value v = *tile_at(s->from, id);
  if (v.op == TILE_SLICE) {
    tile_id below = v.args[0];
    while (is_map(tile_at(s->from, below)->op) && s->uses[below] == 1)
      below = tile_at(s->from, below)->args[0];
    if (may_sink(s, below)) return sunk(s, id, below, below);
  }
  return tile_rewrite_copy(s, id);
}

tile_id tile_rewrite_copy(tile_rewrite *r, tile_id id) {
  return tile_append_exact(r->to, tile_with_images(r->from->values.items[id], r->image));
}

tile_program *tile_rewritten(arena *a, const tile_program *program,
                             tile_id (*rule)(tile_rewrite *r, tile_id id), const void *context) {
  tile_rewrite r = {.from = program,
                    .to = tile_program_like(a, program->name, program),
                    .uses = tile_count_uses(a, program),
                    .image = ARENA_ARRAY(a, tile_id, program->values.count),
                    .context = context};
  for (int i = 0; i < program->values.count; i++) {
    r.to->where = program->values.items[i].where;
    r.image[i] = rule(&r, i);
  }
  tile_add_results(r.to, program, r.image);
  return tile_drop_unused(a, r.to);
}

tile_program *tile_sink_slices(arena *a, const tile_program *program) {
  return tile_rewritten(a, program, sink_value, NULL);
}
