#include "tests/recurrence/fixture.h"

#include "compiler/recurrence/affine.h"
#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"

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

const typed_body *fixture_source(fixture *s, const char *text) {
  const char *error = NULL;
  const source *file = sources_add(s->sources, "test.rec", text, strlen(text), &error);
  ast_file *tree = file ? parse_source(s->memory, s->names, s->messages, file) : NULL;
  sema_options options = {0};
  typed_program *program = NULL;
  if (tree && !diag_has_errors(s->messages))
    program = sema_check(s->memory, s->names, s->messages, s->sources, tree, &options);
  if (!program || diag_has_errors(s->messages) || program->recurrences.count == 0) {
    diag_print(s->messages, stderr);
    fprintf(stderr, "%s\n", error ? error : text);
    abort();
  }
  return program->recurrences.items[program->recurrences.count - 1];
}

recurrence *fixture_analyse(fixture *s, const char *text) {
  return recurrence_analyse(s->memory, fixture_source(s, text));
}

recurrence *fixture_raw(fixture *s, const typed_body *body) {
  recurrence *r = ARENA_NEW(s->memory, recurrence);
  r->body = *body;
  return r;
}

// ---- runs of the interpreter --------------------------------------------------------------------

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
  for (int i = 0; i < TYPED_MAX_AXES; i++)
    if (axis_in(axes, i)) count *= run->axis_sizes[i];
  return count;
}

static const int64_t *choose_sizes(arena *memory, const typed_body *body) {
  int64_t *sizes = ARENA_ARRAY(memory, int64_t, body->axes.count + 1), next = 2;
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    sizes[i] = axis->size == TYPED_RUNTIME_SIZE ? next++ : axis->size;
    for (int k = 0; k < i && axis->size_expr; k++)  // M = N
      if (axis->size_expr->kind == AST_NAME &&
          body->axes.items[k].name == axis->size_expr->name.text)
        sizes[i] = sizes[k];
  }
  return sizes;
}

trial trial_new(arena *memory, const recurrence *r, int64_t batch, int64_t time,
                const int32_t *cu_seqlens, int64_t sequences, uint64_t seed) {
  const typed_body *body = &r->body;
  int n = body->tensors.count, lags = body->lags.count;
  trial t = {.recurrence = r};
  t.entries = cu_seqlens ? sequences : batch;
  t.run = (reference_run){
      .batch = batch, .time = time, .cu_seqlens = cu_seqlens, .sequences = sequences};
  t.run.axis_sizes = choose_sizes(memory, body);
  t.tensor_numbers = ARENA_ARRAY(memory, int64_t, n);
  t.lag_numbers = ARENA_ARRAY(memory, int64_t, lags);
  reference_tensor **groups[] = {&t.run.tensors, &t.run.final_states, &t.run.d_tensors,
                                 &t.run.d_final_states, &t.run.d_initial_states};
  for (int g = 0; g < 5; g++) *groups[g] = ARENA_ARRAY(memory, reference_tensor, n);
  reference_tensor **lag_groups[] = {&t.run.lags, &t.run.final_lags, &t.run.d_final_lags,
                                     &t.run.d_initial_lags};
  for (int g = 0; g < 4; g++) *lag_groups[g] = ARENA_ARRAY(memory, reference_tensor, lags);
  for (int i = 0; i < n; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    bool token = tensor->kind == TENSOR_INPUT || tensor->kind == TENSOR_OUTPUT;
    int64_t copies = token ? batch * time : tensor->kind == TENSOR_STATE ? t.entries : 1;
    t.tensor_numbers[i] = copies * elements(&t.run, tensor->axis_set, tensor->complex);
    for (int g = 0; g < 5; g++)
      (*groups[g])[i].data = random_numbers(memory, t.tensor_numbers[i], &seed);
    for (int64_t k = 0; tensor->promised && k < t.tensor_numbers[i]; k++)
      t.run.tensors[i].data[k] =
          (tensor->low + tensor->high + (tensor->high - tensor->low) * t.run.tensors[i].data[k]) /
          2;
  }
  for (int i = 0; i < lags; i++) {
    const typed_lag *lag = &body->lags.items[i];
    t.lag_numbers[i] = t.entries * lag->depth * elements(&t.run, lag->axes, lag->complex);
    for (int g = 0; g < 4; g++)
      (*lag_groups[g])[i].data = random_numbers(memory, t.lag_numbers[i], &seed);
  }
  return t;
}

