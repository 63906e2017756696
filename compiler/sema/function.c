// What can be said of an fn without a call: its names, whom it calls and that it does not call
// itself. Axes and kinds follow from the arguments, so they are checked where a call is inlined
// (call.c).
//
//   fn unit[K](x) = x / norm[K](x)      fine
//   fn bad(x)     = x / q               expected a declared name, found 'q'; a function sees only its own parameters
#include "compiler/sema/internal.h"

typedef struct function_check {
  sema *sema;
  const typed_file *file;
  function *fn;
  VEC(const ast_name *)
  values;  // parameters, and the running values of the folds around this place
} function_check;

static void check_function_expr(function_check *c, const ast_expr *e);

static void fail_function(function_check *c, span where, const char *text) {
  c->fn->wrong = true;
  diag_error(c->sema->messages, where, "%s", text);
}

// Where the axis is declared, or NULL.
static const ast_name *find_declared_axis(const function_check *c, const char *name) {
  const ast_names *axes = &c->fn->item->fn.axes;
  for (int i = 0; i < axes->count; i++)
    if (axes->items[i].text == name) return &axes->items[i];
  return NULL;
}

static const ast_name *find_function_value(const function_check *c, const char *name) {
  for (int i = 0; i < c->values.count; i++)
    if (c->values.items[i]->text == name) return c->values.items[i];
  return NULL;
}

// An axis, or with `value` a value; notes the use of it for editors.
static bool is_known_name(const function_check *c, const ast_name *name, bool value) {
  const ast_name *axis = find_declared_axis(c, name->text),
                 *found = value && !axis ? find_function_value(c, name->text) : axis;
  if (found)
    sema_note_name(c->sema, name, found->span,
                   symbol_kind_text(axis ? SYMBOL_AXIS : SYMBOL_PARAMETER));
  return found != NULL;
}

static void check_value_name(function_check *c, const ast_name *name) {
  if (is_known_name(c, name, true) || name->text == c->sema->word_pi) return;
  arena *memory = c->sema->memory;
  suggestion found = {.name = name->text};
  for (int i = 0; i < c->values.count; i++) suggest(&found, c->values.items[i]->text);
  const char *hint =
      found.best ? suggestion_text(c->sema, &found) : "; a function sees only its own parameters";
  fail_function(c, name->span,
                arena_printf(memory, "expected a parameter of %s, found '%s'%s",
                             c->fn->item->name.text, name->text, hint));
}

static void check_known_axes(function_check *c, const ast_names *axes) {
  for (int i = 0; i < axes->count; i++) {
    if (is_known_name(c, &axes->items[i], false)) continue;
    const char *fn = c->fn->item->name.text;
    fail_function(c, axes->items[i].span,
                  arena_printf(c->sema->memory,
                               "expected an axis of %s, found '%s'; the axes of a function "
                               "stand before its parameters: fn %s[%s](...)",
                               fn, axes->items[i].text, fn, axes->items[i].text));
  }
}

static void check_callee(function_check *c, const ast_expr *e) {
  const ast_name *callee = &e->call.callee;
  if (builtin_find(callee->text, BUILTIN_ELEMENTWISE) ||
      builtin_find(callee->text, BUILTIN_REDUCTION) || builtin_find(callee->text, BUILTIN_FOLD)) {
    return;
  }
  const typed_name *item = sema_find(c->file, callee->text);
  if (item) sema_note_item(c->sema, callee->span, item->item);
  // a start, a layer's part or unknown: the call says it
  if (!item || item->item->kind != AST_FN) return;
  int found = name_map_find(&c->sema->function_index, item->item);
  if (found >= 0 && c->sema->functions.items[found]->state == FUNCTION_ACTIVE) {
    fail_function(
        c, callee->span,
        arena_printf(c->sema->memory,
                     "expected a function that does not lead back to %s, found '%s'; functions are "
                     "written out at each call",
                     c->fn->item->name.text, callee->text));
    return;
  }
  if (!check_function(c->sema, item)) c->fn->wrong = true;
}

static void check_call_names(function_check *c, const ast_expr *e) {
  check_callee(c, e);
  check_known_axes(c, &e->call.axes);
  int outer = c->values.count;
  vec_each(const ast_arg, arg, e->call.args) {
    check_function_expr(c, arg->value);
    bool binds = arg->kind == AST_ARG_NAMED && builtin_find(e->call.callee.text, BUILTIN_FOLD);
    if (binds) vec_push(c->sema->memory, &c->values, &arg->name);
  }
  c->values.count = outer;
}

