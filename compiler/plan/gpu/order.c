// GPU: the order of nests in which the fewest bytes of shared memory are alive at one time.
//
//   dot %10, dot %20, points d.q (of %10), points d.k (of %20)   ->   dot %10, points d.q, dot %20, points d.k
//
// Shared memory is the scarcest resource of a thread block. An order is made depth first: before each nest that no other nest
// reads, the nests that it needs. Several orders are drawn, always with the same seed, and the best is kept. Nests that write
// or read the same memory keep their order.
#include <string.h>

#include "compiler/plan/planner.h"
#include "runtime/shared/gpu_costs.h"

enum { DRAWS = 200 };

// A nest that reads or writes a resource.
typedef struct access {
  int nest;
  bool reads, writes;
} access;

// What nests read and write: a buffer, a variable of the function, a state.
typedef struct resource {
  VEC(access) accesses;  // by nest
  bool at_end;           // read after all nests
  int64_t numbers;       // elements of shared memory while it is alive; 0: its memory is taken anyway
} resource;

typedef struct ordering {
  planner *q;
  int first, count;     // nests of the body
  resource *resources;  // buffers, then values, then carried values
  int resource_count;
  bool *before;    // by nest, and by nest that must come before it
  int *followers;  // the nests after each nest, list by list
  int *first_follower;
  int *needs;  // the nests before each nest, in the order of the current draw
  int *first_need, *end_need;
  int *order, *best;  // nests
  int *places;        // the nests in the drawn order
  int *position;      // by nest: its position in an order
  int64_t *change;    // by position: the change of the elements alive
  bool *done;
  int filled;
  uint64_t seed;
} ordering;

enum { AT_END = -1 };  // stands for a nest after all others

// Accesses are noted nest by nest, so an access of the same nest is the last one.
static access *access_of(ordering *o, int nest, int what) {
  resource *r = &o->resources[what];
  bool noted = r->accesses.count && r->accesses.items[r->accesses.count - 1].nest == nest;
  if (!noted) vec_push(o->q->a, &r->accesses, (access){.nest = nest});
  return &r->accesses.items[r->accesses.count - 1];
}

static void note_read(ordering *o, int nest, int what) {
  if (nest == AT_END)
    o->resources[what].at_end = true;
  else
    access_of(o, nest, what)->reads = true;
}

static int of_buffer(const ordering *o, int buffer) {
  const plan *p = o->q->p;
  int carried = p->buffers.items[buffer].carried;
  return carried < 0 ? buffer : p->buffers.count + o->q->program->values.count + carried;
}

// Notes the resources that a nest reads for a value, through values that are computed at their uses.
static void note_value(ordering *o, tile_id id, int nest) {
  planner *q = o->q;
  const tile_value *v = value(q, id);
  const plan_value *pv = &q->p->values[id];
  if (v->op == TILE_ARGUMENT) {
    for (int c = 0; c < q->p->carried_count; c++)
      if (q->p->carried[c].argument == tile_argument_number(v))
        note_read(o, nest, q->p->buffers.count + q->program->values.count + c);
  }
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++) note_value(o, v->args[k], nest);
  } else if (pv->buffer >= 0) {
    note_read(o, nest, of_buffer(o, pv->buffer));
  } else if (nest == AT_END || pv->nest != o->first + nest) {
    note_read(o, nest, q->p->buffers.count + id);
  }
}

