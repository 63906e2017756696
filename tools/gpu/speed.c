// Speed: what the machine copies and multiplies, then recurrences at given shapes.
//
//   mamba2-256k mamba2.so ssd 32 8192 G=1 R=128
//       a label, a library, its recurrence, batch, steps (or: step), sizes
//
// Before a shape is timed, its library is held against the host: the same sizes, but at most four
// entries of at most 512 steps. Errors may be as large as is usual, or as twice what one rounding
// of the inputs moves. Tensors lie on the GPU. A figure is the median of five rounds, each of as
// many calls as take a tenth of a second. The device is idle before and after each round. Bytes are
// those of inputs and outputs once; backward adds cotangents and gradients. Libraries of one shape
// that are made without a pass each (recc --without) are timed in turn, round by round. Operations
// are those of the cheapest algorithm known (runtime/limit.h), 2.2 times as many backward.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/clock.h"
#include "runtime/device.h"
#include "runtime/front.h"
#include "runtime/limit.h"
#include "tools/gpu/gpu_check.h"

enum { ROUNDS = 5, SIZES_MOST = 8, PIECE = 1 << 20 };
static const double round_seconds = 0.1;

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

double median_of(double *figures, int count) {
  qsort(figures, (size_t)count, sizeof *figures, by_size);
  return figures[count / 2];
}

// A round of so many calls: seconds of one, or 0. The device is idle when it begins.
static double seconds_of_round(const gpu *g, timed_call *call, void *data, int count) {
  double start = clock_seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < count; i++)
    if (!call(data)) return 0;
  return gpu_good(g, g->driver->context_synchronize(), "cuCtxSynchronize")
             ? (clock_seconds(CLOCK_MONOTONIC) - start) / count
             : 0;
}

// How many calls take `seconds`; 0 after a call that failed. The first call may load what the
// others find.
static int calls_of_round(const gpu *g, timed_call *call, void *data, double seconds) {
  double each = seconds_of_round(g, call, data, 1) > 0 ? seconds_of_round(g, call, data, 1) : 0;
  return each > 0 ? (int)fmin(1000, fmax(1, ceil(seconds / fmax(each, 1e-6)))) : 0;
}

double seconds_of(const gpu *g, timed_call *call, void *data) {
  double rounds[ROUNDS];
  int count = calls_of_round(g, call, data, round_seconds);
  for (int r = 0; r < ROUNDS; r++)
    if (!count || !((rounds[r] = seconds_of_round(g, call, data, count)) > 0)) return 0;
  return median_of(rounds, ROUNDS);
}

// ---- the machine ----

typedef struct machine_kernel {
  const gpu *g;
  cuda_function function;
  unsigned blocks;
  int64_t parameter[3];
} machine_kernel;

static bool call_machine(void *data) {
  machine_kernel *m = data;
  void *parameters[] = {m->parameter};
  return gpu_good(
      m->g,
      m->g->driver->launch(m->function, m->blocks, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL),
      "cuLaunchKernel");
}

int measure_machine(const gpu *g) {
  enum { COPY_BYTES = 1 << 29, MMA_ROUNDS = 4096 };
  cuda_module module;
  machine_kernel copy = {.g = g, .blocks = (unsigned)(8 * g->multiprocessors)}, mma = copy;
  cuda_pointer to = 0, from = 0;
  bool good = gpu_module(g, "machine", &module) &&
              gpu_function(g, module, "rec_copy", &copy.function) &&
              gpu_function(g, module, "rec_mma", &mma.function) &&
              gpu_good(g, g->driver->allocate(&to, COPY_BYTES), "cuMemAlloc") &&
              gpu_good(g, g->driver->allocate(&from, COPY_BYTES), "cuMemAlloc");
  if (good) {
    memcpy(copy.parameter, (int64_t[]){(int64_t)to, (int64_t)from, COPY_BYTES / 16},
           sizeof copy.parameter);
    memcpy(mma.parameter, (int64_t[]){(int64_t)to, MMA_ROUNDS, 0}, sizeof mma.parameter);
    double copying = seconds_of(g, call_machine, &copy),
           multiplying = seconds_of(g, call_machine, &mma);
    good = copying > 0 && multiplying > 0;
    if (good)
      printf(
          "{\"kind\": \"machine\", \"gigabytes_a_second\": %.1f, \"mma_sync_teraflops\": %.1f}\n",
          2e-9 * COPY_BYTES / copying,
          2e-12 * 8.0 * mma.blocks * MMA_ROUNDS * 8 * (16 * 8 * 16) / multiplying);
  }
  if (to) g->driver->release(to);
  if (from) g->driver->release(from);
  return !good;
}

