// Uses a library of two number types and two sizes of K: every entry point against plain loops,
// what picks among them, and its messages. An argument: the device, rec_launch.device_kind.
#include "variants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 19, H = 3, MOST_KEYS = 8, BYTES = 1 << 20 };

static int failures, device;
static void *workspace;

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%s)\n", what, rec_error());
  failures++;
}

static rec_launch launch_on_device(void) {
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .device_kind = device,
                       .workspace = workspace,
                       .workspace_bytes = BYTES};
  return launch;
}

static double query(int i) { return (i * 7 % 11 - 5) / 8.0; }
static double value(int i) { return (i * 5 % 13 - 6) / 8.0; }

// y of head h of batch entry b at step t.
static double wanted(int keys, int b, int t, int h) {
  double y = 0;
  for (int k = 0; k < keys; k++) {
    double s = 0;
    for (int step = 0; step <= t; step++) {
      int token = (b * T + step) * H + h;
      s = 0.5 * s + query(token * keys + k) * value(token);
    }
    y += query(((b * T + t) * H + h) * keys + k) * s;
  }
  return y;
}

typedef int forward_f32(const keys_f32_arguments *, const rec_launch *);
typedef int forward_f64(const keys_f64_arguments *, const rec_launch *);

static void check_f32(forward_f32 *forward, int keys, const char *what) {
  static float q[B * T * H * MOST_KEYS], v[B * T * H], y[B * T * H];
  for (int i = 0; i < B * T * H * keys; i++) q[i] = (float)query(i);
  for (int i = 0; i < B * T * H; i++) v[i] = (float)value(i);
  memset(y, 0, sizeof y);
  keys_f32_arguments f = {
      .size = sizeof f, .batch = B, .time = T, .H = H, .K = keys, .q = q, .v = v, .y = y};
  rec_launch launch = launch_on_device();
  expect(forward(&f, &launch) == REC_OK, what);
  double worst = 0;
  for (int i = 0; i < B * T * H; i++)
    worst = fmax(worst, fabs(y[i] - wanted(keys, i / H / T, i / H % T, i % H)));
  expect(worst < 1e-5, what);
}

static void check_f64(forward_f64 *forward, int keys, const char *what) {
  static double q[B * T * H * MOST_KEYS], v[B * T * H], y[B * T * H];
  if (device != REC_DEVICE_HOST) return;
  for (int i = 0; i < B * T * H * keys; i++) q[i] = query(i);
  for (int i = 0; i < B * T * H; i++) v[i] = value(i);
  keys_f64_arguments f = {
      .size = sizeof f, .batch = B, .time = T, .H = H, .K = keys, .q = q, .v = v, .y = y};
  rec_launch launch = launch_on_device();
  expect(forward(&f, &launch) == REC_OK, what);
  double worst = 0;
  for (int i = 0; i < B * T * H; i++)
    worst = fmax(worst, fabs(y[i] - wanted(keys, i / H / T, i / H % T, i % H)));
  expect(worst < 1e-13, what);
}

static void check_message(int keys, const char *message) {
  keys_arguments f = {.size = sizeof f, .batch = B, .time = T, .H = H, .K = keys};
  rec_sizes sizes = {.size = sizeof sizes};
  expect(keys_sizes(&f, &sizes) == REC_ERROR_UNSUPPORTED, "a size that is not there");
  expect(strcmp(rec_error(), message) == 0, message);
}

// A gradient of q by backward through what picks: by the last step's entry of y alone it is S + q *
// v there.
static void check_backward(int keys) {
  static float q[MOST_KEYS], v[1] = {0.5f}, d_y[1] = {1}, d_q[MOST_KEYS], d_v[1];
  for (int k = 0; k < keys; k++) q[k] = (float)query(k);
  keys_arguments f = {.size = sizeof f, .batch = 1, .time = 1, .H = 1, .K = keys};
  f.q = q, f.v = v, f.d_y = d_y, f.d_q = d_q, f.d_v = d_v;
  rec_launch launch = launch_on_device();
  expect(keys_backward(&f, &launch) == REC_OK, "backward");
  int right = 1;
  for (int k = 0; k < keys; k++) right &= d_q[k] == 2 * q[k] * v[0];
  expect(right, "gradients");
}

int main(int argc, char **argv) {
  device = argc > 1 ? atoi(argv[1]) : REC_DEVICE_HOST;
  workspace = aligned_alloc(REC_ALIGNMENT, BYTES);
  check_f32(keys_f32_K4_forward, 4, "a variant");
  check_f32(keys_f32_K8_forward, 8, "another variant");
  check_f32(keys_f32_forward, 4, "the first size");
  check_f32(keys_f32_forward, 8, "the second size");
  check_f32(keys_forward, 8, "the first type under the plain name");
  check_f64(keys_f64_forward, 4, "f64");
  check_f64(keys_f64_K8_forward, 8, "a variant in f64");
  check_backward(4);
  check_backward(8);
  check_message(6,
                "keys_f32_sizes: expected K of 4 or 8, found 6; recc variants.rec --dtype f32,f64 "
                "-D K=4,8,6 adds it");
  check_message(0, "keys_f32_sizes: expected K of 4 or 8, found 0");
  expect(keys_forward(NULL, NULL) == REC_ERROR_ARGUMENT, "no arguments");
  expect(strcmp(rec_error(), "keys_f32_K4_forward: expected arguments, found NULL") == 0,
         "its message");
  float x[2] = {1, 2}, y[2];
  sums_arguments sums = {.size = sizeof sums, .batch = 1, .time = 2, .D = 1, .x = x, .y = y};
  rec_launch launch = launch_on_device();
  expect(sums_forward(&sums, &launch) == REC_OK && y[1] == 3, "a recurrence without that axis");
  free(workspace);
  return failures != 0;
}
