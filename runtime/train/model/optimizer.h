// Optimizers: what a step does to the weights, in operations of compute.h, so that it is the same
// on the host and on a GPU. Their names and settings are in compiler/abi/optimizers.def.
//
//   optimizer muon(lr = 1e-3)    layers.0.in_proj.weight [42,16]   muon, part by part: 16 x 16, 16 x 16, 4 x 16, 4 x 16, 2 x 16
//                                embedding.weight [256,16]         adamw
#pragma once

#include "runtime/train/model/compute.h"
#include "runtime/train/model/program.h"

enum { MOST_OPTIMIZER_STATES = 2 };

// Of one step, for all weights.
typedef struct optimizer_step {
  const train_block *block;
  double rate, gradient_scale;  // gradient_scale: clipping by the global norm
  int64_t number;               // of the step, from 1
} optimizer_step;

// What is stepped at a time, where the model is trained: a matrix, or some numbers, which are one
// row.
typedef struct stepped_weights {
  void *values, *states[MOST_OPTIMIZER_STATES];
  const void *gradient;
  void *room;
  int64_t rows, columns;
  bool decays;
} stepped_weights;

typedef struct optimizer {
  const char *state_names[MOST_OPTIMIZER_STATES];  // in a checkpoint: optimizer.NAME.PATH
  int64_t (*room)(int64_t height, int64_t width);  // numbers that a step works in; NULL: none
  rec_status (*step)(const compute *c, const optimizer_step *s, const stepped_weights *w);
} optimizer;

extern const optimizer optimizers[OPTIMIZERS];

// What a block steps a parameter with.
optimizer_kind optimizer_of(const train_model *model, const train_block *block, int parameter);
// The same of all parameters, for people: "adamw", or "muon for 10 matrices of 1344 weights, adamw
// for 4516".
enum { OPTIMIZER_TEXT = 128 };
const char *optimizer_text(const train_model *model, const train_block *block,
                           char text[OPTIMIZER_TEXT]);
