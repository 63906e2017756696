// Starts: what stands behind `~` becomes a flat list of steps, functions inlined, evaluated once
// per entry when a training program is made.
//
//   param A_log[G,R] ~ log(uniform(1, 16))       1; 16; uniform 0 1; log 2
//   param dt_bias[G] ~ inv_softplus(0.01)        0.01; inv_softplus 0
//   in_proj.C ~ 0.5 * (in_proj.C + in_proj.B)    0.5; draw in_proj.C; draw in_proj.B; add 1 2; mul 0 3
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sema/internal.h"

enum { WRONG = -1 };

// Reports a mistake; WRONG.
#define wrong_start(...) (scope_error(__VA_ARGS__), WRONG)

// Where no axis has this name: index[layers] is the layer of a weight, counted from 0, and `layers`
// how many there are.
static const char layers_name[] = "layers";

typedef struct parameter {
  const char *name;
  int value;  // position in the list
} parameter;

typedef struct start_check {
  sema_scope *scope;
  const typed_file *file;  // whose fns are seen
  typed_start *start;
  axis_set axes;          // of the weight
  sema_path_hook *paths;  // NULL: no names of weights
  void *context;
  const char *function;  // inside an fn
  VEC(parameter)
  parameters;  // of that fn
  int calls;   // of fns inside each other
  int *steps;  // expressions checked, repeats by calls included
} start_check;

static int check_start_value(start_check *c, const ast_expr *e);

static int append_start_value(start_check *c, start_value value) {
  if (c->start->values.count >= TYPED_MAX_VALUES) return WRONG;
  vec_push(c->scope->sema->memory, &c->start->values, value);
  return c->start->values.count - 1;
}

static int append_number(start_check *c, double number) {
  return append_start_value(
      c, (start_value){.kind = START_VALUE, .op = VALUE_NUMBER, .number = number});
}

static bool is_start_number(const start_check *c, int value, double *number) {
  const start_value *v = &c->start->values.items[value];
  if (v->kind != START_VALUE || v->op != VALUE_NUMBER) return false;
  *number = v->number;
  return true;
}

// Operations on constants at the end of the list are computed: sizes and numbers stay numbers.
static int append_operation(start_check *c, value_op op, const int *args) {
  double numbers[3] = {0}, result;
  bool constant = true, complex = false;
  int arity = value_arity(op);
  start_value value = {.kind = START_VALUE, .op = op};
  for (int i = 0; i < arity; i++) {
    if (args[i] == WRONG) return WRONG;
    value.args[i] = args[i];
    constant &= is_start_number(c, args[i], &numbers[i]);
    complex |= c->start->values.items[args[i]].complex && !(op == VALUE_WHERE && i == 0);
  }
  if (constant && fold_constant(op, numbers, &result)) return append_number(c, result);
  value.complex =
      op == VALUE_COMPLEX || op == VALUE_POLAR ||
      (complex && op != VALUE_REAL_PART && op != VALUE_IMAGINARY_PART && op != VALUE_COMPLEX_ABS);
  return append_start_value(c, value);
}

// ---- names and paths -------------------------------------------------------------------------

static int check_draw(start_check *c, const ast_expr *e, const char *path) {
  if (c->paths && c->paths(c->context, e))
    return append_start_value(c, (start_value){.kind = START_OTHER_DRAW, .path = path});
  return wrong_start(c->scope, e->span,
                     c->paths ? "expected a weight of the layer, found '%s'"
                              : "expected no names of weights here, found '%s'; they occur in "
                                "an init only",
                     path);
}

static int check_axis_size(start_check *c, int axis) {
  int64_t size = c->scope->body->axes.items[axis].size;
  if (size != TYPED_RUNTIME_SIZE) return append_number(c, (double)size);
  return append_start_value(
      c, (start_value){.kind = START_VALUE, .op = VALUE_AXIS_SIZE, .axis = axis});
}

