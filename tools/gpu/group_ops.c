// The operations of sm_90a that work on shared memory beside the threads, by the kernels of
// op_kernels_sm_90a.c.
//
// Products: shared memory is full of whole numbers of 16 bits, and descriptors select the operands.
// A body that takes one operand for another has other sums. Sums of whole numbers are exact in any
// order: both bodies have the same.
#include <math.h>
#include <string.h>

#include "compiler/abi/library.h"
#include "runtime/support/narrow.h"
#include "tools/gpu/gpu_check.h"
#include "tools/gpu/op_kernels.h"

enum {
  ROUNDS = 36,
  THREADS = GPU_GROUP_OP_THREADS,
  OUTPUT = GPU_FORMS * GPU_GROUP_OP_SUMS * THREADS
};

// What both runs read, and what each of them has written.
typedef struct trial {
  uint32_t in[GPU_GROUP_OP_WORDS], by_gpu[OUTPUT], by_simt[OUTPUT];
} trial;

bool is_group_operation(const gpu_operation *o) { return begins(o->name, "wgmma_"); }

static uint32_t below(uint32_t *seed, uint32_t end) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % end;
}

// ---- products --------------------------------------------------------------------------------

static int sums_of(const gpu_operation *o) {
  int sums = 4;
  sscanf(o->result, "%d", &sums);
  return sums;
}

// Two whole numbers from -8 to 7.
static uint32_t pair(const gpu_operation *o, uint32_t *seed) {
  uint16_t halves[2];
  int stored = strstr(o->name, "_f16") ? REC_STORED_F16 : REC_STORED_BF16;
  const float numbers[2] = {(float)below(seed, 16) - 8, (float)below(seed, 16) - 8};
  rec_narrow(halves, numbers, 2, stored);
  return halves[0] | (uint32_t)halves[1] << 16;
}

// gpu_ops.def: where an operand of so many lines lies, in rows of `width` numbers, from a byte on.
static uint64_t descriptor(uint32_t from, int width, uint32_t leading) {
  uint64_t mode = width == 64 ? 1 : width == 32 ? 2 : 3;
  return from >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)width << 32 | mode << 62;
}

// Of rows along k: lines from a group of 8 on, from a multiple of 16 along k on. Transposed: k from
// a multiple of 16 on, and some of the columns if a row has more than the product takes. Else tiles
// of rows, one after another.
static void draw_descriptors(uint64_t to[2], uint32_t base, int lines, int width, uint32_t *seed) {
  uint32_t rows = 16 * (uint32_t)width, tile = rows * (2 + below(seed, 3));
  uint32_t columns =
      lines < width ? 2 * (uint32_t)lines * below(seed, (uint32_t)(width / lines)) : 0;
  to[0] =
      descriptor(base + rows * below(seed, 3) + 32 * below(seed, (uint32_t)width / 16), width, 16);
  to[1] = descriptor(base + 2 * rows * below(seed, 3) + columns, width, tile);
}

static void draw_product(const gpu_operation *o, trial *t, uint32_t round) {
  uint32_t seed = round, half = 4 * GPU_GROUP_OP_IMAGE / 2;
  uint64_t descriptors[4];
  for (int i = 0; i < GPU_GROUP_OP_SUMS_AT; i++) t->in[i] = pair(o, &seed);
  for (int i = GPU_GROUP_OP_SUMS_AT; i < GPU_GROUP_OP_WORDS; i++) {
    float sum = (float)below(&seed, 256) - 128;
    memcpy(&t->in[i], &sum, sizeof sum);
  }
  draw_descriptors(descriptors, 0, 64, 16 << round % 3, &seed);
  draw_descriptors(descriptors + 2, half, 2 * sums_of(o), 16 << round / 3 % 3, &seed);
  memcpy(&t->in[GPU_GROUP_OP_NUMBERS_AT], descriptors, sizeof descriptors);
}

static double difference_of_sums(const gpu_operation *o, const trial *t) {
  double worst = 0;
  for (int i = 0; i < OUTPUT; i++) {
    float x, y;
    memcpy(&x, &t->by_gpu[i], sizeof x);
    memcpy(&y, &t->by_simt[i], sizeof y);
    if (x == y) continue;
    int sum = i / THREADS, form = sum / GPU_GROUP_OP_SUMS;
    if (worst == 0)
      fprintf(stderr, "rec-gpu-check: %s: %s%s%ssum %d of thread %d is %g, by the executor %g\n",
              o->name, form & GPU_FORM_MINUS ? "minus, " : "",
              form & GPU_FORM_TRANS_A ? "a transposed, " : "",
              form & GPU_FORM_TRANS_B ? "b transposed, " : "", sum % GPU_GROUP_OP_SUMS, i % THREADS,
              (double)x, (double)y);
    worst = isnan(x - y) ? INFINITY : fmax(worst, fabs((double)x - (double)y));
  }
  return worst;
}

// ---- both ------------------------------------------------------------------------------------

double compare_group_operation(const gpu *g, const gpu_operation *o, cuda_function function) {
  static trial t;
  const operation_run run = {o,         THREADS,     4 * GPU_GROUP_OP_IMAGE, t.in, t.by_gpu,
                             t.by_simt, sizeof t.in, sizeof t.by_gpu};
  cuda_pointer memory;
  double worst = 0;
  if (!gpu_good(g, g->driver->allocate(&memory, sizeof t), "cuMemAlloc")) return INFINITY;
  for (uint32_t round = 0; round < ROUNDS && isfinite(worst); round++) {
    draw_product(o, &t, round);
    worst = run_operation(g, function, memory, &run) ? fmax(worst, difference_of_sums(o, &t))
                                                     : INFINITY;
  }
  g->driver->release(memory);
  return worst;
}
