/* The recurrence IR: a normalised body and the structure of each of its states.
 *
 * Normalisation keeps what a formula means and removes how it could overflow: powers and products of gates go
 * through their logarithms (sigmoid(x)^p is exp(p*log_sigmoid(x))), 1 - sigmoid(x) is sigmoid(-x), a let in
 * between changes nothing. Every consumer (reference interpreter, host, GPU) reads the normalised form.
 *
 * Linearity then sorts the states into strata and finds, for each, the affine form in its own previous value.
 */
#ifndef REC_RECURRENCE_RECURRENCE_H
#define REC_RECURRENCE_RECURRENCE_H

#include "../base/intern.h"
#include "../base/source.h"
#include "../sema/typed.h"

/* What a state update is, from cheapest to most general (language.md section 3). */
typedef enum state_class {
  STATE_DELAY,          /* right side uses neither the state itself nor one that depends on it */
  STATE_SCALAR_DECAY,   /* factor lacks the axes of the state that a read sums over or an outer product makes */
  STATE_AXIS_DECAY,     /* factor has some of those axes: per-key, per-value or both */
  STATE_ELEMENTWISE,    /* elementwise factor, no outer product to exploit: independent scalars */
  STATE_LOW_RANK,       /* diagonal plus low rank: delta rules */
  STATE_MAX_PLUS,       /* m = max(f + m[t-1], i) */
  STATE_LINEAR,         /* affine without a cheaper structure: dense transitions, coupled states */
  STATE_NONLINEAR       /* not affine in the state: GRU, LSTM */
} state_class;

typedef struct state_structure {
  state_class class;
  int stratum;          /* states of a lower stratum are computed first; coupled states share one */
  value_id decay;       /* the elementwise factor of the state's own previous value; -1: none (delay, or factor 1) */
  value_id log_decay;   /* natural logarithm of the decay where the source formed it by exp, sigmoid, their products
                           and powers (a value of the body, <= 0 is not implied); -1 otherwise */
  value_id increment;   /* the rest of the update: without the state's own previous value; -1 if zero */
  axis_set key_axes;    /* axes of the state that every read sums over */
  axis_set value_axes;  /* the other axes made by an outer product in the increment */
  value_id limit;       /* the term that prevents a cheaper class; -1 if none does */
  const char *limit_reason;  /* in words, for the report; NULL if none */
} state_structure;

typedef struct recurrence {
  typed_body body;               /* normalised */
  VEC(state_structure) states;   /* one for each TENSOR_STATE, in order of declaration */
  int stratum_count;
} recurrence;

/* Normalises a body and finds the structure of its states. Never fails: every legal body has a recurrence. */
recurrence *recurrence_analyse(arena *arena, diag *diag, const typed_body *body);

/* Text form, and back. The parser reports malformed text through `diag` and returns NULL. */
char *recurrence_print(arena *arena, const recurrence *recurrence);
recurrence *recurrence_parse(arena *arena, interner *interner, diag *diag, const source *text);
/* Checks order, axes, element kinds and structure; the text says what is wrong, NULL if nothing is. */
const char *recurrence_verify(arena *arena, const recurrence *recurrence);
/* The few lines of `recc --emit=report`: what was found for each state, and which term prevents more, with its text
 * and place if `all` is given (NULL: without). */
char *recurrence_report(arena *arena, const sources *all, const recurrence *recurrence);

/* ---- The reference interpreter: float64, one step after another ---------------------------------------- */

/* One tensor for the interpreter, float64, row-major, complex as a last axis of 2.
 * Tokens [B,T,axes], params [axes], states [B or sequences, axes], lag buffers [B or sequences, depth, axes]. */
typedef struct reference_tensor {
  double *data;        /* NULL: absent (an initial state: zero; a cotangent: zero; a result: not wanted) */
} reference_tensor;

/* Everything a run reads and writes. Arrays run over body.tensors (states: h0, hT) and body.lags. */
typedef struct reference_run {
  int64_t batch, time;
  const int32_t *cu_seqlens;       /* NULL, or sequences + 1 offsets into time (then batch == 1) */
  int64_t sequences;               /* with cu_seqlens */
  const int64_t *axis_sizes;       /* one per axis of the body */
  reference_tensor *tensors;       /* inputs, params read; outputs written; states: h0 read */
  reference_tensor *final_states;  /* by tensor: hT written */
  reference_tensor *lags;          /* by lag: h0 read */
  reference_tensor *final_lags;    /* by lag: written */
  /* backward: cotangents read (outputs, hT), gradients written (inputs, params, h0) */
  reference_tensor *d_tensors;
  reference_tensor *d_final_states;
  reference_tensor *d_final_lags;
  reference_tensor *d_initial_states;
  reference_tensor *d_initial_lags;
} reference_run;

/* Runs forward, and backward if `backward`. Exact reverse mode with derivative rules of its own (not tile/ops.def).
 * Returns false if memory is short. */
bool reference_execute(const recurrence *recurrence, const reference_run *run, bool backward);

#endif
