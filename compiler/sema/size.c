// Headers: the axes of a declaration and their sizes, from a call, from -D, from the default, or at
// run time.
//
//   recurrence r(G, D = 8, E = 2*D)     G at run time, D = 8, E = 16;  with -D D=4: E = 8
//   recurrence r(D, E = 2*D)            both at run time, E by the expression 2*D
#include <math.h>
#include <string.h>

#include "compiler/sema/internal.h"

typedef enum size_kind { SIZE_WRONG, SIZE_NUMBER, SIZE_RUNTIME } size_kind;

typedef struct size {
  size_kind kind;
  double number;
} size;

typedef struct header_check {
  sema *sema;
  const ast_header *header;
  typed_body *body;  // its axes are the names so far
} header_check;

static size evaluate_size(header_check *c, const ast_expr *e);

static size wrong_size(header_check *c, span where, const char *text) {
  diag_error(c->sema->messages, where, "%s", text);
  return (size){.kind = SIZE_WRONG};
}

static size evaluate_name(header_check *c, const ast_name *name) {
  vec_each(const typed_axis, axis, c->body->axes) {
    if (axis->name != name->text) continue;
    sema_note_name(c->sema, name, axis->span, symbol_kind_text(SYMBOL_AXIS));
    if (axis->size == TYPED_RUNTIME_SIZE) return (size){.kind = SIZE_RUNTIME};
    return (size){.kind = SIZE_NUMBER, .number = (double)axis->size};
  }
  if (name->text == c->sema->word_pi)
    return (size){.kind = SIZE_NUMBER, .number = 3.14159265358979323846};
  suggestion found = {.name = name->text};
  for (int i = 0; i < c->header->count; i++) {
    if (c->header->items[i].name.text == name->text)
      return wrong_size(c, name->span,
                        arena_printf(c->sema->memory,
                                     "expected an earlier name of the header, "
                                     "found '%s', which is not known yet",
                                     name->text));
    suggest(&found, c->header->items[i].name.text);
  }
  return wrong_size(c, name->span,
                    arena_printf(c->sema->memory,
                                 "expected an earlier name of the header, "
                                 "found '%s'%s",
                                 name->text, suggestion_text(c->sema, &found)));
}

static size apply_size_op(value_op op, const size *args, int count) {
  double numbers[3] = {0}, result = 0;
  size_kind kind = SIZE_NUMBER;
  for (int i = 0; i < count; i++) {
    if (args[i].kind == SIZE_WRONG) return args[i];
    if (args[i].kind == SIZE_RUNTIME) kind = SIZE_RUNTIME;
    numbers[i] = args[i].number;
  }
  fold_constant(op, numbers, &result);
  return (size){.kind = kind, .number = result};
}

static size evaluate_binary(header_check *c, const ast_expr *e) {
  if (e->binary.op >= AST_LESS)
    return wrong_size(c, e->binary.op_span,
                      "expected an arithmetic operator in a size, found a comparison");
  size args[2] = {evaluate_size(c, e->binary.left), evaluate_size(c, e->binary.right)};
  return apply_size_op(operation_of(e->binary.op), args, 2);
}

static size evaluate_call(header_check *c, const ast_expr *e) {
  const builtin *b = builtin_find(e->call.callee.text, BUILTIN_ELEMENTWISE);
  bool known = b && (b->op == VALUE_MIN || b->op == VALUE_MAX) && !e->call.axes.count;
  if (!known || e->call.args.count != 2)
    return wrong_size(c, e->span,
                      "expected numbers, names, + - * / ^ and min(a, b), max(a, b) in a size, "
                      "found another call");
  size args[2] = {evaluate_size(c, e->call.args.items[0].value),
                  evaluate_size(c, e->call.args.items[1].value)};
  return apply_size_op(b->op, args, 2);
}

static size evaluate_size(header_check *c, const ast_expr *e) {
  if (c->sema->depth >= DEEPEST_NESTING)
    return wrong_size(c, e->span, "expected a simpler size, found a deeply nested one");
  c->sema->depth++;
  size result;
  switch (e->kind) {
    case AST_NUMBER: result = (size){.kind = SIZE_NUMBER, .number = e->number.value}; break;
    case AST_NAME: result = evaluate_name(c, &e->name); break;
    case AST_NEGATE: {
      size operand = evaluate_size(c, e->negate.operand);
      result = apply_size_op(VALUE_NEG, &operand, 1);
      break;
    }
    case AST_BINARY: result = evaluate_binary(c, e); break;
    case AST_CALL: result = evaluate_call(c, e); break;
    default:
      result = wrong_size(c, e->span,
                          "expected a size, found another kind of expression; a size is made of "
                          "numbers and earlier names, as in E = 2*D");
      break;
  }
  c->sema->depth--;
  return result;
}

