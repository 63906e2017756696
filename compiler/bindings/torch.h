// Modules of torch: recurrences with their parameters, and models.
#ifndef REC_BINDINGS_TORCH_H
#define REC_BINDINGS_TORCH_H

#include "compiler/bindings/python.h"

// A start, and what it needs to know of its weight. `_shape` is a local variable with the weight's shape.
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

// The operators of a variant.
void torch_put_operators(const python_printer *p, const python_recurrence *r);
// "q, k, v, gate, h0_S, cu_seqlens": what operators take; steps take no cu_seqlens.
void torch_put_operands(const python_printer *p, const python_recurrence *r, bool step);
// "torch.is_grad_enabled() and (..)"
void torch_put_needs_gradient(const python_printer *p, const python_recurrence *r);
// The schema of an operator; `save`: with what it saves.
void torch_put_schema_of(const python_printer *p, const python_recurrence *r, bool step, bool save);
// The place of an axis among those of a tensor, -1 if it has none.
int torch_place_of(const python_recurrence *r, int memory, int axis, bool step);
// "torch.float32"
const char *torch_type_of(const python_printer *p, const python_recurrence *r, int memory);
// The function of a recurrence with its parameters: `ssd_module`. Nothing, if it has none.
void torch_put_module(const python_printer *p, const python_function *f);
// The models of the file, each a class.
void torch_put_models(const python_printer *p);

#endif
