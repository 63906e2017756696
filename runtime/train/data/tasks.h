// Generated tasks: sequences whose answers follow from what stands before them. A sequence is a
// function of the task, seed, stream and position alone.
//
//   copying           d a d | d a d .        answers: what follows |
//   stack_copying     d a b | b a d .        the same, last letter first
//   sorting           d a d | a d d .        the same, in order
//   selective_copying _ d _ a | |            letters among blanks; at each | the next letter
//   mqar              k v l w 7 l 3 k        keys with values; at a key asked for again, its value
//   passkey           .. The pass key is 17. .. The pass key is 17.    in bytes, amid filler
//   babi              .. Mary went to the garden. .. Where is Mary? Answer: garden.    the same
#pragma once

#include "compiler/abi/closed_sets.h"
#include "compiler/abi/token.h"

enum { MOST_BABI_FACTS = 64 };

typedef struct train_task {
  task_kind kind;
  int64_t shortest, length;  // lengths are drawn between them, both included
  int64_t alphabet;          // letters; MQAR: keys and values together; BABI: the task, 1, 2 or 6
  int64_t count;             // SELECTIVE_COPYING: letters; MQAR: pairs; BABI: facts; else not read
  bool all;                  // the loss counts every next token, not the answers alone
} train_task;

task_kind task_find(const char *name);  // TASK_KINDS: none

int64_t task_vocabulary(const train_task *t);
// The length below which there is no such sequence.
int64_t task_least(const train_task *t);
// Tokens of a sequence of this length, without the last answer that is no input.
int64_t task_tokens(const train_task *t, int64_t length);

// Writes one sequence into `room` >= task_tokens(t, t->length) tokens; what follows it is padding.
// Targets are the answers, NO_TARGET elsewhere. Returns where what the answer follows from begins;
// -1: the task has no such place.
int64_t task_sequence(const train_task *t, uint64_t seed, uint64_t stream, uint64_t position,
                      int64_t room, token_id *tokens, token_id *targets);
