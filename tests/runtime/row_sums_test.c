// Products on tensor cores, by warps and by warpgroups, and sums over rows of them
// (compiler/lower/gpu/row_sums.c). The executor's values and gradients are the interpreter's at the
// ends of chunks and packed. So they are where the model takes chunks of one length forward and of
// another backward, in time slices, too.
//
//   row_sums_test          a third of the subjects, which the seed says
//   row_sums_test full     all
//   row_sums_test NAME     those of one recurrence
//   REC_SEED=N             the same third again
#include <stdio.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct subject {
  const char *path, *recurrence, *type, *sizes[5];
  int32_t device;  // 2: products by warpgroups
} subject;

// Keys and values that are no multiples of 16; many keys; heads that share keys.
static const subject subjects[] = {
    {"stdlib/mamba2.rec", "ssd", "bf16", {"G=1", "R=2", "P=64", "N=128"}, 2},
    {"stdlib/simple_gla.rec", "simple_gla", "f16", {"H=1", "K=64", "V=64"}, 2},
    {"stdlib/simple_gla.rec", "simple_gla", "bf16", {"H=1", "K=40", "V=36"}, 2},
    {"stdlib/linear_attention.rec", "linear_attention", "bf16", {"H=1", "K=24", "V=64"}, 0},
    {"stdlib/linear_attention.rec", "linear_attention", "f16", {"H=1", "K=64", "V=48"}, 2},
    {"stdlib/linear_attention.rec",
     "normalized_linear_attention",
     "bf16",
     {"H=1", "K=40", "V=64"},
     0},
    {"stdlib/linear_attention.rec",
     "normalized_linear_attention",
     "bf16",
     {"H=1", "K=64", "V=64"},
     2},
    {"stdlib/retnet.rec", "retnet", "f16", {"H=1", "K=48", "V=20"}, 0},
    {"stdlib/mlstm.rec", "mlstm", "bf16", {"H=1", "K=64", "V=64"}, 2},
    {"stdlib/gated_deltanet.rec", "gated_deltanet", "bf16", {"H=1", "K=64", "V=64"}, 2},
};

// Forward and backward in chunks of their own lengths (tests/schedule/gpu-lengths): 64 and 16, 64
// and 32 by warpgroups; 16 and 32.
static const subject lengths_apart[] = {
    {"stdlib/gated_deltanet.rec", "gated_deltanet", "bf16", {"H=1", "K=64", "V=64"}, 2},
    {"stdlib/gla.rec", "gla", "f16", {"H=1", "K=64", "V=128"}, 2},
    {"stdlib/mamba2.rec", "ssd", "f32", {"G=1", "R=2", "P=64", "N=128"}, 0},
    {"stdlib/mamba3.rec", "mamba3", "f32", {"H=1"}, 0},
};

static problem *packed(const rec_signature *signature) {
  static const int32_t lengths[] = {0, 1, 64, 15, 65, 0, 16};
  return problem_packed(signature, lengths, sizeof lengths / sizeof *lengths, 1);
}

// Takes the inputs.
static void run_with(const subject *s, const rec_recurrence *r, problem *inputs,
                     rec_run_options options, const char *what) {
  bool f32 = strcmp(s->type, "f32") == 0, bf16 = strcmp(s->type, "bf16") == 0;
  options.backward = true;
  options.device_number = s->device;
  problem_draw(inputs, 7, 0.7);
  problem_retype(inputs, inputs->signature);
  agree_with_reference(inputs, r, "simt", &options,
                       f32    ? (agreement){1e-4, 2e-5, 0x1p-24}
                       : bf16 ? (agreement){1e-4, 6e-2, 0x1p-8}
                              : (agreement){1e-4, 7.5e-3, 0x1p-11},
                       "%s %s %s", s->recurrence, s->type, what);
}

static void run(const subject *s, const rec_recurrence *r, problem *inputs, const char *what) {
  run_with(s, r, inputs, (rec_run_options){0}, what);
}

// Without a chunk: as the model chooses.
static rec_module *compile_subject(const subject *s, const char *chunk) {
  const char *words[24] = {"--target", s->device ? simt_90a_target() : simt_target(), "-O0",
                           "--dtype", s->type};
  int count = 5;
  if (chunk) words[count++] = "--chunk", words[count++] = chunk;
  for (int i = 0; i < 5 && s->sizes[i]; i++) words[count++] = "-D", words[count++] = s->sizes[i];
  rec_module *module = compile_file(s->path, words);
  check(module, "%s does not compile", s->path);
  return module;
}

static void run_subject(const subject *s) {
  rec_module *module = compile_subject(s, "64");
  if (!module) return;
  const rec_recurrence *r = rec_module_find(module, s->recurrence);
  static const int64_t lengths[] = {15, 64, 130};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    run(s, r, problem_new(rec_recurrence_signature(r), 1, lengths[i], 1), "chunks");
  run(s, r, packed(rec_recurrence_signature(r)), "packed");
  rec_module_close(module);
}

static void run_apart(const subject *s) {
  enum { TIME = 300 };
  rec_module *module = compile_subject(s, NULL);
  if (!module) return;
  const rec_recurrence *r = rec_module_find(module, s->recurrence);
  const rec_signature *signature = rec_recurrence_signature(r);
  run(s, r, problem_new(signature, 1, 130, 1), "two lengths");
  run(s, r, packed(signature), "two lengths, packed");
  rec_run_options slices = {.time_slices = 2};
  run_with(s, r, problem_new(signature, 1, TIME, 1), slices, "two lengths, slices");
  slices.recompute = true;
  run_with(s, r, problem_new(signature, 1, TIME, 1), slices, "two lengths, slices, nothing saved");
  rec_module_close(module);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *only = count > 1 && !full ? words[1] : NULL;
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
    if (only ? strcmp(subjects[i].recurrence, only) == 0 : full || (seed + i) % 3 == 0)
      run_subject(&subjects[i]);
  for (size_t i = 0; i < sizeof lengths_apart / sizeof *lengths_apart; i++)
    if (only ? strcmp(lengths_apart[i].recurrence, only) == 0 : full || (seed / 3 + i) % 3 == 0)
      run_apart(&lengths_apart[i]);
  return checked();
}