static int check_name(start_check *c, const ast_expr *e) {
  sema *s = c->scope->sema;
  const char *name = e->name.text;
  if (name == s->word_pi) return append_number(c, 3.14159265358979323846);
  for (int i = c->parameters.count - 1; i >= 0; i--)
    if (c->parameters.items[i].name == name) return c->parameters.items[i].value;
  symbol *known = c->function ? NULL : scope_lookup(c->scope, &e->name);
  if (known && known->kind == SYMBOL_AXIS) {
    known->used = true;
    return check_axis_size(c, known->index);
  }
  if (known && known->kind == SYMBOL_LET && known->value.kind == OPERAND_CONSTANT) {
    known->used = true;
    return append_number(c, known->value.number);
  }
  if (builtin_find(name, BUILTIN_START) && strcmp(name, "identity") == 0)
    return append_start_value(c, (start_value){.kind = START_IDENTITY});
  bool path = c->paths && !known && c->paths(c->context, e);
  if (!known && !path && !c->function && strcmp(name, layers_name) == 0)
    return append_start_value(c, (start_value){.kind = START_LAYERS});
  if (c->paths && !known) return check_draw(c, e, name);
  if (known) {
    known->used = true;
    scope_error(c->scope, e->span,
                "expected a start made of draws, numbers and sizes, found the %s '%s'",
                symbol_kind_text(known->kind), name);
  } else if (builtin_any(name)) {
    scope_error(c->scope, e->span, "expected a call of %s, found its name alone", name);
  } else {
    suggestion found = {.name = name};
    for (int i = 0; i < c->scope->body->axes.count; i++)
      suggest(&found, c->scope->body->axes.items[i].name);
    suggest(&found, "identity");
    scope_error(c->scope, e->span,
                "expected a start made of draws, numbers and sizes, found '%s'%s", name,
                suggestion_text(s, &found));
  }
  return WRONG;
}

// The axis in brackets, one of the weight's own, or WRONG.
static int check_own_axis(start_check *c, const ast_name *name) {
  int axis = scope_axis(c->scope, name);
  if (axis < 0) return WRONG;
  if (axis_in(c->axes, axis)) return axis;
  return wrong_start(c->scope, name->span,
                     "expected an axis of the weight, which has %s, found '%s'",
                     axes_text(c->scope, c->axes), name->text);
}

// legs_imag[N], legs_imag[N](2 * N): a row of HiPPO-LegS for each entry along the axis.
static bool is_legs(const start_check *c, const char *name) {
  return (!strcmp(name, "legs_imag") || !strcmp(name, "legs_input")) && !sema_find(c->file, name);
}

static int check_legs(start_check *c, const ast_expr *e, const char *name, const ast_names *axes,
                      const ast_expr *size) {
  double number = 1, entries = 0;
  if (axes->count != 1 || c->function)
    return wrong_start(c->scope, e->span, "expected one axis of the weight, as in %s[N], found %s",
                       name, short_text(c->scope->sema, e));
  int axis = check_own_axis(c, &axes->items[0]);
  if (axis == WRONG) return WRONG;
  int own = check_axis_size(c, axis), all = size ? check_start_value(c, size) : own;
  if (own == WRONG || all == WRONG) return WRONG;
  bool known = is_start_number(c, all, &number);
  if (known && (number != floor(number) || number < 1 || number > 4096 ||
                (is_start_number(c, own, &entries) && entries > number))) {
    return wrong_start(c->scope, size ? size->span : e->span,
                       "expected a size of HiPPO-LegS from that of the axis to 4096, found %s",
                       number_text(c->scope->sema, number));
  }
  return append_start_value(
      c,
      (start_value){.kind = name[5] == 'i' && name[6] == 'm' ? START_LEGS_IMAG : START_LEGS_INPUT,
                    .axis = axis,
                    .args = {all}});
}

