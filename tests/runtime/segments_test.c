// Segments of time, as machines that share a sequence have them: each is summarised by itself, the
// summaries are folded into the states before each segment and the cotangents after it, and each
// segment then runs by itself. Together they give what the interpreter gives for the whole
// sequence, values and gradients.
//
//   segments_test         a fifth of the standard library in 3 segments, one regime of decay each; GPU code of some on the executor
//   segments_test full    also the golden and invented recurrences, in 2, 3 and 8 segments, in every regime
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/grid_cases.h"
#include "tests/runtime/segments.h"
#include "tests/runtime/state_orders.h"

static int with_summaries, out_of_range;
static const char *device = "host";

static bool on_gpu(void) { return strcmp(device, "host") != 0; }

static const char *target(void) { return on_gpu() ? simt_target() : host_target(); }

static void compare(const rec_recurrence *r, const problem *whole, const problem *got, int count,
                    const char *what, double least) {
  char where[256];
  problem *exact = problem_copy(whole), *alone = problem_copy(whole);
  const rec_run_options both = {.backward = true};
  bool ran = problem_run(exact, r, "reference", &both) && problem_run(alone, r, device, &both);
  if (check(ran, "%s: %s", r->symbol, rec_message())) {
    double one = problem_compare(exact, alone, true, 1e-4, where, sizeof where);
    double error = problem_compare(exact, got, true, 1e-4, where, sizeof where);
    check(error <= least + 3 * one, "%s, %s, %d segments: error %.2e at %s; %.2e in one call",
          r->symbol, what, count, error, where, one);
  }
  problem_free(exact);
  problem_free(alone);
}

static void run_segments(const rec_recurrence *r, const problem *whole, int count, const char *what,
                         double least) {
  segments_report report;
  problem *got = segments_run(r, device, whole, count, &report);
  check(!*report.wrong, "%s, %s, %d segments: %s", r->symbol, what, count, report.wrong);
  with_summaries += report.summarised;
  out_of_range += report.out_of_range;
  if (got) compare(r, whole, got, count, what, least);
  problem_free(got);
}

// ---- the grid --------------------------------------------------------------------------------

static void run_case(const grid_case *g, int number, bool full) {
  static const char *const names[REGIMES] = {"weak", "normal", "strong", "mixed", "resets"};
  static const int counts[] = {3, 2, 8};
  const char *words[24] = {"--target", target(), "-O1", "--summary"};
  int count = 4;
  for (int i = 0; i < 6 && g->sizes[i]; i++) {
    words[count++] = "-D";
    words[count++] = g->sizes[i];
  }
  rec_module *module = compile_file(g->path, words);
  if (!check(module, "%s does not compile", g->path)) return;
  const rec_recurrence *r = rec_module_find(module, g->recurrence);
  for (int way = 0; way < REGIMES; way++) {
    if (!full && way != number % REGIMES) continue;
    for (int i = 0; i < (full ? 3 : 1); i++) {
      problem *whole = problem_new(rec_recurrence_signature(r), 2,
                                   counts[i] * (full ? 64 : 40 + number % 7), g->run_time_size);
      grid_place(g, whole, (regime)way, (uint64_t)(number + 100 * way));
      problem_retype(whole, whole->signature);
      run_segments(r, whole, counts[i], names[way], 2e-5);
      problem_free(whole);
    }
  }
  rec_module_close(module);
}

// ---- transfers that are out of range ---------------------------------------------------------

// Entry by entry, complex, and a delta rule. States are 0 where gates are above 1, and behind that
// one step lets nothing through.
static const char growing[] =
    "recurrence entries(N = 5, D) {\n"
    "  input g[D], x[N,D]\n"
    "  state h[N,D]\n"
    "  output y[D]\n"
    "  h = g * h[t-1] + x\n"
    "  y = sum[N](h)\n"
    "}\n"
    "recurrence turning(D) {\n"
    "  input g[D], a[D], x[D]\n"
    "  state h[D] : complex\n"
    "  output y[D]\n"
    "  h = complex(g * cos(a), g * sin(a)) * h[t-1] + x\n"
    "  y = re(h) + 0.5 * im(h)\n"
    "}\n"
    "recurrence delta(H, K = 7, V = 5) {\n"
    "  input q[H,K], k[H,K], x[H,V], g[H]\n"
    "  state S[H,K,V]\n"
    "  output y[H,V]\n"
    "  let before = g * S[t-1]\n"
    "  S = before + 0.5 * k * (x - sum[K](k * before))\n"
    "  y = sum[K](q * S)\n"
    "}\n";

enum { GROWING_STEPS = 60, BEGIN = 13, END = 47 };