static void note_nest(ordering *o, int index) {
  planner *q = o->q;
  const plan *p = q->p;
  const plan_nest *nest = &p->nests.items[o->first + index];
  for (int i = 0; i < nest->values.count; i++) {
    tile_id id = nest->values.items[i];
    for (int k = 0; k < tile_arity(value(q, id)->op); k++) note_value(o, value(q, id)->args[k], index);
  }
  for (int i = 0; i < nest->results.count; i++) note_value(o, q->program->results.items[nest->results.items[i]].value, index);
  if (nest->kind == NEST_PACK) note_value(o, nest->packed, index);
  if (nest->kind == NEST_DOT || nest->kind == NEST_SOLVE) {
    if (nest->dot.pack_a >= 0) note_read(o, index, nest->dot.pack_a);
    if (nest->dot.pack_b >= 0) note_read(o, index, nest->dot.pack_b);
  }
  for (int i = 0; i < nest->values.count; i++) {
    const plan_value *pv = &p->values[nest->values.items[i]];
    tile_id into = pv->into;
    int buffer = into != NO_TILE ? p->values[into].buffer : pv->buffer;
    int what = buffer >= 0 ? of_buffer(o, buffer) : p->buffers.count + nest->values.items[i];
    access_of(o, index, what)->writes = true;
  }
  if (nest->kind == NEST_PACK && nest->pack >= 0) access_of(o, index, nest->pack)->writes = true;
}

static bool *is_before(const ordering *o, int a, int b) { return &o->before[(size_t)b * (size_t)o->count + (size_t)a]; }

// A nest that writes a resource keeps its order to all other nests that use the resource.
static void find_order(ordering *o) {
  for (int r = 0; r < o->resource_count; r++) {
    const resource *what = &o->resources[r];
    for (int i = 0; i < what->accesses.count; i++) {
      const access *x = &what->accesses.items[i];
      for (int k = i + 1; k < what->accesses.count; k++) {
        const access *y = &what->accesses.items[k];
        if (x->writes || y->writes) *is_before(o, x->nest, y->nest) = true;
      }
    }
  }
}

// Marks in `done` the nests that must come before this nest, directly or through others.
static void mark_ancestors(ordering *o, int nest) {
  for (int n = 0; n < o->count; n++) {
    if (o->done[n] || !*is_before(o, n, nest)) continue;
    o->done[n] = true;
    mark_ancestors(o, n);
  }
}

// The product in whose accumulator the product of this nest may be added, perhaps after a factor; NO_TILE.
static tile_id added_to(const ordering *o, const plan_nest *nest) {
  const planner *q = o->q;
  if (nest->kind != NEST_DOT) return NO_TILE;
  tile_id made = nest->values.items[0], sum = q->p->values[made].into;
  if (sum == NO_TILE || q->p->values[sum].dot != made || value(q, sum)->op == TILE_ACCUMULATE) return NO_TILE;
  tile_id x = value(q, sum)->args[value(q, sum)->args[0] == made];
  if (q->p->values[x].dot != NO_TILE) x = q->p->values[x].dot;
  for (int k = 0; value(q, x)->op == TILE_MUL && k < 2; k++)
    if (value(q, value(q, x)->args[k])->op == TILE_DOT) x = value(q, x)->args[k];
  return value(q, x)->op == TILE_DOT && plan_is_blocked_dot(q, x) ? x : NO_TILE;
}

static bool is_read_by(const resource *what, int nest) {
  for (int i = 0; i < what->accesses.count; i++)
    if (what->accesses.items[i].nest == nest) return what->accesses.items[i].reads;
  return false;
}

// Two such products will be fused (fuse.c). A state that the first reads is not overwritten before the second.
static void keep_pair(ordering *o, int first, int second) {
  int states = o->q->p->buffers.count + o->q->program->values.count;
  bool marked = false;
  for (int r = states; r < o->resource_count; r++) {
    const resource *state = &o->resources[r];
    if (!is_read_by(state, first)) continue;
    if (!marked) memset(o->done, 0, (size_t)o->count);
    if (!marked) mark_ancestors(o, second);
    marked = true;
    for (int i = 0; i < state->accesses.count; i++) {
      int w = state->accesses.items[i].nest;
      if (w == first || w == second || !state->accesses.items[i].writes || o->done[w]) continue;
      *is_before(o, second, w) = true;
    }
  }
}

