// `--emit=ast`: the tree as indented text, a node a line, in source order.
//
//   let a = 2 * x     let
//                       bind a
//                       multiply
//                         number 2
//                         name x
#include "compiler/syntax/syntax.h"

typedef struct printer {
  FILE *out;
  int depth;
} printer;

static void begin_line(const printer *p) { fprintf(p->out, "%*s", 2 * p->depth, ""); }

// One line for a node; its children follow one level deeper, between open and close.
static void open_node(printer *p, const char *word, const char *name) {
  begin_line(p);
  fputs(word, p->out);
  if (name) fprintf(p->out, " %s", name);
  fputc('\n', p->out);
  p->depth++;
}

static void close_node(printer *p) { p->depth--; }

void print_names(FILE *out, const ast_names *names, const char *separator) {
  for (int i = 0; i < names->count; i++)
    fprintf(out, "%s%s", i ? separator : "", names->items[i].text);
}

void print_axis_names(FILE *out, const ast_names *axes) {
  fputc('[', out);
  print_names(out, axes, ",");
  fputc(']', out);
}

void print_quoted(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '\n') {
      fputs("\\n", out);
    } else if (*text == '\t') {
      fputs("\\t", out);
    } else {
      if (*text == '"' || *text == '\\') fputc('\\', out);
      fputc(*text, out);
    }
  }
  fputc('"', out);
}

static void print_doc(printer *p, const char *doc) {
  if (!doc) return;
  begin_line(p);
  fputs("doc ", p->out);
  print_quoted(p->out, doc);
  fputc('\n', p->out);
}

static void print_expr(printer *p, const ast_expr *e);
static void print_stmt(printer *p, const ast_stmt *stmt);

static void print_labelled(printer *p, const char *label, const char *name, const ast_expr *e) {
  open_node(p, label, name);
  if (e) print_expr(p, e);
  close_node(p);
}

static void print_bound_name(printer *p, const char *word, ast_name name, const ast_names *axes) {
  begin_line(p);
  fprintf(p->out, "%s %s", word, name.text);
  if (axes->count) print_axis_names(p->out, axes);
  fputc('\n', p->out);
}

// ---- expressions --------------------------------------------------------------------------------

static const char *const op_names[] = {
#define BINARY_OP(id, word, sign, level, left, right, operation) word,
#include "compiler/syntax/binary_ops.def"
#undef BINARY_OP
};

static void print_arg(printer *p, const ast_arg *arg) {
  switch (arg->kind) {
    case AST_ARG_POSITIONAL: print_expr(p, arg->value); return;
    case AST_ARG_NAMED: print_labelled(p, "named", arg->name.text, arg->value); return;
    case AST_ARG_ARROW: open_node(p, "arrow", NULL); break;
    case AST_ARG_RANGE: open_node(p, "range", NULL); break;
  }
  print_expr(p, arg->value);
  print_expr(p, arg->to);
  close_node(p);
}

static void print_call(printer *p, const ast_expr *e) {
  print_bound_name(p, "call", e->call.callee, &e->call.axes);
  p->depth++;
  for (int i = 0; i < e->call.args.count; i++) print_arg(p, &e->call.args.items[i]);
  p->depth--;
}

static void print_repeat(printer *p, const ast_expr *e) {
  open_node(p, "repeat", NULL);
  print_labelled(p, "count", NULL, e->repeat.count);
  vec_each(const ast_binding, carried, e->repeat.carried)
    print_labelled(p, "carried", carried->name.text, carried->value);
  if (e->repeat.body) print_labelled(p, "body", NULL, e->repeat.body);
  for (int i = 0; i < e->repeat.statements.count; i++) print_stmt(p, e->repeat.statements.items[i]);
  close_node(p);
}

static void print_slice(printer *p, const ast_expr *e) {
  open_node(p, "slice", NULL);
  print_expr(p, e->slice.operand);
  for (int i = 0; i < e->slice.slices.count; i++)
    print_labelled(p, "at", e->slice.slices.items[i].name.text, e->slice.slices.items[i].value);
  close_node(p);
}

