// One recurrence: its declarations, lets and assignments in the order of the text, then what the
// whole must fulfil.
//
//   state h[G,N]                 tensor h, assigned %7
//   let a = exp(-dt)             %4 [G] = exp %3  "a"
//   h = a * h[t-1] + B * x       %7 [G,N] = add %5 %6  "h"
//
// All names of the text are known from the start, so that a use before its declaration is told
// apart from a misspelling. A statement with an error marks all names that it mentions as used.
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler/sema/internal.h"

typedef struct body_check {
  sema *sema;
  sema_scope *scope;
  typed_body *body;
  axis_set anchored;  // axes of inputs and params: they tell run-time sizes
  bool axes_unsure;   // a declaration has an unknown axis: nothing is said about unused ones
  bool has_input;
} body_check;

// ---- names of the whole text -----------------------------------------------------------------

static symbol_kind kind_of_statement(ast_stmt_kind kind) {
  static const symbol_kind kinds[] = {[AST_INPUT] = SYMBOL_INPUT,
                                      [AST_PARAM] = SYMBOL_PARAM,
                                      [AST_STATE] = SYMBOL_STATE,
                                      [AST_OUTPUT] = SYMBOL_OUTPUT};
  return kinds[kind];
}

static void declare_names(body_check *c, const ast_stmts *statements) {
  for (int i = 0; i < statements->count; i++) {
    const ast_stmt *stmt = statements->items[i];
    if (stmt->kind == AST_ASSIGN) continue;
    if (stmt->kind == AST_LET) {
      for (int k = 0; k < stmt->let.binds.count; k++) {
        const ast_name *name = &stmt->let.binds.items[k].name;
        scope_declare(c->scope, SYMBOL_LET, name->text, name->span);
      }
      continue;
    }
    vec_each(const ast_decl, decl, stmt->decls) {
      symbol *s =
          scope_declare(c->scope, kind_of_statement(stmt->kind), decl->name.text, decl->name.span);
      if (s && decl->value) s->assigned_at = decl->name.span;
    }
  }
}

static void find_assignments(body_check *c, const ast_stmts *statements) {
  for (int i = 0; i < statements->count; i++) {
    const ast_stmt *stmt = statements->items[i];
    if (stmt->kind != AST_ASSIGN) continue;
    symbol *s = scope_find(c->scope, stmt->assign.name.text);
    if (s && !s->assigned_at.source) s->assigned_at = stmt->assign.name.span;
  }
}

// The symbol of this very declaration; NULL if its name was taken.
static symbol *symbol_declared_at(const body_check *c, const ast_name *name) {
  symbol *s = scope_find(c->scope, name->text);
  bool same = s && s->span.begin == name->span.begin && s->span.source == name->span.source;
  return same ? s : NULL;
}

// ---- values of lets, states and outputs ------------------------------------------------------

static const char *leftover_hint(const body_check *c, axis_set missing, axis_set extra) {
  arena *memory = c->sema->memory;
  const char *missing_text = body_axes_text(c->scope->sema->memory, c->scope->body, missing);
  const char *extra_text = body_axes_text(c->scope->sema->memory, c->scope->body, extra);
  if (!missing) return arena_printf(memory, "sum over %s: sum[%s](...)", extra_text, extra_text);
  if (!extra)
    return arena_printf(memory, "%s %s missing, and only a value without axes is spread",
                        missing_text, missing & (missing - 1) ? "are" : "is");
  return arena_printf(memory, "%s %s missing, %s %s too many", missing_text,
                      missing & (missing - 1) ? "are" : "is", extra_text,
                      extra & (extra - 1) ? "are" : "is");
}

// Exactly the axes wanted, or none.
static bool check_exact_axes(const body_check *c, const ast_expr *e, sema_operand value,
                             axis_set wanted, const char *wanted_text, const char *target) {
  if (value.axes == wanted || value.axes == 0) return true;
  return scope_error(c->scope, e->span, "expected %s%s for %s, found %s; %s", wanted ? "axes " : "",
                     wanted_text, target, axes_text(c->scope, value.axes),
                     leftover_hint(c, wanted & ~value.axes, value.axes & ~wanted));
}

