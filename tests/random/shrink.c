// The program is parsed, edited in one place and printed; the front end says whether the result is
// legal. What fails is edited again, from the largest edits to the smallest, until no edit is left
// that fails.
#include "tests/random/shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"

typedef struct editor {
  arena *memory;
  interner *names;
  ast_file *file;
  ast_item *item;  // the recurrence
  int edit;        // of all edits in their order, the one to make; counts down
} editor;

// ---- the tree --------------------------------------------------------------------------------

// Calls `see` for an expression and all inside it, outermost first.
typedef void visitor(editor *e, ast_expr **place);

static void visit(editor *e, ast_expr **place, visitor *see) {
  see(e, place);
  ast_expr *x = *place;
  switch (x->kind) {
    case AST_NEGATE: visit(e, &x->negate.operand, see); break;
    case AST_BINARY:
      visit(e, &x->binary.left, see);
      visit(e, &x->binary.right, see);
      break;
    case AST_CALL:
      for (int i = 0; i < x->call.args.count; i++) visit(e, &x->call.args.items[i].value, see);
      break;
    case AST_SLICE: visit(e, &x->slice.operand, see); break;
    case AST_RENAME: visit(e, &x->rename.operand, see); break;
    default: break;
  }
}

static ast_expr **value_of(ast_stmt *s) {
  return s->kind == AST_LET ? &s->let.value : s->kind == AST_ASSIGN ? &s->assign.value : NULL;
}

static void visit_all(editor *e, visitor *see) {
  for (int i = 0; i < e->item->body.statements.count; i++) {
    ast_expr **value = value_of(e->item->body.statements.items[i]);
    if (value) visit(e, value, see);
  }
}

static ast_expr *number_one(editor *e) {
  ast_expr *one = ARENA_NEW(e->memory, ast_expr);
  one->kind = AST_NUMBER;
  one->number.value = 1;
  one->number.text = "1";
  one->number.is_integer = true;
  return one;
}

// ---- printing --------------------------------------------------------------------------------

static void print_statement(editor *e, FILE *out, const ast_stmt *s) {
  static const char *const words[] = {"input", "param", "state", "output"};
  if (s->kind == AST_LET)
    fprintf(out, "  let %s = %s\n", s->let.binds.items[0].name.text,
            expr_to_text(e->memory, s->let.value));
  if (s->kind == AST_ASSIGN)
    fprintf(out, "  %s = %s\n", s->assign.name.text, expr_to_text(e->memory, s->assign.value));
  for (int i = 0; s->kind < AST_LET && i < s->decls.count; i++) {
    const ast_decl *d = &s->decls.items[i];
    fprintf(out, "  %s %s", words[s->kind], d->name.text);
    if (d->axes.count) print_axis_names(out, &d->axes);
    if (d->type.text) fprintf(out, " : %s", d->type.text);
    if (d->low)
      fprintf(out, " in [%s, %s]", expr_to_text(e->memory, d->low),
              expr_to_text(e->memory, d->high));
    if (d->start) fprintf(out, " ~ %s", expr_to_text(e->memory, d->start));
    fputc('\n', out);
  }
}

static char *print_program(editor *e) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) abort();
  for (int i = 0; i < e->file->items.count; i++) {
    const ast_item *fn = e->file->items.items[i];
    if (fn->kind != AST_FN) continue;
    fprintf(out, "fn %s", fn->name.text);
    if (fn->fn.axes.count) print_axis_names(out, &fn->fn.axes);
    fprintf(out, "(%s) = %s\n", names_text(e->memory, &fn->fn.params, ", "),
            expr_to_text(e->memory, fn->fn.value));
  }
  fprintf(out, "recurrence %s(", e->item->name.text);
  for (int i = 0; i < e->item->body.header.count; i++) {
    const ast_header_axis *a = &e->item->body.header.items[i];
    fprintf(out, "%s%s", i ? ", " : "", a->name.text);
    if (a->value) fprintf(out, " = %s", expr_to_text(e->memory, a->value));
  }
  fputs(") {\n", out);
  for (int i = 0; i < e->item->body.statements.count; i++)
    print_statement(e, out, e->item->body.statements.items[i]);
  fputs("}\n", out);
  fclose(out);
  char *copy = arena_strdup(e->memory, text);
  free(text);
  return copy;
}

// ---- what nothing mentions -------------------------------------------------------------------

static const char *sought;
static bool found;

static bool has_name(const ast_names *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (list->items[i].text == name) return true;
  return false;
}

static void seek(editor *e, ast_expr **place) {
  (void)e;
  const ast_expr *x = *place;
  if (x->kind == AST_NAME) found |= x->name.text == sought;
  if (x->kind == AST_LAG) found |= x->lag.name.text == sought;
  if (x->kind == AST_CALL)
    found |= x->call.callee.text == sought || has_name(&x->call.axes, sought);
  if (x->kind == AST_INDEXED) found |= has_name(&x->indexed.axes, sought);
  for (int i = 0; x->kind == AST_SLICE && i < x->slice.slices.count; i++)
    found |= x->slice.slices.items[i].name.text == sought;
  for (int i = 0; x->kind == AST_RENAME && i < x->rename.renamings.count; i++)
    found |= x->rename.renamings.items[i].from.text == sought ||
             x->rename.renamings.items[i].to.text == sought;
}

