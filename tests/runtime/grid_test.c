// The grid: every recurrence of the standard library, the golden ones and the invented ones must
// give the interpreter's values and gradients. Each is compiled for chunks of 16, 32, 64 and 128
// steps, step by step and in the form that recc chooses, in f64, f32, bf16 and f16. Lengths lie
// around every chunk; gates are weak, normal, strong, mixed and with resets. Then packed, split
// anywhere, token by token, with any number of threads.
//
//   grid_test          a seeded quarter of them: all short lengths, two long ones, three or four libraries each
//   grid_test quick    one recurrence in eight
//   grid_test full     everything (about an hour of processor time)
//   REC_SEED=N         the part of seed N again (it is printed); else a new one each run
//   REC_GRID=NAME      the recurrences whose name contains NAME alone
//
// f32 must agree to 2e-5 of the rms, or to ten times the error of a plain f32 loop. The loop is the
// interpreter, rounding every number to f32. So must bf16 and f16, on inputs rounded to them,
// beyond the rounding of each result: between load and store they are f32. f64 must agree to 1e-9,
// or to what f32 may where its digits are as many times finer.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/grid_cases.h"
#include "tests/runtime/problem.h"

enum { LIBRARIES_MAX = 14, WIDTH = 2 };

typedef struct library {
  rec_module *module;
  const rec_recurrence *recurrence;
  rec_dtype type;  // of tokens
  char name[128];
} library;

typedef struct grid {
  const grid_case *case_;
  const char *const *sizes;
  library libraries[LIBRARIES_MAX];
  int count;
  bool full;
  uint64_t seed;
} grid;

static int runs;
static double worst_f64, worst_f32, worst_narrow, worst_ratio;

// ---- Numbers ---------------------------------------------------------------------------------

static problem *draw_batch(const grid *g, int64_t batch, int64_t time, regime r, uint64_t seed) {
  const rec_signature *signature = rec_recurrence_signature(g->libraries[0].recurrence);
  problem *p = problem_new(signature, batch, time, g->case_->run_time_size);
  grid_place(g->case_, p, r, seed);
  return p;
}

static problem *draw_problem(const grid *g, int64_t time, regime r, uint64_t seed) {
  return draw_batch(g, time > 100 ? 1 : 1 + (int64_t)(seed % 2), time, r, seed);
}

static bool all_finite(const problem *p, bool backward) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    double *lists[] = {p->value[i], p->final[i], backward ? p->gradient[i] : NULL};
    for (int l = 0; l < 3; l++) {
      for (int64_t k = 0; lists[l] && k < problem_numbers(p, i); k++)
        if (!isfinite(lists[l][k])) return false;
    }
  }
  return true;
}

// ---- Comparing -------------------------------------------------------------------------------

static const char *const regime_names[REGIMES] = {"weak", "normal", "strong", "mixed", "resets"};

typedef struct cell {
  const grid *grid;
  const problem *inputs, *exact;
  const char *what;
  rec_run_options options;
  double plain_error;  // of a plain f32 loop; negative: not measured yet
  bool drawn;          // and of DRAWS more
} cell;

enum { DRAWS = 16 };

static double tolerance_of(const cell *c, const library *l) {
  double plain = 10 * fmax(c->plain_error, 0);
  return l->type == REC_F64 ? fmax(1e-9, 0x1p-29 * plain) : fmax(2e-5, plain);
}

// The loop runs where 2e-5 is not enough. Runs more where a single run may have been lucky. One
// rounded number may rule all of the error. In mLSTM after a strong write, d.q is a difference of
// two nearly equal numbers, times one row.
static void measure_plain_error(cell *c, const library *l, double error) {
  bool backward = c->options.backward;
  if (error > tolerance_of(c, l) && c->plain_error < 0)
    c->plain_error = problem_plain_error(c->inputs, c->exact, l->recurrence, backward, 0);
  if (error <= tolerance_of(c, l) || c->drawn) return;
  c->plain_error = problem_plain_error(c->inputs, c->exact, l->recurrence, backward, DRAWS);
  c->drawn = true;
}

