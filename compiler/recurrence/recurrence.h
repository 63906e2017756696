// The recurrence IR: a normalised body and the structure of each of its states.
//
// Normalisation keeps what a formula means and removes how it could overflow. Powers and products
// of gates go through their logarithms: sigmoid(x)^p is exp(p*log_sigmoid(x)). 1 - sigmoid(x) is
// sigmoid(-x). A let in between changes nothing. Every consumer (reference interpreter, host, GPU)
// reads the normalised form.
//
// Linearity then sorts the states into strata and finds, for each, the affine form in its own
// previous value.
#pragma once

#include "compiler/base/intern.h"
#include "compiler/base/source.h"
#include "compiler/sema/typed.h"

typedef enum state_class {
#define STATE_CLASS(id, word) STATE_##id,
#include "compiler/recurrence/state_classes.def"
#undef STATE_CLASS
  STATE_CLASSES
} state_class;

// As state_classes.def writes it.
const char *state_class_word(state_class class);

// For delay, scalar decay, axis decay and elementwise:  state = decay * state[t-1] + increment.
// Low rank adds sums over the state (affine.h tells them). Max plus: state =
// max(log_decay + state[t-1], increment). Linear and nonlinear states have neither decay nor
// increment: the body alone says what they are. Parts that the body did not have are values of
// their own behind those that the assignments need.
typedef struct state_structure {
  state_class class;
  int stratum;     // lower strata are computed first; coupled states share one
  value_id decay;  // elementwise factor of state[t-1]; -1: none (delay, or factor 1)
  // natural logarithm of the decay; -1: none. A decay has one if it is a product of gates (exp,
  // sigmoid, their powers) and of other values that are positive for all inputs. It may be above 0;
  // it is -inf where `where` chooses 0
  value_id log_decay;
  value_id increment;        // the rest of the update, without state[t-1]; -1 if zero
  axis_set key_axes;         // axes of the state that every read sums over
  axis_set value_axes;       // the other axes made by an outer product in the increment
  value_id limit;            // the term that prevents a cheaper class; -1 if none does
  const char *limit_reason;  // in words, for the report; NULL if none
} state_structure;

typedef struct recurrence {
  typed_body body;              // normalised
  VEC(state_structure) states;  // one for each TENSOR_STATE, in order of declaration
  int stratum_count;
} recurrence;

// Which values the assignments and the lag buffers need; the others only describe structure.
bool *recurrence_needed(arena *arena, const recurrence *recurrence);

// Normalises a body and finds the structure of its states. Never fails: every legal body has a
// recurrence.
recurrence *recurrence_analyse(arena *arena, const typed_body *body);

// Text form, and back. The parser reports malformed text through `diag` and returns NULL.
char *recurrence_print(arena *arena, const recurrence *recurrence);
recurrence *recurrence_parse(arena *arena, interner *interner, diag *diag, const source *text);
// The same; a text without structure, as people write it by hand, is a body that is analysed.
recurrence *recurrence_from_text(arena *arena, interner *interner, diag *diag, const source *text);
// Checks order, axes, element kinds and structure; the text says what is wrong, NULL if nothing is.
const char *recurrence_verify(arena *arena, const recurrence *recurrence);
// The few lines of `recc --emit=report`: the structure of each state, and the term that prevents
// more. With `all`, the term comes with its text and place (NULL: without).
char *recurrence_report(arena *arena, const sources *all, const recurrence *recurrence);
// The lines about one state.
char *recurrence_report_state(arena *arena, const sources *all, const recurrence *recurrence,
                              const char *state);

// What the source wrote so that the recurrence goes by steps, and how else to write it, in the
// words of a message (advice.c). For recurrences that the schedule leaves to steps.
typedef struct recurrence_advice {
  value_id value;  // what is to be written in another way
  const char *text;
} recurrence_advice;
typedef VEC(recurrence_advice) recurrence_advices;
recurrence_advices recurrence_advise(arena *arena, const recurrence *recurrence);
// The recurrence written as all of them say (advised.c).
recurrence *recurrence_advised(arena *arena, const recurrence *recurrence,
                               const recurrence_advices *advices);

// ---- for chunk builders ------------------------------------------------------------------------
// Values that these functions make are appended to the body (simplified, and shared with what is
// there); the positions of existing values stay.

// Value axes that stand beside keys in one factor of a decay are heads, as long as another value
// axis is left: these heads.
axis_set recurrence_decay_heads(arena *memory, const typed_body *body, value_id decay,
                                value_id log_decay, axis_set keys, axis_set values);

// One factor of a product; in `a / b * c` the factor b divides.
typedef struct recurrence_factor {
  value_id value;
  bool divides;
} recurrence_factor;

typedef struct recurrence_term {
  double scale;
  VEC(recurrence_factor) factors;  // possibly none: the term is the number `scale`
} recurrence_term;
typedef VEC(recurrence_term) recurrence_terms;

// The value as a sum of products. Sums and products are opened only while they have axes of both
// sets. With k[K], v[V], left [K] and right [V], (k1 + k2) * v is therefore one term of two
// factors. Signs and constants go to `scale`. A factor that still has axes of both sets cannot be
// opened. Appends nothing.
recurrence_terms recurrence_split_terms(arena *arena, const typed_body *body, value_id value,
                                        axis_set left, axis_set right);

// The natural logarithm of a decay (see state_structure.log_decay), appended to the body; -1 if it
// has none.
value_id recurrence_decay_log(arena *arena, typed_body *body, value_id decay);