static double inner(trial *t, const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += a[i] * b[i];
    t->magnitude += fabs(a[i] * b[i]);
  }
  return sum;
}

double trial_loss(trial *t) {
  const typed_body *body = &t->recurrence->body;
  if (!reference_execute(t->recurrence, &t->run, false)) abort();
  double loss = t->magnitude = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    tensor_kind kind = body->tensors.items[i].kind;
    int64_t count = t->tensor_numbers[i];
    if (kind == TENSOR_OUTPUT)
      loss += inner(t, t->run.d_tensors[i].data, t->run.tensors[i].data, count);
    if (kind == TENSOR_STATE)
      loss += inner(t, t->run.d_final_states[i].data, t->run.final_states[i].data, count);
  }
  for (int i = 0; i < body->lags.count; i++)
    loss += inner(t, t->run.d_final_lags[i].data, t->run.final_lags[i].data, t->lag_numbers[i]);
  return loss;
}

// ---- gradients by differences -------------------------------------------------------------------

typedef struct probe {
  trial *trial;
  arena *memory;
  int probes;
  uint64_t seed;
  double worst;
  const char *where;
} probe;

// Central differences at two widths, extrapolated: the error is of fourth order.
static double difference(trial *t, double *x, double width) {
  const double at = *x;
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

// How far a gradient is from differences at some width: a narrower one steps over no kink that a
// wider one does.
static double probe_error(trial *t, double *x, double gradient, double *expected) {
  double best = INFINITY;
  if (isnan(gradient) && isfinite(t->magnitude)) return best;
  for (double width = 1e-3; width > 1e-6 && best > 1e-8; width /= 10) {
    double slope = difference(t, x, width);
    double noise = 1e-14 * t->magnitude / width;
    double error = fmax(0, fabs(slope - gradient) - noise) / (1 + fabs(slope) + fabs(gradient));
    if (!(error < best)) continue;
    best = error;
    *expected = slope;
  }
  return best;
}

static void probe_tensor(probe *p, const char *name, double *data, const double *gradient,
                         int64_t count) {
  for (int k = 0; k < p->probes && k < count; k++) {
    int64_t i = count <= p->probes ? k : (int64_t)random_between(&p->seed, 0, (double)count);
    double expected = NAN, g = gradient[i];
    double error = probe_error(p->trial, &data[i], g, &expected);
    if (error <= p->worst) continue;
    p->worst = error;
    p->where = arena_printf(p->memory, "d.%s[%lld] is %.12g, by differences %.12g", name,
                            (long long)i, g, expected);
  }
}

double trial_gradient_error(trial *t, arena *memory, int probes, uint64_t seed,
                            const char **where) {
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

// ---- comparing recurrences ----------------------------------------------------------------------

static value_id append(fixture *s, recurrence *r, value_op op, value_id x, value_id y,
                       axis_set sum_over) {
  return body_append(s->memory, &r->body,
                     (typed_value){.op = op, .args = {x, y, NO_VALUE}, .over = sum_over});
}

static value_id sum_or_other(fixture *s, recurrence *r, value_id x, value_id y) {
  return x == NO_VALUE ? y : y == NO_VALUE ? x : append(s, r, VALUE_ADD, x, y, 0);
}

static value_id from_affine_form(fixture *s, recurrence *r, value_id update, value_id previous) {
  builder b = builder_new(s->memory, &r->body);
  affine_analysis analysis = affine_begin(&b, previous, "the leaf");
  const affine *form = affine_form(&analysis, update);
  if (!form->split) return update;
  value_id result = form->rest;
  if (form->factor != NO_VALUE)
    result = sum_or_other(s, r, result, append(s, r, VALUE_MUL, form->factor, previous, 0));
  for (int i = 0; i < form->reads.count; i++) {
    affine_read c = form->reads.items[i];
    value_id inside = append(s, r, VALUE_MUL, c.inner, previous, 0);
    value_id read = append(s, r, VALUE_SUM, inside, NO_VALUE, c.over);
    result = sum_or_other(s, r, result, append(s, r, VALUE_MUL, c.outer, read, 0));
  }
  return result;
}

static value_id from_parts(fixture *s, recurrence *r, int tensor, const state_structure *parts) {
  value_id update = r->body.tensors.items[tensor].assigned;
  value_id previous = append(s, r, VALUE_PREVIOUS, NO_VALUE, NO_VALUE, 0);
  r->body.values.items[previous].index = tensor;
  value_set_shape(&r->body, &r->body.values.items[previous]);
  switch (parts->class) {
    case STATE_DELAY: return parts->increment;
    case STATE_SCALAR_DECAY:
    case STATE_AXIS_DECAY:
    case STATE_ELEMENTWISE: {
      value_id decay = parts->decay;
      if (parts->log_decay != NO_VALUE)
        decay = append(s, r, VALUE_EXP, parts->log_decay, NO_VALUE, 0);
      value_id kept = decay == NO_VALUE ? previous : append(s, r, VALUE_MUL, decay, previous, 0);
      return sum_or_other(s, r, kept, parts->increment);
    }
    case STATE_MAX_PLUS: {
      value_id shifted = sum_or_other(s, r, parts->log_decay, previous);
      value_id largest = append(s, r, VALUE_MAX, shifted, parts->increment, 0);
      bool stopped = r->body.values.items[update].op == VALUE_STOP_GRADIENT;
      return stopped ? append(s, r, VALUE_STOP_GRADIENT, largest, NO_VALUE, 0) : largest;
    }
    case STATE_LOW_RANK:
      for (int i = 0; i < update; i++) {
        const typed_value *v = &r->body.values.items[i];
        if (v->op == VALUE_PREVIOUS && v->index == tensor) return from_affine_form(s, r, update, i);
      }
      return update;
    default: return update;
  }
}

static typed_body copy_of(fixture *s, const typed_body *from) {
  typed_body to = *from;
  to.tensors.items = ARENA_ARRAY(s->memory, typed_tensor, from->tensors.count);
  memcpy(to.tensors.items, from->tensors.items,
         (size_t)from->tensors.count * sizeof *to.tensors.items);
  to.tensors.capacity = from->tensors.count;
  to.values.items = NULL;
  to.values.count = to.values.capacity = 0;
  for (int i = 0; i < from->values.count; i++)
    vec_push(s->memory, &to.values, from->values.items[i]);
  return to;
}

recurrence *fixture_from_parts(fixture *s, const recurrence *r) {
  recurrence *copy = ARENA_NEW(s->memory, recurrence);
  copy->body = copy_of(s, &r->body);
  int state = 0;
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    value_id made = from_parts(s, copy, i, &r->states.items[state++]);
    copy->body.tensors.items[i].assigned = made;
  }
  return copy;
}

static void widen(double *worst, const double *x, const double *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
    double difference = fabs(x[i] - y[i]) / fmax(1, fabs(x[i]));
    if (!(difference <= *worst)) *worst = isnan(difference) ? INFINITY : difference;
  }
}

