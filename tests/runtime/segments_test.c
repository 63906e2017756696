// Segments of time, as machines that share a sequence have them: each is summarised by itself, the summaries are folded into the
// states before each segment and the cotangents after it, and each segment then runs by itself. Together they give what the
// interpreter gives for the whole sequence, values and gradients.
//
//   segments_test         the standard library in 3 segments, one regime of decay each; GPU code of some on the executor
//   segments_test full    also the golden and invented recurrences, in 2, 3 and 8 segments, in every regime
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/grid_cases.h"

enum { MOST_SEGMENTS = 8 };

static int with_summaries, out_of_range;
static const char *device = "host";

static bool on_gpu(void) { return strcmp(device, "host") != 0; }

static const char *target(void) { return on_gpu() ? simt_target() : host_target(); }

// A sequence in segments: problems of their own, and the summary of each, forward and backward.
typedef struct segments {
  const rec_recurrence *recurrence;
  const problem *whole;
  int count;
  problem *part[MOST_SEGMENTS];
  void *summary[2][MOST_SEGMENTS];
  bool beyond[2][MOST_SEGMENTS];  // out of range
} segments;

static void *aligned_new(int64_t bytes) {
  void *memory = aligned_alloc(REC_ALIGNMENT, (size_t)((bytes + REC_ALIGNMENT) / REC_ALIGNMENT * REC_ALIGNMENT));
  if (!memory) abort();
  memset(memory, 0xa5, (size_t)bytes);
  return memory;
}

static rec_status tell_sizes(const rec_host_session *s, rec_sizes *sizes) {
  *sizes = (rec_sizes){.size = sizeof *sizes, .device_kind = s->launch.device_kind, .device_number = s->launch.device_number};
  return rec_library_answer(s->recurrence, s->recurrence->sizes(s->arguments, sizes));
}

// ---- calls of the library --------------------------------------------------------------------

typedef struct one_call {
  segments *all;
  int segment;
  bool back;
  int first, count;   // fold: of these segments
  bool combined;      // at first made one summary
  int64_t instances;  // fold: so many at a time; 0: all
  int32_t flag;
} one_call;

static rec_status summarise(void *context, const rec_host_session *s) {
  const one_call *c = context;
  rec_sizes sizes;
  rec_status status = tell_sizes(s, &sizes);
  if (status) return status;
  void **summary = &c->all->summary[c->back][c->segment];
  *summary = aligned_new(c->back ? sizes.summary_backward : sizes.summary);
  const rec_recurrence *r = s->recurrence;
  if (c->back && s->launch.saved) status = rec_library_answer(r, r->forward(s->arguments, &s->launch));
  if (status) return status;
  return rec_library_answer(r, (c->back ? r->summary_backward : r->summary)(s->arguments, &s->launch, *summary));
}

static rec_status fold_in_blocks(const one_call *c, const rec_host_session *s, rec_segments *list, int64_t instances) {
  rec_status status = REC_OK;
  rec_launch launch = s->launch;
  for (int64_t at = 0; at < instances && !status; at += c->instances) {
    launch.first_instance = at;
    launch.instance_count = c->instances < instances - at ? c->instances : instances - at;
    status = rec_library_answer(s->recurrence, s->recurrence->fold(s->arguments, &launch, list));
  }
  return status;
}

static rec_status fold(void *context, const rec_host_session *s) {
  one_call *c = context;
  rec_sizes sizes;
  rec_status status = tell_sizes(s, &sizes);
  rec_segments list = {.size = sizeof list,
                       .summaries = (const void *const *)&c->all->summary[c->back][c->first],
                       .count = c->count,
                       .backward = c->back,
                       .out_of_range = &c->flag};
  if (status) return status;
  void *both = aligned_new(c->back ? sizes.summary_backward : sizes.summary);
  const void *const one[] = {both};
  if (c->combined) {
    status = rec_library_answer(s->recurrence, s->recurrence->combine(s->arguments, &s->launch, &list, both));
    list.summaries = one;
    list.count = 1;
  }
  if (!status && c->instances) status = fold_in_blocks(c, s, &list, sizes.instances);
  if (!status && !c->instances)
    status = rec_library_answer(s->recurrence, s->recurrence->fold(s->arguments, &s->launch, &list));
  free(both);
  return status;
}

// ---- states between segments -----------------------------------------------------------------

