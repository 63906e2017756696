/* GPU: results of products that are left factors of others stay in registers.
 *
 *   dot [t,s] %15, * decay: %29       a warp makes 16 rows t and all s, 16 bits each       64 x 64: 16 registers of a lane
 *   dot [t,P] of %29, x over s   ->   its rows of %29 are the left factor there            no memory, no barrier for it
 *
 * Sums of two tiles of 8 columns, two neighbours to a register, lie as 16 columns of a left factor do (gpu_ops.def). A block
 * must have as many warps as there are blocks of 16 rows: 128 threads for chunks of 64 steps. With more, several would make the
 * same rows.
 */
#include "gpu.h"
#include "gpu_parts.h"
#include "plan.h"

typedef struct left_search {
  const mapping *m;
  plan *p;
} left_search;

static const tile_value *value_of(const left_search *s, tile_id id) {
  return &s->p->program->values.items[id];
}

static int64_t size_of(const left_search *s, int axis) {
  return plan_axis_size(s->m, s->p->program, axis);
}

static bool reads(const left_search *s, tile_id from, tile_id id) {
  if (from == id) return true;
  const tile_value *v = value_of(s, from);
  for (int k = 0; plan_at_hand(s->p, from) && k < tile_arity(v->op); k++)
    if (reads(s, v->args[k], id)) return true;
  return false;
}

/* Nothing but rows, columns, and what is summed. */
static bool is_plain(const left_search *s, tile_id product, const plan_dot *dot) {
  axis_set all = axis_bit(dot->i) | axis_bit(dot->j) | axis_bit(dot->k);
  axis_set own = plan_tile_axes(s->m, value_of(s, product)->axes | value_of(s, product)->over);
  return !(own & ~all) && gpu_is_mma(s->m, s->p->program, dot);
}

/* Its sums are a state that stays in registers, for which warps have other rows. */
static bool is_kept(const left_search *s, int n) {
  for (int c = 0; c < s->p->carried_count; c++)
    if (s->p->carried[c].sums == n) return true;
  return false;
}

/* ---- who makes it ---- */

/* The one value that the nest stores, whole rows of which a warp can make; NO_TILE. */
static tile_id made_by(const left_search *s, const plan_nest *nest) {
  tile_id id = NO_TILE;
  if (nest->kind != NEST_DOT || nest->region != REGION_BODY || nest->results.count || nest->wide)
    return NO_TILE;
  if (!is_plain(s, nest->values.items[0], &nest->dot)) return NO_TILE;
  if (nest->two && !is_plain(s, nest->other, &nest->other_dot)) return NO_TILE;
  if (s->p->values[nest->values.items[0]].into != NO_TILE && !nest->two) return NO_TILE;
  for (int i = 0; i < nest->values.count; i++) {
    const plan_value *pv = &s->p->values[nest->values.items[i]];
    if (pv->held != HELD_BUFFER) continue;
    if (id != NO_TILE || pv->into != NO_TILE || pv->dot != NO_TILE) return NO_TILE;
    id = nest->values.items[i];
  }
  if (id == NO_TILE || !number_is_narrow(s->p->buffers.items[s->p->values[id].buffer].stored))
    return NO_TILE;
  return s->p->values[id].tile == (axis_bit(nest->dot.i) | axis_bit(nest->dot.j)) ? id : NO_TILE;
}

static bool has_rows_of_warps(const left_search *s, const plan_dot *dot) {
  int64_t rows = size_of(s, dot->i), columns = size_of(s, dot->j),
          warps = s->m->threads / GPU_WARP_LANES;
  if (rows != warps * GPU_TILE_ROWS || columns % (2 * GPU_TILE_COLUMNS)) return false;
  return columns <= GPU_GROUP_TILES * GPU_TILE_COLUMNS;
}

/* ---- who reads it ---- */

/* Whether the product does not read it, or as its left factor. */
static bool takes(const left_search *s, tile_id product, const plan_dot *dot, const plan_dot *made,
                  tile_id id) {
  if (!is_plain(s, product, dot)) return false;
  if (!reads(s, dot->a, id) && !reads(s, dot->b, id)) return true;
  return dot->a == id && !reads(s, dot->b, id) && dot->pack_a < 0 && dot->i == made->i &&
         dot->k == made->j;
}

static bool is_read(const left_search *s, const plan_nest *nest, tile_id id) {
  bool first = reads(s, nest->dot.a, id) || reads(s, nest->dot.b, id);
  return first ||
         (nest->two && (reads(s, nest->other_dot.a, id) || reads(s, nest->other_dot.b, id)));
}

/* Of 16 bits are buffers that products alone read. */
static bool products_take(const left_search *s, int n, tile_id id) {
  const plan_dot *made = &s->p->nests.items[n].dot;
  int readers = 0;
  for (int k = 0; k < s->p->nests.count; k++) {
    const plan_nest *nest = &s->p->nests.items[k];
    if (nest->kind != NEST_DOT || !is_read(s, nest, id)) continue;
    if (k <= n || nest->region != REGION_BODY || is_kept(s, k)) return false;
    if (!takes(s, nest->values.items[0], &nest->dot, made, id)) return false;
    if (nest->two && !takes(s, nest->other, &nest->other_dot, made, id)) return false;
    readers++;
  }
  return readers > 0;
}

void plan_keep_left(const mapping *m, plan *p) {
  left_search s = {m, p};
  if (m->kind != MAP_BLOCK || !number_is_narrow(m->dtype)) return;
  for (int n = 0; n < p->nests.count; n++) {
    const plan_nest *nest = &p->nests.items[n];
    tile_id id = made_by(&s, nest);
    if (id == NO_TILE || is_kept(&s, n) || !products_take(&s, n, id)) continue;
    if (!has_rows_of_warps(&s, &nest->dot)) continue;
    p->values[id].held = HELD_WARPS;
    p->values[id].buffer = -1;
    p->left++;
  }
}
