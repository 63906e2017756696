#include "tests/runtime/problem.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/abi/simt_options.h"
#include "runtime/bind.h"
#include "runtime/device.h"

bool is_token(const rec_variable *v) { return v->kind == REC_INPUT || v->kind == REC_OUTPUT; }
bool is_carried(const rec_variable *v) { return v->kind == REC_STATE || v->kind == REC_LAG; }

double next_uniform(uint64_t *state) { return (double)(next_random(state) >> 11) * 0x1p-53; }

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  if (!memory) abort();
  return memory;
}

static double *copy_numbers(const double *numbers, int64_t count) {
  if (!numbers) return NULL;
  double *copy = allocate((size_t)count, sizeof *copy);
  memcpy(copy, numbers, (size_t)count * sizeof *copy);
  return copy;
}

problem *problem_new(const rec_signature *signature, int64_t batch, int64_t time,
                     int64_t run_time_size) {
  size_t count = (size_t)signature->variable_count;
  problem *p = allocate(1, sizeof *p);
  double **tables = allocate(4 * count, sizeof *tables);
  *p = (problem){.signature = signature, .batch = batch, .time = time};
  p->value = tables;
  p->final = tables + count;
  p->gradient = tables + 2 * count;
  p->d_final = tables + 3 * count;
  p->axis_sizes = allocate((size_t)signature->axis_count, sizeof *p->axis_sizes);
  for (int i = 0; i < signature->axis_count; i++)
    p->axis_sizes[i] = signature->axes[i].size >= 0 ? signature->axes[i].size : run_time_size;
  return p;
}

problem *problem_packed(const rec_signature *signature, const int32_t *lengths, int64_t sequences,
                        int64_t run_time_size) {
  int32_t *offsets = allocate((size_t)sequences + 1, sizeof *offsets);
  for (int64_t i = 0; i < sequences; i++) offsets[i + 1] = offsets[i] + lengths[i];
  problem *p = problem_new(signature, 1, offsets[sequences], run_time_size);
  p->sequences = sequences;
  p->cu_seqlens = offsets;
  return p;
}

void problem_free(problem *p) {
  if (!p) return;
  for (int i = 0; i < 4 * p->signature->variable_count; i++) free(p->value[i]);
  free(p->value);
  free(p->axis_sizes);
  free(p->cu_seqlens);
  free(p);
}

int64_t problem_numbers(const problem *p, int variable) {
  const rec_variable *v = &p->signature->variables[variable];
  int64_t numbers = rec_variable_numbers(p->signature, variable, p->axis_sizes);
  if (is_token(v)) return numbers * p->batch * p->time;
  return is_carried(v) ? numbers * (p->cu_seqlens ? p->sequences : p->batch) : numbers;
}

// A problem of the same sizes but for time.
static problem *like(const problem *p, int64_t time) {
  problem *q = problem_new(p->signature, p->batch, time, 0);
  memcpy(q->axis_sizes, p->axis_sizes, (size_t)p->signature->axis_count * sizeof *q->axis_sizes);
  return q;
}

problem *problem_copy(const problem *p) {
  problem *q = like(p, p->time);
  if (p->cu_seqlens) {
    q->sequences = p->sequences;
    q->cu_seqlens = allocate((size_t)p->sequences + 1, sizeof *q->cu_seqlens);
    memcpy(q->cu_seqlens, p->cu_seqlens, ((size_t)p->sequences + 1) * sizeof *q->cu_seqlens);
  }
  for (int i = 0; i < p->signature->variable_count; i++) {
    rec_kind kind = p->signature->variables[i].kind;
    int64_t count = problem_numbers(p, i);
    if (kind != REC_OUTPUT)
      q->value[i] = copy_numbers(p->value[i], count);
    else
      q->gradient[i] = copy_numbers(p->gradient[i], count);
    q->d_final[i] = copy_numbers(p->d_final[i], count);
  }
  return q;
}

static rec_dtype stored_type(const problem *p, int i) {
  const rec_signature *s = p->signature;
  return is_token(&s->variables[i]) ? s->token_type : s->carried_type;
}

