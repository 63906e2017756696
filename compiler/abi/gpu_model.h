// What counted GPU code costs (simt_cost.h), as a table, with the time that the model gives it on
// the device of a target.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "compiler/abi/simt_cost.h"

// A device (GPU_DEVICE of gpu_targets.def) with its target's figures.
typedef struct gpu_model_device {
  const char *target, *name;
  // of the class whose kernels the executor runs for it: rec_simt_options, device_number
  int number;
  int multiprocessors, shared_kib;
  double mhz, cache_gb, mma, wgmma;
} gpu_model_device;

// NULL: the target is none of the table.
const gpu_model_device *gpu_model_find(const char *target);

// Nothing is counted yet; the rates are those of the device.
simt_cost gpu_model_rates(const gpu_model_device *device);

// What the assembler made of a kernel; -1: not known.
typedef struct gpu_model_code {
  const char *kernel;
  int registers, stack, spilled;  // bytes
  int instructions, branches, specials;
} gpu_model_code;

typedef struct gpu_model_request {
  const gpu_model_device *device;
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
