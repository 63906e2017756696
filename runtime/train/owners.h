// Which rank finishes the sum of which weights and steps them, and what it sends to whom for that.
//
// The weights are cut into slots, one for each rank. First every rank adds its own subtree of
// leaves.h, for all weights. Then the ranks exchange halves, level by level of the tree, so that
// both sum two nodes that are neighbours:
//
//   data rank   its subtree   round 0, with rank ^ 1   round 1, with rank ^ 2
//   0           slots 0 to 3  keeps 0 1                keeps 0
//   1           slots 0 to 3  keeps 2 3                keeps 2
//   2           slots 0 to 3  keeps 0 1                keeps 1
//   3           slots 0 to 3  keeps 2 3                keeps 3
//
// The owners step their slots. The same rounds backward bring the new weights to all. Ranks that
// share a sequence (time ranks) have neighbouring slots: they go through the rounds together, then
// each sends every other one that one's slot for each of its segments.
#pragma once

#include <stdint.h>

// The most numbers of a gradient in one message between hosts.
enum { EXCHANGE_WINDOW = 1 << 18 };

// The ranks as a grid, and the place of one.
typedef struct owner_grid {
  int data_count, data;  // data_count: a power of two
  int time_count, time;
} owner_grid;

typedef struct slot_range {
  int first, end;
} slot_range;

// What a rank gives to another of the same `time`, and what it keeps and gets the other's numbers
// of.
typedef struct owner_round {
  int partner;  // its `data`
  slot_range keeps, gives;
} owner_round;

int owners_round_count(int64_t data_count);
owner_round owners_round(const owner_grid *g, int round);
// The slots that are left after all rounds: one for each time rank, in their order.
slot_range owners_left(const owner_grid *g);

// The first of `count` pieces that belongs to `slot` of `slots`: slots are of equal size, but for
// half a piece at each end. `before[i]` are the numbers of the pieces before i, `before[count]`
// those of all.
int owners_first_piece(const int64_t *before, int count, int slot, int slots);