// ---- shapes ----

typedef struct shape {
  char label[64], library[128], recurrence[64];
  int64_t batch, time;
  char sizes[SIZES_MOST][32];
  int size_count;
  bool steps;
} shape;

typedef struct measured {
  const gpu *g;
  const shape *shape;
  rec_module *module;
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  int64_t *axis_sizes;
  rec_call call;
  void **tables;
  rec_host_session session;
  double forward_bytes, backward_bytes, operations;
  bool once;
} measured;

static bool choose_sizes(measured *m, const recurrence *program) {
  for (int i = 0; i < m->signature->axis_count; i++) {
    const rec_axis *axis = &m->signature->axes[i];
    size_t length = strlen(axis->name);
    m->axis_sizes[i] = axis->size;
    for (int k = 0; k < m->shape->size_count; k++) {
      const char *text = m->shape->sizes[k];
      if (strncmp(text, axis->name, length) == 0 && text[length] == '=')
        m->axis_sizes[i] = strtoll(text + length + 1, NULL, 10);
    }
    if (m->axis_sizes[i] < 0 && axis->expression)
      rec_front_size(program, i, m->axis_sizes, &m->axis_sizes[i]);
    if (m->axis_sizes[i] > 0) continue;
    fprintf(stderr, "rec-gpu-check: %s: expected a size for the axis %s\n", m->shape->label,
            axis->name);
    return false;
  }
  return true;
}

static int64_t bytes_of(const measured *m, int i) {
  const rec_variable *v = &m->signature->variables[i];
  int64_t entries = is_token(v) ? m->call.batch * m->call.time : is_carried(v) ? m->call.batch : 1;
  rec_dtype type = is_token(v) ? m->signature->token_type : m->signature->carried_type;
  return entries * rec_variable_numbers(m->signature, i, m->axis_sizes) *
         (int64_t)rec_dtype_size(type);
}

// The tensor's first bytes on the GPU, copied behind themselves until it is full.
static bool fill_tensor(const gpu *g, cuda_pointer memory, size_t bytes, const char *piece) {
  size_t done = bytes < PIECE ? bytes : PIECE;
  bool good = gpu_good(g, g->driver->upload(memory, piece, done), "cuMemcpyHtoD");
  for (size_t more; done < bytes && good; done += more) {
    more = bytes - done < done ? bytes - done : done;
    good = gpu_good(g, g->driver->copy(memory + done, memory, more, NULL), "cuMemcpyDtoDAsync");
  }
  return good;
}

// Allocates a tensor on the GPU. Small numbers of both signs fill it, or what the recurrence's case
// says.
static bool make_tensor(const measured *m, int i, void **at) {
  const rec_variable *v = &m->signature->variables[i];
  rec_dtype type = is_token(v) ? m->signature->token_type : m->signature->carried_type;
  static char piece[PIECE];
  uint32_t seed = (uint32_t)i + 1;
  for (size_t k = 0; k < PIECE / rec_dtype_size(type); k++) {
    seed = seed * 1664525u + 1013904223u;
    double number = in_domain_of(m->recurrence, v->name, (double)(seed >> 8) * 0x1p-24 - 0.5);
    rec_convert(piece + k * rec_dtype_size(type), type, &number, REC_F64, 1);
  }
  cuda_pointer memory = 0;
  size_t bytes = (size_t)bytes_of(m, i);
  if (bytes == 0) return true;
  if (!gpu_good(m->g, m->g->driver->allocate(&memory, bytes), "cuMemAlloc")) return false;
  *at = (void *)(uintptr_t)memory;
  return fill_tensor(m->g, memory, bytes, piece);
}