static void round_numbers(rec_dtype type, double *numbers, int64_t count) {
  uint16_t narrow;
  for (int64_t k = 0; rec_dtype_size(type) == 2 && numbers && k < count; k++) {
    if (type == REC_F16) numbers[k] = fmax(fmin(numbers[k], 65504), -65504);
    rec_convert(&narrow, type, &numbers[k], REC_F64, 1);
    rec_convert(&numbers[k], REC_F64, &narrow, type, 1);
  }
}

void problem_retype(problem *p, const rec_signature *signature) {
  p->signature = signature;
  for (int i = 0; i < signature->variable_count; i++) {
    round_numbers(stored_type(p, i), p->value[i], problem_numbers(p, i));
    if (is_token(&signature->variables[i]))
      round_numbers(stored_type(p, i), p->gradient[i], problem_numbers(p, i));
  }
}

static double draw(uint64_t *state, double scale) {
  double sum = 0;  // nearly normal: twelve uniform draws
  for (int i = 0; i < 12; i++) sum += next_uniform(state);
  return (float)(scale * (sum - 6));
}

void problem_draw(problem *p, uint64_t seed, double scale) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    double **table = v->kind == REC_OUTPUT ? &p->gradient[i] : &p->value[i];
    int64_t count = problem_numbers(p, i);
    *table = allocate((size_t)count, sizeof **table);
    if (is_carried(v)) p->d_final[i] = allocate((size_t)count, sizeof **table);
    for (int64_t k = 0; k < count; k++) {
      (*table)[k] = draw(&seed, scale);
      if (is_carried(v)) p->d_final[i][k] = draw(&seed, scale);
    }
    round_numbers(stored_type(p, i), *table, count);
  }
}

// Multiplies every number that the problem reads by 1 + e, |e| <= size: how far do the results
// move?
static void problem_shake(problem *p, uint64_t seed, double size) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    int64_t count = problem_numbers(p, i);
    double *lists[] = {p->value[i], p->gradient[i], p->d_final[i]};
    for (int l = 0; l < 3; l++)
      for (int64_t k = 0; lists[l] && k < count; k++)
        lists[l][k] *= 1 + size * (2 * next_uniform(&seed) - 1);
  }
}

problem *problem_load(const rec_recurrence *recurrence, const char *path, bool backward) {
  const rec_signature *signature = rec_recurrence_signature(recurrence);
  rec_file *file;
  rec_binding b;
  if (rec_file_open(path, &file)) return NULL;
  rec_status status = rec_bind(signature, rec_device_find("reference"), file, backward, &b);
  rec_file_close(file);
  if (status) return NULL;
  problem *p = problem_new(signature, b.call.batch, b.call.time, 0);
  memcpy(p->axis_sizes, b.axis_sizes, (size_t)signature->axis_count * sizeof *p->axis_sizes);
  for (int i = 0; i < signature->variable_count; i++) {
    int64_t count = problem_numbers(p, i);
    if (signature->variables[i].kind != REC_OUTPUT)
      p->value[i] = copy_numbers(b.call.value[i], count);
    else
      p->gradient[i] = copy_numbers(b.call.gradient[i], count);
    p->d_final[i] = copy_numbers(b.call.d_final[i], count);
  }
  rec_binding_free(&b);
  return p;
}

// ---- Splitting in time -----------------------------------------------------------------------

// Copies steps between a whole's tokens and a part's, which starts at `first`.
static void copy_steps(const problem *whole, double *there, const problem *part, double *here,
                       int variable, int64_t first, bool to_whole) {
  int64_t numbers = rec_variable_numbers(whole->signature, variable, whole->axis_sizes);
  for (int64_t b = 0; b < whole->batch; b++) {
    double *w = there + (b * whole->time + first) * numbers, *p = here + b * part->time * numbers;
    memcpy(to_whole ? w : p, to_whole ? p : w, (size_t)(part->time * numbers) * sizeof *w);
  }
}