static double *copied(const double *numbers, int64_t count) {
  if (!numbers) return NULL;
  double *copy = malloc((size_t)(count + 1) * sizeof *copy);
  if (!copy) abort();
  return memcpy(copy, numbers, (size_t)count * sizeof *copy);
}

static void replace(double **to, const double *from, int64_t count) {
  free(*to);
  *to = copied(from, count);
}

static bool is_state(const problem *p, int variable) { return p->signature->variables[variable].kind == REC_STATE; }

// The states before the first of the segments, or the cotangents after the last, folded. NULL: they are out of range.
static problem *folded(segments *x, one_call c, const problem *from) {
  problem *p = problem_part(x->whole, 0, 0);
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (!is_carried(&p->signature->variables[i])) continue;
    replace(&p->value[i], c.back ? NULL : from->value[i], problem_numbers(p, i));
    replace(&p->d_final[i], c.back ? from->d_final[i] : NULL, problem_numbers(p, i));
  }
  c.all = x;
  bool ran = problem_use(p, x->recurrence, device, &(rec_run_options){.backward = true}, fold, &c);
  check(ran, "%s: %s", x->recurrence->symbol, rec_message());
  if (ran && !c.flag) return p;
  problem_free(p);
  return NULL;
}

// What is folded at once, one by one, in blocks of instances, and of a combined summary.
static problem *folded_each_way(segments *x, one_call c, const problem *from) {
  const char *name = x->recurrence->symbol;
  problem *got = folded(x, c, from);
  if (!got) return NULL;
  one_call in_blocks = c, combined = c;
  in_blocks.instances = 2;
  combined.combined = true;
  problem *blocks = folded(x, in_blocks, from), *one = folded(x, combined, from);
  for (int i = 0; i < got->signature->variable_count; i++) {
    if (!is_state(got, i)) continue;
    int64_t count = problem_numbers(got, i);
    double *all = c.back ? got->gradient[i] : got->final[i], largest = 0, error = 0;
    double *few = blocks ? c.back ? blocks->gradient[i] : blocks->final[i] : NULL;
    double *product = one ? c.back ? one->gradient[i] : one->final[i] : NULL;
    check(few && memcmp(all, few, (size_t)count * sizeof *all) == 0, "%s: blocks of instances give other bits", name);
    for (int64_t k = 0; product && k < count; k++) {
      largest = fmax(largest, fabs(all[k]));
      error = fmax(error, fabs(all[k] - product[k]));
    }
    // products of what nearly overflows lose digits
    check(!product || error <= 1e-3 * largest, "%s: combined summaries differ by %.1e of %.1e", name, error, largest);
  }
  if (blocks) problem_free(blocks);
  if (one) problem_free(one);
  return got;
}

static void run_part(segments *x, int s) {
  bool ran = problem_run(x->part[s], x->recurrence, device, &(rec_run_options){.backward = true});
  check(ran, "%s: %s", x->recurrence->symbol, rec_message());
}

// Lag buffers hold tokens, and are known before anything is computed.
static void set_lags(segments *x) {
  problem *before = NULL;
  for (int s = 0; s < x->count; s++) {
    problem *p = problem_copy(x->part[s]);
    for (int i = 0; i < p->signature->variable_count; i++) {
      const double *from = before ? before->final[i] : x->whole->value[i];
      if (!is_carried(&p->signature->variables[i])) continue;
      replace(&p->value[i], from, problem_numbers(p, i));
      if (!is_state(p, i)) replace(&x->part[s]->value[i], from, problem_numbers(p, i));
    }
    problem_run(p, x->recurrence, "reference", &(rec_run_options){0});
    if (before) problem_free(before);
    before = p;
  }
  problem_free(before);
}

// A GPU tells it where a summary is folded.
static bool is_out_of_range(segments *x, int s, bool back) {
  if (on_gpu() && x->whole->sequences) return false;
  problem *from = on_gpu() ? folded(x, (one_call){.back = back, .first = s, .count = 1}, x->whole) : NULL;
  bool beyond = on_gpu() ? !from : *(const int32_t *)x->summary[back][s] != 0;
  if (from) problem_free(from);
  return beyond;
}

static bool summarise_all(segments *x, bool back, bool recompute) {
  bool ran = true;
  for (int s = 0; s < x->count && ran; s++) {
    problem *p = problem_copy(x->part[s]);
    one_call c = {.all = x, .segment = s, .back = back};
    ran = problem_use(p, x->recurrence, device, &(rec_run_options){.backward = true, .recompute = recompute}, summarise, &c);
    ran = check(ran, "%s: %s", x->recurrence->symbol, rec_message());
    problem_free(p);
    if (ran) x->beyond[back][s] = is_out_of_range(x, s, back);
    if (ran) out_of_range += x->beyond[back][s];
  }
  return ran;
}

