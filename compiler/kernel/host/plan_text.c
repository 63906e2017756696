// Host: what --emit=plan prints.
#include "compiler/kernel/plan_text.h"
#include "compiler/kernel/host/kernel.h"

typedef struct text_options {
  codegen_clone clone;
  number_type dtype;
} text_options;

// Behind the kernel the one that takes several sequences together, if there is one.
static char *plan_of_host(arena *a, const kernel *k, codegen_clone clone, number_type dtype) {
  const kernel_plan *w = host_plan_of(a, k, 1u << clone, dtype)->clones[clone];
  char *alone = kernel_plan_text(a, w);
  return w->batched ? arena_printf(a, "%s%s", alone, kernel_plan_text(a, w->batched)) : alone;
}

static kernel_words host_plan_words(arena *a, const kernel *k, const void *data) {
  const text_options *o = data;
  return (kernel_words){codegen_clone_name(o->clone), plan_of_host(a, k, o->clone, o->dtype)};
}

char *codegen_plans(arena *a, const kernel *const *kernels, int count, codegen_clone clone,
                    number_type dtype) {
  text_options options = {clone, dtype};
  return kernel_plans(a, kernels, count, host_plan_words, &options);
}