problem *problem_part(const problem *p, int64_t first, int64_t last) {
  problem *q = like(p, last - first);
  for (int i = 0; i < p->signature->variable_count; i++) {
    rec_kind kind = p->signature->variables[i].kind;
    if (kind == REC_PARAM) q->value[i] = copy_numbers(p->value[i], problem_numbers(p, i));
    double *whole = kind == REC_INPUT ? p->value[i] : kind == REC_OUTPUT ? p->gradient[i] : NULL;
    if (!whole) continue;
    double **part = kind == REC_INPUT ? &q->value[i] : &q->gradient[i];
    *part = allocate((size_t)problem_numbers(q, i), sizeof **part);
    copy_steps(p, whole, q, *part, i, first, false);
  }
  return q;
}

static double *copy_part(const problem *p, const double *numbers, int variable, int64_t first,
                         int64_t entries) {
  int64_t each = rec_variable_numbers(p->signature, variable, p->axis_sizes);
  return numbers ? copy_numbers(numbers + first * each, entries * each) : NULL;
}

problem *problem_sequence(const problem *p, int64_t sequence) {
  int64_t first = p->cu_seqlens[sequence];
  problem *q = like(p, p->cu_seqlens[sequence + 1] - first);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    int64_t from = is_token(v) ? first : is_carried(v) ? sequence : 0;
    int64_t entries = is_token(v) ? q->time : 1;
    if (v->kind != REC_OUTPUT)
      q->value[i] = copy_part(p, p->value[i], i, from, entries);
    else
      q->gradient[i] = copy_part(p, p->gradient[i], i, from, entries);
    q->d_final[i] = copy_part(p, p->d_final[i], i, from, entries);
  }
  return q;
}

bool sequence_equal(const problem *packed, int64_t sequence, const problem *alone) {
  for (int i = 0; i < packed->signature->variable_count; i++) {
    const rec_variable *v = &packed->signature->variables[i];
    bool output = v->kind == REC_OUTPUT;
    if (!output && !is_carried(v)) continue;
    int64_t each = rec_variable_numbers(packed->signature, i, packed->axis_sizes);
    const double *whole = output ? packed->value[i] : packed->final[i],
                 *one = output ? alone->value[i] : alone->final[i];
    whole += each * (output ? packed->cu_seqlens[sequence] : sequence);
    if (memcmp(whole, one, (size_t)(each * (output ? alone->time : 1)) * sizeof *one)) return false;
  }
  return true;
}

static void replace(double **numbers, const double *by, int64_t count) {
  free(*numbers);
  *numbers = copy_numbers(by, count);
}

void hand_state_on(const problem *before, problem *after) {
  for (int i = 0; i < before->signature->variable_count; i++) {
    if (!is_carried(&before->signature->variables[i])) continue;
    replace(&after->value[i], before->final[i], problem_numbers(before, i));
  }
}

void hand_gradient_back(problem *before, const problem *after) {
  for (int i = 0; i < before->signature->variable_count; i++) {
    if (!is_carried(&before->signature->variables[i])) continue;
    replace(&before->d_final[i], after->gradient[i], problem_numbers(before, i));
  }
}

problem *problem_join(const problem *whole, const problem *before, const problem *after) {
  problem *q = problem_copy(whole);
  for (int i = 0; i < q->signature->variable_count; i++) {
    rec_kind kind = q->signature->variables[i].kind;
    int64_t count = problem_numbers(q, i);
    if (is_carried(&q->signature->variables[i])) {
      q->final[i] = copy_numbers(after->final[i], count);
      q->gradient[i] = copy_numbers(before->gradient[i], count);
    } else if (kind == REC_PARAM) {
      q->gradient[i] = copy_numbers(before->gradient[i], count);
      for (int64_t k = 0; q->gradient[i] && k < count; k++)
        q->gradient[i][k] += after->gradient[i][k];
    } else {
      double **to = kind == REC_INPUT ? &q->gradient[i] : &q->value[i];
      double *first = kind == REC_INPUT ? before->gradient[i] : before->value[i];
      double *second = kind == REC_INPUT ? after->gradient[i] : after->value[i];
      if (!first) continue;
      *to = allocate((size_t)count, sizeof **to);
      copy_steps(q, *to, before, first, i, 0, true);
      copy_steps(q, *to, after, second, i, before->time, true);
    }
  }
  return q;
}

