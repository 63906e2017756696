#include "runtime/train/owners.h"

int owners_round_count(int64_t data_count) {
  int rounds = 0;
  while ((int64_t)1 << rounds < data_count) rounds++;
  return rounds;
}

// The first round decides between halves, the next one between quarters of a half: its bits from
// the lowest on.
static slot_range slots_after(const owner_grid *g, int data, int rounds) {
  int part = 0, size = (g->data_count >> rounds) * g->time_count;
  for (int i = 0; i < rounds; i++) part = 2 * part + (data >> i & 1);
  return (slot_range){part * size, (part + 1) * size};
}

owner_round owners_round(const owner_grid *g, int round) {
  int partner = g->data ^ 1 << round;
  return (owner_round){partner, slots_after(g, g->data, round + 1),
                       slots_after(g, partner, round + 1)};
}

slot_range owners_left(const owner_grid *g) {
  return slots_after(g, g->data, owners_round_count(g->data_count));
}

// A piece belongs where its middle is.
int owners_first_piece(const int64_t *before, int count, int slot, int slots) {
  int first = 0, end = count;
  if (slot == 0) return 0;
  while (first < end) {
    int middle = first + (end - first) / 2;
    if ((before[middle] + before[middle + 1]) / 2 * slots >= before[count] * slot)
      end = middle;
    else
      first = middle + 1;
  }
  return first;
}
