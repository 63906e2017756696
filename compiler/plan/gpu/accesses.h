// GPU: what a nest of points reads and writes in memory, and how the banks of shared memory serve a warp that does.
#ifndef REC_PLAN_GPU_ACCESSES_H
#define REC_PLAN_GPU_ACCESSES_H

#include "compiler/plan/plan.h"

// A number of a buffer, a state or an argument at a point of a nest.
typedef struct plan_access {
  int64_t stride[PLAN_MAX_AXES];  // by axis of the nest, in numbers
  number_type stored;
  plan_layout layout;
} plan_access;

typedef VEC(plan_access) plan_accesses;

// An index map above the memory that is read: a value of the operations that move an index.
typedef struct plan_index_map {
  const tile_value *v;
  const struct plan_index_map *above;
} plan_index_map;

// The strides of memory become those of what all these maps make of it. A joined axis has the stride of its inner one.
void plan_map_strides(const mapping *m, const tile_program *program, const plan_index_map *maps, int64_t *stride);
void plan_move_stride(int64_t *stride, int from, int to, int64_t factor);
// 1 for an axis whose size is known at run time alone: such a stride is wrong, and serves for estimates.
int64_t plan_size_or_one(const mapping *m, const tile_program *program, int axis);

// In any order, each once.
plan_accesses plan_accesses_of(arena *a, const mapping *m, const plan *p, const plan_nest *nest);

// Wavefronts of one access by 32 lanes: of `numbers` neighbours each, the first of them at these offsets. Lanes at -1 take no
// part.
int plan_wavefronts_of(const plan_access *access, const int64_t *offsets, int numbers);

#endif