static void check_lag_name(function_check *c, const ast_expr *e) {
  if (!find_function_value(c, e->lag.name.text)) {
    check_value_name(c, &e->lag.name);
    return;
  }
  fail_function(c, e->lag.name.span,
                arena_printf(c->sema->memory,
                             "expected a value at this step, found a lag of the parameter '%s'; "
                             "pass the lagged value: %s(x[t-1])",
                             e->lag.name.text, c->fn->item->name.text));
}

static void check_parts(function_check *c, const ast_expr *e) {
  switch (e->kind) {
    case AST_NAME: check_value_name(c, &e->name); break;
    case AST_NEGATE: check_function_expr(c, e->negate.operand); break;
    case AST_BINARY:
      check_function_expr(c, e->binary.left);
      check_function_expr(c, e->binary.right);
      break;
    case AST_CALL: check_call_names(c, e); break;
    case AST_INDEXED: check_known_axes(c, &e->indexed.axes); break;
    case AST_LAG: check_lag_name(c, e); break;
    case AST_SLICE:
      check_function_expr(c, e->slice.operand);
      for (int i = 0; i < e->slice.slices.count; i++) {
        check_known_axes(c, &(ast_names){.items = &e->slice.slices.items[i].name, .count = 1});
        check_function_expr(c, e->slice.slices.items[i].value);
      }
      break;
    case AST_RENAME:
      check_function_expr(c, e->rename.operand);
      for (int i = 0; i < e->rename.renamings.count; i++) {
        check_known_axes(c, &(ast_names){.items = &e->rename.renamings.items[i].from, .count = 1});
        check_known_axes(c, &(ast_names){.items = &e->rename.renamings.items[i].to, .count = 1});
      }
      break;
    case AST_NUMBER: break;
    default:
      fail_function(c, e->span,
                    "expected a value in a function, found a construct of layers or settings");
      break;
  }
}

static void check_function_expr(function_check *c, const ast_expr *e) {
  if (c->sema->depth >= DEEPEST_NESTING) {
    if (!c->fn->wrong)
      fail_function(c, e->span,
                    "expected functions that call each other less deeply, found a long chain");
    return;
  }
  c->sema->depth++;
  check_parts(c, e);
  c->sema->depth--;
}

static void check_formals(function_check *c, const ast_names *names) {
  for (int i = 0; i < names->count; i++) {
    const ast_name *name = &names->items[i];
    if (name->text == c->sema->word_t || name->text == c->sema->word_pi)
      fail_function(c, name->span,
                    arena_printf(c->sema->memory,
                                 "expected a new name, found '%s', which has a "
                                 "meaning of its own",
                                 name->text));
    bool axes = names == &c->fn->item->fn.axes;
    bool taken = find_function_value(c, name->text) || (!axes && find_declared_axis(c, name->text));
    for (int k = 0; axes && k < i; k++) taken |= names->items[k].text == name->text;
    if (taken)
      fail_function(c, name->span,
                    arena_printf(c->sema->memory, "expected a new name, found '%s' a second time",
                                 name->text));
    sema_note_name(c->sema, name, name->span,
                   symbol_kind_text(axes ? SYMBOL_AXIS : SYMBOL_PARAMETER));
    if (!axes) vec_push(c->sema->memory, &c->values, name);
  }
}

static function *find_typed_function(sema *s, const typed_name *fn) {
  int found = name_map_find(&s->function_index, fn->item);
  if (found >= 0) return s->functions.items[found];
  function *f = ARENA_NEW(s->memory, function);
  *f = (function){.item = fn->item, .file = fn->file};
  name_map_set(s->memory, &s->function_index, fn->item, s->functions.count);
  vec_push(s->memory, &s->functions, f);
  return f;
}

bool check_function(sema *s, const typed_name *fn) {
  function *f = find_typed_function(s, fn);
  if (f->state != FUNCTION_UNSEEN) return !f->wrong;
  f->state = FUNCTION_ACTIVE;
  function_check c = {.sema = s, .file = fn->file, .fn = f};
  check_formals(&c, &fn->item->fn.axes);
  check_formals(&c, &fn->item->fn.params);
  check_function_expr(&c, fn->item->fn.value);
  f->state = FUNCTION_DONE;
  return !f->wrong;
}
