// GPU: the text of --emit=plan.
#include "compiler/kernel/plan_text.h"
#include "compiler/kernel/description.h"

// The targets of the options that have the kernel.
static const char *kernel_targets(arena *a, const kernel *k, codegen_gpu_options options) {
  const char *text = "";
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1 && codegen_gpu_is_of_class(target, k->gpu.device_class))
      text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", codegen_gpu_target_name(target));
  return text;
}

static char *plan_of_gpu(arena *a, const kernel *k, codegen_gpu_options options) {
  const kernel_plan *w = gpu_plan_of(a, k, options)->whole;
  char *text = kernel_plan_text(a, w);
  return w->batched ? arena_printf(a, "%s%s", text, kernel_plan_text(a, w->batched)) : text;
}

static kernel_words gpu_plan_words(arena *a, const kernel *k, const void *data) {
  const codegen_gpu_options *options = data;
  return (kernel_words){kernel_targets(a, k, *options), plan_of_gpu(a, k, *options)};
}

char *codegen_gpu_plans(arena *a, const kernel *const *kernels, int count,
                        codegen_gpu_options options) {
  return kernel_plans(a, kernels, count, gpu_plan_words, &options);
}