static void print_rename(printer *p, const ast_expr *e) {
  open_node(p, "rename", NULL);
  print_expr(p, e->rename.operand);
  vec_each(const ast_renaming, renaming, e->rename.renamings) {
    begin_line(p);
    fprintf(p->out, "%s -> %s\n", renaming->from.text, renaming->to.text);
  }
  close_node(p);
}

static void print_mix(printer *p, const ast_expr *e) {
  open_node(p, "mix", NULL);
  for (int i = 0; i < e->mix.entries.count; i++) {
    open_node(p, "part", NULL);
    print_expr(p, e->mix.entries.items[i].weight);
    print_expr(p, e->mix.entries.items[i].kind);
    close_node(p);
  }
  close_node(p);
}

// A leaf of one line.
static void print_leaf(printer *p, const ast_expr *e) {
  begin_line(p);
  switch (e->kind) {
    case AST_NUMBER: fprintf(p->out, "number %s", e->number.text); break;
    case AST_PERCENT: fprintf(p->out, "percent %s", e->percent.text); break;
    case AST_STRING:
      fputs("string ", p->out);
      print_quoted(p->out, e->string.text);
      break;
    case AST_NAME: fprintf(p->out, "name %s", e->name.text); break;
    case AST_PATH:
      fputs("path ", p->out);
      print_names(p->out, &e->path.steps, ".");
      break;
    case AST_INDEXED:
      fprintf(p->out, "indexed %s", e->indexed.name.text);
      print_axis_names(p->out, &e->indexed.axes);
      break;
    case AST_AXES:
      fputs("axes", p->out);
      print_axis_names(p->out, &e->axes.names);
      break;
    case AST_LAG: fprintf(p->out, "lag %s %s", e->lag.name.text, e->lag.steps->number.text); break;
    default: break;
  }
  fputc('\n', p->out);
}

static void print_expr(printer *p, const ast_expr *e) {
  switch (e->kind) {
    case AST_NEGATE: print_labelled(p, "negate", NULL, e->negate.operand); break;
    case AST_BINARY:
      open_node(p, op_names[e->binary.op], NULL);
      print_expr(p, e->binary.left);
      print_expr(p, e->binary.right);
      close_node(p);
      break;
    case AST_CALL: print_call(p, e); break;
    case AST_SLICE: print_slice(p, e); break;
    case AST_RENAME: print_rename(p, e); break;
    case AST_TUPLE:
      open_node(p, "tuple", NULL);
      for (int i = 0; i < e->tuple.items.count; i++) print_expr(p, e->tuple.items.items[i]);
      close_node(p);
      break;
    case AST_REPEAT: print_repeat(p, e); break;
    case AST_MIX: print_mix(p, e); break;
    default: print_leaf(p, e); break;
  }
}

// ---- statements ---------------------------------------------------------------------------------

static void print_decl(printer *p, const char *word, const ast_decl *decl) {
  print_bound_name(p, word, decl->name, &decl->axes);
  p->depth++;
  print_doc(p, decl->doc);
  if (decl->type.text) print_labelled(p, "type", decl->type.text, NULL);
  if (decl->low) {
    open_node(p, "in", NULL);
    print_expr(p, decl->low);
    print_expr(p, decl->high);
    close_node(p);
  }
  if (decl->start) print_labelled(p, "start", NULL, decl->start);
  if (decl->value) print_labelled(p, "value", NULL, decl->value);
  p->depth--;
}

static void print_let(printer *p, const ast_stmt *stmt) {
  open_node(p, stmt->let.is_tuple ? "let-tuple" : "let", NULL);
  print_doc(p, stmt->doc);
  vec_each(const ast_bind, bind, stmt->let.binds)
    print_bound_name(p, "bind", bind->name, &bind->axes);
  print_expr(p, stmt->let.value);
  close_node(p);
}

