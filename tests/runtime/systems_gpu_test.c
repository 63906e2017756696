// Triangular systems on a GPU: lanes of a warp that share a column, with one block of four rows
// each or with several, and columns of one thread (compiler/lower/gpu/solve.c). The plan says how
// many lanes there are; the executor's values and gradients are the interpreter's, in sequences of
// few steps and with ends inside a block of rows.
#include <stdio.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

#define PROGRAM REC_SOURCE_DIR "/stdlib/deltanet.rec"

// Steps of a chunk, columns, and lanes of a column in one of the kernels.
static const struct {
  const char *chunk, *columns;
  int lanes;
} shapes[] = {{"16", "V=16", 4},  {"16", "V=1", 4},   {"16", "V=128", 1}, {"32", "V=16", 8},
              {"32", "V=5", 8},   {"64", "V=8", 16},  {"64", "V=32", 8},  {"64", "V=64", 4},
              {"128", "V=4", 32}, {"128", "V=12", 16}};

static bool has_lanes(const char *chunk, const char *columns, int lanes) {
  char command[512], line[4096], expected[64];
  bool found = false;
  snprintf(command, sizeof command,
           REC_BINARY_DIR
           "/bin/recc " PROGRAM
           " --target sm_80 --dtype f32 --form chunk --chunk %s -D K=16 -D %s --emit=plan",
           chunk, columns);
  snprintf(expected, sizeof expected, ", %d lanes for each column:", lanes);
  FILE *plan = popen(command, "r");
  while (plan && fgets(line, sizeof line, plan)) {
    if (!strstr(line, " solve [")) continue;
    found =
        found || strstr(line, expected) || (lanes == 1 && !strstr(line, " lanes for each column:"));
  }
  return plan && !pclose(plan) && found;
}

static void compare(const rec_recurrence *r, int64_t time, const char *what) {
  problem *inputs = problem_new(rec_recurrence_signature(r), 1, time, 2);
  problem_draw(inputs, 11, 0.7);
  rec_simt_options simt = {.size = sizeof simt};
  agree_with_reference(inputs, r, "simt", &(rec_run_options){.backward = true, .simt = &simt},
                       (agreement){1e-4, 3e-5, 0}, "%s, %d steps", what, (int)time);
}

int main(void) {
  static const int64_t lengths[] = {1, 3, 6, 37, 139};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char what[64];
    const char *chunk = shapes[i].chunk, *columns = shapes[i].columns;
    const char *const options[] = {"--target", simt_target(), "-O0",     "--dtype", "f32",
                                   "--form",   "chunk",       "--chunk", chunk,     "-D",
                                   "K=16",     "-D",          columns,   NULL};
    snprintf(what, sizeof what, "chunks of %s, %s", chunk, columns);
    check(has_lanes(chunk, columns, shapes[i].lanes), "%s: no system with %d lanes for each column",
          what, shapes[i].lanes);
    rec_module *module = compile_file(PROGRAM, options);
    if (!check(module, "%s: does not compile", what)) continue;
    const rec_recurrence *r = rec_module_find(module, "deltanet");
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) compare(r, lengths[k], what);
    rec_module_close(module);
  }
  return checked();
}
