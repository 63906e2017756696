// Speed: what the machine copies and multiplies, then recurrences at given shapes.
//
//   mamba2-256k mamba2.so ssd 32 8192 G=1 R=128
//       a label, a library, its recurrence, batch, steps (or: step), sizes
//
// Before a shape is timed, its library is held against the host: the same sizes, but at most four entries of at most 512 steps.
// Errors may be as large as is usual, or as twice what one rounding of the inputs moves.
// Tensors lie on the GPU. A figure is the median of five rounds, each of as many calls as take a tenth of a second. The device
// is idle before and after each round. Bytes are those of inputs and outputs once; backward adds cotangents and gradients.
// Operations are those of the cheapest algorithm known (runtime/limit.h), 2.2 times as many backward.
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

double seconds_of(const gpu *g, timed_call *call, void *data) {
  double rounds[ROUNDS];
  int count = 1;
  if (!call(data) || !gpu_good(g, g->driver->context_synchronize(), "cuCtxSynchronize")) return 0;
  for (int r = -1; r < ROUNDS; r++) {
    double start = seconds_now();
    for (int i = 0; i < count; i++)
      if (!call(data)) return 0;
    if (!gpu_good(g, g->driver->context_synchronize(), "cuCtxSynchronize")) return 0;
    double each = (seconds_now() - start) / count;
    if (r >= 0) rounds[r] = each;
    if (r < 0) count = (int)fmin(1000, fmax(1, ceil(round_seconds / fmax(each, 1e-6))));
  }
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
  return gpu_good(m->g, m->g->driver->launch(m->function, m->blocks, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL),
                  "cuLaunchKernel");
}

int measure_machine(const gpu *g) {
  enum { COPY_BYTES = 1 << 29, MMA_ROUNDS = 4096 };
  cuda_module module;
  machine_kernel copy = {.g = g, .blocks = (unsigned)(8 * g->multiprocessors)}, mma = copy;
  cuda_pointer to = 0, from = 0;
  bool good = gpu_module(g, "machine", &module) && gpu_function(g, module, "rec_copy", &copy.function) &&
              gpu_function(g, module, "rec_mma", &mma.function) &&
              gpu_good(g, g->driver->allocate(&to, COPY_BYTES), "cuMemAlloc") &&
              gpu_good(g, g->driver->allocate(&from, COPY_BYTES), "cuMemAlloc");
  if (good) {
    memcpy(copy.parameter, (int64_t[]){(int64_t)to, (int64_t)from, COPY_BYTES / 16}, sizeof copy.parameter);
    memcpy(mma.parameter, (int64_t[]){(int64_t)to, MMA_ROUNDS, 0}, sizeof mma.parameter);
    double copying = seconds_of(g, call_machine, &copy), multiplying = seconds_of(g, call_machine, &mma);
    good = copying > 0 && multiplying > 0;
    if (good)
      printf("{\"kind\": \"machine\", \"gigabytes_a_second\": %.1f, \"mma_sync_teraflops\": %.1f}\n",
             2e-9 * COPY_BYTES / copying, 2e-12 * 8.0 * mma.blocks * MMA_ROUNDS * 8 * (16 * 8 * 16) / multiplying);
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
    if (m->axis_sizes[i] < 0 && axis->expression) rec_front_size(program, i, m->axis_sizes, &m->axis_sizes[i]);
    if (m->axis_sizes[i] > 0) continue;
    fprintf(stderr, "rec-gpu-check: %s: expected a size for the axis %s\n", m->shape->label, axis->name);
    return false;
  }
  return true;
}

static int64_t bytes_of(const measured *m, int i) {
  const rec_variable *v = &m->signature->variables[i];
  int64_t entries = is_token(v) ? m->call.batch * m->call.time : is_carried(v) ? m->call.batch : 1;
  rec_dtype type = is_token(v) ? m->signature->token_type : m->signature->carried_type;
  return entries * rec_variable_numbers(m->signature, i, m->axis_sizes) * (int64_t)rec_dtype_size(type);
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

// Allocates a tensor on the GPU. Small numbers of both signs fill it, or what the recurrence's case says.
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
  rec_host_close(&m->session);
  for (int i = 0; i < 4 * m->signature->variable_count; i++)
    if (m->tables[i]) m->g->driver->release((cuda_pointer)(uintptr_t)m->tables[i]);
  free(m->tables);
  free(m->axis_sizes);
}

static bool answered(rec_status status) {
  if (status) fprintf(stderr, "rec-gpu-check: %s\n", rec_message());
  return status == REC_OK;
}

static bool call_forward(void *data) { return answered(rec_host_forward(&((measured *)data)->session)); }
static bool call_backward(void *data) { return answered(rec_host_backward(&((measured *)data)->session)); }
static bool call_step(void *data) { return answered(rec_host_step(&((measured *)data)->session)); }

// seconds < 0: not timed.
static int print_figure(const measured *m, const char *pass, double seconds, double bytes, double operations) {
  printf(
      "{\"kind\": \"speed\", \"label\": \"%s\", \"by\": \"rec\", \"pass\": \"%s\", \"batch\": %lld, \"time\": %lld, "
      "\"bytes\": %.0f, \"operations\": %.4g",
      m->shape->label, pass, (long long)m->call.batch, (long long)m->call.time, bytes, operations);
  if (seconds > 0) printf(", \"milliseconds\": %.4f", 1e3 * seconds);
  printf("}\n");
  return seconds == 0;
}

