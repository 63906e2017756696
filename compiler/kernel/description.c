// Descriptions of kernels: the parts that host and GPU kernels have in common.
#include "compiler/kernel/description.h"

#include "compiler/emit/llvm.h"
#include "compiler/kernel/host/kernel.h"

unsigned codegen_clones(const codegen_options *options) { return options->clones ? options->clones : (1u << CLONE_COUNT) - 1; }

// As many as either needs, for any sizes.
static void grow(arena *a, codegen_bytes *to, codegen_bytes from) {
  if (from.constant > to->constant) to->constant = from.constant;
  if (from.per_instance > to->per_instance) to->per_instance = from.per_instance;
  for (int i = 0; i < from.terms.count; i++) {
    codegen_bytes_term term = from.terms.items[i], *same = codegen_bytes_of(to, term.axes);
    if (same) term.coefficient -= same->coefficient;
    if (term.coefficient > 0) codegen_bytes_add(a, to, term);
  }
}

codegen_kernel codegen_describe(arena *a, const kernel *k, codegen_options options) {
  codegen_kernel described = kernel_describe(a, k);
  described.together = kernel_together(a, k, false);
  for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++) {
    if (!(codegen_clones(&options) >> clone & 1)) continue;
    described.symbols[clone] = arena_printf(a, "%s%s", k->symbol, clone_targets[clone].suffix);
    grow(a, &described.scratch, host_scratch(a, k, clone, options.dtype));
    if (described.together) grow(a, &described.scratch, host_scratch(a, described.together, clone, options.dtype));
  }
  return described;
}
