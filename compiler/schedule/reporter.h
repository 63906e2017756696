// What report.c and report_gpu.c share.
#pragma once

#include "compiler/schedule/report.h"

typedef struct reporter {
  arena *a;
  FILE *out;
  const recurrence_kernels *kernels;
  const typed_body *body;
  number_type dtype;
} reporter;

const char *count_with_unit(arena *a, double count);
const kernel *reported_kernel(const reporter *r, kernel_kind kind);
bool reads_steps_again(const tile_program *backward);
const char *step_cost_text(const reporter *r, kernel_kind kind);
const char *matrix_text(arena *a, const typed_body *body, const tile_program *summary,
                        int transition_size);
