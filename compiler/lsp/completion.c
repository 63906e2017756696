// What may stand at a place: names in scope, words of the language, files of the standard library,
// arguments, weights.
//
//   import std.ma|                 mamba1, mamba2, mamba3
//   y = sum[|                      the axes of the recurrence
//   optimizer adamw(|              lr, betas, eps, ..
//   in_proj.|        in an init    the parts of that weight
#include <ctype.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/lsp/server.h"

// CompletionItemKind of the protocol.
enum {
  ITEM_FUNCTION = 3,
  ITEM_FIELD = 5,
  ITEM_VARIABLE = 6,
  ITEM_CLASS = 7,
  ITEM_MODULE = 9,
  ITEM_PROPERTY = 10,
  ITEM_VALUE = 12,
  ITEM_KEYWORD = 14
};

typedef struct completer {
  const lsp_question *question;
  const lsp_analysis *analysis;
  lsp_surroundings here;
  arena *scratch;
  cJSON *items;
  interner *names;
  name_map offered;  // by label
} completer;

static bool is_here(const completer *c, int index, const char *spelling) {
  return lsp_token_is(c->analysis, index, spelling);
}

static const char *word_text(completer *c, int index) {
  const token *t = lsp_token(c->analysis, index);
  return t ? arena_strndup(c->scratch, c->analysis->text->text + t->span.begin,
                           t->span.end - t->span.begin)
           : "";
}

// Each name once.
static cJSON *offer_completion(completer *c, const char *label, int kind, const char *detail) {
  const char *key = intern(c->names, label);
  if (name_map_find(&c->offered, key) >= 0) return NULL;
  name_map_set(c->scratch, &c->offered, key, 1);
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "label", label);
  cJSON_AddNumberToObject(item, "kind", kind);
  if (detail) cJSON_AddStringToObject(item, "detail", detail);
  cJSON_AddItemToArray(c->items, item);
  return item;
}

static void offer_words(completer *c, unsigned kinds) {
  static const int icons[WORD_KINDS] = {
      [WORD_ITEM] = ITEM_KEYWORD,      [WORD_STATEMENT] = ITEM_KEYWORD,
      [WORD_KEYWORD] = ITEM_KEYWORD,   [WORD_FUNCTION] = ITEM_FUNCTION,
      [WORD_START] = ITEM_FUNCTION,    [WORD_LAYER] = ITEM_FUNCTION,
      [WORD_SETTING] = ITEM_PROPERTY,  [WORD_OPTIMIZER] = ITEM_FUNCTION,
      [WORD_SCHEDULE] = ITEM_FUNCTION, [WORD_LOSS] = ITEM_FUNCTION,
      [WORD_DATA] = ITEM_FUNCTION,     [WORD_START_STATE] = ITEM_VALUE,
      [WORD_TASK] = ITEM_FUNCTION,     [WORD_VALUE] = ITEM_VALUE};
  for (const lsp_word *w = lsp_words; w->name; w++) {
    if (!(kinds & lsp_kind_bit(w->kind))) continue;
    cJSON *item = offer_completion(c, w->name, icons[w->kind], w->signature);
    if (item) cJSON_AddStringToObject(item, "documentation", w->text);
  }
}

// ---- names in scope --------------------------------------------------------------------------

// A name where it is declared, with its axes where they are known.
static void offer_declared(completer *c, const lsp_analysis *a, const ast_name *name) {
  const name_use *use = name_uses_at(a->uses, name->span.source, name->span.begin);
  offer_completion(c, name->text, ITEM_VARIABLE, use ? name_use_text(c->scratch, use) : NULL);
}

static void offer_statement(completer *c, const lsp_analysis *a, const ast_stmt *stmt) {
  if (stmt->kind == AST_ASSIGN) return;
  for (int i = 0; stmt->kind == AST_LET && i < stmt->let.binds.count; i++)
    offer_declared(c, a, &stmt->let.binds.items[i].name);
  for (int i = 0; stmt->kind != AST_LET && i < stmt->decls.count; i++)
    offer_declared(c, a, &stmt->decls.items[i].name);
}

