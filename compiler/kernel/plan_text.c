// What --emit=plan prints: the plan of each kernel, by whom it is run and for which kinds of calls.
//
//   kernel rec_kernel_smooth_forward for x86-64-v3: forward
//    instances along D, ..
#include <string.h>

#include "compiler/kernel/plan_text.h"

static const char *plan_kind_text(kernel_kind kind) {
  static const char *const kinds[] = {[KERNEL_FORWARD] = "forward",
                                      [KERNEL_STEP] = "step",
                                      [KERNEL_STATES] = "states",
                                      [KERNEL_BACKWARD] = "backward",
                                      [KERNEL_SUMMARY] = "time slice",
                                      [KERNEL_SUMMARY_BACK] = "backward time slice",
                                      [KERNEL_SLICE] = "forward of a time slice"};
  return kinds[kind];
}

// All kinds of a function. NULL: the list has it before.
static const char *kinds_of(arena *a, const kernel *const *kernels, int count, int index) {
  const char *text = NULL;
  for (int i = 0; i < count; i++) {
    if (strcmp(kernels[i]->symbol, kernels[index]->symbol) != 0) continue;
    if (i < index) return NULL;
    text = text ? arena_printf(a, "%s, %s", text, plan_kind_text(kernels[i]->kind))
                : plan_kind_text(kernels[i]->kind);
  }
  return text;
}

char *kernel_plans(arena *a, const kernel *const *kernels, int count, kernel_text *text,
                   const void *data) {
  const char *chars = "";
  for (int i = 0; i < count; i++) {
    const char *kinds = kinds_of(a, kernels, count, i);
    if (!kinds) continue;
    kernel_words words = text(a, kernels[i], data);
    chars = arena_printf(a, "%s%skernel %s for %s: %s\n%s", chars, *chars ? "\n" : "",
                         kernels[i]->symbol, words.targets, kinds, words.programs);
  }
  return arena_strdup(a, chars);
}
