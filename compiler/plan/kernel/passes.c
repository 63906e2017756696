// The passes over whole kernels. Those that plan one run the passes of plan.c.
#include "compiler/plan/kernel_plan.h"

static const char *kernel_pass_name(int pass) {
  static const char *const names[KERNEL_PASSES] = {[KERNEL_PASS_BATCHED] = "several sequences",
                                                   [KERNEL_PASS_PANELS] = "shared by panels",
                                                   [KERNEL_PASS_OPENINGS] = "opening sums",
                                                   [KERNEL_PASS_HOST] = "host kernel",
                                                   [KERNEL_PASS_GPU] = "GPU kernel"};
  return names[pass];
}

static bool may_leave_kernel_pass_out(int pass) {
  return pass == KERNEL_PASS_BATCHED || pass == KERNEL_PASS_PANELS || pass == KERNEL_PASS_OPENINGS;
}

const pass_stage kernel_stage = {"kernels", KERNEL_PASSES, kernel_pass_name,
                                 may_leave_kernel_pass_out};
