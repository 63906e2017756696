// REC_STRIDE_BROADCAST: inputs and cotangents that are the same at all steps or in all batch
// entries. They give the results of their copies to the last bit. Results with that stride are
// refused. Takes about 10 s.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"
#include "tests/runtime/raw_call.h"

// What a tensor is expanded along.
enum { ALONG_BATCH = 1, ALONG_TIME = 2 };

// One row for each batch entry and step that is not expanded, of the dense tensor `all`, which
// becomes the copies.
static void *expand(const raw_call *x, int variable, char *all, int along) {
  int64_t entries = x->batch * x->time, batch = along & ALONG_BATCH ? 1 : x->batch,
          time = along & ALONG_TIME ? 1 : x->time;
  size_t row = entries ? raw_bytes(x, variable) / (size_t)entries : 0;
  char *rows = malloc(row * (size_t)(batch * time) + !row);
  if (!rows) abort();
  for (int64_t b = 0; b < x->batch; b++) {
    for (int64_t t = 0; t < x->time; t++) {
      char *copy = all + row * (size_t)(b * x->time + t);
      char *first = rows + row * (size_t)((along & ALONG_BATCH ? 0 : b) * time +
                                          (along & ALONG_TIME ? 0 : t));
      if ((along & ALONG_BATCH && b > 0) || (along & ALONG_TIME && t > 0))
        memcpy(copy, first, row);
      else
        memcpy(first, copy, row);
    }
  }
  return rows;
}

static void set_strides(const raw_call *x, rec_place place, const void *rows, int along) {
  rec_set_pointer(x->arguments, place.data, (void *)rows);
  if (along & ALONG_BATCH) rec_set_number(x->arguments, place.batch_stride, REC_STRIDE_BROADCAST);
  if (along & ALONG_TIME) rec_set_number(x->arguments, place.time_stride, REC_STRIDE_BROADCAST);
}

typedef struct shape {
  int64_t batch, time;
  const int32_t *lengths;
  int64_t sequences;
} shape;

static raw_call *call_of(const rec_recurrence *r, int32_t device_kind, shape s) {
  return raw_call_new(r, device_kind, s.batch, s.time, s.lengths, s.sequences, 3);
}

// Expands some of the tensors that a call reads, or all of them.
static void compare(const rec_recurrence *r, int32_t device_kind, shape s, uint64_t draw) {
  int count = r->signature.variable_count;
  raw_call *copied = call_of(r, device_kind, s), *expanded = call_of(r, device_kind, s);
  void **rows = calloc((size_t)count + 1, sizeof *rows);
  for (int i = 0; i < count; i++) {
    rec_kind kind = r->signature.variables[i].kind;
    int along = (int)(next_uniform(&draw) * 4);
    if (kind != REC_INPUT && kind != REC_OUTPUT) continue;
    rows[i] = expand(copied, i, kind == REC_INPUT ? copied->value[i] : copied->gradient[i], along);
    set_strides(expanded, kind == REC_INPUT ? r->places[i].value : r->places[i].gradient, rows[i],
                along);
  }
  bool step = s.time == 1 && !s.lengths;
  bool ran = raw_run(copied, step ? r->step : r->forward) &&
             raw_run(expanded, step ? r->step : r->forward);
  if (!step) ran = ran && raw_run(copied, r->backward) && raw_run(expanded, r->backward);
  if (ran)
    check(raw_equal(copied, expanded, !step),
          "%s on device %d, batch %lld, time %lld, %lld sequences: not those of copies", r->symbol,
          device_kind, (long long)s.batch, (long long)copied->time, (long long)s.sequences);
  for (int i = 0; i < count; i++) free(rows[i]);
  free(rows);
  raw_call_free(copied);
  raw_call_free(expanded);
}

