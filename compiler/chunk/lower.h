// From operations of recurrence bodies to tile operations: what every builder shares.
#pragma once

#include "compiler/chunk/pair.h"

// A body value on its way into a program. The builder sets the leaves that it gives a meaning of
// its own (`done[id]`), and lower_value makes everything else from its operands.
typedef struct lowering {
  tile_program *program;
  const typed_body *body;
  tile_pair *values;  // by value of the body
  bool *done;
} lowering;

lowering lowering_new(tile_program *program, const typed_body *body);
void lowering_set(lowering *l, value_id id, tile_pair pair);
// Makes the value and what it needs. INPUT and PARAM become arguments; PREVIOUS and LAG must have
// been set.
tile_pair lower_value(lowering *l, value_id id);

// An argument for a tensor, both components of a complex one.
tile_pair lower_tensor(tile_program *program, const typed_body *body, tile_role role, int tensor);
// Adds the result(s) of a tensor; a real value becomes complex where the tensor is.
void lower_result(tile_program *program, const typed_body *body, tile_role role, int tensor,
                  tile_pair value);

// The argument for a slot of a lag buffer before this step.
tile_pair lower_lag(tile_program *program, const typed_body *body, int lag, int slot);
// Adds the result(s) of a slot.
void lower_lag_result(tile_program *program, const typed_body *body, int lag, int slot,
                      tile_pair value);

// Arguments for every input, parameter and state, read or not, so that the backward has a gradient
// for each.
void lower_declare(tile_program *program, const typed_body *body);

// Chunk form. On padded rows inputs are 0; what follows from them may be infinite there, or no
// number.
tile_id lower_valid(tile_program *program, tile_id x);  // 0 on padded rows
tile_id lower_valid_if_unsafe(tile_program *program,
                              tile_id x);  // the same where x may not be finite there
// The result of an output. Its padded rows are not stored, but no derivative may become NaN there.
void lower_output(tile_program *program, const typed_body *body, int tensor, tile_pair value);
