// Constructors of the syntax tree (ast.h), called by the actions of parser.y.
#include "compiler/syntax/ast_build.h"

#include <stdlib.h>
#include <string.h>

// ---- helpers ------------------------------------------------------------------------------------

static ast_name name_of_token(const token *t) {
  return t ? (ast_name){.text = t->text, .span = t->span} : (ast_name){0};
}

// The documentation before the token that begins at this place; it has found its declaration. The
// token is looked up by its place because a repair may have put a copy before the parser.
static const char *take_doc(builder *b, span where) {
  int low = 0, high = b->tokens->count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (b->tokens->items[middle].span.begin <= where.begin)
      low = middle;
    else
      high = middle;
  }
  b->documented[low] = true;
  return b->tokens->items[low].doc;
}

static span span_to(span from, const token *end) { return span_join(from, end->span); }

static span extended(span s, uint32_t end) {
  if (end > s.end) s.end = end;
  return s;
}

static ast_expr *new_expr(builder *b, ast_expr_kind kind, span where) {
  ast_expr *e = ARENA_NEW(b->memory, ast_expr);
  e->kind = kind;
  e->span = where;
  e->height = 1;
  return e;
}

// Counts the child in the node's height. A tree that is too deep for recursive passes is reported
// once. A leaf then replaces the child, so that the tree stays within the limit.
static ast_expr *adopt(builder *b, ast_expr *e, ast_expr *child) {
  if (!child) return NULL;
  if (child->height >= AST_HEIGHT_MAX) {
    if (!b->height_reported)
      diag_error(
          b->diag, e->span,
          "expected at most %d operations inside each other, found more; name parts with let",
          AST_HEIGHT_MAX);
    b->height_reported = true;
    ast_expr *leaf = new_expr(b, AST_NUMBER, child->span);
    leaf->number.text = "0";
    leaf->number.is_integer = true;
    child = leaf;
  }
  if (child->height + 1 > e->height) e->height = child->height + 1;
  return child;
}

// Functions that add to lists.
#define LIST_OF(name, list_type, element)                             \
  list_type *name##_add(builder *b, list_type *list, element added) { \
    if (!list) list = ARENA_NEW(b->memory, list_type);                \
    vec_push(b->memory, list, added);                                 \
    return list;                                                      \
  }
LIST_OF(binds, ast_binds, ast_bind)
LIST_OF(entries, ast_setting_entries, ast_setting_entry)
LIST_OF(exprs, ast_exprs, ast_expr *)
LIST_OF(args, ast_args, ast_arg)

// ---- items --------------------------------------------------------------------------------------

void add_item(builder *b, ast_item *item) {
  if (item) vec_push(b->memory, &b->file->items, item);
}

static ast_item *new_ast_item(builder *b, ast_item_kind kind, const token *word, const token *name,
                              span end) {
  ast_item *item = ARENA_NEW(b->memory, ast_item);
  item->kind = kind;
  item->span = span_join(word->span, end);
  item->doc = take_doc(b, word->span);
  item->name = name_of_token(name);
  return item;
}

ast_item *body_item(builder *b, ast_item_kind kind, const token *word, const token *name,
                    ast_header *header, ast_stmts *statements, const token *end) {
  ast_item *item = new_ast_item(b, kind, word, name, end->span);
  if (header) item->body.header = *header;
  item->body.statements = *statements;
  return item;
}

ast_item *import_file(builder *b, const token *word, const token *file) {
  ast_item *item = new_ast_item(b, AST_IMPORT, word, NULL, file->span);
  item->import.file = file->text;
  item->import.target_span = file->span;
  return item;
}

ast_item *import_path(builder *b, const token *word, ast_names *path) {
  span target = span_join(path->items[0].span, path->items[path->count - 1].span);
  ast_item *item = new_ast_item(b, AST_IMPORT, word, NULL, target);
  item->import.path = *path;
  item->import.target_span = target;
  return item;
}

ast_item *fn_item(builder *b, const token *word, const token *name, axes_list *axes,
                  ast_names *params, ast_expr *value) {
  ast_item *item = new_ast_item(b, AST_FN, word, name, value->span);
  if (axes) item->fn.axes = axes->names;
  item->fn.params = *params;
  item->fn.value = value;
  return item;
}