// One step or batch entry may have any stride.
static void check_refused(const rec_recurrence *r, int64_t batch, int64_t time, int along,
                          bool refused) {
  raw_call *x = call_of(r, REC_DEVICE_HOST, (shape){batch, time, NULL, 0});
  for (int i = 0; i < r->signature.variable_count; i++) {
    if (r->signature.variables[i].kind != REC_OUTPUT) continue;
    set_strides(x, r->places[i].value, x->value[i], along);
    rec_status status = rec_library_answer(r, r->forward(x->arguments, &x->launch));
    bool named = strstr(rec_message(), along & ALONG_TIME ? "time stride REC_STRIDE_BROADCAST"
                                                          : "batch stride REC_STRIDE_BROADCAST");
    check(refused ? status == REC_ERROR_ARGUMENT && named : status == REC_OK,
          "%s of batch %lld, time %lld: %s", r->symbol, (long long)batch, (long long)time,
          status ? rec_message() : "not refused");
  }
  raw_call_free(x);
}

static void check_module(rec_module *module, const char *what, int32_t device_kind) {
  static const int32_t lengths[] = {0, 70, 1, 3, 64}, equal[] = {64, 64, 64}, single[] = {65};
  static const shape shapes[] = {{3, 70, NULL, 0},  {1, 130, NULL, 0},  {2, 1, NULL, 0},
                                 {1, 1, NULL, 0},   {1, 0, lengths, 5}, {1, 0, equal, 3},
                                 {1, 0, single, 1}, {1, 1030, NULL, 0}};
  if (!check(module, "%s does not compile", what)) return;
  for (int i = 0; i < module->count; i++) {
    const rec_recurrence *r = rec_module_recurrence(module, i);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      if (shapes[s].time > 1000 && device_kind != REC_DEVICE_HOST) continue;
      for (uint64_t draw = 1; draw <= (device_kind == REC_DEVICE_HOST ? 3 : 1); draw++)
        compare(r, device_kind, shapes[s], 8 * draw + s);
    }
    if (device_kind != REC_DEVICE_HOST) continue;
    check_refused(r, 2, 3, ALONG_BATCH, true);
    check_refused(r, 2, 3, ALONG_TIME, true);
    check_refused(r, 1, 3, ALONG_BATCH, false);
    check_refused(r, 2, 1, ALONG_TIME, false);
  }
  rec_module_close(module);
}

static const char *const programs[] = {
    "recurrence late(D) {\n  input x[D], z[D]\n  state h[D]\n  output y[D]\n"
    "  h = 0.9 * h[t-1] + x[t-100]\n  y = h * z + x[t-30] + x[t-2]\n}\n",
    "recurrence parts {\n  input x, g\n  state h\n  output y\n  h = sigmoid(g) * h[t-1] + x\n  y = "
    "h * x\n}\n",
    "recurrence plain(D) {\n  input x[D], z[D]\n  output y[D], w\n  y = tanh(x) * z\n  w = x[D = "
    "0] * z[D = 1]\n}\n"};
static const char *const files[] = {"gla", "mamba1", "gru", "gated_deltanet", "s4d"};

static void check_file(const char *name, const char *const *options, int32_t device_kind) {
  char path[512];
  snprintf(path, sizeof path, REC_SOURCE_DIR "/stdlib/%s.rec", name);
  check_module(compile_file(path, options), path, device_kind);
}

int main(void) {
  const char *const wide[] = {"--target", random_target(0), NULL};
  const char *const narrow[] = {"--target", random_target(0), "--dtype", "bf16", NULL};
  const char *const gpu[] = {"-O0", "--target", "simt", "--dtype", "bf16", NULL};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    check_file(files[i], i % 2 ? narrow : wide, REC_DEVICE_HOST);
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    check_module(compile_text(programs[i], i % 2 ? narrow : wide), programs[i], REC_DEVICE_HOST);
    check_module(compile_text(programs[i], gpu), programs[i], REC_DEVICE_SIMT);
  }
  check_file("gla", gpu, REC_DEVICE_SIMT);
  return checked();
}