static void judge(cell *c, const library *l, const problem *got) {
  char where[256];
  double error = problem_compare(c->exact, got, c->options.backward, 1e-4, where, sizeof where);
  measure_plain_error(c, l, error);
  double tolerance = tolerance_of(c, l);
  check(error <= tolerance,
        "%s %s B=%d T=%d: error %.2e > %.2e (plain loop %.2e) at %s; again: REC_SEED=%llu", l->name,
        c->what, (int)got->batch, (int)got->time, error, tolerance, c->plain_error, where,
        (unsigned long long)c->grid->seed);
  runs++;
  if (l->type == REC_F64) worst_f64 = fmax(worst_f64, error);
  if (rec_dtype_size(l->type) == 2) worst_narrow = fmax(worst_narrow, error);
  if (l->type != REC_F32) return;
  worst_f32 = fmax(worst_f32, error);
  if (error > 2e-5) worst_ratio = fmax(worst_ratio, error / c->plain_error);
}

// The same inputs for a library of another element type, rounded to it.
static problem *copy_for(const library *l, const problem *inputs) {
  problem *p = problem_copy(inputs);
  problem_retype(p, rec_recurrence_signature(l->recurrence));
  return p;
}

// Makes a cell the library's own: a 16-bit type has other inputs and exact results, which the
// caller frees.
static bool own_cell(const cell *c, const library *l, cell *own) {
  const rec_run_options plain = {.backward = c->options.backward};
  if (rec_dtype_size(l->type) != 2) return true;
  problem *inputs = copy_for(l, c->inputs), *exact = problem_copy(inputs);
  own->inputs = inputs;
  own->exact = exact;
  own->plain_error = -1;
  own->drawn = false;
  return problem_run(exact, l->recurrence, "reference", &plain);
}

static void free_own_cell(const cell *c, const cell *own) {
  if (own->inputs == c->inputs) return;
  problem_free((problem *)own->inputs);
  problem_free((problem *)own->exact);
}

// Judges what is left of `host` after it ran; NULL: it did not run.
static void judge_own(cell *c, const library *l, const problem *host) {
  cell own = *c;
  bool ran = host && own_cell(c, l, &own);
  if (check(ran, "%s %s: %s", l->name, c->what, rec_message())) judge(&own, l, host);
  if (host) free_own_cell(c, &own);
}

// All libraries on the same inputs against one run of the interpreter.
static void run_cell(const grid *g, const problem *inputs, const char *what,
                     rec_run_options options) {
  const rec_run_options plain = {.backward = options.backward};
  const char *name = g->case_->recurrence;
  problem *exact = problem_copy(inputs);
  bool ran = problem_run(exact, g->libraries[0].recurrence, "reference", &plain);
  check(ran && all_finite(exact, options.backward), "%s %s T=%d: the interpreter gives %s", name,
        what, (int)inputs->time, ran ? "no finite numbers" : rec_message());
  cell c = {g, inputs, exact, what, options, -1, false};
  for (int i = 0; ran && i < g->count; i++) {
    problem *host = copy_for(&g->libraries[i], inputs);
    c.options.recompute =
        options.backward && next_random(&(uint64_t){g->seed + (uint64_t)i}) % 3 == 0;
    bool done = problem_run(host, g->libraries[i].recurrence, "host", &c.options);
    judge_own(&c, &g->libraries[i], done ? host : NULL);
    problem_free(host);
  }
  problem_free(exact);
}

static void run_length(const grid *g, int64_t time, regime r) {
  if (!grid_has_regime(g->case_, r)) r = NORMAL;
  problem *p = draw_problem(g, time, r, g->seed + (uint64_t)time * REGIMES + r);
  run_cell(g, p, regime_names[r], (rec_run_options){.backward = true});
  problem_free(p);
}

// ---- Other ways to the same numbers ----------------------------------------------------------

static void check_packed(const grid *g, uint64_t *seed) {
  const rec_signature *signature = rec_recurrence_signature(g->libraries[0].recurrence);
  int32_t lengths[] = {0, 1, 17, 0, 64, 35, 2, 0};
  int count = sizeof lengths / sizeof *lengths;
  for (int i = count - 1; i > 0; i--) {
    int other = (int)(next_random(seed) % (uint64_t)(i + 1));
    int32_t swap = lengths[i];
    lengths[i] = lengths[other];
    lengths[other] = swap;
  }
  problem *p = problem_packed(signature, lengths, count, g->case_->run_time_size);
  grid_place(g->case_, p, grid_has_regime(g->case_, MIXED) ? MIXED : NORMAL, next_random(seed));
  run_cell(g, p, "packed", (rec_run_options){.backward = true});
  run_cell(g, p, "packed, token by token", (rec_run_options){.step = true});
  problem_free(p);
}

