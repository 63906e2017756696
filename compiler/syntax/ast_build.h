// The constructors that parser.y calls, one per action. They allocate the node and join the spans.
// They report mistakes that the grammar alone cannot see: a lag's `t`, repeated attributes, trees
// that are too deep.
#pragma once

#include "compiler/syntax/ast.h"
#include "compiler/syntax/token.h"

typedef struct builder {
  arena *memory;
  diag *diag;
  ast_file *file;
  const tokens *tokens;  // of the file
  bool accepted;         // the whole file has been reduced
  bool height_reported;
  bool *documented;  // [tokens->count]: the `///` text before this token found its declaration
} builder;

// A list whose closing bracket matters for the span.
typedef struct axes_list {
  ast_names names;
  uint32_t end;
} axes_list;

// Adding to a NULL list makes a new one. Elements that are NULL (what an error left) are not added.

void add_item(builder *b, ast_item *item);
ast_item *body_item(builder *b, ast_item_kind kind, const token *word, const token *name,
                    ast_header *header, ast_stmts *statements, const token *end);
ast_item *import_file(builder *b, const token *word, const token *file);
ast_item *import_path(builder *b, const token *word, ast_names *path);
ast_item *fn_item(builder *b, const token *word, const token *name, axes_list *axes,
                  ast_names *params, ast_expr *value);
ast_item *init_item(builder *b, const token *word, const token *name, ast_header *header,
                    const token *target, ast_init_entries *entries, const token *end);
ast_item *train_item(builder *b, const token *word, const token *name, const token *after,
                     ast_settings *settings, const token *end);
ast_item *evaluate_item(builder *b, const token *word, const token *name, const token *after,
                        ast_exprs *tasks, const token *end);
ast_header *header_add(builder *b, ast_header *list, const token *name, ast_expr *value);

ast_stmts *stmts_new(builder *b);
ast_stmts *stmts_add(builder *b, ast_stmts *list, ast_stmt *stmt);
ast_stmt *decl_stmt(builder *b, ast_stmt_kind kind, const token *word, ast_decls *decls);
ast_stmt *let_one(builder *b, const token *word, ast_bind bind, ast_expr *value);
ast_stmt *let_tuple(builder *b, const token *word, ast_binds *binds, ast_expr *value);
ast_stmt *assign_stmt(builder *b, const token *name, ast_expr *value);
ast_bind bind_of(const token *name, axes_list *axes);
ast_binds *binds_add(builder *b, ast_binds *list, ast_bind bind);
ast_decl *decl_of(builder *b, const token *name, axes_list *axes);
ast_decl *decl_type(builder *b, ast_decl *decl, const token *type);
ast_decl *decl_range(builder *b, ast_decl *decl, const token *in, ast_expr *low, ast_expr *high,
                     const token *end);
ast_decl *decl_start(ast_decl *decl, ast_expr *start);
ast_decl *decl_value(ast_decl *decl, ast_expr *value);
ast_decls *decls_add(builder *b, ast_decls *list, ast_decl *decl);

ast_names *names_add(builder *b, ast_names *list, const token *name);
ast_names *names_before(builder *b, const token *first, ast_names *rest);
axes_list *axes_of(builder *b, ast_names *names, const token *end);

ast_init_entries *init_entries_new(builder *b);
ast_init_entries *init_entries_add(builder *b, ast_init_entries *list, ast_names *path,
                                   ast_expr *start);
ast_settings *settings_new(builder *b);
ast_settings *settings_add(builder *b, ast_settings *list, ast_setting *setting);
ast_setting *setting_of(builder *b, const token *name, ast_expr *value);
ast_setting *setting_block(builder *b, const token *name, ast_setting_entries *entries,
                           const token *end);
ast_setting_entries *entries_add(builder *b, ast_setting_entries *list, ast_setting_entry entry);
ast_setting_entry entry_range(ast_expr *from, ast_expr *to, ast_expr *kind);
ast_setting_entry entry_filter(builder *b, const token *name, ast_args *args, const token *end,
                               ast_expr *kind);
ast_setting_entry entry_kind(ast_expr *kind);
ast_expr *mix_expr(builder *b, const token *word, ast_mix_entries *entries, const token *end);
ast_mix_entries *mix_add(builder *b, ast_mix_entries *list, ast_expr *weight, ast_expr *kind);

ast_expr *name_expr(builder *b, const token *t);
ast_expr *number_expr(builder *b, const token *t);
ast_expr *percent_expr(builder *b, const token *t);
ast_expr *string_expr(builder *b, const token *t);
ast_expr *path_expr(builder *b, const token *first, ast_names *rest);
ast_expr *negate_expr(builder *b, const token *minus, ast_expr *operand);
ast_expr *binary_expr(builder *b, ast_binary_op op, ast_expr *left, const token *sign,
                      ast_expr *right);
ast_expr *call_expr(builder *b, const token *callee, axes_list *axes, ast_args *args,
                    const token *end);
// `names`: NULL if there are none.
ast_expr *axes_expr(builder *b, const token *open, ast_names *names, const token *end);
ast_expr *indexed_expr(builder *b, const token *name, axes_list *axes);
ast_expr *lag_expr(builder *b, const token *name, const token *time, const token *steps,
                   const token *end);
ast_expr *slice_expr(builder *b, ast_expr *operand, ast_bindings *slices, const token *end);
ast_expr *rename_expr(builder *b, ast_expr *operand, ast_renamings *renamings, const token *end);
ast_expr *tuple_expr(builder *b, const token *open, ast_expr *first, ast_exprs *rest,
                     const token *close);
ast_expr *repeat_expr(builder *b, const token *word, ast_expr *count, ast_bindings *carried,
                      ast_expr *body, ast_stmts *statements, const token *end);
ast_renamings *renamings_add(builder *b, ast_renamings *list, const token *from, const token *to);
ast_bindings *bindings_add(builder *b, ast_bindings *list, const token *name, ast_expr *value);
ast_exprs *exprs_new(builder *b);
ast_exprs *exprs_add(builder *b, ast_exprs *list, ast_expr *e);
ast_args *args_new(builder *b);
ast_args *args_add(builder *b, ast_args *list, ast_arg arg);
ast_arg arg_positional(ast_expr *value);
ast_arg arg_named(const token *name, ast_expr *value);
ast_arg arg_pair(ast_arg_kind kind, ast_expr *from, ast_expr *to);
