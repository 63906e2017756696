// One kernel for one clone: instances, time, states around the nests of a plan.
#pragma once

#include "compiler/emit/emit.h"
#include "compiler/kernel/description.h"
#include "compiler/plan/kernel_plan.h"

// Adds the functions of the emitter's clone to the module, from the plan for that clone.
void host_lower(emitter *e, const host_plan *made);
