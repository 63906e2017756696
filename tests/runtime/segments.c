#include "tests/runtime/segments.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/runtime/compiled.h"

enum { MOST_SEGMENTS = 8 };

// A sequence in segments: problems of their own, and the summary of each, forward and backward.
typedef struct segments {
  const rec_recurrence *recurrence;
  const char *device;
  const problem *whole;
  segments_report *report;
  int count;
  problem *part[MOST_SEGMENTS];
  void *summary[2][MOST_SEGMENTS];
  bool beyond[2][MOST_SEGMENTS];  // out of range
} segments;

static bool on_gpu(const segments *x) { return strcmp(x->device, "host") != 0; }

// Keeps what is wrong first.
__attribute__((format(printf, 3, 4))) static bool expect(segments *x, bool holds,
                                                         const char *format, ...) {
  char *wrong = x->report->wrong;
  if (holds || *wrong) return holds;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(wrong, sizeof x->report->wrong, format, arguments);
  va_end(arguments);
  return false;
}

static void *aligned_new(int64_t bytes) {
  void *memory = aligned_alloc(REC_ALIGNMENT,
                               (size_t)((bytes + REC_ALIGNMENT) / REC_ALIGNMENT * REC_ALIGNMENT));
  if (!memory) abort();
  memset(memory, 0xa5, (size_t)bytes);
  return memory;
}

static rec_status tell_sizes(const rec_host_session *s, rec_sizes *sizes) {
  *sizes = (rec_sizes){.size = sizeof *sizes,
                       .device_kind = s->launch.device_kind,
                       .device_number = s->launch.device_number};
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
  if (c->back && s->launch.saved)
    status = rec_library_answer(r, r->forward(s->arguments, &s->launch));
  if (status) return status;
  return rec_library_answer(
      r, (c->back ? r->summary_backward : r->summary)(s->arguments, &s->launch, *summary));
}

static rec_status fold_in_blocks(const one_call *c, const rec_host_session *s, rec_segments *list,
                                 int64_t instances) {
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
    status = rec_library_answer(s->recurrence,
                                s->recurrence->combine(s->arguments, &s->launch, &list, both));
    list.summaries = one;
    list.count = 1;
  }
  if (!status && c->instances) status = fold_in_blocks(c, s, &list, sizes.instances);
  if (!status && !c->instances)
    status =
        rec_library_answer(s->recurrence, s->recurrence->fold(s->arguments, &s->launch, &list));
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

static bool is_state(const problem *p, int variable) {
  return p->signature->variables[variable].kind == REC_STATE;
}

// The states before the first of the segments, or the cotangents after the last, folded. NULL: they
// are out of range.
static problem *folded(segments *x, one_call c, const problem *from) {
  problem *p = problem_part(x->whole, 0, 0);
  for (int i = 0; i < p->signature->variable_count; i++) {
    if (!is_carried(&p->signature->variables[i])) continue;
    replace(&p->value[i], c.back ? NULL : from->value[i], problem_numbers(p, i));
    replace(&p->d_final[i], c.back ? from->d_final[i] : NULL, problem_numbers(p, i));
  }
  c.all = x;
  bool ran =
      problem_use(p, x->recurrence, x->device, &(rec_run_options){.backward = true}, fold, &c);
  expect(x, ran, "%s", rec_message());
  if (ran && !c.flag) return p;
  problem_free(p);
  return NULL;
}

// What is folded at once, one by one, in blocks of instances, and of a combined summary.
static problem *folded_each_way(segments *x, one_call c, const problem *from) {
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
    expect(x, few && memcmp(all, few, (size_t)count * sizeof *all) == 0,
           "blocks of instances give other bits");
    for (int64_t k = 0; product && k < count; k++) {
      largest = fmax(largest, fabs(all[k]));
      error = fmax(error, fabs(all[k] - product[k]));
    }
    // products of what nearly overflows lose digits
    expect(x, !product || error <= 1e-3 * largest, "combined summaries differ by %.1e of %.1e",
           error, largest);
  }
  if (blocks) problem_free(blocks);
  if (one) problem_free(one);
  return got;
}

// What is combined of a summary out of range is out of range.
static void expect_out_of_range(segments *x, one_call c) {
  c.combined = true;
  problem *got = folded(x, c, x->whole);
  expect(x, !got, "combined summaries hide that one is out of range");
  if (got) problem_free(got);
}

static void run_part(segments *x, int s) {
  expect(x, problem_run(x->part[s], x->recurrence, x->device, &(rec_run_options){.backward = true}),
         "%s", rec_message());
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
  if (on_gpu(x) && x->whole->sequences) return false;
  problem *from =
      on_gpu(x) ? folded(x, (one_call){.back = back, .first = s, .count = 1}, x->whole) : NULL;
  bool beyond = on_gpu(x) ? !from : *(const int32_t *)x->summary[back][s] != 0;
  if (from) problem_free(from);
  return beyond;
}

static bool summarise_all(segments *x, bool back, bool recompute) {
  bool ran = true;
  for (int s = 0; s < x->count && ran; s++) {
    problem *p = problem_copy(x->part[s]);
    one_call c = {.all = x, .segment = s, .back = back};
    ran = problem_use(p, x->recurrence, x->device,
                      &(rec_run_options){.backward = true, .recompute = recompute}, summarise, &c);
    expect(x, ran, "%s", rec_message());
    problem_free(p);
    if (ran) x->beyond[back][s] = is_out_of_range(x, s, back);
    if (ran) x->report->out_of_range += x->beyond[back][s];
  }
  return ran;
}

