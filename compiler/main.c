// The recc command: reads a .rec file and prints its tokens or its tree.
#include <stdio.h>
#include <string.h>

#include "compiler/syntax/syntax.h"

static int usage(void) {
  fputs("usage: recc --emit=tokens|ast FILE.rec | recc fmt FILE.rec\n", stderr);
  return 2;
}

static int emit(arena *a, diag *d, const source *s, const char *what) {
  interner *names = interner_new(a);
  if (strcmp(what, "--emit=tokens") == 0) {
    print_tokens(stdout, a, d, s);
  } else if (strcmp(what, "--emit=ast") == 0) {
    ast_file *file = parse_source(a, names, d, s);
    if (!diag_has_errors(d)) print_ast(stdout, file);
  } else {
    return usage();
  }
  diag_print(d, stderr);
  return diag_has_errors(d) ? 1 : 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return usage();
  arena *a = arena_new();
  sources *all = sources_new(a);
  diag *d = diag_new(a, all);
  const char *error;
  const source *s = sources_load(all, argv[2], &error);
  int status = 1;
  if (s) {
    status = emit(a, d, s, argv[1]);
  } else {
    fprintf(stderr, "error: %s\n", error);
  }
  arena_free(a);
  return status;
}