// The states before a segment: those before the first one, by all summaries between. Where one of them is out of range, those
// after the segment before, as it runs.
static void set_states(segments *x, int s) {
  problem *p = x->part[s];
  bool usable = true;
  for (int i = 0; i < s; i++) usable = usable && !x->beyond[false][i];
  problem *from = s && usable ? folded_each_way(x, (one_call){.count = s}, x->whole) : NULL;
  if (s && !from) run_part(x, s - 1);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const double *states = !s ? x->whole->value[i] : from ? from->final[i] : x->part[s - 1]->final[i];
    if (is_state(p, i)) replace(&p->value[i], states, problem_numbers(p, i));
  }
  if (from) problem_free(from);
}

// The same for cotangents. Those of lag buffers come from the segment behind.
static void set_cotangents(segments *x, int s) {
  problem *p = x->part[s];
  int behind = x->count - 1 - s;
  bool usable = x->summary[true][0];
  for (int i = s + 1; i < x->count; i++) usable = usable && !x->beyond[true][i];
  problem *from =
      behind && usable ? folded_each_way(x, (one_call){.back = true, .first = s + 1, .count = behind}, x->whole) : NULL;
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (!is_carried(&p->signature->variables[i])) continue;
    const double *after = !behind ? x->whole->d_final[i] : x->part[s + 1]->gradient[i];
    if (from && is_state(p, i)) after = from->gradient[i];
    replace(&p->d_final[i], after, problem_numbers(p, i));
  }
  if (from) problem_free(from);
}

// ---- one sequence ----------------------------------------------------------------------------

static problem *joined(const segments *x) {
  problem *all = NULL;
  for (int s = 1; s < x->count; s++) {
    problem *until = problem_part(x->whole, 0, x->part[s]->time * s + x->part[s]->time);
    problem *next = problem_join(until, all ? all : x->part[0], x->part[s]);
    problem_free(until);
    if (all) problem_free(all);
    all = next;
  }
  return all;
}

static void compare(const segments *x, const char *what, double least) {
  char where[256];
  problem *exact = problem_copy(x->whole), *got = joined(x), *whole = problem_copy(x->whole);
  const rec_run_options both = {.backward = true};
  bool ran = problem_run(exact, x->recurrence, "reference", &both) && problem_run(whole, x->recurrence, device, &both);
  if (check(ran, "%s: %s", x->recurrence->symbol, rec_message())) {
    double alone = problem_compare(exact, whole, true, 1e-4, where, sizeof where);
    double error = problem_compare(exact, got, true, 1e-4, where, sizeof where);
    check(error <= least + 3 * alone, "%s, %s, %d segments: error %.2e at %s; %.2e in one call", x->recurrence->symbol, what,
          x->count, error, where, alone);
  }
  problem_free(exact);
  problem_free(got);
  problem_free(whole);
}

static void close_segments(segments *x) {
  for (int s = 0; s < x->count; s++) {
    free(x->summary[false][s]);
    free(x->summary[true][s]);
    problem_free(x->part[s]);
  }
}

static rec_status keep_sizes(void *context, const rec_host_session *s) { return tell_sizes(s, context); }

static rec_sizes sizes_of(const rec_recurrence *r, const problem *whole) {
  rec_sizes sizes = {0};
  problem *p = problem_part(whole, 0, 0);
  check(problem_use(p, r, device, &(rec_run_options){0}, keep_sizes, &sizes), "%s: %s", r->symbol, rec_message());
  problem_free(p);
  return sizes;
}

static void run_segments(const rec_recurrence *r, const problem *whole, int count, const char *what, double least) {
  segments x = {.recurrence = r, .whole = whole, .count = count};
  rec_sizes sizes = sizes_of(r, whole);
  if (!sizes.summary) return;
  with_summaries++;
  int64_t steps = whole->time / count;
  for (int s = 0; s < count; s++) x.part[s] = problem_part(whole, s * steps, (s + 1) * steps);
  set_lags(&x);
  bool ran = summarise_all(&x, false, false);
  for (int s = 0; ran && s < count; s++) set_states(&x, s);
  if (ran && sizes.summary_backward) ran = summarise_all(&x, true, count % 2);
  for (int s = count - 1; ran && s >= 0; s--) {
    set_cotangents(&x, s);
    run_part(&x, s);
  }
  if (ran) compare(&x, what, least);
  close_segments(&x);
}

