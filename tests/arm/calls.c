// Libraries for aarch64 against the interpreter: the recurrences of the grid
// (tests/runtime/grid_cases.h), each compiled with options that the seed draws. Their calls run in
// a process of its own, under an emulator.
//
//   arm-calls SHARE COMMAND..    one recurrence in SHARE; COMMAND starts tests/arm/driver.c
//   REC_SEED=N  the part of seed N again; REC_GRID=NAME  the recurrences whose name contains NAME alone
//
// Results must agree as those of the grid do. A library for this machine lays the arguments out:
// they are the same.
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/device.h"
#include "tests/arm/call.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/grid_cases.h"
#include "tests/runtime/problem.h"

// ---- The process under the emulator ----------------------------------------------------------

static FILE *to_driver, *from_driver;
static const char *library_path;  // of what is called
static const char lost[] = "the driver has ended";

static void start_driver(char **command) {
  int requests[2], answers[2];
  if (pipe(requests) || pipe(answers)) abort();
  pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    close(requests[1]);
    close(answers[0]);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  to_driver = fdopen(requests[1], "w");
  from_driver = fdopen(answers[0], "r");
  if (!to_driver || !from_driver) abort();
}

static bool send_bytes(const void *from, size_t size) {
  return fwrite(from, 1, size, to_driver) == size;
}
static bool receive_bytes(void *to, size_t size) { return fread(to, 1, size, from_driver) == size; }

// ---- One call --------------------------------------------------------------------------------

typedef struct tensor {
  void *data;
  arm_buffer place;
} tensor;

typedef struct tensor_list {
  tensor *items;
  int count;
} tensor_list;

static void add_tensor(tensor_list *list, int offset, void *data, int64_t bytes) {
  if (offset >= 0 && data) list->items[list->count++] = (tensor){data, {offset, bytes}};
}

static bool list_tensors(const rec_recurrence *r, const rec_call *call, tensor_list *list) {
  const rec_signature *s = &r->signature;
  list->items = calloc(4 * (size_t)s->variable_count + 1, sizeof *list->items);
  if (!list->items) abort();
  if (call->cu_seqlens)
    add_tensor(list, r->cu_seqlens_offset, (void *)call->cu_seqlens, 4 * (call->sequences + 1));
  for (int i = 0; i < s->variable_count; i++) {
    int64_t numbers;
    if (!rec_call_numbers(s, i, call, &numbers)) return false;
    int64_t bytes = numbers * (int64_t)rec_dtype_size(rec_compiled_type(s, &s->variables[i]));
    add_tensor(list, r->places[i].value.data, call->value[i], bytes);
    add_tensor(list, r->places[i].final.data, call->final[i], bytes);
    add_tensor(list, r->places[i].gradient.data, call->gradient[i], bytes);
    add_tensor(list, r->places[i].d_final.data, call->d_final[i], bytes);
  }
  return true;
}

static bool send_call(const rec_host_session *s, const rec_run_options *options,
                      const tensor_list *list) {
  arm_call c = {.step = options->step,
                .backward = options->backward,
                .recompute = options->recompute,
                .buffers = list->count,
                .arguments_size = s->recurrence->arguments_size,
                .threads = options->threads};
  snprintf(c.library, sizeof c.library, "%s", library_path);
  snprintf(c.symbol, sizeof c.symbol, "%s", s->recurrence->symbol);
  bool sent = send_bytes(&c, sizeof c) && send_bytes(s->arguments, (size_t)c.arguments_size);
  for (int i = 0; i < list->count; i++)
    sent = sent && send_bytes(&list->items[i].place, sizeof list->items[i].place) &&
           send_bytes(list->items[i].data, (size_t)list->items[i].place.bytes);
  return sent && fflush(to_driver) == 0;
}

// A state may come back in the place that it was read from: the one after the call comes last.
static rec_status receive_answer(const rec_recurrence *r, const tensor_list *list) {
  arm_answer a;
  if (!receive_bytes(&a, sizeof a)) return rec_fail(REC_ERROR_INTERNAL, "%s", lost);
  for (int i = 0; i < list->count; i++)
    if (!receive_bytes(list->items[i].data, (size_t)list->items[i].place.bytes))
      return rec_fail(REC_ERROR_INTERNAL, "%s", lost);
  return a.status ? rec_fail((rec_status)a.status, "%s: %.*s", r->signature.name,
                             (int)sizeof a.message, a.message)
                  : REC_OK;
}

