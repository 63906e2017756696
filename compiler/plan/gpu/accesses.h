// GPU: what nests read and write in memory, where the lanes of a warp are, and how the banks of
// shared memory serve them.
#pragma once

#include "compiler/plan/plan.h"

// A number of a buffer, a state or an argument at a point of a nest.
typedef struct plan_access {
  int64_t stride[PLAN_MAX_AXES];  // by axis of the nest, in numbers
  int64_t offset;                 // of entries that slices take
  number_type stored;
  plan_layout layout;
  bool open;   // layouts.c chooses it later: this one, or none, for all that is known
  int memory;  // a buffer; from plan.buffers.count on, a carried value; -1: tokens and parameters
  // Where memory has places (plan/kernel/gpu/accesses.c).
  bool placed, in_shared;  // not placed: in registers
  // a tensor of the call, whose alignment is not known: threads load it number by number
  bool of_call;
  // wgmma's layout: numbers of a row, and of a tile of columns; 0: rows one after another
  int64_t width, tile;
} plan_access;

// An index map above the memory that is read: a value of the operations that move an index.
typedef struct plan_index_map {
  const tile_value *v;
  const struct plan_index_map *above;
} plan_index_map;

// The access to memory becomes one to what all these maps make of it.
void plan_map_access(const tile_program *program, const plan_index_map *maps, plan_access *access);

// Of a buffer, of a tensor of the call, and of an argument, while no memory has a place: buffers and rows
// of tokens are taken to be in shared memory, without the axes of other instances.
plan_access plan_access_of_buffer(const mapping *m, const plan *p, int buffer);
plan_access plan_access_of_tensor(const mapping *m, const plan *p, const tile_place *place);
plan_access plan_access_of_argument(const mapping *m, const plan *p, int argument);

// A typical size for an axis whose size is known at run time alone: such a stride is wrong, and
// serves for estimates.
int64_t plan_typical_size(const tile_program *program, int axis);

// Where the lanes of a warp are in an access.
typedef struct plan_lanes {
  axis_set placed;  // these axes have an index; along others all lanes are at 0
  int index[PLAN_MAX_AXES][PLAN_BANKS];
  bool absent[PLAN_BANKS];  // lanes that take no part
  int vector, numbers;      // neighbours along this axis that a lane takes at once
} plan_lanes;

// No lane has a place yet.
void plan_put_none(plan_lanes *at, int vector, int numbers);
void plan_put_index(plan_lanes *at, int axis, int lane, int index);
// In the first turn of a nest of points.
void plan_put_lanes(const mapping *m, const tile_program *program, const plan_nest *nest,
                    const plan_threads *threads, plan_lanes *at);
// Neighbouring lanes have neighbouring pieces of these axes, of `numbers` along the last one.
void plan_put_pieces(const tile_program *program, const axis_list *list, int numbers,
                     plan_lanes *at);
// Lanes that share a column: the first rows of neighbours lie so many rows apart.
void plan_put_rows(const tile_program *program, const axis_list *columns, int row, int lanes,
                   int64_t apart, plan_lanes *at);
// Lines of one axis and columns of another, as lanes have them in an accumulator or in an operand
// loaded number by number.
void plan_put_fragment(int line, int along, int numbers, plan_lanes *at);
// So many lines, of each two times four numbers: rows of 16 bytes that ldmatrix loads.
void plan_put_matrices(int line, int along, int lines, plan_lanes *at);
// Do the neighbours that a lane takes lie apart in memory? Then it has an access for each of them;
// or one, if all are the same number.
bool plan_lies_apart(const plan_access *access, const plan_lanes *at);
// -1: a lane that takes no part.
void plan_offsets_of(const plan_access *access, const plan_lanes *at, int64_t offsets[PLAN_BANKS]);

// A load or a store of a warp; bytes: outside of the multiprocessor.
typedef struct warp_access {
  double accesses, wavefronts, bytes;
} warp_access;

typedef enum access_kind { LOAD, STORE } access_kind;
warp_access plan_access_of_warp(const plan_access *x, access_kind kind, const plan_lanes *at);
