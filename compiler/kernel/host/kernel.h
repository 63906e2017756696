// One kernel for one clone: instances, time, states around the nests of a plan.
#ifndef REC_KERNEL_HOST_KERNEL_H
#define REC_KERNEL_HOST_KERNEL_H

#include "compiler/emit/emit.h"
#include "compiler/kernel/description.h"
#include "compiler/plan/kernel_plan.h"

// Adds the functions of the clone to the module.
void host_lower(emitter *e, const codegen_kernel *k, const char *symbol);
// Scratch alone.
codegen_bytes host_scratch(arena *a, const kernel *k, codegen_clone clone, number_type dtype);

#endif
