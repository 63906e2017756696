// Whole models in double precision, their recurrences by the reference interpreter. The backward
// pass of the graph is compared with finite differences of the loss. Windows with the state carried
// between them are compared with one long window.
#include <math.h>

#include "compiler/base/embedded.h"
#include "compiler/graph/graph.h"
#include "compiler/recurrence/recurrence.h"
#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"
#include "runtime/train/data/random.h"
#include "runtime/train/model/execute.h"
#include "runtime/train/model/legs.h"
#include "runtime/train/model/weights.h"

#include "tests/unit/unit.h"

// ---- the reference interpreter as kernels -------------------------------------------------------

typedef struct reference_kernel {
  const recurrence *recurrence;
  rec_signature signature;
} reference_kernel;

static rec_signature signature_of(arena *a, const typed_body *body) {
  rec_axis *axes = ARENA_ARRAY(a, rec_axis, body->axes.count + 1);
  rec_variable *variables =
      ARENA_ARRAY(a, rec_variable, body->tensors.count + body->lags.count + 1);
  static const rec_kind kinds[] = {[TENSOR_INPUT] = REC_INPUT,
                                   [TENSOR_PARAM] = REC_PARAM,
                                   [TENSOR_STATE] = REC_STATE,
                                   [TENSOR_OUTPUT] = REC_OUTPUT};
  for (int i = 0; i < body->axes.count; i++)
    axes[i] = (rec_axis){body->axes.items[i].name, body->axes.items[i].size, NULL};
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    variables[i] = (rec_variable){t->name, kinds[t->kind], t->axis_count, t->axes, t->complex, 0};
  }
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    int *order = ARENA_ARRAY(a, int, TYPED_MAX_AXES), count = 0;
    for (int k = 0; k < body->axes.count; k++)
      if (axis_in(lag->axes, k)) order[count++] = k;
    variables[body->tensors.count + i] =
        (rec_variable){lag->name, REC_LAG, count, order, lag->complex, lag->depth};
  }
  return (rec_signature){.name = body->name,
                         .token_type = REC_F64,
                         .carried_type = REC_F64,
                         .axis_count = body->axes.count,
                         .axes = axes,
                         .variable_count = body->tensors.count + body->lags.count,
                         .variables = variables};
}

static int64_t numbers(const rec_signature *s, int variable) {
  int64_t sizes[TYPED_MAX_AXES];
  for (int i = 0; i < s->axis_count; i++) sizes[i] = s->axes[i].size;
  return rec_variable_numbers(s, variable, sizes);
}

static rec_status no_sizes(const train_kernel *k, int64_t batch, int64_t time,
                           kernel_sizes *sizes) {
  (void)k, (void)batch, (void)time;
  *sizes = (kernel_sizes){0};
  return REC_OK;
}

// Rows with strides to dense rows (`in`), or back.
static void copy_rows(const kernel_call *call, const kernel_memory *memory, int64_t width,
                      double *dense, bool in) {
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t t = 0; t < call->time; t++) {
      double *row = (double *)memory->data + b * memory->batch_stride + t * memory->time_stride;
      double *place = dense + (b * call->time + t) * width;
      memcpy(in ? place : row, in ? row : place, sizeof(double) * (size_t)width);
    }
}

