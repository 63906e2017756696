// Tile programs of a recurrence: the schedule makes and rewrites all of them by the passes of
// programs.def.
#pragma once

#include "compiler/base/pass.h"
#include "compiler/chunk/chunk.h"
#include "compiler/plan/machine.h"

typedef enum program_pass {
#define PROGRAM_PASS(pass, name, run) PROGRAM_##pass,
#include "compiler/schedule/programs.def"
#undef PROGRAM_PASS
  PROGRAM_PASSES
} program_pass;

extern const pass_stage program_stage;

// What a pass works on, and what it leaves. Each pass reads and writes what it needs.
typedef struct program_work {
  const recurrence *recurrence;
  const tile_program *from;
  int length;      // of chunks
  unsigned roles;  // RESTRICT: bits; TRANSFER: the role of the states
  bool given;      // TRANSFER: steps before the first one are
  // TRANSFER: along which states may have columns; SAVE, KEEP, SLICE: the instances
  axis_set axes;
  codegen_clone clone;          // SAVE, KEEP, SLICE: by whose figures it is chosen
  const tile_program *forward;  // SLICE: of a slice, which it changes
  // TILE: of so many entries; TRANSFER: the axis of the columns, -1: there are none
  int axis, entries;
  // made
  const tile_program *made;  // NULL: there is no such program, and `why` may say why not
  const char *why;
  tile_gradient gradient;  // DIFFERENTIATE; SAVE and KEEP change it
  double spared;           // SAVE, KEEP: the share of the work of backward; SLICE: of forward
} program_work;

// Runs a pass. The verifier looks at all programs that it leaves; a mistake there is a bug of that
// pass.
void program_run(arena *a, program_pass pass, program_work *w);
// Passes that need nothing else: from a recurrence, or from a program.
const tile_program *program_of(arena *a, program_pass pass, const recurrence *r);
const tile_program *program_rewritten(arena *a, program_pass pass, const tile_program *from);
// CHUNK, HOST_CHUNK, POINTWISE
const tile_program *program_of_length(arena *a, program_pass pass, const recurrence *r, int length,
                                      const char **why);
tile_gradient program_gradient(arena *a, const tile_program *forward);
