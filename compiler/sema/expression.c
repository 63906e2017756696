// Expressions: names, lags, slices, renames and operators become values with axes. Calls are in
// call.c.
//
//   recurrence r(G, K = 4) {         %0 [G,K] = input k
//     let a = 2 * k[t-1]             %1 [] = number 2
//     ...                            %2 [G,K] = lag k 1
//                                    %3 [G,K] = mul %1 %2  "a"
//
// An expression with a mistake is the error operand, about which nothing more is said.
#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/sema/internal.h"

// ---- names -----------------------------------------------------------------------------------

static const char *function_hint(const sema_scope *scope, const char *name) {
  if (builtin_find(name, BUILTIN_REDUCTION) || builtin_find(name, BUILTIN_FOLD))
    return arena_printf(scope->sema->memory, "%s[...](...)", name);
  if (builtin_find(name, BUILTIN_INDEX)) return "index[...]";
  return arena_printf(scope->sema->memory, "%s(...)", name);
}

static sema_operand unknown_name(const sema_scope *scope, const ast_name *name) {
  sema *s = scope->sema;
  if (name->text == s->word_t)
    return wrong_operand(scope, name->span,
                         "expected a value, found 't'; the step only stands in lags, as in x[t-1]");
  const typed_name *item = sema_find(scope->file, name->text);
  if (builtin_any(name->text) || item)
    return wrong_operand(scope, name->span,
                         "expected a value, found the %s '%s'; a call is written %s",
                         item && item->item->kind == AST_RECURRENCE ? "recurrence" : "function",
                         name->text, function_hint(scope, name->text));
  suggestion found = {.name = name->text};
  for (int i = 0; i < scope->symbols.count; i++)
    if (!scope->symbols.items[i]->hidden) suggest(&found, scope->symbols.items[i]->name);
  const char *hint = suggestion_text(s, &found);
  if (!found.best && scope->function) hint = "; a function sees only its own parameters";
  scope_error(scope, name->span, "expected a declared name, found '%s'%s", name->text, hint);
  offer_suggestion(s, &found, name->span);
  return operand_error;
}

// Names stand for what the lines above have made of them.
static sema_operand too_early(const sema_scope *scope, const symbol *name, span where) {
  sema *s = scope->sema;
  if (!name->declared)
    return wrong_operand(
        scope, where,
        "expected a value known at this point, found '%s', declared on line %d; a name is "
        "used after its declaration",
        name->name, line_of(s, name->span));
  const char *hint = "";
  if (name->kind == SYMBOL_STATE)
    hint = arena_printf(s->memory, "; the state before this step is %s[t-1]", name->name);
  if (name->assigned_at.source) {
    scope_error(scope, where,
                "expected a value known at this point, found '%s', assigned on line %d%s",
                name->name, line_of(s, name->assigned_at), hint);
  } else {
    scope_error(
        scope, where,
        "expected a value known at this point, found the %s '%s', which is never assigned%s",
        symbol_kind_text(name->kind), name->name, hint);
  }
  return operand_error;
}

static sema_operand tensor_value(sema_scope *scope, value_op op, int tensor, span where) {
  return build_value(scope, (typed_value){.op = op, .index = tensor, .span = where});
}

static sema_operand axis_size_value(sema_scope *scope, int axis, span where) {
  int64_t size = scope->body->axes.items[axis].size;
  if (size != TYPED_RUNTIME_SIZE) return operand_constant((double)size);
  return build_value(scope, (typed_value){.op = VALUE_AXIS_SIZE, .index = axis, .span = where});
}

static sema_operand check_name(sema_scope *scope, const ast_name *name) {
  if (name->text == scope->sema->word_pi) return operand_constant(3.14159265358979323846);
  symbol *s = scope_lookup(scope, name);
  if (!s) return unknown_name(scope, name);
  s->used = true;
  bool assignable = s->kind == SYMBOL_STATE || s->kind == SYMBOL_OUTPUT;
  if (!s->declared || (assignable && !s->assigned)) return too_early(scope, s, name->span);
  sema_operand value = s->value;
  if (s->kind == SYMBOL_AXIS) return axis_size_value(scope, s->index, name->span);
  if (s->kind == SYMBOL_INPUT) value = tensor_value(scope, VALUE_INPUT, s->index, name->span);
  if (s->kind == SYMBOL_PARAM) value = tensor_value(scope, VALUE_PARAM, s->index, name->span);
  return build_current_slice(scope, value, name->span);
}

