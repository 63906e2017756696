// The size of an axis that is computed from others: E = 2 * D.
#include <math.h>
#include <string.h>

#include "compiler/sema/typed.h"

static double evaluate_axis_value(const typed_body *body, const ast_expr *e, const int64_t *sizes) {
  switch (e->kind) {
    case AST_NUMBER: return e->number.value;
    case AST_NEGATE: return -evaluate_axis_value(body, e->negate.operand, sizes);
    case AST_NAME:
      for (int i = 0; i < body->axes.count; i++)
        if (strcmp(body->axes.items[i].name, e->name.text) == 0) return (double)sizes[i];
      return strcmp(e->name.text, "pi") == 0 ? acos(-1) : NAN;
    case AST_BINARY: {
      double a = evaluate_axis_value(body, e->binary.left, sizes),
             b = evaluate_axis_value(body, e->binary.right, sizes);
      switch (e->binary.op) {
        case AST_ADD: return a + b;
        case AST_SUBTRACT: return a - b;
        case AST_MULTIPLY: return a * b;
        case AST_DIVIDE: return a / b;
        case AST_POWER: return pow(a, b);
        default: return NAN;
      }
    }
    case AST_CALL: {  // min or max of two
      double a = evaluate_axis_value(body, e->call.args.items[0].value, sizes),
             b = evaluate_axis_value(body, e->call.args.items[1].value, sizes);
      return strcmp(e->call.callee.text, "min") == 0 ? fmin(a, b) : fmax(a, b);
    }
    default: return NAN;
  }
}

double typed_axis_value(const typed_body *body, int axis, const int64_t *sizes) {
  return evaluate_axis_value(body, body->axes.items[axis].size_expr, sizes);
}