// ---- Running ---------------------------------------------------------------------------------

static rec_dtype type_of(const problem *p, const rec_device *device, int i) {
  return rec_device_type(device, stored_type(p, i));
}

static size_t whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

// Zeros that end where a page begins that must not be touched.
static void *before_a_wall(size_t bytes) {
  size_t pages = whole_pages(bytes);
  char *memory = mmap(NULL, pages + whole_pages(1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + pages, whole_pages(1), PROT_NONE)) abort();
  return memory + pages - bytes;
}

static size_t device_bytes(const problem *p, const rec_device *device, int i) {
  return (size_t)problem_numbers(p, i) * rec_dtype_size(type_of(p, device, i));
}

static void free_on_device(const problem *p, const rec_device *device, int i, void *buffer) {
  size_t bytes = device_bytes(p, device, i), pages = whole_pages(bytes);
  if (buffer) munmap((char *)buffer + bytes - pages, pages + whole_pages(1));
}

static void *to_device(const problem *p, const rec_device *device, int i, const double *numbers) {
  int64_t count = problem_numbers(p, i);
  rec_dtype type = type_of(p, device, i);
  void *buffer = before_a_wall(device_bytes(p, device, i));
  if (numbers && rec_convert(buffer, type, numbers, REC_F64, count)) abort();
  return buffer;
}

static void from_device(const problem *p, const rec_device *device, int i, const void *buffer,
                        double **numbers) {
  int64_t count = problem_numbers(p, i);
  free(*numbers);
  *numbers = allocate((size_t)count, sizeof **numbers);
  if (rec_convert(*numbers, REC_F64, buffer, type_of(p, device, i), count)) abort();
}

static void fill_call(const problem *p, const rec_device *device, bool backward, rec_call *call) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    bool carried = is_carried(v);
    if (!carried || p->value[i]) call->value[i] = to_device(p, device, i, p->value[i]);
    if (carried) call->final[i] = to_device(p, device, i, NULL);
    if (!backward) continue;
    const double *cotangent = v->kind == REC_OUTPUT ? p->gradient[i] : NULL;
    if (v->kind != REC_OUTPUT || cotangent) call->gradient[i] = to_device(p, device, i, cotangent);
    if (carried && p->d_final[i]) call->d_final[i] = to_device(p, device, i, p->d_final[i]);
  }
}

static void keep_results(problem *p, const rec_device *device, bool backward,
                         const rec_call *call) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    if (v->kind == REC_OUTPUT) from_device(p, device, i, call->value[i], &p->value[i]);
    if (is_carried(v)) from_device(p, device, i, call->final[i], &p->final[i]);
    if (backward && v->kind != REC_OUTPUT)
      from_device(p, device, i, call->gradient[i], &p->gradient[i]);
  }
}

// The call of a problem on a device, until `run` is through with it.
static bool with_call(problem *p, const rec_device *device, bool backward,
                      rec_status (*run)(void *context, const rec_call *call), void *context) {
  size_t count = (size_t)p->signature->variable_count;
  rec_call call = {.batch = p->batch,
                   .time = p->time,
                   .sequences = p->sequences,
                   .cu_seqlens = p->cu_seqlens,
                   .axis_sizes = p->axis_sizes};
  void **all = rec_call_tables(p->signature, &call);
  if (!all) abort();
  fill_call(p, device, backward, &call);
  rec_status status = run(context, &call);
  if (!status) keep_results(p, device, backward, &call);
  for (size_t i = 0; i < 4 * count; i++) free_on_device(p, device, (int)(i % count), all[i]);
  free(all);
  return !status;
}

typedef struct device_run {
  const rec_recurrence *recurrence;
  const rec_device *device;
  const rec_run_options *options;
  problem_session *use;
  void *context;
} device_run;