// ---- lags ------------------------------------------------------------------------------------

// Scopes that share a body (the repetitions of a layer's repeat) use a name for different values.
static bool remembers(const typed_lag *lag, const symbol *s, sema_operand remembered) {
  if (lag->name != s->name) return false;
  if (s->kind == SYMBOL_INPUT) return lag->input == s->index;
  return remembered.kind != OPERAND_VALUE || lag->source == remembered.id;
}

// The buffer of this input or let, made at its first lag.
static int lag_buffer(sema_scope *scope, const symbol *s, sema_operand remembered) {
  typed_body *body = scope->body;
  for (int i = 0; i < body->lags.count; i++)
    if (remembers(&body->lags.items[i], s, remembered)) return i;
  typed_lag lag = {.name = s->name,
                   .input = s->kind == SYMBOL_INPUT ? s->index : -1,
                   .source = sema_value(scope, remembered),
                   .axes = remembered.axes,
                   .complex = remembered.complex};
  vec_push(scope->sema->memory, &body->lags, lag);
  return body->lags.count - 1;
}

static sema_operand lagged_value(sema_scope *scope, symbol *s, int steps, span where) {
  sema_operand remembered =
      s->kind == SYMBOL_INPUT ? tensor_value(scope, VALUE_INPUT, s->index, where) : s->value;
  if (remembered.kind == OPERAND_ERROR) return operand_error;
  int lag = lag_buffer(scope, s, remembered);
  typed_lag *buffer = &scope->body->lags.items[lag];
  if (buffer->source < 0) return operand_error;
  if (steps > buffer->depth) buffer->depth = steps;
  return build_value(scope,
                     (typed_value){.op = VALUE_LAG, .index = lag, .steps = steps, .span = where});
}

static sema_operand refuse_lag(const sema_scope *scope, const symbol *s, const ast_expr *e) {
  const char *hint = "";
  if (s->kind == SYMBOL_PARAM) hint = "; a param is the same at every step";
  if (s->kind == SYMBOL_OUTPUT) hint = "; name the value by a let and lag that";
  if (s->kind == SYMBOL_PARAMETER) hint = "; pass the lagged value: f(x[t-1])";
  if (s->kind == SYMBOL_BINDER) hint = "; inside a fold only the values from outside have lags";
  return wrong_operand(scope, e->lag.name.span,
                       "expected an input, a let or a state before the lag, found "
                       "the %s '%s'%s",
                       symbol_kind_text(s->kind), s->name, hint);
}

static sema_operand check_lag(sema_scope *scope, const ast_expr *e) {
  enum { LONGEST_LAG = 1 << 20 };
  symbol *s = scope_lookup(scope, &e->lag.name);
  if (!s) return unknown_name(scope, &e->lag.name);
  s->used = true;
  if (s->kind != SYMBOL_INPUT && s->kind != SYMBOL_LET && s->kind != SYMBOL_STATE)
    return refuse_lag(scope, s, e);
  if (!s->declared) return too_early(scope, s, e->lag.name.span);
  double steps = e->lag.steps->number.value;
  const char *written = e->lag.steps->number.text;
  if (!(steps >= 1))
    return wrong_operand(
        scope, e->lag.steps->span, "expected a lag of at least 1 step, found %s%s", written,
        s->kind == SYMBOL_STATE ? "" : "; the value at this step is written without a lag");
  if (s->kind == SYMBOL_STATE && steps != 1)
    return wrong_operand(
        scope, e->lag.steps->span,
        "expected %s[t-1], found a lag of %s; a state lags by one step only: keep older "
        "values by a let and its lag",
        s->name, written);
  if (steps > LONGEST_LAG)
    return wrong_operand(scope, e->lag.steps->span, "expected a lag of at most %d steps, found %s",
                         LONGEST_LAG, written);
  sema_operand value = s->kind == SYMBOL_STATE
                           ? tensor_value(scope, VALUE_PREVIOUS, s->index, e->span)
                           : lagged_value(scope, s, (int)steps, e->span);
  return build_current_slice(scope, value, e->span);
}

