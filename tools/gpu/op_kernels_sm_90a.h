// The kernel of an operation that sm_90a alone has.
#pragma once

#include "compiler/kernel/gpu/gpu.h"

void gpu_group_op_kernel(llvm_module *m, emitter *e, gpu_op op, const char *symbol);