// ---- the grid --------------------------------------------------------------------------------

static void run_case(const grid_case *g, int number, bool full) {
  static const char *const names[REGIMES] = {"weak", "normal", "strong", "mixed", "resets"};
  static const int counts[] = {3, 2, 8};
  char path[256];
  const char *words[24] = {"--target", target(), "-O1", "--summary"};
  int count = 4;
  for (int i = 0; i < 6 && g->sizes[i]; i++) {
    words[count++] = "-D";
    words[count++] = g->sizes[i];
  }
  snprintf(path, sizeof path, REC_SOURCE_DIR "/%s", g->path);
  rec_module *module = compile_file(path, words);
  if (!check(module, "%s does not compile", g->path)) return;
  const rec_recurrence *r = rec_module_find(module, g->recurrence);
  for (int way = 0; way < REGIMES; way++) {
    if (!full && way != number % REGIMES) continue;
    for (int i = 0; i < (full ? 3 : 1); i++) {
      problem *whole = problem_new(rec_recurrence_signature(r), 2, counts[i] * (full ? 64 : 40 + number % 7), g->run_time_size);
      grid_place(g, whole, (regime)way, (uint64_t)(number + 100 * way));
      problem_retype(whole, whole->signature);
      run_segments(r, whole, counts[i], names[way], 2e-5);
      problem_free(whole);
    }
  }
  rec_module_close(module);
}

// ---- transfers that are out of range ---------------------------------------------------------

// Entry by entry, complex, and a delta rule. States are 0 where gates are above 1, and behind that one step lets nothing through.
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
      if (strcmp(v->name, "x") == 0 || v->kind == REC_OUTPUT) tokens[n] = inside || at_end ? 0 : tokens[n];
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
  check(out_of_range > before, "%s: transfers of 3 to the power of 15 are not out of range", r->symbol);
  problem_free(whole);
}

// ---- packed sequences ------------------------------------------------------------------------

// One sequence's states as those of a batch of one.
static problem *states_of(const problem *packed, int64_t sequence, bool back) {
  problem *p = problem_new(packed->signature, 1, 0, 1);
  memcpy(p->axis_sizes, packed->axis_sizes, (size_t)packed->signature->axis_count * sizeof *p->axis_sizes);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const double *from = back ? packed->d_final[i] : packed->value[i];
    int64_t each = problem_numbers(p, i);
    if (is_state(p, i)) replace(back ? &p->d_final[i] : &p->value[i], from + sequence * each, each);
  }
  return p;
}

static void compare_states(const problem *got, const problem *exact, int64_t sequence, bool back, const char *what) {
  for (int i = 0; i < got->signature->variable_count; i++) {
    if (!is_state(got, i)) continue;
    int64_t each = problem_numbers(got, i);
    const double *x = back ? got->gradient[i] : got->final[i];
    const double *y = (back ? exact->gradient[i] : exact->final[i]) + sequence * each;
    double error = 0, largest = 1e-30;
    for (int64_t k = 0; k < each; k++) {
      error = fmax(error, fabs(x[k] - y[k]));
      largest = fmax(largest, fabs(y[k]));
    }
    check(error <= 3e-5 * largest, "%s, %s: %s%s differs by %.1e of %.1e", got->signature->name, what, back ? "d." : "",
          got->signature->variables[i].name, error, largest);
  }
}

// The first state goes in, the last one comes out; backward the other way.
// Of a state whose update is behind stop_gradient no cotangent is handed on: it is 0.
static void expect_stopped(problem *exact) {
  for (int i = 0; i < exact->signature->variable_count; i++)
    if (strcmp(exact->signature->name, "mlstm") == 0 && strcmp(exact->signature->variables[i].name, "m") == 0)
      memset(exact->gradient[i], 0, (size_t)problem_numbers(exact, i) * sizeof *exact->gradient[i]);
}

