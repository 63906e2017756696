// Calls on a GPU as the driver sees them (tests/cuda/driver.c, whose GPU is the executor). They
// cover a second call, a shortage of memory, and calls captured into a graph, which runs them again
// on other inputs.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda_memory.h"
#include "runtime/device.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

static char folder[] = "/tmp/rec-cuda-test-XXXXXX", log_path[64];
static const cuda_driver *driver;

// Functions of the driver that cuda_driver.h does not declare.
static struct {
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_synchronize)(void *stream);
  int (*begin_capture)(void *stream, int mode);
  int (*end_capture)(void *stream, void **graph);
  int (*graph_launch)(void *graph, void *stream);
  int (*graph_destroy)(void *graph);
} capture;

static int open_driver(void) {
  void *library = dlopen(REC_BINARY_DIR "/tests/cuda_driver/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!check(library, "%s", dlerror())) return 0;
  *(void **)&capture.stream_create = dlsym(library, "cuStreamCreate");
  *(void **)&capture.stream_synchronize = dlsym(library, "cuStreamSynchronize");
  *(void **)&capture.begin_capture = dlsym(library, "cuStreamBeginCapture_v2");
  *(void **)&capture.end_capture = dlsym(library, "cuStreamEndCapture");
  *(void **)&capture.graph_launch = dlsym(library, "cuGraphLaunch");
  *(void **)&capture.graph_destroy = dlsym(library, "cuGraphDestroy");
  return check(cuda_driver_open(&driver) == REC_OK, "%s", rec_message());
}

// The library stays a file: the driver looks into it for the code of kernels.
static const rec_recurrence *compile_source(const char *name, const char *file,
                                            const char *recurrence, const char *options,
                                            rec_module **module) {
  char command[1024], path[128];
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  snprintf(command, sizeof command, "%s/bin/recc %s --ptxas none -O0 %s -o %s", REC_BINARY_DIR,
           file, options, path);
  *module = NULL;
  if (!check(system(command) == 0 && rec_module_open(path, module) == REC_OK, "%s: %s", recurrence,
             rec_message()))
    return NULL;
  return rec_module_find(*module, recurrence);
}

static const rec_recurrence *compile_at(const char *name, const char *recurrence,
                                        const char *options, rec_module **module) {
  char file[512];
  snprintf(file, sizeof file, "%s/stdlib/%s.rec", REC_SOURCE_DIR, recurrence);
  return compile_source(name, file, recurrence, options, module);
}

static const char plain[] = "--target sm_80,simt --form chunk -D H=2 -D K=16 -D V=16";
static const char by_groups[] =
    "--target sm_90a,simt --dtype bf16 --chunk 64 -D H=2 -D K=64 -D V=128";

static void begin_log(void) {
  unlink(log_path);
  setenv("CUDA_LOG", log_path, 1);
}

// How many calls of that name the log holds since begin_log.
static int logged(const char *call) {
  char line[256];
  int count = 0;
  FILE *file = fopen(log_path, "r");
  while (file && fgets(line, sizeof line, file)) count += strncmp(line, call, strlen(call)) == 0;
  if (file) fclose(file);
  return count;
}

// ---- memory ----

static void check_memory(const rec_recurrence *r) {
  const rec_run_options backward = {.backward = true};
  problem *first = problem_new(rec_recurrence_signature(r), 1, 40, 2);
  problem_draw(first, 1, 0.5);
  problem *second = problem_copy(first);
  begin_log();
  check(problem_run(first, r, "cuda", &backward), "%s", rec_message());
  check(logged("cuMemAlloc") > 5 && logged("cuModuleLoadDataEx") == 1, "a first call allocates");
  begin_log();
  check(problem_run(second, r, "cuda", &backward), "%s", rec_message());
  check(problem_equal(first, second, true), "a second call has other results");
  check(logged("cuLaunchKernel") >= 2, "a second call launches");
  check(logged("cuMemAlloc") + logged("cuMemFree") == 0, "a second call asks for memory");
  check(logged("cuModule") + logged("cuFunc") == 0, "a second call loads code");
  problem_free(first);
  problem_free(second);
}

// The launches of a call that is cut into time slices and saves nothing: two forward, then
// recomputed states and cotangents.
static const char *const gla_slices[] = {"rec_kernel_gla_part_gpu",
                                         "rec_kernel_gla_forward_few_gpu",
                                         "rec_kernel_gla_part_gpu",
                                         "rec_kernel_gla_states_gpu",
                                         "rec_kernel_gla_part_backward_gpu",
                                         "rec_kernel_gla_backward_gpu",
                                         NULL};
static const char *const mlstm_slices[] = {"rec_kernel_mlstm_part_gpu",
                                           "rec_kernel_mlstm_forward_gpu",
                                           "rec_kernel_mlstm_part_gpu",
                                           "rec_kernel_mlstm_states_gpu",
                                           "rec_kernel_mlstm_part_backward_gpu",
                                           "rec_kernel_mlstm_backward_gpu",
                                           NULL};
static const char *const rwkv4_slices[] = {"rec_kernel_rwkv4_part_gpu",
                                           "rec_kernel_rwkv4_forward_gpu",
                                           "rec_kernel_rwkv4_part_gpu",
                                           "rec_kernel_rwkv4_forward_gpu",
                                           "rec_kernel_rwkv4_part_backward_gpu",
                                           "rec_kernel_rwkv4_backward_gpu",
                                           "rec_gpu_sum",
                                           NULL};

// The kernels that were launched since begin_log are these, in order.
static bool logged_kernels(const char *const *names) {
  char line[256], wanted[128];
  FILE *file = fopen(log_path, "r");
  bool same = file != NULL;
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, "cuLaunchKernel ", 15) != 0) continue;
    snprintf(wanted, sizeof wanted, "%s ", *names ? *names : "");
    same = same && *names && strncmp(line + 15, wanted, strlen(wanted)) == 0;
    names += *names != NULL;
  }
  if (file) fclose(file);
  return same && !*names;
}

