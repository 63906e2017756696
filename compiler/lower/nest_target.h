// What nests become on one kind of processor. The host has a table in host/nest_target.c, GPUs have
// one in gpu/nest_target.c. A `lower` gets its table when it is opened; the files of lower/ ask for
// no processor. A table leaves out what its processor needs not: `around`, `wait`, `buffered`,
// `by_bits`, `spacing`, `layout`, `enter`, `list`.
#pragma once

#include "compiler/emit/fields.h"
#include "compiler/lower/nests.h"
#include "compiler/lower/repeats.h"

enum { NEST_KINDS = NEST_FIRST_EXTREME + 1 };

struct nest_target {
  // ---- nests ----
  // All nests of a region in order, by lower_nests_from.
  void (*region)(lower *l, nest_range nests);
  // One nest: calls `body`, which ends in the row of its kind below, between what must stand before
  // and after the nest.
  void (*around)(lower *l, const plan_nest *nest, nest_lowering *body);
  // By kind of nest. What the nest reads has been written by all threads.
  nest_lowering *nests[NEST_KINDS];

  // ---- loops ----
  // Calls `inner` at each point of these axes. Points may run in any order, and at the same time.
  void (*points)(lower *l, const loop_axes *axes, place_in_loops *at, nest_function *inner,
                 void *data);
  // The same for a body that takes neighbours along the last axis in the lanes of a vector.
  // `copies`: it only loads and stores.
  void (*vectors)(lower *l, const loop_axes *axes, bool copies, point_function *body, void *data);
  // See lower_wait.
  void (*wait)(lower *l);

  // ---- memory ----
  // Reads and writes a view at a place: a scalar, or a vector if the vector axis is among the axes
  // and has a stride.
  ir (*load)(lower *l, const view *v, const place_in_loops *at, axis_set axes);
  void (*store)(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x);
  // The value at a place of a value that lies in a buffer. NULL: that of the buffer's view.
  ir (*buffered)(lower *l, const place_in_loops *at, tile_id id);
  // A number of a result, where it is wanted: stored, or added to what stands there.
  void (*result)(lower *l, const result_target *target, const place_in_loops *at, axis_set axes,
                 ir x);
  // A copy of a tensor, behind `wait`.
  void (*copy)(lower *l, const view_copy *c);
  // Makes addresses of the bits of numbers, and says of which; false: not here.
  bool (*by_bits)(const lower *l, int_fields *f);
  // How far apart the numbers of a buffer lie if each thread has its own. Moves `base` to the first
  // of this thread.
  int (*spacing)(lower *l, const plan_buffer *b, ir *base);
  // Which numbers of the buffer trade places. Its rows have at least two axes.
  plan_layout (*layout)(const lower *l, const plan_buffer *b, ir base);

  // ---- functions of their own (repeats.c, outline.c) ----
  // `l` is a copy for another function, whose builder stands at its start.
  void (*enter)(lower *l);
  // Adds what nests read of the target's own to the surroundings that such a function gets.
  void (*list)(lower *l, arena *a, ir_list *list);
  bool calls_frequent;  // nests that come often become calls, in whatever order they come
  bool tells_apart;     // memory of different buffers is told apart for LLVM
  // variables go in and come back as values: those with an address would lie in memory
  bool hands_values;
};

extern const nest_target host_nest_target, gpu_nest_target;