// What is declared inside of expressions: the running values of folds, what a repeat carries.
static void offer_inner_names(completer *c, const lsp_analysis *a, const ast_item *item) {
  vec_each(const name_use, use, a->uses->list) {
    bool declares = use->where.begin == use->declared.begin &&
                    use->where.source == use->declared.source && !use->item;
    bool inside = use->where.source == item->span.source && use->where.begin >= item->span.begin &&
                  use->where.end <= item->span.end;
    if (declares && inside)
      offer_completion(c, use->name, ITEM_VARIABLE, name_use_text(c->scratch, use));
  }
}

static void offer_names_of(completer *c, const ast_names *names) {
  for (int i = 0; i < names->count; i++) offer_declared(c, c->analysis, &names->items[i]);
}

static void offer_header(completer *c, const lsp_analysis *a, const ast_header *header) {
  for (int i = 0; i < header->count; i++) offer_declared(c, a, &header->items[i].name);
}

// The names that an item declares, or its axes alone.
static void offer_names_inside(completer *c, const lsp_analysis *a, const ast_item *item,
                               bool only_axes) {
  bool has_body =
      item->kind == AST_RECURRENCE || item->kind == AST_LAYER || item->kind == AST_MODEL;
  if (item->kind == AST_FN) offer_names_of(c, &item->fn.axes);
  if (item->kind == AST_FN && !only_axes) offer_names_of(c, &item->fn.params);
  if (item->kind == AST_INIT) offer_header(c, a, &item->init.header);
  if (has_body) offer_header(c, a, &item->body.header);
  if (only_axes) return;
  for (int i = 0; has_body && i < item->body.statements.count; i++)
    offer_statement(c, a, item->body.statements.items[i]);
  offer_inner_names(c, a, item);
}

static const ast_item *item_named(const lsp_analysis *a, const char *name) {
  for (int i = 0; a && a->file && i < a->file->items.count; i++) {
    const ast_item *item = a->file->items.items[i];
    if (item->kind != AST_IMPORT && strcmp(item->name.text, name) == 0) return item;
  }
  return NULL;
}

// What the last text without errors had in this item is offered, too: the present one may lack what
// is just being written.
static void offer_scope(completer *c, bool only_axes) {
  const lsp_analysis *good = c->question->document->good;
  const ast_item *before =
      good != c->analysis ? item_named(good, word_text(c, c->here.item + 1)) : NULL;
  // axes of layers are known where there is no error at all
  bool better = before && before->kind != AST_RECURRENCE;
  if (better) offer_names_inside(c, good, before, only_axes);
  if (c->here.tree) offer_names_inside(c, c->analysis, c->here.tree, only_axes);
  if (before && !better) offer_names_inside(c, good, before, only_axes);
}

static void offer_items(completer *c, unsigned kinds) {
  const typed_program *program = c->analysis->program;
  for (int i = 0; program && i < program->main->names.count; i++) {
    const typed_name *name = &program->main->names.items[i];
    if (!(kinds & 1u << name->item->kind)) continue;
    bool class = name->item->kind == AST_LAYER || name->item->kind == AST_MODEL;
    cJSON *item = offer_completion(c, name->name, class ? ITEM_CLASS : ITEM_FUNCTION, NULL);
    if (item && name->item->doc) cJSON_AddStringToObject(item, "documentation", name->item->doc);
  }
}

// The train blocks, or the inits of the file and its imports.
static void offer_blocks(completer *c, ast_item_kind kind) {
  const typed_program *program = c->analysis->program;
  for (int i = 0; program && i < program->layers.count; i++)
    if (program->layers.items[i].item->kind == kind)
      offer_completion(c, program->layers.items[i].name, ITEM_CLASS, NULL);
}

// ---- arguments -------------------------------------------------------------------------------

// The names before a `=` in the brackets of a word's signature.
static void offer_arguments_of_word(completer *c, const lsp_word *w) {
  const char *open = strstr(w->signature, arena_printf(c->scratch, "%s(", w->name));
  if (!open) open = strchr(w->signature, ']');
  for (const char *at = open ? open : ""; *at; at++) {
    const char *end = at;
    if (!isalpha((unsigned char)*at)) continue;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    if (strncmp(end, " = ", 3) == 0)
      offer_completion(c, arena_strndup(c->scratch, at, (size_t)(end - at)), ITEM_PROPERTY,
                       w->signature);
    at = end - 1;
  }
}