// The first name that a value gets stays: it is what reports call it. Leaves are what they read.
static void name_first_value(body_check *c, sema_operand value, int first_new, const char *name) {
  if (value.kind != OPERAND_VALUE || value.id < first_new) return;
  typed_value *v = &c->body->values.items[value.id];
  if (!v->name && value_arity(v->op) > 0) v->name = name;
}

static void check_let(body_check *c, const ast_stmt *stmt) {
  const ast_expr *e = stmt->let.value;
  if (stmt->let.is_tuple) {
    scope_error(c->scope, stmt->let.binds.items[0].span,
                "expected one name after let, found a tuple; tuples occur in layers only");
    scope_use_all(c->scope, e);
    for (int i = 0; i < stmt->let.binds.count; i++) {
      symbol *s = symbol_declared_at(c, &stmt->let.binds.items[i].name);
      if (s) s->declared = s->used = true;
    }
    return;
  }
  const ast_bind *bind = &stmt->let.binds.items[0];
  int first_new = c->body->values.count;
  sema_operand value = sema_expression(c->scope, e);
  axis_set stated = 0;
  if (bind->axes.count) {
    bool fine = sema_axes(c->scope, &bind->axes, &stated, NULL) && value.kind != OPERAND_ERROR;
    const char *target = arena_printf(c->sema->memory, "the let %s", bind->name.text);
    fine = fine && check_exact_axes(c, e, value, stated, axes_text(c->scope, stated), target);
    if (fine)
      value.axes = stated;
    else
      value = operand_error;
  }
  symbol *s = symbol_declared_at(c, &bind->name);
  if (!s) {
    symbol *meant = scope_find(c->scope, bind->name.text);
    // `let h = ...` of a state: what follows from it is not reported
    if (meant) meant->assigned = true;
    return;
  }
  s->declared = true;
  s->value = value;
  if (value.kind == OPERAND_ERROR) s->used = true;
  name_first_value(c, value, first_new, bind->name.text);
}

static sema_operand check_assignment_value(body_check *c, const symbol *s, const ast_expr *e) {
  const typed_tensor *tensor = &c->body->tensors.items[s->index];
  sema_operand value = sema_expression(c->scope, e);
  if (value.kind == OPERAND_ERROR) return value;
  const char *target =
      arena_printf(c->sema->memory, "the %s %s", symbol_kind_text(s->kind), s->name);
  if (!check_exact_axes(c, e, value, tensor->axis_set, tensor_axes_text(c->scope, tensor),
                        target)) {
    note_symbol(c->scope, s);
    return operand_error;
  }
  if (value.complex && !tensor->complex) {
    scope_error(c->scope, e->span,
                "expected a real value for %s, found a complex one; take re(...), or "
                "declare %s : complex",
                target, s->name);
    note_symbol(c->scope, s);
    return operand_error;
  }
  if (tensor->complex) value = build_complex(c->scope, value);
  value.axes = tensor->axis_set;
  return value;
}

static void assign(body_check *c, symbol *s, const ast_expr *e) {
  int first_new = c->body->values.count;
  sema_operand value = check_assignment_value(c, s, e);
  s->assigned = true;
  s->value = value;
  if (value.kind == OPERAND_ERROR) return;
  name_first_value(c, value, first_new, s->name);
  value_id id = sema_value(c->scope, value);
  c->body->tensors.items[s->index].assigned = id;
  if (id < 0) s->value = operand_error;
}