// Two calls with the state handed over, and its gradient handed back, against the whole.
static void check_split(const grid *g, uint64_t *seed) {
  problem *whole = draw_problem(g, 70, NORMAL, next_random(seed));
  problem_drop_states(whole);
  problem *exact = problem_copy(whole);
  const rec_run_options backward = {.backward = true};
  int64_t at = (int64_t)(next_random(seed) % 71);
  char what[32];
  snprintf(what, sizeof what, "split at %d", (int)at);
  bool ran = problem_run(exact, g->libraries[0].recurrence, "reference", &backward);
  cell c = {g, whole, exact, what, backward, -1, false};
  for (int i = 0; ran && i < g->count; i++) {
    problem *copy = copy_for(&g->libraries[i], whole);
    problem *joined = problem_run_split(copy, at, g->libraries[i].recurrence, "host", &backward);
    problem_free(copy);
    judge_own(&c, &g->libraries[i], joined);
    problem_free(joined);
  }
  problem_free(whole);
  problem_free(exact);
}

static void check_threads(const grid *g, uint64_t *seed) {
  problem *p = draw_problem(g, 130, NORMAL, next_random(seed));
  for (int i = 0; i < g->count; i++) {
    problem *one = copy_for(&g->libraries[i], p), *three = copy_for(&g->libraries[i], p);
    const rec_run_options options = {.backward = true, .threads = 1},
                          more = {.backward = true, .threads = 3};
    bool ran = problem_run(one, g->libraries[i].recurrence, "host", &options) &&
               problem_run(three, g->libraries[i].recurrence, "host", &more);
    check(ran && problem_equal(one, three, true), "%s: 3 threads give other bits than one",
          g->libraries[i].name);
    problem_free(one);
    problem_free(three);
  }
  problem_free(p);
}

static void check_ways(const grid *g) {
  uint64_t seed = g->seed;
  check_packed(g, &seed);
  check_split(g, &seed);
  check_split(g, &seed);
  check_threads(g, &seed);
  problem *p = draw_problem(g, 33, NORMAL, next_random(&seed));
  problem_drop_states(p);
  run_cell(g, p, "without states", (rec_run_options){.backward = true});
  problem_free(p);
  p = draw_batch(g, 9, 5, NORMAL, next_random(&seed));
  run_cell(g, p, "nine entries", (rec_run_options){.backward = true});
  run_cell(g, p, "nine entries, token by token", (rec_run_options){.step = true});
  problem_free(p);
  p = draw_batch(g, 0, 5, NORMAL, seed);
  run_cell(g, p, "empty batch", (rec_run_options){.backward = true});
  problem_free(p);
}

// ---- One recurrence --------------------------------------------------------------------------

static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 300, 1031};
enum { LENGTHS = sizeof lengths / sizeof *lengths, SHORT_LENGTHS = 6 };

static void run_lengths(const grid *g) {
  for (int i = 0; g->full && i < LENGTHS; i++) {
    for (int r = 0; r < REGIMES; r++)
      if (grid_has_regime(g->case_, (regime)r)) run_length(g, lengths[i], (regime)r);
  }
  if (g->full) return;
  uint64_t seed = g->seed;
  for (int i = 0; i < SHORT_LENGTHS; i++)
    run_length(g, lengths[i], (regime)(next_random(&seed) % REGIMES));
  for (int i = 0; i < 2; i++) {
    int chosen = SHORT_LENGTHS + (int)(next_random(&seed) % (LENGTHS - SHORT_LENGTHS - 1));
    run_length(g, lengths[chosen], (regime)(next_random(&seed) % REGIMES));
  }
}

// What recc is told: chunk 0 is one step at a time. Of the others, recc chooses the form of one in
// three.
typedef struct options {
  const char *words[24];
  char text[16], every[16];
} options;

static void fill_options(const grid *g, options *o, rec_dtype type, int chunk, bool quick,
                         const char *target, int index) {
  int n = 0;
  o->words[n++] = "--target";
  o->words[n++] = target;
  o->words[n++] = "--dtype";
  o->words[n++] = rec_number_text(type);
  o->words[n++] = "--form";
  o->words[n++] = !chunk ? "step" : (g->seed + (uint64_t)index) % 3 ? "chunk" : "chosen";
  snprintf(o->text, sizeof o->text, "%d", chunk);
  snprintf(o->every, sizeof o->every, "%d", chunk << index % 3);
  if (chunk)
    o->words[n++] = "--chunk", o->words[n++] = o->text, o->words[n++] = "--save-every",
    o->words[n++] = o->every;
  if (quick) o->words[n++] = "-O0";
  for (int i = 0; i < 6 && g->sizes[i]; i++) {
    o->words[n++] = "-D";
    o->words[n++] = g->sizes[i];
  }
  o->words[n] = NULL;
}

