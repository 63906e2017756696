// The ranks of each row of the grid, event by event, until they have the gradients of their shards.
#include <stdlib.h>
#include <string.h>

#include "runtime/predict/job.h"

// ---- messages on their way ----------------------------------------------------------------------

typedef struct arrival {
  int64_t tag;
  double time;
} arrival;

// From one rank to one of those beside it, in the order in which they were sent.
typedef struct queue {
  arrival *list;
  int64_t first, count;
  size_t room;
} queue;

static bool queue_put(queue *q, arrival a) {
  size_t end = (size_t)(q->first + q->count);
  if (q->first && end == q->room) {
    memmove(q->list, q->list + q->first, (size_t)q->count * sizeof *q->list);
    q->first = 0, end = (size_t)q->count;
  }
  if (!rec_list_grow(&q->list, &q->room, end, 1, sizeof *q->list)) return false;
  q->list[end] = a;
  q->count++;
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
  rank_time at;
  turns turns;
  rank_events events;  // that are left of its turn
  int64_t run;         // events
  queue up, down;      // messages to the rank behind, and to the one before
} row_rank;

typedef struct row {
  const rank_schedule *schedule;
  const network *n;
  row_rank *ranks;
  int64_t count, first;  // first: the number of its first rank in the job
} row;

static queue *queue_of(row *r, int64_t from, int beside) {
  return beside > 0 ? &r->ranks[from].up : &r->ranks[from].down;
}

static bool send_row_message(row *r, int64_t number, const rank_event *e) {
  row_rank *rank = &r->ranks[number];
  const network_link *link =
      network_between(r->n, r->first + number, r->first + number + e->beside);
  double time = network_arrival(link, rank->at.now, e->bytes, &rank->at.link_free);
  return queue_put(queue_of(r, number, e->beside), (arrival){e->tag, time});
}

// The rank has an event to run: of its turn, or of a later one.
static bool has_event(const row *r, row_rank *rank) {
  turn next;
  while (rank->events.first == rank->events.end && turns_next(&rank->turns, &next))
    rank->events = schedule_events(r->schedule, next);
  return rank->events.first < rank->events.end;
}

// Runs a rank until it waits for a message that has not been sent. False: no memory.
static bool advance_rank(row *r, int64_t number) {
  row_rank *rank = &r->ranks[number];
  for (; has_event(r, rank); rank->events.first++, rank->run++) {
    const rank_event *e = &r->schedule->events[rank->events.first];
    int64_t beside = number + e->beside;
    double time;
    if (!schedule_has(e, number, r->count)) continue;
    if (e->kind == EVENT_COMPUTE) {
      rank->at.now += e->seconds;
    } else if (e->kind == EVENT_SEND) {
      if (!send_row_message(r, number, e)) return false;
    } else {
      if (!queue_take(queue_of(r, beside, -e->beside), e->tag, &time)) return true;
      if (time > rank->at.now) rank->at.now = time;
    }
  }
  return true;
}

static void begin_row_ranks(row *r) {
  for (int64_t i = 0; i < r->count; i++)
    r->ranks[i].turns = schedule_turns(r->schedule, i, r->count);
}

static int64_t events_run(const row *r) {
  int64_t run = 0;
  for (int64_t i = 0; i < r->count; i++) run += r->ranks[i].run;
  return run;
}