static bool make_tensors(measured *m) {
  bool good = true;
  for (int i = 0; i < m->signature->variable_count && good; i++) {
    const rec_variable *v = &m->signature->variables[i];
    double bytes = (double)bytes_of(m, i);
    good = make_tensor(m, i, &m->call.value[i]);
    if (good && is_carried(v)) good = make_tensor(m, i, &m->call.final[i]);
    if (good && !m->shape->steps) good = make_tensor(m, i, &m->call.gradient[i]);
    m->forward_bytes += is_carried(v) ? 2 * bytes : bytes;
    m->backward_bytes += is_carried(v) ? 0 : v->kind == REC_OUTPUT ? bytes : 2 * bytes;
  }
  return good;
}

static void free_tensors(measured *m) {
  for (int i = 0; m->tables && i < 4 * m->signature->variable_count; i++)
    if (m->tables[i]) m->g->driver->release((cuda_pointer)(uintptr_t)m->tables[i]);
  free(m->tables);
  free(m->axis_sizes);
}

static bool answered(rec_status status) {
  if (status) fprintf(stderr, "rec-gpu-check: %s\n", rec_message());
  return status == REC_OK;
}

static bool call_forward(void *data) {
  return answered(rec_host_forward(&((measured *)data)->session));
}
static bool call_backward(void *data) {
  return answered(rec_host_backward(&((measured *)data)->session));
}
static bool call_step(void *data) { return answered(rec_host_step(&((measured *)data)->session)); }

// seconds < 0: not timed.
static int print_figure(const measured *m, const char *pass, double seconds, double bytes,
                        double operations) {
  printf(
      "{\"kind\": \"speed\", \"label\": \"%s\", \"by\": \"rec\", \"pass\": \"%s\", \"batch\": "
      "%lld, \"time\": %lld, \"bytes\": %.0f, \"operations\": %.4g",
      m->shape->label, pass, (long long)m->call.batch, (long long)m->call.time, bytes, operations);
  if (seconds > 0) printf(", \"milliseconds\": %.4f", 1e3 * seconds);
  printf("}\n");
  return seconds == 0;
}

static double time_of(measured *m, timed_call *call) {
  if (!m->once) return seconds_of(m->g, call, m);
  return call(m) && gpu_good(m->g, m->g->driver->context_synchronize(), "cuCtxSynchronize") ? -1
                                                                                            : 0;
}

static int measure_calls(measured *m) {
  double tokens = m->operations * (double)(m->call.batch * m->call.time);
  if (m->shape->steps)
    return print_figure(m, "step", time_of(m, call_step), m->forward_bytes, tokens);
  int failed = print_figure(m, "forward", time_of(m, call_forward), m->forward_bytes, tokens);
  double backward = failed ? 0 : time_of(m, call_backward);
  return failed +
         print_figure(m, "backward", backward, m->forward_bytes + m->backward_bytes, 2.2 * tokens);
}

static int64_t least_of(int64_t x, int64_t y) { return x < y ? x : y; }

static problem *problem_of(const measured *m, int64_t entries, int64_t steps) {
  problem *p = problem_new(m->signature, entries, steps, 1);
  memcpy(p->axis_sizes, m->axis_sizes, (size_t)m->signature->axis_count * sizeof *p->axis_sizes);
  return p;
}

// Few entries and steps, so that the host is not long at it; 512 steps, where there are not too
// many numbers, can be cut.
static problem *smaller_problem(const measured *m) {
  enum { ENTRIES = 4, STEPS = 512, NUMBERS = 1 << 24 };
  const shape *s = m->shape;
  int64_t entries = s->steps ? least_of(s->batch, 8 * ENTRIES) : least_of(s->batch, ENTRIES),
          steps = least_of(s->time, STEPS);
  int64_t numbers = 0;
  for (int i = 0; i < m->signature->variable_count; i++)
    if (is_token(&m->signature->variables[i]))
      numbers += rec_variable_numbers(m->signature, i, m->axis_sizes);
  while (steps > 64 && entries * steps * numbers > NUMBERS) steps /= 2;
  return problem_of(m, entries, steps);
}

