// The file of a train block's data, and the order in which its tokens are read.
//
//   data tokens("pile.bin", order = streaming, documents = apart, separator = 0)
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

enum { FORMAT, SPLIT, ORDER, DOCUMENTS, SEPARATOR, TOKENS, BITS = TOKENS };

// The last one differs.
static const char *const text_names[] = {"format",    "split",     "order",
                                         "documents", "separator", "tokens"};
static const char *const ids_names[] = {"format",    "split",     "order",
                                        "documents", "separator", "bits"};

static const source_rules rules[] = {{"text", text_names, 6}, {"tokens", ids_names, 6}};

const source_rules *source_rules_find(const char *name) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (!strcmp(rules[i].name, name)) return &rules[i];
  return NULL;
}

// One of `count` words; absent: the first.
static bool read_word_setting(graph_builder *b, const ast_expr *e, const char *setting,
                              const char *const *words, int count, int *place) {
  const char *word = e && e->kind == AST_NAME ? e->name.text : "";
  *place = 0;
  while (*place < count && e && strcmp(words[*place], word) != 0) ++*place;
  if (*place < count) return true;
  return diag_error(b->diag, e->span, "expected %s = %s, found '%s'", setting,
                    setting_choice(b->arena, words, count), expr_to_text(b->arena, e));
}

// Of a number in a file without a header.
static bool read_bits(train_settings *k, const ast_expr *e, graph_source *to) {
  int64_t bits;
  if (!e) return true;
  if (!sema_whole(k->scope, e, "bits", 1, &bits)) return false;
  to->bits = (int)bits;
  const char *wrong = bits != 16 && bits != 32 && bits != 64 ? "bits = 16, 32 or 64"
                      : to->format != FORMAT_BY_CONTENT && to->format != FORMAT_RAW
                          ? "no bits beside a format whose header says them"
                          : NULL;
  if (wrong)
    diag_error(k->b->diag, e->span, "expected %s, found bits = %lld", wrong, (long long)bits);
  return !wrong;
}

// A token that the data can hold: a byte, or an id below the vocabulary of the model.
static bool read_separator(train_settings *k, const ast_expr *e, graph_source *to) {
  const graph_program *p = k->b->result;
  int64_t most = to->tokens == SOURCE_BYTES ? UINT8_MAX : INT32_MAX;
  to->separator = -1;
  if (!e) return true;
  if (!sema_whole(k->scope, e, "separator", 0, &to->separator)) return false;
  if (k->train->model != NONE && p->models.items[k->train->model].vocabulary <= most)
    most = p->models.items[k->train->model].vocabulary - 1;
  const char *wrong =
      !to->apart                        ? "documents = apart beside separator"
      : to->tokens == SOURCE_CHARACTERS ? "a separator among bytes or ids"
      : to->separator > most
          ? arena_printf(
                k->b->arena, "a separator of at most %lld, the last %s", (long long)most,
                to->tokens == SOURCE_BYTES && most == UINT8_MAX ? "byte" : "token of the model")
          : NULL;
  if (wrong)
    diag_error(k->b->diag, e->span, "expected %s, found separator = %lld", wrong,
               (long long)to->separator);
  return !wrong;
}

// What separates documents must be known: a token, or the index of a file of ids.
static bool check_documents(graph_builder *b, const ast_expr *e, const graph_source *to) {
  if (!to->apart || to->separator >= 0 || to->tokens == SOURCE_TOKENS) return true;
  return diag_error(b->diag, e->span,
                    "expected separator = N beside documents = apart, found none");
}

bool source_read(train_settings *k, const ast_expr *e, const ast_expr *file,
                 const ast_expr *const *values) {
  graph_builder *b = k->b;
  graph_source *to = &k->train->source;
  static const char *const orders[] = {"shuffled", "streaming"}, *const documents[] = {"joined",
                                                                                       "apart"};
  bool ids = !strcmp(e->kind == AST_CALL ? e->call.callee.text : e->name.text, "tokens");
  int kind = 0, format, streaming, apart;
  if (!file || file->kind != AST_STRING)
    return diag_error(b->diag, e->span, "expected the file of the %s in quotes, found %s",
                      ids ? "tokens" : "text", file ? "another expression" : "none");
  to->file = file->string.text;
  to->split = 0.95;
  if (!read_word_setting(b, values[FORMAT], "format", token_format_names,
                         ids ? TOKEN_FORMATS : FORMAT_RAW + 1, &format) ||
      (!ids && !read_word_setting(b, values[TOKENS], "tokens", source_names, 2, &kind)) ||
      !setting_share(k, values[SPLIT], "split", 0.01, 0.999, &to->split) ||
      !read_word_setting(b, values[ORDER], "order", orders, 2, &streaming) ||
      !read_word_setting(b, values[DOCUMENTS], "documents", documents, 2, &apart))
    return false;
  to->format = (token_format)format;
  to->tokens = ids ? SOURCE_TOKENS : (source_kind)kind;
  to->streaming = streaming;
  to->apart = apart;
  if (ids && !read_bits(k, values[BITS], to)) return false;
  return read_separator(k, values[SEPARATOR], to) && check_documents(b, e, to);
}
