// Normalisation of a body, and removal of values that nothing needs.
#pragma once

#include "compiler/recurrence/make.h"
#include "compiler/recurrence/recurrence.h"

// A normalised copy: equal values are shared, constants folded, gates in their stable forms
// (simplify.c). Tensors, axes and lag buffers stay as they are.
typed_body normalise_body(arena *memory, const typed_body *body);

// The same where `rewrite` makes values of its own. It returns the value in place of `old`, a value
// of the old body whose operands are `map`ped to new ones. NO_VALUE: the same operation.
typedef value_id rewrite_function(builder *b, const value_id *map, value_id old, void *context);
typed_body body_rewritten(arena *memory, const typed_body *body, rewrite_function *rewrite,
                          void *context);

// A body of the same tensors and lag buffers without values.
typed_body body_declared(arena *memory, const typed_body *from);
// A copy to which values and tensors can be added.
typed_body body_copy(arena *memory, const typed_body *from);

// Removes the values that neither assignments nor lag buffers nor the structures of states need,
// and renumbers.
void remove_dead_values(arena *memory, recurrence *r);
