// GPU: moves register-resident states (plan/gpu/register_states.c) from and to memory.
//
//   load    h0, or 0, or a saved state -> the accumulators of a warp's tiles
//   join    factor * accumulators + the summary of a time slice (slices.c) -> the accumulators
//   show    accumulators -> the 16-bit copy that products read
//   store   accumulators -> hT, or saved states
#include "compiler/lower/gpu/nests.h"

void gpu_accumulators_open(lower *l, int carried) {
  emitter *e = l->e;
  register_accumulators *k = &l->kept[carried];
  const plan_nest *nest = &l->p->nests.items[l->p->carried[carried].accumulator];
  k->i = nest->dot.i;
  k->j = nest->dot.j;
  accumulator_share share = plan_accumulator_share(l->m, l->p->program, &nest->dot);
  k->blocks = share.blocks;
  k->tiles = share.tiles;
  for (int tile = 0; tile < k->blocks * k->tiles; tile++)
    for (int r = 0; r < 4; r++) k->slots[tile][r] = stack_slot(e, e->real, "state");
}

// The views that a function reads or writes at each pair of elements.
typedef struct pair_views {
  const view *v, *factor;  // factor: NULL, if there is none
  axis_set axes, factor_axes;
} pair_views;

// The first pair of elements that a thread has in a block of rows.
typedef struct first_pair {
  ir row, column;
} first_pair;

static first_pair first_of_block(lower *l, const register_accumulators *k, ir index) {
  emitter *e = l->e;
  int64_t width = k->tiles * GPU_TILE_COLUMNS, columns = known_size(l, k->j) / width;
  ir lane = int_rem_n(e, l->team->thread, GPU_WARP_LANES), row, column;
  gpu_block_at(l, (gpu_blocks){known_size(l, k->i) / GPU_TILE_ROWS, columns}, index, &row, &column);
  row = int_mul_n(e, row, GPU_TILE_ROWS);
  column = int_mul_n(e, column, width);
  return (first_pair){int_add(e, row, int_div_n(e, lane, 4)),
                      int_add(e, column, int_mul_n(e, int_rem_n(e, lane, 4), 2))};
}

// Calls `body` at all pairs of a block, whose tiles begin at number `first`.
static void pairs_of_block(lower *l, const register_accumulators *k, first_pair from, int first,
                           pair_function *body, void *data) {
  emitter *e = l->e;
  place_in_loops at = lower_start_place(l, false);
  at.vector_axis = k->j;
  at.lanes = 2;
  for (int tile = 0; tile < k->tiles; tile++) {
    for (int half = 0; half < 2; half++) {
      at.index[k->i] = int_add_n(e, from.row, half * GPU_TILE_ROWS / 2);
      at.index[k->j] = int_add_n(e, from.column, tile * GPU_TILE_COLUMNS);
      body(l, &at, &k->slots[first + tile][2 * half], data);
    }
  }
}

// Without a swizzle, each pair lies at a known distance from the first.
static bool begin_at(lower *l, const register_accumulators *k, first_pair from, view *v) {
  emitter *e = l->e;
  if (!v) return true;
  if (v->layout.pattern || v->width) return false;
  ir distance = integer(e, 0);
  if (v->stride[k->i]) distance = int_add(e, distance, int_mul(e, from.row, v->stride[k->i]));
  if (v->stride[k->j]) distance = int_add(e, distance, int_mul(e, from.column, v->stride[k->j]));
  v->base = element(e, view_type(e, v), v->base, distance);
  return true;
}

typedef void block_function(lower *l, const register_accumulators *k, first_pair from, int first,
                            pair_function *body, void *data);

static void each_block(lower *l, const register_accumulators *k, block_function *of_block,
                       pair_function *body, void *data) {
  emitter *e = l->e;
  team own = gpu_team_of_nest(l, 0);
  team *before = l->team;
  l->team = &own;
  ir warp = gpu_warp(l);
  for (int block = 0; block < k->blocks; block++) {
    ir index = int_add_n(e, warp, block * own.threads / GPU_WARP_LANES);
    of_block(l, k, first_of_block(l, k, index), block * k->tiles, body, data);
  }
  l->team = before;
}

void gpu_accumulators_each(lower *l, const register_accumulators *k, pair_function *body,
                           void *data) {
  each_block(l, k, pairs_of_block, body, data);
}

