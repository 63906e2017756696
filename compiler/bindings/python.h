// What the printers of Python files share: the names and roles of a recurrence's tensors, and text
// of Python.
#pragma once

#include "compiler/bindings/bindings.h"

// Names of one scope, so that none is given twice.
typedef struct python_scope {
  arena *memory;
  VEC(const char *) names;
} python_scope;

// A name for `wanted` that is free in the scope, and no word of Python or of the generated text:
// `lambda` becomes `lambda_`.
const char *python_name(python_scope *scope, const char *wanted);

typedef VEC(int) memory_list;  // positions in abi.memories

// How Python calls the parts of a recurrence, or of a variant of it.
typedef struct python_recurrence {
  const artifact_recurrence *made;
  const abi_recurrence *abi;
  number_type dtype;  // of tokens
  const char *symbol;
  const char **names;      // by memory: q, h0_S, d_q, ..
  memory_list operands;    // inputs, params, then states and lag buffers before the first step
  memory_list results;     // outputs, then states and lag buffers after the last step
  memory_list cotangents;  // by result
  memory_list gradients;   // by operand
  python_scope locals;     // taken in its functions
} python_recurrence;

// What users call: a recurrence with all of its variants, which have the same names.
typedef struct python_function {
  const char *name;    // of the function; of others with an ending
  const char *symbol;  // of all variants
  VEC(python_recurrence) variants;
} python_function;

typedef struct python_printer {
  arena *memory;
  FILE *out;
  const artifact *library;
  const graph_program *graph;  // NULL: no models
  VEC(python_function) functions;
} python_printer;

// The recurrence at a position of the library, and those behind it that are its variants.
python_function python_function_of(arena *a, const artifact *library, int first,
                                   python_scope *module);

static inline const python_recurrence *python_first_of(const python_function *f) {
  return &f->variants.items[0];
}
// Whether the source has it: what layers make has a dot in its name.
bool python_is_own(const python_recurrence *r);
const abi_memory *python_memory(const python_recurrence *r, int memory);
bool python_is_param(const python_recurrence *r, int memory);
bool python_is_optional(const python_recurrence *r, int memory);
// "float32", "bfloat16"
const char *python_type(number_type dtype);
// Whether -D gives a header axis several sizes, which variants are chosen by.
bool python_is_chosen(const python_recurrence *r, int axis);

// Text inside a docstring, its further lines behind `indent`.
void python_put_text(FILE *out, const char *text, const char *indent);
// Begins the docstring of a recurrence's function, which ends with what arguments are.
void python_put_doc(const python_printer *p, const python_function *f);
// A line for each tensor of a list: name, shape, type, what the source says of it.
void python_put_tensors(const python_printer *p, const python_function *f, const memory_list *list,
                        bool step);
// "q, k, v": a list; as a tuple "(q, k, v)".
void python_put_names(const python_printer *p, const python_recurrence *r, const memory_list *list);
void python_put_tuple(const python_printer *p, const python_recurrence *r, const memory_list *list);
// A member of a class for each tensor of a list: `y: torch.Tensor  # [batch, time, H, V] float32`.
void python_put_fields(const python_printer *p, const python_function *f, const memory_list *list,
                       const char *type);
// A line of dashes with a title.
void python_put_rule(FILE *out, const char *title);
// `_family("gla")`: the variants of a recurrence, as common.py reads them in the manifest.
void python_put_family(const python_printer *p, const python_function *f);
// The text of an embedded file below its first line of dashes.
void python_put_embedded(FILE *out, const char *name);

void numpy_put_function(const python_printer *p, const python_function *f);
void jax_put_function(const python_printer *p, const python_function *f);
void torch_put_function(const python_printer *p, const python_function *f);
// A recurrence with its parameters: `ssd_module`. Nothing, if it has none.
void torch_put_module(const python_printer *p, const python_function *f);
// The layers and models of the file: their classes, or the objects that run them.
void torch_put_models(const python_printer *p, bool classes);
