// Which values one operand of a `seldom` alone needs.
//
//   %5 = seldom %2 %3 %4 ; %3 = mul %1 %1       ->      %3 is needed where %2 is not 0
//
// The condition itself, and what several branches need, is needed always.
#include "compiler/tile/tile.h"

static const tile_branch always = {NO_TILE, false};

static bool same_branch(tile_branch x, tile_branch y) {
  return x.condition == y.condition && x.rare == y.rare;
}

typedef struct finder {
  tile_branch *branches;
  bool *reached;  // by value: a reader has been seen
} finder;

static void note_reader(finder *f, tile_id id, tile_branch reader) {
  bool other = f->reached[id] && !same_branch(f->branches[id], reader);
  f->branches[id] = other ? always : reader;
  f->reached[id] = true;
}

tile_branch *tile_branches(arena *a, const tile_program *p) {
  finder f = {.branches = ARENA_ARRAY(a, tile_branch, p->values.count),
              .reached = ARENA_ARRAY(a, bool, p->values.count)};
  for (int i = 0; i < p->values.count; i++) f.branches[i] = always;
  for (int i = 0; i < p->results.count; i++) note_reader(&f, p->results.items[i].value, always);
  for (tile_id id = p->values.count - 1; id >= 0; id--) {
    const tile_value *v = &p->values.items[id];
    if (!f.reached[id]) continue;
    for (int k = 0; k < tile_arity(v->op); k++) {
      tile_branch reader = f.branches[id];
      bool chooses = v->op == TILE_SELDOM && reader.condition == NO_TILE;
      if (chooses && k > 0) reader = (tile_branch){v->args[0], k == 1};
      if (v->op == TILE_SELDOM && k == 0) reader = always;
      note_reader(&f, v->args[k], reader);
    }
  }
  return f.branches;
}
