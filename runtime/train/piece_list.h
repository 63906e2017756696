// The pieces of the weights: what one task sums and steps, and what ranks own. Trainer and plan
// have them from here.
#pragma once

#include "runtime/internal.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/owners.h"

// A matrix, or some numbers of a parameter.
typedef struct piece {
  int64_t place, count;
  int parameter;
  int64_t first;  // its place in the parameter
  int64_t rows, columns;
  optimizer_kind optimizer;
  bool decays;
} piece;

typedef struct piece_range {
  int first, end;
} piece_range;

// Some numbers of the block of all weights, or of their gradients.
typedef struct number_range {
  int64_t place, count;
} number_range;

typedef struct piece_list {
  piece *of;
  int count;
  int64_t *before;  // numbers of the pieces before each; then of all
  int64_t numbers;  // of the block, with the gaps between parameters
} piece_list;

// `host`: the weights are stepped there. The list lies in `memory`, which says whether there was
// any.
void piece_list_make(rec_blocks *memory, const train_model *model, const train_block *block,
                     bool host, piece_list *made);

// The pieces of some of `count` slots (owners.h), and the numbers from the first of them to the
// first behind them.
piece_range piece_list_slots(const piece_list *l, slot_range slots, int count);
number_range piece_list_numbers(const piece_list *l, slot_range slots, int count);
// The most pieces of one of `count` slots.
int64_t piece_list_most(const piece_list *l, int count);
// Where a piece begins, the one behind the last one too.
int64_t piece_list_place(const piece_list *l, int number);