static bool is_token(const typed_tensor *t) {
  return t->kind == TENSOR_INPUT || t->kind == TENSOR_OUTPUT;
}

// Where the numbers of a part begin in a tensor of the whole.
static int64_t part_start(const trial *whole, const trial *part, int tensor, int64_t entry,
                          int64_t begin) {
  const typed_tensor *t = &whole->recurrence->body.tensors.items[tensor];
  if (t->kind == TENSOR_STATE) return entry * part->tensor_numbers[tensor];
  return is_token(t) ? begin * elements(&whole->run, t->axis_set, t->complex) : 0;
}

static void copy_numbers(double *to, const double *from, int64_t count) {
  memcpy(to, from, (size_t)count * sizeof(double));
}

trial trial_part(const trial *whole, arena *memory, int64_t entry, int64_t begin, int64_t time) {
  const typed_body *body = &whole->recurrence->body;
  trial part = trial_new(memory, whole->recurrence, 1, time, NULL, 0, 1);
  for (int i = 0; i < body->tensors.count; i++) {
    int64_t at = part_start(whole, &part, i, entry, begin), count = part.tensor_numbers[i];
    copy_numbers(part.run.tensors[i].data, whole->run.tensors[i].data + at, count);
    copy_numbers(part.run.d_tensors[i].data, whole->run.d_tensors[i].data + at, count);
    copy_numbers(part.run.d_final_states[i].data, whole->run.d_final_states[i].data + at, count);
  }
  for (int i = 0; i < body->lags.count; i++) {
    int64_t count = part.lag_numbers[i];
    copy_numbers(part.run.lags[i].data, whole->run.lags[i].data + entry * count, count);
    copy_numbers(part.run.d_final_lags[i].data, whole->run.d_final_lags[i].data + entry * count,
                 count);
  }
  return part;
}

