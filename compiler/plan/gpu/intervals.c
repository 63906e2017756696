// GPU: nests that touch no memory of each other go side by side, between the same two barriers.
//
//   prefix %20 of %13; barrier; points %21 of %20; barrier; prefix %31 of %13; barrier; points %32 of %31
//   ->   prefix %20, prefix %31; barrier; points %21, points %32      an interval, then another
//
// A block pays for every barrier, and nests of few points leave threads without work that other
// nests could have. A nest therefore moves ahead to nests that need nothing of it and give nothing
// to it. What it makes is alive for longer: it stays where no more shared memory would be alive
// than in the order that takes least. A buffer that is read for the last time lives until the
// barrier, so that no nest beside the reader takes its place.
#include <string.h>

#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/planner.h"

typedef struct memory_use {
  int nest;
  bool writes;
} memory_use;

typedef VEC(memory_use) memory_uses;

typedef struct gathering {
  planner *q;
  int first, count;  // nests of the body
  // by nest, and by nest that must come before it; of these, behind a barrier
  bool *before, *waits;
  memory_uses *users;     // by memory: the nests that read or write it
  int64_t *numbers;       // by buffer: of shared memory, while it is alive; 0: it does not count
  bool *at_end;           // by buffer: it is read after all nests
  int *order, *interval;  // nests in their new order, and the number of the interval of each
  bool *placed;           // by nest
  int filled, intervals;
  int64_t most;  // numbers alive in the order that was
  int *trial_order, *trial_interval;
  int *position, *end_of;  // of the trial: the place of each nest, the last place of each interval
  int64_t *change;
} gathering;

static const plan_nest *nest_of(const gathering *g, int n) {
  return &g->q->p->nests.items[g->first + n];
}

static bool *pair(const gathering *g, bool *of, int earlier, int later) {
  return &of[(size_t)later * (size_t)g->count + (size_t)earlier];
}

// ---- what must come before what ----

// Marks nests of the body that make what is read for a value without memory: variables, operands in
// registers.
static void mark_makers(gathering *g, tile_id id, int reader) {
  const planner *q = g->q;
  const tile_value *v = value(q, id);
  if (plan_at_hand(q->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++) mark_makers(g, v->args[k], reader);
    return;
  }
  int maker = q->p->values[id].nest - g->first, start = q->p->values[id].start - g->first;
  if (maker >= 0 && maker < reader) *pair(g, g->before, maker, reader) = true;
  if (start >= 0 && start < reader) *pair(g, g->before, start, reader) = true;
}

static void mark_operand_makers(gathering *g, tile_id id, int reader) {
  const tile_value *v = value(g->q, id);
  for (int k = 0; k < tile_arity(v->op); k++) mark_makers(g, v->args[k], reader);
}

static void find_makers(gathering *g, int n) {
  const plan_nest *nest = nest_of(g, n);
  for (int i = 0; i < nest->values.count; i++) mark_operand_makers(g, nest->values.items[i], n);
  if (nest->two) mark_operand_makers(g, nest->other, n);
  if (nest->two && nest->scaled != NO_TILE) mark_makers(g, nest->scaled, n);
  if (nest->kind == NEST_PACK) mark_makers(g, nest->packed, n);
  for (int i = 0; i < nest->results.count; i++)
    mark_makers(g, g->q->program->results.items[nest->results.items[i]].value, n);
}

static bool is_mine(const gathering *g, int buffer) {
  const plan_buffer *b = &g->q->p->buffers.items[buffer];
  return b->carried < 0 && !b->persistent && !b->kept && !b->numbers.sizes;
}

// A nest stays behind the nests that used the same memory, with a barrier between the two, where
// one of them writes it.
static void wait_for_users(gathering *g, int n, int memory, bool writes) {
  vec_each(const memory_use, earlier, g->users[memory]) {
    if (writes || earlier->writes)
      *pair(g, g->before, earlier->nest, n) = *pair(g, g->waits, earlier->nest, n) = true;
  }
  vec_push(g->q->a, &g->users[memory], ((memory_use){n, writes}));
}

static void find_order(gathering *g) {
  const plan *p = g->q->p;
  int memories = plan_memory_count(p);
  bool *reads = ARENA_ARRAY(g->q->a, bool, memories + 1);
  bool *writes = ARENA_ARRAY(g->q->a, bool, memories + 1);
  for (int n = 0; n < g->count; n++) {
    find_makers(g, n);
    plan_note_memory(p, nest_of(g, n), reads, writes);
    for (int m = 0; m < memories; m++) {
      if (reads[m] || writes[m]) wait_for_users(g, n, m, writes[m]);
      reads[m] = writes[m] = false;
    }
  }
}

