// Handlers of XLA for the CPU and for CUDA: gla forward, backward and in one step, with tensors in
// the memory of the tests' driver. Work waits on the stream of the call (CUDA_LATE=1); the
// workspace comes from XLA's allocator, which this program stands in for.
//
//   xla gla.so                 compares both handlers
//   xla gla.so refused TEXT    expects an error of the handler for CUDA that has the text
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/launch.h"
#include "tests/artifact/library/xla_call.h"

enum { B = 2, T = 40, H = 2, K = 16, V = 16, ENTRIES = 2, SAVED_BYTES = 1 << 20 };

// XLA, as far as handlers use it.
static struct {
  void *stream;
  int no_memory, allocated, freed, errors;
  char said[512];
} xla;

static int (*allocate_gpu)(uint64_t *memory, size_t bytes);
static int (*synchronize)(void *stream);
static void *library;

static xla_error *create_error(xla_error_create *create) {
  snprintf(xla.said, sizeof xla.said, "%d %s", create->code, create->message);
  xla.errors++;
  return (xla_error *)xla.said;
}

static void destroy_error(xla_error_destroy *destroy) {
  xla.errors -= destroy->error == (xla_error *)xla.said;
}

static xla_error *get_stream(xla_stream_get *get) {
  if (get->context != &xla)
    return create_error(&(xla_error_create){.message = "expected the context of the call"});
  get->stream = xla.stream;
  return NULL;
}

static xla_error *allocate_memory(xla_memory_allocate *args) {
  uint64_t memory = 0;
  if (xla.no_memory || allocate_gpu(&memory, args->bytes))
    return create_error(&(xla_error_create){.message = "no memory"});
  args->data = (void *)(uintptr_t)memory;
  xla.allocated++;
  return NULL;
}

// Memory is used until the stream has come to its end: it is not given back here.
static xla_error *free_memory(xla_memory_free *args) {
  xla.freed += args->data && args->bytes && args->context == &xla;
  return NULL;
}

static const xla_api api = {.size = sizeof api,
                            .create_error = create_error,
                            .destroy_error = destroy_error,
                            .get_stream = get_stream,
                            .allocate_memory = allocate_memory,
                            .free_memory = free_memory};

static void *gpu_memory(size_t bytes) {
  uint64_t memory = 0;
  if (!allocate_gpu) return calloc(1, bytes);
  if (allocate_gpu(&memory, bytes)) printf("no memory of the GPU\n");
  return memset((void *)(uintptr_t)memory, 0, bytes);
}

// The tensors of gla, by their positions in a call of backward: operands, cotangents, gradients.
// Entries of vmap come first; all share their initial state.
static const int64_t shapes[][6] = {{0},
                                    {ENTRIES, B, T, H, K},
                                    {ENTRIES, B, T, H, K},
                                    {ENTRIES, B, T, H, V},
                                    {ENTRIES, B, T, H, K},
                                    {1, B, H, K, V},
                                    {ENTRIES, B, T, H, V},
                                    {ENTRIES, B, H, K, V},
                                    {ENTRIES, B, T, H, K},
                                    {ENTRIES, B, T, H, K},
                                    {ENTRIES, B, T, H, V},
                                    {ENTRIES, B, T, H, K},
                                    {ENTRIES, B, H, K, V}};
enum { OPERANDS = 5, STATE = 5, Y = 6, HT = 7, TENSORS = 12, SAVED = 0 };

typedef struct tensors {
  xla_buffer of[TENSORS + 1];
} tensors;

static int64_t count_of(const xla_buffer *x) {
  int64_t count = 1;
  for (int64_t i = 0; i < x->rank; i++) count *= x->dims[i];
  return count;
}

static tensors make_tensors(void) {
  static const int64_t saved_shape[] = {ENTRIES, SAVED_BYTES};
  tensors t;
  for (int i = 0; i <= TENSORS; i++) {
    int64_t rank = 6;
    while (rank > 0 && shapes[i][rank - 1] == 0) rank--;
    t.of[i] =
        (xla_buffer){.size = sizeof(xla_buffer), .dtype = XLA_F32, .rank = rank, .dims = shapes[i]};
    if (i == SAVED)
      t.of[i] =
          (xla_buffer){.size = sizeof(xla_buffer), .dtype = XLA_U8, .rank = 2, .dims = saved_shape};
    int64_t count = count_of(&t.of[i]);
    float *numbers = t.of[i].data = gpu_memory((size_t)count * sizeof *numbers);
    for (int64_t k = 0; k < count && i != SAVED && i <= HT; k++)
      numbers[k] = (float)(k * (3 + i) % 17) / 16 - 0.5f;
  }
  return t;
}