static void run_packed(const rec_recurrence *r, const int32_t *lengths, int64_t sequences, const char *what) {
  problem *packed = problem_packed(rec_recurrence_signature(r), lengths, sequences, 2);
  problem_draw(packed, 3, 0.4);
  problem_retype(packed, packed->signature);
  problem *exact = problem_copy(packed);
  segments x = {.recurrence = r, .whole = packed, .count = 1};
  x.part[0] = problem_copy(packed);
  bool ran = check(problem_run(exact, r, "reference", &(rec_run_options){.backward = true}), "%s", rec_message());
  if (ran) expect_stopped(exact);
  for (int back = 0; ran && back < 2; back++) {
    int64_t first = back ? sequences - 1 : 0;
    problem *p = states_of(packed, first, back);
    one_call c = {.all = &x, .back = back, .count = 1};
    if (summarise_all(&x, back, back) &&
        check(problem_use(p, r, device, &(rec_run_options){.backward = true}, fold, &c), "%s", rec_message()))
      compare_states(p, exact, sequences - 1 - first, back, what);
    problem_free(p);
  }
  close_segments(&x);
  problem_free(packed);
  problem_free(exact);
}

static void run_all_packed(const rec_recurrence *r) {
  static const int32_t one[] = {40}, some[] = {13, 27, 20}, empty_ends[] = {0, 30, 0}, empty[] = {0};
  run_packed(r, one, 1, "one sequence");
  run_packed(r, some, 3, "three sequences");
  run_packed(r, empty_ends, 3, "empty sequences at the ends");
  run_packed(r, empty, 1, "no steps");
}

// ---- recurrences without ---------------------------------------------------------------------

static rec_status refuse_summary(void *context, const rec_host_session *s) {
  (void)context;
  rec_sizes sizes;
  tell_sizes(s, &sizes);
  rec_status status = rec_library_answer(s->recurrence, s->recurrence->summary(s->arguments, &s->launch, NULL));
  check(status == REC_ERROR_UNSUPPORTED && sizes.summary == 0 && sizes.summary_backward == 0, "%s: status %d, %d bytes",
        s->recurrence->symbol, (int)status, (int)sizes.summary);
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
  check(problem_use(p, r, device, &(rec_run_options){0}, refuse_summary, NULL), "%s", rec_message());
  check(strstr(rec_message(), expected), "%s: expected '%s', found '%s'", path, expected, rec_message());
  problem_free(p);
  rec_module_close(module);
}

// The step before a segment is the caller's, in single steps, too.
static void run_lags(const rec_recurrence *r) {
  problem *whole = problem_new(rec_recurrence_signature(r), 2, GROWING_STEPS, 3);
  problem_draw(whole, 8, 0.7);
  problem_retype(whole, whole->signature);
  // slices of a GPU that warm up begin in chunks
  check(on_gpu() || sizes_of(r, whole).summary_backward > 0, "%s has no summary", r->symbol);
  run_segments(r, whole, 3, "lags", 2e-5);
  problem_free(whole);
}

static void run_programs(void) {
  const char *const words[] = {"--target", target(), "-O0", "--summary", NULL};
  rec_module *module = compile_text(growing, words);
  for (int i = 0; check(module, "does not compile") && i < rec_module_count(module); i++) {
    run_growing(rec_module_recurrence(module, i));
    run_all_packed(rec_module_recurrence(module, i));
  }
  rec_module_close(module);
  module = compile_file(REC_SOURCE_DIR "/stdlib/mlstm.rec", words);
  if (check(module, "does not compile")) run_all_packed(rec_module_find(module, "mlstm"));
  rec_module_close(module);
  module = compile_file(REC_SOURCE_DIR "/tests/artifact/library/decay.rec", words);
  if (check(module, "does not compile")) run_lags(rec_module_recurrence(module, 0));
  rec_module_close(module);
  if (on_gpu()) return;
  refuses(REC_SOURCE_DIR "/stdlib/gru.rec", "--summary", "h is not linear in itself");
  refuses(REC_SOURCE_DIR "/stdlib/retnet.rec", "--check", "it was compiled without --summary");
}

// On a GPU one case of a few, but for `full`.
static void run_on(const char *name, bool full) {
  enum { A_FEW = 9, FIRST = 1 };
  const char *only = getenv("REC_GRID");
  device = name;
  if (!only) run_programs();
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *g = &grid_cases[i];
    if (only && !strstr(g->recurrence, only)) continue;
    bool drawn = only || !on_gpu() || i % A_FEW == FIRST;
    if (full || (drawn && strncmp(g->path, "stdlib/", 7) == 0)) run_case(g, i, full);
  }
}

int main(int argc, char **argv) {
  bool full = argc > 1 && strcmp(argv[1], "full") == 0;
  run_on("host", full);
  run_on("simt", full);
  printf("%d sequences in segments, %d summaries out of range\n", with_summaries, out_of_range);
  return checked();
}
