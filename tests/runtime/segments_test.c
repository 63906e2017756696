// Segments of time, as machines that share a sequence have them: each is summarised by itself, the summaries are folded into the
// states before each segment and the cotangents after it, and each segment then runs by itself. Together they give what the
// interpreter gives for the whole sequence, values and gradients.
//
//   segments_test         the standard library in 3 segments, one regime of decay each
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
  *sizes = (rec_sizes){.size = sizeof *sizes};
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
  bool ran = problem_use(p, x->recurrence, &(rec_run_options){.backward = true}, fold, &c);
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
  bool ran = problem_run(x->part[s], x->recurrence, "host", &(rec_run_options){.backward = true});
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

static bool is_out_of_range(const void *summary) { return *(const int32_t *)summary != 0; }

static bool summarise_all(segments *x, bool back, bool recompute) {
  bool ran = true;
  for (int s = 0; s < x->count && ran; s++) {
    problem *p = problem_copy(x->part[s]);
    one_call c = {.all = x, .segment = s, .back = back};
    ran = problem_use(p, x->recurrence, &(rec_run_options){.backward = true, .recompute = recompute}, summarise, &c);
    ran = check(ran, "%s: %s", x->recurrence->symbol, rec_message());
    problem_free(p);
    if (ran) x->beyond[back][s] = is_out_of_range(x->summary[back][s]);
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
  bool ran = problem_run(exact, x->recurrence, "reference", &both) && problem_run(whole, x->recurrence, "host", &both);
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
  check(problem_use(p, r, &(rec_run_options){0}, keep_sizes, &sizes), "%s: %s", r->symbol, rec_message());
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
  const char *words[24] = {"--target", host_target(), "-O1", "--summary"};
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

int main(int argc, char **argv) {
  bool full = argc > 1 && strcmp(argv[1], "full") == 0;
  const char *only = getenv("REC_GRID");
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *g = &grid_cases[i];
    if (only && !strstr(g->recurrence, only)) continue;
    if (full || strncmp(g->path, "stdlib/", 7) == 0) run_case(g, i, full);
  }
  printf("%d sequences in segments, %d summaries out of range\n", with_summaries, out_of_range);
  return checked();
}