// ---- slices and renames ----------------------------------------------------------------------

// An axis that the operand has; -1 after a message.
static int operand_axis(sema_scope *scope, const ast_name *name, const ast_expr *operand,
                        sema_operand value) {
  symbol *s = scope_lookup(scope, name);
  if (s && s->kind == SYMBOL_AXIS) {
    s->used = true;
    if (value.kind == OPERAND_ERROR || axis_in(value.axes, s->index)) return s->index;
  }
  if (value.kind == OPERAND_ERROR) return scope_axis(scope, name);
  const char *hint = "";
  if (s && s->kind == SYMBOL_AXIS && scope->state->slice[s->index] >= 0) {
    hint = arena_printf(scope->sema->memory, "; inside fold[%s] it stands for its current slice",
                        name->text);
  } else if (!s) {
    suggestion found = {.name = name->text};
    for (int i = 0; i < scope->body->axes.count; i++)
      if (axis_in(value.axes, i)) suggest(&found, scope->body->axes.items[i].name);
    hint = suggestion_text(scope->sema, &found);
  }
  const char *found = s && s->kind == SYMBOL_AXIS
                          ? axis_here_text(scope, name->text, s->index)
                          : arena_printf(scope->sema->memory, "'%s'", name->text);
  scope_error(scope, name->span, "expected an axis of %s, found %s%s",
              with_axes_text(scope, operand, value.axes), found, hint);
  return -1;
}

axis_set check_operand_axes(sema_scope *scope, const ast_names *names, const ast_expr *operand,
                            sema_operand value) {
  axis_set axes = 0;
  bool fine = true;
  for (int i = 0; i < names->count; i++) {
    int axis = operand_axis(scope, &names->items[i], operand, value);
    fine &= add_axis(scope, &names->items[i], axis, &axes);
  }
  return fine ? axes : 0;
}

void report_runtime_axis(const sema_scope *scope, int axis, span where, const char *what) {
  const typed_axis *a = &scope->body->axes.items[axis];
  scope_error(scope, where,
              "expected a compile-time size for the axis '%s', which %s, found one "
              "that is known at run time; give it in the header, as in %s = 64, or by -D",
              a->name, what, a->name);
  diag_note(scope->sema->messages, a->span, "the axis '%s' is declared here", a->name);
}

static sema_operand check_slice(sema_scope *scope, const ast_expr *e) {
  sema_operand value = check_expression(scope, e->slice.operand);
  vec_each(const ast_binding, slice, e->slice.slices) {
    int axis = operand_axis(scope, &slice->name, e->slice.operand, value);
    int64_t entry;
    bool fine = sema_whole(scope, slice->value, "the entry of a slice", 0, &entry);
    if (axis < 0 || !fine || value.kind == OPERAND_ERROR) {
      value = operand_error;
      continue;
    }
    typed_axis *sliced = &scope->body->axes.items[axis];
    bool runtime = sliced->size == TYPED_RUNTIME_SIZE;
    int64_t size = runtime ? INT32_MAX : sliced->size;
    if (entry >= size) {
      scope_error(scope, slice->value->span, "expected an entry of %s from 0 to %lld, found %lld",
                  slice->name.text, (long long)size - 1, (long long)entry);
      value = operand_error;
    } else if (runtime && entry >= sliced->least) {
      sliced->least = entry + 1;  // checked when the size is known
    }
    value = build_slice(scope, value, axis, entry, e->span);
  }
  return value;
}

// Where the from-axes go; renames of one {...} happen together, so {N -> M, M -> L} is legal.
typedef struct renames {
  int from[TYPED_MAX_AXES], to[TYPED_MAX_AXES];
  int count;
} renames;

// The axis whose size a run-time axis takes: N for M = N.
static const typed_axis *size_owner(const sema_scope *scope, const typed_axis *axis) {
  while (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr && axis->size_expr->kind == AST_NAME) {
    const typed_axis *owner = scope->body->axes.items;
    while (owner->name != axis->size_expr->name.text) owner++;  // an earlier one of the header
    axis = owner;
  }
  return axis;
}

