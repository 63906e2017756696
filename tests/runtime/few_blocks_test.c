// Calls with few instances run the kernel whose blocks have fewer columns of the states, calls with many the usual one. Both
// agree with the interpreter. (The executor has six multiprocessors.)
#include <stdio.h>
#include <string.h>

#include "runtime/support/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

static const char program[] =
    "recurrence memory(H, K = 64, V = 64) {\n"
    "  input q[H,K], k[H,K], v[H,V], g[H]\n"
    "  state S[H,K,V]\n"
    "  output y[H,V]\n"
    "  S = sigmoid(g) * S[t-1] + k * v\n"
    "  y = sum[K](q * S)\n"
    "}\n";

enum { TIME = 70, FEW = 1, MANY = 40 };

static bool few, usual;

static void note_kernel(void *context, const char *kernel, const char *tensor, int64_t read, int64_t written) {
  (void)context, (void)tensor, (void)read, (void)written;
  few = few || strstr(kernel, "_forward_few");
  usual = usual || !strstr(kernel, "_forward_few");
}

static void run(const rec_recurrence *r, int64_t instances, const char *what) {
  rec_simt_options simt = {.size = sizeof simt, .report = note_kernel};
  simt_counts counts = {0};
  simt.counts = &counts;
  rec_run_options options = {.simt = &simt};
  problem *exact = problem_new(rec_recurrence_signature(r), 1, TIME, instances);
  problem_draw(exact, 7, 0.3);
  problem *got = problem_copy(exact);
  few = usual = false;
  char where[256];
  bool ran = problem_run(exact, r, "reference", &(rec_run_options){0}) && problem_run(got, r, "simt", &options);
  check(ran, "%s: %s", what, rec_message());
  double error = problem_compare(exact, got, false, 1e-2, where, sizeof where);
  check(error < 1e-4, "%s: error %.1e at %s", what, error, where);
  check(few == (instances == FEW) && usual == (instances != FEW), "%s: not the kernel for so many instances", what);
  problem_free(exact);
  problem_free(got);
}

int main(void) {
  const char *const options[] = {"--target", simt_target(), "-O0", "--dtype", "f32", NULL};
  rec_module *module = compile_text(program, options);
  if (!check(module, "the program does not compile")) return checked();
  const rec_recurrence *r = rec_module_find(module, "memory");
  run(r, FEW, "few");
  run(r, MANY, "many");
  rec_module_close(module);
  return checked();
}
