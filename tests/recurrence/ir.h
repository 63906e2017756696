// Recurrences from IR text, for unit tests.
#ifndef REC_TESTS_RECURRENCE_IR_H
#define REC_TESTS_RECURRENCE_IR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/recurrence/recurrence.h"

typedef struct ir_session {
  arena *memory;
  sources *sources;
  interner *names;
  diag *messages;
} ir_session;

static inline ir_session ir_open(void) {
  ir_session s = {.memory = arena_new()};
  s.sources = sources_new(s.memory);
  s.names = interner_new(s.memory);
  s.messages = diag_new(s.memory, s.sources);
  return s;
}

static inline void ir_close(ir_session *s) { arena_free(s->memory); }

// NULL if the text is refused; the messages are in the session.
static inline recurrence *ir_parse_n(ir_session *s, const char *text, size_t size) {
  const char *error = NULL;
  const source *file = sources_add(s->sources, "test.ir", text, size, &error);
  return file ? recurrence_parse(s->memory, s->names, s->messages, file) : NULL;
}

// Ends the program with the messages if the text is refused.
static inline recurrence *ir_parse(ir_session *s, const char *text) {
  recurrence *r = ir_parse_n(s, text, strlen(text));
  if (!r) {
    diag_print(s->messages, stderr);
    abort();
  }
  return r;
}

#endif
