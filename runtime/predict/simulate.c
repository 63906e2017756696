// A step of all ranks: what trainer_step computes and exchanges, in its order.
#include "runtime/predict/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/predict/job.h"
#include "runtime/predict/traffic.h"
#include "runtime/train/owners.h"

// The ranks of a job on their way through a step.
typedef struct job {
  const predicted_program *p;
  const rank_grid *grid;
  const network *n;
  int64_t count, size;  // of the ranks; of a number in bytes
  rank_time *ranks;
  double *begin;    // by rank: when it has begun to send
  double *arrival;  // by rank: of the message that it has sent last
  double *before;   // by rank: when it began with a segment
} job;

// ---- messages -----------------------------------------------------------------------------------

static void begin_to_send(job *j) {
  for (int64_t i = 0; i < j->count; i++) j->begin[i] = j->ranks[i].now;
}

static void send_from(job *j, int64_t from, int64_t to, int64_t bytes) {
  const network_link *link = network_between(j->n, from, to);
  j->arrival[from] = network_arrival(link, j->begin[from], bytes, &j->ranks[from].link_free);
}

static void wait_for_rank(job *j, int64_t rank, int64_t from) {
  if (j->arrival[from] > j->ranks[rank].now) j->ranks[rank].now = j->arrival[from];
}

static void simulate_gather(job *j, int64_t bytes) {
  gather_round round;
  for (int k = 0; ranks_gather_round((int)j->count, k, &round); k++) {
    begin_to_send(j);
    for (int64_t i = 0; i < j->count; i++)
      send_from(j, i, (i + j->count - round.ahead) % j->count, round.blocks * bytes);
    for (int64_t i = 0; i < j->count; i++) wait_for_rank(j, i, (i + round.ahead) % j->count);
  }
}

// ---- gradients and weights ----------------------------------------------------------------------

static owner_grid owner_place(const job *j, int64_t rank) {
  return (owner_grid){(int)j->grid->data, (int)(rank / j->grid->time), (int)j->grid->time,
                      (int)(rank % j->grid->time)};
}

static int64_t slot_numbers(const job *j, slot_range slots) {
  return piece_list_numbers(&j->p->pieces, slots, (int)j->count).count;
}

// What a rank does in a round.
typedef struct rank_round {
  int64_t partner;
  int64_t keeps, gives;  // numbers
} rank_round;

static rank_round round_of(const job *j, int64_t rank, int number) {
  owner_grid place = owner_place(j, rank);
  owner_round round = owners_round(&place, number);
  return (rank_round){round.partner * j->grid->time + rank % j->grid->time,
                      slot_numbers(j, round.keeps), slot_numbers(j, round.gives)};
}

// How much of the window that begins at number `first` there is.
static int64_t window_length(int64_t all, int64_t first, int64_t window) {
  int64_t left = all - first;
  return left < 0 ? 0 : left < window ? left : window;
}

// Many windows take as long as some that are larger.
static int64_t simulated_window(int64_t all) {
  enum { MOST = 64 };
  return all / MOST > EXCHANGE_WINDOW ? all / MOST : EXCHANGE_WINDOW;
}

// A round of gradients: all windows are sent at once, and added one after another as they arrive.
static void round_of_gradients(job *j, const rank_round *rounds) {
  int64_t most = 0;
  for (int64_t i = 0; i < j->count; i++)
    if (rounds[i].keeps > most) most = rounds[i].keeps;
  const int64_t window = simulated_window(most);
  begin_to_send(j);
  for (int64_t first = 0; first < most; first += window) {
    for (int64_t i = 0; i < j->count; i++) {
      int64_t given = window_length(rounds[i].gives, first, window);
      if (given) send_from(j, i, rounds[i].partner, given * j->size);
    }
    for (int64_t i = 0; i < j->count; i++) {
      int64_t added = window_length(rounds[i].keeps, first, window);
      if (added) wait_for_rank(j, i, rounds[i].partner);
      j->ranks[i].now += (double)added * j->p->times->sum;
    }
  }
}

