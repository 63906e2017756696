// libFuzzer: any text is refused with a message or becomes bodies that print.
//   fuzz/sema_fuzz -max_total_time=600 -dict=tests/fuzz/parser.dict CORPUS tests/syntax tests/sema
#include <stdint.h>
#include <stdlib.h>

#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  diag *messages = diag_new(a, all);
  interner *names = interner_new(a);
  const char *error = NULL;
  const source *text = sources_add(all, "fuzz.rec", (const char *)data, size, &error);
  if (text) {
    ast_file *file = parse_source(a, names, messages, text);
    if (!diag_has_errors(messages)) {
      sema_options options = {.stdlib = embedded_stdlib};
      typed_program *program = sema_check(a, names, messages, all, file, &options);
      for (int i = 0; !diag_has_errors(messages) && i < program->recurrences.count; i++)
        if (!*typed_print_body(a, program->recurrences.items[i])) abort();
    }
    if (diag_has_errors(messages) && !*diag_error_text(messages, 0)) abort();
  }
  arena_free(a);
  return 0;
}