// Behind `tokens =`: bytes, chars. False: the place is not behind a `=`.
static bool offer_values(completer *c) {
  if (!is_here(c, c->here.opening, "(") || !is_here(c, c->here.next - 1, "=")) return false;
  const char *argument = arena_printf(c->scratch, "%s = ", word_text(c, c->here.next - 2));
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (w->kind == WORD_VALUE && strncmp(w->signature, argument, strlen(argument)) == 0)
      offer_completion(c, w->name, ITEM_VALUE, w->text);
  return true;
}

// The token of the name that the innermost bracket belongs to: f of `f(` and of `f[K](`.
static int callee_of(const completer *c) {
  int callee = c->here.opening - 1;
  while (is_here(c, c->here.opening - 1, "]") && callee > 0 && !is_here(c, callee, "[")) callee--;
  return is_here(c, callee, "[") ? callee - 1 : callee;
}

static void offer_arguments(completer *c, unsigned kinds) {
  if (!is_here(c, c->here.opening, "(")) return;
  const char *name = word_text(c, callee_of(c));
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (kinds & lsp_kind_bit(w->kind) && strcmp(w->name, name) == 0) offer_arguments_of_word(c, w);
  const typed_program *program = c->analysis->program;
  for (int i = 0; program && i < program->main->names.count; i++) {
    const ast_item *item = program->main->names.items[i].item;
    if (strcmp(item->name.text, name) != 0 || item->kind == AST_FN) continue;
    for (int k = 0; k < item->body.header.count; k++)
      offer_completion(c, item->body.header.items[k].name.text, ITEM_PROPERTY, "axis");
  }
}

// ---- items -----------------------------------------------------------------------------------

// The words of a path before the present one: "in_proj.".
static const char *path_before(completer *c) {
  const char *path = "";
  for (int i = c->here.next - 1; is_here(c, i, "."); i -= 2)
    path = arena_printf(c->scratch, "%s.%s", word_text(c, i - 1), path);
  return path;
}

static void complete_import(completer *c) {
  const char *before = path_before(c);
  if (is_here(c, c->here.next - 1, "import"))
    offer_completion(c, "std", ITEM_MODULE, "the standard library");
  for (const embedded_file *file = embedded_stdlib; file->name; file++) {
    const char *text = (const char *)file->data,
               *name = arena_printf(c->scratch, "std.%s", file->name);
    const char *detail = strncmp(text, "// ", 3) == 0
                             ? arena_strndup(c->scratch, text + 3, strcspn(text + 3, "\n"))
                             : NULL;
    if (*before && strncmp(name, before, strlen(before)) == 0)
      offer_completion(c, name + strlen(before), ITEM_MODULE, detail);
  }
}

static bool in_square_brackets(const completer *c) {
  return is_here(c, c->here.opening, "[") && !is_here(c, c->here.next - 1, "=") &&
         !is_here(c, c->here.opening - 1, "in");
}

// The first word of a line inside of no bracket but the item's, or the first of the item.
static bool begins_line(const completer *c) {
  const token *next = lsp_token(c->analysis, c->here.next),
              *last = lsp_token(c->analysis, c->here.next - 1);
  const source *text = c->analysis->text;
  uint32_t word = lsp_word_begin(text, c->question->offset), end = last ? last->span.end : 0;
  bool first = next && next->span.begin == word && next->first_on_line;
  if (!first && end <= word) first = memchr(text->text + end, '\n', word - end) != NULL;
  return c->here.opening < 0 && (first || is_here(c, c->here.next - 1, "{"));
}

// The start of a param ends with its line: the next statement begins another one.
static bool in_start(const completer *c) {
  if (begins_line(c)) return false;
  for (int i = c->here.next - 1; i > c->here.item; i--) {
    if (is_here(c, i, "~")) return true;
    if (lsp_token(c->analysis, i)->first_on_line || is_here(c, i, "=")) return false;
  }
  return false;
}

