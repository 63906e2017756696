// Reverse mode, shared by the sweep (autodiff.c) and the rules (vjp.c).
#pragma once

#include "compiler/tile/tile.h"

// One term of the cotangent of a value.
typedef struct cotangent_term {
  tile_id value;
  axis_set partial;
  tile_branch branch;  // where it counts: what its user belongs to, and its target does not
} cotangent_term;

typedef VEC(cotangent_term) cotangent_terms;

// How a value's branches of `select` keep it from being seen (see guards in autodiff.c).
typedef enum guard { GUARD_NONE, GUARD_PADDING, GUARD_BRANCH } guard;

typedef struct gradient {
  const tile_program *forward;
  // the backward program; its first values are those of `forward`, with the same numbers
  tile_program *program;
  cotangent_terms *body;      // by forward value: terms that arise in each run
  cotangent_terms *epilogue;  // for values of the prologue: terms that arise once
  bool *wanted;               // does a gradient reach an argument through this value?
  tile_branch *branches;      // by forward value
  guard *guards;
  bool *unsafe;             // may be infinite or NaN where no branch takes it
  bool *unsafe_on_padding;  // may be so on padded rows
  VEC(axis_set)
  partial;  // of the backward program's values, as far as computed
  VEC(tile_section)
  sections;
} gradient;

// The rule of a value's operation: `dy` is its cotangent. Calls gradient_give for each operand.
void gradient_apply_rule(gradient *g, tile_id id, tile_id dy);

// Whether a gradient comes back through the operation at all.
bool gradient_has_rule(tile_op op);

// Adds a term to the cotangent of operand `k` of a value: the axes that the operand lacks are
// summed.
void gradient_give(gradient *g, tile_id id, int k, tile_id term, tile_id dy);
// The same for the product `dy * factor`, summed over what the operand lacks.
void gradient_give_product(gradient *g, tile_id id, int k, tile_id dy, tile_id factor);
