/* Elementary functions that a GPU has instructions for. Internal to compiler/codegen. */
#ifndef REC_CODEGEN_EXPR_GPU_H
#define REC_CODEGEN_EXPR_GPU_H

#include "emit.h"

/* Are exponentials taken from the GPU's instruction? */
bool gpu_approximates(const emitter *e);
ir gpu_exp(emitter *e, ir x);
ir gpu_exp2(emitter *e, ir x);
/* x / y where neither y nor 1 / y is denormal. */
ir gpu_quotient(emitter *e, ir x, ir y);

#endif
