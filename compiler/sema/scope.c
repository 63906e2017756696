// Names of one body: axes, tensors, lets and binders in one space, without shadowing.

#include "compiler/sema/internal.h"

const sema_operand operand_error = {.kind = OPERAND_ERROR, .id = NO_VALUE};

sema_operand operand_constant(double number) {
  return (sema_operand){.kind = OPERAND_CONSTANT, .id = NO_VALUE, .number = number};
}

sema_operand operand_of_value(const sema_scope *scope, value_id id) {
  const typed_value *v = &scope->body->values.items[id];
  return (sema_operand){.kind = OPERAND_VALUE, .id = id, .axes = v->axes, .complex = v->complex};
}

static symbol *latest(const sema_scope *scope, const char *name) {
  int found = name_map_find(&scope->index, name);
  return found < 0 ? NULL : scope->symbols.items[found];
}

symbol *scope_find(const sema_scope *scope, const char *name) {
  symbol *s = latest(scope, name);
  while (s && s->hidden) s = s->earlier;
  return s;
}

symbol *scope_lookup(const sema_scope *scope, const ast_name *name) {
  symbol *s = scope_find(scope, name->text);
  if (s) note_symbol_use(scope, s, name->span);
  return s;
}

const char *symbol_kind_text(symbol_kind kind) {
  static const char *const texts[] = {
      "axis", "input", "param", "state", "output", "let", "running value of a fold", "parameter"};
  return texts[kind];
}

// A binder may have the name of another one whose fold is over; nothing else may share a name.
static symbol *find_clash(const sema_scope *scope, symbol_kind kind, const char *name) {
  symbol *s = latest(scope, name);
  while (s && s->hidden && kind == SYMBOL_BINDER) s = s->earlier;
  return s;
}

static bool refuse_reserved(sema_scope *scope, const char *name, span where) {
  if (name == scope->sema->word_t) {
    scope_error(scope, where,
                "expected a new name, found 't'; it stands for the step, as in x[t-1]");
    return true;
  }
  if (name == scope->sema->word_pi) {
    scope_error(scope, where, "expected a new name, found 'pi'; it is the number 3.14159...");
    return true;
  }
  return false;
}

symbol *scope_declare(sema_scope *scope, symbol_kind kind, const char *name, span where) {
  if (refuse_reserved(scope, name, where)) return NULL;
  symbol *taken = find_clash(scope, kind, name);
  if (taken) {
    const char *hint = "";
    if (kind == SYMBOL_LET && (taken->kind == SYMBOL_STATE || taken->kind == SYMBOL_OUTPUT)) {
      if (!taken->assigned_at.source) taken->assigned_at = where;  // so that only this is reported
      hint = arena_printf(scope->sema->memory, "; it is assigned without let: %s = ...", name);
    }
    scope_error(
        scope, where, "expected a new name, found '%s', which is the name of a%s %s%s", name,
        taken->kind == SYMBOL_AXIS || taken->kind == SYMBOL_INPUT || taken->kind == SYMBOL_OUTPUT
            ? "n"
            : "",
        symbol_kind_text(taken->kind), hint);
    note_symbol(scope, taken);
    return NULL;
  }
  symbol *s = ARENA_NEW(scope->sema->memory, symbol);
  *s = (symbol){.kind = kind,
                .name = name,
                .span = where,
                .index = -1,
                .value = operand_error,
                .earlier = latest(scope, name)};
  name_map_set(scope->sema->memory, &scope->index, name, scope->symbols.count);
  vec_push(scope->sema->memory, &scope->symbols, s);
  note_symbol_use(scope, s, where);
  return s;
}

static void use_name(sema_scope *scope, const ast_name *name) {
  symbol *s = name->text ? scope_lookup(scope, name) : NULL;
  if (s) s->used = true;
}

static void use_names(sema_scope *scope, const ast_names *names) {
  for (int i = 0; i < names->count; i++) use_name(scope, &names->items[i]);
}

void scope_use_all(sema_scope *scope, const ast_expr *e) {
  if (!e) return;
  switch (e->kind) {
    case AST_NAME: use_name(scope, &e->name); break;
    case AST_NEGATE: scope_use_all(scope, e->negate.operand); break;
    case AST_BINARY:
      scope_use_all(scope, e->binary.left);
      scope_use_all(scope, e->binary.right);
      break;
    case AST_CALL:
      use_name(scope, &e->call.callee);
      use_names(scope, &e->call.axes);
      for (int i = 0; i < e->call.args.count; i++) {
        scope_use_all(scope, e->call.args.items[i].value);
        scope_use_all(scope, e->call.args.items[i].to);
      }
      break;
    case AST_INDEXED:
      use_name(scope, &e->indexed.name);
      use_names(scope, &e->indexed.axes);
      break;
    case AST_LAG: use_name(scope, &e->lag.name); break;
    case AST_SLICE:
      scope_use_all(scope, e->slice.operand);
      for (int i = 0; i < e->slice.slices.count; i++) {
        use_name(scope, &e->slice.slices.items[i].name);
        scope_use_all(scope, e->slice.slices.items[i].value);
      }
      break;
    case AST_RENAME:
      scope_use_all(scope, e->rename.operand);
      for (int i = 0; i < e->rename.renamings.count; i++) {
        use_name(scope, &e->rename.renamings.items[i].from);
        use_name(scope, &e->rename.renamings.items[i].to);
      }
      break;
    case AST_TUPLE:
      for (int i = 0; i < e->tuple.items.count; i++) scope_use_all(scope, e->tuple.items.items[i]);
      break;
    case AST_PATH: use_name(scope, &e->path.steps.items[0]); break;
    case AST_REPEAT:
      scope_use_all(scope, e->repeat.count);
      scope_use_all(scope, e->repeat.body);
      for (int i = 0; i < e->repeat.carried.count; i++)
        scope_use_all(scope, e->repeat.carried.items[i].value);
      for (int i = 0; i < e->repeat.statements.count; i++) {
        const ast_stmt *stmt = e->repeat.statements.items[i];
        scope_use_all(scope, stmt->kind == AST_LET ? stmt->let.value : stmt->assign.value);
      }
      break;
    default: break;
  }
}