static int no_sizes(const void *arguments, rec_sizes *sizes) {
  (void)arguments;
  (void)sizes;
  return 0;
}

// The session only fills the arguments in: workspace and what is saved belong to the driver.
static rec_status run_on_arm(const rec_recurrence *recurrence, const rec_call *call,
                             const rec_run_options *options) {
  rec_recurrence r = *recurrence;
  r.sizes = no_sizes;
  rec_host_session session;
  tensor_list list = {0};
  rec_status status = rec_host_open(&r, call, options, &session);
  if (status) return status;
  if (!list_tensors(&r, call, &list))
    status = rec_no_memory();
  else
    status = send_call(&session, options, &list) ? receive_answer(&r, &list)
                                                 : rec_fail(REC_ERROR_INTERNAL, "%s", lost);
  free(list.items);
  rec_host_close(&session);
  return status;
}

static const rec_device arm = {
    .name = "aarch64", .type = REC_DTYPE_COUNT, .step = true, .run = run_on_arm};

// ---- Comparing -------------------------------------------------------------------------------

typedef struct subject {
  const grid_case *case_;
  const rec_recurrence *recurrence;
  rec_dtype type;
  const char *words;
  uint64_t seed;
} subject;

static int runs;
static double worst;

// As the grid's: beyond 2e-5 as much as ten times what a plain loop in f32 errs by, at worst of
// sixteen draws.
static double bound_of(const subject *s, const problem *inputs, const problem *exact, double error,
                       bool backward) {
  double least = s->type == REC_F64 ? 1e-9 : 2e-5;
  if (error <= least) return least;
  double plain = 10 * fmax(problem_plain_error(inputs, exact, s->recurrence, backward, 0),
                           problem_plain_error(inputs, exact, s->recurrence, backward, 16));
  return fmax(least, s->type == REC_F64 ? 0x1p-29 * plain : plain);
}

static void compare(const subject *s, problem *inputs, const char *what, rec_run_options options) {
  problem_retype(inputs, rec_recurrence_signature(s->recurrence));
  problem *exact = problem_copy(inputs), *got = problem_copy(inputs);
  const rec_run_options plain = {.backward = options.backward};
  bool ran = problem_run(exact, s->recurrence, "reference", &plain) &&
             problem_run_on(got, s->recurrence, &arm, &options);
  if (check(ran, "%s%s, %s: %s", s->case_->recurrence, s->words, what, rec_message())) {
    char where[256];
    double error = problem_compare(exact, got, options.backward, 1e-4, where, sizeof where);
    double bound = bound_of(s, inputs, exact, error, options.backward);
    check(error <= bound,
          "%s%s, %s, B=%d T=%d: error %.2e > %.2e at %s; again: REC_SEED=%llu REC_GRID=%s",
          s->case_->recurrence, s->words, what, (int)inputs->batch, (int)inputs->time, error, bound,
          where, (unsigned long long)s->seed, s->case_->recurrence);
    worst = fmax(worst, error / bound);
    runs++;
  }
  problem_free(exact);
  problem_free(got);
  problem_free(inputs);
}

static problem *draw(const subject *s, int64_t batch, int64_t time, uint64_t *seed) {
  problem *p =
      problem_new(rec_recurrence_signature(s->recurrence), batch, time, s->case_->run_time_size);
  regime r = (regime)(next_random(seed) % REGIMES);
  grid_place(s->case_, p, grid_has_regime(s->case_, r) ? r : NORMAL, next_random(seed));
  return p;
}

static problem *draw_packed(const subject *s, uint64_t *seed) {
  static const int32_t lengths[] = {2, 0, 37, 1, 18};
  problem *p =
      problem_packed(rec_recurrence_signature(s->recurrence), lengths, 5, s->case_->run_time_size);
  grid_place(s->case_, p, grid_has_regime(s->case_, MIXED) ? MIXED : NORMAL, next_random(seed));
  return p;
}

