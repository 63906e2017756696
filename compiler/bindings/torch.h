// Modules of torch: recurrences with their parameters, and models.
#pragma once

#include "compiler/bindings/python.h"

// A start, and what it needs to know of its weight. `_shape` is a local variable with the weight's
// shape.
typedef struct torch_start {
  const typed_start *start;
  const char *weight;        // what is filled; or
  const char *variable;      // gets the draw
  const char *const *draws;  // by value of the start: the variable with the draw of another weight
  const char *const *sizes;  // of axes, as Python
  const int *places;         // of axes among those of the weight; -1: it has none
  bool is_convolution;
  int layer, layers;
} torch_start;

// Lines that fill the weight or the variable, as the body of a `with`.
void torch_put_start(FILE *out, const torch_start *start);

// The models of the file, each a class.
void torch_put_models(const python_printer *p);
