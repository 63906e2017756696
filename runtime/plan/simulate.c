#include "runtime/plan/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- messages on their way ----------------------------------------------------------------------

typedef struct arrival {
  int64_t tag;
  double time;
} arrival;

// From one rank to one of those beside it, in the order in which they were sent.
typedef struct queue {
  arrival *list;
  int64_t first, count, room;
} queue;

static bool queue_put(queue *q, arrival a) {
  if (q->first && q->first + q->count == q->room) {
    memmove(q->list, q->list + q->first, (size_t)q->count * sizeof *q->list);
    q->first = 0;
  }
  if (q->count == q->room) {
    int64_t room = 2 * q->room + 16;
    arrival *list = realloc(q->list, (size_t)room * sizeof *list);
    if (!list) return false;
    q->list = list, q->room = room;
  }
  q->list[q->first + q->count++] = a;
  return true;
}

static bool queue_take(queue *q, int64_t tag, double *time) {
  for (int64_t i = q->first; i < q->first + q->count; i++) {
    if (q->list[i].tag != tag) continue;
    *time = q->list[i].time;
    memmove(q->list + q->first + 1, q->list + q->first, (size_t)(i - q->first) * sizeof *q->list);
    q->first++, q->count--;
    return true;
  }
  return false;
}

// ---- the ranks of one row -----------------------------------------------------------------------

typedef struct row_rank {
  double now, link_free;
  int64_t next;    // event
  queue up, down;  // messages to the rank behind, and to the one before
} row_rank;

typedef struct row {
  const plan_schedule *schedule;
  const network *n;
  row_rank *ranks;
  int64_t count, first;  // first: the number of its first rank in the job
} row;

static queue *queue_of(row *r, int64_t from, int beside) { return beside > 0 ? &r->ranks[from].up : &r->ranks[from].down; }

static bool send(row *r, int64_t number, const plan_event *e) {
  row_rank *rank = &r->ranks[number];
  const network_link *link = network_between(r->n, r->first + number, r->first + number + e->beside);
  double time = network_arrival(link, rank->now, e->bytes, &rank->link_free);
  return queue_put(queue_of(r, number, e->beside), (arrival){e->tag, time});
}

// Runs a rank until it waits for a message that has not been sent. False: no memory.
static bool advance(row *r, int64_t number) {
  row_rank *rank = &r->ranks[number];
  for (; rank->next < r->schedule->count; rank->next++) {
    const plan_event *e = &r->schedule->events[rank->next];
    int64_t beside = number + e->beside;
    double time;
    if (e->kind == EVENT_COMPUTE) {
      rank->now += e->seconds;
    } else if (beside < 0 || beside >= r->count) {
      continue;
    } else if (e->kind == EVENT_SEND) {
      if (!send(r, number, e)) return false;
    } else {
      if (!queue_take(queue_of(r, beside, -e->beside), e->tag, &time)) return true;
      if (time > rank->now) rank->now = time;
    }
  }
  return true;
}

static int64_t events_run(const row *r) {
  int64_t run = 0;
  for (int64_t i = 0; i < r->count; i++) run += r->ranks[i].next;
  return run;
}

// Forward goes up the row, backward down.
static rec_status run_row(row *r) {
  bool memory = true;
  for (int64_t before = -1, run = 0; memory && run < r->count * r->schedule->count; run = events_run(r)) {
    if (run == before) return rec_fail(REC_ERROR_INTERNAL, "rec plan: all ranks of a row wait");
    before = run;
    for (int64_t i = 0; memory && i < r->count; i++) memory = advance(r, i);
    for (int64_t i = r->count; memory && i-- > 0;) memory = advance(r, i);
  }
  return memory ? REC_OK : rec_no_memory();
}

static void free_row(row *r) {
  for (int64_t i = 0; r->ranks && i < r->count; i++) {
    free(r->ranks[i].up.list);
    free(r->ranks[i].down.list);
  }
  free(r->ranks);
}

// When the ranks of row `data` have run these of its shards.
static rec_status run_shards(const plan_program *p, const plan_grid *grid, const network *n, int64_t data, leaf_range shards,
                             double *ready) {
  plan_schedule schedule;
  row r = {.schedule = &schedule, .n = n, .count = grid->time, .first = data * grid->time};
  r.ranks = calloc((size_t)r.count, sizeof *r.ranks);
  if (!r.ranks) return rec_no_memory();
  rec_status status = schedule_shards(p, grid, shards, &schedule);
  if (!status) status = run_row(&r);
  for (int64_t i = 0; !status && i < r.count; i++) ready[i] = r.ranks[i].now;
  schedule_free(&schedule);
  free_row(&r);
  return status;
}

