// The operations of sm_90a that work on shared memory beside the threads, by the kernels of op_kernels_sm_90a.c.
//
// Products: shared memory is full of whole numbers of 16 bits, and descriptors select the operands. A body that takes one
// operand for another has other sums. Sums of whole numbers are exact in any order: both bodies have the same. Boxes: of
// tensors of random sizes, beginning inside and outside of them; what shared memory holds then is the same.
#include <math.h>
#include <string.h>

#include "runtime/shared/library.h"
#include "runtime/shared/simt.h"
#include "runtime/support/narrow.h"
#include "tools/gpu/gpu_check.h"
#include "tools/gpu/op_kernels.h"

enum {
  ROUNDS = 36,
  THREADS = GPU_GROUP_OP_THREADS,
  OUTPUT = GPU_FORMS * GPU_GROUP_OP_SUMS * THREADS,
  TENSOR_WORDS = 32768,
  AXES = 5
};

// What both runs read, and what each of them has written.
typedef struct trial {
  uint32_t in[GPU_GROUP_OP_WORDS], by_gpu[OUTPUT], by_simt[OUTPUT];
  _Alignas(16) uint32_t tensor[TENSOR_WORDS];
} trial;

typedef struct box {
  int type, swizzle;
  uint32_t axes, box[AXES], steps[AXES];
  uint64_t sizes[AXES], strides[AXES];
} box;

typedef struct parameter {
  const void *in;
  void *out;
  _Alignas(GPU_GROUP_OP_MAP_AT) unsigned char map[128];
} parameter;

_Static_assert(sizeof(parameter) == GPU_GROUP_OP_PARAMETER, "as the kernels have it");

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }
static bool is_product(const gpu_operation *o) { return begins(o->name, "wgmma_"); }

bool is_group_operation(const gpu_operation *o) {
  return is_product(o) || begins(o->name, "mbarrier_") || begins(o->name, "bulk_");
}

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

// Of rows along k: lines from a group of 8 on, from a multiple of 16 along k on. Transposed: k from a multiple of 16 on, and
// some of the columns if a row has more than the product takes. Else tiles of rows, one after another.
static void draw_descriptors(uint64_t to[2], uint32_t base, int lines, int width, uint32_t *seed) {
  uint32_t rows = 16 * (uint32_t)width, tile = rows * (2 + below(seed, 3));
  uint32_t columns = lines < width ? 2 * (uint32_t)lines * below(seed, (uint32_t)(width / lines)) : 0;
  to[0] = descriptor(base + rows * below(seed, 3) + 32 * below(seed, (uint32_t)width / 16), width, 16);
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
      fprintf(stderr, "rec-gpu-check: %s: %s%s%ssum %d of thread %d is %g, by the executor %g\n", o->name,
              form & GPU_FORM_MINUS ? "minus, " : "", form & GPU_FORM_TRANS_A ? "a transposed, " : "",
              form & GPU_FORM_TRANS_B ? "b transposed, " : "", sum % GPU_GROUP_OP_SUMS, i % THREADS, (double)x, (double)y);
    worst = isnan(x - y) ? INFINITY : fmax(worst, fabs((double)x - (double)y));
  }
  return worst;
}

// ---- boxes -----------------------------------------------------------------------------------

// The driver's numbers.
enum { TYPE_F32 = 7, TYPE_BF16 = 9 };

static void draw_box(const gpu_operation *o, trial *t, box *b, uint32_t round) {
  uint32_t seed = round, bytes = round / 4 % 2 ? 4 : 2;
  *b = (box){.axes = 2, .type = bytes == 4 ? TYPE_F32 : TYPE_BF16, .swizzle = (int)(round % 4)};
  sscanf(o->name, "bulk_%u", &b->axes);
  for (uint32_t i = 0; i < b->axes; i++) {
    b->steps[i] = 1;
    b->box[i] = 1 + below(&seed, i > 1 ? 2 : b->axes == 2 ? 32 : 6);
    if (i == 0) b->box[i] = (b->swizzle ? 16u << b->swizzle : 16 * (1 + below(&seed, 8))) / bytes;
    b->sizes[i] = b->box[i] + below(&seed, i > 1 ? 2 : i == 1 ? 12 : 24);
    b->strides[i] = i ? b->strides[i - 1] * b->sizes[i] : (b->sizes[0] * bytes + 15) / 16 * 16 + 16 * below(&seed, 3);
  }
  for (int i = 0; i < GPU_GROUP_OP_WORDS; i++) t->in[i] = below(&seed, 1 << 24);
  for (int i = 0; i < TENSOR_WORDS; i++) t->tensor[i] = below(&seed, 1 << 24) << 8 | below(&seed, 256);
  uint32_t *numbers = &t->in[GPU_GROUP_OP_NUMBERS_AT];
  numbers[0] = bytes;
  for (uint32_t i = 0; i < b->axes; i++) {
    numbers[0] *= b->box[i];
    for (uint32_t half = 0; half < 2; half++) numbers[1 + AXES * half + i] = below(&seed, (uint32_t)b->sizes[i] + 4) - 4;
  }
}

