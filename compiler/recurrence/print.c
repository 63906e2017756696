// The text form of the recurrence IR (`--emit=recurrence`); parse.c reads it back to the same IR.
//
//   recurrence gla {
//     axis H                           size told at run time
//     axis K = 16 summed               compile-time size; summed: the source consumes the axis
//     axis N least 3                   run-time size; a slice reads entry 2
//     axis E = {2 * H}                 size computed at run time from those of earlier axes
//     input x[H,K]                     kind, name, axes in the order of memory
//     state S[H,K] : complex           and: in [-5, 0]   a promise
//     lag x[H,K] depth 3               a lag buffer
//
//     %0 [H,K] = input x               values in order; [] is left out
//     %1 [H,K] = log_sigmoid %0 "g"    "g": the name of the let, state or output
//     %2 [H] = sum[K] %1               also: max_over[K] rename[K -> M] slice[K = 3]
//     %3 [H,K] = ipow 2 %0             also: sqrt kink %1
//     %4 [H,K] complex = previous S    also: number 0.5   size K   index K   param p   lag x 1
//
//     S = %4                           what is assigned
//     x.lag = %0                       what a lag buffer remembers
//
//     structure S: scalar_decay, stratum 0, decay %4, log_decay %1, increment %5, keys [K],
//       values [V], limit %6 "why no cheaper class"
//   }
//
// A structure tells only what there is. Without these lines the recurrence has no structure until
// recurrence_analyse finds it.
//
// Comments run from // to the end of the line. Documentation, starts of parameters and places in
// the source are not part of the text.
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/recurrence/text.h"
#include "compiler/syntax/syntax.h"

static const char *const class_words[] = {
#define STATE_CLASS(id, word) word,
#include "compiler/recurrence/state_classes.def"
#undef STATE_CLASS
};

const char *state_class_word(state_class class) { return class_words[class]; }

state_class state_class_find(const char *text) {
  int class = 0;
  while (class < STATE_CLASSES && strcmp(class_words[class], text) != 0) class ++;
  return (state_class) class;
}

static void print_declared_axis(FILE *out, arena *a, const typed_axis *axis) {
  fprintf(out, "  axis %s", axis->name);
  if (axis->size != TYPED_RUNTIME_SIZE)
    fprintf(out, " = %lld", (long long)axis->size);
  else if (axis->size_expr)
    fprintf(out, " = {%s}", expr_to_text(a, axis->size_expr));
  if (axis->least) fprintf(out, " least %lld", (long long)axis->least);
  fprintf(out, "%s\n", axis->summed ? " summed" : "");
}

static void print_lag(FILE *out, const typed_body *body, const typed_lag *lag) {
  fprintf(out, "  lag %s", lag->name);
  if (lag->axes) print_axis_list(out, body, lag->axes);
  if (lag->complex) fputs(" : complex", out);
  fprintf(out, " depth %d\n", lag->depth);
}

// What stands between the operation's word and its operands.
static void print_attributes(FILE *out, const typed_body *body, const typed_value *v) {
  const typed_axis *axes = body->axes.items;
  print_leaf(out, body, v);
  switch (v->op) {
    case VALUE_WHOLE_POWER: fprintf(out, " %d", v->index); break;
    case VALUE_SQRT:
      if (v->kink) fputs(" kink", out);
      break;
    case VALUE_RENAME: fprintf(out, "[%s -> %s]", axes[v->index].name, axes[v->index2].name); break;
    case VALUE_SLICE: fprintf(out, "[%s = %d]", axes[v->index].name, v->steps); break;
    default:
      if (value_op_class(v->op) == CLASS_REDUCE) print_axis_list(out, body, v->over);
      break;
  }
}

static void print_typed_value(FILE *out, const typed_body *body, int id) {
  const typed_value *v = &body->values.items[id];
  fprintf(out, "  %%%d", id);
  if (v->axes) {
    fputc(' ', out);
    print_axis_list(out, body, v->axes);
  }
  fprintf(out, "%s = %s", v->complex ? " complex" : "", value_op_text(v->op));
  print_attributes(out, body, v);
  for (int k = 0; k < value_arity(v->op); k++) fprintf(out, " %%%d", (int)v->args[k]);
  if (v->name) fprintf(out, " \"%s\"", v->name);
  fputc('\n', out);
}

static void print_reference(FILE *out, const char *word, value_id id) {
  if (id != NO_VALUE) fprintf(out, ", %s %%%d", word, (int)id);
}

void print_keys_and_values(FILE *out, const typed_body *body, const state_structure *s) {
  if (s->key_axes) {
    fputs(", keys ", out);
    print_axis_list(out, body, s->key_axes);
  }
  if (s->value_axes) {
    fputs(", values ", out);
    print_axis_list(out, body, s->value_axes);
  }
}

static void print_structure(FILE *out, const typed_body *body, const char *name,
                            const state_structure *s) {
  fprintf(out, "  structure %s: %s, stratum %d", name, class_words[s->class], s->stratum);
  print_reference(out, "decay", s->decay);
  print_reference(out, "log_decay", s->log_decay);
  print_reference(out, "increment", s->increment);
  print_keys_and_values(out, body, s);
  print_reference(out, "limit", s->limit);
  if (s->limit_reason) {
    fputs(s->limit == NO_VALUE ? ", limit \"" : " \"", out);
    for (const char *c = s->limit_reason; *c; c++) {
      if (*c == '"' || *c == '\\') fputc('\\', out);
      fputc(*c, out);
    }
    fputc('"', out);
  }
  fputc('\n', out);
}

static void print_body(FILE *out, arena *a, const typed_body *body) {
  for (int i = 0; i < body->axes.count; i++) print_declared_axis(out, a, &body->axes.items[i]);
  for (int i = 0; i < body->tensors.count; i++) {
    print_tensor(out, body, &body->tensors.items[i]);
    fputc('\n', out);
  }
  for (int i = 0; i < body->lags.count; i++) print_lag(out, body, &body->lags.items[i]);
  fputc('\n', out);
  for (int i = 0; i < body->values.count; i++) print_typed_value(out, body, i);
  fputc('\n', out);
  vec_each(const typed_tensor, tensor, body->tensors) {
    if (tensor->kind != TENSOR_STATE && tensor->kind != TENSOR_OUTPUT) continue;
    fprintf(out, "  %s = %%%d\n", tensor->name, (int)tensor->assigned);
  }
  for (int i = 0; i < body->lags.count; i++)
    fprintf(out, "  %s.lag = %%%d\n", body->lags.items[i].name, (int)body->lags.items[i].source);
}

char *recurrence_print(arena *a, const recurrence *r) {
  text_stream text;
  FILE *out = text_begin(&text);
  fprintf(out, "recurrence %s {\n", r->body.name);
  print_body(out, a, &r->body);
  int state = 0;
  vec_each(const typed_tensor, tensor, r->body.tensors) {
    if (tensor->kind != TENSOR_STATE || state >= r->states.count) continue;
    if (state == 0) fputc('\n', out);
    print_structure(out, &r->body, tensor->name, &r->states.items[state++]);
  }
  fputs("}\n", out);
  return text_end(&text, a);
}
