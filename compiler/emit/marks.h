// Marks in code that is counted (recc --count): what the instructions behind a mark are for.
#pragma once

#include "compiler/emit/emit.h"

typedef struct mark {
  const char *kernel, *text, *file;
  int line;
} mark;

typedef struct marks {
  arena *memory;
  const sources *files;
  const char *kernel;  // that is lowered
  VEC(mark) items;
} marks;

// The name of the function whose calls are marks; their argument is a constant, the number of the
// mark.
extern const char mark_function[];

// Marks the place; nothing where code is not counted. `where`: none, or the value's that is made.
void mark_place(emitter *e, const char *text, span where);
// Takes all marks out of a module.
void marks_erase(LLVMModuleRef module);
