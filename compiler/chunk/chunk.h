// Chunk builders: from a recurrence and its structure to tile programs.
//
// Every recurrence has a step program (one step; step.c). A recurrence whose states fit a chunked
// form also has a chunk program (linear_scan.c). Each structure of states has a file of its own,
// which scan.h lists. Both are forward programs; tile/autodiff.c derives their backward. Builders
// look at structure, never at names. Construction keeps the four rules of stable chunk programs,
// and tests check them: one-sided sums, exact pair decays, division as a primitive, masked
// effective operands.
#pragma once

#include "compiler/tile/tile.h"

// The longest chunk that users may ask for.
enum { CHUNK_MOST_STEPS = 4096 };

// One step: exists for every recurrence. Lag buffers are states of their own, one argument per
// slot.
tile_program *chunk_build_step(arena *a, const recurrence *from);

// `length` steps at once, for states that are linear in their own previous value. Products over
// tiles compute decays of any kind and sums over the state in its own update (linear_scan.c).
// States that are used entry by entry are scanned. NULL if the structure does not allow it; then
// *reason says why, in words for the report. Fewer steps where each has several sums over the state
// in its update: their triangular system would have too many rows for f32.
tile_program *chunk_build_linear_scan(arena *a, const recurrence *from, int length,
                                      const char **reason);

// The same for the host, whose products have the range of f32: decays of up to 2^-120 a segment
// have one anchor (block.c).
tile_program *chunk_build_for_host(arena *a, const recurrence *from, int length,
                                   const char **reason);
// The same for a forward of which no gradient is derived: more chunks go by their start.
tile_program *chunk_build_forward_for_host(arena *a, const recurrence *from, int length,
                                           const char **reason);

// The axes of the values that one distance of a Toeplitz block would hold. They exist for decaying
// states that are written and read by matrices that are the same at all steps; 0: there are none.
// Such blocks are not made: the report says what they would take.
axis_set chunk_toeplitz_axes(arena *a, const recurrence *from);

// `length` independent steps of a recurrence without states and lags (pointwise parts of layers).
// NULL otherwise.
tile_program *chunk_build_pointwise(arena *a, const recurrence *from, int length);