static void complete_body(completer *c) {
  bool layer = !is_here(c, c->here.item, "recurrence");
  int last = c->here.next - 1;
  static const char *const declares[] = {"input", "param", "state", "output", "let"};
  if (in_square_brackets(c)) {
    offer_scope(c, true);
    return;
  }
  for (int i = 0; i < 5; i++)
    if (is_here(c, last, declares[i])) return;  // a new name
  if (is_here(c, last, ":")) {
    offer_completion(c, "complex", ITEM_KEYWORD, "a tensor of complex numbers");
    return;
  }
  if (begins_line(c)) offer_words(c, lsp_kind_bit(WORD_STATEMENT));
  unsigned calls = layer ? lsp_kind_bit(WORD_LAYER) : 0;
  if (!offer_values(c)) offer_arguments(c, calls);
  offer_scope(c, false);
  offer_items(c, layer ? 1u << AST_FN | 1u << AST_RECURRENCE | 1u << AST_LAYER : 1u << AST_FN);
  offer_words(c,
              lsp_kind_bit(WORD_FUNCTION) | calls | (in_start(c) ? lsp_kind_bit(WORD_START) : 0));
  if (layer) offer_completion(c, "repeat", ITEM_KEYWORD, "repeat depth (x = x0) { .. }");
}

// The layer that an init is for.
static const char *target_of_init(completer *c) {
  for (int i = c->here.item + 1; i < c->here.next; i++)
    if (is_here(c, i, "for")) return word_text(c, i + 1);
  return "";
}

static void offer_path(completer *c, const char *path, const char *before, const char *detail) {
  if (strncmp(path, before, strlen(before)) == 0)
    offer_completion(c, path + strlen(before), ITEM_FIELD, detail);
}

static void offer_parts(completer *c, const graph_parameter *p, const char *before) {
  const char *dot = strrchr(p->local, '.');
  int length = dot ? (int)(dot - p->local) : 0;
  for (int i = 0; dot && i < p->parts.count; i++) {
    const char *name = p->parts.items[i].name;
    if (name)
      offer_path(c, arena_printf(c->scratch, "%.*s.%s", length, p->local, name), before,
                 "part of a weight");
  }
}

static void offer_weights_of(completer *c, const graph_model *model, const char *target,
                             const char *before) {
  vec_each(const graph_parameter, p, model->parameters) {
    if (!p->owner || strcmp(p->owner->name.text, target) != 0) continue;
    offer_path(c, p->local, before, "weight");
    offer_parts(c, p, before);
  }
}

static void offer_weights(completer *c) {
  const lsp_analysis *a = c->analysis->graph || !c->question->document->good
                              ? c->analysis
                              : c->question->document->good;
  const char *target = target_of_init(c), *before = path_before(c);
  if (!a->graph) return;
  for (int i = 0; i < a->graph->models.count; i++)
    offer_weights_of(c, &a->graph->models.items[i], target, before);
  for (int i = 0; i < a->graph->alone.count; i++)
    offer_weights_of(c, &a->graph->alone.items[i], target, before);
}

static void complete_init(completer *c) {
  if (is_here(c, c->here.next - 1, "for")) offer_items(c, 1u << AST_LAYER | 1u << AST_MODEL);
  if (!c->here.in_braces) return;
  offer_weights(c);
  if (is_here(c, c->here.next - 1, ".") || !in_start(c)) return;
  offer_words(c, lsp_kind_bit(WORD_START) | lsp_kind_bit(WORD_FUNCTION));
  offer_scope(c, false);
}

static bool is_setting(const completer *c, int index) {
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (w->kind == WORD_SETTING && is_here(c, index, w->name)) return true;
  return is_here(c, index, "model") || is_here(c, index, "init");
}