// The seeded part has code for one kind of processor, the whole grid for all; either runs that for
// this machine alone.
static const char *target_of(const grid *g, int index) {
  uint64_t random = g->seed + (uint64_t)(g->case_ - grid_cases) * LIBRARIES_MAX + (uint64_t)index;
  return g->full ? "host" : random_target(next_random(&random));
}

static void add_library(grid *g, rec_dtype type, int chunk, bool quick, compilation *started,
                        int index) {
  options o;
  fill_options(g, &o, type, chunk, quick, target_of(g, index), index);
  library *l = &g->libraries[index];
  *l = (library){.type = type};
  snprintf(l->name, sizeof l->name, "%s", g->case_->recurrence);
  for (int i = 0; o.words[i]; i++) {
    size_t used = strlen(l->name);
    snprintf(l->name + used, sizeof l->name - used, " %s", o.words[i]);
  }
  started[index] = compile_start_file(g->case_->path, o.words);
}

static void finish_libraries(grid *g, int from, int to, const compilation *started) {
  for (int i = from; i < to; i++) {
    library *l = &g->libraries[i];
    l->module = compile_finish(&started[i]);
    check(l->module, "%s does not compile", l->name);
    l->recurrence = l->module ? rec_module_find(l->module, g->case_->recurrence) : NULL;
    if (l->module) check(l->recurrence, "%s is not in %s", g->case_->recurrence, g->case_->path);
  }
}

// f32 step by step, then f64 and f32 by turns; two recc side by side. Then 16-bit types, in a part
// of the cases.
static void compile_case(grid *g, uint64_t number) {
  static const int chunks[] = {16, 32, 64, 128};
  compilation started[LIBRARIES_MAX];
  // All the effort that users get takes four times as long: in the seeded part every eighth case
  // has it.
  bool quick = !g->full && (g->seed / 4 + number) % 8 != 0;
  int first = (int)((g->seed + number) % 4), count = 0, finished = 0;
  add_library(g, REC_F32, 0, !g->full, started, count++);
  if (g->full) add_library(g, REC_F64, 0, false, started, count++);
  for (int i = 0; i < (g->full ? 4 : 1); i++) {
    int chunk = chunks[(first + i) % 4],
        other = g->full ? chunk : chunks[(first + 1 + g->seed / 4 % 3) % 4];
    if (count - finished >= WIDTH) finish_libraries(g, finished, count, started), finished = count;
    add_library(g, REC_F64, chunk, quick, started, count++);
    add_library(g, REC_F32, other, g->full ? i % 2 : quick, started, count++);
  }
  finish_libraries(g, finished, count, started), finished = count;
  for (int i = 0; i < (g->full ? 4 : (g->seed + number) % 3 == 0); i++) {
    rec_dtype type = (g->seed + number / 3 + (uint64_t)i) % 2 ? REC_BF16 : REC_F16;
    add_library(g, type, chunks[(first + i + i / 2) % 4], !g->full, started, count++);
  }
  finish_libraries(g, finished, count, started);
  g->count = count;
}

static void run_case(const grid_case *c, const char *const *sizes, bool full, uint64_t seed) {
  grid g = {.case_ = c, .sizes = sizes, .full = full, .seed = seed};
  compile_case(&g, (uint64_t)(c - grid_cases));
  bool complete = true;
  for (int i = 0; i < g.count; i++) complete = complete && g.libraries[i].recurrence;
  if (complete) {
    run_lengths(&g);
    check_ways(&g);
  }
  for (int i = 0; i < g.count; i++) rec_module_close(g.libraries[i].module);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0,
       quick = count > 1 && strcmp(words[1], "quick") == 0;
  const char *only = getenv("REC_GRID");
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *c = &grid_cases[i];
    if (only && !strstr(c->recurrence, only)) continue;
    if (!full && !only && (seed + (uint64_t)i) % (quick ? 8 : 4) != 0) continue;
    run_case(c, c->sizes, full, seed);
    if (full && c->more_sizes[0]) run_case(c, c->more_sizes, full, seed);
  }
  printf(
      "%d runs; largest error f64 %.1e, f32 %.1e, %.1f times that of a plain f32 loop, 16 bits "
      "%.1e beyond rounding\n",
      runs, worst_f64, worst_f32, worst_ratio, worst_narrow);
  return checked();
}