static rec_status reference_run_call(const train_kernel *kernel, const kernel_call *call,
                                     bool backward) {
  const reference_kernel *k = kernel->code;
  const typed_body *body = &k->recurrence->body;
  const rec_signature *s = &k->signature;
  enum { MOST = 64 };
  reference_tensor tensors[MOST] = {0}, finals[MOST] = {0}, d_tensors[MOST] = {0},
                   d_initial[MOST] = {0}, lags[MOST] = {0}, final_lags[MOST] = {0},
                   d_lags[MOST] = {0}, d_finals[MOST] = {0}, d_final_lags[MOST] = {0};
  int64_t sizes[TYPED_MAX_AXES];
  double *dense[MOST] = {0}, *d_dense[MOST] = {0};
  for (int i = 0; i < s->axis_count; i++) sizes[i] = s->axes[i].size;
  for (int i = 0; i < body->tensors.count; i++) {
    rec_kind kind = s->variables[i].kind;
    int64_t width = numbers(s, i);
    if (kind == REC_INPUT || kind == REC_OUTPUT) {
      size_t size = sizeof(double) * (size_t)(call->batch * call->time * width);
      tensors[i].data = dense[i] = malloc(size);
      if (kind == REC_INPUT) copy_rows(call, &call->value[i], width, dense[i], true);
      if (backward && call->gradient[i].data) {
        d_tensors[i].data = d_dense[i] = malloc(size);
        if (kind == REC_OUTPUT) copy_rows(call, &call->gradient[i], width, d_dense[i], true);
      }
    } else {
      tensors[i].data = call->value[i].data;
      if (kind == REC_PARAM) d_tensors[i].data = call->gradient[i].data;
      if (kind == REC_STATE && !backward) finals[i].data = call->final[i];
      if (kind == REC_STATE && backward)
        d_initial[i].data = call->gradient[i].data, d_finals[i].data = call->d_final[i];
    }
  }
  for (int i = 0; i < body->lags.count; i++) {
    lags[i].data = call->value[body->tensors.count + i].data;
    if (!backward) final_lags[i].data = call->final[body->tensors.count + i];
    if (backward) d_lags[i].data = call->gradient[body->tensors.count + i].data;
    if (backward) d_final_lags[i].data = call->d_final[body->tensors.count + i];
  }
  reference_run run = {.batch = call->batch,
                       .time = call->time,
                       .axis_sizes = sizes,
                       .tensors = tensors,
                       .final_states = finals,
                       .lags = lags,
                       .final_lags = final_lags,
                       .d_tensors = d_tensors,
                       .d_final_states = d_finals,
                       .d_final_lags = d_final_lags,
                       .d_initial_states = d_initial,
                       .d_initial_lags = d_lags};
  bool good = reference_execute(k->recurrence, &run, backward);
  for (int i = 0; i < body->tensors.count; i++) {
    if (!backward && s->variables[i].kind == REC_OUTPUT)
      copy_rows(call, &call->value[i], numbers(s, i), dense[i], false);
    if (backward && s->variables[i].kind == REC_INPUT && d_dense[i])
      copy_rows(call, &call->gradient[i], numbers(s, i), d_dense[i], false);
    free(dense[i]);
    free(d_dense[i]);
  }
  return good ? REC_OK : REC_ERROR_MEMORY;
}

static rec_status reference_forward(const train_kernel *k, const kernel_call *call) {
  return reference_run_call(k, call, false);
}
static rec_status reference_backward(const train_kernel *k, const kernel_call *call) {
  return reference_run_call(k, call, true);
}

// ---- a model ready to run -----------------------------------------------------------------------

typedef struct fixture {
  arena *memory;
  cJSON *json;
  train_program *program;
  const train_model *model;
  train_kernel kernels[32];
  double *parameters, *gradients;
  void **d_before;  // NULL: not wanted
  int segments;     // that an executor has; 0: one
} fixture;

static void open_fixture(fixture *f, const char *path) {
  *f = (fixture){.memory = arena_new()};
  arena *a = f->memory;
  interner *names = interner_new(a);
  sources *all = sources_new(a);
  diag *messages = diag_new(a, all);
  const char *error = NULL;
  const source *text = sources_load(all, path, &error);
  assert_non_null(text);
  ast_file *file = parse_source(a, names, messages, text);
  sema_options options = {.stdlib = embedded_stdlib};
  typed_program *typed = sema_check(a, names, messages, all, file, &options);
  graph_program *graph = graph_build(a, names, messages, typed);
  if (diag_has_errors(messages)) diag_print(messages, stderr);
  assert_false(diag_has_errors(messages));
  f->json = cJSON_Parse(graph_to_json(a, graph));
  assert_non_null(f->json);
  assert_int_equal(train_program_read(f->json, &f->program), REC_OK);
  f->model = &f->program->models[0];
  assert_in_range(graph->kernels.count, 1, 32);
  for (int i = 0; i < graph->kernels.count; i++) {
    reference_kernel *k = ARENA_NEW(a, reference_kernel);
    k->recurrence = recurrence_analyse(a, graph->kernels.items[i].body);
    k->signature = signature_of(a, &k->recurrence->body);
    f->kernels[i] = (train_kernel){.signature = &k->signature,
                                   .code = k,
                                   .sizes = no_sizes,
                                   .forward = reference_forward,
                                   .backward = reference_backward,
                                   .step = reference_forward,
                                   .device = REC_DEVICE_HOST};
  }
  assert_int_equal(execute_check(f->model, f->kernels), REC_OK);
  f->parameters = calloc((size_t)f->model->parameter_elements, sizeof(double));
  f->gradients = calloc((size_t)f->model->parameter_elements, sizeof(double));
  assert_int_equal(train_weights_start(f->model, 5, &numeric_f64, f->parameters), REC_OK);
}