static double difference_of_words(const gpu_operation *o, const trial *t) {
  for (int i = 0; i < OUTPUT; i++) {
    if (t->by_gpu[i] == t->by_simt[i]) continue;
    fprintf(stderr, "rec-gpu-check: %s: word %d of shared memory is %08x, by the executor %08x\n", o->name, i,
            (unsigned)t->by_gpu[i], (unsigned)t->by_simt[i]);
    return INFINITY;
  }
  return 0;
}

// ---- both ------------------------------------------------------------------------------------

static bool run_by_simt(const gpu_operation *o, trial *t, const box *b) {
  char message[SIMT_MESSAGE] = "";
  parameter p = {.in = t->in, .out = t->by_simt};
  simt_launch launch = {.kernel = o->name,
                        .function = o->body,
                        .parameters = &p,
                        .blocks = 1,
                        .threads = THREADS,
                        .shared_bytes = 4 * GPU_GROUP_OP_IMAGE,
                        .seed = 1};
  if (b && simt_tensor_map(p.map, b->type, b->axes, t->tensor, b->sizes, b->strides, b->box, b->steps, 0, b->swizzle, 0, 0)) {
    fprintf(stderr, "rec-gpu-check: %s: a map that the executor does not take\n", o->name);
    return false;
  }
  if (simt_run(&launch, 0, 1, NULL, message) == SIMT_DONE) return true;
  fprintf(stderr, "rec-gpu-check: %s\n", message);
  return false;
}

static bool make_map(const gpu *g, parameter *p, cuda_pointer tensor, const box *b) {
  if (!g->driver->tensor_map) {
    fprintf(stderr, "rec-gpu-check: the driver has no cuTensorMapEncodeTiled\n");
    return false;
  }
  return gpu_good(g,
                  g->driver->tensor_map(p->map, b->type, b->axes, (void *)(uintptr_t)tensor, b->sizes, b->strides, b->box,
                                        b->steps, 0, b->swizzle, 0, 0),
                  "cuTensorMapEncodeTiled");
}

static bool run_by_gpu(const gpu *g, cuda_function function, cuda_pointer memory, trial *t, const box *b) {
  const cuda_driver *d = g->driver;
  cuda_pointer out = memory + offsetof(trial, by_gpu);
  parameter p = {.in = (void *)(uintptr_t)memory, .out = (void *)(uintptr_t)out};
  void *parameters[] = {&p};
  return gpu_good(g, d->upload(memory, t, sizeof *t), "cuMemcpyHtoD") &&
         (!b || make_map(g, &p, memory + offsetof(trial, tensor), b)) &&
         gpu_good(g, d->launch(function, 1, 1, 1, THREADS, 1, 1, 4 * GPU_GROUP_OP_IMAGE, NULL, parameters, NULL),
                  "cuLaunchKernel") &&
         gpu_good(g, d->context_synchronize(), "cuCtxSynchronize") &&
         gpu_good(g, d->download(t->by_gpu, out, sizeof t->by_gpu), "cuMemcpyDtoH");
}

double compare_group_operation(const gpu *g, const gpu_operation *o, cuda_function function) {
  static trial t;
  cuda_pointer memory;
  double worst = 0;
  if (!gpu_good(g, g->driver->allocate(&memory, sizeof t), "cuMemAlloc")) return INFINITY;
  for (uint32_t round = 0; round < ROUNDS && isfinite(worst); round++) {
    box b;
    memset(&t, 0, sizeof t);
    if (is_product(o)) {
      draw_product(o, &t, round);
    } else {
      draw_box(o, &t, &b, round);
    }
    const box *of = is_product(o) ? NULL : &b;
    bool ran = run_by_simt(o, &t, of) && run_by_gpu(g, function, memory, &t, of);
    worst = !ran ? INFINITY : fmax(worst, of ? difference_of_words(o, &t) : difference_of_sums(o, &t));
  }
  g->driver->release(memory);
  return worst;
}
