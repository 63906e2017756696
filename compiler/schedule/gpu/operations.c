// Instructions of an operation.
#include "compiler/schedule/gpu/model.h"

// Where exponentials and quotients are approximate.
static operation_cost approximate(tile_op op) {
  switch (op) {
    case TILE_EXP: return (operation_cost){5, 1};
    case TILE_EXP2: return (operation_cost){4, 1};
    case TILE_EXPM1: return (operation_cost){12, 1};
    case TILE_LOG: return (operation_cost){12, 1};
    case TILE_LOG1P: return (operation_cost){14, 1};
    case TILE_SQRT:
    case TILE_SQRT_KINK:
    case TILE_RSQRT: return (operation_cost){8, 1};
    case TILE_SIGMOID:
    case TILE_SILU: return (operation_cost){9, 2};
    case TILE_LOG_SIGMOID:
    case TILE_SOFTPLUS: return (operation_cost){20, 2};
    case TILE_TANH: return (operation_cost){12, 2};
    case TILE_DIV: return (operation_cost){3, 1};
    case TILE_POWER: return (operation_cost){20, 2};
    default: return (operation_cost){tile_op_cost(op), 0};
  }
}

operation_cost model_cost_of_operation(const placed_program *p, tile_op op) {
  return number_is_narrow(p->w->m.dtype) ? approximate(op) : (operation_cost){tile_op_cost(op), 0};
}
