// Small recurrences that between them reach every kind of nest: for tests that run kernels.
#pragma once

#include <stdbool.h>

typedef struct kernel_program {
  const char *name, *source;
} kernel_program;

extern const kernel_program kernel_programs[];
extern const int kernel_program_count;
// The one of this name; ends the program if there is none.
const char *kernel_program_source(const char *name);

// What takes long in LLVM is drawn: whether this run has number `number` of what one run in `each`
// has. The seed is $REC_SEED, or a new one, which is printed. Where $REC_FULL is set (`tools/test
// --full`), a run has everything.
bool kernel_is_drawn(int number, int each);
