// What --emit=plan prints: the plan of each kernel, by whom it is run and for which kinds of calls.
//
//   kernel rec_kernel_smooth_forward for x86-64-v3: forward
//    instances along D, ..
#include <string.h>

#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/gpu.h"

typedef struct plan_text {
  arena *a;
  const char *chars;
} plan_text;

#define PUT(t, ...) ((t)->chars = arena_printf((t)->a, "%s%s", (t)->chars, arena_printf((t)->a, __VA_ARGS__)))

static char *plan_of_one(arena *a, const kernel *k, codegen_clone clone, number_type dtype) {
  codegen_kernel described = kernel_describe(a, k);
  kernel_plan w = kernel_plan_for(a, &described, k->symbol, clone, dtype);
  kernel_plan_make(&w);
  return kernel_plan_text(a, &w);
}

// Behind the kernel the one that takes several sequences together, if there is one.
static char *plan_of_host(arena *a, const kernel *k, codegen_clone clone, number_type dtype) {
  const kernel *together = kernel_together(a, k, false);
  char *alone = plan_of_one(a, k, clone, dtype);
  return together ? arena_printf(a, "%s%s", alone, plan_of_one(a, together, clone, dtype)) : alone;
}

// ---- all kernels ------------------------------------------------------------------------------

static const char *kind_text(kernel_kind kind) {
  static const char *const kinds[] = {[KERNEL_FORWARD] = "forward",
                                      [KERNEL_STEP] = "step",
                                      [KERNEL_STATES] = "states",
                                      [KERNEL_BACKWARD] = "backward",
                                      [KERNEL_CARRY] = "carry",
                                      [KERNEL_PART] = "time slice",
                                      [KERNEL_PART_BACK] = "backward time slice"};
  return kinds[kind];
}

// All kinds of a function. NULL: the list has it before.
static const char *kinds_of(arena *a, const kernel *const *kernels, int count, int index) {
  const char *text = NULL;
  for (int i = 0; i < count; i++) {
    if (strcmp(kernels[i]->symbol, kernels[index]->symbol) != 0) continue;
    if (i < index) return NULL;
    text = text ? arena_printf(a, "%s, %s", text, kind_text(kernels[i]->kind)) : kind_text(kernels[i]->kind);
  }
  return text;
}

static void put_kernel(plan_text *t, const kernel *k, const char *targets, const char *kinds, const char *programs) {
  PUT(t, "%skernel %s for %s: %s\n%s", *t->chars ? "\n" : "", k->symbol, targets, kinds, programs);
}

char *codegen_plans(arena *a, const kernel *const *kernels, int count, codegen_clone clone, number_type dtype) {
  plan_text t = {.a = a, .chars = ""};
  for (int i = 0; i < count; i++) {
    const char *kinds = kinds_of(a, kernels, count, i);
    if (kinds) put_kernel(&t, kernels[i], codegen_clone_name(clone), kinds, plan_of_host(a, kernels[i], clone, dtype));
  }
  return arena_strdup(a, t.chars);
}

// Those of the options that have the kernel.
static const char *targets_of(arena *a, const kernel *k, codegen_gpu_options options) {
  const char *text = "";
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1 && codegen_gpu_has_room(target, k->gpu.room))
      text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", codegen_gpu_target_name(target));
  return text;
}

static char *plan_of_gpu(arena *a, const kernel *k, codegen_gpu_options options) {
  const kernel_plan *w = gpu_plan_of(a, k, options)->whole;
  char *text = kernel_plan_text(a, w);
  return w->together ? arena_printf(a, "%s%s", text, kernel_plan_text(a, w->together)) : text;
}

char *codegen_gpu_plans(arena *a, const kernel *const *kernels, int count, codegen_gpu_options options) {
  plan_text t = {.a = a, .chars = ""};
  for (int i = 0; i < count; i++) {
    const char *kinds = kinds_of(a, kernels, count, i);
    if (kinds) put_kernel(&t, kernels[i], targets_of(a, kernels[i], options), kinds, plan_of_gpu(a, kernels[i], options));
  }
  return arena_strdup(a, t.chars);
}