static void make_grow(problem *p) {
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    double *tokens = v->kind == REC_OUTPUT ? p->gradient[i] : p->value[i];
    int64_t row = problem_numbers(p, i) / p->time / p->batch;
    for (int64_t n = 0; is_token(v) && n < problem_numbers(p, i); n++) {
      int64_t step = n / row % p->time;
      bool inside = step > BEGIN && step < END, at_end = step == BEGIN || step == END;
      if (strcmp(v->name, "g") == 0) tokens[n] = inside ? 3 : at_end ? 0 : 0.5 + 0.2 * tokens[n];
      if (strcmp(v->name, "x") == 0 || v->kind == REC_OUTPUT)
        tokens[n] = inside || at_end ? 0 : tokens[n];
    }
  }
}

// The resets at the ends lie in other segments than the growth between them.
static void run_growing(const rec_recurrence *r) {
  int before = out_of_range;
  problem *whole = problem_new(rec_recurrence_signature(r), 2, GROWING_STEPS, 3);
  problem_draw(whole, 5, 0.7);
  make_grow(whole);
  problem_retype(whole, whole->signature);
  run_segments(r, whole, 4, "growing", 2e-5);
  check(out_of_range > before, "%s: transfers of 3 to the power of 15 are not out of range",
        r->symbol);
  problem_free(whole);
}

// ---- packed sequences ------------------------------------------------------------------------

static bool is_stopped(const char *recurrence, const char *state) {
  if (strcmp(recurrence, "mlstm") == 0) return strcmp(state, "m") == 0;
  bool peaks =
      strncmp(recurrence, "peaks_", 6) == 0 || strncmp(recurrence, "fewer_peaks_", 12) == 0;
  return peaks && strcmp(state, "U") == 0;
}

// Of a state whose update is behind stop_gradient no cotangent is handed on: it is 0.
static void expect_stopped(problem *exact) {
  for (int i = 0; i < exact->signature->variable_count; i++)
    if (is_stopped(exact->signature->name, exact->signature->variables[i].name))
      memset(exact->gradient[i], 0, (size_t)problem_numbers(exact, i) * sizeof *exact->gradient[i]);
}

static void run_packed(const rec_recurrence *r, const int32_t *lengths, int64_t sequences,
                       const char *what) {
  segments_report report;
  problem *packed = problem_packed(rec_recurrence_signature(r), lengths, sequences, 2);
  problem_draw(packed, 3, 0.4);
  problem_retype(packed, packed->signature);
  problem *exact = problem_copy(packed);
  if (check(problem_run(exact, r, "reference", &(rec_run_options){.backward = true}), "%s",
            rec_message())) {
    expect_stopped(exact);
    segments_pack(r, device, packed, exact, 3e-5, &report);
    check(!*report.wrong, "%s, %s: %s", r->symbol, what, report.wrong);
  }
  problem_free(packed);
  problem_free(exact);
}

static void run_all_packed(const rec_recurrence *r) {
  static const int32_t one[] = {40}, some[] = {13, 27, 20}, empty_ends[] = {0, 30, 0},
                       empty[] = {0};
  run_packed(r, one, 1, "one sequence");
  run_packed(r, some, 3, "three sequences");
  run_packed(r, empty_ends, 3, "empty sequences at the ends");
  run_packed(r, empty, 1, "no steps");
}

// ---- recurrences without ---------------------------------------------------------------------

static rec_status refuse_summary(void *context, const rec_host_session *s) {
  rec_sizes sizes = *(const rec_sizes *)context;
  rec_status status =
      rec_library_answer(s->recurrence, s->recurrence->summary(s->arguments, &s->launch, NULL));
  check(status == REC_ERROR_UNSUPPORTED && sizes.summary == 0 && sizes.summary_backward == 0,
        "%s: status %d, %d bytes", s->recurrence->symbol, (int)status, (int)sizes.summary);
  return REC_OK;
}

static void refuses(const char *path, const char *option, const char *expected) {
  const char *const words[] = {"--target", target(), "-O0", option, NULL};
  rec_module *module = compile_file(path, words);
  if (!check(module, "%s does not compile", path)) return;
  const rec_recurrence *r = rec_module_recurrence(module, 0);
  problem *p = problem_new(rec_recurrence_signature(r), 1, 3, 2);
  problem_draw(p, 1, 0.5);
  problem_retype(p, p->signature);
  rec_sizes sizes = segments_sizes(r, device, p);
  check(problem_use(p, r, device, &(rec_run_options){0}, refuse_summary, &sizes), "%s",
        rec_message());
  check(strstr(rec_message(), expected), "%s: expected '%s', found '%s'", path, expected,
        rec_message());
  problem_free(p);
  rec_module_close(module);
}

// The step before a segment is the caller's, in single steps, too.
static void run_lags(const rec_recurrence *r) {
  problem *whole = problem_new(rec_recurrence_signature(r), 2, GROWING_STEPS, 3);
  problem_draw(whole, 8, 0.7);
  problem_retype(whole, whole->signature);
  // slices of a GPU that warm up begin in chunks
  check(on_gpu() || segments_sizes(r, device, whole).summary_backward > 0, "%s has no summary",
        r->symbol);
  run_segments(r, whole, 3, "lags", 2e-5);
  problem_free(whole);
}

// ---- axes in any order -----------------------------------------------------------------------

