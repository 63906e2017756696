// libFuzzer: any text is either refused with a message, or a recurrence. A recurrence verifies,
// prints, reads back to itself, and can be analysed (as --from=recurrence does).
//   fuzz/recurrence_fuzz -max_total_time=600 tests/fuzz/seeds/recurrence
#include <stdlib.h>
#include <string.h>

#include "compiler/recurrence/recurrence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct workplace {
  arena *memory;
  sources *sources;
  interner *names;
  diag *messages;
} workplace;

static recurrence *read_text(workplace *w, const char *text, size_t size) {
  const char *error = NULL;
  const source *file = sources_add(w->sources, "fuzz", text, size, &error);
  if (!file) return NULL;
  recurrence *r = recurrence_parse(w->memory, w->names, w->messages, file);
  if (!r && !diag_has_errors(w->messages)) abort();
  return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  workplace w = {.memory = arena_new()};
  w.sources = sources_new(w.memory);
  w.names = interner_new(w.memory);
  w.messages = diag_new(w.memory, w.sources);
  recurrence *r = read_text(&w, (const char *)data, size);
  if (r) {
    char *printed = recurrence_print(w.memory, r);
    recurrence *again = read_text(&w, printed, strlen(printed));
    if (!again || strcmp(recurrence_print(w.memory, again), printed) != 0) abort();
    recurrence *analysed = recurrence_analyse(w.memory, &r->body);
    if (recurrence_verify(w.memory, analysed)) abort();
    recurrence_report(w.memory, w.sources, analysed);
  }
  arena_free(w.memory);
  return 0;
}
