#include "tests/recurrence/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

fixture fixture_open(void) {
  fixture s = {.memory = arena_new()};
  s.sources = sources_new(s.memory);
  s.names = interner_new(s.memory);
  s.messages = diag_new(s.memory, s.sources);
  return s;
}

void fixture_close(fixture *s) { arena_free(s->memory); }

recurrence *fixture_read_ir(fixture *s, const char *text, size_t size) {
  const char *error = NULL;
  const source *file = sources_add(s->sources, "test.ir", text, size, &error);
  return file ? recurrence_parse(s->memory, s->names, s->messages, file) : NULL;
}

recurrence *fixture_ir(fixture *s, const char *text) {
  recurrence *r = fixture_read_ir(s, text, strlen(text));
  if (!r) {
    diag_print(s->messages, stderr);
    abort();
  }
  return r;
}

// ---- runs of the interpreter -----------------------------------------------------------------------------------------------

double random_between(uint64_t *seed, double low, double high) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *seed;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  x ^= x >> 32;
  return low + (high - low) * (double)(x >> 11) * 0x1p-53;
}

static double *random_numbers(arena *memory, int64_t count, uint64_t *seed) {
  double *data = ARENA_ARRAY(memory, double, count);
  for (int64_t i = 0; i < count; i++) data[i] = random_between(seed, -1, 1);
  return data;
}

static int64_t elements(const reference_run *run, axis_set axes, bool complex) {
  int64_t count = complex ? 2 : 1;
  for (int i = 0; i < TYPED_MAX_AXES; i++) {
    if (axis_in(axes, i)) count *= run->axis_sizes[i];
  }
  return count;
}

static const int64_t *choose_sizes(arena *memory, const typed_body *body) {
  int64_t *sizes = ARENA_ARRAY(memory, int64_t, body->axes.count + 1), next = 2;
  for (int i = 0; i < body->axes.count; i++) {
    sizes[i] = body->axes.items[i].size == TYPED_RUNTIME_SIZE ? next++ : body->axes.items[i].size;
  }
  return sizes;
}

trial trial_new(arena *memory, const recurrence *r, int64_t batch, int64_t time, const int32_t *cu_seqlens,
                int64_t sequences, uint64_t seed) {
  const typed_body *body = &r->body;
  int n = body->tensors.count, lags = body->lags.count;
  trial t = {.recurrence = r};
  t.entries = cu_seqlens ? sequences : batch;
  t.run = (reference_run){.batch = batch, .time = time, .cu_seqlens = cu_seqlens, .sequences = sequences};
  t.run.axis_sizes = choose_sizes(memory, body);
  t.tensor_numbers = ARENA_ARRAY(memory, int64_t, n);
  t.lag_numbers = ARENA_ARRAY(memory, int64_t, lags);
  reference_tensor **groups[] = {&t.run.tensors, &t.run.final_states, &t.run.d_tensors,
                                 &t.run.d_final_states, &t.run.d_initial_states};
  for (int g = 0; g < 5; g++) *groups[g] = ARENA_ARRAY(memory, reference_tensor, n);
  reference_tensor **lag_groups[] = {&t.run.lags, &t.run.final_lags, &t.run.d_final_lags, &t.run.d_initial_lags};
  for (int g = 0; g < 4; g++) *lag_groups[g] = ARENA_ARRAY(memory, reference_tensor, lags);
  for (int i = 0; i < n; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    bool token = tensor->kind == TENSOR_INPUT || tensor->kind == TENSOR_OUTPUT;
    int64_t copies = token ? batch * time : tensor->kind == TENSOR_STATE ? t.entries : 1;
    t.tensor_numbers[i] = copies * elements(&t.run, tensor->axis_set, tensor->complex);
    for (int g = 0; g < 5; g++) (*groups[g])[i].data = random_numbers(memory, t.tensor_numbers[i], &seed);
  }
  for (int i = 0; i < lags; i++) {
    const typed_lag *lag = &body->lags.items[i];
    t.lag_numbers[i] = t.entries * lag->depth * elements(&t.run, lag->axes, lag->complex);
    for (int g = 0; g < 4; g++) (*lag_groups[g])[i].data = random_numbers(memory, t.lag_numbers[i], &seed);
  }
  return t;
}

static double inner(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

double trial_loss(trial *t) {
  const typed_body *body = &t->recurrence->body;
  if (!reference_execute(t->recurrence, &t->run, false)) abort();
  double loss = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    tensor_kind kind = body->tensors.items[i].kind;
    int64_t count = t->tensor_numbers[i];
    if (kind == TENSOR_OUTPUT) loss += inner(t->run.d_tensors[i].data, t->run.tensors[i].data, count);
    if (kind == TENSOR_STATE) loss += inner(t->run.d_final_states[i].data, t->run.final_states[i].data, count);
  }
  for (int i = 0; i < body->lags.count; i++) {
    loss += inner(t->run.d_final_lags[i].data, t->run.final_lags[i].data, t->lag_numbers[i]);
  }
  return loss;
}

// ---- gradients by differences ----------------------------------------------------------------------------------------------

typedef struct probe {
  trial *trial;
  arena *memory;
  int probes;
  uint64_t seed;
  double worst;
  const char *where;
} probe;

// Central differences at two widths, extrapolated: the error is of fourth order.
static double difference(trial *t, double *x) {
  const double width = 1e-3, at = *x;
  double slope[2];
  for (int k = 0; k < 2; k++) {
    double h = width / (k + 1);
    *x = at + h;
    double above = trial_loss(t);
    *x = at - h;
    slope[k] = (above - trial_loss(t)) / (2 * h);
  }
  *x = at;
  return (4 * slope[1] - slope[0]) / 3;
}

static void probe_tensor(probe *p, const char *name, double *data, const double *gradient, int64_t count) {
  for (int k = 0; k < p->probes && k < count; k++) {
    int64_t i = count <= p->probes ? k : (int64_t)random_between(&p->seed, 0, (double)count);
    double expected = difference(p->trial, &data[i]);
    double error = fabs(expected - gradient[i]) / (1 + fabs(expected) + fabs(gradient[i]));
    if (error <= p->worst) continue;
    p->worst = isnan(error) ? INFINITY : error;
    p->where = arena_printf(p->memory, "d.%s[%lld] is %.12g, by differences %.12g", name, (long long)i, gradient[i],
                            expected);
  }
}

double trial_gradient_error(trial *t, arena *memory, int probes, uint64_t seed, const char **where) {
  const typed_body *body = &t->recurrence->body;
  if (!reference_execute(t->recurrence, &t->run, true)) abort();
  probe p = {t, memory, probes, seed, 0, "nothing differs"};
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    double *data = t->run.tensors[i].data;
    if (tensor->kind == TENSOR_OUTPUT) continue;
    const double *gradient =
        tensor->kind == TENSOR_STATE ? t->run.d_initial_states[i].data : t->run.d_tensors[i].data;
    probe_tensor(&p, tensor->name, data, gradient, t->tensor_numbers[i]);
  }
  for (int i = 0; i < body->lags.count; i++) {
    probe_tensor(&p, arena_printf(memory, "%s.lag", body->lags.items[i].name), t->run.lags[i].data,
                 t->run.d_initial_lags[i].data, t->lag_numbers[i]);
  }
  *where = p.where;
  return p.worst;
}