static int check_index(start_check *c, const ast_expr *e) {
  const ast_names *axes = &e->indexed.axes;
  if (is_legs(c, e->indexed.name.text)) return check_legs(c, e, e->indexed.name.text, axes, NULL);
  bool layers = axes->count == 1 && strcmp(axes->items[0].text, layers_name) == 0 && !c->function &&
                !scope_find(c->scope, axes->items[0].text);
  if (layers && builtin_find(e->indexed.name.text, BUILTIN_INDEX))
    return append_start_value(c, (start_value){.kind = START_LAYER});
  if (!builtin_find(e->indexed.name.text, BUILTIN_INDEX) || axes->count != 1 || c->function)
    return wrong_start(c->scope, e->span,
                       "expected a start made of draws, numbers and sizes, found %s",
                       short_text(c->scope->sema, e));
  int axis = check_own_axis(c, &axes->items[0]);
  if (axis == WRONG) return WRONG;
  return append_start_value(c, (start_value){.kind = START_INDEX, .axis = axis});
}

// ---- calls -----------------------------------------------------------------------------------

static start_kind kind_of_draw(const char *name) {
  if (strcmp(name, "uniform") == 0) return START_UNIFORM;
  if (strcmp(name, "loguniform") == 0) return START_LOGUNIFORM;
  if (strcmp(name, "normal") == 0) return START_NORMAL;
  return strcmp(name, "inv_softplus") == 0 ? START_INV_SOFTPLUS : START_IDENTITY;
}

// What makes no sense for any entry: an empty interval, a logarithm of nothing.
static bool check_start_numbers(start_check *c, const ast_expr *e, start_kind kind,
                                const int *args) {
  double a = 0, b = 0;
  bool both = is_start_number(c, args[0], &a);
  if (kind == START_INV_SOFTPLUS) {
    if (!both || a > 0) return true;
    return scope_error(c->scope, e->span, "expected a positive number in inv_softplus, found %s",
                       number_text(c->scope->sema, a));
  }
  both &= is_start_number(c, args[1], &b);
  const char *wanted = NULL;
  if (kind != START_NORMAL && both && a > b) wanted = "two ends in rising order";
  if (kind == START_LOGUNIFORM && both && !(a > 0)) wanted = "positive ends";
  if (kind == START_NORMAL && is_start_number(c, args[1], &b) && b < 0)
    wanted = "a standard deviation of at least 0";
  if (!wanted) return true;
  return scope_error(c->scope, e->span, "expected %s in %s, found %s and %s", wanted,
                     e->call.callee.text, both ? number_text(c->scope->sema, a) : "a mean",
                     number_text(c->scope->sema, b));
}

static bool check_start_arguments(start_check *c, const ast_expr *e, const char *signature,
                                  int count, int *args) {
  if (!check_arity(c->scope, e, signature, count)) return false;
  bool fine = true;
  for (int i = 0; i < count; i++) {
    args[i] = check_start_value(c, e->call.args.items[i].value);
    fine &= args[i] != WRONG;
  }
  return fine;
}

static bool refuse_complex(start_check *c, const ast_expr *e, const builtin *b, const int *args) {
  for (int i = 0; i < b->arity; i++) {
    bool refused = !b->complex_ok || (b->op == VALUE_WHERE && i == 0);
    if (!refused || !c->start->values.items[args[i]].complex) continue;
    scope_error(c->scope, e->call.args.items[i].value->span,
                "expected a real operand of %s, found a complex one", b->name);
    return true;
  }
  return false;
}

static int check_draw_call(start_check *c, const ast_expr *e, const builtin *b) {
  int args[3] = {0};
  const char *signature = b->arity == 2 ? arena_printf(c->scope->sema->memory, "%s(a, b)", b->name)
                                        : arena_printf(c->scope->sema->memory, "%s(x)", b->name);
  if (b->arity == 0)
    return wrong_start(c->scope, e->span, "expected %s without arguments, found a call; write ~ %s",
                       b->name, b->name);
  if (!check_start_arguments(c, e, signature, b->arity, args)) return WRONG;
  start_kind kind = kind_of_draw(b->name);
  if (refuse_complex(c, e, b, args) || !check_start_numbers(c, e, kind, args)) return WRONG;
  return append_start_value(c, (start_value){.kind = kind, .args = {args[0], args[1]}});
}

