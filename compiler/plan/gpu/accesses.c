// GPU: the memory that nests of points read and write.
//
//   points [t,K]: %9 = q{t->s} * %4 -> b2      q at s * 128 + K, b1 at t * 128 + K, b2 at t * 128 + K
#include "compiler/plan/gpu/accesses.h"

#include <string.h>

#include "compiler/plan/planner.h"

typedef struct collector {
  arena *a;
  const mapping *m;
  const plan *p;
  plan_accesses found;
} collector;

static const tile_value *value_of(const collector *c, tile_id id) { return &c->p->program->values.items[id]; }

int64_t plan_size_or_one(const mapping *m, const tile_program *program, int axis) {
  int64_t size = plan_axis_size(m, program, axis);
  return size == TILE_RUNTIME_SIZE ? 1 : size;
}

// ---- index maps ----

void plan_move_stride(int64_t *stride, int from, int to, int64_t factor) {
  int64_t moved = stride[from] * factor;
  stride[from] = 0;
  stride[to] = moved;
}

static void split_stride(const tile_value *v, int64_t inner, int64_t *stride) {
  stride[tile_inner_axis(v)] = stride[tile_whole_axis(v)];
  plan_move_stride(stride, tile_whole_axis(v), tile_outer_axis(v), inner);
}

static void join_strides(const tile_value *v, int64_t *stride) {
  stride[tile_outer_axis(v)] = 0;
  plan_move_stride(stride, tile_inner_axis(v), tile_whole_axis(v), 1);
}

void plan_map_strides(const mapping *m, const tile_program *program, const plan_index_map *maps, int64_t *stride) {
  for (; maps; maps = maps->above) {
    const tile_value *v = maps->v;
    switch (v->op) {
      case TILE_RENAME: plan_move_stride(stride, tile_renamed_from(v), tile_renamed_to(v), 1); break;
      case TILE_SLICE: stride[tile_entry_axis(v)] = 0; break;
      case TILE_SPLIT: split_stride(v, plan_size_or_one(m, program, tile_inner_axis(v)), stride); break;
      case TILE_JOIN: join_strides(v, stride); break;
      default: break;
    }
  }
}

static void add(collector *c, plan_access access, const plan_index_map *maps) {
  plan_map_strides(c->m, c->p->program, maps, access.stride);
  for (int i = 0; i < c->found.count; i++)
    if (memcmp(&c->found.items[i], &access, sizeof access) == 0) return;
  vec_push(c->a, &c->found, access);
}

// ---- memory ----

static int bytes_of(number_type stored) { return number_is_narrow(stored) ? 2 : stored == NUMBER_F64 ? 8 : 4; }

static plan_access of_buffer(const plan_buffer *b) {
  plan_access access = {.stored = b->stored};
  for (int i = 0; i < b->axis_count; i++) access.stride[b->axes[i]] = b->stride[b->axes[i]].factor;
  int last = b->axis_count - 1;
  if (last > 0 && !b->kept) access.layout = plan_layout_of_rows(b->stored, b->stride[b->axes[last - 1]].factor);
  return access;
}

static bool is_state(const tile_place *place) {
  return place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE || place->role == TILE_STASH;
}

// Rows of tokens are copied without the axes of other instances; parameters lie as the caller has them.
static plan_access of_tensor(const collector *c, const tile_place *place) {
  int t = c->p->program->time_axis;
  plan_access access = {.stored = place->time ? c->m->dtype : NUMBER_F32};
  int64_t stride = 1;
  for (int i = place->axis_count - 1; i >= 0; i--) {
    bool tile = plan_tile_axes(c->m, axis_bit(place->axes[i]));
    if (tile) access.stride[place->axes[i]] = stride;
    if (tile || !place->time) stride *= plan_size_or_one(c->m, c->p->program, place->axes[i]);
  }
  if (place->time && t >= 0) access.stride[t] = stride;
  if (place->time) access.layout = plan_layout_of_rows(c->m->dtype, stride);
  return access;
}

static plan_access of_argument(const collector *c, const tile_value *v) {
  const tile_place *place = tile_place_of(c->p->program, v);
  if (!is_state(place)) return of_tensor(c, place);
  plan_buffer b = plan_buffer_for(c->m, c->p->program, plan_tile_axes(c->m, v->axes), false, -1);
  return of_buffer(&b);
}

static void read_below(collector *c, tile_id id, int nest, const plan_index_map *maps) {
  const tile_value *v = value_of(c, id);
  const plan_value *pv = &c->p->values[id];
  if (v->op == TILE_ARGUMENT) {
    add(c, of_argument(c, v), maps);
  } else if (plan_at_hand(c->p, id)) {
    const plan_index_map here = {v, maps};
    for (int k = 0; k < tile_arity(v->op); k++) read_below(c, v->args[k], nest, plan_is_inline(v->op) ? &here : maps);
  } else if (pv->nest != nest && pv->held == HELD_BUFFER) {
    add(c, of_buffer(&c->p->buffers.items[pv->buffer]), maps);
  }
}

static void written(collector *c, tile_id id) {
  const plan_value *pv = &c->p->values[id];
  if (tile_op_is(value_of(c, id)->op, TILE_REDUCES)) return;
  if (pv->held == HELD_BUFFER) add(c, of_buffer(&c->p->buffers.items[pv->buffer]), NULL);
}

static void stored(collector *c, int nest, int result) {
  const tile_result *r = &c->p->program->results.items[result];
  read_below(c, r->value, nest, NULL);
  add(c, of_tensor(c, &r->place), NULL);
}

plan_accesses plan_accesses_of(arena *a, const mapping *m, const plan *p, const plan_nest *nest) {
  collector c = {.a = a, .m = m, .p = p};
  int n = (int)(nest - p->nests.items);
  for (int i = 0; i < nest->values.count; i++) {
    const tile_value *v = value_of(&c, nest->values.items[i]);
    for (int k = 0; k < tile_arity(v->op); k++) read_below(&c, v->args[k], n, NULL);
    written(&c, nest->values.items[i]);
  }
  for (int i = 0; i < nest->results.count; i++) stored(&c, n, nest->results.items[i]);
  return c.found;
}

// ---- banks ----

int plan_wavefronts_of(const plan_access *access, const int64_t *offsets, int numbers) {
  int64_t addresses[PLAN_BANKS];
  int bytes = bytes_of(access->stored);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    int64_t offset = offsets[lane];
    addresses[lane] = offset < 0 ? -1 : bytes * plan_offset_in(access->layout, access->stored, offset);
  }
  return plan_wavefronts(addresses, bytes * numbers);
}
