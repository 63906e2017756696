// rec apply: runs a recurrence on the tensors of a file (language.md, section 6).
#include <stdlib.h>
#include <string.h>

#include "runtime/bind.h"
#include "runtime/command/command.h"
#include "runtime/device.h"

const char apply_usage[] =
    "rec apply FILE NAME --inputs IN.safetensors --outputs OUT.safetensors\n"
    "\n"
    "Runs the recurrence NAME of a compiled library, or of a .rec file (compiled on the fly), on "
    "tensors from a file.\n"
    "Inputs: every input [B,T,axes] and parameter [axes] by its name, initial states h0.S, packed "
    "sequences by cu_seqlens.\n"
    "Outputs: every output by its name, final states hT.S.\n"
    "\n"
    "  --backward          read cotangents d.y (and d.hT.S), write gradients d.x, d.A_log, d.h0.S, "
    "..\n"
    "  --device D          host (default); reference, the double-precision step-by-step "
    "interpreter;\n"
    "                      simt, the GPU's code run and checked on the CPU; cuda, a GPU\n"
    "  --step              feed the single-step form token by token\n"
    "  --threads N         threads of host and simt (default: REC_NUM_THREADS, or one for each processor)\n"
    "  --recompute         backward keeps nothing from forward\n"
    "  -D axis=size        sizes, as in recc\n"
    "  --dtype f32|f64|bf16|f16    element type of tokens, as in recc\n"
    "  --chunk N           steps in a chunk, as in recc\n"
    "  --check             verify promised ranges, as in recc\n"
    "\n"
    "A library that was compiled with other options is compiled again from the source that it "
    "carries.\n";

typedef struct apply_request {
  const char *name, *inputs, *outputs, *device_name;
  rec_run_options options;
  module_request module;
} apply_request;

static bool read_option(words *w, apply_request *a) {
  return take_value(w, "--inputs", &a->inputs) || take_value(w, "--outputs", &a->outputs) ||
         take_value(w, "--device", &a->device_name) || take_number(w, "--threads", 1, &a->options.threads) ||
         take_module_option(w, &a->module);
}

static bool read_flag(words *w, apply_request *a) {
  const struct {
    const char *name;
    bool *flag;
  } flags[] = {{"--backward", &a->options.backward}, {"--step", &a->options.step}, {"--recompute", &a->options.recompute}};
  for (int i = 0; i < 3; i++) {
    if (!take_flag(w, flags[i].name)) continue;
    *flags[i].flag = true;
    return true;
  }
  return false;
}

static int read_words(words *w, apply_request *a) {
  while (w->next < w->count && !w->failed) {
    const char *word;
    if (read_flag(w, a) || read_option(w, a)) continue;
    if (take_word(w, &word)) {
      if (!a->module.file)
        a->module.file = word;
      else if (!a->name)
        a->name = a->module.name = word;
      else
        usage_error(w, "expected options behind FILE NAME, found `%s`", word);
    } else if (!w->failed) {
      usage_error(w, "unknown option `%s`", w->list[w->next]);
    }
  }
  if (w->failed) return EXIT_USAGE;
  if (!a->module.file || !a->name) return usage_error(w, "expected FILE NAME");
  if (!a->inputs) return usage_error(w, "expected --inputs FILE");
  if (!a->outputs) return usage_error(w, "expected --outputs FILE");
  if (a->options.step && a->options.backward) return usage_error(w, "expected --step or --backward, found both");
  return 0;
}

static rec_status apply_to_file(const apply_request *a, const rec_recurrence *recurrence, const rec_device *device) {
  rec_file *file;
  rec_binding binding;
  rec_status status = rec_file_open(a->inputs, &file);
  if (status) return status;
  status = rec_bind(rec_recurrence_signature(recurrence), device, file, a->options.backward, &binding);
  rec_file_close(file);
  if (status) return status;
  status = rec_run(recurrence, device, &binding.call, &a->options);
  if (!status) status = rec_binding_write(&binding, a->outputs);
  rec_binding_free(&binding);
  return status;
}

static int apply(words *w, apply_request *a) {
  int status = read_words(w, a);
  if (status) return status;
  const rec_device *device = rec_device_find(a->device_name);
  if (!device) return usage_error(w, "expected a device among %s, found `%s`", rec_device_names(), a->device_name);
  a->module.reference = strcmp(a->device_name, "reference") == 0;
  if (strcmp(a->device_name, "simt") == 0) a->module.target = "simt";
  if (strcmp(a->device_name, "cuda") == 0) a->module.target = rec_cuda_target(0);
  rec_module *module;
  status = open_module(&a->module, &module);
  if (status) return status;
  const rec_recurrence *recurrence = choose_recurrence("apply", a->module.file, module, a->name);
  if (!recurrence) {
    status = EXIT_USAGE;
  } else if (apply_to_file(a, recurrence, device)) {
    status = report_failure("apply");
  }
  rec_module_close(module);
  return status;
}

int command_apply(int count, char **list) {
  words w = {.command = "apply", .count = count, .list = list};
  apply_request a = {.device_name = "host", .module.command = "apply"};
  a.module.defines = calloc(2 * (size_t)count + 1, sizeof *a.module.defines);
  a.module.recc_words = calloc(2 * (size_t)count + 1, sizeof *a.module.recc_words);
  int status = EXIT_USAGE;
  if (a.module.defines && a.module.recc_words) status = apply(&w, &a);
  free(a.module.defines);
  free(a.module.recc_words);
  return status;
}
