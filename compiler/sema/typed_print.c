// A body as text, for `recc --emit=types`: declarations first, then one value per line.
//
//   recurrence r(G, N = 4)
//     input x[G,N]
//     output y[G] = %3
//     %0 [G,N] = input x
//     %1 [G,N] = sigmoid %0  "g"
//     ...
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sema/sema.h"
#include "compiler/sema/typed.h"
#include "compiler/syntax/syntax.h"

typedef struct text {
  arena *memory;
  VEC(char)
  bytes;
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char *more = arena_vprintf(t->memory, format, arguments);
  va_end(arguments);
  for (; *more; more++) vec_push(t->memory, &t->bytes, *more);
}

// The shortest decimal text that reads back as the same number.
static void put_number(text *t, double number) {
  char digits[40];
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, number);
    if (isnan(number) || strtod(digits, NULL) == number) break;
  }
  put(t, "%s", digits);
}

static void put_axes(text *t, const typed_body *body, axis_set axes) {
  put(t, "[");
  const char *comma = "";
  for (int i = 0; i < body->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    put(t, "%s%s", comma, body->axes.items[i].name);
    comma = ",";
  }
  put(t, "]");
}

static void put_header(text *t, const typed_body *body) {
  put(t, "recurrence %s(", body->name);
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    put(t, "%s%s", i ? ", " : "", axis->name);
    if (axis->size != TYPED_RUNTIME_SIZE) {
      put(t, " = %lld", (long long)axis->size);
    } else if (axis->size_expr) {
      put(t, " = %s at run time", expr_to_text(t->memory, axis->size_expr));
    }
    if (axis->least) put(t, " >= %lld", (long long)axis->least);
  }
  put(t, ")\n");
}

static void put_tensor(text *t, const typed_body *body, const typed_tensor *tensor) {
  static const char *const words[] = {"input", "param", "state", "output"};
  put(t, "  %s %s", words[tensor->kind], tensor->name);
  for (int i = 0; i < tensor->axis_count; i++) {
    put(t, "%s%s", i ? "," : "[", body->axes.items[tensor->axes[i]].name);
  }
  if (tensor->axis_count) put(t, "]");
  if (tensor->complex) put(t, " : complex");
  if (tensor->promised) {
    put(t, " in [");
    put_number(t, tensor->low);
    put(t, ", ");
    put_number(t, tensor->high);
    put(t, "]");
  }
  if (tensor->start) put(t, " ~ %s", start_print(t->memory, body, tensor->start));
  if (tensor->assigned >= 0) put(t, " = %%%d", tensor->assigned);
  put(t, "\n");
}

static void put_leaf(text *t, const typed_body *body, const typed_value *v) {
  switch (v->op) {
    case VALUE_NUMBER:
      put(t, " ");
      put_number(t, v->number);
      break;
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX: put(t, " %s", body->axes.items[v->index].name); break;
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS: put(t, " %s", body->tensors.items[v->index].name); break;
    case VALUE_LAG: put(t, " %s %d", body->lags.items[v->index].name, v->steps); break;
    default: break;
  }
}

static void put_value(text *t, const typed_body *body, int id) {
  const typed_value *v = &body->values.items[id];
  put(t, "  %%%d ", id);
  put_axes(t, body, v->axes);
  put(t, "%s = %s", v->complex ? " complex" : "", value_op_text(v->op));
  put_leaf(t, body, v);
  if (v->over) put_axes(t, body, v->over);
  for (int i = 0; i < value_arity(v->op); i++) put(t, " %%%d", v->args[i]);
  if (v->op == VALUE_WHOLE_POWER) put(t, " %d", v->index);
  if (v->op == VALUE_RENAME) {
    put(t, " %s -> %s", body->axes.items[v->index].name, body->axes.items[v->index2].name);
  }
  if (v->op == VALUE_SLICE) put(t, " %s = %d", body->axes.items[v->index].name, v->steps);
  if (v->name) put(t, "  \"%s\"", v->name);
  put(t, "\n");
}

char *typed_print_body(arena *memory, const typed_body *body) {
  text t = {.memory = memory};
  put_header(&t, body);
  for (int i = 0; i < body->tensors.count; i++) put_tensor(&t, body, &body->tensors.items[i]);
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    put(&t, "  lag %s", lag->name);
    put_axes(&t, body, lag->axes);
    put(&t, "%s depth %d of %%%d\n", lag->complex ? " : complex" : "", lag->depth, lag->source);
  }
  for (int i = 0; i < body->values.count; i++) put_value(&t, body, i);
  vec_push(memory, &t.bytes, '\0');
  return t.bytes.items;
}
