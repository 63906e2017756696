// Instructions of an operation.
#include "compiler/plan/gpu/nest_work.h"

// Where exponentials and quotients are approximate.
static operation_cost approximate(tile_op op) {
  switch (op) {
#define GPU_COUNT(name, value, unit, what, source)
#define GPU_FACTOR(name, value, unit, what, source)
#define GPU_OPERATION(op, instructions, specials) \
  case TILE_##op: return (operation_cost){instructions, specials};
#include "compiler/abi/gpu_costs.def"
#undef GPU_OPERATION
#undef GPU_FACTOR
#undef GPU_COUNT
    default: return (operation_cost){tile_op_cost(op), 0};
  }
}

operation_cost gpu_cost_of_operation(const placed_program *p, tile_op op) {
  return number_is_narrow(p->m->dtype) ? approximate(op) : (operation_cost){tile_op_cost(op), 0};
}
