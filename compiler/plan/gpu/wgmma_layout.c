// GPU: operands of warpgroup products lie in the layout that wgmma descriptors describe (wgmma.c).
//
//   dot %31 of %28 [t,s], %12 [s,P], 64 rows      ->      buffers and rows of %28 and %12 in tiles of 64 columns
//
// A value that elementwise code reads stays f32 in memory. The products that read it get a 16-bit
// copy (plan/products.c).
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

// ---- layouts ----

bool plan_is_in_tiles(int64_t row, int64_t rows) {
  enum { LEAST_ROW = 16, MOST_ROW = 256, LEAST_NUMBERS = 512 };
  if (row < LEAST_ROW || row > MOST_ROW || row & (row - 1) || rows % 8) return false;
  return row * rows >= LEAST_NUMBERS;  // smaller memory may begin anywhere
}

// ---- copies ----

// Does `user` read the root, other than as an operand of a product?
static bool reads_wide(const planner *q, tile_id user, tile_id root) {
  const tile_value *v = value(q, user);
  if (plan_is_inline(v->op) || plan_is_blocked_dot(q, user)) return false;
  for (int k = 0; k < tile_arity(v->op); k++)
    if (plan_root(q->program, v->args[k]) == root) return true;
  return false;
}

static bool products_alone_read(const planner *q, tile_id root) {
  for (int i = 0; i < q->order_count; i++)
    if (reads_wide(q, q->order[i], root)) return false;
  for (int i = 0; i < q->program->results.count; i++)
    if (plan_root(q->program, q->program->results.items[i].value) == root) return false;
  return true;
}

// A state that a product updates may stay in registers; memory then holds a 16-bit copy
// (register_states.c).
static bool argument_stays_wide(const planner *q, const tile_place *place) {
  bool back = kernel_goes_back(q->m->kernel->kind);
  bool state = place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE;
  if (state) return back;
  return !place->time || place->role == TILE_STASH;
}

bool plan_stays_wide(const planner *q, tile_id operand) {
  tile_id root = plan_root(q->program, operand);
  const tile_value *v = value(q, root);
  if (v->op == TILE_ARGUMENT) return argument_stays_wide(q, tile_place_of(q->program, v));
  bool written_once = v->op != TILE_SOLVE && v->op != TILE_ACCUMULATE && v->op != TILE_PREFIX &&
                      q->p->values[root].dot == NO_TILE && q->p->values[root].into == NO_TILE;
  return !written_once || !products_alone_read(q, root);
}

// ---- marks ----

typedef struct marking {
  const mapping *m;
  plan *p;
} marking;

// Marks all memory below index maps that is read for `id`.
static void mark_below(const marking *k, tile_id id) {
  const tile_value *v = tile_at(k->p->program, id);
  int buffer = k->p->values[id].buffer;
  if (v->op == TILE_ARGUMENT) {
    k->p->wgmma_layout[tile_argument_number(v)] = true;
    for (int c = 0; c < k->p->carried_count; c++) {
      carried_pair *pair = &k->p->carried[c];
      if (pair->argument == tile_argument_number(v) && pair->accumulator >= 0)
        pair->wgmma_layout = true;
    }
  }
  if (plan_at_hand(k->p, id)) {
    for (int n = 0; n < tile_arity(v->op); n++) mark_below(k, v->args[n]);
  } else if (buffer >= 0) {
    plan_buffer *b = &k->p->buffers.items[buffer];
    if (b->carried < 0 && number_is_narrow(b->stored)) b->wgmma_layout = true;
  }
}

static void mark_product(const marking *k, const plan_nest *nest, const plan_dot *dot) {
  const tile_program *program = k->p->program;
  bool group = plan_may_be_wgmma(k->m, program, dot);
  if (nest->region == REGION_BODY) {
    k->p->products++;
    k->p->wgmma_products += group;
  }
  if (!group) return;
  const int packs[] = {dot->pack_a, dot->pack_b};
  const tile_id operands[] = {dot->a, dot->b};
  for (int i = 0; i < 2; i++) {
    if (packs[i] < 0) mark_below(k, operands[i]);
    if (packs[i] >= 0 && number_is_narrow(k->p->buffers.items[packs[i]].stored))
      k->p->buffers.items[packs[i]].wgmma_layout = true;
  }
}

void plan_mark_wgmma(planner *q) {
  const mapping *m = q->m;
  plan *p = q->p;
  marking k = {m, p};
  p->wgmma_layout = ARENA_ARRAY(q->a, bool, p->program->arguments.count + 1);
  if (m->kind != MAP_BLOCK) return;
  vec_each(const plan_nest, nest, p->nests) {
    if (nest->kind != NEST_DOT) continue;
    mark_product(&k, nest, &nest->dot);
    if (nest->two) mark_product(&k, nest, &nest->other_dot);
  }
}
