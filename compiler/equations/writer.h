// A tile program on its way to equations (program.c).
#pragma once

#include "compiler/equations/formula.h"

typedef struct tile_writer {
  arena *a;
  const tile_program *p;
  const tile_section *sections;
  const char **names;  // of values that have equations; NULL: written where they are used
  bool *known;         // its equation stands in the forward program
  bool *derived;       // the forward program has no such value
  int *uses, *weight;
  int *results;  // the result that gave its name, -1: none
  int depth;     // of sums along time around the place at hand
  VEC(const char *) taken;
  equation_list list;
} tile_writer;

static inline const char *formula_axis_name(const tile_writer *w, int axis) {
  return w->p->axes.items[axis].name;
}

static inline long long formula_axis_size(const tile_writer *w, int axis) {
  return (long long)w->p->axes.items[axis].size;
}

static inline bool counts_steps(const tile_writer *w, int axis) {
  return w->p->axes.items[axis].body_axis < 0;
}

static inline axis_set step_axes(const tile_writer *w, axis_set axes) {
  for (int axis = 0; axis < w->p->axes.count; axis++)
    if (!counts_steps(w, axis)) axes &= ~axis_bit(axis);
  return axes;
}

// names.c
// A tensor of which the program has imaginary parts.
bool is_complex_place(const tile_writer *w, const tile_place *place);
// Whether a value is its operand seen otherwise, and that operand.
bool is_view_value(const tile_writer *w, tile_id id);
tile_id equation_view(const tile_writer *w, tile_id id);
// Counts uses, then chooses the values that have equations of their own.
void name_values(tile_writer *w);