// What may be the value of the setting before the place.
static void complete_value(completer *c, int setting) {
  static const struct {
    const char *setting;
    lsp_word_kind kind;
  } values[] = {{"data", WORD_DATA},
                {"optimizer", WORD_OPTIMIZER},
                {"schedule", WORD_SCHEDULE},
                {"loss", WORD_LOSS},
                {"initial_state", WORD_START_STATE}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (is_here(c, setting, values[i].setting)) offer_words(c, lsp_kind_bit(values[i].kind));
  if (is_here(c, setting, "model")) offer_items(c, 1u << AST_MODEL);
  if (is_here(c, setting, "init")) offer_blocks(c, AST_INIT);
}

static const unsigned called_in_blocks = 1u << WORD_OPTIMIZER | 1u << WORD_SCHEDULE |
                                         1u << WORD_LOSS | 1u << WORD_DATA |
                                         1u << WORD_START_STATE | 1u << WORD_TASK;

static void complete_train(completer *c) {
  int last = c->here.next - 1;
  if (is_here(c, last, "after")) offer_blocks(c, AST_TRAIN);
  if (!c->here.in_braces) {
    if (last == c->here.item + 1)
      offer_completion(c, "after", ITEM_KEYWORD, "continues another block");
  } else if (is_here(c, c->here.opening, "(")) {
    if (!offer_values(c)) offer_arguments(c, called_in_blocks);
  } else if (is_here(c, c->here.opening, "{")) {
    if (is_here(c, c->here.opening - 1, "init"))
      offer_blocks(c, AST_INIT);
    else
      offer_words(c, lsp_kind_bit(WORD_START_STATE));
    offer_completion(c, "layers", ITEM_FUNCTION, "layers(0..2): ..");
  } else if (is_setting(c, last) && !is_setting(c, last - 1)) {
    complete_value(c, last);
  } else {
    offer_words(c, lsp_kind_bit(WORD_SETTING));
    offer_completion(c, "model", ITEM_PROPERTY, "which model is trained");
    offer_completion(c, "init", ITEM_PROPERTY, "how its weights start");
  }
}

static void complete_evaluate(completer *c) {
  int last = c->here.next - 1;
  if (is_here(c, last, "after")) offer_blocks(c, AST_TRAIN);
  if (is_here(c, c->here.opening, "(")) {
    if (!offer_values(c)) offer_arguments(c, called_in_blocks);
  } else if (c->here.in_braces) {
    offer_words(c, lsp_kind_bit(WORD_TASK));
    offer_completion(c, "initial_state", ITEM_FUNCTION, "initial_state(learned)");
  }
}

static void complete(completer *c) {
  static const struct {
    const char *word;
    void (*complete)(completer *c);
  } items[] = {{"import", complete_import},
               {"init", complete_init},
               {"train", complete_train},
               {"evaluate", complete_evaluate}};
  int item = c->here.item;
  if (item < 0) {
    offer_words(c, lsp_kind_bit(WORD_ITEM));
    return;
  }
  for (size_t i = 0; i < sizeof items / sizeof *items; i++)
    if (is_here(c, item, items[i].word)) {
      items[i].complete(c);
      return;
    }
  if (is_here(c, item, "fn") || c->here.in_braces)
    complete_body(c);
  else
    offer_scope(c, true);
}

// An import or fn has no braces: the first word of a line without an indent is that of a new item.
static bool begins_new_item(const completer *c) {
  uint32_t word = lsp_word_begin(c->analysis->text, c->question->offset);
  bool closed = is_here(c, c->here.item, "import") || is_here(c, c->here.item, "fn");
  return closed && source_indent(c->analysis->text, word) == 0;
}

cJSON *lsp_completion(const lsp_question *q) {
  cJSON *list = cJSON_CreateObject();
  cJSON_AddBoolToObject(list, "isIncomplete", false);
  completer c = {.question = q,
                 .analysis = q->analysis,
                 .scratch = arena_new(),
                 .items = cJSON_AddArrayToObject(list, "items")};
  c.names = interner_new(c.scratch);
  if (q->analysis->text) {
    c.here = lsp_surroundings_of(q->analysis, q->offset);
    if (begins_new_item(&c)) c.here.item = -1;
    if (!c.here.in_text) complete(&c);
  }
  arena_free(c.scratch);
  return list;
}
