// Matrices of parameters times vectors on tensor cores (compiler/lower/gpu/matrix_mma.c): whole
// matrices in registers, in shared memory or in scratch, one vector or four, warps that share a
// sum, heads with matrices of their own. The plan says which; the executor's values and gradients
// are the interpreter's. A state has 32 bits in such a product: forward's error is far below that
// of bf16. 20 s.
#include <stdio.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// Rows of 80 numbers along two axes, of which the last has an odd size.
static const char odd[] =
    "recurrence odd(G = 8, A = 16, B = 5, C = A, E = B) {\n  input x[G,A,B]\n  param "
    "w[G,A,B,C,E]\n  state h[A,B]\n  output y[A,B]\n"
    "  h = 0.1 * sum[G](tanh(x + sum[C,E](w * h[t-1]{A -> C, B -> E})))\n  y = h\n}\n";

// Two matrices side by side, whose copies fill more than shared memory.
static const char parts[] =
    "recurrence parts(D = 256, E = D, Z = 2) {\n  input x[D]\n  param w[D,E,Z]\n  state h[D]\n  "
    "output y[D]\n"
    "  h = 0.1 * tanh(x + sum[E](w[Z = 0] * h[t-1]{D -> E}) - sum[E](w[Z = 1] * h[t-1]{D -> E}))\n "
    " y = h\n}\n";

// `plan`: what the nest of the product says, in one of the kernels.
static const struct {
  const char *file, *name, *heads, *size, *plan;
} shapes[] = {
    {"stdlib/gru.rec", "gru", NULL, "D=16", "a matrix by a vector, for each [G 3]"},
    {"stdlib/gru.rec", "gru", NULL, "D=64",
     "a matrix by a vector, mma from registers, 4 warps for each sum"},
    {"stdlib/lstm.rec", "lstm", NULL, "D=32", "a matrix by 4 vectors, mma from registers"},
    {"stdlib/lstm.rec", "lstm", NULL, "D=64",
     "a matrix by 4 vectors, mma from registers, 2 warps for each sum"},
    {"stdlib/lstm.rec", "lstm", NULL, "D=128", "a matrix by a vector, mma, weight_hh from"},
    {"tests/invented/slstm.rec", "slstm", "H=2", "D=32", "mma"},
    {"tools/bench/dense/blocks.rec", "blocks", "H=2", "D=64", "mma"},
    {"tools/bench/dense/blocks.rec", "blocks", "H=1", "D=128", "mma"},
};

static bool is_planned(int shape) {
  char command[512], line[4096];
  const char *heads = shapes[shape].heads ? shapes[shape].heads : shapes[shape].size;
  bool found = false;
  snprintf(command, sizeof command,
           REC_BINARY_DIR
           "/bin/recc " REC_SOURCE_DIR
           "/%s --target sm_90a --shared-memory 200 --dtype bf16 -D %s -D %s --emit=plan",
           shapes[shape].file, heads, shapes[shape].size);
  FILE *plan = popen(command, "r");
  while (plan && fgets(line, sizeof line, plan))
    found = found || (strstr(line, " product ") && strstr(line, "a matrix by") &&
                      strstr(line, shapes[shape].plan));
  return plan && !pclose(plan) && found;
}

// Parameters of 16 bits, as the copy has them, so small that no state grows.
static void draw(problem *p) {
  problem_draw(p, 11, 0.3);
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (p->signature->variables[i].kind != REC_PARAM || !p->value[i]) continue;
    for (int64_t k = 0; k < problem_numbers(p, i); k++) {
      float small = (float)p->value[i][k] / 8;
      uint32_t bits;
      memcpy(&bits, &small, sizeof bits);
      bits &= 0xffff0000u;
      memcpy(&small, &bits, sizeof bits);
      p->value[i][k] = small;
    }
  }
  problem_retype(p, p->signature);
}

static void compare(const rec_recurrence *r, int64_t batch, bool backward, const char *what) {
  problem *inputs = problem_new(rec_recurrence_signature(r), batch, 19, 2);
  draw(inputs);
  agree_with_reference(inputs, r, "simt", &(rec_run_options){.backward = backward},
                       (agreement){1e-4, backward ? 5e-2 : 5e-5, 0}, "%s, batch %d", what,
                       (int)batch);
}

static void compare_batches(rec_module *module, const char *name, const char *what) {
  static const int64_t batches[] = {1, 4, 6};
  if (!check(module, "%s: does not compile", what)) return;
  for (int k = 0; k < (int)(sizeof batches / sizeof *batches); k++)
    for (int backward = 0; backward < 2; backward++)
      compare(rec_module_find(module, name), batches[k], backward, what);
  rec_module_close(module);
}

int main(void) {
  for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
    char what[64];
    const char *heads = shapes[i].heads ? shapes[i].heads : shapes[i].size;
    const char *const options[] = {"--target", simt_target(), "-O0",          "--shared-memory",
                                   "200",      "--dtype",     "bf16",         "-D",
                                   heads,      "-D",          shapes[i].size, NULL};
    snprintf(what, sizeof what, "%s %s", shapes[i].name, shapes[i].size);
    check(is_planned(i), "%s: no product '%s'", what, shapes[i].plan);
    compare_batches(compile_file(shapes[i].file, options), shapes[i].name, what);
  }
  const char *const options[] = {"--target", simt_target(), "-O0", "--dtype", "bf16", NULL};
  compare_batches(compile_text(odd, options), "odd", "odd");
  compare_batches(compile_text(parts, options), "parts", "parts");
  return checked();
}