static void check_slices(const rec_recurrence *r, const char *const *kernels) {
  const rec_run_options slices = {.backward = true, .recompute = true, .time_slices = 3};
  problem *first = problem_new(rec_recurrence_signature(r), 1, 500, 2);
  problem_draw(first, 4, 0.5);
  problem *second = problem_copy(first);
  begin_log();
  check(problem_run(first, r, "cuda", &slices), "%s", rec_message());
  check(logged_kernels(kernels), "%s: %d launches in slices", kernels[0], logged("cuLaunchKernel"));
  check(problem_run(second, r, "simt", &slices), "%s", rec_message());
  check(problem_equal(first, second, true), "in slices the executor has other results");
  problem_free(first);
  problem_free(second);
}

// As many parameters as a kernel's argument block has slots for (gpu_frame.h:
// REC_GPU_PARAMETER_BYTES).
enum { MANY_PARAMETERS = 116, TOO_MANY_PARAMETERS = 130 };

// h = 0.9 * h[t-1] + x + p0 / 1 + p1 / 2 + ..
static const rec_recurrence *compile_many(const char *name, int count, rec_module **module) {
  char file[128];
  snprintf(file, sizeof file, "%s/%s.rec", folder, name);
  FILE *text = fopen(file, "w");
  if (!check(text, "%s cannot be written", file)) return NULL;
  fprintf(text, "recurrence many(D = 4) {\n  input x[D]\n");
  for (int i = 0; i < count; i++) fprintf(text, "  param p%d[D]\n", i);
  fprintf(text, "  state h[D]\n  output y[D]\n  h = 0.9 * h[t-1] + x");
  for (int i = 0; i < count; i++) fprintf(text, " + p%d / %d", i, i + 1);
  fprintf(text, "\n  y = h\n}\n");
  fclose(text);
  return compile_source(name, file, "many", "--target sm_80,simt", module);
}

