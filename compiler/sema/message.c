// Pieces of messages: axes, expressions and names as the source writes them, and who was meant.
#include <math.h>
#include <string.h>
#include <strings.h>

#include "compiler/base/text.h"
#include "compiler/sema/internal.h"

enum { NOTED_CALLS = 3, SHORT_TEXT = 40, MOST_CANDIDATES = 500 };

static void add_scope_error(const sema_scope *scope, span where, const char *format,
                            va_list arguments) {
  sema *s = scope->sema;
  diag_error(s->messages, where, "%s", arena_vprintf(s->memory, format, arguments));
  int noted = 0;
  for (; scope && scope->call.source && noted < NOTED_CALLS; scope = scope->caller, noted++)
    diag_note(s->messages, scope->call, "in this call of %s",
              scope->function ? scope->function : scope->body->name);
}

bool scope_error(const sema_scope *scope, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_scope_error(scope, where, format, arguments);
  va_end(arguments);
  return false;
}

sema_operand wrong_operand(const sema_scope *scope, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_scope_error(scope, where, format, arguments);
  va_end(arguments);
  return operand_error;
}

void note_symbol(const sema_scope *scope, const symbol *s) {
  if (s->span.source)
    diag_note(scope->sema->messages, s->span, "the %s '%s' is declared here",
              symbol_kind_text(s->kind), s->name);
}

int line_of(const sema *s, span where) {
  const source *text = sources_get(s->all, where.source);
  return text ? source_locate(text, where.begin).line : 0;
}

const char *axes_text(const sema_scope *scope, axis_set axes) {
  if (axes == 0) return "no axes";
  return arena_printf(scope->sema->memory, "[%s]",
                      body_axes_text(scope->sema->memory, scope->body, axes));
}

const char *tensor_axes_text(const sema_scope *scope, const typed_tensor *tensor) {
  if (tensor->axis_count == 0) return "no axes";
  const char *text =
      body_order_text(scope->sema->memory, scope->body, tensor->axes, tensor->axis_count);
  return arena_printf(scope->sema->memory, "[%s]", text);
}

const char *axis_here_text(const sema_scope *scope, const char *written, int axis) {
  const char *name = scope->body->axes.items[axis].name;
  if (name == written) return arena_printf(scope->sema->memory, "'%s'", written);
  return arena_printf(scope->sema->memory, "'%s', which is %s in this call", written, name);
}

const char *short_text(const sema *s, const ast_expr *e) {
  const char *text = expr_to_text(s->memory, e);
  return strlen(text) <= SHORT_TEXT ? text : "the operand";
}

const char *with_axes_text(const sema_scope *scope, const ast_expr *e, axis_set axes) {
  const char *text = short_text(scope->sema, e);
  arena *memory = scope->sema->memory;
  if (axes == 0) return arena_printf(memory, "%s, which has no axes", text);
  if (e->kind == AST_NAME) return arena_printf(memory, "%s%s", text, axes_text(scope, axes));
  return arena_printf(memory, "%s, which has %s", text, axes_text(scope, axes));
}

const char *number_text(const sema *s, double number) {
  if (number == floor(number) && fabs(number) < 1e15)
    return arena_printf(s->memory, "%.0f", number);
  char text[SHORTEST_TEXT];
  return arena_strdup(s->memory, shortest_text(number, text));
}

void suggest(suggestion *s, const char *candidate) {
  if (s->seen++ > MOST_CANDIDATES) return;
  int length = (int)strlen(s->name);
  int distance = strcasecmp(s->name, candidate) == 0 ? 0 : edit_distance(s->name, candidate);
  if (distance > 0 && (distance > length / 3 || length < 3)) return;
  if (s->best && distance >= s->distance) return;
  s->best = candidate;
  s->distance = distance;
}

const char *suggestion_text(const sema *s, const suggestion *found) {
  return found->best ? arena_printf(s->memory, "; did you mean '%s'?", found->best) : "";
}

void offer_suggestion(const sema *s, const suggestion *found, span where) {
  if (found->best) diag_fix(s->messages, where, found->best);
}
