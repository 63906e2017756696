// The compiler's front end inside the runtime: source text to recurrences that the reference
// interpreter runs.
#pragma once

#include <stdio.h>

#include "compiler/recurrence/recurrence.h"
#include "runtime/module.h"

// Reads the file at `path`, or texts[0] if there are texts; imports are then first looked for among
// them. `from` says what the file is: NULL (a program) or "recurrence". Messages about the program
// go to `messages`, or nowhere if it is NULL; rec_message() has the first.
rec_status rec_front_new(const char *path, const rec_source_text *texts, int text_count,
                         const char *from, const char *const *defines, int define_count,
                         FILE *messages, rec_front **front);

// The program of a recurrence, read from what its library carries.
rec_status rec_program_of(const rec_recurrence *r, const recurrence **program);

int rec_front_count(const rec_front *front);
const recurrence *rec_front_recurrence(const rec_front *front, int index);
const recurrence *rec_front_find(const rec_front *front, const char *name);  // NULL: none

// The size of a run-time axis that follows from others (`E = 2*D`). False: it does not come out
// whole.
bool rec_front_size(const recurrence *program, int axis, const int64_t *sizes, int64_t *size);

// An expression as the source has it; lives as long as the front end.
const char *rec_front_text(const rec_front *front, const ast_expr *expression);
