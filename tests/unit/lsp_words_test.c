// Every word of the compiler's tables is a word of the language server, and every word of the
// server stands in the files of each editor (tools/editors). A word that is added to the language
// and forgotten there fails here.
#include "compiler/graph/settings.h"
#include "compiler/lsp/server.h"
#include "compiler/sema/internal.h"
#include "compiler/syntax/parser_state.h"
#include "tests/unit/unit.h"

static void expect_word(unsigned kinds, const char *name) {
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (kinds & lsp_kind_bit(w->kind) && strcmp(w->name, name) == 0) return;
  fail_msg("compiler/lsp/words.def lacks '%s'", name);
}

static void expect_words(unsigned kinds, const char *const *names, int count) {
  assert_true(count > 0);
  for (int i = 0; i < count; i++) expect_word(kinds, names[i]);
}

static const unsigned reserved = 1u << WORD_ITEM | 1u << WORD_STATEMENT | 1u << WORD_KEYWORD;

TEST(test_reserved_words) {
  int count = 0;
  for (int kind = 1; kind < token_kind_count; kind++) {
    const char *word = token_kind_spelling(kind);
    if (!word || word[0] < 'a' || word[0] > 'z') continue;
    expect_word(reserved, word);
    count++;
  }
  assert_true(count >= 17);
}

TEST(test_functions) {
  static const struct {
    builtin_kind builtin;
    lsp_word_kind word;
  } kinds[] = {{BUILTIN_ELEMENTWISE, WORD_FUNCTION}, {BUILTIN_REDUCTION, WORD_FUNCTION},
               {BUILTIN_INDEX, WORD_FUNCTION},       {BUILTIN_FOLD, WORD_FUNCTION},
               {BUILTIN_START, WORD_START},          {BUILTIN_LAYER, WORD_LAYER}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    assert_non_null(builtin_name_of(kinds[i].builtin, 0));
    for (int k = 0; builtin_name_of(kinds[i].builtin, k); k++)
      expect_word(lsp_kind_bit(kinds[i].word), builtin_name_of(kinds[i].builtin, k));
  }
}

// The server tells of no function that is none.
TEST(test_no_more_functions) {
  for (const lsp_word *w = lsp_words; w->name; w++)
    if (w->kind == WORD_FUNCTION || w->kind == WORD_LAYER)
      assert_true(builtin_any(w->name) || strcmp(w->name, "pi") == 0);
}

TEST(test_settings) {
  expect_words(lsp_kind_bit(WORD_SETTING) | reserved, setting_names, SETTING_COUNT);
  expect_words(lsp_kind_bit(WORD_SCHEDULE), schedule_names, SCHEDULE_KINDS);
  expect_words(lsp_kind_bit(WORD_START_STATE), intervention_names, INTERVENTION_KINDS);
  expect_words(lsp_kind_bit(WORD_VALUE), distance_names, DISTANCE_KINDS);
  expect_words(lsp_kind_bit(WORD_VALUE), source_names, SOURCE_TOKENS);
  expect_words(lsp_kind_bit(WORD_VALUE), token_format_names, TOKEN_FORMATS);
  for (int i = 0; i < OPTIMIZERS; i++)
    expect_word(lsp_kind_bit(WORD_OPTIMIZER), optimizer_rules_of[i].name);
  for (int i = 0; i < TASK_KINDS; i++) expect_word(lsp_kind_bit(WORD_DATA), task_rules_of[i].name);
}

// A task's settings are offered inside of its brackets.
TEST(test_arguments_of_tasks) {
  for (int i = 0; i < TASK_KINDS; i++)
    for (int k = 0; k < 5 && task_rules_of[i].settings[k]; k++)
      for (const lsp_word *w = lsp_words; w->name; w++) {
        char argument[64];
        snprintf(argument, sizeof argument, "%s = ", task_rules_of[i].settings[k]);
        if (w->kind != WORD_DATA || strcmp(w->name, task_rules_of[i].name) != 0) continue;
        if (!strstr(w->signature, argument)) fail_msg("'%s' lacks '%s'", w->signature, argument);
      }
}

// ---- the files of editors --------------------------------------------------------------------

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
    bool escape = at > text + 1 && at[-1] == 'b' && at[-2] == '\\';  // \\bword of a JSON file
    if ((at == text || !is_letter(at[-1]) || escape) && !is_letter(at[length])) return true;
  }
  return false;
}

TEST(test_editor_files) {
  static const char *const files[] = {
      REC_SOURCE_DIR "/tools/editors/vim/syntax/rec.vim",
      REC_SOURCE_DIR "/tools/editors/vscode/syntaxes/rec.tmLanguage.json",
      REC_SOURCE_DIR "/tools/editors/tree-sitter-rec/queries/highlights.scm"};
  arena *memory = arena_new();
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *text = text_of(memory, files[i]);
    for (const lsp_word *w = lsp_words; w->name; w++)
      if (!has_word(text, w->name)) fail_msg("%s lacks '%s'", files[i], w->name);
  }
  arena_free(memory);
}