// Whether the header alone says so: sizes at run time are one if one is declared by the other, or
// both by one text.
static bool same_size(const sema_scope *scope, int x, int y) {
  const typed_axis *a = size_owner(scope, &scope->body->axes.items[x]);
  const typed_axis *b = size_owner(scope, &scope->body->axes.items[y]);
  if (a == b) return true;
  if (a->size != TYPED_RUNTIME_SIZE || b->size != TYPED_RUNTIME_SIZE) return a->size == b->size;
  return a->size_expr && b->size_expr &&
         strcmp(expr_to_text(scope->sema->memory, a->size_expr),
                expr_to_text(scope->sema->memory, b->size_expr)) == 0;
}

// "M = 4", "N at run time"
static const char *size_text(const sema_scope *scope, int axis) {
  const typed_axis *a = &scope->body->axes.items[axis];
  if (a->size == TYPED_RUNTIME_SIZE)
    return arena_printf(scope->sema->memory, "%s at run time", a->name);
  return arena_printf(scope->sema->memory, "%s = %lld", a->name, (long long)a->size);
}

static const char *one_size_hint(const sema_scope *scope, int from, int to) {
  const sema_scope *outermost = scope;
  while (outermost->caller) outermost = outermost->caller;
  if (outermost->call.source) return "the call must give both one size";
  const typed_axis *axes = scope->body->axes.items;
  return arena_printf(scope->sema->memory, "declare %s = %s%s%s", axes[to].name, axes[from].name,
                      scope->function ? " in the header of " : "",
                      scope->function ? scope->body->name : "");
}

static bool check_renaming(sema_scope *scope, const ast_expr *e, sema_operand value, int i,
                           renames *all) {
  const ast_renaming *r = &e->rename.renamings.items[i];
  int from = operand_axis(scope, &r->from, e->rename.operand, value);
  int to = scope_axis(scope, &r->to);
  if (from < 0 || to < 0 || value.kind == OPERAND_ERROR) return false;
  for (int k = 0; k < all->count; k++) {
    bool twice = all->from[k] == from;
    if (!twice && all->to[k] != to) continue;
    return scope_error(scope, twice ? r->from.span : r->to.span,
                       "expected each axis once, found '%s' twice",
                       twice ? r->from.text : r->to.text);
  }
  if (!same_size(scope, from, to))
    return scope_error(scope, r->span, "expected axes of one size, found %s and %s; %s",
                       size_text(scope, from), size_text(scope, to),
                       one_size_hint(scope, from, to));
  all->from[all->count] = from;
  all->to[all->count++] = to;
  return true;
}

static int pending_index(const renames *all, axis_set present, uint64_t done) {
  for (int k = 0; k < all->count; k++)
    if (!(done >> k & 1) && !axis_in(present, all->to[k])) return k;
  return -1;
}

// Follows the renames from the k-th on, each onto the axis that the next one takes away. The chain
// ends at a rename whose axis stays, or at its own start; `path` holds it.
static bool is_circle(const renames *all, uint64_t done, int k, int *path, int *length) {
  for (*length = 0; *length < all->count;) {
    path[(*length)++] = k;
    int next = -1;
    for (int j = 0; j < all->count; j++)
      if (!(done >> j & 1) && all->from[j] == all->to[k]) next = j;
    if (next < 0) return false;
    k = next;
    if (k == path[0]) return *length > 1;  // x{N -> N} is no change of places
  }
  return true;
}

// N -> M, M -> N: x{N -> L}{M -> N}{L -> M}
static void refuse_circle(const sema_scope *scope, const ast_expr *e, const int *path, int length) {
  arena *memory = scope->sema->memory;
  const ast_renaming *items = e->rename.renamings.items, *first = &items[path[0]];
  const char *third = arena_printf(memory, "%s2", first->from.text);
  const char *text = arena_printf(memory, "{%s -> %s}", first->from.text, third);
  for (int i = length - 1; i > 0; i--) {
    const ast_renaming *r = &items[path[i]];
    text = arena_printf(memory, "%s{%s -> %s}", text, r->from.text, r->to.text);
  }
  scope_error(
      scope, first->span,
      "expected renames one after another, found axes that change places; give them a third "
      "axis %s = %s: %s%s{%s -> %s}",
      third, first->from.text, short_text(scope->sema, e->rename.operand), text, third,
      first->to.text);
}

