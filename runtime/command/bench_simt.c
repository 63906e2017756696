// rec bench --device simt: what a call costs on a GPU, as the executor counts it and the model
// times it.
#include <stdlib.h>

#include "compiler/abi/gpu_model.h"
#include "compiler/abi/simt_options.h"
#include "runtime/command/command.h"
#include "runtime/device.h"

static const char *const known[] = {
#define GPU_DEVICE(target, ...) target,
#include "compiler/abi/gpu_targets.def"
#undef GPU_DEVICE
};

static int refuse_target(const char *target) {
  enum { COUNT = sizeof known / sizeof *known };
  fprintf(stderr, "rec bench: expected ");
  for (int i = 0; i < COUNT; i++)
    fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 < COUNT ? ", " : " or ", known[i]);
  fprintf(stderr, " after `--target`, found `%s`\n", target);
  return EXIT_USAGE;
}

int choose_counted_target(module_request *module, const char *target) {
  if (gpu_machine_row(target) < 0) return refuse_target(target);
  static char targets[32];
  snprintf(targets, sizeof targets, "simt,%s", target);
  module->target = targets;
  module->recc_words[module->recc_word_count++] = "--count";
  return 0;
}

int bench_on_simt(const rec_recurrence *recurrence, const rec_call *call, const char *target,
                  bool backward) {
  const gpu_machine device = gpu_machine_at(gpu_machine_row(target));
  simt_cost cost = {.speed = gpu_speed_of(&device)};
  rec_simt_options simt = {.size = sizeof simt, .cost = &cost};
  rec_run_options options = {.backward = backward, .simt = &simt, .device_number = device.number};
  gpu_model_request request = {.device = &device, .cost = &cost, .steps = call->time};
  rec_status status = rec_simt_run(recurrence, call, &options);
  if (!status) gpu_model_print(stdout, &request);
  free(cost.places);
  free(cost.costs);
  return status ? report_failure("bench") : 0;
}
