/* Launches the forward kernel of retnet.sm_80.ptx, or of retnet.sm_90a.ptx, through the Driver API and compares it with a loop.
 *
 *   cc -O2 kernels_generated/example.c -I/usr/local/cuda/include -lcuda -lm -o example && ./example kernels_generated/retnet.sm_80.ptx
 */
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retnet.h"

enum { ENTRIES = 2, TIME = 200, H = 3, K = 64, V = 64 };

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
  return (rec_gpu_slot){
      .data = (void *)(uintptr_t)memory, .batch_stride = (int64_t)TIME * H * numbers, .time_stride = H * numbers};
}

static uint16_t q[ENTRIES][TIME][H][K], k[ENTRIES][TIME][H][K], v[ENTRIES][TIME][H][V], y[ENTRIES][TIME][H][V];

/* Rows of whole chunks of such a tensor come in bulk then, as the header says of its maps. */
static int fill_map(rec_gpu_map *map, rec_gpu_slot slot, int numbers) {
  cuuint64_t sizes[] = {(cuuint64_t)numbers, H, TIME, ENTRIES};
  cuuint64_t strides[] = {2 * (cuuint64_t)numbers, 2 * (cuuint64_t)slot.time_stride, 2 * (cuuint64_t)slot.batch_stride};
  cuuint32_t box[] = {64, 1, 64, 1}, element_strides[] = {1, 1, 1, 1};
  return cuTensorMapEncodeTiled((CUtensorMap *)(void *)map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, slot.data, sizes, strides, box,
                                element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* `groups`: the form of sm_90a. The parameter of the other ends before the maps. */
static void launch(CUfunction function, CUdeviceptr at_y, int groups) {
  retnet_forward_groups_parameter parameter = {.frame = {.entries = ENTRIES, .time = TIME, .slices = 1, .slice_steps = TIME},
                                               .H = H,
                                               .K = K,
                                               .V = V,
                                               .q = slot(random_tensor(q[0][0][0], sizeof q / 2), K),
                                               .k = slot(random_tensor(k[0][0][0], sizeof k / 2), K),
                                               .v = slot(random_tensor(v[0][0][0], sizeof v / 2), V),
                                               .y = slot(at_y, V)}; /* h0_S absent: from zero; hT_S absent: not wanted */
  rec_gpu_slot tokens[] = {parameter.q, parameter.k, parameter.v};
  for (int i = 0; groups && i < 3; i++)
    parameter.mapped |= (int64_t)fill_map(&parameter.maps[i], tokens[i], i < 2 ? K : V) << i;
  int64_t blocks = retnet_forward_groups_items(&parameter), scratch = retnet_forward_scratch_bytes((const void *)&parameter);
  unsigned shared = groups ? RETNET_FORWARD_GROUPS_SHARED_BYTES : RETNET_FORWARD_SHARED_BYTES;
  unsigned threads = groups ? RETNET_FORWARD_GROUPS_THREADS : RETNET_FORWARD_THREADS;
  if (groups) scratch = retnet_forward_groups_scratch_bytes(&parameter);
  parameter.frame.blocks = blocks;
  if (scratch) {
    CUdeviceptr memory;
    scratch = (scratch + 255) / 256 * 256;
    CHECK(cuMemAlloc(&memory, (size_t)(blocks * scratch)));
    parameter.frame.scratch = (void *)(uintptr_t)memory;
    parameter.frame.scratch_stride = scratch;
  }
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared));
  CHECK(cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1, shared, NULL, (void *[]){&parameter}, NULL));
  CHECK(cuCtxSynchronize());
}

/* The largest difference from a loop over the steps, against the largest result. */
static double error_of_head(int entry, int head) {
  static double state[K][V];
  double gamma = 1 - pow(2, -5 - head), error = 0, largest = 0;
  memset(state, 0, sizeof state);
  for (int t = 0; t < TIME; t++) {
    double expected[V] = {0};
    for (int i = 0; i < K; i++) {
      for (int j = 0; j < V; j++) {
        state[i][j] = gamma * state[i][j] + (double)from_bf16(k[entry][t][head][i]) * from_bf16(v[entry][t][head][j]);
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
  char *code = read_text(count > 1 ? arguments[1] : "retnet.sm_80.ptx");
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxPushCurrent(context));
  CHECK(cuModuleLoadDataEx(&module, code, 0, NULL, NULL));
  int groups = cuModuleGetFunction(&function, module, RETNET_FORWARD_SYMBOL) != CUDA_SUCCESS;
  if (groups) CHECK(cuModuleGetFunction(&function, module, RETNET_FORWARD_GROUPS_SYMBOL));
  CHECK(cuMemAlloc(&at_y, sizeof y));
  launch(function, at_y, groups);
  CHECK(cuMemcpyDtoH(y, at_y, sizeof y));
  for (int entry = 0; entry < ENTRIES; entry++)
    for (int head = 0; head < H; head++) error = fmax(error, error_of_head(entry, head));
  free(code);
  printf("retnet forward: at most %.1e from a loop, relative to the largest number\n", error);
  return error < 2e-2 ? 0 : 1;
}