static void refuse_rename(const sema_scope *scope, const ast_expr *e, const renames *all,
                          uint64_t done, sema_operand value) {
  int path[TYPED_MAX_AXES + 1], length, k = 0;
  while (done >> k & 1) k++;
  if (is_circle(all, done, k, path, &length)) {
    refuse_circle(scope, e, path, length);
    return;
  }
  k = path[length - 1];
  const ast_name *to = &e->rename.renamings.items[k].to;
  scope_error(scope, to->span, "expected an axis that the value lacks, found %s; it is %s",
              axis_here_text(scope, to->text, all->to[k]),
              with_axes_text(scope, e->rename.operand, value.axes));
}

static sema_operand check_rename(sema_scope *scope, const ast_expr *e) {
  enum { MOST_RENAMES = TYPED_MAX_AXES };
  sema_operand operand = check_expression(scope, e->rename.operand), value = operand;
  renames all = {0};
  bool fine = value.kind != OPERAND_ERROR;
  for (int i = 0; i < e->rename.renamings.count; i++)
    fine &= i < MOST_RENAMES && check_renaming(scope, e, value, i, &all);
  if (!fine) return operand_error;
  uint64_t done = 0;
  for (int step = 0; step < all.count; step++) {
    int k = pending_index(&all, value.axes, done);
    if (k < 0) {
      refuse_rename(scope, e, &all, done, operand);
      return operand_error;
    }
    value = build_rename(scope, value, all.from[k], all.to[k], e->span);
    done |= UINT64_C(1) << k;
  }
  return build_current_slice(scope, value, e->span);
}

static sema_operand check_index(sema_scope *scope, const ast_expr *e) {
  const ast_name *name = &e->indexed.name;
  if (!builtin_find(name->text, BUILTIN_INDEX)) {
    const char *written = short_text(scope->sema, e);
    if (scope_find(scope, name->text)) {
      scope_find(scope, name->text)->used = true;
      scope_error(scope, e->span,
                  "expected a value, found %s; a value is written without its axes: %s", written,
                  name->text);
    } else if (builtin_find(name->text, BUILTIN_REDUCTION) ||
               builtin_find(name->text, BUILTIN_FOLD)) {
      scope_error(scope, e->span, "expected an operand in parentheses after %s, found none",
                  written);
    } else {
      unknown_name(scope, name);
    }
    return operand_error;
  }
  if (e->indexed.axes.count != 1)
    return wrong_operand(scope, e->indexed.axes.items[1].span,
                         "expected one axis of index, found %d", e->indexed.axes.count);
  int axis = scope_axis(scope, &e->indexed.axes.items[0]);
  if (axis < 0) return operand_error;
  if (scope->state->slice[axis] >= 0) return operand_constant(scope->state->slice[axis]);
  return build_value(scope, (typed_value){.op = VALUE_INDEX, .index = axis, .span = e->span});
}

// ---- operators -------------------------------------------------------------------------------

static sema_operand check_binary(sema_scope *scope, const ast_expr *e) {
  bool compares = e->binary.op >= AST_LESS;
  sema_operand left = compares ? check_real(scope, e->binary.left, "a comparison")
                               : check_expression(scope, e->binary.left);
  sema_operand right = compares ? check_real(scope, e->binary.right, "a comparison")
                                : check_expression(scope, e->binary.right);
  if (e->binary.op == AST_POWER)
    return build_power(scope, left, right, e->binary.right->span, e->span);
  return build_binary(scope, operation_of(e->binary.op), left, right, e->span);
}