static void close_fixture(fixture *f) {
  train_program_free(f->program);
  cJSON_Delete(f->json);
  free(f->parameters);
  free(f->gradients);
  arena_free(f->memory);
}

enum { BATCH = 2, TIME = 7, MOST_STATES = 32 };
enum { SEGMENT = 3, SEGMENTS = 3 };  // the last one has one token
static const executor_form training_in_segments = {
    .batch = BATCH, .time = TIME, .segment = SEGMENT, .backward = true};
static const executor_form training_by_chain = {
    .batch = BATCH, .time = TIME, .segment = SEGMENT, .backward = true, .chain = true};
static const executor_form training = {.batch = BATCH, .time = TIME, .backward = true},
                           reading = {.batch = BATCH, .time = TIME};

static executor *new_executor(const fixture *f, const train_kernel *kernels,
                              const executor_form *form) {
  const trained_model of = {f->model, kernels, &compute_host_f64, &numeric_f64, REC_F64};
  executor *x;
  assert_int_equal(executor_new(&of, form, &x), REC_OK);
  return x;
}

typedef struct window {
  token_id tokens[BATCH * TIME], targets[BATCH * TIME];
} window;

static window random_window(const train_model *m) {
  window w;
  for (int i = 0; i < BATCH * TIME; i++) {
    w.tokens[i] = (token_id)random_below(2, 1, (uint64_t)i, m->vocabulary);
    w.targets[i] = (token_id)random_below(2, 2, (uint64_t)i, m->vocabulary);
  }
  return w;
}

static void **state_blocks(const train_model *m, bool random) {
  void **blocks = calloc(MOST_STATES, sizeof *blocks);
  assert_in_range(m->state_count, 0, MOST_STATES);
  for (int i = 0; i < m->state_count; i++) {
    double *block = blocks[i] = calloc((size_t)(m->states[i].elements * BATCH), sizeof(double));
    for (int64_t k = 0; random && k < m->states[i].elements * BATCH; k++)
      block[k] = 0.3 * random_normal(9, (uint64_t)i, (uint64_t)k);
  }
  return blocks;
}

static void free_states(void **blocks) {
  for (int i = 0; i < MOST_STATES; i++) free(blocks[i]);
  free(blocks);
}

static double loss_of(fixture *f, executor *x, const window *w, void **before, void *gradients) {
  void *nowhere[MOST_STATES] = {0};
  shard s = {.batch = BATCH,
             .time = TIME,
             .threads = 1,
             .tokens = w->tokens,
             .targets = w->targets,
             .before = before,
             .after = nowhere,
             .d_before = f->d_before};
  double losses[TIME] = {0}, loss = 0;
  void *blocks[TIME] = {gradients};
  int64_t numbers_of_all = f->model->parameter_elements;
  for (int k = 1; k < f->segments; k++) blocks[k] = malloc((size_t)numbers_of_all * sizeof(double));
  assert_int_equal(executor_run(x, f->parameters, &s, gradients ? blocks : NULL, losses, NULL),
                   REC_OK);
  for (int k = 0; k < TIME; k++) loss += losses[k];
  for (int k = 1; k < f->segments; k++) {
    if (gradients) numeric_f64.sum_into(gradients, blocks[k], numbers_of_all);
    free(blocks[k]);
  }
  return loss;
}

// Weights are made larger than they start, so that no gradient is lost behind the small start of
// the embedding.
static void spread_weights(fixture *f) {
  for (int i = 0; i < f->model->parameter_count; i++)
    for (int64_t k = 0; k < f->model->parameters[i].elements; k++)
      f->parameters[f->model->parameters[i].place + k] +=
          0.3 * random_normal(3, (uint64_t)i, (uint64_t)k);
}

typedef struct slope_run {
  fixture *f;
  executor *x;
  const window *w;
  void **before;
} slope_run;

static double slope(const slope_run *r, double *value, double step) {
  double kept = *value;
  *value = kept + step;
  double above = loss_of(r->f, r->x, r->w, r->before, NULL);
  *value = kept - step;
  double below = loss_of(r->f, r->x, r->w, r->before, NULL);
  *value = kept;
  return (above - below) / (2 * step);
}

