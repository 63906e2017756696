// A trained model that reads a text and tells what may come next, in memory that does not grow with
// the text. It carries states and the tails of lags and convolutions from token to token.
#pragma once

#include "runtime/train/model/execute.h"

typedef struct generator generator;

// Starts from the zero state. `of` and `weights` must outlive the generator.
rec_status generator_new(const trained_model *of, const void *weights, int threads,
                         generator **made);
void generator_free(generator *g);  // NULL is allowed

// What is read from now on starts from the learned states; before anything was read.
void generator_start_learned(generator *g);

// Reads tokens: long texts in windows, a single one by the single-step form of the recurrences.
rec_status generator_read(generator *g, const token_id *tokens, int64_t count);

// The logits after the last token that was read, one for each symbol of the vocabulary; zeros
// before any.
const double *generator_logits(const generator *g);