// The size that a default comes to; 1 after a message, so that the rest can be checked.
static int64_t default_size(header_check *c, const ast_header_axis *axis) {
  enum { LARGEST = INT32_MAX };
  size found = evaluate_size(c, axis->value);
  if (found.kind == SIZE_RUNTIME) return TYPED_RUNTIME_SIZE;
  if (found.kind == SIZE_WRONG) return 1;
  if (found.number == floor(found.number) && found.number >= 1 && found.number <= LARGEST)
    return (int64_t)found.number;
  const char *text = number_text(c->sema, found.number);
  bool whole = found.number == floor(found.number);
  wrong_size(
      c, axis->value->span,
      arena_printf(c->sema->memory, "expected a %s for the size of '%s', found %s",
                   whole ? "number from 1 to 2147483647" : "whole number", axis->name.text, text));
  return 1;
}

static const size_override *find_override(sema *s, const typed_name *item, const char *axis) {
  const size_override *found = NULL;
  for (int i = 0; i < s->options.override_count; i++) {
    size_override *o = &s->options.overrides[i];
    bool here = o->item ? strcmp(o->item, item->name) == 0 : item->file == s->program->main;
    if (!here || strcmp(o->axis, axis) != 0) continue;
    o->used = true;
    // the named declaration before all, the last before the first
    if (!found || o->item || !found->item) found = o;
  }
  return found;
}

static const size_binding *find_binding(const size_binding *bindings, int count, const char *axis) {
  for (int i = 0; i < count; i++)
    if (bindings[i].axis == axis) return &bindings[i];
  return NULL;
}

bool sema_header(sema *s, const typed_name *item, const ast_header *header,
                 const size_binding *bindings, int binding_count, typed_body *body) {
  int errors = diag_error_count(s->messages);
  header_check c = {.sema = s, .header = header, .body = body};
  vec_each(const ast_header_axis, axis, *header) {
    if (body->axes.count == TYPED_MAX_AXES) {
      diag_error(s->messages, axis->span, "expected at most %d axes, found more", TYPED_MAX_AXES);
      break;
    }
    typed_axis made = {
        .name = axis->name.text, .size = TYPED_RUNTIME_SIZE, .span = axis->name.span};
    const size_override *override = find_override(s, item, made.name);
    const size_binding *binding = find_binding(bindings, binding_count, made.name);
    if (binding) {
      made.size = binding->size;
      made.stands_in = binding->stands_in;
    } else if (override) {
      made.size = override->size;
    } else if (axis->value) {
      made.size = default_size(&c, axis);
      if (made.size == TYPED_RUNTIME_SIZE) made.size_expr = axis->value;
    }
    vec_push(s->memory, &body->axes, made);
  }
  return diag_error_count(s->messages) == errors;
}

// ---- headers of inits: numbers of any kind ---------------------------------------------------

static bool header_number(sema_scope *scope, const typed_name *init, const ast_header_axis *name,
                          const number_binding *given, int given_count, double *number) {
  for (int i = 0; i < given_count; i++) {
    if (given[i].name != name->name.text) continue;
    *number = given[i].number;
    return true;
  }
  const size_override *override = find_override(scope->sema, init, name->name.text);
  if (override) {
    *number = (double) override->size;
    return true;
  }
  if (name->value) return sema_constant(scope, name->value, "a number of an init", number);
  return scope_error(scope, name->span,
                     "expected a number for '%s', found none; give it here, as in %s = 8, or "
                     "where the init is used",
                     name->name.text, name->name.text);
}

bool sema_bind_header(sema_scope *scope, const typed_name *init, const number_binding *given,
                      int given_count) {
  const ast_header *header = &init->item->init.header;
  bool fine = true;
  vec_each(const ast_header_axis, name, *header) {
    double number = 0;
    fine &= header_number(scope, init, name, given, given_count, &number);
    fine &= sema_bind_constant(scope, name->name.text, name->name.span, number);
  }
  return fine;
}
