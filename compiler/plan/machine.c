// The processors of hosts and their clones: a row for each.
#include "compiler/plan/machine.h"

const processor_row processor_rows[PROCESSOR_COUNT] = {
    [PROCESSOR_X86_64] = {"x86-64", "x86_64-unknown-linux-gnu", CLONE_V2, CLONE_X86_COUNT},
    [PROCESSOR_AARCH64] = {"aarch64", "aarch64-unknown-linux-gnu", CLONE_NEON, 1},
};

const clone_target clone_targets[CLONE_COUNT + 1] = {
    [CLONE_V2] = {"x86-64-v2", "_v2", "x86-64-v2", 16, 16, PROCESSOR_X86_64},
    [CLONE_V3] = {"x86-64-v3", "_v3", "x86-64-v3", 32, 16, PROCESSOR_X86_64, true, true, true,
                  false},
    [CLONE_V4] = {"x86-64-v4", "_v4", "x86-64-v4", 64, 32, PROCESSOR_X86_64, true, true, true, true,
                  true},
    [CLONE_V4_BF16] = {"x86-64-v4-bf16", "_v4_bf16", "x86-64-v4", 64, 32, PROCESSOR_X86_64, true,
                       true, true, true, true, true},
    [CLONE_NEON] = {"aarch64", "_neon", "generic", 16, 32, PROCESSOR_AARCH64,
                    .converts_half = true},
    [CLONE_GPU] = {"gpu", "", NULL, 4, 128, PROCESSOR_HOST, true, true, true, false},
};

const char *codegen_clone_name(codegen_clone clone) { return clone_targets[clone].name; }

int codegen_lanes(codegen_clone clone, bool f64) {
  return clone_targets[clone].vector_bytes / (f64 ? 8 : 4);
}

unsigned codegen_clones_of(codegen_processor processor) {
  const processor_row *row = &processor_rows[processor];
  return ((1u << row->count) - 1) << row->first;
}

unsigned codegen_clones_asked(unsigned clones, number_type dtype) {
  if (clones) return clones;
  clones = codegen_clones_of(PROCESSOR_HOST);
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    if (clone_targets[clone].pairs && dtype != NUMBER_BF16) clones &= ~(1u << clone);
  return clones;
}

codegen_processor codegen_processor_of(unsigned clones) {
  return clone_targets[__builtin_ctz(codegen_clones_asked(clones, NUMBER_F32))].processor;
}