static sema_operand refuse_construct(const sema_scope *scope, const ast_expr *e) {
  const char *found = NULL, *hint = "";
  switch (e->kind) {
    case AST_PERCENT:
      found = "a percentage";
      hint = arena_printf(scope->sema->memory, "; write %s",
                          number_text(scope->sema, e->percent.value));
      break;
    case AST_STRING: found = "a text"; break;
    case AST_TUPLE:
      found = "a tuple";
      hint = scope->hook ? "; functions of single entries map over tuples, operators do not"
                         : "; tuples occur in layers only";
      break;
    case AST_REPEAT:
      found = "repeat";
      hint = scope->hook ? "; it is the whole right side of a let: let y = repeat ..."
                         : "; it occurs in layers and models only";
      break;
    case AST_MIX: found = "mix"; break;
    case AST_AXES: found = "axes in brackets"; break;
    case AST_PATH:
      found = "a path";
      hint = "; paths name weights, in an init only";
      break;
    default: ICE("sema", "expression of kind %d", e->kind);
  }
  return wrong_operand(scope, e->span, "expected a value, found %s%s", found, hint);
}

static sema_operand check_any(sema_scope *scope, const ast_expr *e) {
  switch (e->kind) {
    case AST_NUMBER: return operand_constant(e->number.value);
    case AST_NAME: return check_name(scope, &e->name);
    case AST_NEGATE:
      return build_unary(scope, VALUE_NEG, check_expression(scope, e->negate.operand), e->span);
    case AST_BINARY: return check_binary(scope, e);
    case AST_CALL: return check_call(scope, e);
    case AST_INDEXED: return check_index(scope, e);
    case AST_LAG: return check_lag(scope, e);
    case AST_SLICE: return check_slice(scope, e);
    case AST_RENAME: return check_rename(scope, e);
    default: return refuse_construct(scope, e);
  }
}

sema_operand check_expression(sema_scope *scope, const ast_expr *e) {
  if (scope->state->too_large) return operand_error;
  if (scope->state->expressions++ > MOST_EXPRESSIONS) return refuse_growth(scope, e->span);
  if (scope->sema->depth >= DEEPEST_NESTING)
    return wrong_operand(scope, e->span,
                         "expected at most %d operations inside each other, those of called "
                         "functions included, found more; name parts with let",
                         DEEPEST_NESTING);
  scope->sema->depth++;
  sema_operand result = check_any(scope, e);
  scope->sema->depth--;
  return result;
}

sema_operand check_real(sema_scope *scope, const ast_expr *e, const char *user) {
  sema_operand value = check_expression(scope, e);
  if (value.kind == OPERAND_ERROR || !value.complex) return value;
  const char *text = short_text(scope->sema, e);
  return wrong_operand(scope, e->span,
                       "expected a real operand of %s, found a complex one; take re(%s)", user,
                       text);
}

// ---- for other passes (sema.h) ---------------------------------------------------------------

sema_operand sema_expression(sema_scope *scope, const ast_expr *e) {
  sema_operand value = check_expression(scope, e);
  if (value.kind == OPERAND_ERROR) scope_use_all(scope, e);
  return value;
}

bool sema_constant(sema_scope *scope, const ast_expr *e, const char *what, double *result) {
  sema_operand value = sema_expression(scope, e);
  if (value.kind == OPERAND_ERROR) return false;
  if (value.kind != OPERAND_CONSTANT || value.axes)
    return scope_error(scope, e->span, "expected a constant for %s, found %s", what,
                       short_text(scope->sema, e));
  *result = value.number;
  return true;
}

bool sema_whole(sema_scope *scope, const ast_expr *e, const char *what, int64_t least,
                int64_t *result) {
  double number;
  if (e->kind == AST_PERCENT)
    return scope_error(scope, e->span, "expected a whole number for %s, found %s", what,
                       e->percent.text);
  if (!sema_constant(scope, e, what, &number)) return false;
  const char *wrong = number != floor(number) ? "a whole number"
                      : number < (double)least
                          ? arena_printf(scope->sema->memory, "at least %lld", (long long)least)
                      : number > INT32_MAX ? "at most 2147483647"
                                           : NULL;
  if (wrong)
    return scope_error(scope, e->span, "expected %s for %s, found %s", wrong, what,
                       number_text(scope->sema, number));
  *result = (int64_t)number;
  return true;
}