// However many gradients are summed, one launch adds them up.
static void check_sums(const rec_recurrence *r) {
  problem *first = problem_new(rec_recurrence_signature(r), 2, 20, 2);
  problem_draw(first, 5, 0.5);
  problem *second = problem_copy(first);
  begin_log();
  check(problem_run(first, r, "cuda", &(rec_run_options){.backward = true}), "%s", rec_message());
  check(logged("cuLaunchKernel rec_gpu_sum ") == 1 && logged("cuLaunchKernel") == 3,
        "%d launches, %d of sums", logged("cuLaunchKernel"), logged("cuLaunchKernel rec_gpu_sum "));
  check(problem_run(second, r, "reference", &(rec_run_options){.backward = true}), "%s",
        rec_message());
  char where[256];
  double error = problem_compare(second, first, true, 1e-4, where, sizeof where);
  check(error < 2e-5, "many sums: %g in %s", error, where);
  problem_free(first);
  problem_free(second);
}

// A recurrence with one parameter more has no GPU kernels. A call says why.
static void check_limit(const rec_recurrence *r) {
  problem *p = problem_new(rec_recurrence_signature(r), 2, 20, 2);
  problem_draw(p, 5, 0.5);
  check(
      !problem_run(p, r, "cuda", &(rec_run_options){.backward = true}) &&
          strstr(rec_message(),
                 "not made for GPUs: its tensors and axes take more than 4000 bytes of parameters"),
      "too many parameters: %s", rec_message());
  problem_free(p);
}

static void check_shortage(const rec_recurrence *r) {
  const rec_run_options backward = {.backward = true};
  problem *small = problem_new(rec_recurrence_signature(r), 1, 40, 2);
  problem *large = problem_new(rec_recurrence_signature(r), 4, 1500, 2);
  problem_draw(small, 1, 0.5);
  problem_draw(large, 2, 0.5);
  setenv("REC_GPU_MEMORY", "4", 1);
  check(!problem_run(large, r, "cuda", &backward), "memory beyond REC_GPU_MEMORY");
  check(strstr(rec_message(), "bytes of GPU memory, found") &&
            strstr(rec_message(), "in use of the 4194304 that REC_GPU_MEMORY allows"),
        "%s", rec_message());
  unsetenv("REC_GPU_MEMORY");
  check(problem_run(small, r, "cuda", &backward), "%s", rec_message());
  setenv("CUDA_MEMORY", "4000000", 1);
  begin_log();
  check(!problem_run(large, r, "cuda", &backward), "memory beyond that of the GPU");
  check(strstr(rec_message(), "bytes of GPU memory, found") &&
            strstr(rec_message(), " free of 4000000; rec uses "),
        "%s", rec_message());
  check(logged("cuMemFree") > 0, "what is kept is not given back");
  check(problem_run(small, r, "cuda", &backward), "after a shortage: %s", rec_message());
  unsetenv("CUDA_MEMORY");
  problem_free(small);
  problem_free(large);
}

// ---- memory and streams ----

enum { BLOCK = 700000, LARGER = 2000000 };

static unsigned char *taken(void *stream, int64_t bytes) {
  void *memory = NULL;
  check(rec_cuda_take(driver, stream, bytes, &memory) == REC_OK, "%s", rec_message());
  return memory;
}

static void clear(void *stream, unsigned char *memory, unsigned char value) {
  cuda_result result = driver->clear((cuda_pointer)(uintptr_t)memory, value, BLOCK, stream);
  check(result == 0, "cuMemsetD8Async answers %d", result);
}

// Streams do their work when they are waited for: memory that one of them gave back is cleared by
// it before the other.
static void check_order(void *one, void *other) {
  unsigned char *given = taken(one, BLOCK);
  clear(one, given, 1);
  begin_log();
  rec_cuda_give(driver, one, given);
  unsigned char *again = taken(other, BLOCK);
  check(again == given && logged("cuMemAlloc") == 0,
        "memory given back on a stream is not taken by another");
  check(logged("cuCtxSynchronize") == 0, "memory changes streams, and the host waits");
  clear(other, again, 2);
  capture.stream_synchronize(other);
  driver->context_synchronize();
  check(again[0] == 2 && again[BLOCK - 1] == 2,
        "the stream that gave memory back writes to it later");
  rec_cuda_give(driver, other, again);
}