static bool is_mentioned(editor *e, const char *name) {
  sought = name;
  found = false;
  visit_all(e, seek);
  return found;
}

static bool is_axis_mentioned(editor *e, int axis) {
  const ast_header *header = &e->item->body.header;
  const char *name = header->items[axis].name.text;
  if (is_mentioned(e, name)) return true;
  for (int i = axis + 1; i < header->count; i++)
    if (header->items[i].value && header->items[i].value->kind == AST_NAME &&
        header->items[i].value->name.text == name)
      return true;
  for (int i = 0; i < e->item->body.statements.count; i++) {
    const ast_stmt *s = e->item->body.statements.items[i];
    for (int k = 0; s->kind < AST_LET && k < s->decls.count; k++)
      if (has_name(&s->decls.items[k].axes, name)) return true;
  }
  return false;
}

#define REMOVE(list, at)                              \
  memmove(&(list).items[at], &(list).items[(at) + 1], \
          (size_t)(--(list).count - (at)) * sizeof *(list).items)

static void remove_unused(editor *e) {
  ast_stmts *list = &e->item->body.statements;
  for (int i = list->count - 1; i >= 0; i--) {
    ast_stmt *s = list->items[i];
    for (int k = s->kind < AST_STATE ? s->decls.count - 1 : -1; k >= 0; k--)
      if (!is_mentioned(e, s->decls.items[k].name.text)) REMOVE(s->decls, k);
    if (s->kind == AST_LET && !is_mentioned(e, s->let.binds.items[0].name.text)) REMOVE(*list, i);
  }
  for (int i = e->item->body.header.count - 1; i >= 0; i--)
    if (!is_axis_mentioned(e, i)) REMOVE(e->item->body.header, i);
  for (int i = e->file->items.count - 1; i >= 0; i--)
    if (e->file->items.items[i]->kind == AST_FN &&
        !is_mentioned(e, e->file->items.items[i]->name.text))
      REMOVE(e->file->items, i);
}

// ---- edits -----------------------------------------------------------------------------------

static bool is_chosen(editor *e) { return e->edit-- == 0; }

static void put_one(editor *e, ast_expr **place) {
  const ast_expr *x = *place;
  bool same = (x->kind == AST_NAME && x->name.text == sought) ||
              (x->kind == AST_LAG && x->lag.name.text == sought);
  if (same) *place = number_one(e);
}

// A state or an output, with its declaration; what reads it reads 1.
static void drop_assigned(editor *e, const char *name) {
  ast_stmts *list = &e->item->body.statements;
  for (int i = list->count - 1; i >= 0; i--) {
    ast_stmt *s = list->items[i];
    if (s->kind == AST_ASSIGN && s->assign.name.text == name) REMOVE(*list, i);
    for (int k = s->kind < AST_LET ? s->decls.count - 1 : -1; k >= 0; k--)
      if (s->decls.items[k].name.text == name) REMOVE(s->decls, k);
  }
  sought = name;
  visit_all(e, put_one);
}

static void drop_statements(editor *e) {
  ast_stmts *list = &e->item->body.statements;
  for (int i = list->count - 1; i >= 0; i--)
    if (list->items[i]->kind == AST_ASSIGN && is_chosen(e)) {
      drop_assigned(e, list->items[i]->assign.name.text);
      return;
    }
}

static void drop_name(ast_names *list, const char *name) {
  for (int i = list->count - 1; i >= 0; i--)
    if (list->items[i].text == name) REMOVE(*list, i);
}

static void drop_axis_inside(editor *e, ast_expr **place) {
  ast_expr *x = *place;
  if (x->kind == AST_CALL && has_name(&x->call.axes, sought)) {
    drop_name(&x->call.axes, sought);
    if (!x->call.axes.count) *place = x->call.args.items[x->call.args.count - 1].value;
  } else if (x->kind == AST_INDEXED && has_name(&x->indexed.axes, sought)) {
    *place = number_one(e);
  } else if (x->kind == AST_SLICE && x->slice.slices.items[0].name.text == sought) {
    *place = x->slice.operand;
  } else if (x->kind == AST_RENAME && (x->rename.renamings.items[0].from.text == sought ||
                                       x->rename.renamings.items[0].to.text == sought)) {
    *place = x->rename.operand;
  } else {
    return;
  }
  drop_axis_inside(e, place);
}

static void drop_axes(editor *e) {
  ast_header *header = &e->item->body.header;
  for (int a = 0; a < header->count; a++) {
    if (!is_chosen(e)) continue;
    const char *name = header->items[a].name.text;
    for (int i = 0; i < e->item->body.statements.count; i++) {
      ast_stmt *s = e->item->body.statements.items[i];
      for (int k = 0; s->kind < AST_LET && k < s->decls.count; k++)
        drop_name(&s->decls.items[k].axes, name);
    }
    sought = name;
    visit_all(e, drop_axis_inside);
    REMOVE(*header, a);
    return;
  }
}