static void keep_pairs(ordering *o) {
  for (int n = 0; n < o->count; n++) {
    tile_id x = added_to(o, &o->q->p->nests.items[o->first + n]);
    int first = x == NO_TILE ? -1 : o->q->p->values[x].nest - o->first;
    if (first >= 0 && first < o->count) keep_pair(o, first, n);
  }
}

// ---- what is alive ----

static int64_t most_alive(ordering *o, const int *order) {
  int64_t most = 0, alive = 0;
  memset(o->change, 0, ((size_t)o->count + 1) * sizeof *o->change);
  for (int i = 0; i < o->count; i++) o->position[order[i]] = i;
  for (int r = 0; r < o->q->p->buffers.count; r++) {
    const resource *what = &o->resources[r];
    int first = o->count, last = -1;
    for (int u = 0; what->numbers && u < what->accesses.count; u++) {
      int at = o->position[what->accesses.items[u].nest];
      if (at < first) first = at;
      if (at > last) last = at;
    }
    if (last < 0) continue;
    if (what->at_end) last = o->count - 1;
    o->change[first] += what->numbers;
    o->change[last + 1] -= what->numbers;
  }
  for (int i = 0; i < o->count; i++) {
    alive += o->change[i];
    if (alive > most) most = alive;
  }
  return most;
}

// ---- one order ----

static uint32_t draw(ordering *o) {
  o->seed = o->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(o->seed >> 33);
}

static void shuffle(ordering *o) {
  for (int i = o->count - 1; i > 0; i--) {
    int k = (int)(draw(o) % (uint32_t)(i + 1)), x = o->places[i];
    o->places[i] = o->places[k];
    o->places[k] = x;
  }
}

// Lists the nests before each nest in the drawn order.
static void line_up_needs(ordering *o) {
  memcpy(o->end_need, o->first_need, (size_t)o->count * sizeof *o->end_need);
  for (int i = 0; i < o->count; i++) {
    int nest = o->places[i];
    for (int f = o->first_follower[nest]; f < o->first_follower[nest + 1]; f++) o->needs[o->end_need[o->followers[f]]++] = nest;
  }
}

static void visit(ordering *o, int nest) {
  if (o->done[nest]) return;
  o->done[nest] = true;
  for (int n = o->first_need[nest]; n < o->end_need[nest]; n++) visit(o, o->needs[n]);
  o->order[o->filled++] = nest;
}

static bool is_last(const ordering *o, int nest) { return o->first_follower[nest] == o->first_follower[nest + 1]; }

static void go_through(ordering *o) {
  o->filled = 0;
  memset(o->done, 0, (size_t)o->count);
  line_up_needs(o);
  for (int i = 0; i < o->count; i++)
    if (is_last(o, o->places[i])) visit(o, o->places[i]);
}

static int count_edges(const ordering *o) {
  int edges = 0;
  for (int a = 0; a < o->count; a++)
    for (int b = 0; b < o->count; b++) edges += *is_before(o, a, b);
  return edges;
}

static void list_needs(ordering *o) {
  int needs = 0, followers = 0;
  o->first_need = ARENA_ARRAY(o->q->a, int, o->count);
  o->end_need = ARENA_ARRAY(o->q->a, int, o->count);
  o->first_follower = ARENA_ARRAY(o->q->a, int, o->count + 1);
  o->needs = ARENA_ARRAY(o->q->a, int, count_edges(o) + 1);
  o->followers = ARENA_ARRAY(o->q->a, int, count_edges(o) + 1);
  for (int n = 0; n < o->count; n++) {
    o->first_need[n] = needs;
    o->first_follower[n] = followers;
    for (int other = 0; other < o->count; other++) {
      needs += *is_before(o, other, n);
      if (*is_before(o, n, other)) o->followers[followers++] = other;
    }
  }
  o->first_follower[o->count] = followers;
}

static bool is_order(const ordering *o, const int *order) {
  for (int i = 0; i < o->count; i++)
    for (int k = i + 1; k < o->count; k++)
      if (*is_before(o, order[k], order[i])) return false;
  return true;
}

