// libFuzzer: any bytes through the parser, the messages, the printer and the formatter. A program
// without errors must format to a program without errors and with the same tree, which formatting
// leaves as it is.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/syntax/syntax.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

static char *tree_text(const ast_file *file) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  print_ast(out, file);
  fclose(out);
  return text;
}

static void check_messages(diag *d) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_print(d, out);
  fclose(out);
  require(size > 0);
  free(text);
}

static void check_format(arena *a, sources *all, const source *s, const char *tree) {
  const char *error = NULL;
  diag *d = diag_new(a, all);
  char *once = format_source(a, interner_new(a), d, s);
  require(once != NULL);
  const source *formatted = sources_add(all, "formatted.rec", once, strlen(once), &error);
  require(formatted != NULL);
  char *again = tree_text(parse_source(a, interner_new(a), d, formatted));
  require(!diag_has_errors(d) && strcmp(again, tree) == 0);
  free(again);
  require(strcmp(format_source(a, interner_new(a), d, formatted), once) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *s = sources_add(all, "fuzz.rec", (const char *)data, size, &error);
  if (s) {
    diag *d = diag_new(a, all);
    ast_file *file = parse_source(a, interner_new(a), d, s);
    char *tree = tree_text(file);
    if (diag_has_errors(d))
      check_messages(d);
    else
      check_format(a, all, s, tree);
    free(tree);
  }
  arena_free(a);
  return 0;
}