double trial_part_distance(const trial *whole, const trial *part, int64_t entry, int64_t begin,
                           bool states) {
  const typed_body *body = &whole->recurrence->body;
  double worst = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    int64_t at = part_start(whole, part, i, entry, begin), count = part->tensor_numbers[i];
    if (t->kind == TENSOR_OUTPUT) {
      widen(&worst, whole->run.tensors[i].data + at, part->run.tensors[i].data, count);
    } else if (t->kind == TENSOR_INPUT) {
      widen(&worst, whole->run.d_tensors[i].data + at, part->run.d_tensors[i].data, count);
    } else if (t->kind == TENSOR_STATE && states) {
      widen(&worst, whole->run.final_states[i].data + at, part->run.final_states[i].data, count);
      widen(&worst, whole->run.d_initial_states[i].data + at, part->run.d_initial_states[i].data,
            count);
    }
  }
  for (int i = 0; i < body->lags.count && states; i++) {
    int64_t count = part->lag_numbers[i], at = entry * count;
    widen(&worst, whole->run.final_lags[i].data + at, part->run.final_lags[i].data, count);
    widen(&worst, whole->run.d_initial_lags[i].data + at, part->run.d_initial_lags[i].data, count);
  }
  return worst;
}

double trial_distance(const trial *a, const trial *b) {
  const typed_body *body = &a->recurrence->body;
  double worst = 0;
  for (int i = 0; i < body->tensors.count; i++) {
    int64_t count = a->tensor_numbers[i];
    bool state = body->tensors.items[i].kind == TENSOR_STATE;
    if (state) {
      widen(&worst, a->run.final_states[i].data, b->run.final_states[i].data, count);
      widen(&worst, a->run.d_initial_states[i].data, b->run.d_initial_states[i].data, count);
    } else {
      widen(&worst, a->run.tensors[i].data, b->run.tensors[i].data, count);
      widen(&worst, a->run.d_tensors[i].data, b->run.d_tensors[i].data, count);
    }
  }
  for (int i = 0; i < body->lags.count; i++) {
    widen(&worst, a->run.final_lags[i].data, b->run.final_lags[i].data, a->lag_numbers[i]);
    widen(&worst, a->run.d_initial_lags[i].data, b->run.d_initial_lags[i].data, a->lag_numbers[i]);
  }
  return worst;
}

double fixture_difference(fixture *s, const recurrence *a, const recurrence *b, uint64_t seed) {
  trial first = trial_new(s->memory, a, 2, 5, NULL, 0, seed);
  trial second = trial_new(s->memory, b, 2, 5, NULL, 0, seed);
  if (!reference_execute(a, &first.run, true) || !reference_execute(b, &second.run, true)) abort();
  return trial_distance(&first, &second);
}
