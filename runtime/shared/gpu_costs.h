// The figures of gpu_costs.def, by name.
#ifndef REC_SHARED_GPU_COSTS_H
#define REC_SHARED_GPU_COSTS_H

#define GPU_OPERATION(op, instructions, specials)
#define GPU_FACTOR(name, value, unit, what, source)
enum {
#define GPU_COUNT(name, value, unit, what, source) GPU_COST_##name = (value),
#include "runtime/shared/gpu_costs.def"
#undef GPU_COUNT
};
#undef GPU_FACTOR

#define GPU_COUNT(name, value, unit, what, source)
#define GPU_FACTOR(name, value, unit, what, source) static const double gpu_cost_##name = (value);
#include "runtime/shared/gpu_costs.def"
#undef GPU_FACTOR
#undef GPU_COUNT
#undef GPU_OPERATION

#endif