static int check_elementwise_start(start_check *c, const ast_expr *e, const builtin *b) {
  int args[3] = {0};
  if (e->call.axes.count)
    return wrong_start(c->scope, e->span,
                       "expected functions of single entries in a start, found the reduction "
                       "%s[...]",
                       b->name);
  const char *signature = arena_printf(c->scope->sema->memory, "%s(%s)", b->name,
                                       b->arity == 1   ? "x"
                                       : b->arity == 2 ? "a, b"
                                                       : "a, b, c");
  if (!check_start_arguments(c, e, signature, b->arity, args)) return WRONG;
  if (refuse_complex(c, e, b, args)) return WRONG;
  value_op op = b->op;
  bool complex = c->start->values.items[args[0]].complex;
  if (op == VALUE_ABS && complex) op = VALUE_COMPLEX_ABS;
  if (!complex && (op == VALUE_REAL_PART || op == VALUE_CONJUGATE)) return args[0];
  if (!complex && op == VALUE_IMAGINARY_PART) return append_number(c, 0);
  return append_operation(c, op, args);
}

static int check_fn(start_check *c, const ast_expr *e, const typed_name *fn) {
  sema *s = c->scope->sema;
  const ast_names *formal = &fn->item->fn.params;
  if (!check_function(s, fn)) return WRONG;
  if (fn->item->fn.axes.count || e->call.axes.count)
    return wrong_start(c->scope, e->span,
                       "expected functions of single entries in a start, found '%s', which "
                       "has axes",
                       fn->name);
  const char *signature = arena_printf(s->memory, "%s with %d", fn->name, formal->count);
  int *args = ARENA_ARRAY(s->memory, int, formal->count);
  if (c->calls >= DEEPEST_CALLS || !check_start_arguments(c, e, signature, formal->count, args))
    return WRONG;
  start_check inner = *c;
  inner.parameters = (__typeof__(inner.parameters)){0};
  for (int i = 0; i < formal->count; i++)
    vec_push(s->memory, &inner.parameters,
             (parameter){.name = formal->items[i].text, .value = args[i]});
  inner.file = fn->file;
  inner.function = fn->name;
  inner.calls++;
  inner.paths = NULL;
  return check_start_value(&inner, fn->item->fn.value);
}

static int check_start_call(start_check *c, const ast_expr *e) {
  const char *name = e->call.callee.text;
  const builtin *draw = builtin_find(name, BUILTIN_START);
  const builtin *elementwise = builtin_find(name, BUILTIN_ELEMENTWISE);
  const builtin *reduction = builtin_find(name, BUILTIN_REDUCTION);
  if (is_legs(c, name) && e->call.args.count == 1 &&
      e->call.args.items[0].kind == AST_ARG_POSITIONAL)
    return check_legs(c, e, name, &e->call.axes, e->call.args.items[0].value);
  if (draw) return check_draw_call(c, e, draw);
  if (elementwise) return check_elementwise_start(c, e, elementwise);
  const typed_name *item = sema_find(c->file, name);
  if (item) sema_note_item(c->scope->sema, e->call.callee.span, item->item);
  if (item && item->item->kind == AST_FN) return check_fn(c, e, item);
  if (reduction || builtin_find(name, BUILTIN_FOLD))
    return wrong_start(c->scope, e->span,
                       "expected functions of single entries in a start, found %s[...]", name);
  suggestion found = {.name = name};
  for (int i = 0; builtin_name_of(BUILTIN_START, i); i++)
    suggest(&found, builtin_name_of(BUILTIN_START, i));
  for (int i = 0; builtin_name(i); i++) suggest(&found, builtin_name(i));
  return wrong_start(c->scope, e->call.callee.span, "expected a function or a draw, found '%s'%s",
                     name, suggestion_text(c->scope->sema, &found));
}

// ---- operators -------------------------------------------------------------------------------