static bool is_assignable(const body_check *c, const ast_name *name, const symbol *s) {
  if (!s) {
    suggestion found = {.name = name->text};
    for (int i = 0; i < c->scope->symbols.count; i++) {
      const symbol *other = c->scope->symbols.items[i];
      bool open = other->kind == SYMBOL_STATE || other->kind == SYMBOL_OUTPUT;
      if (open && !other->assigned_at.source) suggest(&found, other->name);
    }
    // only this is reported
    if (found.best) scope_find(c->scope, found.best)->assigned_at = name->span;
    const char *hint = found.best
                           ? suggestion_text(c->sema, &found)
                           : arena_printf(c->sema->memory, "; write let %s = ...", name->text);
    scope_error(c->scope, name->span, "expected a state or an output, found '%s'%s", name->text,
                hint);
    offer_suggestion(c->sema, &found, name->span);
    return false;
  }
  if (s->kind == SYMBOL_STATE || s->kind == SYMBOL_OUTPUT) return true;
  scope_error(c->scope, name->span, "expected a state or an output, found the %s '%s'; %s",
              symbol_kind_text(s->kind), name->text,
              s->kind == SYMBOL_LET ? "a let has one value: give the new one a name of its own"
                                    : "it cannot be assigned");
  note_symbol(c->scope, s);
  return false;
}

static void check_assignment(body_check *c, const ast_stmt *stmt) {
  const ast_name *name = &stmt->assign.name;
  symbol *s = scope_lookup(c->scope, name);
  if (!is_assignable(c, name, s)) {
    sema_expression(c->scope, stmt->assign.value);
    return;
  }
  if (!s->declared) {
    scope_error(c->scope, name->span,
                "expected a declared state or output, found '%s', declared on line "
                "%d; declare it above",
                name->text, line_of(c->sema, s->span));
    scope_use_all(c->scope, stmt->assign.value);
    s->assigned = true;
    return;
  }
  if (s->assigned) {
    scope_error(c->scope, name->span, "expected one assignment of the %s '%s', found a second one",
                symbol_kind_text(s->kind), name->text);
    diag_note(c->sema->messages, s->assigned_at, "it is assigned here first");
    sema_expression(c->scope, stmt->assign.value);
    return;
  }
  if (s->index >= 0) assign(c, s, stmt->assign.value);
}

// ---- declarations ----------------------------------------------------------------------------

static void check_promise(body_check *c, const ast_decl *decl, typed_tensor *tensor) {
  if (!decl->low) return;
  bool low = sema_constant(c->scope, decl->low, "the lower end of a promise", &tensor->low);
  bool high = sema_constant(c->scope, decl->high, "the upper end of a promise", &tensor->high);
  tensor->promised = low && high;
  if (tensor->promised && !(tensor->low <= tensor->high)) {
    scope_error(c->scope, decl->range_span, "expected a promise from low to high, found [%s, %s]",
                number_text(c->sema, tensor->low), number_text(c->sema, tensor->high));
    tensor->promised = false;
  }
}

static void check_type(body_check *c, const ast_decl *decl, typed_tensor *tensor) {
  if (!decl->type.text) return;
  tensor->complex = decl->type.text == c->sema->word_complex;
  if (!tensor->complex)
    scope_error(c->scope, decl->type.span,
                "expected the type 'complex', found '%s'; without a type a "
                "value is real",
                decl->type.text);
}

static void check_start_of_param(body_check *c, const ast_decl *decl, typed_tensor *tensor) {
  if (!decl->start) return;
  tensor->start = sema_check_start(c->scope, decl->start, tensor->axis_set, NULL, NULL);
  if (!tensor->start) return;
  bool complex = tensor->start->values.items[tensor->start->values.count - 1].complex;
  if (complex && !tensor->complex)
    scope_error(c->scope, decl->start->span,
                "expected a real start for the param '%s', found a complex "
                "one; declare it %s : complex",
                tensor->name, tensor->name);
}

// ---- what states begin with ------------------------------------------------------------------

// The first draw in an expression: uniform(a, b), identity; NULL: none.
static const ast_expr *find_draw(const ast_expr *e) {
  const ast_expr *found = NULL;
  switch (e->kind) {
    case AST_NEGATE: return find_draw(e->negate.operand);
    case AST_BINARY:
      found = find_draw(e->binary.left);
      return found ? found : find_draw(e->binary.right);
    case AST_CALL:
      if (builtin_find(e->call.callee.text, BUILTIN_START)) return e;
      for (int i = 0; !found && i < e->call.args.count; i++)
        if (e->call.args.items[i].value) found = find_draw(e->call.args.items[i].value);
      return found;
    default: return NULL;
  }
}

