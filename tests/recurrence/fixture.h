// Recurrences for tests: from IR text, with memory for a run of the reference interpreter, and a
// check of its gradients.
#pragma once

#include "compiler/recurrence/recurrence.h"

typedef struct fixture {
  arena *memory;
  sources *sources;
  interner *names;
  diag *messages;
} fixture;

fixture fixture_open(void);
void fixture_close(fixture *s);

// IR text; NULL if it is refused (the messages are in the fixture).
recurrence *fixture_read_ir(fixture *s, const char *text, size_t size);
// IR text; ends the program with the messages if it is refused.
recurrence *fixture_ir(fixture *s, const char *text);

// The last recurrence of a .rec text as sema hands it over; ends the program with the messages if
// it is refused.
const typed_body *fixture_source(fixture *s, const char *text);
// The same, analysed.
recurrence *fixture_analyse(fixture *s, const char *text);
// A recurrence that is nothing but the body: not normalised, without structure. For the
// interpreter.
recurrence *fixture_raw(fixture *s, const typed_body *body);

// The recurrence with the update of every state made anew from its structure. Affine forms with
// sums over the state go through affine.h. States without parts stay as they are.
recurrence *fixture_from_parts(fixture *s, const recurrence *r);
// The largest difference between outputs, final states and gradients of two recurrences with equal
// declarations, on equal random inputs. It is relative to the size of each number, or to 1.
double fixture_difference(fixture *s, const recurrence *a, const recurrence *b, uint64_t seed);

// ---- runs of the interpreter --------------------------------------------------------------------

// Random numbers in [low, high): the same sequence for the same seed everywhere.
double random_between(uint64_t *seed, double low, double high);

// A run with all its tensors, cotangents and gradients, filled with random numbers.
typedef struct trial {
  reference_run run;
  const recurrence *recurrence;
  int64_t *tensor_numbers;  // how many numbers each tensor has
  int64_t *lag_numbers;
  int64_t entries;   // sequences or batch
  double magnitude;  // of the terms of the last loss: its rounding error is some 1e-16 of it
} trial;

// Sizes for run-time axes: 2 for the first, 3 for the second, ...
trial trial_new(arena *memory, const recurrence *r, int64_t batch, int64_t time,
                const int32_t *cu_seqlens, int64_t sequences, uint64_t seed);

// <cotangent, result> summed over outputs, final states and final lag buffers, after a forward run.
double trial_loss(trial *t);

// The largest difference between the gradients and central differences of the loss, relative to the
// size of either. Probes at most `probes` numbers of each tensor. `where` tells the worst one.
double trial_gradient_error(trial *t, arena *memory, int probes, uint64_t seed, const char **where);

// A run of its own: `time` steps of entry `entry` from token `begin` on, of a batch entry or of
// packed sequences. Its inputs are copied, the entry's states, lag buffers and their cotangents
// included.
trial trial_part(const trial *whole, arena *memory, int64_t entry, int64_t begin, int64_t time);
// The largest difference between the results of such a run and those of the whole: outputs and
// gradients of inputs. With `states` also final states and gradients of initial states.
double trial_part_distance(const trial *whole, const trial *part, int64_t entry, int64_t begin,
                           bool states);

// The largest difference between the results and gradients of two runs of recurrences with equal
// declarations.
double trial_distance(const trial *a, const trial *b);