// Segment after segment. After some of them each further one takes as long as the one before.
static void round_of_segments(job *j, const rank_round *rounds, int64_t segments) {
  enum { DIFFERENT = 4 };
  int64_t run = segments < DIFFERENT ? segments : DIFFERENT;
  for (int64_t k = 0; k < run; k++) {
    for (int64_t i = 0; i < j->count; i++) j->before[i] = j->ranks[i].now;
    round_of_gradients(j, rounds);
  }
  for (int64_t i = 0; i < j->count; i++) {
    double rest = (double)(segments - run) * (j->ranks[i].now - j->before[i]);
    j->ranks[i].now += rest;
    j->ranks[i].link_free += rest;
  }
}

static void round_of_weights(job *j, const rank_round *rounds) {
  begin_to_send(j);
  for (int64_t i = 0; i < j->count; i++)
    if (rounds[i].keeps) send_from(j, i, rounds[i].partner, rounds[i].keeps * j->size);
  for (int64_t i = 0; i < j->count; i++)
    if (rounds[i].gives) wait_for_rank(j, i, rounds[i].partner);
}

// The slot that a rank of a row owns.
static int64_t owned_slot(const job *j, int64_t rank) {
  owner_grid place = owner_place(j, rank);
  int first = owners_left(&place).first + place.time;
  return slot_numbers(j, (slot_range){first, first + 1});
}

// What the busiest rank of a row sends to each other one, of the slots that they own: those of the
// others, of gradients; its own, of weights.
static int64_t busiest_of_row(const job *j, int64_t first, bool weights) {
  int64_t times = j->grid->time, most = 0, least = INT64_MAX, all = 0;
  for (int64_t i = first; i < first + times; i++) {
    int64_t slot = owned_slot(j, i);
    if (slot > most) most = slot;
    if (slot < least) least = slot;
    all += slot;
  }
  return weights ? most : (all - least) / (times - 1);
}

// Ranks of a row exchange the slots that they own, `each` times.
static rec_status exchange_in_rows(job *j, int64_t each, bool weights) {
  int64_t times = j->grid->time;
  network n = *j->n;
  if (times == 1) return REC_OK;
  if (n.node > times) n.node = times;
  for (int64_t first = 0; first < j->count; first += times) {
    int64_t bytes = busiest_of_row(j, first, weights) * each * j->size;
    if (bytes == 0) continue;
    for (int64_t i = 0; i < times; i++) j->arrival[i] = j->ranks[first + i].now;
    rec_status status = simulate_exchange(&n, times, bytes, j->arrival);
    if (status) return status;
    for (int64_t i = 0; i < times; i++) j->ranks[first + i].now = j->arrival[i];
  }
  return REC_OK;
}

static rec_status exchange_gradients(job *j, rank_round *rounds) {
  const int64_t segments = j->p->leaves.segments, own = segments / j->grid->time;
  for (int number = 0; number < owners_round_count(j->grid->data); number++) {
    for (int64_t i = 0; i < j->count; i++) rounds[i] = round_of(j, i, number);
    round_of_segments(j, rounds, own);
  }
  rec_status status = exchange_in_rows(j, own, false);
  for (int64_t i = 0; i < j->count; i++)
    j->ranks[i].now += (double)((segments - 1) * owned_slot(j, i)) * j->p->times->sum;
  return status;
}

static rec_status exchange_weights(job *j, rank_round *rounds) {
  rec_status status = exchange_in_rows(j, 1, true);
  for (int number = owners_round_count(j->grid->data); number-- > 0;) {
    for (int64_t i = 0; i < j->count; i++) rounds[i] = round_of(j, i, number);
    round_of_weights(j, rounds);
  }
  return status;
}

// ---- a step -------------------------------------------------------------------------------------

static int64_t shards_of(const predicted_program *p, const rank_grid *grid, int64_t data) {
  leaf_range shards = rank_grid_shards(p, grid, data);
  return shards.end - shards.first;
}

// Seconds in which a rank adds the gradients of its shards, segment by segment.
static double own_sums(const predicted_program *p, const rank_grid *grid, int64_t data) {
  int64_t sums = (shards_of(p, grid, data) - 1) * (p->leaves.segments / grid->time);
  return (double)(sums * p->of.model->parameter_elements) * p->times->sum;
}