int scope_axis(sema_scope *scope, const ast_name *name) {
  symbol *s = scope_lookup(scope, name);
  if (s && s->kind == SYMBOL_AXIS) {
    s->used = true;
    return s->index;
  }
  for (int i = 0; !s && !scope->function && i < scope->body->axes.count; i++) {
    // `t`, refused where it was declared
    if (scope->body->axes.items[i].name == name->text) return i;
  }
  const char *where = scope->function ? "of the function" : "of the header";
  if (s) {
    s->used = true;
    scope_error(scope, name->span, "expected an axis %s, found the %s '%s'", where,
                symbol_kind_text(s->kind), name->text);
    note_symbol(scope, s);
    return -1;
  }
  suggestion found = {.name = name->text};
  for (int i = 0; i < scope->symbols.count; i++)
    if (scope->symbols.items[i]->kind == SYMBOL_AXIS)
      suggest(&found, scope->symbols.items[i]->name);
  const char *hint = suggestion_text(scope->sema, &found);
  if (!found.best && !scope->function)
    hint = arena_printf(scope->sema->memory, "; declare it: %s(..., %s)", scope->body->name,
                        name->text);
  scope_error(scope, name->span, "expected an axis %s, found '%s'%s", where, name->text, hint);
  offer_suggestion(scope->sema, &found, name->span);
  return -1;
}

bool add_axis(sema_scope *scope, const ast_name *name, int axis, axis_set *set) {
  if (axis < 0) return false;
  if (axis_in(*set, axis))
    return scope_error(scope, name->span, "expected each axis once, found '%s' twice", name->text);
  *set |= axis_bit(axis);
  return true;
}

bool sema_axes(sema_scope *scope, const ast_names *names, axis_set *set, int *order) {
  bool fine = true;
  *set = 0;
  if (names->count > TYPED_MAX_AXES) {  // more than `order` has room for: some stand twice
    return scope_error(scope, names->items[TYPED_MAX_AXES].span,
                       "expected each axis once, found %d axes", names->count);
  }
  for (int i = 0; i < names->count; i++) {
    int axis = scope_axis(scope, &names->items[i]);
    if (order) order[i] = axis;
    fine &= add_axis(scope, &names->items[i], axis, set);
  }
  return fine;
}

// ---- for layers (sema.h) ---------------------------------------------------------------------

sema_scope *sema_scope_new(sema *s, const typed_file *file, typed_body *body) {
  sema_scope *scope = ARENA_NEW(s->memory, sema_scope);
  scope->sema = s;
  scope->file = file;
  scope->body = body;
  scope->state = ARENA_NEW(s->memory, body_state);
  for (int i = 0; i < TYPED_MAX_AXES; i++) scope->state->slice[i] = -1;
  for (int i = 0; i < SHARED_BUCKETS; i++) scope->state->buckets[i] = -1;
  for (int i = 0; i < body->axes.count; i++) {
    symbol *axis =
        scope_declare(scope, SYMBOL_AXIS, body->axes.items[i].name, body->axes.items[i].span);
    if (!axis) continue;
    axis->index = i;
    axis->declared = true;
  }
  return scope;
}

void sema_scope_set_hook(sema_scope *scope, sema_call_hook *hook, void *context) {
  scope->hook = hook;
  scope->hook_context = context;
}

static bool bind_name(sema_scope *scope, const char *name, span where, sema_operand value) {
  symbol *s = scope_declare(scope, SYMBOL_LET, name, where);
  if (!s) return false;
  s->declared = true;
  s->value = value;
  return true;
}

bool sema_bind_let(sema_scope *scope, const char *name, span where, value_id value) {
  return bind_name(scope, name, where, value < 0 ? operand_error : operand_of_value(scope, value));
}

bool sema_bind_constant(sema_scope *scope, const char *name, span where, double number) {
  return bind_name(scope, name, where, operand_constant(number));
}

bool sema_bind_tensor(sema_scope *scope, const typed_tensor *tensor) {
  symbol_kind kind = tensor->kind == TENSOR_INPUT ? SYMBOL_INPUT : SYMBOL_PARAM;
  symbol *s = scope_declare(scope, kind, tensor->name, tensor->span);
  if (!s) return false;
  s->declared = true;
  s->index = scope->body->tensors.count;
  vec_push(scope->sema->memory, &scope->body->tensors, *tensor);
  return true;
}

bool sema_is_used(const sema_scope *scope, const char *name) {
  const symbol *s = scope_find(scope, name);
  return s && s->used;
}
