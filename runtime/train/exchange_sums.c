// What the ranks of a job exchange in a step: sums of a few numbers, and how it has ended.
#include <stdlib.h>
#include <string.h>

#include "runtime/train/trainer_parts.h"

int exchange_least(const trainer *t, int own) {
  int least = own,
      *all = ranks_gathered(t->ranks, &own, sizeof own, trainer_busy_with(t, "threads"));
  for (int i = 0; i < ranks_count(t->ranks); i++) least = (int)least_of(least, all[i]);
  free(all);
  return least;
}

typedef struct rank_numbers {
  const trainer *t;
  int place;
  int64_t width;
} rank_numbers;

static void of_rank(void *context, int data, double *to) {
  const rank_numbers *n = context;
  const double *all = n->t->in->exchange.gathered;
  memcpy(to, all + ranks_at(n->t->ranks, data, n->place) * n->width, (size_t)n->width * sizeof *to);
}

// Of the ranks of a place in time, from what is gathered.
static void sum_of_place(const trainer *t, int place, int64_t width, double *to) {
  rank_numbers numbers = {t, place, width};
  tree_sum((tree_node){ranks_data_count(t->ranks), 0, 0}, width, of_rank, &numbers, to,
           t->in->exchange.sum_room);
}

static void gather_doubles(const trainer *t, const double *own, int64_t width) {
  ranks_all_gather(t->ranks, own, t->in->exchange.gathered, width * (int64_t)sizeof *own,
                   trainer_busy_with(t, "losses, weights and norms"));
}

void exchange_sums(trainer *t, double *own, int64_t width, int64_t maxima) {
  trainer_internals *in = t->in;
  int count = ranks_count(t->ranks);
  if (count == 1) return;
  gather_doubles(t, own, width);
  sum_of_place(t, 0, width, own);
  for (int64_t i = width - maxima; i < width; i++)
    for (int rank = 0; rank < count; rank++)
      if (rank == 0 || in->exchange.gathered[rank * width + i] > own[i])
        own[i] = in->exchange.gathered[rank * width + i];
}

void exchange_sums_by_place(trainer *t, double *own, int64_t width, int64_t split,
                            double *by_place) {
  double *sums = t->in->exchange.place_sums;
  memcpy(by_place, own, (size_t)split * sizeof *own);
  if (ranks_count(t->ranks) == 1) return;
  gather_doubles(t, own, width);
  for (int place = 0; place < ranks_time_count(t->ranks); place++) {
    sum_of_place(t, place, width, sums);
    memcpy(by_place + place * split, sums, (size_t)split * sizeof *sums);
    if (place == 0) memcpy(own, sums, (size_t)width * sizeof *sums);
  }
}

rec_status exchange_agree(const trainer *t, rec_status status) {
  return ranks_agree(t->ranks, status, trainer_busy_with(t, "how the shards have ended"));
}

rec_status exchange_agree_on_device(const trainer *t, rec_status status) {
  return compute_is_host(t->of.where) ? status : exchange_agree(t, status);
}