static void meet_in_block(lower *l, const register_accumulators *k, first_pair from, int first,
                          pair_function *body, void *data) {
  const pair_views *views = data;
  view v, factor;
  pair_views at = *views;
  if (views->v) v = *views->v, at.v = &v;
  if (views->factor) factor = *views->factor, at.factor = &factor;
  bool near = begin_at(l, k, from, views->v ? &v : NULL) &&
              begin_at(l, k, from, views->factor ? &factor : NULL);
  if (near) from.row = from.column = integer(l->e, 0);
  pairs_of_block(l, k, from, first, body, near ? &at : data);
}

// Calls `body` at all pairs, with these views as its data.
static void kept_meets(lower *l, const register_accumulators *k, const pair_views *views,
                       pair_function *body) {
  pair_views at = *views;
  each_block(l, k, meet_in_block, body, &at);
}

ir gpu_pair_of(emitter *e, const ir *slots) {
  ir low = load_real(e, slots[0], 0), high = load_real(e, slots[1], 0);
  ir first = LLVMBuildInsertElement(e->b, LLVMGetPoison(real_type(e, 2)), low, integer(e, 0), "");
  return LLVMBuildInsertElement(e->b, first, high, integer(e, 1), "");
}

void gpu_set_pair(emitter *e, const ir *slots, ir x) {
  for (int i = 0; i < 2; i++)
    store_real(e, LLVMBuildExtractElement(e->b, x, integer(e, i), ""), slots[i]);
}

static void load_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  const pair_views *views = data;
  ir x = views->v ? view_load(l, views->v, at, views->axes) : real_number(l->e, 0, 2);
  gpu_set_pair(l->e, slots, x);
}

static void store_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  const pair_views *views = data;
  view_store(l, views->v, at, views->axes, gpu_pair_of(l->e, slots));
}

static void join_factor_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  const pair_views *views = data;
  emitter *e = l->e;
  ir factor = spread(e, view_load(l, views->factor, at, views->factor_axes), 2);
  ir left = view_load(l, views->v, at, views->axes);
  gpu_set_pair(e, slots, real_fma(e, factor, gpu_pair_of(e, slots), left));
}

static view of_pairs(const view *v, int alignment) {
  view pairs = *v;
  pairs.aligned = NULL;
  if (alignment) pairs.alignment = alignment;
  return pairs;
}

static void pairs_at(lower *l, const register_accumulators *k, pair_views *views, int alignment,
                     pair_function *body) {
  view v = of_pairs(views->v, alignment), factor;
  pair_views at = *views;
  at.v = &v;
  if (views->factor) factor = of_pairs(views->factor, alignment), at.factor = &factor;
  kept_meets(l, k, &at, body);
}

// The same, with vector accesses where rows begin at multiples of 16 bytes.
static void pairs_by_alignment(lower *l, const register_accumulators *k, pair_views *views,
                               pair_function *body) {
  enum { ALIGNED = 4 };
  if (!views->v || !views->v->aligned) {
    kept_meets(l, k, views, body);
    return;
  }
  ir aligned = views->v->aligned;
  if (views->factor) aligned = bit_and(l->e, aligned, views->factor->aligned);
  emit_branch branch = branch_begin(l->e, aligned);
  pairs_at(l, k, views, ALIGNED, body);
  branch_else(l->e, &branch);
  pairs_at(l, k, views, 0, body);
  branch_end(l->e, &branch);
}

void gpu_accumulators_load(lower *l, const register_accumulators *k, const view *from,
                           axis_set axes) {
  pairs_by_alignment(l, k, &(pair_views){.v = from, .axes = axes}, load_pair);
}

void gpu_accumulators_combine(lower *l, const register_accumulators *k, const view *left,
                              axis_set axes, const view *factor, axis_set factor_axes) {
  pair_views views = {left, factor, axes, factor_axes};
  pairs_by_alignment(l, k, &views, join_factor_pair);
}

void gpu_accumulators_show(lower *l, const register_accumulators *k, const view *copy,
                           axis_set axes) {
  gpu_wait(l);
  kept_meets(l, k, &(pair_views){.v = copy, .axes = axes}, store_pair);
  if (copy->width) gpu_fence_groups(l);
}

void gpu_accumulators_store(lower *l, const register_accumulators *k, const view *to,
                            axis_set axes) {
  pairs_by_alignment(l, k, &(pair_views){.v = to, .axes = axes}, store_pair);
}