static double expected_slope(const slope_run *r, double *value, double found) {
  double expected = slope(r, value, 1e-5);
  // Where the loss bends much, two steps cancel the error of one.
  return fabs(expected - found) > 1e-7 * (1 + fabs(expected))
             ? (4 * expected - slope(r, value, 2e-5)) / 3
             : expected;
}

static void check_state_gradients(const slope_run *r, void *const *d_before) {
  const train_model *m = r->f->model;
  for (int i = 0; i < m->state_count; i++) {
    int64_t count = m->states[i].elements * BATCH, stride = count / 7 + 1;
    for (int64_t k = 0; k < count; k += stride) {
      double found = ((const double *)d_before[i])[k],
             expected = expected_slope(r, (double *)r->before[i] + k, found);
      if (fabs(expected - found) > 1e-7 * (1 + fabs(expected)))
        fail_msg("%s[%lld]: expected %.12g, found %.12g", m->states[i].name, (long long)k, expected,
                 found);
    }
  }
}

static void check_gradients(const char *path) {
  fixture f;
  open_fixture(&f, path);
  spread_weights(&f);
  window w = random_window(f.model);
  void **before = state_blocks(f.model, true), **d_before = state_blocks(f.model, false);
  executor *x = new_executor(&f, f.kernels, &training);
  f.d_before = d_before;
  loss_of(&f, x, &w, before, f.gradients);
  f.d_before = NULL;
  const slope_run run = {&f, x, &w, before};
  for (int i = 0; i < f.model->parameter_count; i++) {
    const model_parameter *p = &f.model->parameters[i];
    int64_t stride = p->elements / 7 + 1;
    for (int64_t k = 0; k < p->elements; k += stride) {
      double *value = f.parameters + p->place + k, found = f.gradients[p->place + k];
      double expected = expected_slope(&run, value, found);
      if (fabs(expected - found) > 1e-7 * (1 + fabs(expected)))
        fail_msg("%s[%lld]: expected %.12g, found %.12g", p->name, (long long)k, expected, found);
    }
  }
  check_state_gradients(&run, d_before);
  executor_free(x);
  free_states(before);
  free_states(d_before);
  close_fixture(&f);
}

TEST(gradients_of_mamba2) { check_gradients(REC_SOURCE_DIR "/tests/graph/small-mamba2.rec"); }

TEST(gradients_of_all_kinds_of_layers) {
  check_gradients(REC_SOURCE_DIR "/tests/graph/layers-of-all-kinds.rec");
}

TEST(gradients_of_unread_parts_and_lags) {
  check_gradients(REC_SOURCE_DIR "/tests/graph/lags-in-a-repeat.rec");
}

TEST(gradients_of_odd_shapes) { check_gradients(REC_SOURCE_DIR "/tests/graph/odd-shapes.rec"); }

TEST(gradients_of_norms_of_groups) {
  check_gradients(REC_SOURCE_DIR "/tests/graph/norms-of-groups.rec");
}

// Every layer of the standard library, two of them in a model.
static const char *const standard_layers[] = {"std-mamba1", "std-mamba2",        "std-gla",
                                              "std-rwkv6",  "std-rwkv7",         "std-s4d",
                                              "std-lru",    "std-gated_deltanet"};
enum { STANDARD_LAYERS = sizeof standard_layers / sizeof *standard_layers };

TEST(gradients_of_the_standard_library) {
  for (int i = 0; i < STANDARD_LAYERS; i++) {
    char path[512];
    snprintf(path, sizeof path, REC_SOURCE_DIR "/tests/graph/%s.rec", standard_layers[i]);
    check_gradients(path);
  }
}

// How often each part of the recurrences of a name ran; NULL: of all.
typedef struct part_counts {
  const train_kernel *kernels;
  const train_model *model;
  const char *name;
  int of[RUN_PARTS];
} part_counts;

static void count_part(void *context, int op, run_part part, double amount) {
  part_counts *counts = context;
  int kernel = counts->model->ops[op].kernel;
  (void)amount;
  if (!counts->name ||
      (kernel >= 0 && !strcmp(counts->kernels[kernel].signature->name, counts->name)))
    counts->of[part]++;
}