static void replace(editor *e, ast_expr **place) {
  ast_expr *x = *place, *parts[4] = {NULL};
  int count = 0;
  if (e->edit < 0) return;
  switch (x->kind) {
    case AST_NEGATE: parts[count++] = x->negate.operand; break;
    case AST_BINARY:
      parts[count++] = x->binary.left;
      parts[count++] = x->binary.right;
      break;
    case AST_CALL:
      for (int i = 0; i < x->call.args.count && i < 3; i++)
        parts[count++] = x->call.args.items[i].value;
      break;
    case AST_SLICE: parts[count++] = x->slice.operand; break;
    case AST_RENAME: parts[count++] = x->rename.operand; break;
    case AST_NUMBER: return;
    default: break;
  }
  parts[count++] = number_one(e);
  for (int i = 0; i < count; i++)
    if (is_chosen(e)) *place = parts[i];
}

static ast_expr *put_for_let;

static void put_value(editor *e, ast_expr **place) {
  (void)e;
  if ((*place)->kind == AST_NAME && (*place)->name.text == sought) *place = put_for_let;
}

static void inline_lets(editor *e) {
  ast_stmts *list = &e->item->body.statements;
  for (int i = 0; i < list->count; i++) {
    ast_stmt *s = list->items[i];
    if (s->kind != AST_LET || !is_chosen(e)) continue;
    sought = s->let.binds.items[0].name.text;
    put_for_let = s->let.value;
    visit_all(e, put_value);
    return;
  }
}

static void drop_promises(editor *e) {
  for (int i = 0; i < e->item->body.statements.count; i++) {
    ast_stmt *s = e->item->body.statements.items[i];
    for (int k = 0; s->kind < AST_STATE && k < s->decls.count; k++)
      if (s->decls.items[k].low && is_chosen(e)) s->decls.items[k].low = NULL;
  }
}

static void drop_starts(editor *e) {
  for (int i = 0; i < e->item->body.statements.count; i++) {
    ast_stmt *s = e->item->body.statements.items[i];
    for (int k = 0; s->kind < AST_LET && k < s->decls.count; k++)
      if (s->decls.items[k].start && is_chosen(e)) s->decls.items[k].start = NULL;
  }
}

static void shrink_sizes(editor *e) {
  static const char *const sizes[] = {"1", "2", "3"};
  for (int a = 0; a < e->item->body.header.count; a++) {
    ast_expr *size = e->item->body.header.items[a].value;
    for (int k = 0; size && size->kind == AST_NUMBER && k < 3 && k + 1 < size->number.value; k++)
      if (is_chosen(e)) {
        size->number.text = sizes[k];
        return;
      }
  }
}

// ---- trials ----------------------------------------------------------------------------------

// The tree of a text, in memory of its own. NULL: it is not legal.
static ast_file *parse(arena *memory, interner **names, const char *text, bool check) {
  const char *error = NULL;
  sources *all = sources_new(memory);
  diag *messages = diag_new(memory, all);
  *names = interner_new(memory);
  const source *file = sources_add(all, "program.rec", text, strlen(text), &error);
  ast_file *tree = file ? parse_source(memory, *names, messages, file) : NULL;
  sema_options options = {0};
  if (tree && check && !diag_has_errors(messages))
    sema_check(memory, *names, messages, all, tree, &options);
  return diag_has_errors(messages) ? NULL : tree;
}

// The program with one edit, its number in `*edit`; NULL: there are not so many. "": the result is
// not legal.
static const char *edited(arena *memory, const char *text, int edit) {
  static void (*const kinds[])(editor *) = {drop_statements, drop_axes,   NULL,        inline_lets,
                                            drop_promises,   drop_starts, shrink_sizes};
  editor e = {.memory = memory, .edit = edit};
  e.file = parse(memory, &e.names, text, false);
  if (!e.file) return NULL;
  e.item = e.file->items.items[e.file->items.count - 1];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && e.edit >= 0; i++)
    if (kinds[i])
      kinds[i](&e);
    else
      visit_all(&e, replace);
  if (e.edit >= 0) return NULL;
  for (int i = 0; i < 4; i++) remove_unused(&e);
  const char *made = print_program(&e);
  return parse(memory, &e.names, made, true) ? made : "";
}

char *shrink_program(arena *memory, const char *text, still_fails *fails, void *context,
                     int tries) {
  char *smallest = arena_strdup(memory, text);
  for (bool changed = true; changed && tries > 0;) {
    changed = false;
    for (int edit = 0; tries > 0;) {
      arena *own = arena_new();
      const char *candidate = edited(own, smallest, edit);
      bool none = !candidate, asked = candidate && *candidate && strcmp(candidate, smallest) != 0;
      bool success = asked && fails(context, candidate);
      if (success) smallest = arena_strdup(memory, candidate);
      arena_free(own);
      if (none) break;
      tries -= asked;
      changed |= success;
      edit += !success;
    }
  }
  return smallest;
}