ast_item *init_item(builder *b, const token *word, const token *name, ast_header *header,
                    const token *target, ast_init_entries *entries, const token *end) {
  ast_item *item = new_ast_item(b, AST_INIT, word, name, end->span);
  if (header) item->init.header = *header;
  item->init.target = name_of_token(target);
  item->init.entries = *entries;
  return item;
}

ast_item *train_item(builder *b, const token *word, const token *name, const token *after,
                     ast_settings *settings, const token *end) {
  ast_item *item = new_ast_item(b, AST_TRAIN, word, name, end->span);
  item->train.after = name_of_token(after);
  item->train.settings = *settings;
  return item;
}

ast_item *evaluate_item(builder *b, const token *word, const token *name, const token *after,
                        ast_exprs *tasks, const token *end) {
  ast_item *item = new_ast_item(b, AST_EVALUATE, word, name, end->span);
  item->evaluate.after = name_of_token(after);
  item->evaluate.tasks = *tasks;
  return item;
}

ast_header *header_add(builder *b, ast_header *list, const token *name, ast_expr *value) {
  if (!list) list = ARENA_NEW(b->memory, ast_header);
  span where = value ? span_join(name->span, value->span) : name->span;
  vec_push(b->memory, list,
           (ast_header_axis){.name = name_of_token(name), .value = value, .span = where});
  return list;
}

// ---- statements ---------------------------------------------------------------------------------

ast_stmts *stmts_new(builder *b) { return ARENA_NEW(b->memory, ast_stmts); }

ast_stmts *stmts_add(builder *b, ast_stmts *list, ast_stmt *stmt) {
  if (stmt) vec_push(b->memory, list, stmt);
  return list;
}

static ast_stmt *new_stmt(builder *b, ast_stmt_kind kind, span from, span to) {
  ast_stmt *stmt = ARENA_NEW(b->memory, ast_stmt);
  stmt->kind = kind;
  stmt->span = span_join(from, to);
  return stmt;
}

ast_stmt *decl_stmt(builder *b, ast_stmt_kind kind, const token *word, ast_decls *decls) {
  ast_stmt *stmt = new_stmt(b, kind, word->span, decls->items[decls->count - 1].span);
  const char *doc = take_doc(b, word->span);
  if (doc) decls->items[0].doc = doc;
  stmt->decls = *decls;
  return stmt;
}

ast_stmt *let_one(builder *b, const token *word, ast_bind bind, ast_expr *value) {
  ast_stmt *stmt = new_stmt(b, AST_LET, word->span, value->span);
  stmt->doc = take_doc(b, word->span);
  vec_push(b->memory, &stmt->let.binds, bind);
  stmt->let.value = value;
  return stmt;
}

ast_stmt *let_tuple(builder *b, const token *word, ast_binds *binds, ast_expr *value) {
  ast_stmt *stmt = new_stmt(b, AST_LET, word->span, value->span);
  stmt->doc = take_doc(b, word->span);
  stmt->let.is_tuple = true;
  stmt->let.binds = *binds;
  stmt->let.value = value;
  return stmt;
}

ast_stmt *assign_stmt(builder *b, const token *name, ast_expr *value) {
  ast_stmt *stmt = new_stmt(b, AST_ASSIGN, name->span, value->span);
  stmt->doc = take_doc(b, name->span);
  stmt->assign.name = name_of_token(name);
  stmt->assign.value = value;
  return stmt;
}

ast_bind bind_of(const token *name, axes_list *axes) {
  ast_bind bind = {.name = name_of_token(name), .span = name->span};
  if (axes) {
    bind.axes = axes->names;
    bind.span = extended(bind.span, axes->end);
  }
  return bind;
}

ast_decl *decl_of(builder *b, const token *name, axes_list *axes) {
  ast_decl *decl = ARENA_NEW(b->memory, ast_decl);
  decl->name = name_of_token(name);
  decl->span = name->span;
  decl->doc = take_doc(b, name->span);
  if (axes) {
    decl->axes = axes->names;
    decl->span = extended(decl->span, axes->end);
  }
  return decl;
}

