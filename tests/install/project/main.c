// Prints the last running sums, and what librec says about the two libraries.
#include <stdio.h>
#include <stdlib.h>

#include "alone.h"
#include "averages.h"
#include "sums.h"
#ifdef HAS_LIBREC
#include "rec/rec.h"

static int show(const char *path) {
  rec_module *module;
  if (rec_module_open(path, &module)) return puts(rec_message()), 1;
  for (int i = 0; i < rec_module_count(module); i++) {
    const rec_signature *s = rec_recurrence_signature(rec_module_recurrence(module, i));
    printf("%s: %d axes, %d variables of %s\n", s->name, s->axis_count, s->variable_count,
           rec_dtype_name(s->token_type));
  }
  rec_module_close(module);
  return 0;
}
#else
static int show(const char *path) { return puts(path), 1; }
#endif

// The same from the static library, of whose names the prefix makes others.
static double last_of_static(double *x, double *y, rec_launch launch) {
  alone_sums_arguments a = {.size = sizeof a, .batch = 1, .time = 4, .x = x, .y = y};
  return alone_sums_forward(&a, &launch) ? -1 : y[9];
}

int main(int count, char **words) {
  double x[4][3] = {{1, 2, 3}, {1, 1, 1}, {0, 1, 0}, {5, 0, 0}}, y[4][3];
  sums_arguments a = {.size = sizeof a, .batch = 1, .time = 4, .x = x[0], .y = y[0]};
  rec_launch launch = {
      .size = sizeof launch, .abi_major = REC_ABI_MAJOR, .abi_minor = REC_ABI_MINOR};
  rec_sizes sizes = {.size = sizeof sizes};
  if (sums_sizes(&a, &sizes)) return puts(rec_error()), 1;
  launch.workspace_bytes = sizes.workspace;
  launch.workspace =
      aligned_alloc(REC_ALIGNMENT, ((size_t)sizes.workspace / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  if (sums_forward(&a, &launch)) return puts(rec_error()), 1;
  printf("%g %g %g\n", y[3][0], y[3][1], y[3][2]);
  int status = last_of_static(x[0], y[0], launch) != y[3][0];
  free(launch.workspace);
  for (int i = 1; i < count; i++) status |= show(words[i]);
  mingru_arguments other = {.size = sizeof other, .batch = 1, .time = 4, .D = 8};
  return status || mingru_sizes(&other, &sizes);
}