static rec_status run_call(void *context, const rec_call *call) {
  const device_run *x = context;
  return rec_run(x->recurrence, x->device, call, x->options);
}

bool problem_run_on(problem *p, const rec_recurrence *recurrence, const rec_device *device,
                    const rec_run_options *options) {
  device_run x = {recurrence, device, options, NULL, NULL};
  return with_call(p, device, options->backward, run_call, &x);
}

// The executor looks for races in tensors, too, unless the caller has options of its own for it, or
// wants several threads.
bool problem_run(problem *p, const rec_recurrence *recurrence, const char *name,
                 const rec_run_options *options) {
  rec_simt_options simt = {.size = sizeof simt, .watched = true};
  rec_run_options watched = *options;
  if (!strcmp(name, "simt") && !options->simt && options->threads < 2) watched.simt = &simt;
  return problem_run_on(p, recurrence, rec_device_find(name), &watched);
}

problem *problem_run_split(const problem *whole, int64_t at, const rec_recurrence *recurrence,
                           const char *device, const rec_run_options *options) {
  rec_run_options forward = *options;
  forward.backward = forward.step = false;
  problem *first = problem_part(whole, 0, at), *second = problem_part(whole, at, whole->time);
  // The whole's initial state and final cotangent belong to the ends.
  for (int i = 0; i < whole->signature->variable_count; i++) {
    if (!is_carried(&whole->signature->variables[i])) continue;
    first->value[i] = copy_numbers(whole->value[i], problem_numbers(whole, i));
    second->d_final[i] = copy_numbers(whole->d_final[i], problem_numbers(whole, i));
  }
  bool ran = problem_run(first, recurrence, device, &forward);
  if (ran) hand_state_on(first, second);
  ran = ran && problem_run(second, recurrence, device, options);
  if (ran && options->backward) {
    hand_gradient_back(first, second);
    ran = problem_run(first, recurrence, device, options);
  }
  problem *joined = ran ? problem_join(whole, first, second) : NULL;
  problem_free(first);
  problem_free(second);
  return joined;
}

static rec_status run_session(void *context, const rec_call *call) {
  const device_run *x = context;
  rec_host_session session;
  rec_device_memory memory = rec_host_memory;
  memory.name = x->device->name;
  if (x->device != rec_device_find("host")) memory.kind = REC_DEVICE_SIMT;
  rec_status status = rec_library_open(x->recurrence, call, x->options, &memory, &session);
  if (status) return status;
  status = x->use(x->context, &session);
  rec_host_close(&session);
  return status;
}

bool problem_use(problem *p, const rec_recurrence *recurrence, const char *name,
                 const rec_run_options *options, problem_session *use, void *context) {
  device_run x = {recurrence, rec_device_find(name), options, use, context};
  return with_call(p, x.device, options->backward, run_session, &x);
}

// ---- Comparing -------------------------------------------------------------------------------

static double rms(const double *numbers, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++) sum += numbers[k] * numbers[k];
  return count ? sqrt(sum / (double)count) : 0;
}

// The results of variable i: a value (or final state) and, after backward, a gradient.
static int results(const problem *p, int i, bool backward, double **list, const char **prefix) {
  const rec_variable *v = &p->signature->variables[i];
  int count = 0;
  list[0] = list[1] = NULL;
  if (v->kind == REC_OUTPUT) {
    list[0] = p->value[i];
    prefix[count++] = "";
  } else if (is_carried(v)) {
    list[0] = p->final[i];
    prefix[count++] = "hT.";
  }
  if (backward && v->kind != REC_OUTPUT) {
    list[count] = p->gradient[i];
    prefix[count++] = is_carried(v) ? "d.h0." : "d.";
  }
  return count;
}

// The largest rms among outputs and states, or among gradients and the cotangents that they are
// made of: where terms cancel, the rounding of cotangents is left.
static double largest_rms(const problem *p, bool gradient, bool backward) {
  double largest = 0, *list[2];
  const char *prefix[2];
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (gradient && p->signature->variables[i].kind == REC_OUTPUT && p->gradient[i])
      largest = fmax(largest, rms(p->gradient[i], problem_numbers(p, i)));
    int count = results(p, i, backward, list, prefix);
    for (int r = 0; r < count; r++)
      if ((*prefix[r] == 'd') == gradient && list[r])
        largest = fmax(largest, rms(list[r], problem_numbers(p, i)));
  }
  return largest;
}

