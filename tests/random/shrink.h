// A failing program made small.
#pragma once

#include <stdbool.h>

#include "compiler/base/arena.h"

// Whether a program, which is legal, still fails.
typedef bool still_fails(void *context, const char *text);

// The last recurrence of `text` with fewer statements, operations, axes and entries, as long as it
// fails; `tries` programs are asked about at most.
char *shrink_program(arena *memory, const char *text, still_fails *fails, void *context, int tries);
