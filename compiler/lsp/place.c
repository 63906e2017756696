// What stands around a place of a text, by its tokens: they are there even where no statement can
// be read yet.
#include <ctype.h>
#include <string.h>

#include "compiler/lsp/server.h"

const token *lsp_token(const lsp_analysis *a, int index) {
  return index >= 0 && index < a->tokens.tokens.count ? &a->tokens.tokens.items[index] : NULL;
}

bool lsp_token_is(const lsp_analysis *a, int index, const char *spelling) {
  const token *t = lsp_token(a, index);
  if (!t || !t->kind) return false;
  size_t length = strlen(spelling);
  return t->span.end - t->span.begin == length &&
         memcmp(a->text->text + t->span.begin, spelling, length) == 0;
}

// ---- words -----------------------------------------------------------------------------------

static bool is_word_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

uint32_t lsp_word_begin(const source *text, uint32_t offset) {
  while (offset > 0 && is_word_byte(text->text[offset - 1])) offset--;
  return offset;
}

const char *lsp_word_around(arena *memory, const source *text, uint32_t offset) {
  uint32_t begin = lsp_word_begin(text, offset), end = offset;
  while (end < text->size && is_word_byte(text->text[end])) end++;
  return arena_strndup(memory, text->text + begin, end - begin);
}

// ---- brackets --------------------------------------------------------------------------------

static bool opens(const lsp_analysis *a, int i) {
  return lsp_token_is(a, i, "(") || lsp_token_is(a, i, "[") || lsp_token_is(a, i, "{");
}

static bool closes(const lsp_analysis *a, int i) {
  return lsp_token_is(a, i, ")") || lsp_token_is(a, i, "]") || lsp_token_is(a, i, "}");
}

static bool is_item_word_at(const lsp_analysis *a, int i) {
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (w->kind == WORD_ITEM && lsp_token_is(a, i, w->name)) return true;
  return false;
}

// An item begins at its word, outside of all brackets; or first on a line without an indent, where
// one was left open.
static bool begins_item(const lsp_analysis *a, int i, int depth) {
  if (!is_item_word_at(a, i)) return false;
  const token *t = lsp_token(a, i);
  return depth == 0 || (t->first_on_line && source_indent(a->text, t->span.begin) == 0);
}

static bool in_comment(const lsp_analysis *a, uint32_t offset) {
  for (int i = 0; i < a->tokens.comments.count; i++) {
    span where = a->tokens.comments.items[i].span;
    if (offset > where.begin && offset <= where.end) return true;
  }
  return false;
}

static bool in_string(const lsp_analysis *a, int index, uint32_t offset) {
  const token *t = lsp_token(a, index);
  char first = t ? a->text->text[t->span.begin] : '\0';
  return t && t->kind && t->span.begin < offset && (first == '"' || first == '\'');
}

static const ast_item *item_of(const lsp_analysis *a, int word) {
  const token *name = lsp_token(a, word + 1);
  for (int i = 0; name && i < a->file->items.count; i++) {
    const ast_item *item = a->file->items.items[i];
    if (item->kind != AST_IMPORT && item->name.span.begin == name->span.begin) return item;
  }
  return NULL;
}

lsp_surroundings lsp_surroundings_of(const lsp_analysis *a, uint32_t offset) {
  enum { DEEPEST = 256 };
  lsp_surroundings s = {.item = -1, .opening = -1};
  int open[DEEPEST], depth = 0;
  uint32_t word = lsp_word_begin(a->text, offset);
  for (; s.next < a->tokens.tokens.count - 1 && lsp_token(a, s.next)->span.end <= word; s.next++) {
    if (begins_item(a, s.next, depth)) {
      s.item = s.next;
      depth = 0;
    } else if (opens(a, s.next)) {
      if (depth < DEEPEST) open[depth] = s.next;
      depth++;
    } else if (closes(a, s.next) && depth > 0) {
      if (--depth == 0 && lsp_token_is(a, s.next, "}")) s.item = -1;
    }
  }
  s.in_text = in_comment(a, offset) || in_string(a, s.next, offset);
  s.in_braces = depth > 0 && lsp_token_is(a, open[0], "{");
  if (depth > DEEPEST) depth = DEEPEST;
  if (depth > (s.in_braces ? 1 : 0)) s.opening = open[depth - 1];
  if (s.item >= 0) s.tree = item_of(a, s.item);
  return s;
}
