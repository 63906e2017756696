// Inside tasks*.c: the draws of one sequence.
#pragma once

#include "runtime/train/data/random.h"
#include "runtime/train/data/tasks.h"

// A seed of its own for each sequence, so that their numbers of draws may differ.
typedef struct draws {
  uint64_t seed, stream, next;
} draws;

static inline int64_t below(draws *d, int64_t limit) {
  return random_below(d->seed, d->stream, d->next++, limit);
}

// A text as tokens. Returns how many there are.
static inline int64_t put_text(token_id *to, const char *text) {
  int64_t count = 0;
  for (; text[count]; count++) to[count] = (unsigned char)text[count];
  return count;
}

// Writes the tokens and answers of a sequence of TASK_BABI. Returns the number of tokens; *fact is
// where the fact begins from which the answer follows.
int64_t babi_sequence(const train_task *t, int64_t length, draws *d, token_id *tokens,
                      token_id *targets, int64_t *fact);