ast_decl *decl_type(builder *b, ast_decl *decl, const token *type) {
  if (decl->type.text) {
    diag_error(b->diag, type->span, "expected one type for '%s', found a second, '%s'",
               decl->name.text, type->text);
    diag_note(b->diag, decl->type.span, "the first stands here");
  }
  decl->type = name_of_token(type);
  decl->span = span_join(decl->span, type->span);
  return decl;
}

ast_decl *decl_range(builder *b, ast_decl *decl, const token *in, ast_expr *low, ast_expr *high,
                     const token *end) {
  span where = span_join(in->span, end->span);
  if (decl->low) {
    diag_error(b->diag, where, "expected one range for '%s', found a second", decl->name.text);
    diag_note(b->diag, decl->range_span, "the first stands here");
  }
  decl->low = low;
  decl->high = high;
  decl->range_span = where;
  decl->span = span_join(decl->span, where);
  return decl;
}

ast_decl *decl_start(ast_decl *decl, ast_expr *start) {
  decl->start = start;
  decl->span = span_join(decl->span, start->span);
  return decl;
}

ast_decl *decl_value(ast_decl *decl, ast_expr *value) {
  decl->value = value;
  decl->span = span_join(decl->span, value->span);
  return decl;
}

ast_decls *decls_add(builder *b, ast_decls *list, ast_decl *decl) {
  if (!list) list = ARENA_NEW(b->memory, ast_decls);
  vec_push(b->memory, list, *decl);
  return list;
}

ast_names *names_add(builder *b, ast_names *list, const token *name) {
  if (!list) list = ARENA_NEW(b->memory, ast_names);
  vec_push(b->memory, list, name_of_token(name));
  return list;
}

ast_names *names_before(builder *b, const token *first, ast_names *rest) {
  ast_names *list = names_add(b, NULL, first);
  for (int i = 0; i < rest->count; i++) vec_push(b->memory, list, rest->items[i]);
  return list;
}

axes_list *axes_of(builder *b, ast_names *names, const token *end) {
  axes_list *axes = ARENA_NEW(b->memory, axes_list);
  *axes = (axes_list){.names = *names, .end = end->span.end};
  return axes;
}

// ---- init, train --------------------------------------------------------------------------------

ast_init_entries *init_entries_new(builder *b) { return ARENA_NEW(b->memory, ast_init_entries); }

ast_init_entries *init_entries_add(builder *b, ast_init_entries *list, ast_names *path,
                                   ast_expr *start) {
  vec_push(b->memory, list,
           (ast_init_entry){.path = *path,
                            .start = start,
                            .doc = take_doc(b, path->items[0].span),
                            .span = span_join(path->items[0].span, start->span)});
  return list;
}

ast_settings *settings_new(builder *b) { return ARENA_NEW(b->memory, ast_settings); }

ast_settings *settings_add(builder *b, ast_settings *list, ast_setting *setting) {
  if (setting) vec_push(b->memory, list, *setting);
  return list;
}

ast_setting *setting_of(builder *b, const token *name, ast_expr *value) {
  ast_setting *setting = ARENA_NEW(b->memory, ast_setting);
  setting->name = name_of_token(name);
  setting->value = value;
  setting->span = span_join(name->span, value->span);
  return setting;
}

ast_setting *setting_block(builder *b, const token *name, ast_setting_entries *entries,
                           const token *end) {
  ast_setting *setting = ARENA_NEW(b->memory, ast_setting);
  setting->name = name_of_token(name);
  setting->entries = *entries;
  setting->span = span_join(name->span, end->span);
  return setting;
}

ast_setting_entry entry_range(ast_expr *from, ast_expr *to, ast_expr *kind) {
  return (ast_setting_entry){
      .from = from, .to = to, .kind = kind, .span = span_join(from->span, kind->span)};
}

ast_setting_entry entry_filter(builder *b, const token *name, ast_args *args, const token *end,
                               ast_expr *kind) {
  ast_expr *filter = call_expr(b, name, NULL, args, end);
  return (ast_setting_entry){
      .filter = filter, .kind = kind, .span = span_join(filter->span, kind->span)};
}

ast_setting_entry entry_kind(ast_expr *kind) {
  return (ast_setting_entry){.kind = kind, .span = kind->span};
}