// After some shards each further one takes as long as the one before.
static rec_status simulate_row(const plan_program *p, const plan_grid *grid, const network *n, int64_t data, double *ready) {
  enum { DIFFERENT = 6 };
  leaf_range shards = plan_shards(p, grid, data);
  int count = shards.end - shards.first;
  if (grid->time == 1 || count <= DIFFERENT) return run_shards(p, grid, n, data, shards, ready);
  double *before = calloc((size_t)grid->time, sizeof *before);
  if (!before) return rec_no_memory();
  leaf_range first = {shards.first, shards.first + DIFFERENT}, fewer = {shards.first, shards.first + DIFFERENT - 1};
  rec_status status = run_shards(p, grid, n, data, first, ready);
  if (!status) status = run_shards(p, grid, n, data, fewer, before);
  for (int64_t i = 0; i < grid->time; i++) ready[i] += (count - DIFFERENT) * (ready[i] - before[i]);
  free(before);
  return status;
}

// ---- rows that do the same ----------------------------------------------------------------------

static int64_t sequences_of(const plan_program *p, const plan_grid *grid, int64_t data) {
  leaf_range shards = plan_shards(p, grid, data);
  return leaves_first_sequence(&p->leaves, shards.end) - leaves_first_sequence(&p->leaves, shards.first);
}

static bool same_row(const plan_program *p, const plan_grid *grid, const network *n, int64_t a, int64_t b) {
  leaf_range x = plan_shards(p, grid, a), y = plan_shards(p, grid, b);
  return x.end - x.first == y.end - y.first && sequences_of(p, grid, a) == sequences_of(p, grid, b) &&
         a * grid->time % n->node == b * grid->time % n->node;
}

// Rows with as many shards and sequences, at the same place of a node, take the same time.
static rec_status simulate_rows(const plan_program *p, const plan_grid *grid, const network *n, double *ready) {
  enum { KINDS = 64 };
  int64_t kinds[KINDS], count = 0;
  rec_status status = REC_OK;
  for (int64_t d = 0; !status && d < grid->data; d++) {
    int64_t k = 0;
    while (k < count && !same_row(p, grid, n, kinds[k], d)) k++;
    if (k < count)
      memcpy(ready + d * grid->time, ready + kinds[k] * grid->time, (size_t)grid->time * sizeof *ready);
    else
      status = simulate_row(p, grid, n, d, ready + d * grid->time);
    if (k == count && count < KINDS) kinds[count++] = d;
  }
  return status;
}

// ---- all ranks ----------------------------------------------------------------------------------

// Every rank sends `bytes` to every other one, to the next one first. What a rank sends between nodes leaves at even distances, so
// the last of these messages to arrive at a rank is found by maxima over the ranks before its node, and over those behind it.
typedef struct exchange {
  const network *n;
  int64_t count, bytes;
  const double *ready;      // by rank: when it begins
  double within, between;   // seconds that a message takes to leave
  double *before, *behind;  // by rank: the latest start of the ranks up to it, and from it on, less the starts of those before
} exchange;

static int64_t node_end(const exchange *x, int64_t rank) {
  int64_t end = (rank / x->n->node + 1) * x->n->node;
  return end < x->count ? end : x->count;
}

// When message number 0 to another node would leave, if all messages of this rank went there.
static double start_of(const exchange *x, int64_t rank) {
  double neighbours = (double)(node_end(x, rank) - 1 - rank);
  return x->ready[rank] + neighbours * (x->within - x->between) - (double)rank * x->between;
}

static double larger(double a, double b) { return a > b ? a : b; }

static void find_starts(exchange *x) {
  for (int64_t i = 0; i < x->count; i++) x->before[i] = larger(start_of(x, i), i ? x->before[i - 1] : -INFINITY);
  for (int64_t i = x->count; i-- > 0;) x->behind[i] = larger(start_of(x, i), i + 1 < x->count ? x->behind[i + 1] : -INFINITY);
}

