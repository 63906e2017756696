// One program, C or C++, on three libraries: two with the same recurrences behind prefixes of their
// own, one without a prefix.
#include "one.h"
#include "other.h"
#include "smooth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%s, %s, %s)\n", what, one_rec_error(), other_rec_error(), rec_error());
  failures++;
}

static rec_launch launch_with(void *workspace, int64_t bytes) {
  rec_launch launch;
  memset(&launch, 0, sizeof launch);
  launch.size = sizeof launch;
  launch.abi_major = REC_ABI_MAJOR;
  launch.workspace = workspace;
  launch.workspace_bytes = bytes;
  return launch;
}

int main(void) {
  enum { BYTES = 1 << 16 };
  void *workspace = aligned_alloc(REC_ALIGNMENT, BYTES);
  rec_launch launch = launch_with(workspace, BYTES);

  float x[3] = {1, 2, 4}, gate[3] = {0.5f, 0.5f, 0.5f}, y[3];
  one_leaky_arguments one;
  memset(&one, 0, sizeof one);
  one.size = sizeof one, one.batch = 1, one.time = 3, one.D = 1;
  one.x = x, one.double_ = gate, one.y = y;
  expect(one_leaky_forward(&one, &launch) == REC_OK && y[2] == 5.25f, "the first library");

  double wide_x[3] = {1, 2, 4}, wide_gate[3] = {0.5, 0.5, 0.5}, wide_y[3];
  other_leaky_arguments other;
  memset(&other, 0, sizeof other);
  other.size = sizeof other, other.batch = 1, other.time = 3, other.D = 1;
  other.x = wide_x, other.double_ = wide_gate, other.y = wide_y;
  expect(other_leaky_forward(&other, &launch) == REC_OK && wide_y[2] == 5.25,
         "the second library, in f64");

  float z[3] = {0, 0, 0}, bias = 0;
  smooth_arguments smooth;
  memset(&smooth, 0, sizeof smooth);
  smooth.size = sizeof smooth, smooth.batch = 1, smooth.time = 3, smooth.D = 1;
  smooth.x = x, smooth.z = z, smooth.bias = &bias, smooth.y = y;
  expect(smooth_forward(&smooth, &launch) == REC_OK && y[2] == 2.625f, "the third library");

  expect(one_leaky_forward(NULL, &launch) == REC_ERROR_ARGUMENT &&
             other_gru_forward(NULL, &launch) == REC_ERROR_ARGUMENT,
         "mistakes");
  expect(strcmp(one_rec_error(), "one_leaky_forward: expected arguments, found NULL") == 0,
         "a message of the first library");
  expect(strcmp(other_rec_error(), "other_gru_forward: expected arguments, found NULL") == 0,
         "one of the second library");
  expect(strcmp(rec_error(), "") == 0, "none of the third");
  expect(strstr(one_rec_manifest, "\"prefix\":\"one_\"") &&
             strstr(other_rec_manifest, "\"symbol\":\"other_gru\"") &&
             strstr(rec_manifest, "\"prefix\":\"\""),
         "a manifest for each");
  free(workspace);
  return failures != 0;
}
