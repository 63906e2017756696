// Elementary functions that a GPU has instructions for.
#pragma once

#include "compiler/emit/emit.h"

// Are exponentials, roots and quotients taken from the GPU's approximate instructions?
bool gpu_approximates(const emitter *e);
ir gpu_exp(emitter *e, ir x);
ir gpu_exp2(emitter *e, ir x);
// x / y where neither y nor 1 / y is denormal.
ir gpu_quotient(emitter *e, ir x, ir y);
// x / y of any numbers.
ir gpu_division(emitter *e, ir x, ir y);
ir gpu_square_root(emitter *e, ir x);
ir gpu_rsqrt(emitter *e, ir x);
ir gpu_sigmoid(emitter *e, ir x);
ir gpu_tanh(emitter *e, ir x);
