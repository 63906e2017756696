// Messages to the user about the program: collected by the passes, printed together, sorted by
// place.
//
//   FILE:L:C: error: expected X, found Y; hint
//     the line
//         ^~~
//
// Texts follow "expected X, found Y; hint": what was wanted and what was seen, in the words of the
// source.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "compiler/base/arena.h"
#include "compiler/base/source.h"

typedef struct diag diag;

typedef enum diag_severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } diag_severity;

// A message as programs read it, an editor's server among them.
typedef struct diag_message {
  diag_severity severity;
  span where;
  const char *text;
  const char *fix;            // the text that mends the program in place of `fix_where`; or NULL
  span fix_where;             // may be empty: the fix is inserted there
  bool unused;                // not shown beside other errors
  int order;                  // in which it was added: equal places keep it
  struct diag_message *note;  // second places, in order
} diag_message;

// Messages live in the arena and print their places by `all`.
diag *diag_new(arena *a, const sources *all);

// Returns false, which whoever has found a mistake often returns.
bool diag_error(diag *d, span where, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(diag *d, span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A name that nothing uses. Printed only if there is no other error: the line with the mistake may
// be the one that was to use it.
void diag_unused_error(diag *d, span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_unused_warning(diag *d, span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A second place that explains the message added last ("declared here"); it is printed below it.
void diag_note(diag *d, span where, const char *format, ...) __attribute__((format(printf, 3, 4)));

// What mends the message added last: `text` in place of `where`.
void diag_fix(diag *d, span where, const char *text);

bool diag_has_errors(const diag *d);
int diag_error_count(const diag *d);

// Prints everything collected and not printed yet, sorted by source and place; equal messages at
// equal places once.
void diag_print(diag *d, FILE *out);

// The messages that would be printed if none had been yet, sorted by source and place, equal ones
// once.
const diag_message *const *diag_messages(const diag *d, int *count);

// Text of the i-th error in the order of their making, without place; NULL beyond the last (for
// tests and rec.h users).
const char *diag_error_text(const diag *d, int i);