// The driver has no more: what is kept goes back to it, after the work that may still use it.
static void check_shortage_behind_work(void *one, void *other) {
  char line[256] = "", before[256] = "";
  unsigned char *given = taken(one, BLOCK);
  clear(one, given, 3);
  rec_cuda_give(driver, one, given);
  setenv("CUDA_MEMORY", "2500000", 1);
  begin_log();
  unsigned char *large = taken(other, LARGER);
  FILE *file = fopen(log_path, "r");
  while (file && fgets(line, sizeof line, file) && strncmp(line, "cuMemFree", 9) != 0)
    memcpy(before, line, sizeof before);
  if (file) fclose(file);
  check(strncmp(line, "cuMemFree", 9) == 0 && strcmp(before, "cuCtxSynchronize \n") == 0,
        "memory goes back to the driver after %s", before);
  unsetenv("CUDA_MEMORY");
  rec_cuda_give(driver, other, large);
}

// Memory whose last use may still run is reused after all work is done, and not before.
static void check_events_that_fail(void *one, void *other) {
  unsigned char *given = taken(one, BLOCK);
  clear(one, given, 4);
  setenv("CUDA_FAIL", "cuEventRecord", 1);
  rec_cuda_give(driver, one, given);
  unsetenv("CUDA_FAIL");
  unsigned char *fresh = taken(other, BLOCK);
  check(fresh != given, "memory whose last use was not recorded is taken by another stream");
  rec_cuda_give(driver, other, fresh);
  setenv("CUDA_FAIL", "cuStreamWaitEvent", 1);
  void *none = NULL;
  check(rec_cuda_take(driver, one, BLOCK, &none) == REC_ERROR_DEVICE && !none &&
            strstr(rec_message(), "cuStreamWaitEvent: "),
        "memory is taken though its stream cannot wait: %s", rec_message());
  setenv("CUDA_FAIL", "cuEventCreate", 1);
  check(rec_cuda_take(driver, one, 2 * LARGER, &none) == REC_ERROR_DEVICE && !none &&
            strstr(rec_message(), "cuEventCreate: "),
        "memory without an event: %s", rec_message());
  unsetenv("CUDA_FAIL");
  begin_log();
  check(taken(one, BLOCK) == fresh && logged("cuMemAlloc") == 0,
        "memory is lost where a stream could not wait");
  setenv("CUDA_MEMORY", "5000000", 1);
  begin_log();
  rec_cuda_give(driver, one, taken(one, 2 * LARGER));
  check(logged("cuMemFree") > 0, "memory whose last use was not recorded is lost");
  unsetenv("CUDA_MEMORY");
  rec_cuda_give(driver, one, fresh);
}

static void check_streams(const rec_recurrence *r) {
  void *one = NULL, *other = NULL;
  capture.stream_create(&one, 0);
  capture.stream_create(&other, 0);
  setenv("CUDA_LATE", "1", 1);
  check_order(one, other);
  check_order(NULL, one);
  check_shortage_behind_work(one, other);
  check_events_that_fail(one, other);
  check_slices(r, gla_slices);
  driver->context_synchronize();
  unsetenv("CUDA_LATE");
}

// ---- graphs ----

enum { TIME = 140, TABLES = 4, VARIABLES = 16 };

// Tensors of a call on the GPU.
typedef struct placed {
  rec_call call;
  int64_t axis_sizes[8], numbers[VARIABLES];
  void *tables[TABLES][VARIABLES];
} placed;