// ---- what is alive ----

static void open_numbers(gathering *g) {
  planner *q = g->q;
  plan *p = q->p;
  for (int b = 0; b < p->buffers.count; b++)
    g->numbers[b] = is_mine(g, b) ? plan_words(&p->buffers.items[b]).factor : 0;
  vec_each(const tile_result, r, q->program->results) {
    int copied = plan_is_carried_role(r->place.role) ? plan_copied_buffer(p, r->value) : -1;
    if (copied >= 0) g->at_end[copied] = true;
  }
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].staging >= 0) g->at_end[p->carried[c].staging] = true;
}

// The most numbers alive at a time, where a buffer lives to the end of an interval.
static int64_t most_alive(const gathering *g, const int *order, const int *interval) {
  const plan *p = g->q->p;
  int64_t alive = 0, most = 0;
  memset(g->change, 0, ((size_t)g->count + 1) * sizeof *g->change);
  for (int i = 0; i < g->count; i++) g->end_of[interval[i]] = i, g->position[order[i]] = i;
  for (int b = 0; b < p->buffers.count; b++) {
    int first = g->count, last = -1;
    for (int u = 0; g->numbers[b] && u < g->users[b].count; u++) {
      int i = g->position[g->users[b].items[u].nest], end = g->end_of[interval[i]];
      if (first > i) first = i;
      if (last < end) last = end;
    }
    if (last < 0) continue;
    if (g->at_end[b]) last = g->count - 1;
    g->change[first] += g->numbers[b];
    g->change[last + 1] -= g->numbers[b];
  }
  for (int i = 0; i < g->count; i++) {
    alive += g->change[i];
    if (alive > most) most = alive;
  }
  return most;
}

// With the nest next in the current interval, and then those that are left as they are.
static bool interval_has_room(const gathering *g, int nest) {
  int filled = g->filled, intervals = g->intervals;
  memcpy(g->trial_order, g->order, (size_t)filled * sizeof *g->order);
  memcpy(g->trial_interval, g->interval, (size_t)filled * sizeof *g->interval);
  g->trial_order[filled] = nest, g->trial_interval[filled++] = intervals - 1;
  for (int n = 0; n < g->count; n++) {
    if (g->placed[n] || n == nest) continue;
    g->trial_order[filled] = n, g->trial_interval[filled++] = intervals++;
  }
  return most_alive(g, g->trial_order, g->trial_interval) <= g->most;
}

// ---- intervals ----

// All nests that it needs have their place, and none beside which it would wait.
static bool may_join(const gathering *g, int nest) {
  for (int n = 0; n < g->count; n++)
    if (!g->placed[n] && *pair(g, g->before, n, nest)) return false;
  for (int i = g->filled - 1; i >= 0 && g->interval[i] == g->intervals - 1; i--)
    if (*pair(g, g->waits, g->order[i], nest)) return false;
  return interval_has_room(g, nest);
}

// Do warps share rows of the nest's product? Their sums are added up behind a barrier within the
// nest.
static bool has_row_sums(const gathering *g, int n) {
  const plan_nest *nest = nest_of(g, n);
  for (int i = 0; i < nest->values.count; i++)
    if (g->q->p->values[nest->values.items[i]].partial_sums >= 0) return true;
  return false;
}

// Behind the nests of the interval, but before those with row sums. A nest behind these would begin
// at their barrier, beside the few threads that add up.
static int place_of(const gathering *g, int nest) {
  int place = g->filled;
  for (int i = g->filled - 1; i >= 0 && g->interval[i] == g->intervals - 1; i--) {
    if (*pair(g, g->before, g->order[i], nest)) break;
    if (has_row_sums(g, g->order[i])) place = i;
  }
  return place;
}

static void insert_nest(gathering *g, int nest) {
  int place = place_of(g, nest);
  memmove(&g->order[place + 1], &g->order[place], (size_t)(g->filled - place) * sizeof *g->order);
  g->order[place] = nest;
  g->interval[g->filled++] = g->intervals - 1;
  g->placed[nest] = true;
}

static void gather_intervals(gathering *g) {
  for (int n = 0; n < g->count; n++) {
    if (g->placed[n]) continue;
    g->intervals++;
    insert_nest(g, n);
    for (int other = n + 1; other < g->count; other++)
      if (!g->placed[other] && may_join(g, other)) insert_nest(g, other);
  }
}

