// Elementary functions that a GPU has instructions for.
#ifndef REC_EMIT_MATH_GPU_H
#define REC_EMIT_MATH_GPU_H

#include "compiler/emit/emit.h"

// Are exponentials taken from the GPU's instruction?
bool gpu_approximates(const emitter *e);
ir gpu_exp(emitter *e, ir x);
ir gpu_exp2(emitter *e, ir x);
// x / y where neither y nor 1 / y is denormal.
ir gpu_quotient(emitter *e, ir x, ir y);

#endif
