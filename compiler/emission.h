// What --emit prints.
#pragma once

#include "compiler/pipeline.h"

typedef struct compilation compilation;

// What the passes make for an emission, or leave out.
enum {
  // nothing of the host's code; GPU code as text, for sm_80 where no target is named
  EMISSION_GPU = 1,
  EMISSION_EXECUTOR = 2,   // the executor's code, whatever --target says
  EMISSION_MODULE = 4,     // of GPU code the module alone, from which that of each target is made
  EMISSION_TEXT = 8,       // the host's code as text
  EMISSION_BACKWARD = 16,  // the backward of a tile program that was read
  EMISSION_LIBRARY = 32,   // no more than any library: of all its variants
  // the library, and beside it a Python file that calls it; -o names their folder
  EMISSION_BINDING = 64,
  EMISSION_LAYERS = 128,     // layers of the file by themselves
  EMISSION_HF_KERNEL = 256,  // in a folder of Hugging Face's `kernels` below that one
  // the executor's code, which counts, beside that of GPUs; of the host's as little as can be
  EMISSION_COUNT = 512
};

typedef struct emission {
  const char *name;
  pipeline_layer layer;  // it is printed behind the last pass that writes this one
  void (*dump)(compilation *, FILE *);
  unsigned needs;       // EMISSION_..
  const char *comment;  // what begins one in a file of it; NULL: it holds its mark by itself
} emission;

const emission *emission_find(const char *name);
// All of them, for messages.
const char *emission_names(arena *a);

// Prints to the output file if there is one, else to `out`. False: compilation.failure says why
// not.
bool emission_print(compilation *c, const emission *what, FILE *out);
