// The table of abstract operations (compiler/emit/gpu_ops.def): the same kernel by the GPU and by
// the executor.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt.h"
#include "runtime/rec.h"
#include "runtime/support/narrow.h"
#include "tools/gpu/gpu_check.h"
#include "tools/gpu/op_kernels.h"

enum {
  LANES = GPU_OP_THREADS,
  ARGUMENTS = 16,
  WORDS = 4,
  INPUT = (ARGUMENTS + WORDS) * LANES,
  OUTPUT = WORDS * LANES,
  ROUNDS = 20
};

typedef gpu_operation op;

#define GPU_OP(id, name, result, arguments, kind, section, map) \
  extern void rec_op_##id(const void *parameter) __asm__("rec_op_" name);
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP

static const op ops[] = {
#define GPU_OP(id, name, result, arguments, kind, section, map) \
  {name, result, arguments, rec_op_##id},
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP
};

// Those behind them are of sm_90a alone.
enum {
  COUNT = sizeof ops / sizeof *ops,
  OF_ALL_TARGETS = 0
#define GPU_OPS_OF_ALL_TARGETS
#define GPU_OP(id, name, result, arguments, kind, section, map) +1
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP
};

typedef struct trial {
  uint32_t in[INPUT], by_gpu[OUTPUT], by_simt[OUTPUT];
} trial;

typedef struct parameter {
  const void *in;
  void *out;
} parameter;

_Static_assert(sizeof(parameter) == GPU_GROUP_OP_PARAMETER, "as the kernels have it");

static uint32_t next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 4;
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static float uniform(uint32_t *seed) { return (float)(next(seed) % 65536) / 8192 - 4; }

// Words of a register of mma: two numbers of 16 bits, or one of tf32, of which the last 13 bits are
// not read.
static uint32_t matrix_word(const op *o, uint32_t *seed) {
  if (strstr(o->name, "tf32")) return (bits_of(uniform(seed)) & ~0x1fffu) | next(seed) % 0x2000;
  bool bf16 = strstr(o->name, "bf16");
  uint32_t low = bf16 ? 0x3d00 + next(seed) % 0x380 : 0x2c00 + next(seed) % 0x1800;
  uint32_t high = bf16 ? 0x3d00 + next(seed) % 0x380 : 0x2c00 + next(seed) % 0x1800;
  return (low | (next(seed) & 1) << 15) | (high | (next(seed) & 1) << 15) << 16;
}

static uint32_t word_of(const op *o, char letter, int lane, uint32_t *seed) {
  bool positive = strstr(o->name, "log2") || strstr(o->name, "sqrt");
  if (letter == 'f') return bits_of(positive ? fabsf(uniform(seed)) + 1e-3f : uniform(seed));
  if (letter == 's') return strncmp(o->name, "ldmatrix", 8) ? (uint32_t)lane : next(seed) % LANES;
  if (strncmp(o->name, "mma", 3) == 0) return matrix_word(o, seed);
  if (strcmp(o->name, "cp_async16") == 0) return next(seed) % 17;
  if (strcmp(o->name, "cp_async4") == 0) return next(seed) % 5;
  return next(seed) % 32;
}

static void draw(const op *o, trial *t, uint32_t seed) {
  memset(t, 0, sizeof *t);
  for (int a = 0; o->arguments[a]; a++)
    for (int lane = 0; lane < LANES; lane++)
      t->in[a * LANES + lane] = word_of(o, o->arguments[a], lane, &seed);
  for (int i = ARGUMENTS * LANES; i < INPUT; i++) t->in[i] = next(&seed) ^ next(&seed) << 8;
}

static bool run_by_simt(const operation_run *r) {
  char message[SIMT_MESSAGE] = "";
  parameter p = {r->in, r->by_simt};
  simt_launch launch = {.kernel = r->operation->name,
                        .function = r->operation->body,
                        .parameters = &p,
                        .blocks = 1,
                        .threads = r->threads,
                        .shared_bytes = r->shared_bytes,
                        .seed = 1};
  if (simt_run(&launch, 0, 1, NULL, message) == SIMT_DONE) return true;
  fprintf(stderr, "rec-gpu-check: %s\n", message);
  return false;
}

bool run_operation(const gpu *g, cuda_function function, cuda_pointer memory,
                   const operation_run *r) {
  const cuda_driver *d = g->driver;
  cuda_pointer out = memory + r->in_bytes;
  parameter p = {(void *)(uintptr_t)memory, (void *)(uintptr_t)out};
  void *parameters[] = {&p};
  return run_by_simt(r) && gpu_good(g, d->upload(memory, r->in, r->in_bytes), "cuMemcpyHtoD") &&
         gpu_good(g, d->upload(out, r->by_gpu, r->out_bytes), "cuMemcpyHtoD") &&
         gpu_good(g,
                  d->launch(function, 1, 1, 1, (unsigned)r->threads, 1, 1,
                            (unsigned)r->shared_bytes, NULL, parameters, NULL),
                  "cuLaunchKernel") &&
         gpu_good(g, d->context_synchronize(), "cuCtxSynchronize") &&
         gpu_good(g, d->download(r->by_gpu, out, r->out_bytes), "cuMemcpyDtoH");
}

// Approximations, and sums whose order is the GPU's, may differ; all else is the same to the last
// bit.
static double tolerance_of(const op *o) {
  static const char *const near[] = {"exp2", "log2", "rcp", "rsqrt", "sqrt", "div", "mma"};
  for (size_t i = 0; i < sizeof near / sizeof *near; i++)
    if (strncmp(o->name, near[i], strlen(near[i])) == 0) return 4e-6;
  return 0;
}

static double difference(const op *o, const trial *t) {
  double worst = 0, tolerance = tolerance_of(o);
  for (int i = 0; i < OUTPUT; i++) {
    if (t->by_gpu[i] == t->by_simt[i]) continue;
    if (tolerance == 0) return INFINITY;
    double x = float_of(t->by_gpu[i]), y = float_of(t->by_simt[i]);
    double scale = strncmp(o->name, "mma", 3) == 0 ? 16 : 1;  // of sums of 16 products
    worst = fmax(worst, fabs(x - y) / fmax(fabs(y), scale));
    if (isnan(x) != isnan(y)) return INFINITY;
  }
  return worst;
}

static double compare(const gpu *g, const op *o, cuda_function function, cuda_pointer memory) {
  static trial t;
  const operation_run run = {o,        LANES,     16 * LANES,  t.in,
                             t.by_gpu, t.by_simt, sizeof t.in, sizeof t.by_gpu};
  double worst = 0;
  for (uint32_t seed = 1; seed <= ROUNDS && isfinite(worst); seed++) {
    draw(o, &t, seed);
    worst = run_operation(g, function, memory, &run) ? fmax(worst, difference(o, &t)) : INFINITY;
  }
  return worst;
}

static int check_op(const gpu *g, cuda_module module, const op *o, cuda_pointer memory) {
  char name[96];
  double worst = INFINITY;
  cuda_function function;
  snprintf(name, sizeof name, "rec_op_%s", o->name);
  if (gpu_function(g, module, name, &function))
    worst = is_group_operation(o) ? compare_group_operation(g, o, function)
                                  : compare(g, o, function, memory);
  bool passed = worst <= tolerance_of(o);
  printf("{\"kind\": \"op\", \"name\": \"%s\", \"passed\": %s, \"difference\": %.3g}\n", o->name,
         passed ? "true" : "false", isfinite(worst) ? worst : -1);
  return !passed;
}

void print_op_names(void) {
  for (int i = 0; i < COUNT; i++) printf("%s\n", ops[i].name);
}

static bool is_wanted(const op *o, int count, char **names) {
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], o->name) == 0) return true;
  return count == 0;
}

int check_ops(const gpu *g, int count, char **names) {
  bool all = g->capability == 90;
  int failed = 0;
  cuda_pointer memory;
  cuda_module module;
  if (!gpu_module(g, all ? "gpu_ops_sm_90a" : "gpu_ops", &module) ||
      !gpu_good(g, g->driver->allocate(&memory, sizeof(trial)), "cuMemAlloc"))
    return 1;
  for (int i = 0; i < COUNT; i++) {
    if (!is_wanted(&ops[i], count, names)) continue;
    if (all || i < OF_ALL_TARGETS)
      failed += check_op(g, module, &ops[i], memory);
    else
      printf("{\"kind\": \"op_not_run\", \"name\": \"%s\"}\n", ops[i].name);
  }
  g->driver->release(memory);
  return failed;
}