static bool refuse_begin(const body_check *c, const ast_expr *e, const typed_tensor *state,
                         const char *found) {
  return scope_error(c->scope, e->span,
                     "expected a number or a parameter that the state '%s' starts from, found %s",
                     state->name, found);
}

// The parameter has a subset of the state's axes, and complex entries exactly if the state has.
static bool fits_parameter(const body_check *c, const ast_expr *e, const typed_tensor *state,
                           const typed_tensor *parameter) {
  axis_set extra = parameter->axis_set & ~state->axis_set;
  if (extra)
    return scope_error(c->scope, e->span,
                       "expected a parameter with axes of the state '%s', which has %s, found %s%s",
                       state->name, axes_text(c->scope, state->axis_set), parameter->name,
                       tensor_axes_text(c->scope, parameter));
  if (parameter->complex == state->complex) return true;
  return scope_error(
      c->scope, e->span,
      "expected a %s parameter that the state '%s' starts from, found the %s one '%s'",
      state->complex ? "complex" : "real", state->name, state->complex ? "real" : "complex",
      parameter->name);
}

static bool begin_by_name(const body_check *c, const ast_expr *e, const typed_tensor *state,
                          symbol *s, typed_begin *begin) {
  s->used = true;
  if (s->kind != SYMBOL_PARAM)
    return refuse_begin(
        c, e, state,
        arena_printf(c->sema->memory, "the %s '%s'", symbol_kind_text(s->kind), s->name));
  if (!s->declared || s->index < 0)
    return scope_error(
        c->scope, e->span,
        "expected a parameter that is declared above the state '%s', found '%s', declared "
        "on line %d",
        state->name, s->name, line_of(c->sema, s->span));
  begin->parameter = s->index;
  return fits_parameter(c, e, state, &c->body->tensors.items[s->index]);
}

// One part of a number; it is kept as a float, whose range it must not leave.
static bool read_begin_part(const body_check *c, const ast_expr *e, const typed_tensor *state,
                            double *number) {
  const char *what = arena_printf(c->sema->memory, "what the state '%s' starts from", state->name);
  if (!sema_constant(c->scope, e, what, number)) return false;
  if (fabs(*number) <= FLT_MAX) return true;
  return scope_error(
      c->scope, e->span,
      "expected a number from -3.4e38 to 3.4e38 that the state '%s' starts from, found %s",
      state->name, number_text(c->sema, *number));
}

static bool begin_by_number(const body_check *c, const ast_expr *e, const typed_tensor *state,
                            typed_begin *begin) {
  const ast_expr *draw = find_draw(e);
  bool complex =
      e->kind == AST_CALL && strcmp(e->call.callee.text, "complex") == 0 && e->call.args.count == 2;
  if (draw)
    return refuse_begin(
        c, draw, state,
        arena_printf(c->sema->memory, "the draw %s; a state of a sequence is not drawn",
                     short_text(c->sema, draw)));
  if (complex && !state->complex)
    return scope_error(
        c->scope, e->span,
        "expected a real start for the state '%s', found a complex one; declare it %s : complex",
        state->name, state->name);
  if (!complex) return read_begin_part(c, e, state, &begin->number[0]);
  return read_begin_part(c, e->call.args.items[0].value, state, &begin->number[0]) &&
         read_begin_part(c, e->call.args.items[1].value, state, &begin->number[1]);
}

static bool keeps_promise(const body_check *c, const ast_expr *e, const typed_tensor *state,
                          const typed_begin *begin) {
  double x = begin->number[0];
  if (!state->promised || begin->parameter != NO_PARAMETER || (x >= state->low && x <= state->high))
    return true;
  return scope_error(c->scope, e->span,
                     "expected a start within the promise [%s, %s] of the state '%s', found %s",
                     number_text(c->sema, state->low), number_text(c->sema, state->high),
                     state->name, number_text(c->sema, x));
}

