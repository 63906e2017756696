#include "tests/runtime/raw_call.h"

#include <stdlib.h>
#include <string.h>

#include "tests/random/draw.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

static const rec_variable *variable_of(const raw_call *x, int variable) {
  return &x->recurrence->signature.variables[variable];
}

int64_t raw_numbers(const raw_call *x, int variable) {
  const rec_variable *v = variable_of(x, variable);
  int64_t numbers = v->complex ? 2 : 1;
  if (v->depth) numbers *= v->depth;
  for (int i = 0; i < v->axis_count; i++) numbers *= x->axis_sizes[v->axes[i]];
  if (is_token(v)) return numbers * x->batch * x->time;
  return is_carried(v) ? numbers * (x->cu_seqlens ? x->sequences : x->batch) : numbers;
}

static rec_dtype type_of(const raw_call *x, int variable) {
  return rec_compiled_type(&x->recurrence->signature, variable_of(x, variable));
}

size_t raw_bytes(const raw_call *x, int variable) {
  rec_dtype type = type_of(x, variable);
  return (size_t)raw_numbers(x, variable) * (type == REC_F64 ? 8 : type == REC_F32 ? 4 : 2);
}

static void *aligned_new(int64_t bytes) {
  void *memory = aligned_alloc(
      REC_ALIGNMENT, (size_t)(bytes + REC_ALIGNMENT - 1 + !bytes) / REC_ALIGNMENT * REC_ALIGNMENT);
  if (!memory) abort();
  return memory;
}

static void *zeros(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  if (!memory) abort();
  return memory;
}

static void *drawn(const raw_call *x, int variable, uint64_t *state) {
  int64_t count = raw_numbers(x, variable);
  double *numbers = zeros((size_t)count, sizeof *numbers);
  for (int64_t i = 0; i < count; i++) numbers[i] = next_uniform(state) - 0.5;
  void *stored = zeros(raw_bytes(x, variable), 1);
  if (rec_convert(stored, type_of(x, variable), numbers, REC_F64, count)) abort();
  free(numbers);
  return stored;
}

static void set_tensors(raw_call *x) {
  uint64_t state = 1;
  for (int i = 0; i < x->recurrence->signature.variable_count; i++) {
    const rec_places *places = &x->recurrence->places[i];
    x->value[i] = drawn(x, i, &state);
    x->gradient[i] = drawn(x, i, &state);
    rec_set_pointer(x->arguments, places->value.data, x->value[i]);
    rec_set_pointer(x->arguments, places->gradient.data, x->gradient[i]);
    if (!is_carried(variable_of(x, i))) continue;
    x->final[i] = drawn(x, i, &state);
    x->d_final[i] = drawn(x, i, &state);
    rec_set_pointer(x->arguments, places->final.data, x->final[i]);
    rec_set_pointer(x->arguments, places->d_final.data, x->d_final[i]);
  }
}

static void set_sequences(raw_call *x, const int32_t *lengths) {
  x->cu_seqlens = zeros((size_t)x->sequences + 1, sizeof *x->cu_seqlens);
  for (int64_t i = 0; i < x->sequences; i++) x->cu_seqlens[i + 1] = x->cu_seqlens[i] + lengths[i];
  x->time = x->cu_seqlens[x->sequences];
  rec_set_number(x->arguments, x->recurrence->sequences_offset, x->sequences);
  rec_set_pointer(x->arguments, x->recurrence->cu_seqlens_offset, x->cu_seqlens);
}

static bool set_memory(raw_call *x, int32_t device_kind) {
  const rec_recurrence *r = x->recurrence;
  x->sizes = (rec_sizes){.size = sizeof x->sizes, .device_kind = device_kind};
  rec_status status = rec_library_answer(r, r->sizes(x->arguments, &x->sizes));
  x->launch = (rec_launch){.size = sizeof x->launch,
                           .abi_major = REC_ABI_MAJOR,
                           .abi_minor = REC_ABI_MINOR,
                           .device_kind = device_kind,
                           .threads = 2,
                           .workspace = aligned_new(x->sizes.workspace),
                           .workspace_bytes = x->sizes.workspace,
                           .saved = aligned_new(x->sizes.saved),
                           .saved_bytes = x->sizes.saved};
  return check(status == REC_OK, "%s_sizes: %s", r->symbol, rec_message());
}

raw_call *raw_call_new(const rec_recurrence *r, int32_t device_kind, int64_t batch, int64_t time,
                       const int32_t *lengths, int64_t sequences, int64_t run_time_size) {
  size_t count = (size_t)r->signature.variable_count;
  raw_call *x = zeros(1, sizeof *x);
  *x = (raw_call){.recurrence = r, .batch = batch, .time = time, .sequences = sequences};
  problem *sized = problem_new(&r->signature, 1, 1, run_time_size);
  x->axis_sizes = zeros((size_t)r->signature.axis_count, sizeof *x->axis_sizes);
  memcpy(x->axis_sizes, sized->axis_sizes, sizeof *x->axis_sizes * (size_t)r->signature.axis_count);
  problem_free(sized);
  x->arguments = zeros((size_t)r->arguments_size, 1);
  x->value = zeros(4 * count, sizeof *x->value);
  x->final = x->value + count;
  x->gradient = x->final + count;
  x->d_final = x->gradient + count;
  if (lengths) set_sequences(x, lengths);
  rec_set_number(x->arguments, r->size_offset, r->arguments_size);
  rec_set_number(x->arguments, r->batch_offset, batch);
  rec_set_number(x->arguments, r->time_offset, x->time);
  for (int i = 0; i < r->signature.axis_count; i++)
    rec_set_number(x->arguments, r->axis_offsets[i], x->axis_sizes[i]);
  set_tensors(x);
  if (set_memory(x, device_kind)) return x;
  raw_call_free(x);
  return NULL;
}

void raw_call_free(raw_call *x) {
  for (int i = 0; i < 4 * x->recurrence->signature.variable_count; i++) free(x->value[i]);
  free(x->value);
  free(x->axis_sizes);
  free(x->cu_seqlens);
  free(x->arguments);
  free(x->launch.workspace);
  free(x->launch.saved);
  free(x);
}

bool raw_run(const raw_call *x, rec_entry entry) {
  rec_status status = rec_library_answer(x->recurrence, entry(x->arguments, &x->launch));
  return check(status == REC_OK, "%s", rec_message());
}

bool raw_equal(const raw_call *x, const raw_call *y, bool backward) {
  for (int i = 0; i < x->recurrence->signature.variable_count; i++) {
    size_t bytes = raw_bytes(x, i);
    bool output = variable_of(x, i)->kind == REC_OUTPUT;
    if (output && memcmp(x->value[i], y->value[i], bytes) != 0) return false;
    if (x->final[i] && memcmp(x->final[i], y->final[i], bytes) != 0) return false;
    if (backward && !output && memcmp(x->gradient[i], y->gradient[i], bytes) != 0) return false;
  }
  return true;
}
