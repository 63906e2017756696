// Cells that are not linear, on GPUs: the executor against the interpreter, for outputs, final
// states and all gradients. A thread block takes four sequences of a batch in one pass over time.
// It does so where the batch has more sequences than the device has multiprocessors (six here). The
// remaining sequences come one by one.
//
//   cells_gpu_test        three of nine batches for each program
//   cells_gpu_test full   all of them
//   REC_SEED=N            the draws of seed N again (a failure prints its seed); else new ones each run
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// Groups alone; groups and one, two, three sequences that are left; too few sequences for a group.
static const int64_t batches[] = {1, 3, 4, 5, 7, 8, 9, 10, 16};
enum { BATCHES = sizeof batches / sizeof *batches };

typedef struct subject {
  const rec_recurrence *recurrence;
  const char *what;
  bool narrow;
  uint64_t seed;
} subject;

static int compared;
static bool full;

static double tolerance_of(const subject *s, const problem *inputs, const problem *exact,
                           const rec_run_options *options) {
  enum { DRAWS = 16, SMALLER = 50 };
  if (s->narrow)
    return 6e-2 + SMALLER * problem_movement(inputs, exact, s->recurrence, 0x1p-8 / SMALLER,
                                             options->backward, DRAWS);
  return problem_tolerance(inputs, exact, s->recurrence, 2e-5, 1e-7, options->backward);
}

// Takes the inputs.
static bool compare(const subject *s, problem *inputs, rec_run_options options) {
  char where[256] = "";
  const rec_run_options plain = {.backward = options.backward};
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  rec_simt_options simt = {.size = sizeof simt, .seed = s->seed, .watched = true};
  bool ran = problem_run(exact, s->recurrence, "reference", &plain);
  options.simt = &simt;
  ran = ran && problem_run(got, s->recurrence, "simt", &options);
  double error = ran ? problem_compare(exact, got, options.backward, 1e-2, where, sizeof where) : 0;
  double tolerance = s->narrow ? 6e-2 : 2e-5;
  const char *how = options.step ? " token by token" : options.recompute ? " nothing saved" : "";
  if (error > tolerance) tolerance = tolerance_of(s, inputs, exact, &options);
  check(ran && error <= tolerance, "B=%d T=%d%s%s: %s: error %.2e > %.2e at %s\n%s",
        (int)inputs->batch, (int)inputs->time, how, inputs->cu_seqlens ? " packed" : "",
        ran ? "" : rec_message(), error, tolerance, where, s->what);
  compared++;
  problem_free(inputs);
  problem_free(exact);
  problem_free(got);
  return ran && error <= tolerance;
}

static problem *drawn(const subject *s, problem *p, uint64_t seed) {
  problem_draw(p, seed, 0.2);
  problem_retype(p, rec_recurrence_signature(s->recurrence));
  return p;
}

static problem *batch_of(const subject *s, int64_t batch, int64_t time) {
  problem *p = problem_new(rec_recurrence_signature(s->recurrence), batch, time, 2);
  return drawn(s, p, s->seed + (uint64_t)(100 * batch + time));
}

static problem *without_states(problem *p) {
  problem_drop_states(p);
  return p;
}

static problem *packed(const subject *s) {
  static const int32_t lengths[] = {3, 0, 33, 1, 32, 7, 9, 9};
  problem *p = problem_packed(rec_recurrence_signature(s->recurrence), lengths,
                              sizeof lengths / sizeof *lengths, 2);
  return drawn(s, p, s->seed + 1);
}

static void run_subject(const subject *s) {
  static const int64_t times[] = {1, 5, 33};
  for (int i = 0; i < BATCHES; i++) {
    if (!full && (s->seed + (uint64_t)i) % 3) continue;
    int64_t time = times[(s->seed + (uint64_t)i) % 3];
    compare(s, batch_of(s, batches[i], time),
            (rec_run_options){.backward = true, .recompute = i % 2});
  }
  compare(s, without_states(batch_of(s, 9, s->narrow ? 33 : 70)),
          (rec_run_options){.backward = true});
  compare(s, batch_of(s, 9, 3), (rec_run_options){.step = true});
  compare(s, packed(s), (rec_run_options){.backward = true});
}