// From a rank of the same node.
static double neighbour_arrival(const exchange *x, int64_t from, int64_t to) {
  int64_t first = from / x->n->node * x->n->node, end = node_end(x, from);
  double outside = to < from ? (double)(x->count - (end - first)) * x->between : 0;
  int64_t neighbours = to > from ? to - from : end - 1 - from + to - first + 1;
  return x->ready[from] + outside + (double)neighbours * x->within + x->n->within.latency;
}

static double last_arrival(const exchange *x, int64_t to) {
  int64_t first = to / x->n->node * x->n->node, end = node_end(x, to);
  double last = x->ready[to], far = x->n->between.latency;
  if (first > 0) last = larger(last, x->before[first - 1] + (double)to * x->between + far);
  if (end < x->count) last = larger(last, x->behind[end] + (double)(to + x->count) * x->between + far);
  for (int64_t from = first; from < end; from++)
    if (from != to) last = larger(last, neighbour_arrival(x, from, to));
  return last;
}

rec_status simulate_exchange(const network *n, int64_t count, int64_t bytes, double *ready) {
  double *lists = calloc((size_t)count * 3, sizeof *lists), *all = lists + 2 * count;
  if (!lists) return rec_no_memory();
  exchange x = {n,     count,        bytes, ready, (double)bytes / n->within.bandwidth, (double)bytes / n->between.bandwidth,
                lists, lists + count};
  find_starts(&x);
  for (int64_t i = 0; i < count; i++) all[i] = last_arrival(&x, i);
  memcpy(ready, all, (size_t)count * sizeof *ready);
  free(lists);
  return REC_OK;
}

static void compute_all(int64_t count, double seconds, double *ready) {
  for (int64_t i = 0; i < count; i++) ready[i] += seconds;
}

// The sums of the leaves, the steps of the owners, the weights back to all.
static rec_status update(const plan_program *p, const plan_grid *grid, const network *n, double *ready) {
  int64_t count = grid->data * grid->time, weights = p->of.model->parameter_elements;
  double range = (double)weights / (double)count;
  int64_t bytes = (int64_t)range * p->of.n->element_size;
  rec_status status = simulate_exchange(n, count, bytes, ready);
  compute_all(count, range * (double)(count - 1) * p->times->sum, ready);
  if (!status) status = simulate_exchange(n, count, sizeof(double), ready);
  compute_all(count, range * p->times->step, ready);
  return status ? status : simulate_exchange(n, count, bytes, ready);
}

// A rank adds the gradients of its own leaves.
static double own_sums(const plan_program *p, const plan_grid *grid, int64_t data) {
  leaf_range shards = plan_shards(p, grid, data);
  int64_t own = (shards.end - shards.first) * (p->leaves.segments / grid->time);
  return own > 1 ? (double)(own - 1) * (double)p->of.model->parameter_elements * p->times->sum : 0;
}

rec_status simulate_step(const plan_program *p, const plan_grid *grid, const network *n, double *seconds) {
  int64_t count = grid->data * grid->time;
  double *ready = calloc((size_t)count, sizeof *ready);
  *seconds = 0;
  if (!ready) return rec_no_memory();
  rec_status status = simulate_rows(p, grid, n, ready);
  for (int64_t d = 0; d < grid->data; d++) compute_all(grid->time, own_sums(p, grid, d), ready + d * grid->time);
  if (!status) status = update(p, grid, n, ready);
  for (int64_t i = 0; i < count; i++)
    if (ready[i] > *seconds) *seconds = ready[i];
  free(ready);
  return status;
}

static double computing_of(const plan_program *p, const plan_grid *grid, const plan_schedule *s, int64_t data) {
  double count = (double)(grid->data * grid->time), weights = (double)p->of.model->parameter_elements;
  return schedule_seconds(s) + own_sums(p, grid, data) + weights / count * ((count - 1) * p->times->sum + p->times->step);
}

rec_status simulate_computing(const plan_program *p, const plan_grid *grid, double *busiest, double *all) {
  rec_status status = REC_OK;
  *busiest = *all = 0;
  for (int64_t d = 0; !status && d < grid->data; d++) {
    plan_schedule s;
    status = schedule_shards(p, grid, plan_shards(p, grid, d), &s);
    double seconds = status ? 0 : computing_of(p, grid, &s, d);
    if (seconds > *busiest) *busiest = seconds;
    *all += seconds * (double)grid->time;
    schedule_free(&s);
  }
  return status;
}