// Loss and gradients of a fixture with other kernels, against the reference's in one segment.
static part_counts check_kernels(fixture *f, const char *name, const train_kernel *kernels,
                                 const executor_form *form, const char *counted) {
  part_counts counts = {kernels, f->model, counted, {0}};
  window w = random_window(f->model);
  void **before = state_blocks(f->model, true);
  double *gradients = calloc((size_t)f->model->parameter_elements, sizeof(double));
  executor *x = new_executor(f, f->kernels, &training), *other = new_executor(f, kernels, form);
  executor_watch_by(other, (executor_watch){count_part, &counts});
  void **d_expected = state_blocks(f->model, false), **d_found = state_blocks(f->model, false);
  f->d_before = d_expected;
  double expected = loss_of(f, x, &w, before, f->gradients);
  f->d_before = d_found;
  f->segments = form->segment ? SEGMENTS : 1;
  double found = loss_of(f, other, &w, before, gradients);
  f->segments = 1;
  for (int i = 0; i < f->model->state_count; i++)
    for (int64_t k = 0; k < f->model->states[i].elements * BATCH; k++) {
      double e = ((double *)d_expected[i])[k], g = ((double *)d_found[i])[k];
      if (fabs(e - g) > 1e-9 * (1 + fabs(e)))
        fail_msg("%s: %s: gradient %lld: expected %.12g, found %.12g", name,
                 f->model->states[i].name, (long long)k, e, g);
    }
  assert_true(fabs(expected - found) < 1e-10 * fabs(expected));
  for (int64_t i = 0; i < f->model->parameter_elements; i++)
    if (fabs(f->gradients[i] - gradients[i]) > 1e-9 * (1 + fabs(f->gradients[i])))
      fail_msg("%s: gradient %lld: expected %.12g, found %.12g", name, (long long)i,
               f->gradients[i], gradients[i]);
  free(gradients);
  free_states(before);
  free_states(d_expected);
  free_states(d_found);
  executor_free(x);
  executor_free(other);
  return counts;
}

typedef struct compiled_fixture {
  fixture f;
  rec_module *module;
  train_kernel kernels[32];
} compiled_fixture;

// The same program through recc in double precision.
static void open_compiled(const char *name, compiled_fixture *c) {
  char program[512], library[512], command[2048];
  snprintf(program, sizeof program, REC_SOURCE_DIR "/tests/graph/%s.rec", name);
  snprintf(library, sizeof library, REC_BINARY_DIR "/tests/train_model_%s.so", name);
  snprintf(command, sizeof command,
           REC_BINARY_DIR "/bin/recc --dtype f64 --target x86-64-v2 -O1 --summary %s -o %s",
           program, library);
  assert_int_equal(system(command), 0);
  assert_int_equal(rec_module_open(library, &c->module), REC_OK);
  open_fixture(&c->f, program);
  spread_weights(&c->f);
  for (int i = 0; i < c->f.program->kernel_count; i++) {
    const rec_recurrence *r = rec_module_find(c->module, c->f.program->kernels[i]);
    assert_non_null(r);
    c->kernels[i] = execute_library_kernel(r, REC_DEVICE_HOST);
  }
}

static void close_compiled(compiled_fixture *c) {
  rec_module_close(c->module);
  close_fixture(&c->f);
}

// Loss and gradients are the reference's, in segments too, between which states pass by summaries.
static void check_compiled(const char *name) {
  compiled_fixture c;
  open_compiled(name, &c);
  check_kernels(&c.f, name, c.f.kernels, &training_in_segments, NULL);
  check_kernels(&c.f, name, c.kernels, &training, NULL);
  check_kernels(&c.f, name, c.kernels, &training_in_segments, NULL);
  const part_counts counts = check_kernels(&c.f, name, c.kernels, &training_by_chain, NULL);
  if (counts.of[RAN_FOLD] == 0 || counts.of[RAN_FOLD_BACKWARD] != counts.of[RAN_FOLD])
    fail_msg("%s: %d folds, backward %d", name, counts.of[RAN_FOLD], counts.of[RAN_FOLD_BACKWARD]);
  close_compiled(&c);
}

TEST(compiled_models_equal_the_reference) {
  check_compiled("small-mamba2");
  check_compiled("layers-of-all-kinds");
  check_compiled("odd-shapes");
  check_compiled("norms-of-groups");
  for (int i = 0; i < STANDARD_LAYERS; i++) check_compiled(standard_layers[i]);
}

