// Texts of plans, for --emit=plan.
#pragma once

#include "compiler/plan/kernel_plan.h"

// Of a kernel: the names of the targets that have it, and the plan of its programs.
typedef struct kernel_words {
  const char *targets, *programs;
} kernel_words;

typedef kernel_words kernel_text(arena *a, const kernel *k, const void *data);

// All kernels, one after another; `text` is called for each function once.
char *kernel_plans(arena *a, const kernel *const *kernels, int count, kernel_text *text,
                   const void *data);