static void put_in_order(const gathering *g) {
  plan *p = g->q->p;
  plan_nest *sorted = ARENA_ARRAY(g->q->a, plan_nest, g->count);
  int *position = ARENA_ARRAY(g->q->a, int, p->nests.count);
  for (int n = 0; n < p->nests.count; n++) position[n] = n;
  for (int i = 0; i < g->count; i++) {
    sorted[i] = *nest_of(g, g->order[i]);
    sorted[i].beside = i > 0 && g->interval[i] == g->interval[i - 1];
    position[g->first + g->order[i]] = g->first + i;
  }
  memcpy(&p->nests.items[g->first], sorted, (size_t)g->count * sizeof *sorted);
  for (int id = 0; id < p->program->values.count; id++) {
    plan_value *v = &p->values[id];
    if (v->nest >= 0) v->nest = position[v->nest];
    if (v->nest >= 0) v->start = position[v->start];
  }
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].accumulator >= 0)
      p->carried[c].accumulator = position[p->carried[c].accumulator];
}

static void open_gathering(gathering *g) {
  const plan *p = g->q->p;
  arena *a = g->q->a;
  size_t nests = (size_t)g->count, buffers = (size_t)p->buffers.count;
  g->before = ARENA_ARRAY(a, bool, nests *nests);
  g->waits = ARENA_ARRAY(a, bool, nests *nests);
  g->users = ARENA_ARRAY(a, memory_uses, plan_memory_count(p) + 1);
  g->position = ARENA_ARRAY(a, int, nests);
  g->numbers = ARENA_ARRAY(a, int64_t, buffers + 1);
  g->at_end = ARENA_ARRAY(a, bool, buffers + 1);
  g->order = ARENA_ARRAY(a, int, nests);
  g->interval = ARENA_ARRAY(a, int, nests);
  g->placed = ARENA_ARRAY(a, bool, nests);
  g->trial_order = ARENA_ARRAY(a, int, nests);
  g->trial_interval = ARENA_ARRAY(a, int, nests);
  g->end_of = ARENA_ARRAY(a, int, nests);
  g->change = ARENA_ARRAY(a, int64_t, nests + 1);
}

void plan_gather_nests(planner *q) {
  const plan *p = q->p;
  gathering g = {.q = q};
  while (g.first < p->nests.count && p->nests.items[g.first].region < REGION_BODY) g.first++;
  while (g.first + g.count < p->nests.count &&
         p->nests.items[g.first + g.count].region == REGION_BODY)
    g.count++;
  if (g.count < 2) return;
  open_gathering(&g);
  find_order(&g);
  open_numbers(&g);
  for (int n = 0; n < g.count; n++) g.trial_order[n] = g.trial_interval[n] = n;
  g.most = most_alive(&g, g.trial_order, g.trial_interval);
  gather_intervals(&g);
  put_in_order(&g);
}

// ---- lives and barriers ----

// A buffer that is read for the last time lives until the barrier behind the nests that go side by
// side.
static void prolong_lives(plan *p) {
  for (int first = 0, next; first < p->nests.count; first = next) {
    for (next = first + 1; next < p->nests.count && p->nests.items[next].beside;) next++;
    for (int b = 0; b < p->buffers.count; b++)
      if (p->buffers.items[b].last >= first && p->buffers.items[b].last < next)
        p->buffers.items[b].last = next - 1;
  }
}

// Does the nest begin without a barrier? It is asked of one nest after the other.
static bool needs_none(arena *a, memory_since *since, int n) {
  const plan_nest *nests = since->p->nests.items;
  if (n && nests[n].region != nests[n - 1].region) plan_forget_accesses(since, false);
  return !plan_waits(a, since, &nests[n]);
}

// Some nests need no barrier though they could not move; others need one after all, since they take
// over memory.
void plan_find_barriers(planner *q) {
  prolong_lives(q->p);
  memory_since *since = plan_memory_since(q->a, q->p);
  for (int n = 0; n < q->p->nests.count; n++)
    q->p->nests.items[n].beside = needs_none(q->a, since, n);
}

int plan_lacks_barrier(arena *a, const plan *p) {
  memory_since *since = plan_memory_since(a, p);
  for (int n = 0; n < p->nests.count; n++)
    if (!needs_none(a, since, n) && p->nests.items[n].beside) return n;
  return -1;
}
