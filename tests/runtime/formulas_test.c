// The formulas of sizes in manifests, over the standard library and programs with open sizes. They
// say what NAME_sizes says, for batch entries and packed sequences. Takes about 10 s.
//
//   REC_SEED=N       the sizes of seed N again (a failure prints its seed); else new ones each run
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/module.h"
#include "tests/random/draw.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// ---- the grammar of abi.h --------------------------------------------------------------------

typedef struct evaluation {
  const char *at, *text;
  const rec_signature *signature;
  const int64_t *axis_sizes;
  const cJSON *fields;
  int64_t batch, time, sequences;
  bool failed;
} evaluation;

static int64_t sum_of(evaluation *e);

static bool took(evaluation *e, char c) {
  while (*e->at == ' ') e->at++;
  if (*e->at != c) return false;
  e->at++;
  return true;
}

static void expect(evaluation *e, char c) {
  if (took(e, c) || e->failed) return;
  e->failed = true;
  check(false, "expected '%c' at '%s' of formula '%s'", c, e->at, e->text);
}

static int64_t axis_value(evaluation *e, const char *name) {
  const cJSON *field;
  cJSON_ArrayForEach(field, e->fields) {
    if (strcmp(cJSON_GetObjectItem(field, "kind")->valuestring, "axis") != 0) continue;
    if (strcmp(cJSON_GetObjectItem(field, "name")->valuestring, name) != 0) continue;
    for (int axis = 0; axis < e->signature->axis_count; axis++)
      if (strcmp(e->signature->axes[axis].name, cJSON_GetObjectItem(field, "of")->valuestring) == 0)
        return e->axis_sizes[axis];
  }
  e->failed = true;
  check(false, "unknown name '%s' in formula '%s'", name, e->text);
  return 1;
}

static int64_t called(evaluation *e, const char *name) {
  int64_t a = sum_of(e);
  expect(e, ',');
  int64_t b = sum_of(e), up = b > 0 ? (a + b - 1) / b : 0;
  expect(e, ')');
  if (b > 0 && strcmp(name, "floor_div") == 0) return a / b;
  if (b > 0 && strcmp(name, "ceil_div") == 0) return up;
  if (b > 0 && strcmp(name, "align") == 0) return up * b;
  e->failed = true;
  check(false, "unknown function '%s' in formula '%s', or a divisor of 0", name, e->text);
  return 1;
}

static int64_t factor_of(evaluation *e) {
  char name[64];
  size_t length = 0;
  if (took(e, '(')) {
    int64_t value = sum_of(e);
    expect(e, ')');
    return value;
  }
  if (isdigit((unsigned char)*e->at)) return strtoll(e->at, (char **)&e->at, 10);
  while ((isalnum((unsigned char)*e->at) || *e->at == '_') && length < sizeof name - 1)
    name[length++] = *e->at++;
  name[length] = 0;
  if (took(e, '(')) return called(e, name);
  if (strcmp(name, "batch") == 0) return e->batch;
  if (strcmp(name, "time") == 0) return e->time;
  if (strcmp(name, "sequences") == 0) return e->sequences;
  return axis_value(e, name);
}

static int64_t product_of(evaluation *e) {
  int64_t value = factor_of(e);
  while (!e->failed && took(e, '*')) {
    while (*e->at == ' ') e->at++;
    value *= factor_of(e);
  }
  return value;
}

static int64_t sum_of(evaluation *e) {
  while (*e->at == ' ') e->at++;
  int64_t value = product_of(e);
  while (!e->failed && took(e, '+')) {
    while (*e->at == ' ') e->at++;
    value += product_of(e);
  }
  return value;
}

static int64_t value_of(const char *text, evaluation e) {
  e.at = e.text = text;
  int64_t value = sum_of(&e);
  if (!e.failed) check(*e.at == 0, "more than a sum in formula '%s': '%s'", text, e.at);
  return value;
}

// ---- one recurrence --------------------------------------------------------------------------

static uint64_t seed;  // of drawn sizes

typedef struct call_sizes {
  int64_t batch, time, sequences;  // packed: batch is 1
} call_sizes;

static const call_sizes calls[] = {
    {1, 1, 0},    {1, 0, 0},    {0, 5, 0},     {3, 7, 0},    {2, 64, 0},  {2, 65, 0},
    {1, 1000, 0}, {5, 2048, 0}, {1, 1, 1},     {1, 0, 3},    {1, 7, 3},   {1, 64, 1},
    {1, 65, 1},   {1, 130, 40}, {1, 4096, 5},  {1, 5000, 1}, {9, 129, 0}, {1, 4097, 0},
    {70, 300, 0}, {130, 16, 0}, {1, 2047, 200}};

