// On the host, values of renamed operands are made before the rename, and join the operands' nests.
//
//   %7 [s,K] = rename %3 t -> s
//   %8 [s,K] = rename %5 t -> s   ->   %6 [t,K] = mul %3 %5
//   %9 [s,K] = mul %7 %8               %9 [s,K] = rename %6 t -> s
#include "compiler/plan/planner.h"

typedef struct renaming {
  int from, to;  // axes
} renaming;

static bool is_renamed(const tile_value *v, renaming r) {
  return v->op == TILE_RENAME && tile_renamed_from(v) == r.from && tile_renamed_to(v) == r.to;
}

static bool has_neither(const tile_value *v, renaming r) {
  return !axis_in(v->axes, r.from) && !axis_in(v->axes, r.to);
}

// Do its operands go through one renaming, but for those without these axes?
static bool find_renaming(const tile_program *p, const tile_value *v, renaming *found) {
  bool any = false;
  for (int k = 0; k < tile_arity(v->op) && !any; k++) {
    const tile_value *x = tile_at(p, v->args[k]);
    if (x->op == TILE_RENAME) *found = (renaming){tile_renamed_from(x), tile_renamed_to(x)};
    any = x->op == TILE_RENAME;
  }
  for (int k = 0; any && k < tile_arity(v->op); k++) {
    const tile_value *x = tile_at(p, v->args[k]);
    any = is_renamed(x, *found) || has_neither(x, *found);
  }
  return any;
}

// A sum over all runs of the program is no value of one of them.
static bool may_be_renamed(tile_op op) {
  return tile_elementwise(op) && op != TILE_SELDOM && op != TILE_ACCUMULATE;
}

static tile_id copy_value(tile_program *to, tile_value v) {
  renaming r = {-1, -1};
  if (!may_be_renamed(v.op) || !find_renaming(to, &v, &r)) return tile_append_exact(to, v);
  for (int k = 0; k < tile_arity(v.op); k++) {
    const tile_value *x = tile_at(to, v.args[k]);
    if (is_renamed(x, r)) v.args[k] = x->args[0];
  }
  tile_value rename = {.op = TILE_RENAME,
                       .args = {tile_append_exact(to, v), NO_TILE, NO_TILE},
                       .index = r.from,
                       .index2 = r.to,
                       .where = v.where};
  return tile_append_exact(to, rename);
}

void plan_move_renames(planner *q) {
  const tile_program *program = q->program;
  tile_program *to = tile_program_like(q->a, program->name, program);
  tile_id *image = ARENA_ARRAY(q->a, tile_id, program->values.count);
  for (tile_id id = 0; id < program->values.count; id++)
    image[id] = copy_value(to, tile_with_images(*tile_at(program, id), image));
  tile_copy_results(to, program, image);
  q->program = to;
}
