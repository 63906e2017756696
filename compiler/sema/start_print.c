// A start as one line: its steps in order, separated by ";", operands by their positions from 0.
//
//   1; 16; uniform 0 1; log 2
//
// Steps: a number, `size AXIS`, `index AXIS`, `uniform A B`, `loguniform A B`, `normal A B`,
// `inv_softplus A`. Also `identity`, `layer`, `layers`, `legs_imag AXIS A`, `legs_input AXIS A`,
// `draw PATH`, `ipow A N`, and the elementwise rows of value_ops.def by their text.
#include "compiler/base/text.h"
#include "compiler/sema/sema.h"

int start_arity(const start_value *v) {
  switch (v->kind) {
    case START_VALUE: return value_arity(v->op);
    case START_UNIFORM:
    case START_LOGUNIFORM:
    case START_NORMAL: return 2;
    case START_LEGS_IMAG:
    case START_LEGS_INPUT:
    case START_INV_SOFTPLUS: return 1;
    default: return 0;
  }
}

static const char *start_step_text(arena *memory, const typed_body *body, const start_value *v) {
  static const char *const draws[] = {
      [START_UNIFORM] = "uniform",      [START_LOGUNIFORM] = "loguniform",
      [START_NORMAL] = "normal",        [START_INV_SOFTPLUS] = "inv_softplus",
      [START_IDENTITY] = "identity",    [START_LAYER] = "layer",
      [START_LAYERS] = "layers",        [START_LEGS_IMAG] = "legs_imag",
      [START_LEGS_INPUT] = "legs_input"};
  if (v->kind == START_INDEX)
    return arena_printf(memory, "index %s", body->axes.items[v->axis].name);
  if (v->kind == START_OTHER_DRAW) return arena_printf(memory, "draw %s", v->path);
  if (v->kind == START_VALUE && v->op == VALUE_NUMBER) {
    char number[SHORTEST_TEXT];
    return arena_strdup(memory, shortest_text(v->number, number));
  }
  if (v->kind == START_VALUE && v->op == VALUE_AXIS_SIZE)
    return arena_printf(memory, "size %s", body->axes.items[v->axis].name);
  const char *text = v->kind == START_VALUE ? value_op_text(v->op) : draws[v->kind];
  if (v->kind == START_LEGS_IMAG || v->kind == START_LEGS_INPUT)
    text = arena_printf(memory, "%s %s", text, body->axes.items[v->axis].name);
  for (int i = 0; i < start_arity(v); i++) text = arena_printf(memory, "%s %d", text, v->args[i]);
  if (v->kind == START_VALUE && v->op == VALUE_WHOLE_POWER)
    text = arena_printf(memory, "%s %d", text, v->exponent);
  return text;
}

char *start_print(arena *memory, const typed_body *body, const typed_start *start) {
  char *line = arena_strdup(memory, "");
  for (int i = 0; i < start->values.count; i++)
    line = arena_printf(memory, "%s%s%s", line, i ? "; " : "",
                        start_step_text(memory, body, &start->values.items[i]));
  return line;
}