// Eight sequences meet at fewer barriers than four: two thread blocks in place of four.
static void check_groups(const subject *s) {
  simt_counts counts[2] = {0};
  bool ran = true;
  for (int i = 0; i < 2; i++) {
    rec_simt_options simt = {.size = sizeof simt, .counts = &counts[i]};
    problem *p = batch_of(s, i ? 8 : 4, 33);
    ran = ran && problem_run(p, s->recurrence, "simt",
                             &(rec_run_options){.backward = true, .simt = &simt});
    problem_free(p);
  }
  check(ran && counts[1].barriers < counts[0].barriers, "%d barriers for 8 sequences, %d for 4\n%s",
        (int)counts[1].barriers, (int)counts[0].barriers, s->what);
}

// A matrix that all heads share; of each head; of states that are matrices, whose columns it turns
// all alike.
static const char blocks[] =
    "recurrence shared(H, D = 20, E = D) {\n"
    "  input x[H,D]\n  param w[D,E]\n  state h[H,D]\n  output y[H,D]\n"
    "  h = tanh(x + sum[E](w * h[t-1]{D -> E}))\n  y = h\n}\n"
    "recurrence diagonal(H = 3, D = 16, E = D) {\n"
    "  input x[H,D], g[H,D]\n  param w[H,D,E], b[H,D]\n  state h[H,D]\n  output y[H,D]\n"
    "  let u = x + 0.5 * x[t-1] + sum[E](w * h[t-1]{D -> E}) + b\n"
    "  h = sigmoid(g) * h[t-1] + sigmoid(-g) * tanh(u)\n  y = h * b\n}\n"
    "recurrence columns(K = 16, L = K, V = 6) {\n"
    "  input k[K], v[V]\n  param w[K,L]\n  state S[K,V]\n  output y[V]\n"
    "  S = tanh(sum[L](w * S[t-1]{K -> L}) + k * v)\n  y = sum[K](k * S)\n}\n";

static void run_library(rec_module *module, const char *name, bool narrow, uint64_t seed,
                        const char *what) {
  if (!check(module, "recc fails on\n%s", what)) return;
  const subject s = {rec_module_find(module, name), what, narrow, seed};
  run_subject(&s);
}

static void run_cell(const char *path, const char *name, const char *size, const char *type,
                     uint64_t seed) {
  const char *const words[] = {"--target", simt_target(), "-O0", "--dtype", type, "-D", size, NULL};
  rec_module *module = compile_file(path, words);
  run_library(module, name, strcmp(type, "f32") != 0, seed, path);
  if (module) check_groups(&(subject){rec_module_find(module, name), path, false, seed});
  rec_module_close(module);
}

static void run_blocks(const char *type, uint64_t seed) {
  static const char *const names[] = {"shared", "diagonal", "columns"};
  const char *const words[] = {"--target", simt_target(), "-O0", "--dtype", type, NULL};
  rec_module *module = compile_text(blocks, words);
  for (int i = 0; i < 3; i++)
    run_library(module, names[i], strcmp(type, "f32") != 0, seed, names[i]);
  rec_module_close(module);
}

int main(int count, char **words) {
  full = count > 1 && strcmp(words[1], "full") == 0;
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  run_cell(REC_SOURCE_DIR "/stdlib/lstm.rec", "lstm", "D=16", "f32", seed);
  run_cell(REC_SOURCE_DIR "/stdlib/lstm.rec", "lstm", "D=16", "bf16", seed);
  run_cell(REC_SOURCE_DIR "/stdlib/gru.rec", "gru", "D=24", "f32", seed);
  run_blocks("f32", seed);
  run_blocks("bf16", seed);
  printf("%d comparisons\n", compared);
  return checked();
}
