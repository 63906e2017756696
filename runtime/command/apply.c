// rec apply: runs a recurrence on the tensors of a file (compiler/LANGUAGE.md, section 6).
#include <string.h>

#include "runtime/bind.h"
#include "runtime/command/command.h"
#include "runtime/device.h"

typedef struct apply_request {
  const char *inputs, *outputs, *device_name;
  bool again;
  rec_run_options options;
  module_request module;
} apply_request;

#define REQUEST apply_request
static const option options[] = {
    TEXT("--inputs", "IN", inputs, "a safetensors file"),
    TEXT("--outputs", "OUT", outputs, "another one"),
    AGAIN(again),
    FLAG("--backward", options.backward,
         "read cotangents d.y (and d.hT.S), write gradients d.x, d.A_log, d.h0.S, .."),
    TEXT("--device", "host|reference|simt|cuda", device_name,
         "host (default); reference, the double-precision step-by-step interpreter;\n"
         "simt, the GPU's code run and checked on the CPU; cuda, a GPU"),
    FLAG("--step", options.step, "feed the single-step form token by token"),
    NUMBER("--threads", "N", options.threads, 1,
           "threads of host and simt (default: REC_NUM_THREADS, or one for each processor)"),
    FLAG("--recompute", options.recompute, "backward keeps nothing from forward"),
    OF_MODULE("-D", "axis=size", OPTION_DEFINE, "sizes, as in recc"),
    OF_MODULE("--dtype", "f32|f64|bf16|f16", OPTION_DTYPE, "element type of tokens, as in recc"),
    OF_MODULE("--chunk", "N", OPTION_RECC, "steps in a chunk, as in recc"),
    OF_MODULE("--check", NULL, OPTION_RECC, "verify promised ranges, as in recc"),
    OF_MODULE("--form", "F", OPTION_RECC, NULL),
    OPTIONS_END};

static int read_words(words *w, apply_request *a) {
  if (read_options(w, options, a)) return EXIT_USAGE;
  if (w->given_count > 2)
    return usage_error(w, "expected options behind FILE NAME, found `%s`", w->given[2]);
  if (w->given_count < 2) return usage_error(w, "expected FILE NAME");
  a->module.file = w->given[0];
  a->module.name = w->given[1];
  if (!a->inputs) return usage_error(w, "expected --inputs FILE");
  if (!a->outputs) return usage_error(w, "expected --outputs FILE");
  if (a->options.step && a->options.backward)
    return usage_error(w, "expected --step or --backward, found both");
  return 0;
}

static rec_status apply_to_file(const apply_request *a, const rec_recurrence *recurrence,
                                const rec_device *device) {
  rec_binding binding;
  rec_status status = rec_bind(rec_recurrence_signature(recurrence), device, a->module.inputs,
                               a->options.backward, &binding);
  if (status) return status;
  status = rec_run(recurrence, device, &binding.call, &a->options);
  if (!status) status = rec_binding_write(&binding, a->outputs);
  rec_binding_free(&binding);
  return status;
}

static int apply_module(const apply_request *a, const rec_device *device) {
  rec_module *module;
  int status = open_module(&a->module, &module);
  if (status) return status;
  const rec_recurrence *recurrence =
      choose_recurrence("apply", a->module.file, module, a->module.name);
  if (!recurrence)
    status = EXIT_USAGE;
  else if (apply_to_file(a, recurrence, device))
    status = report_failure("apply");
  rec_module_close(module);
  return status;
}

static int run_apply(words *w) {
  apply_request a = {.device_name = "host", .module = module_request_of(w)};
  int status = read_words(w, &a);
  if (status) return status;
  const rec_device *device = rec_device_find(a.device_name);
  if (!device)
    return usage_error(w, "expected a device among %s, found `%s`", rec_device_names(),
                       a.device_name);
  a.module.reference = strcmp(a.device_name, "reference") == 0;
  if (strcmp(a.device_name, "simt") == 0) a.module.target = "simt";
  if (strcmp(a.device_name, "cuda") == 0) a.module.target = rec_cuda_target();
  rec_file *inputs;
  if (rec_file_open(a.inputs, &inputs)) return report_failure("apply");
  a.module.inputs = inputs;
  status = allow_output(a.outputs, a.module.file, a.again) ? report_failure("apply")
                                                           : apply_module(&a, device);
  rec_file_close(inputs);
  return status;
}

const subcommand apply_command = {
    .name = "apply",
    .purpose = "runs a recurrence on tensors from a file",
    .synopsis = "FILE NAME --inputs IN.safetensors --outputs OUT.safetensors",
    .text =
        "Runs the recurrence NAME of a compiled library, or of a .rec file (compiled on the fly), "
        "on tensors from a file.\n"
        "Inputs: every input [B,T,axes] and parameter [axes] by its name, initial states h0.S, "
        "packed sequences by cu_seqlens.\n"
        "Outputs: every output by its name, final states hT.S.\n",
    .options = options,
    .run = run_apply};