// `first` .. `last`, and perhaps `saved`.
static void *run(const char *entry, const char *ending, tensors *t, int last_operand,
                 int operand_saved, int first, int last, int result_saved) {
  xla_buffer *operands[TENSORS + 1], *results[TENSORS + 1];
  int64_t read[TENSORS + 1], written[TENSORS + 1];
  size_t operand_count = 0, result_count = 0;
  for (int i = 1; i <= last_operand; i++)
    read[operand_count] = i, operands[operand_count++] = &t->of[i];
  if (operand_saved) read[operand_count] = SAVED, operands[operand_count++] = &t->of[SAVED];
  for (int i = first; i <= last; i++)
    written[result_count] = i, results[result_count++] = &t->of[i];
  if (result_saved) written[result_count] = SAVED, results[result_count++] = &t->of[SAVED];
  char symbol[64];
  snprintf(symbol, sizeof symbol, "rec_xla_gla_%s%s", entry, ending);
  handler *function;
  *(void **)&function = dlsym(library, symbol);
  if (!function) return snprintf(xla.said, sizeof xla.said, "no %s", symbol), xla.said;
  return call_handler(function, &api, &xla, operands, positions(operand_count, read), results,
                      positions(result_count, written));
}

static void *forward(const char *ending, tensors *t) {
  return run("forward", ending, t, OPERANDS, 0, Y, HT, 1);
}
static void *backward(const char *ending, tensors *t) {
  return run("backward", ending, t, HT, 1, HT + 1, TENSORS, 0);
}
static void *step(const char *ending, tensors *t) {
  return run("step", ending, t, OPERANDS, 0, Y, HT, 0);
}

// Of tensors `first` to `last`, by the largest number.
static double error_of(const tensors *host, const tensors *gpu, int first, int last) {
  double worst = 0, most = 0;
  for (int i = first; i <= last; i++) {
    const float *expected = host->of[i].data, *found = gpu->of[i].data;
    for (int64_t k = 0; k < count_of(&host->of[i]); k++) {
      worst = fmax(worst, fabs(expected[k] - found[k]));
      most = fmax(most, fabs(expected[k]));
    }
  }
  return worst / most;
}

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%d allocated, %d freed, %d errors kept, last error: %s)\n", what,
         xla.allocated, xla.freed, xla.errors, xla.said);
  failures++;
}

// A step has the tensors of a forward without time.
static void without_time(tensors *t) {
  static int64_t of_step[HT + 1][4];
  for (int i = 1; i <= HT; i++) {
    if (i == STATE || i == HT) continue;
    memcpy(of_step[i], (int64_t[]){ENTRIES, B, H, shapes[i][4]}, sizeof of_step[i]);
    t->of[i].rank = 4;
    t->of[i].dims = of_step[i];
  }
}

static void compare(void) {
  tensors host = make_tensors(), gpu = make_tensors(), host_step = make_tensors(),
          gpu_step = make_tensors();
  without_time(&host_step);
  without_time(&gpu_step);
  expect(!forward("", &host), "forward on the CPU");
  expect(!forward("_cuda", &gpu), "forward on the GPU");
  expect(error_of(&host, &gpu, Y, Y) > 0.5, "kernels wait on the stream of the call");
  expect(!synchronize(xla.stream) && error_of(&host, &gpu, Y, HT) < 1e-4, "results");
  expect(!backward("", &host) && !step("", &host_step), "backward and a step on the CPU");
  expect(!backward("_cuda", &gpu) && !step("_cuda", &gpu_step), "backward and a step on the GPU");
  expect(!synchronize(xla.stream) && error_of(&host, &gpu, HT + 1, TENSORS) < 1e-4, "gradients");
  expect(error_of(&host_step, &gpu_step, Y, HT) < 1e-4, "a step");
  expect(xla.allocated > 0 && xla.allocated == xla.freed && !xla.errors,
         "what was allocated is freed");
  xla.no_memory = 1;
  expect(forward("_cuda", &gpu) && strstr(xla.said, "8 gla_forward: expected ") &&
             strstr(xla.said, "bytes of GPU memory") && xla.errors == 1,
         "a call without memory, whose first error is destroyed");
}

static void refused(const char *text) {
  tensors t = make_tensors();
  expect(forward("_cuda", &t) && strstr(xla.said, text), text);
}

static void *find(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? dlsym(driver, name) : NULL;
}

static void open_driver(void) {
  int (*init)(unsigned), (*primary)(void **, int), (*push)(void *), (*create)(void **, unsigned);
  *(void **)&init = find("cuInit");
  *(void **)&primary = find("cuDevicePrimaryCtxRetain");
  *(void **)&push = find("cuCtxPushCurrent_v2");
  *(void **)&create = find("cuStreamCreate");
  *(void **)&allocate_gpu = find("cuMemAlloc_v2");
  *(void **)&synchronize = find("cuStreamSynchronize");
  void *context = NULL;
  expect(init && !init(0) && !primary(&context, 0) && !push(context) && !create(&xla.stream, 0),
         "the driver opens");
}

int main(int count, char **words) {
  library = dlopen(words[1], RTLD_NOW);
  expect(library != NULL, words[1]);
  if (count > 3) {
    refused(words[3]);
  } else {
    open_driver();
    compare();
  }
  return failures != 0;
}