static void sum_own(job *j) {
  for (int64_t i = 0; i < j->count; i++)
    j->ranks[i].now += own_sums(j->p, j->grid, i / j->grid->time);
}

static void step_own(job *j) {
  for (int64_t i = 0; i < j->count; i++)
    j->ranks[i].now += (double)owned_slot(j, i) * j->p->times->step;
}

static rec_status simulate_job_step(job *j, rank_round *rounds) {
  const step_gathers sizes = step_gathers_of(j->p, j->grid);
  for (int i = 0; i < sizes.fittings; i++) simulate_gather(j, sizes.fits);
  simulate_gather(j, sizes.starts);
  rec_status status = rows_run(j->p, j->grid, j->n, j->ranks);
  sum_own(j);
  simulate_gather(j, sizes.shards);
  if (!status) status = exchange_gradients(j, rounds);
  simulate_gather(j, sizes.squares);
  simulate_gather(j, sizes.ends);
  step_own(j);
  if (!status) status = exchange_weights(j, rounds);
  for (int i = 0; i < sizes.agreements; i++) simulate_gather(j, sizes.shards);
  simulate_gather(j, sizes.going_on);
  return status;
}

static double end_of(const job *j) {
  double last = 0;
  for (int64_t i = 0; i < j->count; i++)
    if (j->ranks[i].now > last) last = j->ranks[i].now;
  return last;
}

// The second of two steps: ranks do not begin it at one time.
rec_status simulate_step(const predicted_program *p, const rank_grid *grid, const network *n,
                         double *seconds) {
  const int64_t count = grid->data * grid->time;
  job j = {.p = p, .grid = grid, .n = n, .count = count, .size = p->of.n->element_size};
  rank_round *rounds = calloc((size_t)count, sizeof *rounds);
  j.ranks = calloc((size_t)count, sizeof *j.ranks);
  j.begin = calloc((size_t)count * 3, sizeof *j.begin);
  j.arrival = j.begin + count, j.before = j.arrival + count;
  rec_status status =
      rounds && j.ranks && j.begin ? simulate_job_step(&j, rounds) : rec_no_memory();
  double first = status ? 0 : end_of(&j);
  if (!status) status = simulate_job_step(&j, rounds);
  *seconds = status ? 0 : end_of(&j) - first;
  free(rounds);
  free(j.ranks);
  free(j.begin);
  return status;
}

// ---- computing ----------------------------------------------------------------------------------

// Finishing sums: of what the rounds bring, and of the segments of a slot.
static double finishing_sums(const predicted_program *p, const rank_grid *grid) {
  double weights = (double)p->of.model->parameter_elements, all = 0,
         own = (double)(p->leaves.segments / grid->time);
  for (int64_t parts = 2; parts <= grid->data; parts *= 2) all += weights / (double)parts * own;
  return (all + (double)(p->leaves.segments - 1) * weights / (double)(grid->data * grid->time)) *
         p->times->sum;
}

// Of the rank at a place in time.
static double computing_of(const predicted_program *p, const rank_grid *grid,
                           const rank_schedule *s, int64_t data, int64_t place) {
  double share = (double)p->of.model->parameter_elements / (double)(grid->data * grid->time);
  return schedule_seconds(s, place, grid->time) + own_sums(p, grid, data) +
         finishing_sums(p, grid) + share * p->times->step;
}

// The ranks between the first place and the last compute alike.
rec_status simulate_computing(const predicted_program *p, const rank_grid *grid, double *busiest,
                              double *all) {
  rec_status status = REC_OK;
  *busiest = *all = 0;
  for (int64_t d = 0; !status && d < grid->data; d++) {
    rank_schedule s;
    status = schedule_shards(p, grid, rank_grid_shards(p, grid, d), &s);
    for (int64_t place = 0; !status && place < grid->time; place++) {
      bool inner = place == 1 && grid->time > 2;
      double seconds = computing_of(p, grid, &s, d, place);
      if (seconds > *busiest) *busiest = seconds;
      *all += inner ? seconds * (double)(grid->time - 2) : seconds;
      if (inner) place = grid->time - 2;
    }
    schedule_free(&s);
  }
  return status;
}