static void run_order(const rec_recurrence *r) {
  bool f64 = rec_recurrence_signature(r)->token_type == REC_F64;
  problem *whole = problem_new(rec_recurrence_signature(r), 2, 39, 4);
  problem_draw(whole, 9, 0.7);
  problem_retype(whole, whole->signature);
  check(segments_sizes(r, device, whole).summary > 0, "%s has no summary", r->symbol);
  run_segments(r, whole, 3, "in any order", f64 ? 1e-9 : 2e-5);
  problem_free(whole);
  run_all_packed(r);
}

static void run_orders(const char *type, bool full, uint64_t seed) {
  arena *a = arena_new();
  const char *text = "";
  for (int axes = 2; axes <= 3; axes++) {
    for (int way = 0; way < state_order_ways(); way++) {
      int count = state_order_count(axes), drawn = random_below(&seed, count - 1) + 1;
      for (int order = 0; order < count; order++)
        if (full || order == drawn)
          text = arena_printf(a, "%s%s", text, state_order(a, way, axes, order));
    }
  }
  const char *const words[] = {"--target", target(), "-O0", "--summary", "--dtype", type, NULL};
  rec_module *module = compile_text(text, words);
  for (int i = 0; check(module, "does not compile") && i < rec_module_count(module); i++)
    run_order(rec_module_recurrence(module, i));
  rec_module_close(module);
  arena_free(a);
}

// Heads share a state that nothing of an earlier step enters.
static const char shared_delay[] =
    "recurrence shared_delay(H) {\n"
    "  input  x[H], a\n"
    "  state  s\n"
    "  output y[H]\n"
    "  s = a\n"
    "  y = x * s[t-1]\n"
    "}\n";

// No step reads the cotangents of these states: each step makes that of c 0, and that of m of what
// follows.
static const char unread[] =
    "recurrence constant_beside() {\n"
    "  input  x\n"
    "  state  c, S\n"
    "  output y\n"
    "  c = 1\n"
    "  S = 0.9 * S[t-1] + x\n"
    "  y = S\n"
    "}\n"
    "recurrence stopped_beside() {\n"
    "  input  x\n"
    "  state  m, S\n"
    "  output y\n"
    "  m = stop_gradient(x)\n"
    "  S = 0.9 * S[t-1] + x * m[t-1]\n"
    "  y = S\n"
    "}\n";

static void run_programs(void) {
  const char *const words[] = {"--target", target(), "-O0", "--summary", NULL};
  rec_module *module = compile_text(growing, words);
  for (int i = 0; check(module, "does not compile") && i < rec_module_count(module); i++) {
    run_growing(rec_module_recurrence(module, i));
    run_all_packed(rec_module_recurrence(module, i));
  }
  rec_module_close(module);
  module = compile_file("stdlib/mlstm.rec", words);
  if (check(module, "does not compile")) run_all_packed(rec_module_find(module, "mlstm"));
  rec_module_close(module);
  module = compile_file("tests/artifact/library/decay.rec", words);
  if (check(module, "does not compile")) run_lags(rec_module_recurrence(module, 0));
  rec_module_close(module);
  module = compile_text(unread, words);
  for (int i = 0; check(module, "does not compile") && i < rec_module_count(module); i++)
    run_all_packed(rec_module_recurrence(module, i));
  rec_module_close(module);
  module = compile_text(shared_delay, words);
  if (check(module, "does not compile")) run_all_packed(rec_module_recurrence(module, 0));
  rec_module_close(module);
  if (on_gpu()) return;
  refuses(REC_SOURCE_DIR "/stdlib/gru.rec", "--summary", "h is not linear in itself");
  refuses(REC_SOURCE_DIR "/stdlib/retnet.rec", "--check", "it was compiled without --summary");
}

// But for `full` a fifth of the cases, which the seed draws, on a GPU one of a few.
static void run_on(const char *name, bool full, uint64_t seed) {
  enum { A_FEW = 9, FIRST = 1 };
  const char *only = getenv("REC_GRID");
  device = name;
  if (!only || strcmp(only, "orders") == 0) run_orders("f32", full, seed);
  if (!only && !on_gpu()) run_orders("f64", full, seed);
  if (!only || strcmp(only, "programs") == 0) run_programs();
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *g = &grid_cases[i];
    if (only && !strstr(g->recurrence, only)) continue;
    bool drawn = only || (on_gpu() ? i % A_FEW == FIRST : (seed + (uint64_t)i) % 5 == 0);
    if (full || (drawn && strncmp(g->path, "stdlib/", 7) == 0)) run_case(g, i, full);
  }
}

int main(int argc, char **argv) {
  bool full = argc > 1 && strcmp(argv[1], "full") == 0;
  uint64_t seed = chosen_seed();
  printf("REC_SEED=%llu\n", (unsigned long long)seed);
  run_on("host", full, seed);
  run_on("simt", full, seed);
  printf("%d sequences in segments, %d summaries out of range\n", with_summaries, out_of_range);
  return checked();
}