static void place(const rec_recurrence *r, void *stream, placed *p) {
  const rec_signature *s = rec_recurrence_signature(r);
  *p = (placed){.call = {.batch = 1, .time = TIME}};
  for (int i = 0; i < s->axis_count; i++) p->axis_sizes[i] = s->axes[i].size;
  p->call.axis_sizes = p->axis_sizes;
  for (int i = 0; i < s->variable_count; i++) {
    p->numbers[i] = rec_variable_numbers(s, i, p->axis_sizes);
    if (is_token(&s->variables[i])) p->numbers[i] *= TIME;
    for (int t = 0; t < TABLES; t++)
      if (t % 2 == 0 || is_carried(&s->variables[i]))
        rec_cuda_take(driver, stream, 4 * p->numbers[i], &p->tables[t][i]);
  }
  p->call.value = p->tables[0];
  p->call.final = p->tables[1];
  p->call.gradient = p->tables[2];
  p->call.d_final = p->tables[3];
}

static bool is_read(const rec_variable *v, int table) {
  if (table == 2) return v->kind == REC_OUTPUT;
  return table == 3 || (table == 0 && v->kind != REC_OUTPUT);
}

// The GPU's memory is the host's. What is written is set to something that no call writes.
static void fill(const rec_recurrence *r, const placed *p, uint64_t seed) {
  const rec_signature *s = rec_recurrence_signature(r);
  for (int i = 0; i < s->variable_count; i++) {
    for (int t = 0; t < TABLES; t++) {
      float *x = p->tables[t][i];
      bool narrow = is_token(&s->variables[i]) && s->token_type != REC_F32;
      for (int64_t n = 0; x && n < p->numbers[i]; n++) {
        float number = is_read(&s->variables[i], t) ? -0.5f * (float)next_uniform(&seed) : 1e30f;
        if (narrow)
          rec_convert((uint16_t *)(void *)x + n, s->token_type, &number, REC_F32, 1);
        else
          x[n] = number;
      }
    }
  }
}

// A call with every tensor that the recurrence has, each dense.
static float *look(const rec_recurrence *r, const placed *p, int64_t *count) {
  float *all = NULL;
  *count = 0;
  for (int i = 0; i < rec_recurrence_signature(r)->variable_count; i++) {
    for (int t = 0; t < TABLES; t++) {
      if (!p->tables[t][i]) continue;
      all = realloc(all, (size_t)(*count + p->numbers[i]) * sizeof *all);
      memcpy(all + *count, p->tables[t][i], (size_t)p->numbers[i] * sizeof *all);
      *count += p->numbers[i];
    }
  }
  return all;
}

static rec_status run_both(const rec_host_session *session) {
  rec_status status = rec_host_forward(session);
  return status ? status : rec_host_backward(session);
}

// A graph made of `session`'s calls gives, on each draw of numbers, what the calls give.
static void check_graph(const rec_recurrence *r, const placed *p, rec_host_session *session,
                        const char *what) {
  void *graph = NULL, *stream = session->launch.stream;
  fill(r, p, 1);
  check(capture.begin_capture(stream, 0) == 0, "%s: a capture begins", what);
  check(run_both(session) == REC_OK, "%s: %s", what, rec_message());
  if (!check(capture.end_capture(stream, &graph) == 0, "%s: the capture is broken", what)) return;
  for (uint64_t seed = 2; seed < 5; seed++) {
    int64_t count;
    fill(r, p, seed);
    check(capture.graph_launch(graph, stream) >= 2, "%s: the graph holds the launches", what);
    float *captured = look(r, p, &count);
    fill(r, p, seed);
    check(run_both(session) == REC_OK, "%s: %s", what, rec_message());
    float *called = look(r, p, &count);
    check(memcmp(captured, called, (size_t)count * sizeof *called) == 0,
          "%s: the graph gives other numbers", what);
    free(captured);
    free(called);
  }
  capture.graph_destroy(graph);
}

