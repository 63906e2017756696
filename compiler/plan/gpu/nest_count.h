// A nest that nest_work.c and product_work.c count.
#pragma once

#include "compiler/plan/gpu/nest_work.h"

// What follows the nest is of one warp at one turn, until the end.
typedef struct nest_count {
  const placed_program *p;
  const plan_nest *nest;
  // of the first warp; its vector axis is that whose neighbours a thread takes together
  plan_lanes at;
  axis_set over;
  bool *seen;     // by value: it is loaded already
  double shares;  // numbers of a sum that the lanes of a point take at once
  double operations, accesses, loops;
  double addresses;  // made once, when the nest begins
  double wavefronts, specials, bytes, far;
  access_visitor *visitor;  // NULL: nobody looks
  double turns;             // of all warps
  bool fragment;            // see nest_access
} nest_count;

static inline const tile_value *counted_value(const nest_count *c, tile_id id) {
  return tile_at(c->p->p->program, id);
}

// nest_work.c
// An access by lanes that stand at `at`, so many times by all warps.
void count_shown(const nest_count *c, const plan_access *x, const plan_lanes *at, double times);
void count_operand(nest_count *c, tile_id id, const plan_index_map *maps);
void count_value(nest_count *c, tile_id id);
void count_result(nest_count *c, int result);
void count_buffer(nest_count *c, int buffer, access_kind kind, double times);

// product_work.c
nest_work gpu_work_of_mma(nest_count *c);
