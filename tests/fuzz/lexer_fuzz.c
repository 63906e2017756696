// libFuzzer: any bytes through the check of sources and the lexer. Tokens must stand in the order
// of the text, and so must comments.
#include <stdint.h>
#include <stdlib.h>

#include "compiler/syntax/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *s = sources_add(all, "fuzz.rec", (const char *)data, size, &error);
  require((s == NULL) == (error != NULL));
  if (s) {
    token_stream stream = lex_source(a, interner_new(a), diag_new(a, all), s);
    uint32_t end = 0;
    for (int i = 0; i < stream.tokens.count; i++) {
      span where = stream.tokens.items[i].span;
      require(where.begin >= end && where.end >= where.begin && where.end <= s->size);
      end = where.end;
    }
    end = 0;
    for (int i = 0; i < stream.comments.count; i++) {
      span where = stream.comments.items[i].span;
      require(where.begin >= end && where.end > where.begin && where.end <= s->size);
      end = where.end;
    }
    require(stream.tokens.items[stream.tokens.count - 1].kind == 0);
  }
  arena_free(a);
  return 0;
}
