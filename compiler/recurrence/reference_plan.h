// What the reference interpreter works out once before it runs: sizes, memory, and the position of
// each operand's element for every value. Evaluation is then a plain loop over elements.
#pragma once

#include "compiler/recurrence/recurrence.h"

// Positions of elements: map[i] belongs to element i of an iteration; NULL is the identity.
typedef const int32_t *element_map;

static inline int64_t mapped(element_map map, int64_t i) { return map ? map[i] : i; }

// A value at the current step. Elements lie in header order, complex ones as pairs.
typedef struct node {
  const typed_value *value;
  bool live;       // an output, a state or a lag buffer needs it
  bool invariant;  // depends on no input, state or lag buffer: computed once
  bool pairs;      // it or an operand is complex
  int64_t count;   // elements
  double *numbers;
  double *cotangent;       // backward only
  element_map operand[3];  // elementwise, rename, slice: the operand's element for each of mine
  element_map result;      // reductions: my element for each element of the operand
  int32_t *extreme;        // max_over, min_over: the operand's element that was taken
} node;

// A tensor of the run: its elements in header order, where they lie in memory, and what is assigned
// to them.
typedef struct place {
  int64_t count;
  int width;  // numbers per element: 2 if complex
  element_map memory;
  element_map source;
  value_id assigned;
} place;

// A state or a lag buffer: a stretch of the carried numbers. The newest entry is the last.
typedef struct carried {
  place place;               // of one entry
  int64_t offset;            // in the carried numbers
  int entries;               // 1, or the depth of the lag buffer
  const typed_begin *begin;  // of a state: what it is before the first step; NULL: 0
  element_map parameter;     // the parameter's element for each of the state's
} carried;

typedef struct plan {
  const typed_body *body;
  const int64_t *sizes;
  bool single;  // numbers are rounded to float32
  node *nodes;
  place *tensors;      // inputs, params and outputs
  carried *states;     // by tensor
  carried *lags;       // by lag
  int64_t carry_size;  // numbers handed from step to step
  struct allocation *memory;
  bool failed;  // memory was short
} plan;

// False if memory was short; plan_free is due in both cases.
bool plan_make(plan *p, const typed_body *body, const int64_t *sizes, bool backward);
void plan_free(plan *p);

// Zeroed memory that plan_free returns; NULL (and p->failed) if there is none.
void *plan_alloc(plan *p, int64_t count, size_t size);
