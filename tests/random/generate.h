// Random legal recurrences: any seed gives a program of the language that the tests compile and compare with the interpreter.
#ifndef REC_TESTS_GENERATE_H
#define REC_TESTS_GENERATE_H

#include <stdint.h>

#include "compiler/base/arena.h"

// The text of a recurrence called `name`. The same seed gives the same text on every machine.
char *random_recurrence(arena *memory, uint64_t seed, const char *name);

#endif