static double time_of(measured *m, timed_call *call) {
  if (!m->once) return seconds_of(m->g, call, m);
  return call(m) && gpu_good(m->g, m->g->driver->context_synchronize(), "cuCtxSynchronize") ? -1 : 0;
}

static int measure_calls(measured *m) {
  double tokens = m->operations * (double)(m->call.batch * m->call.time);
  if (m->shape->steps) return print_figure(m, "step", time_of(m, call_step), m->forward_bytes, tokens);
  int failed = print_figure(m, "forward", time_of(m, call_forward), m->forward_bytes, tokens);
  double backward = failed ? 0 : time_of(m, call_backward);
  return failed + print_figure(m, "backward", backward, m->forward_bytes + m->backward_bytes, 2.2 * tokens);
}

static int64_t least_of(int64_t x, int64_t y) { return x < y ? x : y; }

static problem *problem_of(const measured *m, int64_t entries, int64_t steps) {
  problem *p = problem_new(m->signature, entries, steps, 1);
  memcpy(p->axis_sizes, m->axis_sizes, (size_t)m->signature->axis_count * sizeof *p->axis_sizes);
  return p;
}

// Few entries and steps, so that the host is not long at it; 512 steps, where there are not too many numbers, can be cut.
static problem *smaller_problem(const measured *m) {
  enum { ENTRIES = 4, STEPS = 512, NUMBERS = 1 << 24 };
  const shape *s = m->shape;
  int64_t entries = s->steps ? least_of(s->batch, 8 * ENTRIES) : least_of(s->batch, ENTRIES), steps = least_of(s->time, STEPS);
  int64_t numbers = 0;
  for (int i = 0; i < m->signature->variable_count; i++)
    if (is_token(&m->signature->variables[i])) numbers += rec_variable_numbers(m->signature, i, m->axis_sizes);
  while (steps > 64 && entries * steps * numbers > NUMBERS) steps /= 2;
  return problem_of(m, entries, steps);
}

static int check_shape(const measured *m, rec_run_options options) {
  char where[256] = "", members[256];
  time_loading(m->recurrence, m->shape->library, problem_of(m, 1, 1));
  problem *p = smaller_problem(m);
  draw_in_domains(m->recurrence, p, 1);
  double error = error_of_call(m->recurrence, p, options, where, sizeof where), tolerance = least_tolerance(m->recurrence);
  if (isfinite(error) && error > tolerance) tolerance = fmax(tolerance, 2 * movement_on_host(m->recurrence, p, options));
  snprintf(members, sizeof members, "\"kind\": \"shape\", \"label\": \"%s\", \"batch\": %lld, \"time\": %lld", m->shape->label,
           (long long)p->batch, (long long)p->time);
  print_check(members, error <= tolerance, error, tolerance, where);
  problem_free(p);
  return !(error <= tolerance);
}

static int measure_shape(const gpu *g, const char *folder, const shape *s, bool once) {
  char path[512];
  rec_module *module;
  const recurrence *program;
  snprintf(path, sizeof path, "%s/%s", folder, s->library);
  if (!answered(rec_module_open(path, &module))) return 1;
  measured m = {.g = g, .shape = s, .recurrence = rec_module_find(module, s->recurrence), .once = once};
  if (!m.recurrence) {
    fprintf(stderr, "rec-gpu-check: %s has no recurrence %s\n", path, s->recurrence);
    return 1;
  }
  m.signature = rec_recurrence_signature(m.recurrence);
  size_t count = (size_t)m.signature->variable_count;
  m.tables = calloc(4 * count + 1, sizeof *m.tables);
  m.axis_sizes = calloc((size_t)m.signature->axis_count + 1, sizeof *m.axis_sizes);
  if (!m.tables || !m.axis_sizes) return 1;
  m.call = (rec_call){.batch = s->batch,
                      .time = s->time,
                      .axis_sizes = m.axis_sizes,
                      .value = m.tables,
                      .final = m.tables + count,
                      .gradient = m.tables + 2 * count,
                      .d_final = m.tables + 3 * count};
  const rec_run_options options = {.backward = !s->steps, .step = s->steps};
  bool good = answered(rec_program_of(m.recurrence, &program)) && choose_sizes(&m, program);
  if (good) m.operations = rec_limit_forward(program, m.axis_sizes);
  int failed = good && !once ? check_shape(&m, options) : 0;
  good = good && make_tensors(&m) && answered(rec_library_open(m.recurrence, &m.call, &options, &rec_cuda_memory, &m.session));
  failed += good ? measure_calls(&m) : 1;
  free_tensors(&m);
  rec_module_close(module);
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
    if (i > 4 && s->size_count < SIZES_MOST) snprintf(s->sizes[s->size_count++], sizeof *s->sizes, "%s", word);
  }
  return s->time > 0 && strcmp(s->label, "library") != 0;
}

int measure_shapes(const gpu *g, const char *folder, const char *shapes, bool once) {
  char line[512];
  int failed = 0;
  FILE *file = fopen(shapes, "r");
  if (!file) {
    fprintf(stderr, "rec-gpu-check: cannot read %s\n", shapes);
    return 1;
  }
  while (fgets(line, sizeof line, file)) {
    shape s;
    if (read_shape(line, &s)) failed += measure_shape(g, folder, &s, once);
  }
  fclose(file);
  return failed;
}
