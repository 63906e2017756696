// What counted GPU code costs (simt_cost.h), as a table, with the time that the model gives it on
// the device of a target.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "compiler/abi/gpu_machine.h"
#include "compiler/abi/simt_cost.h"

// What the assembler made of a kernel; -1: not known.
typedef struct gpu_model_code {
  const char *kernel;
  int registers, stack, spilled;  // bytes
  int instructions, branches, specials;
} gpu_model_code;

typedef struct gpu_model_request {
  const gpu_machine *device;
  const simt_cost *cost;  // of a call
  // Of the same with fewer steps, so that what stands around the steps is apart; NULL: it is among
  // them.
  const simt_cost *before;
  int64_t steps, before_steps;
  const gpu_model_code *codes;
  int code_count;
} gpu_model_request;

// A section for each kernel.
void gpu_model_print(FILE *out, const gpu_model_request *r);
