// What stands under the cursor: a name with its kind, axes and their sizes, and of a state what the
// analysis of its recurrence found; a word of the language with its description.
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/lsp/server.h"
#include "compiler/recurrence/recurrence.h"

// ---- names -----------------------------------------------------------------------------------

static const typed_body *checked_recurrence(const lsp_analysis *a, const typed_body *body) {
  for (int i = 0; a->complete && i < a->program->recurrences.count; i++)
    if (a->program->recurrences.items[i] == body) return body;
  return NULL;
}

static const typed_body *recurrence_of_item(const lsp_analysis *a, const ast_item *item) {
  for (int i = 0; a->complete && i < a->program->recurrences.count; i++) {
    const typed_body *body = a->program->recurrences.items[i];
    if (body->span.source == item->span.source && body->span.begin == item->span.begin) return body;
  }
  return NULL;
}

// "linear, decay per axis kept as a logarithm", as `recc --emit=report` has it.
static void print_state_structure(FILE *out, arena *scratch, const lsp_analysis *a,
                                  const name_use *use) {
  int tensor = name_use_tensor(use);
  bool state = tensor >= 0 && use->body->tensors.items[tensor].kind == TENSOR_STATE;
  const typed_body *body = state       ? checked_recurrence(a, use->body)
                           : use->item ? recurrence_of_item(a, use->item)
                                       : NULL;
  if (!body) return;
  const recurrence *r = recurrence_analyse(scratch, body);
  const char *report = state ? recurrence_report_state(scratch, a->all, r, use->name)
                             : recurrence_report(scratch, a->all, r);
  const char *colon = state ? strchr(report, ':') : NULL;
  fprintf(out, "\n%s", colon ? colon + 2 : report);
}

static const char *declared_header(arena *scratch, const ast_header *header) {
  const char *text = "";
  for (int i = 0; i < header->count; i++) {
    const ast_header_axis *axis = &header->items[i];
    const char *value =
        axis->value ? arena_printf(scratch, " = %s", expr_to_text(scratch, axis->value)) : "";
    text = arena_printf(scratch, "%s%s%s%s", text, i ? ", " : "", axis->name.text, value);
  }
  return text;
}

static const char *item_text(arena *scratch, const name_use *use) {
  const ast_item *item = use->item;
  switch (item->kind) {
    case AST_RECURRENCE:
    case AST_LAYER:
    case AST_MODEL:
      return arena_printf(scratch, "%s %s(%s)", use->kind, use->name,
                          declared_header(scratch, &item->body.header));
    case AST_FN:
      return arena_printf(
          scratch, "fn %s%s%s%s(%s) = %s", use->name, item->fn.axes.count ? "[" : "",
          names_text(scratch, &item->fn.axes, ","), item->fn.axes.count ? "]" : "",
          names_text(scratch, &item->fn.params, ", "), expr_to_text(scratch, item->fn.value));
    case AST_INIT:
      return arena_printf(scratch, "init %s(%s) for %s", use->name,
                          declared_header(scratch, &item->init.header), item->init.target.text);
    default: return arena_printf(scratch, "%s %s", use->kind, use->name);
  }
}

static const char *doc_of(const name_use *use) {
  int tensor = name_use_tensor(use);
  return use->item ? use->item->doc : tensor >= 0 ? use->body->tensors.items[tensor].doc : NULL;
}

typedef struct page {
  FILE *out;
  bool markdown;
} page;

static void print_code_block(const page *p, const char *code) {
  fprintf(p->out, p->markdown ? "```rec\n%s\n```\n" : "%s\n", code);
}

static void print_name(const page *p, arena *scratch, const lsp_named *named) {
  const name_use *declared = name_uses_declaration(named->analysis->uses, named->use);
  const name_use *use = declared && !named->use->symbol ? declared : named->use;
  const char *doc = doc_of(use);
  print_code_block(p, use->item ? item_text(scratch, use) : name_use_text(scratch, use));
  if (doc) fprintf(p->out, "\n%s\n", doc);
  print_state_structure(p->out, scratch, named->analysis, use);
}

// ---- words of the language -------------------------------------------------------------------

// The kinds of words that stand before others at a place, where one word has several meanings.
static unsigned likely_kinds(const lsp_analysis *a, const lsp_surroundings *s) {
  bool block = lsp_token_is(a, s->item, "train") || lsp_token_is(a, s->item, "evaluate");
  unsigned layer = lsp_kind_bit(WORD_LAYER) | lsp_kind_bit(WORD_FUNCTION);
  if (s->item < 0) return lsp_kind_bit(WORD_ITEM);
  return block ? ~(layer | lsp_kind_bit(WORD_START) | lsp_kind_bit(WORD_VALUE)) : layer;
}

static const lsp_word *find_word(const char *name, unsigned likely) {
  const lsp_word *any = NULL;
  for (const lsp_word *w = lsp_words; w->name; w++) {
    if (strcmp(w->name, name) != 0) continue;
    if (likely & lsp_kind_bit(w->kind)) return w;
    if (!any) any = w;
  }
  return any;
}

static const lsp_word *word_at(const lsp_question *q, arena *scratch) {
  const lsp_analysis *a = q->analysis;
  const char *name = a->text ? lsp_word_around(scratch, a->text, q->offset) : "";
  if (!*name) return NULL;
  lsp_surroundings s = lsp_surroundings_of(a, q->offset);
  return s.in_text ? NULL : find_word(name, likely_kinds(a, &s));
}

// ---- the answer ------------------------------------------------------------------------------

static cJSON *hover_answer(const lsp_question *q, const char *text) {
  cJSON *hover = cJSON_CreateObject(), *contents = cJSON_AddObjectToObject(hover, "contents");
  cJSON_AddStringToObject(contents, "kind", q->server->markdown ? "markdown" : "plaintext");
  cJSON_AddStringToObject(contents, "value", text);
  return hover;
}

cJSON *lsp_hover(const lsp_question *q) {
  arena *scratch = arena_new();
  lsp_named named = lsp_name_at(q);
  const lsp_word *word = named.use ? NULL : word_at(q, scratch);
  text_stream text;
  page p = {text_begin(&text), q->server->markdown};
  if (named.use) print_name(&p, scratch, &named);
  if (word) {
    print_code_block(&p, word->signature);
    fprintf(p.out, "\n%s\n", word->text);
  }
  const char *page_text = text_end(&text, scratch);
  cJSON *hover = *page_text ? hover_answer(q, page_text) : NULL;
  arena_free(scratch);
  return hover;
}