// Forward goes up the row, backward down.
static rec_status run_row(row *r) {
  bool memory = true;
  begin_row_ranks(r);
  for (int64_t before = -1, run = 0; memory && run < r->count * r->schedule->count;
       run = events_run(r)) {
    if (run == before) return rec_fail(REC_ERROR_INTERNAL, "rec plan: all ranks of a row wait");
    before = run;
    for (int64_t i = 0; memory && i < r->count; i++) memory = advance_rank(r, i);
    for (int64_t i = r->count; memory && i-- > 0;) memory = advance_rank(r, i);
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

// When the ranks of row `data` have run these of its shards, if all begin at 0.
static rec_status run_shards(const predicted_program *p, const rank_grid *grid, const network *n,
                             int64_t data, leaf_range shards, rank_time *ends) {
  rank_schedule schedule;
  row r = {.schedule = &schedule, .n = n, .count = grid->time, .first = data * grid->time};
  r.ranks = calloc((size_t)r.count, sizeof *r.ranks);
  if (!r.ranks) return rec_no_memory();
  rec_status status = schedule_shards(p, grid, shards, &schedule);
  if (!status) status = run_row(&r);
  for (int64_t i = 0; !status && i < r.count; i++) ends[i] = r.ranks[i].at;
  schedule_free(&schedule);
  free_row(&r);
  return status;
}

// After some shards each further one takes as long as the one before.
static rec_status run_whole_row(const predicted_program *p, const rank_grid *grid, const network *n,
                                int64_t data, rank_time *ends) {
  enum { DIFFERENT = 10 };
  leaf_range shards = rank_grid_shards(p, grid, data);
  int count = shards.end - shards.first;
  if (grid->time == 1 || count <= DIFFERENT) return run_shards(p, grid, n, data, shards, ends);
  rank_time *before = calloc((size_t)grid->time, sizeof *before);
  if (!before) return rec_no_memory();
  leaf_range first = {shards.first, shards.first + DIFFERENT},
             fewer = {shards.first, shards.first + DIFFERENT - 1};
  rec_status status = run_shards(p, grid, n, data, first, ends);
  if (!status) status = run_shards(p, grid, n, data, fewer, before);
  for (int64_t i = 0; i < grid->time; i++) {
    double rest = (count - DIFFERENT) * (ends[i].now - before[i].now);
    ends[i].now += rest;
    ends[i].link_free += rest;
  }
  free(before);
  return status;
}

// ---- rows that do the same ----------------------------------------------------------------------

static int64_t data_rank_sequences(const predicted_program *p, const rank_grid *grid,
                                   int64_t data) {
  leaf_range shards = rank_grid_shards(p, grid, data);
  return leaves_first_sequence(&p->leaves, shards.end) -
         leaves_first_sequence(&p->leaves, shards.first);
}

static bool same_row(const predicted_program *p, const rank_grid *grid, const network *n, int64_t a,
                     int64_t b) {
  leaf_range x = rank_grid_shards(p, grid, a), y = rank_grid_shards(p, grid, b);
  return x.end - x.first == y.end - y.first &&
         data_rank_sequences(p, grid, a) == data_rank_sequences(p, grid, b) &&
         a * grid->time % n->node == b * grid->time % n->node;
}

// The ranks of a row wait for each other at once: they begin when the last of them does.
static void go_on(const rank_grid *grid, const rank_time *ends, rank_time *ranks_of_row) {
  double begin = 0;
  for (int64_t i = 0; i < grid->time; i++)
    if (ranks_of_row[i].now > begin) begin = ranks_of_row[i].now;
  for (int64_t i = 0; i < grid->time; i++)
    ranks_of_row[i] = (rank_time){begin + ends[i].now, begin + ends[i].link_free};
}

// Rows with as many shards and sequences, at the same place of a node, take the same time.
rec_status rows_run(const predicted_program *p, const rank_grid *grid, const network *n,
                    rank_time *all) {
  enum { KINDS = 64 };
  int64_t kinds[KINDS], count = 0;
  rank_time *ends = calloc((size_t)grid->time * KINDS, sizeof *ends);
  rec_status status = ends ? REC_OK : rec_no_memory();
  for (int64_t d = 0; !status && d < grid->data; d++) {
    int64_t k = 0;
    while (k < count && !same_row(p, grid, n, kinds[k], d)) k++;
    if (k == KINDS) k = count = 0;
    if (k == count) status = run_whole_row(p, grid, n, kinds[count++] = d, ends + k * grid->time);
    go_on(grid, ends + k * grid->time, all + d * grid->time);
  }
  free(ends);
  return status;
}
