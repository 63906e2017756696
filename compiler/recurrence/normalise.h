// Normalisation of a body, and removal of values that nothing needs.
#ifndef REC_RECURRENCE_NORMALISE_H
#define REC_RECURRENCE_NORMALISE_H

#include "compiler/recurrence/recurrence.h"

// A normalised copy: equal values are shared, constants folded, gates in their stable forms
// (simplify.c). Tensors, axes and lag buffers stay as they are.
typed_body normalise_body(arena *memory, const typed_body *body);

// The same where each sum with some axes in `last` (by value) sums these after its others.
typed_body body_with_last_sums(arena *memory, const typed_body *body, const axis_set *last);

// Removes the values that neither assignments nor lag buffers nor the structures of states need,
// and renumbers.
void remove_dead_values(arena *memory, recurrence *r);

#endif
