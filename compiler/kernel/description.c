// Descriptions of kernels: the parts that host and GPU kernels have in common.
#include "compiler/kernel/description.h"

#include <string.h>

#include "compiler/plan/kernel_plan.h"

unsigned codegen_clones(const codegen_options *options) {
  return codegen_clones_asked(options->clones, options->dtype);
}

codegen_kernel codegen_describe(arena *a, const kernel *k, codegen_options options) {
  const host_plan *made = host_plan_of(a, k, codegen_clones(&options), options.dtype);
  codegen_kernel described = kernel_describe(a, k);  // kernels that share the plans differ in kind
  described.batched = made->described.batched;
  described.scratch = made->described.scratch;
  memcpy(described.symbols, made->described.symbols, sizeof described.symbols);
  return described;
}
