// The interpreter of tile values: every value as a dense float64 array. Tests compare rewrites,
// derivatives and kernels with it.
#pragma once

#include "compiler/tile/tile.h"

// A program with memory for its values. Arrays are row-major over the axes of a value in ascending
// position.
typedef struct tile_machine {
  const tile_program *program;
  int64_t sizes[64];  // by axis of the program
  double **data;      // by value; NULL only if memory was short
  int64_t *count;     // elements, by value
  tile_section *sections;
  int64_t valid;  // steps of this run that lie inside the sequence
} tile_machine;

// False if memory is short; then, too, tile_machine_free must be called.
bool tile_machine_new(arena *a, tile_machine *machine, const tile_program *program,
                      const int64_t *axis_sizes);
void tile_machine_free(tile_machine *machine);
// Computes the values of one section, in order; arguments must be loaded. In the body ACCUMULATE
// adds up.
void tile_machine_run(tile_machine *machine, tile_section section);
// Sets all accumulators to 0.
void tile_machine_reset(tile_machine *machine);
// Distance of neighbours along an axis in a value's array; 0 if the value lacks it.
int64_t tile_machine_stride(const tile_machine *machine, tile_id id, int axis);