// What waits or allocates is refused while a stream is captured; so `rec apply` is.
static void check_refusal(const rec_recurrence *r, void *stream) {
  void *graph = NULL;
  problem *p = problem_new(rec_recurrence_signature(r), 1, 999, 2);
  problem_draw(p, 1, 0.5);
  check(capture.begin_capture(stream, 0) == 0, "a capture begins");
  check(!problem_run(p, r, "cuda", &(rec_run_options){0}) &&
            strstr(rec_message(), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
        "%s", rec_message());
  check(capture.end_capture(stream, &graph) != 0, "a broken capture gives a graph");
  problem_free(p);
}

// Kernels count steps in 32 bits. What is too long is refused before anything is read or written.
static void check_length(const rec_recurrence *r) {
  placed p;
  rec_host_session session;
  const int64_t time = (int64_t)1 << 31;
  place(r, NULL, &p);
  if (!check(
          rec_library_open(r, &p.call, &(rec_run_options){0}, &rec_cuda_memory, &session) == REC_OK,
          "%s", rec_message()))
    return;
  memcpy(session.arguments + 2 * sizeof time, &time, sizeof time);
  session.launch.workspace_bytes = (int64_t)1 << 60;
  check(rec_host_forward(&session) == REC_ERROR_ARGUMENT &&
            strstr(rec_message(),
                   "expected at most 2147483647 steps and 1073741823 blocks of a GPU, found "
                   "2147483648 and "),
        "%s", rec_message());
  rec_host_close(&session);
}

static void check_graphs(const rec_recurrence *r, const rec_recurrence *unloaded) {
  placed p;
  rec_host_session session;
  void *stream = NULL;
  capture.stream_create(&stream, 0);
  rec_device_memory memory = rec_cuda_memory;
  memory.stream = stream;
  place(r, stream, &p);
  for (int way = 0; way < 3; way++) {
    bool recompute = way > 0;
    const rec_run_options options = {
        .backward = true, .recompute = recompute, .time_slices = way == 2 ? 2 : 0};
    if (!check(rec_library_open(r, &p.call, &options, &memory, &session) == REC_OK, "%s",
               rec_message()))
      return;
    check_graph(r, &p, &session,
                way == 2    ? "states made again, in slices"
                : recompute ? "states made again"
                            : "states saved");
    if (recompute && unloaded) {
      // NAME_sizes was not called: the module is loaded while captured
      session.recurrence = unloaded;
      check_graph(r, &p, &session, "nothing loaded before");
    }
    rec_host_close(&session);
  }
  check_refusal(r, stream);
}

int main(void) {
  rec_module *module = NULL, *other = NULL, *third = NULL, *fourth = NULL, *fifth = NULL,
             *sixth = NULL, *seventh = NULL;
  cuda_context context;
  int pushed;
  if (!mkdtemp(folder) || !open_driver()) return checked();
  snprintf(log_path, sizeof log_path, "%s/calls", folder);
  const rec_recurrence *r = compile_at("gla", "gla", plain, &module),
                       *unloaded = compile_at("again", "gla", plain, &other),
                       *groups = compile_at("groups", "simple_gla", by_groups, &third),
                       *many = compile_many("many", MANY_PARAMETERS, &fourth),
                       *mlstm = compile_at("mlstm", "mlstm", plain, &fifth),
                       *rwkv4 = compile_at("rwkv4", "rwkv4",
                                           "--target sm_80,simt -D D=4 --form step", &sixth),
                       *too_many = compile_many("too_many", TOO_MANY_PARAMETERS, &seventh);
  bool all = r && unloaded && groups && many && mlstm && rwkv4 && too_many;
  if (all && check(cuda_enter(driver, 0, &context, &pushed) == REC_OK, "%s", rec_message())) {
    check_memory(r);
    check_slices(r, gla_slices);
    check_slices(mlstm, mlstm_slices);
    check_slices(rwkv4, rwkv4_slices);
    check_sums(many);
    check_limit(too_many);
    check_shortage(r);
    check_streams(r);
    check_graphs(r, unloaded);
    check_graphs(groups, NULL);
    check_graphs(rwkv4, NULL);
    check_length(r);
    cuda_leave(driver, pushed);
  }
  rec_module_close(module);
  rec_module_close(other);
  rec_module_close(third);
  rec_module_close(fourth);
  rec_module_close(fifth);
  rec_module_close(sixth);
  rec_module_close(seventh);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  check(system(command) == 0, "the folder stays");
  return checked();
}