// The states before a segment: those before the first one, by all summaries between. Where one of
// them is out of range, those after the segment before, as it runs.
static void set_states(segments *x, int s) {
  problem *p = x->part[s];
  bool usable = true;
  for (int i = 0; i < s; i++) usable = usable && !x->beyond[false][i];
  if (!usable) expect_out_of_range(x, (one_call){.count = s});
  problem *from = s && usable ? folded_each_way(x, (one_call){.count = s}, x->whole) : NULL;
  if (s && !from) run_part(x, s - 1);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const double *states = !s     ? x->whole->value[i]
                           : from ? from->final[i]
                                  : x->part[s - 1]->final[i];
    if (is_state(p, i)) replace(&p->value[i], states, problem_numbers(p, i));
  }
  if (from) problem_free(from);
}

// The same for cotangents. Those of lag buffers come from the segment behind.
static void set_cotangents(segments *x, int s) {
  problem *p = x->part[s];
  int behind = x->count - 1 - s;
  bool made = x->summary[true][0], usable = made;
  for (int i = s + 1; i < x->count; i++) usable = usable && !x->beyond[true][i];
  const one_call all = {.back = true, .first = s + 1, .count = behind};
  if (made && !usable) expect_out_of_range(x, all);
  problem *from = behind && usable ? folded_each_way(x, all, x->whole) : NULL;
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

static void close_segments(segments *x) {
  for (int s = 0; s < x->count; s++) {
    free(x->summary[false][s]);
    free(x->summary[true][s]);
    problem_free(x->part[s]);
  }
}

static rec_status keep_sizes(void *context, const rec_host_session *s) {
  return tell_sizes(s, context);
}

rec_sizes segments_sizes(const rec_recurrence *r, const char *device, const problem *whole) {
  rec_sizes sizes = {0};
  problem *p = problem_part(whole, 0, 0);
  problem_use(p, r, device, &(rec_run_options){0}, keep_sizes, &sizes);
  problem_free(p);
  return sizes;
}

problem *segments_run(const rec_recurrence *r, const char *device, const problem *whole, int count,
                      segments_report *report) {
  segments x = {
      .recurrence = r, .device = device, .whole = whole, .report = report, .count = count};
  rec_sizes sizes = segments_sizes(r, device, whole);
  *report = (segments_report){.summarised = sizes.summary};
  if (!sizes.summary) return NULL;
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
  problem *all = *report->wrong ? NULL : joined(&x);
  close_segments(&x);
  return all;
}

// ---- packed sequences ------------------------------------------------------------------------

// One sequence's states as those of a batch of one.
static problem *states_of(const problem *packed, int64_t sequence, bool back) {
  problem *p = problem_new(packed->signature, 1, 0, 1);
  memcpy(p->axis_sizes, packed->axis_sizes,
         (size_t)packed->signature->axis_count * sizeof *p->axis_sizes);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const double *from = back ? packed->d_final[i] : packed->value[i];
    int64_t each = problem_numbers(p, i);
    if (p->signature->variables[i].kind == REC_PARAM)
      replace(&p->value[i], packed->value[i], each);  // a state may start from it
    if (is_state(p, i))
      replace(back ? &p->d_final[i] : &p->value[i], from ? from + sequence * each : NULL, each);
  }
  return p;
}

static void compare_states(segments *x, const problem *got, const problem *exact, int64_t sequence,
                           bool back, double tolerance) {
  for (int i = 0; i < got->signature->variable_count; i++) {
    if (!is_state(got, i)) continue;
    int64_t each = problem_numbers(got, i);
    const double *a = back ? got->gradient[i] : got->final[i];
    const double *b = (back ? exact->gradient[i] : exact->final[i]) + sequence * each;
    double error = 0, largest = 1e-30;
    for (int64_t k = 0; k < each; k++) {
      error = fmax(error, fabs(a[k] - b[k]));
      largest = fmax(largest, fabs(b[k]));
    }
    expect(x, error <= tolerance * largest, "%s%s differs by %.1e of %.1e", back ? "d." : "",
           got->signature->variables[i].name, error, largest);
  }
}

void segments_pack(const rec_recurrence *r, const char *device, const problem *packed,
                   const problem *exact, double tolerance, segments_report *report) {
  segments x = {.recurrence = r, .device = device, .whole = packed, .report = report, .count = 1};
  rec_sizes sizes = segments_sizes(r, device, packed);
  *report = (segments_report){.summarised = sizes.summary};
  x.part[0] = problem_copy(packed);
  for (int back = 0; !*report->wrong && back < 2; back++) {
    if (!(back ? sizes.summary_backward : sizes.summary)) continue;
    int64_t first = back ? packed->sequences - 1 : 0;
    problem *p = states_of(packed, first, back);
    one_call c = {.all = &x, .back = back, .count = 1};
    if (summarise_all(&x, back, back) &&
        expect(&x, problem_use(p, r, device, &(rec_run_options){.backward = true}, fold, &c), "%s",
               rec_message()))
      compare_states(&x, p, exact, packed->sequences - 1 - first, back, tolerance);
    problem_free(p);
  }
  close_segments(&x);
}