static void check_begin_of_state(const body_check *c, const ast_decl *decl, typed_tensor *state) {
  const ast_expr *e = decl->start;
  typed_begin *begin = ARENA_NEW(c->sema->memory, typed_begin);
  symbol *s = e->kind == AST_NAME ? scope_lookup(c->scope, &e->name) : NULL;
  *begin = (typed_begin){.parameter = NO_PARAMETER};
  bool constant =
      !s || s->kind == SYMBOL_AXIS || (s->kind == SYMBOL_LET && s->value.kind == OPERAND_CONSTANT);
  bool fine = constant ? begin_by_number(c, e, state, begin) : begin_by_name(c, e, state, s, begin);
  if (fine && keeps_promise(c, e, state, begin)) state->begin = begin;
  if (!state->begin) scope_use_all(c->scope, e);
}

static void check_declaration(body_check *c, tensor_kind kind, const ast_decl *decl) {
  typed_tensor tensor = {.kind = kind,
                         .name = decl->name.text,
                         .doc = decl->doc,
                         .assigned = NO_VALUE,
                         .span = decl->name.span};
  if (decl->axes.count <= TYPED_MAX_AXES) {
    tensor.axis_count = decl->axes.count;
    tensor.axes = ARENA_ARRAY(c->sema->memory, int, decl->axes.count);
    if (!sema_axes(c->scope, &decl->axes, &tensor.axis_set, tensor.axes)) {
      tensor.axis_count = 0;
      c->axes_unsure = true;
      for (int i = 0; i < decl->axes.count; i++) {
        bool first = tensor.axes[i] >= 0;
        for (int k = 0; k < tensor.axis_count; k++) first &= tensor.axes[k] != tensor.axes[i];
        if (first) tensor.axes[tensor.axis_count++] = tensor.axes[i];
      }
    }
  } else {
    scope_error(c->scope, decl->span, "expected each axis once, found %d axes", decl->axes.count);
  }
  check_type(c, decl, &tensor);
  check_promise(c, decl, &tensor);
  c->has_input |= kind == TENSOR_INPUT;
  if (kind == TENSOR_INPUT || kind == TENSOR_PARAM) c->anchored |= tensor.axis_set;
  if (kind == TENSOR_STATE && decl->start)
    check_begin_of_state(c, decl, &tensor);
  else
    check_start_of_param(c, decl, &tensor);
  symbol *s = symbol_declared_at(c, &decl->name);
  if (s) {
    s->declared = true;
    s->index = c->body->tensors.count;
    vec_push(c->sema->memory, &c->body->tensors, tensor);
    if (decl->value) assign(c, s, decl->value);
  } else if (decl->value) {
    sema_expression(c->scope, decl->value);
  }
}

static void check_statement(body_check *c, const ast_stmt *stmt) {
  static const tensor_kind kinds[] = {[AST_INPUT] = TENSOR_INPUT,
                                      [AST_PARAM] = TENSOR_PARAM,
                                      [AST_STATE] = TENSOR_STATE,
                                      [AST_OUTPUT] = TENSOR_OUTPUT};
  if (stmt->kind == AST_LET)
    check_let(c, stmt);
  else if (stmt->kind == AST_ASSIGN)
    check_assignment(c, stmt);
  else
    for (int i = 0; i < stmt->decls.count; i++)
      check_declaration(c, kinds[stmt->kind], &stmt->decls.items[i]);
}

// ---- the whole -------------------------------------------------------------------------------

static void check_used(const body_check *c, const symbol *s) {
  diag *d = c->sema->messages;
  const char *kind = symbol_kind_text(s->kind);
  if (s->used) return;
  if (s->kind == SYMBOL_INPUT || s->kind == SYMBOL_PARAM) {
    diag_unused_error(d, s->span, "expected a use of the %s '%s', found none; remove it", kind,
                      s->name);
  } else if (s->kind == SYMBOL_AXIS && !c->axes_unsure) {
    diag_unused_error(d, s->span,
                      "expected a use of the axis '%s', found none; remove it from the header",
                      s->name);
  } else if (s->kind == SYMBOL_LET) {
    diag_unused_warning(d, s->span, "expected a use of the let '%s', found none; remove it",
                        s->name);
  }
}

