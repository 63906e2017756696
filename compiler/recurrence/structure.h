// Linearity analysis: the structure of every state of a normalised body.
#pragma once

#include "compiler/recurrence/affine.h"

// Fills r->states and r->stratum_count; appends values that describe parts the body does not have.
void find_structure(arena *memory, recurrence *r);

// The value that reads a state before the step; NO_VALUE if none does.
value_id previous_value(const typed_body *body, int state);
// The state that the value is after the step; -1: none.
int state_assigned(const typed_body *body, value_id id);

// heads.c: sums over keys and heads of a state together become sums over the keys, then over the
// heads. Whether there were any; the structure is to be found again then.
bool sum_heads_last(arena *memory, recurrence *r);

// reads.c: sums over states whose renames and inner sums have left the state.
void make_reads_plain(arena *memory, recurrence *r);

// shift.c: shift registers in the form that recurrence_is_shift knows, and sums over their entries
// written out.
void write_out_shifts(arena *memory, recurrence *r);

// strata.c: which states depend on which, through values and through lag buffers of values that
// depend on states.
typedef struct state_graph {
  int count;  // nodes: the states, then the lag buffers of lets
  int state_count;
  int *node_of_state;  // by tensor, -1 for others
  int *node_of_lag;    // by lag, -1 for lags of inputs
  bool *reaches;       // count * count: node i depends on node j, directly or not
  int *level;          // by node: its stratum
} state_graph;

state_graph state_graph_make(arena *memory, const typed_body *body);
static inline bool node_reaches(const state_graph *g, int from, int to) {
  return g->reaches[from * g->count + to];
}
// Do the two lie on a common cycle?
static inline bool node_coupled(const state_graph *g, int i, int j) {
  return node_reaches(g, i, j) && node_reaches(g, j, i);
}

// By value: is it made of this state (a tensor)? -1: of any.
bool *values_made_of(arena *memory, const typed_body *body, int tensor);

// axes.c: what reads of a state and its increment say about its axes. Axes of the state that every
// use of it outside its own elementwise update sums over; 0 if nothing reads it.
axis_set axes_summed_by_reads(arena *memory, const typed_body *body, int state);
// Keys that a sum over the state and other keys leaves.
axis_set axes_left_by_sums(arena *memory, const typed_body *body, int state, axis_set keys);
// Axes made by an outer product with the key axes in the increment.
axis_set axes_of_outer_product(builder *b, axis_set state_axes, value_id increment, axis_set keys);
// The fewest key axes without which the increment is an outer product of the other keys with
// values. 0: it is one with all key axes, or with none left out.
axis_set axes_of_heads(builder *b, axis_set state_axes, value_id increment, axis_set keys);
// Can the decay be written as a product of factors none of which has axes of both sets?
bool decay_separates(const builder *b, value_id decay, value_id log_decay, axis_set keys,
                     axis_set values);