// Where a summary is out of range the kernel leaves the states: always, or for some segments.
TEST(kernels_pass_states_where_summaries_cannot) {
  compiled_fixture c;
  open_compiled("transfers-out-of-range", &c);
  const part_counts growing =
                        check_kernels(&c.f, "growing", c.kernels, &training_by_chain, "M.growing"),
                    gated = check_kernels(&c.f, "gated", c.kernels, &training_by_chain, "M.gated");
  for (int back = 0; back < 2; back++) {
    int summaries = gated.of[RAN_SUMMARY + back], folds = gated.of[RAN_FOLD + back];
    assert_int_equal(growing.of[RAN_SUMMARY + back], 4 * (SEGMENTS - 1));
    assert_int_equal(growing.of[RAN_FOLD + back], back ? 4 : 0);  // the last segment has one step
    assert_int_equal(summaries, 4 * (SEGMENTS - 1));
    assert_in_range(folds, 1, summaries - 1);
  }
  close_compiled(&c);
}

// Token by token with the states handed over gives the losses of the whole window, tails of
// convolutions included.
TEST(carried_states_continue_the_window) {
  fixture f;
  open_fixture(&f, REC_SOURCE_DIR "/tests/graph/layers-of-all-kinds.rec");
  spread_weights(&f);
  window w = random_window(f.model);
  executor *x = new_executor(&f, f.kernels, &reading);
  void **states[2] = {state_blocks(f.model, false), state_blocks(f.model, false)},
       *nowhere[MOST_STATES] = {0};
  float whole[BATCH * TIME], part[BATCH];
  double loss;
  shard all = {BATCH, TIME, 1, w.tokens, w.targets, nowhere, nowhere, NULL, NULL, 0, 0};
  assert_int_equal(executor_run(x, f.parameters, &all, NULL, &loss, whole), REC_OK);
  for (int t = 0; t < TIME; t++) {
    token_id tokens[BATCH], targets[BATCH];
    for (int b = 0; b < BATCH; b++)
      tokens[b] = w.tokens[b * TIME + t], targets[b] = w.targets[b * TIME + t];
    shard one = {BATCH, 1,    1, tokens, targets, states[t % 2], states[(t + 1) % 2],
                 NULL,  NULL, 0, 0};
    assert_int_equal(executor_run(x, f.parameters, &one, NULL, &loss, part), REC_OK);
    for (int b = 0; b < BATCH; b++) assert_true(fabs(part[b] - whole[b * TIME + t]) < 1e-5);
  }
  free_states(states[0]);
  free_states(states[1]);
  executor_free(x);
  close_fixture(&f);
}

static double value_at(const fixture *f, const char *name, int64_t element) {
  for (int i = 0; i < f->model->parameter_count; i++)
    if (!strcmp(f->model->parameters[i].name, name))
      return f->parameters[f->model->parameters[i].place + element];
  fail_msg("no weight %s", name);
  return 0;
}

// tests/graph/small-mamba2.rec starts by an init with every kind of expression.
TEST(weights_start_as_the_init_says) {
  fixture f;
  open_fixture(&f, REC_SOURCE_DIR "/tests/graph/small-mamba2.rec");
  assert_true(value_at(&f, "layers.0.conv1d.weight", 3) == 1 &&
              value_at(&f, "layers.0.conv1d.weight", 2) == 0);
  assert_true(fabs(log1p(exp(value_at(&f, "layers.1.dt_bias", 1))) - 1) < 1e-12);
  double a = value_at(&f, "layers.0.A_log", 0);
  assert_true(a <= 0 && a >= -8 * log(16));
  assert_true(a != value_at(&f, "layers.1.A_log", 0));
  // in_proj rows: z 8, x 8, B 3, C 3, dt 2, each of 6 columns
  for (int64_t i = 0; i < 3 * 6; i++) {
    double b = value_at(&f, "layers.0.in_proj.weight", 16 * 6 + i),
           c = value_at(&f, "layers.0.in_proj.weight", 19 * 6 + i);
    // c - b / 2 is half of a draw within the bound
    assert_true(fabs(c - 0.5 * b) <= 0.5 / sqrt(6) && c != 0);
  }
  assert_true(value_at(&f, "layers.1.in_proj.weight", 22 * 6) == 0);
  close_fixture(&f);
}