static int check_shape(const measured *m, rec_run_options options) {
  char where[256] = "", members[256];
  time_loading(m->recurrence, m->shape->library, problem_of(m, 1, 1));
  problem *p = smaller_problem(m);
  draw_in_domains(m->recurrence, p, 1);
  double error = error_of_call(m->recurrence, p, options, where, sizeof where),
         tolerance = least_tolerance(m->recurrence);
  if (isfinite(error) && error > tolerance)
    tolerance = fmax(tolerance, 2 * movement_on_host(m->recurrence, p, options));
  snprintf(members, sizeof members,
           "\"kind\": \"shape\", \"label\": \"%s\", \"batch\": %lld, \"time\": %lld",
           m->shape->label, (long long)p->batch, (long long)p->time);
  print_check(members, error <= tolerance, error, tolerance, where);
  problem_free(p);
  return !(error <= tolerance);
}

// Opens the library of a shape; no tensors are there yet. False after a message.
static bool open_shape(measured *m, const char *folder) {
  char path[512];
  const shape *s = m->shape;
  snprintf(path, sizeof path, "%s/%s", folder, s->library);
  if (!answered(rec_module_open(path, &m->module))) return false;
  m->recurrence = rec_module_find(m->module, s->recurrence);
  if (!m->recurrence) {
    fprintf(stderr, "rec-gpu-check: %s has no recurrence %s\n", path, s->recurrence);
    return false;
  }
  m->signature = rec_recurrence_signature(m->recurrence);
  m->axis_sizes = calloc((size_t)m->signature->axis_count + 1, sizeof *m->axis_sizes);
  m->call = (rec_call){.batch = s->batch, .time = s->time, .axis_sizes = m->axis_sizes};
  m->tables = rec_call_tables(m->signature, &m->call);
  if (!m->tables || !m->axis_sizes) return false;
  const recurrence *program;
  bool good = answered(rec_program_of(m->recurrence, &program)) && choose_sizes(m, program);
  if (good) m->operations = rec_limit_forward(program, m->axis_sizes);
  return good;
}

static bool open_session(measured *m) {
  const rec_run_options options = {.backward = !m->shape->steps, .step = m->shape->steps};
  return answered(
      rec_library_open(m->recurrence, &m->call, &options, &rec_cuda_memory, &m->session));
}

static int measure_shape(const gpu *g, const char *folder, const shape *s, bool once) {
  measured m = {.g = g, .shape = s, .once = once};
  bool good = open_shape(&m, folder);
  int failed = good && !once
                   ? check_shape(&m, (rec_run_options){.backward = !s->steps, .step = s->steps})
                   : 0;
  good = good && make_tensors(&m) && open_session(&m);
  failed += good ? measure_calls(&m) : 1;
  rec_host_close(&m.session);
  free_tensors(&m);
  rec_module_close(m.module);
  return failed;
}

// False for empty lines and comments.
static bool read_shape(char *line, shape *s) {
  *s = (shape){0};
  char *word = strtok(line, " \n");
  for (int i = 0; word && *word != '#'; word = strtok(NULL, " \n"), i++) {
    if (i == 0) snprintf(s->label, sizeof s->label, "%s", word);
    if (i == 1) snprintf(s->library, sizeof s->library, "%s", word);
    if (i == 2) snprintf(s->recurrence, sizeof s->recurrence, "%s", word);
    if (i == 3) s->batch = strtoll(word, NULL, 10);
    if (i == 4) s->steps = strcmp(word, "step") == 0;
    if (i == 4) s->time = s->steps ? 1 : strtoll(word, NULL, 10);
    if (i > 4 && s->size_count < SIZES_MOST)
      snprintf(s->sizes[s->size_count++], sizeof *s->sizes, "%s", word);
  }
  return s->time > 0 && strcmp(s->label, "library") != 0 && strcmp(s->label, "passes") != 0;
}