ast_expr *mix_expr(builder *b, const token *word, ast_mix_entries *entries, const token *end) {
  ast_expr *e = new_expr(b, AST_MIX, span_to(word->span, end));
  if (strcmp(word->text, "mix") != 0)
    diag_error(b->diag, word->span, "expected 'mix' before '{', found '%s'", word->text);
  for (int i = 0; i < entries->count; i++) {
    entries->items[i].weight = adopt(b, e, entries->items[i].weight);
    entries->items[i].kind = adopt(b, e, entries->items[i].kind);
  }
  e->mix.entries = *entries;
  return e;
}

ast_mix_entries *mix_add(builder *b, ast_mix_entries *list, ast_expr *weight, ast_expr *kind) {
  if (!list) list = ARENA_NEW(b->memory, ast_mix_entries);
  vec_push(
      b->memory, list,
      (ast_mix_entry){.weight = weight, .kind = kind, .span = span_join(weight->span, kind->span)});
  return list;
}

// ---- expressions --------------------------------------------------------------------------------

ast_expr *name_expr(builder *b, const token *t) {
  ast_expr *e = new_expr(b, AST_NAME, t->span);
  e->name = name_of_token(t);
  return e;
}

ast_expr *number_expr(builder *b, const token *t) {
  ast_expr *e = new_expr(b, AST_NUMBER, t->span);
  e->number.value = strtod(t->text, NULL);
  e->number.text = t->text;
  e->number.is_integer = strspn(t->text, "0123456789") == strlen(t->text);
  return e;
}

ast_expr *percent_expr(builder *b, const token *t) {
  ast_expr *e = new_expr(b, AST_PERCENT, t->span);
  e->percent.value = strtod(t->text, NULL) / 100;
  e->percent.text = t->text;
  return e;
}

ast_expr *string_expr(builder *b, const token *t) {
  ast_expr *e = new_expr(b, AST_STRING, t->span);
  e->string.text = t->text;
  return e;
}

ast_expr *path_expr(builder *b, const token *first, ast_names *rest) {
  ast_expr *e = new_expr(b, AST_PATH, span_join(first->span, rest->items[rest->count - 1].span));
  e->path.steps = *names_before(b, first, rest);
  return e;
}

ast_expr *negate_expr(builder *b, const token *minus, ast_expr *operand) {
  ast_expr *e = new_expr(b, AST_NEGATE, span_join(minus->span, operand->span));
  e->negate.operand = adopt(b, e, operand);
  return e;
}

ast_expr *binary_expr(builder *b, ast_binary_op op, ast_expr *left, const token *sign,
                      ast_expr *right) {
  ast_expr *e = new_expr(b, AST_BINARY, span_join(left->span, right->span));
  e->binary.op = op;
  e->binary.op_span = sign->span;
  e->binary.left = adopt(b, e, left);
  e->binary.right = adopt(b, e, right);
  return e;
}

ast_expr *call_expr(builder *b, const token *callee, axes_list *axes, ast_args *args,
                    const token *end) {
  ast_expr *e = new_expr(b, AST_CALL, span_to(callee->span, end));
  e->call.callee = name_of_token(callee);
  if (axes) e->call.axes = axes->names;
  for (int i = 0; i < args->count; i++) {
    args->items[i].value = adopt(b, e, args->items[i].value);
    args->items[i].to = adopt(b, e, args->items[i].to);
  }
  e->call.args = *args;
  return e;
}

ast_expr *axes_expr(builder *b, const token *open, ast_names *names, const token *end) {
  ast_expr *e = new_expr(b, AST_AXES, span_to(open->span, end));
  if (names) e->axes.names = *names;
  return e;
}

ast_expr *indexed_expr(builder *b, const token *name, axes_list *axes) {
  ast_expr *e = new_expr(b, AST_INDEXED, extended(name->span, axes->end));
  e->indexed.name = name_of_token(name);
  e->indexed.axes = axes->names;
  return e;
}