static void print_stmt(printer *p, const ast_stmt *stmt) {
  static const char *const words[] = {"input", "param", "state", "output"};
  if (stmt->kind == AST_LET) {
    print_let(p, stmt);
  } else if (stmt->kind == AST_ASSIGN) {
    open_node(p, "assign", stmt->assign.name.text);
    print_doc(p, stmt->doc);
    print_expr(p, stmt->assign.value);
    close_node(p);
  } else {
    for (int i = 0; i < stmt->decls.count; i++)
      print_decl(p, words[stmt->kind], &stmt->decls.items[i]);
  }
}

// ---- items --------------------------------------------------------------------------------------

static void print_header(printer *p, const ast_header *header) {
  for (int i = 0; i < header->count; i++)
    print_labelled(p, "axis", header->items[i].name.text, header->items[i].value);
}

static void print_fn(printer *p, const ast_item *item) {
  if (item->fn.axes.count) {
    begin_line(p);
    fputs("axes ", p->out);
    print_axis_names(p->out, &item->fn.axes);
    fputc('\n', p->out);
  }
  for (int i = 0; i < item->fn.params.count; i++)
    print_labelled(p, "parameter", item->fn.params.items[i].text, NULL);
  print_expr(p, item->fn.value);
}

static void print_import(printer *p, const ast_item *item) {
  begin_line(p);
  if (item->import.file)
    print_quoted(p->out, item->import.file);
  else
    print_names(p->out, &item->import.path, ".");
  fputc('\n', p->out);
}

static void print_init(printer *p, const ast_item *item) {
  print_header(p, &item->init.header);
  print_labelled(p, "for", item->init.target.text, NULL);
  vec_each(const ast_init_entry, entry, item->init.entries) {
    begin_line(p);
    fputs("start ", p->out);
    print_names(p->out, &entry->path, ".");
    fputc('\n', p->out);
    p->depth++;
    print_doc(p, entry->doc);
    print_expr(p, entry->start);
    p->depth--;
  }
}

static void print_entry(printer *p, const ast_setting_entry *entry) {
  open_node(p, "entry", NULL);
  if (entry->from) {
    open_node(p, "range", NULL);
    print_expr(p, entry->from);
    print_expr(p, entry->to);
    close_node(p);
  }
  if (entry->filter) print_labelled(p, "filter", NULL, entry->filter);
  print_expr(p, entry->kind);
  close_node(p);
}

static void print_after(printer *p, ast_name after) {
  if (after.text) print_labelled(p, "after", after.text, NULL);
}

static void print_train_ast(printer *p, const ast_item *item) {
  print_after(p, item->train.after);
  vec_each(const ast_setting, setting, item->train.settings) {
    open_node(p, "setting", setting->name.text);
    if (setting->value) print_expr(p, setting->value);
    for (int k = 0; k < setting->entries.count; k++) print_entry(p, &setting->entries.items[k]);
    close_node(p);
  }
}

static void print_item(printer *p, const ast_item *item) {
  static const char *const words[] = {"recurrence", "layer", "model", "fn",
                                      "import",     "init",  "train", "evaluate"};
  open_node(p, words[item->kind], item->name.text);
  print_doc(p, item->doc);
  switch (item->kind) {
    case AST_RECURRENCE:
    case AST_LAYER:
    case AST_MODEL:
      print_header(p, &item->body.header);
      for (int i = 0; i < item->body.statements.count; i++)
        print_stmt(p, item->body.statements.items[i]);
      break;
    case AST_FN: print_fn(p, item); break;
    case AST_IMPORT: print_import(p, item); break;
    case AST_INIT: print_init(p, item); break;
    case AST_TRAIN: print_train_ast(p, item); break;
    case AST_EVALUATE:
      print_after(p, item->evaluate.after);
      for (int i = 0; i < item->evaluate.tasks.count; i++)
        print_expr(p, item->evaluate.tasks.items[i]);
      break;
  }
  close_node(p);
}

void print_ast(FILE *out, const ast_file *file) {
  printer p = {.out = out};
  for (int i = 0; i < file->items.count; i++) print_item(&p, file->items.items[i]);
}