static FILE *open_shapes(const char *shapes) {
  FILE *file = fopen(shapes, "r");
  if (!file) fprintf(stderr, "rec-gpu-check: cannot read %s\n", shapes);
  return file;
}

int measure_shapes(const gpu *g, const char *folder, const char *shapes, bool once) {
  char line[512];
  int failed = 0;
  FILE *file = open_shapes(shapes);
  if (!file) return 1;
  while (fgets(line, sizeof line, file)) {
    shape s;
    if (read_shape(line, &s)) failed += measure_shape(g, folder, &s, once);
  }
  fclose(file);
  return failed;
}

// ---- passes: libraries of one shape, each made without a pass, in turn ----

enum { VARIANTS_MOST = 16 };

typedef struct variants {
  shape shapes[VARIANTS_MOST];
  measured libraries[VARIANTS_MOST];  // all read and write the tensors of the first
  bool ready[VARIANTS_MOST];
  int count;
} variants;

static bool read_variants(variants *v, const char *shapes) {
  char line[512];
  FILE *file = open_shapes(shapes);
  if (!file) return false;
  while (v->count < VARIANTS_MOST && fgets(line, sizeof line, file))
    v->count += read_shape(line, &v->shapes[v->count]);
  fclose(file);
  return v->count > 0;
}

// One that does not open has no session. False: there is none to hold the others against.
static bool open_variants(variants *v, const gpu *g, const char *folder) {
  for (int i = 0; i < v->count; i++) {
    measured *m = &v->libraries[i];
    *m = (measured){.g = g, .shape = &v->shapes[i]};
    v->ready[i] = open_shape(m, folder);
    int64_t *sizes = m->axis_sizes;
    if (v->ready[i] && i) m->call = v->libraries[0].call, m->call.axis_sizes = sizes;
    if (!i && !(v->ready[0] && make_tensors(m))) return false;
    v->ready[i] = v->ready[i] && open_session(m);
  }
  return true;
}

// Rounds of all libraries in turn, so that a clock that falls slows all of them.
static int measure_pass(variants *v, const char *pass, timed_call *call) {
  static const double seconds = 0.04;
  double rounds[VARIANTS_MOST][ROUNDS];
  int calls[VARIANTS_MOST], failed = 0;
  for (int i = 0; i < v->count; i++)
    calls[i] = v->ready[i] ? calls_of_round(v->libraries[i].g, call, &v->libraries[i], seconds) : 0;
  for (int r = 0; r < ROUNDS; r++)
    for (int i = 0; i < v->count; i++)
      rounds[i][r] =
          calls[i] ? seconds_of_round(v->libraries[i].g, call, &v->libraries[i], calls[i]) : 0;
  for (int i = 0; i < v->count; i++) {
    qsort(rounds[i], ROUNDS, sizeof *rounds[i], by_size);
    bool good = rounds[i][0] > 0;
    printf(
        "{\"kind\": \"pass\", \"label\": \"%s\", \"without\": \"%s\", \"pass\": \"%s\", "
        "\"passed\": %s",
        v->shapes[0].label, i ? v->shapes[i].label : "", pass, good ? "true" : "false");
    if (good)
      printf(", \"milliseconds\": %.4f, \"least\": %.4f", 1e3 * rounds[i][ROUNDS / 2],
             1e3 * rounds[i][0]);
    printf("}\n");
    failed += !good;
  }
  return failed;
}

int measure_passes(const gpu *g, const char *folder, const char *shapes) {
  static variants v;
  if (!read_variants(&v, shapes) || !open_variants(&v, g, folder)) return 1;
  int failed =
      measure_pass(&v, "forward", call_forward) + measure_pass(&v, "backward", call_backward);
  for (int i = 0; i < v.count; i++)
    if (v.ready[i]) rec_host_close(&v.libraries[i].session);
  free_tensors(&v.libraries[0]);
  for (int i = 0; i < v.count; i++) {
    if (i) free(v.libraries[i].tables), free(v.libraries[i].axis_sizes);
    if (v.libraries[i].module) rec_module_close(v.libraries[i].module);
  }
  return failed;
}
