// The kernel of an operation that sm_90a alone has.
#ifndef REC_TOOLS_GPU_OP_KERNELS_SM_90A_H
#define REC_TOOLS_GPU_OP_KERNELS_SM_90A_H

#include "compiler/kernel/gpu/gpu.h"

void gpu_group_op_kernel(llvm_module *m, emitter *e, gpu_op op, const char *symbol);

#endif
