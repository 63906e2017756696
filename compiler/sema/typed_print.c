// A body as text, for `recc --emit=types`: declarations first, then one value per line.
//
//   recurrence r(G, N = 4)
//     input x[G,N]
//     output y[G] = %3
//     %0 [G,N] = input x
//     %1 [G,N] = sigmoid %0  "g"
//     ...
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/sema/sema.h"
#include "compiler/sema/typed.h"
#include "compiler/syntax/syntax.h"

const char *body_order_text(arena *a, const typed_body *body, const int *axes, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(a, "%s%s%s", text, i ? "," : "", body->axes.items[axes[i]].name);
  return text;
}

int body_axis_named(const typed_body *body, const char *name) {
  for (int i = 0; i < body->axes.count; i++)
    if (strcmp(body->axes.items[i].name, name) == 0) return i;
  return -1;
}

const char *body_axes_text(arena *a, const typed_body *body, axis_set axes) {
  int order[TYPED_MAX_AXES], count = 0;
  for (int i = 0; i < body->axes.count; i++)
    if (axis_in(axes, i)) order[count++] = i;
  return body_order_text(a, body, order, count);
}

void print_axis_list(FILE *out, const typed_body *body, axis_set axes) {
  const char *separator = "";
  fputc('[', out);
  for (int i = 0; i < body->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    fprintf(out, "%s%s", separator, body->axes.items[i].name);
    separator = ",";
  }
  fputc(']', out);
}

static void put_typed_header(FILE *out, arena *a, const typed_body *body) {
  fprintf(out, "recurrence %s(", body->name);
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    fprintf(out, "%s%s", i ? ", " : "", axis->name);
    if (axis->size != TYPED_RUNTIME_SIZE)
      fprintf(out, " = %lld", (long long)axis->size);
    else if (axis->size_expr)
      fprintf(out, " = %s at run time", expr_to_text(a, axis->size_expr));
    if (axis->least) fprintf(out, " >= %lld", (long long)axis->least);
  }
  fprintf(out, ")\n");
}

const char *tensor_kind_text(tensor_kind kind) {
  static const char *const words[] = {"input", "param", "state", "output"};
  return words[kind];
}

static void print_begin(FILE *out, const typed_body *body, const typed_tensor *state) {
  const typed_begin *begin = state->begin;
  if (begin->parameter != NO_PARAMETER) {
    fputs(body->tensors.items[begin->parameter].name, out);
    return;
  }
  if (state->complex) fputc('(', out);
  print_number(out, begin->number[0]);
  if (!state->complex) return;
  fputs(", ", out);
  print_number(out, begin->number[1]);
  fputc(')', out);
}

char *begin_text(arena *a, const typed_body *body, const typed_tensor *state) {
  text_stream text;
  print_begin(text_begin(&text), body, state);
  return text_end(&text, a);
}

bool body_begins(const typed_body *body) {
  bool any = false;
  for (int i = 0; i < body->tensors.count; i++) any |= body->tensors.items[i].begin != NULL;
  return any;
}

void print_tensor_kind(FILE *out, const typed_body *body, const typed_tensor *tensor) {
  if (tensor->complex) fputs(" : complex", out);
  if (tensor->promised) {
    fputs(" in [", out);
    print_number(out, tensor->low);
    fputs(", ", out);
    print_number(out, tensor->high);
    fputc(']', out);
  }
  if (!tensor->begin) return;
  fputs(" ~ ", out);
  print_begin(out, body, tensor);
}

void print_tensor(FILE *out, const typed_body *body, const typed_tensor *tensor) {
  fprintf(out, "  %s %s", tensor_kind_text(tensor->kind), tensor->name);
  for (int i = 0; i < tensor->axis_count; i++)
    fprintf(out, "%s%s", i ? "," : "[", body->axes.items[tensor->axes[i]].name);
  if (tensor->axis_count) fputc(']', out);
  print_tensor_kind(out, body, tensor);
}

static void put_typed_tensor(FILE *out, arena *a, const typed_body *body,
                             const typed_tensor *tensor) {
  print_tensor(out, body, tensor);
  if (tensor->start) fprintf(out, " ~ %s", start_print(a, body, tensor->start));
  if (tensor->assigned >= 0) fprintf(out, " = %%%d", tensor->assigned);
  fprintf(out, "\n");
}

void print_leaf(FILE *out, const typed_body *body, const typed_value *v) {
  switch (v->op) {
    case VALUE_NUMBER:
      fputc(' ', out);
      print_number(out, v->number);
      break;
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX: fprintf(out, " %s", body->axes.items[v->index].name); break;
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS: fprintf(out, " %s", body->tensors.items[v->index].name); break;
    case VALUE_LAG: fprintf(out, " %s %d", body->lags.items[v->index].name, v->steps); break;
    default: break;
  }
}

static void put_typed_value(FILE *out, const typed_body *body, int id) {
  const typed_value *v = &body->values.items[id];
  fprintf(out, "  %%%d ", id);
  print_axis_list(out, body, v->axes);
  fprintf(out, "%s = %s", v->complex ? " complex" : "", value_op_text(v->op));
  print_leaf(out, body, v);
  if (v->over) print_axis_list(out, body, v->over);
  for (int i = 0; i < value_arity(v->op); i++) fprintf(out, " %%%d", v->args[i]);
  if (v->op == VALUE_WHOLE_POWER) fprintf(out, " %d", v->index);
  if (v->op == VALUE_RENAME)
    fprintf(out, " %s -> %s", body->axes.items[v->index].name, body->axes.items[v->index2].name);
  if (v->op == VALUE_SLICE) fprintf(out, " %s = %d", body->axes.items[v->index].name, v->steps);
  if (v->name) fprintf(out, "  \"%s\"", v->name);
  fprintf(out, "\n");
}

char *typed_print_body(arena *a, const typed_body *body) {
  text_stream text;
  FILE *out = text_begin(&text);
  put_typed_header(out, a, body);
  for (int i = 0; i < body->tensors.count; i++)
    put_typed_tensor(out, a, body, &body->tensors.items[i]);
  vec_each(const typed_lag, lag, body->lags) {
    fprintf(out, "  lag %s", lag->name);
    print_axis_list(out, body, lag->axes);
    fprintf(out, "%s depth %d of %%%d\n", lag->complex ? " : complex" : "", lag->depth,
            lag->source);
  }
  for (int i = 0; i < body->values.count; i++) put_typed_value(out, body, i);
  return text_end(&text, a);
}