static void run_calls(const subject *s, uint64_t *seed) {
  static const int64_t short_times[] = {0, 1, 2, 15, 16, 17, 33},
                       long_times[] = {63, 64, 65, 100, 131};
  rec_run_options backward = {
      .backward = true, .recompute = next_random(seed) % 3 == 0, .threads = 1};
  compare(s,
          draw(s, 1 + (int64_t)(next_random(seed) % 5), short_times[next_random(seed) % 7], seed),
          "short", backward);
  backward.recompute = false;
  backward.threads = 3;
  compare(s, draw(s, 1, long_times[next_random(seed) % 5], seed), "long", backward);
  compare(s, draw(s, 2, 5, seed), "token by token", (rec_run_options){.step = true, .threads = 1});
  backward.threads = 1;
  compare(s, draw_packed(s, seed), "packed", backward);
}

// ---- One recurrence --------------------------------------------------------------------------

// What recc is told; the library for this machine is compiled fast.
typedef struct options {
  const char *arm[24], *own[24];
  char text[256];
} options;

static void add_word(options *o, int *count, const char *word) {
  o->arm[*count] = o->own[*count] = word;
  ++*count;
}

static rec_dtype draw_options(const grid_case *c, options *o, uint64_t *seed) {
  static const rec_dtype types[] = {REC_F32, REC_F32, REC_F32, REC_F64, REC_BF16, REC_F16};
  static const char *const chunks[] = {NULL, NULL, "16", "32", "64"}, *const levels[] = {
                                                                          "-O3", "-O3", "-O2",
                                                                          "-O0"};
  const char *const *sizes =
      c->more_sizes[0] && next_random(seed) % 3 == 0 ? c->more_sizes : c->sizes;
  rec_dtype type = types[next_random(seed) % 6];
  const char *chunk = chunks[next_random(seed) % 5], *level = levels[next_random(seed) % 4];
  bool step = next_random(seed) % 5 == 0;
  int n = 0;
  *o = (options){0};
  add_word(o, &n, "--dtype");
  add_word(o, &n, rec_number_text(type));
  for (int i = 0; i < 6 && sizes[i]; i++) {
    add_word(o, &n, "-D");
    add_word(o, &n, sizes[i]);
  }
  o->arm[n] = "--target", o->own[n++] = "--target";
  o->arm[n] = "aarch64", o->own[n++] = "x86-64-v2";
  o->own[n] = "-O0", o->arm[n++] = level;
  if (step || chunk) o->arm[n++] = "--form", o->arm[n++] = step ? "step" : "chunk";
  if (chunk && !step) o->arm[n++] = "--chunk", o->arm[n++] = chunk;
  for (int i = 0; o->arm[i]; i++) {
    size_t used = strlen(o->text);
    snprintf(o->text + used, sizeof o->text - used, " %s", o->arm[i]);
  }
  return type;
}

static void run_case(const grid_case *c, uint64_t seed) {
  char path[512];
  options o;
  uint64_t state = seed ^ (uint64_t)(c - grid_cases) << 32;
  next_random(&state);
  snprintf(path, sizeof path, REC_SOURCE_DIR "/%s", c->path);
  subject s = {.case_ = c, .seed = seed, .words = o.text};
  s.type = draw_options(c, &o, &state);
  compilation own = compile_start_file(path, o.own);
  library_path = compile_foreign(path, o.arm);
  rec_module *module = compile_finish(&own);
  s.recurrence = module ? rec_module_find(module, c->recurrence) : NULL;
  if (check(library_path && s.recurrence, "%s%s does not compile", c->recurrence, o.text))
    run_calls(&s, &state);
  rec_module_close(module);
}

int main(int count, char **words) {
  int share = count > 2 ? atoi(words[1]) : 0;
  if (share < 1) return fprintf(stderr, "usage: arm-calls SHARE COMMAND..\n"), 2;
  const char *only = getenv("REC_GRID");
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  signal(SIGPIPE, SIG_IGN);
  start_driver(words + 2);
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *c = &grid_cases[i];
    if (only ? strstr(c->recurrence, only) != NULL : (seed + (uint64_t)i) % (uint64_t)share == 0)
      run_case(c, seed);
  }
  fclose(to_driver);
  wait(NULL);
  printf("%d runs; the largest error is %.2f of what is allowed\n", runs, worst);
  return checked();
}