bool problem_underflows(const problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++)
    for (int64_t k = 0; p->final[i] && k < problem_numbers(p, i); k++)
      if (p->final[i][k] != 0 && fabs(p->final[i][k]) < FLT_MIN) return true;
  return false;
}

// Half a unit in the last place of a 16-bit number, 0 for others.
static double rounding_of(rec_dtype type, double number) {
  double size = fabs(number);
  if (type == REC_BF16) return 0x1p-8 * size;
  return type == REC_F16 ? fmax(0x1p-11 * size, 0x1p-25) : 0;
}

// How far a result lies from the exact number, beyond the rounding to its type. What f16 cannot
// hold is infinite there.
static double distance(rec_dtype type, double expected, double got) {
  if (expected == got || (isnan(expected) && isnan(got))) return 0;
  if (type == REC_F16 && isinf(got) && isfinite(expected)) {
    double least = copysign(65520, got);  // of those that are rounded to infinity
    got = fabs(expected) > 65520 && expected * got > 0 ? expected : least;
  }
  double error = fabs(expected - got);
  return isnan(error) ? INFINITY : fmax(error - rounding_of(type, expected), 0);
}

static double compare(const problem *expected, const problem *got, bool backward, bool rounded,
                      double floor, char *where, size_t size) {
  double worst = 0, *e[2], *g[2];
  const char *prefix[2];
  snprintf(where, size, "nothing differs");
  for (int i = 0; i < expected->signature->variable_count; i++) {
    int count = results(expected, i, backward, e, prefix);
    results(got, i, backward, g, prefix);
    for (int r = 0; r < count; r++) {
      int64_t numbers = problem_numbers(expected, i);
      double least = floor * largest_rms(expected, *prefix[r] == 'd', backward);
      double scale = fmax(fmax(rms(e[r], numbers), least), 1e-30);
      for (int64_t k = 0; k < numbers; k++) {
        rec_dtype type = rounded ? stored_type(expected, i) : REC_F64;
        double error = distance(type, e[r][k], g[r][k]) / scale;
        if (error <= worst) continue;
        worst = error;
        snprintf(where, size, "%s%s[%lld]: %.9g, expected %.9g", prefix[r],
                 expected->signature->variables[i].name, (long long)k, g[r][k], e[r][k]);
      }
    }
  }
  return worst;
}

double problem_compare(const problem *expected, const problem *got, bool backward, double floor,
                       char *where, size_t size) {
  return compare(expected, got, backward, true, floor, where, size);
}

bool problem_equal(const problem *a, const problem *b, bool backward) {
  double *x[2], *y[2];
  const char *prefix[2];
  for (int i = 0; i < a->signature->variable_count; i++) {
    int count = results(a, i, backward, x, prefix);
    results(b, i, backward, y, prefix);
    for (int r = 0; r < count; r++)
      if (memcmp(x[r], y[r], (size_t)problem_numbers(a, i) * sizeof(double)) != 0) return false;
  }
  return true;
}

// The error of the interpreter's results for `moved`, which it takes.
static double error_of_moved(problem *moved, const problem *exact, const rec_recurrence *recurrence,
                             bool backward) {
  const rec_run_options options = {.backward = backward};
  char where[256];
  double error = problem_run(moved, recurrence, "reference", &options)
                     ? compare(exact, moved, backward, false, 1e-4, where, sizeof where)
                     : 0;
  problem_free(moved);
  return error;
}

double problem_movement(const problem *inputs, const problem *exact,
                        const rec_recurrence *recurrence, double shake, bool backward, int draws) {
  double error = 0;
  for (int seed = 1; seed <= draws; seed++) {
    problem *shaken = problem_copy(inputs);
    problem_shake(shaken, (uint64_t)seed, shake);
    error = fmax(error, error_of_moved(shaken, exact, recurrence, backward));
  }
  return error;
}

