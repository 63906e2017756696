// Calls with few instances run kernels whose blocks have a multiprocessor to themselves, or fewer
// columns of the states. Calls with many instances run the usual ones. Both forms of forward and of
// backward agree with the interpreter, for batch entries, packed sequences and time slices. (The
// executor has six multiprocessors.)
#include <stdio.h>
#include <string.h>

#include "compiler/abi/library.h"
#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// A delta rule. The gradient of `scale` is a sum over all tiles of the columns; `z` has no columns,
// and is counted once.
static const char program[] =
    "recurrence memory(H, K = 128, V = 64) {\n"
    "  input q[H,K], k[H,K], v[H,V], g[H], b[H]\n"
    "  param scale[H,K] ~ 1\n"
    "  state S[H,K,V]\n"
    "  output y[H,V], z[H]\n"
    "  let keep = sigmoid(g)\n"
    "  let read = sum[K](0.3 * k * keep * S[t-1])\n"
    "  S = keep * S[t-1] + 0.3 * k * sigmoid(b) * (v - read)\n"
    "  y = sum[K](q * scale * S)\n"
    "  z = sum[K](q * scale * k)\n"
    "}\n";

enum { TIME = 140, FEW = 1, MANY = 13 };

// Which forms of forward and of backward have run.
typedef struct forms {
  bool few[2], usual[2];
} forms;

static void note_kernel(void *context, const char *kernel, const char *tensor, int64_t read,
                        int64_t written) {
  forms *ran = context;
  (void)tensor, (void)read, (void)written;
  if (strstr(kernel, "_part")) return;
  for (int back = 0; back < 2; back++) {
    const char *kind = strstr(kernel, back ? "_backward" : "_forward");
    if (kind) *(strstr(kind, "_few") ? &ran->few[back] : &ran->usual[back]) = true;
  }
}

static void run(const rec_recurrence *r, const problem *inputs, rec_run_options options, bool few,
                const char *what) {
  forms ran = {.few = {false}, .usual = {false}};
  simt_counts counts = {0};
  rec_simt_options simt = {
      .size = sizeof simt, .report = note_kernel, .context = &ran, .counts = &counts};
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  char where[256] = "";
  options.backward = true;
  options.simt = &simt;
  bool done = problem_run(exact, r, "reference", &(rec_run_options){.backward = true}) &&
              problem_run(got, r, "simt", &options);
  check(done, "%s: %s", what, rec_message());
  double error = done ? problem_compare(exact, got, true, 1e-2, where, sizeof where) : 0;
  check(error < 1e-4, "%s: error %.1e at %s", what, error, where);
  for (int back = 0; back < 2; back++)
    check(ran.few[back] == few && ran.usual[back] == !few,
          "%s: %s is not the kernel for so many instances", what, back ? "backward" : "forward");
  problem_free(exact);
  problem_free(got);
}

// Each form, whatever the number of instances.
static void run_forms(const rec_recurrence *r, const problem *inputs, const char *what) {
  char text[64];
  for (int form = 0; form < 2; form++) {
    rec_run_options options = {.device_number = form ? REC_SIMT_FEW : REC_SIMT_USUAL};
    for (options.time_slices = 1; options.time_slices <= 2; options.time_slices++) {
      snprintf(text, sizeof text, "%s, form %d, %d time slices", what, form,
               (int)options.time_slices);
      run(r, inputs, options, form, text);
    }
  }
}

int main(void) {
  static const int32_t lengths[] = {0, 130, 40};
  const char *const options[] = {"--target", simt_target(), "-O0", "--dtype", "f32", NULL};
  rec_module *module = compile_text(program, options);
  if (!check(module, "the program does not compile")) return checked();
  const rec_recurrence *r = rec_module_find(module, "memory");
  const rec_signature *s = rec_recurrence_signature(r);
  problem *few = problem_new(s, 1, TIME, FEW), *many = problem_new(s, 1, TIME, MANY),
          *packed = problem_packed(s, lengths, 3, FEW);
  problem_draw(few, 7, 0.3);
  problem_draw(many, 8, 0.3);
  problem_draw(packed, 9, 0.3);
  run(r, few, (rec_run_options){.time_slices = 1}, true, "few");
  run(r, many, (rec_run_options){.time_slices = 1}, false, "many");
  run_forms(r, few, "a batch");
  run_forms(r, packed, "packed");
  problem_free(few);
  problem_free(many);
  problem_free(packed);
  rec_module_close(module);
  return checked();
}
