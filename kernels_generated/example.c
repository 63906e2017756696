/* Launches the forward kernel of gla.sm_80.ptx through the Driver API and compares it with a loop.
 *
 *   cc -O2 kernels_generated/example.c -I/usr/local/cuda/include -lcuda -lm -o example && ./example kernels_generated/gla.sm_80.ptx
 */
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gla.h"

enum { ENTRIES = 2, TIME = 200, H = 3, K = 64, V = 128 };

static void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  const char *text = NULL;
  cuGetErrorString(result, &text);
  fprintf(stderr, "%s: %s\n", call, text ? text : "an unknown error");
  exit(1);
}
#define CHECK(call) check(call, #call)

static float from_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 20);
  if (!file || !text || fread(text, 1, (1 << 20) - 1, file) == 0) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fclose(file);
  return text;
}

/* Numbers around 0 as bf16, the same on the device. */
static CUdeviceptr random_tensor(uint16_t *numbers, size_t count) {
  static uint32_t seed = 1;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    numbers[i] = (uint16_t)((seed >> 31) << 15 | (0x3d00 + (seed >> 8) % 0x180));
  }
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 2 * count));
  CHECK(cuMemcpyHtoD(memory, numbers, 2 * count));
  return memory;
}

/* A tensor [ENTRIES, TIME, H, numbers] in the kernel's parameter. */
static rec_gpu_slot slot(CUdeviceptr memory, int numbers) {
  return (rec_gpu_slot){.data = (void *)(uintptr_t)memory,
                        .batch_stride = (int64_t)TIME * H * numbers,
                        .time_stride = H * numbers};
}

static uint16_t q[ENTRIES][TIME][H][K], k[ENTRIES][TIME][H][K], gate[ENTRIES][TIME][H][K],
    v[ENTRIES][TIME][H][V], y[ENTRIES][TIME][H][V];

static void launch(CUfunction function, CUdeviceptr at_y) {
  gla_forward_parameter parameter = {
      .frame = {.entries = ENTRIES, .time = TIME, .slices = 1, .slice_steps = TIME},
      .H = H,
      .K = K,
      .V = V,
      .q = slot(random_tensor(q[0][0][0], sizeof q / 2), K),
      .k = slot(random_tensor(k[0][0][0], sizeof k / 2), K),
      .v = slot(random_tensor(v[0][0][0], sizeof v / 2), V),
      .gate = slot(random_tensor(gate[0][0][0], sizeof gate / 2), K),
      .y = slot(at_y, V)}; /* h0_S absent: from zero; hT_S absent: not wanted */
  int64_t blocks = gla_forward_items(&parameter), scratch = gla_forward_scratch_bytes(&parameter);
  parameter.frame.blocks = blocks;
  if (scratch) {
    CUdeviceptr memory;
    scratch = (scratch + 255) / 256 * 256;
    CHECK(cuMemAlloc(&memory, (size_t)(blocks * scratch)));
    parameter.frame.scratch = (void *)(uintptr_t)memory;
    parameter.frame.scratch_stride = scratch;
  }
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           GLA_FORWARD_SHARED_BYTES));
  CHECK(cuLaunchKernel(function, (unsigned)blocks, 1, 1, GLA_FORWARD_THREADS, 1, 1,
                       GLA_FORWARD_SHARED_BYTES, NULL, (void *[]){&parameter}, NULL));
  CHECK(cuCtxSynchronize());
}

/* The largest difference from a loop over the steps, against the largest result. */
static double error_of_head(int entry, int head) {
  static double state[K][V];
  double error = 0, largest = 0;
  memset(state, 0, sizeof state);
  for (int t = 0; t < TIME; t++) {
    double expected[V] = {0};
    for (int i = 0; i < K; i++) {
      double decay = pow(1 / (1 + exp(-from_bf16(gate[entry][t][head][i]))), 1 / 16.0);
      for (int j = 0; j < V; j++) {
        state[i][j] = decay * state[i][j] +
                      (double)from_bf16(k[entry][t][head][i]) * from_bf16(v[entry][t][head][j]);
        expected[j] += from_bf16(q[entry][t][head][i]) * state[i][j] / sqrt(K);
      }
    }
    for (int j = 0; j < V; j++) {
      error = fmax(error, fabs(from_bf16(y[entry][t][head][j]) - expected[j]));
      largest = fmax(largest, fabs(expected[j]));
    }
  }
  return error / largest;
}

int main(int count, char **arguments) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUdeviceptr at_y;
  double error = 0;
  char *code = read_text(count > 1 ? arguments[1] : "gla.sm_80.ptx");
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxPushCurrent(context));
  CHECK(cuModuleLoadDataEx(&module, code, 0, NULL, NULL));
  CHECK(cuModuleGetFunction(&function, module, GLA_FORWARD_SYMBOL));
  CHECK(cuMemAlloc(&at_y, sizeof y));
  launch(function, at_y);
  CHECK(cuMemcpyDtoH(y, at_y, sizeof y));
  for (int entry = 0; entry < ENTRIES; entry++)
    for (int head = 0; head < H; head++) error = fmax(error, error_of_head(entry, head));
  free(code);
  printf("gla forward: at most %.1e from a loop, relative to the largest number\n", error);
  return error < 2e-2 ? 0 : 1;
}
