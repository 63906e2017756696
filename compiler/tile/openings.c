// Step form: sums over a state that its update waits for. They open a step, and would be a loop over
// the state of their own. They are taken where the step before writes the state.
//
//   u = sum[K](k * S[t-1])            first step:  u = sum[K](k * S[t-1])
//   S = a * S[t-1] - k * u      ->    each step:   S = a * S[t-1] - k * u
//                                                  u of the next step = sum[K](k of the next step * S)
//
// The sums go from step to step as stashes.
#include "compiler/tile/stash.h"

// What an operand of such a sum is made of, entry by entry.
typedef enum origin { OTHERS, TOKENS, STATES } origin;

// The state after the step; NO_TILE: the program does not yield it.
static tile_id next_of_state(const tile_program *p, const tile_place *state) {
  vec_each(const tile_result, r, p->results) {
    const tile_place *x = &r->place;
    if (x->role == TILE_NEXT_STATE && x->tensor == state->tensor && x->lag == state->lag &&
        x->slot == state->slot && x->component == state->component)
      return r->value;
  }
  return NO_TILE;
}

static origin origin_of_argument(const tile_program *p, const tile_place *place) {
  if (place->role == TILE_STATE) return next_of_state(p, place) != NO_TILE ? STATES : OTHERS;
  bool read = place->role == TILE_INPUT || place->role == TILE_PARAM || place->role == TILE_STASH;
  return read ? TOKENS : OTHERS;
}

// What is dear would be computed twice: for this step and for the next.
static origin origin_of(const tile_program *p, const tile_value *v, const origin *origins) {
  enum { DEAR = 10 };  // operations
  if (v->op == TILE_ARGUMENT) return origin_of_argument(p, tile_place_of(p, v));
  if ((!tile_elementwise(v->op) && tile_arity(v->op)) || tile_op_cost(v->op) >= DEAR) return OTHERS;
  origin of = TOKENS;
  for (int k = 0; k < tile_arity(v->op); k++) {
    origin x = origins[v->args[k]];
    if (x == OTHERS) return OTHERS;
    if (x == STATES) of = STATES;
  }
  return of;
}

static bool is_sum(tile_op op) { return op == TILE_SUM || op == TILE_DOT; }

bool *tile_opening_sums(arena *a, const tile_program *p) {
  int count = p->values.count;
  bool *opening = ARENA_ARRAY(a, bool, count), *updates = ARENA_ARRAY(a, bool, count);
  origin *origins = ARENA_ARRAY(a, origin, count);
  for (int i = 0; i < count; i++) origins[i] = origin_of(p, &p->values.items[i], origins);
  vec_each(const tile_result, r, p->results)
    if (r->place.role == TILE_NEXT_STATE) updates[r->value] = true;
  for (int i = count - 1; i >= 0; i--) {
    const tile_value *v = &p->values.items[i];
    if (!updates[i]) continue;
    for (int k = 0; k < tile_arity(v->op); k++) {
      updates[v->args[k]] = true;
      opening[i] |= is_sum(v->op) && origins[v->args[k]] == STATES;
    }
    for (int k = 0; k < tile_arity(v->op); k++) opening[i] &= origins[v->args[k]] != OTHERS;
  }
  return opening;
}

// Writes the opening sums that have axis `lane`, in order. Returns their number.
static int sums_with_axis(arena *a, const tile_program *p, int lane, tile_id *sums) {
  const bool *opening = tile_opening_sums(a, p);
  int count = 0;
  for (int i = 0; i < p->values.count; i++)
    if (opening[i] && axis_in(p->values.items[i].axes, lane)) sums[count++] = i;
  return count;
}

bool tile_opens(arena *a, const tile_program *p, int lane) {
  return sums_with_axis(a, p, lane, ARENA_ARRAY(a, tile_id, p->values.count)) > 0;
}

// The program that is being written: of this step and, of some values, of the next one.
typedef struct openings {
  const tile_program *from;
  tile_program *to;
  tile_id *image, *next;
} openings;

static tile_id argument_of_next(openings *o, const tile_value *v) {
  tile_place place = *tile_place_of(o->from, v);
  if (place.role == TILE_STATE) return o->image[next_of_state(o->from, &place)];
  if (!place.time) return tile_append_exact(o->to, *v);
  place.ahead = true;
  int known = tile_find_argument(o->to, &place);
  if (known < 0) return tile_argument(o->to, place);
  return tile_append_exact(o->to, (tile_value){.op = TILE_ARGUMENT, .index = known});
}

static tile_id value_of_next(openings *o, tile_id id) {
  const tile_value *v = &o->from->values.items[id];
  if (o->next[id] != NO_TILE) return o->next[id];
  tile_id next;
  if (v->op == TILE_ARGUMENT) {
    next = argument_of_next(o, v);
  } else {
    tile_value x = *v;
    for (int k = 0; k < tile_arity(v->op); k++) x.args[k] = value_of_next(o, v->args[k]);
    next = tile_append_exact(o->to, x);
  }
  return o->next[id] = next;
}

static tile_program *sums_before_first_step(arena *a, const tile_program *p, const tile_id *sums,
                                            int count, int first) {
  tile_program *kept = tile_program_like(a, p->name, p);
  for (int i = 0; i < p->values.count; i++) tile_append_exact(kept, p->values.items[i]);
  for (int i = 0; i < count; i++) {
    tile_result result = {tile_stash_place(p, sums[i], TILE_KEEP, first + i), sums[i]};
    vec_push(a, &kept->results, result);
  }
  return tile_restrict(a, kept, ~0u);
}

tile_program *tile_open_ahead(arena *a, const tile_program *p, int lane, int first,
                              tile_program **before) {
  int values = p->values.count;
  tile_id *sums = ARENA_ARRAY(a, tile_id, values);
  int count = sums_with_axis(a, p, lane, sums);
  if (!count) return NULL;
  openings o = {.from = p,
                .to = tile_program_like(a, p->name, p),
                .image = ARENA_ARRAY(a, tile_id, values),
                .next = ARENA_ARRAY(a, tile_id, values)};
  for (int i = 0, n = 0; i < values; i++) {
    bool given = n < count && sums[n] == i;
    o.next[i] = NO_TILE;
    o.image[i] = given ? tile_argument(o.to, tile_stash_place(p, i, TILE_STASH, first + n))
                       : tile_append_exact(o.to, tile_with_images(p->values.items[i], o.image));
    n += given;
  }
  tile_copy_results(o.to, p, o.image);
  for (int n = 0; n < count; n++) {
    tile_result result = {tile_stash_place(p, sums[n], TILE_KEEP, first + n),
                          value_of_next(&o, sums[n])};
    vec_push(a, &o.to->results, result);
  }
  *before = sums_before_first_step(a, p, sums, count, first);
  return tile_restrict(a, o.to, ~0u);
}