// Every number that the problem reads, rounded to the nearest one that is at most `rounding` of its
// size away, a power of two.
static problem *rounded_copy(const problem *inputs, double rounding) {
  problem *p = problem_copy(inputs);
  for (int i = 0; i < p->signature->variable_count; i++) {
    int64_t count = problem_numbers(p, i);
    double *lists[] = {p->value[i], p->gradient[i], p->d_final[i]};
    for (int l = 0; l < 3; l++)
      for (int64_t k = 0; lists[l] && k < count; k++) {
        int exponent;
        double fraction = frexp(lists[l][k], &exponent);
        lists[l][k] = ldexp(nearbyint(fraction / rounding) * rounding, exponent);
      }
  }
  return p;
}

double problem_tolerance(const problem *inputs, const problem *exact,
                         const rec_recurrence *recurrence, double least, double shake,
                         bool backward) {
  return least + 50 * problem_movement(inputs, exact, recurrence, shake, backward, 2);
}

// Results may be as far off as inputs that are rounded alike move them, to first order, or over an
// edge of max, whose gradient jumps. A few draws may be lucky where a gradient is one sum of all
// tokens (Mamba-2's d.dt_bias, REC_SEED=5): the worst of many counts. So may many where a matrix of
// parameters multiplies a state 64 times (blocks, REC_SEED=60372628): the inputs are rounded, too.
// What moves by more than itself says nothing: the first order does not hold there.
double problem_rounded_tolerance(const problem *inputs, const problem *exact,
                                 const rec_recurrence *recurrence, double least, double rounding,
                                 bool backward) {
  enum { DRAWS = 16, SMALLER = 50 };
  double first_order =
      SMALLER * problem_movement(inputs, exact, recurrence, rounding / SMALLER, backward, DRAWS);
  double moved =
      fmax(first_order, problem_movement(inputs, exact, recurrence, rounding, backward, DRAWS));
  moved = fmax(moved, error_of_moved(rounded_copy(inputs, rounding), exact, recurrence, backward));
  return moved < 1 ? least + moved : INFINITY;
}

static double plain_loop(const problem *inputs, const problem *exact,
                         const rec_recurrence *recurrence, bool backward, bool prepared,
                         uint64_t draw) {
  char where[256];
  problem *loop = problem_copy(inputs);
  if (draw) problem_shake(loop, draw, 0x1p-24);
  bool ran =
      problem_run(loop, recurrence, "reference",
                  &(rec_run_options){.backward = backward, .single = true, .prepared = prepared});
  double error = ran ? compare(exact, loop, backward, false, 1e-4, where, sizeof where) : INFINITY;
  problem_free(loop);
  return isfinite(error) ? error : 0;
}

double problem_plain_error(const problem *inputs, const problem *exact,
                           const rec_recurrence *recurrence, bool backward, int draws) {
  double worst = plain_loop(inputs, exact, recurrence, backward, false, 0);
  worst = fmax(worst, plain_loop(inputs, exact, recurrence, backward, true, 0));
  for (int i = 1; i <= draws; i++)
    worst = fmax(worst, plain_loop(inputs, exact, recurrence, backward, false, (uint64_t)i));
  return worst;
}

void problem_drop_states(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (!is_carried(&p->signature->variables[i])) continue;
    free(p->value[i]);
    free(p->d_final[i]);
    p->value[i] = p->d_final[i] = NULL;
  }
}

double problem_largest(const problem *p, bool backward) {
  double largest = 0;
  for (int i = 0; i < p->signature->variable_count; i++) {
    double *lists[] = {p->value[i], p->final[i], backward ? p->gradient[i] : NULL};
    for (int l = 0; l < 3; l++) {
      for (int64_t k = 0; lists[l] && k < problem_numbers(p, i); k++) {
        if (!(fabs(lists[l][k]) <= largest)) largest = fabs(lists[l][k]);
        if (isnan(largest)) return INFINITY;
      }
    }
  }
  return largest;
}
