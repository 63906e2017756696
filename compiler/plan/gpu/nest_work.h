// What the warps of a block do in a nest, counted from its plan: before memory has places, to choose
// threads and layouts by it, and behind, for the schedule.
#pragma once

#include "compiler/abi/gpu_work.h"
#include "compiler/plan/gpu/barriers.h"
#include "compiler/plan/kernel_plan.h"

// What the warps of a block do in a nest, or in a chunk.
typedef struct nest_work {
  gpu_work all;
  int used;  // warps with work; 0: all of the block
  // what `instructions` are made of: besides operations and accesses, turns of loops or of the
  // steps of a product, and what each warp or block of a product does once
  double operations, accesses, loops, begins, addresses;
} nest_work;

// An access of a nest as the lanes of a warp make it in the first turn.
typedef struct nest_access {
  const plan_access *x;
  const plan_lanes *at;
  double times;   // of all warps of the block
  double warps;   // that make it at the same time
  bool fragment;  // lanes have places that are known before the loops of the nest
  int lines;      // bits of the number of a line that are constants in the code
} nest_access;

// Sees each of them.
typedef struct access_visitor {
  void (*visit)(struct access_visitor *self, const nest_access *access);
} access_visitor;

// solve_work.c
// Sizes that are known at run time alone are typical ones.
int64_t gpu_size_in(const placed_program *p, int axis);
// Points of a nest along these axes.
double gpu_entries(const placed_program *p, axis_set axes);
// How often the warps of a block go through the body of a nest.
typedef struct gpu_turns {
  double all, busiest;
} gpu_turns;
gpu_turns gpu_turns_of(const placed_program *p, double points);
// Warps that have one of so many turns.
double gpu_warps_in(const placed_program *p, double turns);
nest_work gpu_work_of_solve(const placed_program *p, const plan_nest *nest,
                            access_visitor *visitor);

// vector_work.c: products by threads, and of a matrix of parameters and vectors.
nest_work gpu_work_by_threads(const placed_program *p, const plan_nest *nest);

// nest_work.c
// `since`: what the nests before it have touched; NULL: barriers do not count. `visitor`: or NULL.
nest_work gpu_work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest,
                           memory_since *since, access_visitor *visitor);