static int check_power(start_check *c, const ast_expr *e, const int *args) {
  double exponent, base;
  bool constant = is_start_number(c, args[1], &exponent);
  bool whole = constant && exponent == floor(exponent) && fabs(exponent) <= INT32_MAX;
  bool complex = c->start->values.items[args[0]].complex || c->start->values.items[args[1]].complex;
  if (whole && is_start_number(c, args[0], &base)) return append_number(c, pow(base, exponent));
  if (whole)
    return append_start_value(c, (start_value){.kind = START_VALUE,
                                               .op = VALUE_WHOLE_POWER,
                                               .args = {args[0]},
                                               .exponent = (int)exponent,
                                               .complex = complex});
  if (complex)
    return wrong_start(c->scope, e->binary.right->span,
                       "expected a whole constant as the exponent of a complex "
                       "power, found another one");
  return append_operation(c, VALUE_POWER, args);
}

static int check_binary(start_check *c, const ast_expr *e) {
  int args[3] = {check_start_value(c, e->binary.left), check_start_value(c, e->binary.right)};
  if (args[0] == WRONG || args[1] == WRONG) return WRONG;
  bool complex = c->start->values.items[args[0]].complex || c->start->values.items[args[1]].complex;
  if (e->binary.op == AST_POWER) return check_power(c, e, args);
  if (complex && e->binary.op >= AST_LESS)
    return wrong_start(c->scope, e->span,
                       "expected real operands of a comparison, found a complex one");
  return append_operation(c, operation_of(e->binary.op), args);
}

static int check_any(start_check *c, const ast_expr *e) {
  switch (e->kind) {
    case AST_NUMBER: return append_number(c, e->number.value);
    case AST_NAME: return check_name(c, e);
    case AST_PATH: return check_draw(c, e, names_text(c->scope->sema->memory, &e->path.steps, "."));
    case AST_NEGATE: {
      int args[3] = {check_start_value(c, e->negate.operand)};
      return append_operation(c, VALUE_NEG, args);
    }
    case AST_BINARY: return check_binary(c, e);
    case AST_CALL: return check_start_call(c, e);
    case AST_INDEXED: return check_index(c, e);
    default:
      return wrong_start(c->scope, e->span,
                         "expected a start made of draws, numbers, sizes and functions of them, "
                         "found another construct");
  }
}

static int check_start_value(start_check *c, const ast_expr *e) {
  if (++*c->steps > MOST_EXPRESSIONS) return WRONG;
  if (c->scope->sema->depth >= DEEPEST_NESTING)
    return wrong_start(c->scope, e->span, "expected a simpler start, found a deeply nested one");
  c->scope->sema->depth++;
  int result = check_any(c, e);
  c->scope->sema->depth--;
  return result;
}

// Drops what the result does not need (folded constants) and puts the result last.
static void prune(arena *memory, typed_start *start, int result) {
  bool *needed = ARENA_ARRAY(memory, bool, result + 1);
  int *moved = ARENA_ARRAY(memory, int, result + 1);
  needed[result] = true;
  for (int i = result; i >= 0; i--) {
    const start_value *v = &start->values.items[i];
    int arity = start_arity(v);
    for (int k = 0; needed[i] && k < arity; k++) needed[v->args[k]] = true;
  }
  int kept = 0;
  for (int i = 0; i <= result; i++) {
    if (!needed[i]) continue;
    start_value v = start->values.items[i];
    for (int k = 0; k < start_arity(&v); k++) v.args[k] = moved[v.args[k]];
    moved[i] = kept;
    start->values.items[kept++] = v;
  }
  start->values.count = kept;
}

const typed_start *sema_check_start(sema_scope *scope, const ast_expr *e, axis_set axes,
                                    sema_path_hook *paths, void *context) {
  arena *memory = scope->sema->memory;
  typed_start *start = ARENA_NEW(memory, typed_start);
  int steps = 0;
  start->source = e;
  start_check c = {.scope = scope,
                   .file = scope->file,
                   .start = start,
                   .axes = axes,
                   .paths = paths,
                   .context = context,
                   .steps = &steps};
  int errors = diag_error_count(scope->sema->messages);
  int result = check_start_value(&c, e);
  if (result != WRONG && diag_error_count(scope->sema->messages) == errors) {
    prune(memory, start, result);
    return start;
  }
  if (diag_error_count(scope->sema->messages) == errors)
    scope_error(scope, e->span, "expected a simpler start, found one that grows too large");
  scope_use_all(scope, e);
  return NULL;
}