// Of a state that is held relative to e^m, m a running maximum, and of m itself (relative.c). M and
// S^ are what a stretch of steps makes of no maximum and of 0. Then m' = max(F + m, M), S' = exp(D
// + F + m - m') S + exp(M - m') S^.
typedef struct recurrence_relative {
  int state, maximum;  // by tensor; m itself has its own number for both
  // the state of the copy that adds up F (of m) or D (of the others) from 0; -1: it is 0
  int sum;
} recurrence_relative;
typedef VEC(recurrence_relative) recurrence_relatives;

// A copy that has these sums as states behind its tensors; NULL: no state is a maximum that other
// states leave alone.
recurrence *recurrence_with_sums(arena *memory, const recurrence *from,
                                 recurrence_relatives *found);

// What a lag of a copy begins with: a state; tensor -1: 0. `whole`: entries that no sum has.
typedef struct recurrence_beginning {
  int tensor;
  bool whole;
} recurrence_beginning;

// A copy whose states that are reads of others are read again a step later (reread.c). Behind the
// lags of the recurrence it has its own.
typedef struct recurrence_reads {
  recurrence *made;
  VEC(recurrence_beginning) begins;
} recurrence_reads;

// NULL: there are none.
recurrence_reads *recurrence_read_again(arena *memory, const recurrence *from);

// A copy whose states that a larger one depends on, and that depend on it, have a key axis of one
// entry (unit_keys.c). It is in their axis_set alone: in memory they lie as before. NULL: no state is so.
recurrence *recurrence_with_unit_keys(arena *memory, const recurrence *from);

// ---- long lags (delay.c) ---------------------------------------------------------------------

// An input whose row t is row t - steps of a tensor; before the start, of a lag buffer, and 0
// before that. Or (`starts`) 1 in the first `steps` steps, then 0.
typedef struct recurrence_delay {
  int tensor;  // the input, in `made`
  int source;  // an input of the recurrence; -1: none, it is 0 from the start on
  int lag;     // a lag buffer of the recurrence; -1: none
  int steps;
  bool starts;
} recurrence_delay;

// A recurrence without its long lags. It has the axes and tensors of the one that it was made from,
// at the same positions, and then others.
typedef struct recurrence_delays {
  recurrence *made;
  VEC(recurrence_delay) delays;
  int *lags;  // by lag buffer: its position in `made`; -1: it is not there
  int *kept;  // by lag buffer: the output whose last rows it holds at the end; -1: none
} recurrence_delays;

// NULL: all lags stay. Where more of them stay than programs can hold, there is a message as well.
recurrence_delays *recurrence_delay_lags(arena *arena, diag *diag, const recurrence *recurrence);
// A line of `recc --emit=report`.
char *recurrence_delay_report(arena *arena, const recurrence_delays *delays);

// ---- shift registers (shift.c) ---------------------------------------------------------------

// A state each of whose entries along an axis is a value of this step, or another entry a step
// before.
enum { SHIFT_ENTRIES_MAX = 16 };
typedef struct recurrence_shift {
  int axis, count;
  struct {
    value_id value;  // NO_VALUE: it is entry `from` before the step
    int from;
  } entries[SHIFT_ENTRIES_MAX];
} recurrence_shift;
bool recurrence_is_shift(arena *arena, const typed_body *body, int state, recurrence_shift *shift);

// Between which numbers a value lies as far as promises, gates and constants tell, rounded outward;
// infinities where nothing is known, and for complex values. What is computed with few digits may
// pass the ends by its rounding.
void recurrence_bounds(arena *arena, const recurrence *recurrence, value_id value, double *low,
                       double *high);

// ---- the reference interpreter: one step after another -----------------------------------------

// One tensor for the interpreter, float64, row-major, complex as a last axis of 2.
// Tokens [B,T,axes], params [axes], states [B or sequences, axes],
// lag buffers [B or sequences, depth, axes].
typedef struct reference_tensor {
  double *data;  // NULL: absent (an initial state or a cotangent: zero; a result: not wanted)
} reference_tensor;

// Everything a run reads and writes. Arrays run over body.tensors (states: h0, hT) and body.lags.
typedef struct reference_run {
  int64_t batch, time;
  const int32_t *cu_seqlens;  // NULL, or sequences + 1 offsets into time (then batch == 1)
  int64_t sequences;          // with cu_seqlens
  const int64_t *axis_sizes;  // one per axis of the body
  bool single;                // every number is rounded to float32, see below
  // with `single`: what depends on parameters alone is rounded once
  bool prepared;
  reference_tensor *tensors;       // inputs, params read; outputs written; states: h0 read
  reference_tensor *final_states;  // by tensor: hT written
  reference_tensor *lags;          // by lag: h0 read
  reference_tensor *final_lags;    // by lag: written
  // backward: cotangents read (outputs, hT), gradients written (inputs, params, h0)
  reference_tensor *d_tensors;
  reference_tensor *d_final_states;
  reference_tensor *d_final_lags;
  reference_tensor *d_initial_states;
  reference_tensor *d_initial_lags;
} reference_run;

// Runs forward, and backward if `backward`. Exact reverse mode with derivative rules of its own
// (not tile/ops.def). In double precision. If `single`, the result of every operation and every
// partial sum is rounded to float32, as in a plain float32 loop. Errors of compiled float32 code
// are measured by that loop. Returns false if memory is short.
bool reference_execute(const recurrence *recurrence, const reference_run *run, bool backward);
