// Two libraries in one process, linked and opened: each answers for itself, and rec_error() for
// either.
#include "two.h"
#include "decay.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%s)\n", what, rec_error());
  failures++;
}

// A recurrence without states is cut along time: its parameter's gradient is a sum over all parts.
static void check_parts(void) {
  enum { B = 2, T = 300, D = 2, E = 6, F = 4 };
  static float x[B * T * D], y[B * T * E], z[B * T * F], w[E], o[B * T * D * E * F],
      d_o[B * T * D * E * F], d_w[E];
  static double wanted[E];
  for (int i = 0; i < B * T * D; i++) x[i] = (float)(i % 7) - 3;
  for (int i = 0; i < B * T * E; i++) y[i] = (float)(i % 5) - 2;
  for (int i = 0; i < B * T * F; i++) z[i] = (float)(i % 3) - 1;
  for (int i = 0; i < E; i++) w[i] = (float)i;
  for (int i = 0; i < B * T * D * E * F; i++) d_o[i] = (float)(i % 11) - 5;
  spread_arguments f = {.size = sizeof f, .batch = B, .time = T, .D = D};
  f.x = x, f.y = y, f.z = z, f.w = w, f.o = o, f.d_o = d_o, f.d_w = d_w;
  rec_sizes sizes = {.size = sizeof sizes};
  expect(spread_sizes(&f, &sizes) == REC_OK, "sizes");
  static _Alignas(REC_ALIGNMENT) char workspace[1 << 20];
  expect(sizes.workspace <= (int64_t)sizeof workspace && sizes.saved == 0,
         "workspace without states");
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .threads = 2,
                       .workspace = workspace,
                       .workspace_bytes = sizeof workspace};
  expect(spread_forward(&f, &launch) == REC_OK && spread_backward(&f, &launch) == REC_OK,
         "forward and backward");
  int right = 1;
  for (int i = 0; i < B * T * D * E * F; i++) {
    int step = i / (D * E * F), d = i / (E * F) % D, e = i / F % E;
    double product = (double)x[step * D + d] * y[step * E + e] * z[step * F + i % F];
    right &= o[i] == (float)(w[e] * product);
    wanted[e] += d_o[i] * product;
  }
  expect(right, "values of all parts");
  for (int e = 0; e < E; e++)
    expect(d_w[e] == (float)wanted[e], "gradient of a parameter over all parts");
}

int main(int argc, char **argv) {
  (void)argc;
  float x[3] = {1, 2, 4}, gate[3] = {0.5f, 0.5f, 0.5f}, y[3];
  leaky_arguments f = {.size = sizeof f, .batch = 1, .time = 3, .D = 1};
  f.x = x, f.double_ = gate, f.y = y;
  rec_sizes sizes = {.size = sizeof sizes};
  expect(leaky_sizes(&f, &sizes) == REC_OK, "sizes");
  static _Alignas(REC_ALIGNMENT) char workspace[1 << 20];
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .workspace = workspace,
                       .workspace_bytes = sizeof workspace};
  expect(sizes.workspace <= (int64_t)sizeof workspace, "workspace of a small problem");
  expect(leaky_forward(&f, &launch) == REC_OK, "forward of the second library");
  expect(fabsf(y[0] - 1) + fabsf(y[1] - 2.5f) + fabsf(y[2] - 5.25f) < 1e-6f, "its values");
  expect(decay_forward(NULL, &launch) == REC_ERROR_ARGUMENT, "an error of the first library");
  expect(strcmp(rec_error(), "decay_forward: expected arguments, found NULL") == 0, "its message");
  expect(gru_forward(NULL, &launch) == REC_ERROR_ARGUMENT, "an error of the second library");
  expect(strcmp(rec_error(), "gru_forward: expected arguments, found NULL") == 0, "its message");

  spread_arguments computed = {.size = sizeof computed, .batch = 1, .time = 1, .D = 2, .E = 7};
  expect(spread_sizes(&computed, &sizes) == REC_ERROR_ARGUMENT,
         "a size that is not the computed one");
  expect(strcmp(rec_error(), "spread_sizes: expected E = 2 * max(D, 3) = 6, found 7") == 0,
         "its message");
  computed.E = 6, computed.F = 0;
  expect(spread_sizes(&computed, &sizes) == REC_OK, "sizes computed from others");
  computed.D = 9, computed.E = computed.F = 0;
  expect(spread_sizes(&computed, &sizes) == REC_OK, "sizes computed from others");
  computed.F = 9;
  expect(spread_sizes(&computed, &sizes) == REC_OK, "a size that is the computed one");

  check_parts();

  // The same file opened, as the rec command does.
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  expect(library != NULL, "dlopen");
  if (!library) return 1;
  const char *manifest = dlsym(library, "rec_manifest");
  expect(manifest && strstr(manifest, "\"name\":\"leaky\"") && strstr(manifest, "\"name\":\"gru\""),
         "manifest");
  expect(dlsym(library, "gru_backward") != NULL, "an entry point");
  expect(dlsym(library, "rec_forward_entry") == NULL, "what is inside stays inside");
  dlclose(library);
  return failures != 0;
}