// Layers of three, the spectrum of HiPPO-LegS of sizes 4, 8 and 7.
TEST(starts_know_their_layer_and_hippo_legs) {
  fixture f;
  double imaginary[8], input[8];
  open_fixture(&f, REC_SOURCE_DIR "/tests/graph/starts-of-layers-and-legs.rec");
  assert_true(value_at(&f, "top", 2) == 3);
  assert_true(value_at(&f, "layers.0.speed", 1) == -6 && value_at(&f, "layers.2.speed", 3) == -1);
  assert_true(value_at(&f, "layers.1.speed", 0) == 0.5);
  assert_true(value_at(&f, "w", 1) == 0.5);
  legs_spectrum(4, imaginary, input);
  for (int i = 0; i < 4; i++) assert_true(value_at(&f, "layers.1.freq", i) == imaginary[i]);
  legs_spectrum(8, imaginary, input);
  for (int i = 0; i < 4; i++)
    assert_true(fabs(value_at(&f, "layers.2.half", 8 + i) - imaginary[i] / sqrt(2)) < 1e-14);
  legs_spectrum(7, imaginary, input);
  for (int i = 0; i < 4; i++) assert_true(value_at(&f, "layers.0.into", i) == input[i]);
  close_fixture(&f);
}

// A parameter B[H,K] by itself: `~ index[H] + 10 * H`, and draws that are those of its name.
TEST(parameters_of_a_recurrence_start_by_themselves) {
  const rec_axis axes[] = {{.name = "H", .size = -1}, {.name = "K", .size = 2}};
  const rec_variable b = {.name = "B", .kind = REC_PARAM, .axis_count = 2, .axes = (int[]){0, 1}};
  const rec_signature s = {.axis_count = 2, .axes = axes, .variable_count = 1, .variables = &b};
  const int64_t sizes[] = {3, 2};
  const struct {
    const char *start;
    rec_status status;
    double last;
  } cases[] = {{"[\"add\", [\"index\", 2, \"H\"], [\"mul\", 10, \"H\"]]", REC_OK, 32},
               {"[\"uniform\", 0, 1, 2]", REC_OK,
                1 + random_uniform(0, random_stream("B"), (uint64_t)5 * 4096)},
               {"[\"mul\", 10, \"N\"]", REC_ERROR_FORMAT, 0},
               {"[\"weight\", 0, 0]", REC_ERROR_FORMAT, 0}};
  for (int i = 0; i < 4; i++) {
    double numbers[6] = {0};
    cJSON *start = cJSON_Parse(cases[i].start);
    assert_int_equal(parameter_start(&s, 0, start, sizes, &numeric_f64, numbers), cases[i].status);
    assert_true(cases[i].status || numbers[5] == cases[i].last);
    cJSON_Delete(start);
  }
}

// A default start that is drawn from itself would never end.
TEST(starts_that_go_round_are_refused) {
  fixture f;
  open_fixture(&f, REC_SOURCE_DIR "/tests/graph/small-mamba2.rec");
  cJSON *round = cJSON_Parse("[\"add\", [\"weight\", 0, 0], [\"weight\", 0, 0]]");
  const model_part part = {.count = 1, .start = round, .by_default = round};
  model_parameter parameter = f.model->parameters[0];
  train_model model = *f.model;
  parameter.parts = &part, parameter.part_count = 1;
  model.parameters = &parameter, model.parameter_count = 1;
  assert_int_equal(train_weights_start(&model, 5, &numeric_f64, f.parameters), REC_ERROR_FORMAT);
  cJSON_Delete(round);
  close_fixture(&f);
}

// A damaged program is refused, whichever of its numbers is wrong.
TEST(damaged_programs_are_refused) {
  fixture f;
  open_fixture(&f, REC_SOURCE_DIR "/tests/graph/small-mamba2.rec");
  const char *keys[] = {"vocabulary", "row", "logits",   "parameters", "states",
                        "tensors",    "ops", "backward", "name"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    cJSON *copy = cJSON_Duplicate(f.json, true);
    cJSON *model = cJSON_GetArrayItem(cJSON_GetObjectItem(copy, "models"), 0);
    cJSON_ReplaceItemInObject(model, keys[i], cJSON_CreateNumber(-3));
    train_program *program;
    assert_int_equal(train_program_read(copy, &program), REC_ERROR_FORMAT);
    assert_null(program);
    cJSON_Delete(copy);
  }
  close_fixture(&f);
}