// ---- the plan in that order ----

static void put_in_order(ordering *o) {
  plan *p = o->q->p;
  plan_nest *sorted = ARENA_ARRAY(o->q->a, plan_nest, o->count);
  int *position = ARENA_ARRAY(o->q->a, int, p->nests.count);
  for (int n = 0; n < p->nests.count; n++) position[n] = n;
  for (int i = 0; i < o->count; i++) {
    sorted[i] = p->nests.items[o->first + o->best[i]];
    position[o->first + o->best[i]] = o->first + i;
  }
  memcpy(&p->nests.items[o->first], sorted, (size_t)o->count * sizeof *sorted);
  for (int id = 0; id < o->q->program->values.count; id++) {
    plan_value *v = &p->values[id];
    if (v->nest >= 0) v->nest = position[v->nest];
    if (v->nest >= 0) v->start = position[v->start];
  }
}

static void open_ordering(ordering *o) {
  planner *q = o->q;
  plan *p = q->p;
  while (o->first < p->nests.count && p->nests.items[o->first].region < REGION_BODY) o->first++;
  while (o->first + o->count < p->nests.count && p->nests.items[o->first + o->count].region == REGION_BODY) o->count++;
  o->resource_count = p->buffers.count + q->program->values.count + p->carried_count;
  size_t nests = (size_t)o->count;
  o->resources = ARENA_ARRAY(q->a, resource, o->resource_count + 1);
  o->before = ARENA_ARRAY(q->a, bool, nests *nests + 1);
  o->order = ARENA_ARRAY(q->a, int, o->count + 1);
  o->best = ARENA_ARRAY(q->a, int, o->count + 1);
  o->places = ARENA_ARRAY(q->a, int, o->count + 1);
  o->done = ARENA_ARRAY(q->a, bool, o->count + 1);
  o->position = ARENA_ARRAY(q->a, int, o->count + 1);
  o->change = ARENA_ARRAY(q->a, int64_t, o->count + 1);
  for (int i = 0; i < p->buffers.count; i++) {
    const plan_buffer *b = &p->buffers.items[i];
    if (b->carried < 0 && !b->persistent && !b->numbers.sizes) o->resources[i].numbers = b->numbers.factor;
  }
  for (int i = 0; i < q->program->results.count; i++) {
    const tile_result *r = &q->program->results.items[i];
    if (plan_is_carried_role(r->place.role)) note_value(o, r->value, AT_END);
  }
}

void plan_order_nests(planner *q) {
  ordering o = {.q = q, .seed = 1};
  open_ordering(&o);
  if (o.count < 2) return;
  for (int i = 0; i < o.count; i++) note_nest(&o, i);
  find_order(&o);
  keep_pairs(&o);
  list_needs(&o);
  for (int i = 0; i < o.count; i++) o.best[i] = o.places[i] = i;
  if (!is_order(&o, o.best)) {
    go_through(&o);
    memcpy(o.best, o.order, (size_t)o.count * sizeof *o.best);
  }
  int64_t least = most_alive(&o, o.best);
  for (int n = 0; n < DRAWS; n++) {
    shuffle(&o);
    go_through(&o);
    int64_t alive = most_alive(&o, o.order);
    if (alive >= least) continue;
    least = alive;
    memcpy(o.best, o.order, (size_t)o.count * sizeof *o.best);
  }
  put_in_order(&o);
}

// ---- values that join nests ----

int plan_earliest_nest(const planner *q, tile_id id) {
  const plan_value *pv = &q->p->values[id];
  int64_t numbers = 1;
  if (pv->region != REGION_BODY) return 0;
  for (int axis = 0; axis < q->program->axes.count; axis++) {
    if (axis_in(pv->tile, axis)) numbers *= plan_axis_size(q->m, q->program, axis);
  }
  return numbers <= GPU_COST_LATE_NUMBERS ? 0 : q->p->nests.count - GPU_COST_LATE_NESTS;
}