static void compare(const rec_recurrence *r, const cJSON *json, const cJSON *row,
                    const call_sizes *c, const int64_t *axis_sizes) {
  const cJSON *class = cJSON_GetObjectItem(row, "class");
  bool gpu = cJSON_IsNumber(class), packed = c->sequences > 0;
  char arguments[4096] = {0};
  rec_sizes sizes = {.size = sizeof sizes, .device_kind = gpu ? REC_DEVICE_SIMT : REC_DEVICE_HOST};
  if (gpu) sizes.device_number = class->valueint;
  if (!check((size_t)r->arguments_size <= sizeof arguments, "arguments of %d bytes",
             r->arguments_size))
    return;
  rec_set_number(arguments, r->size_offset, r->arguments_size);
  rec_set_number(arguments, r->batch_offset, c->batch);
  rec_set_number(arguments, r->time_offset, c->time);
  rec_set_number(arguments, r->sequences_offset, c->sequences);
  for (int axis = 0; axis < r->signature.axis_count; axis++)
    rec_set_number(arguments, r->axis_offsets[axis], axis_sizes[axis]);
  rec_status status = rec_library_answer(r, r->sizes(arguments, &sizes));
  if (!check(status == REC_OK, "%s_sizes: %s", r->symbol, rec_message())) return;
  evaluation e = {.signature = &r->signature,
                  .axis_sizes = axis_sizes,
                  .fields = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "arguments"), "fields"),
                  .batch = c->batch,
                  .time = c->time,
                  .sequences = c->sequences};
  const char *text =
      cJSON_GetObjectItem(cJSON_GetObjectItem(row, "saved"), packed ? "packed" : "batch")
          ->valuestring;
  int64_t value = value_of(text, e);
  check(value == sizes.saved,
        "%s, %s: saved of batch %lld, time %lld, sequences %lld: %lld, formula %s gives %lld "
        "(REC_SEED=%llu)",
        r->symbol, gpu ? "GPU" : "host", (long long)c->batch, (long long)c->time,
        (long long)c->sequences, (long long)sizes.saved, text, (long long)value,
        (unsigned long long)seed);
}

static int64_t draw_size(uint64_t *state, int most) {
  return 1 + random_below(state, random_chance(state, 50) ? 8 : most);
}

// Sizes as nobody chose them.
static void compare_drawn(const rec_recurrence *r, const cJSON *json, const cJSON *row) {
  enum { DRAWS = 24 };
  uint64_t state = seed;
  for (int i = 0; i < DRAWS; i++) {
    bool packed = random_chance(&state, 50);
    call_sizes c = {.batch = packed ? 1 : draw_size(&state, 300),
                    .time = draw_size(&state, 9000) - 1,
                    .sequences = packed ? draw_size(&state, 300) : 0};
    problem *p = problem_new(rec_recurrence_signature(r), 1, 1, draw_size(&state, 100));
    compare(r, json, row, &c, p->axis_sizes);
    problem_free(p);
  }
}

static void check_recurrence(const rec_module *module, int index, const int64_t *open_sizes,
                             int count) {
  const rec_recurrence *r = rec_module_recurrence((rec_module *)module, index);
  const cJSON *json = cJSON_GetArrayItem(cJSON_GetObjectItem(module->json, "recurrences"), index),
              *row;
  int rows = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(json, "sizes")) {
    rows++;
    compare_drawn(r, json, row);
    for (int i = 0; i < count; i++) {
      problem *p = problem_new(rec_recurrence_signature(r), 1, 1, open_sizes[i]);
      for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        compare(r, json, row, &calls[c], p->axis_sizes);
      problem_free(p);
    }
  }
  check(rows >= 1, "%s has no formulas", r->symbol);
}

static void check_module(rec_module *module, const char *what) {
  static const int64_t open_sizes[] = {1, 3, 24, 37};
  if (!check(module, "%s does not compile", what)) return;
  for (int i = 0; i < module->count; i++) check_recurrence(module, i, open_sizes, 4);
  rec_module_close(module);
}

// ---- programs --------------------------------------------------------------------------------

static const char *const programs[] = {
    "recurrence odd(N, M = N) {\n  input x[N], g\n  param w[N,M]\n  state S[N,M]\n  state h[N] : "
    "complex\n  output y[M]\n"
    "  S = sigmoid(g) * S[t-1] + x * w\n  h = 0.5 * h[t-1] + complex(x, g)\n  y = S[N = 0] + "
    "re(h)[N = 0] + x[t-3][N = 0]\n}\n",
    "recurrence late(D) {\n  input x[D]\n  state h[D]\n  output y[D]\n  h = 0.9 * h[t-1] + "
    "x[t-100]\n  y = h + x[t-600]\n}\n",
    "recurrence plain(D) {\n  input x[D]\n  param w[D]\n  output y[D]\n  y = tanh(w * x) + x[D = "
    "0]\n}\n",
    // Names that C has already.
    "recurrence words(time, double = 5) {\n  input x[time,double]\n  state h[time,double]\n  "
    "output y[time]\n"
    "  h = tanh(h[t-1]) + x\n  y = sum[double](h)\n}\n"};

int main(void) {
  static const char *const host[] = {"-O0", "--target", "x86-64-v2", "--dtype", "f64", NULL};
  static const char *const gpu[] = {"-O0", "--target", "x86-64-v2,simt", "--dtype", "bf16", NULL};
  static const char *const standard[] = {"-O0", "--target", "x86-64-v2", NULL};
  seed = chosen_seed();
  compile_standard_library(standard, check_module);
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    check_module(compile_text(programs[i], host), programs[i]);
  for (size_t i = 0; i < 3; i++) check_module(compile_text(programs[i], gpu), programs[i]);
  check_module(compile_file("stdlib/mlstm.rec", gpu), "mlstm for GPUs");
  return checked();
}
