// Names as pointers: equal texts become the same pointer, so names are compared with ==.
#pragma once

#include <stddef.h>

#include "compiler/base/arena.h"

typedef struct interner interner;

// The interner and its strings live in the arena.
interner *interner_new(arena *a);

// The one pointer for this text. The result is NUL-terminated and lives as long as the interner's
// arena.
const char *intern(interner *names, const char *text);
const char *intern_n(interner *names, const char *text, size_t length);