ast_expr *lag_expr(builder *b, const token *name, const token *time, const token *steps,
                   const token *end) {
  ast_expr *e = new_expr(b, AST_LAG, span_to(name->span, end));
  if (strcmp(time->text, "t") != 0 && strcmp(time->text, "?") != 0) {  // "?": a repair put it there
    diag_error(b->diag, time->span,
               "expected 't' before '-', found '%s'; an earlier step is %s[t-%s]", time->text,
               name->text, steps->text);
  }
  e->lag.name = name_of_token(name);
  e->lag.time = name_of_token(time);
  e->lag.steps = adopt(b, e, number_expr(b, steps));
  return e;
}

ast_expr *slice_expr(builder *b, ast_expr *operand, ast_bindings *slices, const token *end) {
  ast_expr *e = new_expr(b, AST_SLICE, span_to(operand->span, end));
  e->slice.operand = adopt(b, e, operand);
  for (int i = 0; i < slices->count; i++)
    slices->items[i].value = adopt(b, e, slices->items[i].value);
  e->slice.slices = *slices;
  return e;
}

ast_expr *rename_expr(builder *b, ast_expr *operand, ast_renamings *renamings, const token *end) {
  ast_expr *e = new_expr(b, AST_RENAME, span_to(operand->span, end));
  e->rename.operand = adopt(b, e, operand);
  e->rename.renamings = *renamings;
  return e;
}

ast_expr *tuple_expr(builder *b, const token *open, ast_expr *first, ast_exprs *rest,
                     const token *close) {
  ast_expr *e = new_expr(b, AST_TUPLE, span_to(open->span, close));
  vec_push(b->memory, &e->tuple.items, adopt(b, e, first));
  for (int i = 0; i < rest->count; i++)
    vec_push(b->memory, &e->tuple.items, adopt(b, e, rest->items[i]));
  return e;
}

// The values of a repeat's statements count as its children.
static void adopt_statements(builder *b, ast_expr *e, ast_stmts *statements) {
  for (int i = 0; i < statements->count; i++) {
    ast_stmt *stmt = statements->items[i];
    ast_expr **value = stmt->kind == AST_LET ? &stmt->let.value : &stmt->assign.value;
    *value = adopt(b, e, *value);
  }
}

ast_expr *repeat_expr(builder *b, const token *word, ast_expr *count, ast_bindings *carried,
                      ast_expr *body, ast_stmts *statements, const token *end) {
  ast_expr *e = new_expr(b, AST_REPEAT, span_to(word->span, end));
  e->repeat.count = adopt(b, e, count);
  for (int i = 0; i < carried->count; i++)
    carried->items[i].value = adopt(b, e, carried->items[i].value);
  e->repeat.carried = *carried;
  e->repeat.body = adopt(b, e, body);
  if (statements) {
    adopt_statements(b, e, statements);
    e->repeat.statements = *statements;
  }
  return e;
}

ast_renamings *renamings_add(builder *b, ast_renamings *list, const token *from, const token *to) {
  if (!list) list = ARENA_NEW(b->memory, ast_renamings);
  vec_push(b->memory, list,
           (ast_renaming){.from = name_of_token(from),
                          .to = name_of_token(to),
                          .span = span_join(from->span, to->span)});
  return list;
}

ast_bindings *bindings_add(builder *b, ast_bindings *list, const token *name, ast_expr *value) {
  if (!list) list = ARENA_NEW(b->memory, ast_bindings);
  vec_push(
      b->memory, list,
      (ast_binding){
          .name = name_of_token(name), .value = value, .span = span_join(name->span, value->span)});
  return list;
}

ast_exprs *exprs_new(builder *b) { return ARENA_NEW(b->memory, ast_exprs); }

ast_args *args_new(builder *b) { return ARENA_NEW(b->memory, ast_args); }

ast_arg arg_positional(ast_expr *value) {
  return (ast_arg){.kind = AST_ARG_POSITIONAL, .span = value->span, .value = value};
}

ast_arg arg_named(const token *name, ast_expr *value) {
  return (ast_arg){.kind = AST_ARG_NAMED,
                   .span = span_join(name->span, value->span),
                   .name = name_of_token(name),
                   .value = value};
}

ast_arg arg_pair(ast_arg_kind kind, ast_expr *from, ast_expr *to) {
  return (ast_arg){.kind = kind, .span = span_join(from->span, to->span), .value = from, .to = to};
}