static void check_runtime_axis(const body_check *c, const symbol *s) {
  bool runtime = c->body->axes.items[s->index].size == TYPED_RUNTIME_SIZE;
  if (!runtime || !s->used || c->axes_unsure || axis_in(c->anchored, s->index)) return;
  scope_error(c->scope, s->span,
              "expected the axis '%s' in some input or param, found it in none; its size "
              "is known at run time, from a tensor that has it: give it one here, as in %s = 64",
              s->name, s->name);
}

static void check_whole(const body_check *c, const ast_item *item) {
  for (int i = 0; i < c->scope->symbols.count; i++) {
    const symbol *s = c->scope->symbols.items[i];
    check_used(c, s);
    if (s->kind == SYMBOL_AXIS) check_runtime_axis(c, s);
    bool assignable = s->kind == SYMBOL_STATE || s->kind == SYMBOL_OUTPUT;
    if (assignable && !s->assigned_at.source)
      scope_error(c->scope, s->span,
                  "expected an assignment of the %s '%s', found none; write %s = ...",
                  symbol_kind_text(s->kind), s->name, s->name);
  }
  if (!c->has_input)
    scope_error(c->scope, item->name.span,
                "expected at least one input in the recurrence '%s', found none", item->name.text);
}

// Numbers of a value, as far as their count is known; more than INT32_MAX is more by an amount that
// does not matter.
static int64_t known_number_count(const typed_body *body, axis_set axes) {
  int64_t numbers = 1;
  for (int i = 0; i < body->axes.count && numbers <= INT32_MAX; i++) {
    int64_t size = body->axes.items[i].size;
    if (axis_in(axes, i) && size != TYPED_RUNTIME_SIZE) numbers *= size;
  }
  return numbers;
}

static bool check_number_count(const body_check *c, span where, axis_set axes) {
  const typed_body *body = c->body;
  const char *sizes = "";
  if (known_number_count(body, axes) <= INT32_MAX) return true;
  for (int i = 0; i < body->axes.count; i++) {
    int64_t size = body->axes.items[i].size;
    if (!axis_in(axes, i) || size == TYPED_RUNTIME_SIZE) continue;
    sizes = arena_printf(c->sema->memory, "%s%s%s = %lld", sizes, *sizes ? ", " : "",
                         body->axes.items[i].name, (long long)size);
  }
  return scope_error(c->scope, where,
                     "expected at most 2147483647 numbers in a value, found more, with %s", sizes);
}

// Later layers multiply sizes of a value without a look at overflow. One message is enough: others
// have the same cause.
static bool check_all_numbers(const body_check *c) {
  vec_each(const typed_tensor, tensor, c->body->tensors)
    if (!check_number_count(c, tensor->span, tensor->axis_set)) return false;
  vec_each(const typed_value, v, c->body->values)
    if (!check_number_count(c, v->span, v->axes)) return false;
  return true;
}

typed_body *sema_instantiate(sema *s, const typed_name *recurrence, const size_binding *bindings,
                             int binding_count, span call) {
  const ast_item *item = recurrence->item;
  typed_body *body = ARENA_NEW(s->memory, typed_body);
  body->name = item->name.text;
  body->doc = item->doc;
  body->span = item->span;
  int errors = diag_error_count(s->messages);
  sema_header(s, recurrence, &item->body.header, bindings, binding_count, body);
  body_check c = {.sema = s, .body = body, .scope = sema_scope_new(s, recurrence->file, body)};
  c.scope->call = call;
  for (int i = 0; i < item->body.header.count; i++)
    scope_use_all(c.scope, item->body.header.items[i].value);
  declare_names(&c, &item->body.statements);
  find_assignments(&c, &item->body.statements);
  for (int i = 0; i < item->body.statements.count; i++) {
    if (diag_error_count(s->messages) > MOST_ERRORS) return NULL;
    check_statement(&c, item->body.statements.items[i]);
  }
  check_whole(&c, item);
  if (diag_error_count(s->messages) > errors || !check_all_numbers(&c)) return NULL;
  body_prune(s->memory, body);
  return body;
}
