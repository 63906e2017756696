// overflow(T = N): how large the states of a model can grow, by layer and head, from what its
// recurrences do on one sequence.
//
// For a state whose elements each have a factor of their own, h_t = a_t h_{t-1} + u_t. With a and
// b, the largest |a_t| and
// |u_t| of a head,
//
//   |h_T| <= b (1 + a + .. + a^(T-1)) = b (1 - a^T) / (1 - a),   b T at a = 1
//   |h_T| <= max_t |u_t| / (1 - |a_t|)                            at any T, since a_t h + u_t leaves no interval so wide
//
// u_t is what a step makes of the zero state. a_t is what it adds for a drawn state, divided by the
// state's elements. Two draws agree on a_t only where elements do not mix.
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/escape.h"
#include "runtime/train/data/random.h"
#include "runtime/train/evaluate/evaluate.h"
#include "runtime/train/evaluate/probe.h"

static const struct {
  const char *name;
  double most;
} types[] = {{"f16", 65504}, {"bf16", 3.3895313892515355e38}, {"f32", FLT_MAX}};
enum { TYPES = sizeof types / sizeof *types };

double overflow_bound(double a, double b, double steps) {
  return a == 1 ? b * steps : b * -expm1(steps * log(a)) / (1 - a);
}

double overflow_length(double a, double b, double most) {
  if (b <= 0) return INFINITY;
  if (a == 1) return floor(most / b) + 1;
  double left = 1 - most * (1 - a) / b;  // a^T where the bound reaches it
  return left <= 0 ? INFINITY : fmax(1, floor(log(left) / log(a)) + 1);
}

// ---- one state ----------------------------------------------------------------------------------

typedef struct head_growth {
  double decay, input, largest;  // of a and u, and of h itself
  double limit;                  // of |u| / (1 - |a|)
} head_growth;

static double steady(double a, double u) { return a < 1 ? u / (1 - a) : u > 0 ? INFINITY : 0; }

// 1 where differences of the type cannot tell it from 1.
static double rounded_to_one(const numeric *n, double a) {
  return fabs(a - 1) <= (n->element_size == sizeof(double) ? 1e-13 : 1e-6) ? 1 : a;
}

typedef struct growth {
  int variable;              // of the kernel
  const model_state *state;  // of the model
  int parts;                 // numbers of an entry: 2 where it is complex
  int64_t entries;
  bool mixes;
  head_growth *heads;
  double *input, *first;  // of the step at hand, by number: from zero, from the first draw
  double *h;
  rec_blocks memory;  // of all lists
} growth;

// From 1/2 to 3/2, or as far below 0.
static double drawn(uint64_t draw, int64_t entry) {
  double u = random_uniform(1, draw, (uint64_t)entry);
  return u < 0.5 ? -0.5 - 2 * u : 2 * u - 0.5;
}

static double magnitude_of(const growth *g, const double *numbers, int64_t entry) {
  return g->parts == 2 ? hypot(numbers[2 * entry], numbers[2 * entry + 1]) : fabs(numbers[entry]);
}

// One step from the zero state (draw 0) or from a drawn one, its result less `subtract`.
static rec_status run_probe_step(kernel_runs *r, const growth *g, int64_t step, uint64_t draw,
                                 const double *subtract, double *result) {
  for (int64_t e = 0; e < g->entries; e++)
    r->n->store(r->before[g->variable], g->parts * e, draw ? drawn(draw, e) : 0);
  rec_status status = kernel_runs_steps(r, step, step + 1);
  for (int64_t i = 0; !status && i < g->entries * g->parts; i++)
    result[i] = r->n->load(r->final[g->variable], i) - (subtract ? subtract[i] : 0);
  for (int64_t e = 0; e < g->entries; e++) r->n->store(r->before[g->variable], g->parts * e, 0);
  return status;
}

static void make_factors(const growth *g, uint64_t draw, double *numbers) {
  for (int64_t i = 0; i < g->entries * g->parts; i++) numbers[i] /= drawn(draw, i / g->parts);
}

static void advance_growth(const growth *g, const double *a, int64_t e) {
  double *h = &g->h[g->parts * e];
  const double *u = &g->input[g->parts * e], *f = &a[g->parts * e];
  double real = f[0] * h[0] - (g->parts == 2 ? f[1] * h[1] : 0) + u[0];
  if (g->parts == 2) h[1] = f[0] * h[1] + f[1] * h[0] + u[1];
  h[0] = real;
}

static rec_status read_probe_step(kernel_runs *r, growth *g, int64_t step, double *second) {
  rec_status status = run_probe_step(r, g, step, 0, NULL, g->input);
  if (!status) status = run_probe_step(r, g, step, 1, g->input, g->first);
  if (!status) status = run_probe_step(r, g, step, 2, g->input, second);
  if (status) return status;
  make_factors(g, 1, g->first);
  make_factors(g, 2, second);
  for (int64_t i = 0; i < g->entries * g->parts; i++)
    g->mixes |= !(fabs(g->first[i] - second[i]) <= 1e-5 * (1 + fabs(g->input[i])));
  for (int64_t e = 0; e < g->entries; e++) {
    head_growth *head = &g->heads[g->parts * e / g->state->head_elements % g->state->heads];
    double a = rounded_to_one(r->n, magnitude_of(g, g->first, e)), u = magnitude_of(g, g->input, e);
    head->decay = fmax(head->decay, a);
    head->input = fmax(head->input, u);
    head->limit = fmax(head->limit, steady(a, u));
    advance_growth(g, g->first, e);
    head->largest = fmax(head->largest, magnitude_of(g, g->h, e));
  }
  return REC_OK;
}

static rec_status probe_state(const probe *p, int op, growth *g) {
  kernel_runs r;
  rec_status status = kernel_runs_open(p, op, &r);
  const rec_variable *v = &r.k->signature->variables[g->variable];
  int64_t numbers = kernel_numbers(r.k->signature, g->variable);
  g->parts = v->complex ? 2 : 1;
  g->entries = numbers / g->parts;
  double *second = rec_blocks_list(&g->memory, numbers, sizeof *second);
  g->input = rec_blocks_list(&g->memory, numbers, sizeof *g->input);
  g->first = rec_blocks_list(&g->memory, numbers, sizeof *g->first);
  g->h = rec_blocks_list(&g->memory, numbers, sizeof *g->h);
  g->heads = rec_blocks_list(&g->memory, g->state->heads, sizeof *g->heads);
  if (!status && g->memory.failed) status = rec_no_memory();
  for (int64_t i = 0; !status && i < numbers; i++) g->h[i] = r.n->load(r.before[g->variable], i);
  for (int64_t t = 0; !status && !g->mixes && t < p->time; t++)
    status = read_probe_step(&r, g, t, second);
  kernel_runs_close(&r);
  return status;
}

// ---- what they say ------------------------------------------------------------------------------

static void print_length(double length) {
  if (isinf(length))
    printf("  %11s", "never");
  else
    printf("  %11.4g", length);
}

static void write_state(const growth *g, int64_t time, FILE *csv) {
  printf("  %s, %" PRId64 " head%s\n", g->state->name, g->state->heads,
         g->state->heads == 1 ? "" : "s");
  if (g->mixes) {
    printf("    its numbers do not keep to themselves: no bound by decays\n");
    return;
  }
  printf(
      "    head        a          b  largest |h|     bound at T      at any T   f16 from T   bf16 "
      "from T  f32 from T\n");
  for (int64_t i = 0; i < g->state->heads; i++) {
    const head_growth *x = &g->heads[i];
    double bound = fmin(overflow_bound(x->decay, x->input, (double)time), x->limit);
    printf("    %4" PRId64 "  %9.6f  %9.3e    %9.3e      %9.3e       %9.3e", i, x->decay, x->input,
           x->largest, bound, x->limit);
    put_csv_cell(csv, g->state->name);
    fprintf(csv, ",%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%.9g", i, x->decay, x->input, x->largest, bound,
            x->limit);
    for (int k = 0; k < TYPES; k++) {
      double most = types[k].most;
      double length = x->limit <= most ? INFINITY : overflow_length(x->decay, x->input, most);
      print_length(length);
      fprintf(csv, ",%.9g", length);
    }
    printf("\n");
    fprintf(csv, "\n");
  }
}

static rec_status judge_states_of(const probe *p, int op, FILE *csv) {
  const train_model *m = p->e->of.model;
  const rec_signature *s = p->e->of.kernels[m->ops[op].kernel].signature;
  rec_status status = REC_OK;
  for (int i = 0, place = 0; !status && i < s->variable_count; i++) {
    if (!rec_is_carried(&s->variables[i])) continue;
    growth g = {.variable = i, .state = &m->states[m->ops[op].states[place++]]};
    if (s->variables[i].kind == REC_LAG) continue;
    status = probe_state(p, op, &g);
    if (!status) write_state(&g, p->time, csv);
    rec_blocks_free(&g.memory);
  }
  return status;
}

rec_status judge_overflow(evaluation *e, const evaluate_block *b) {
  probe p;
  made_text table;
  printf("evaluate %s after %s: growth of the states, by the decays a and inputs b of %" PRId64
         " tokens\n",
         b->name, b->after, b->overflow);
  rec_status status = probe_open(&p, e, b->overflow, 0);
  if (!text_open(&table) && !status) status = rec_no_memory();
  if (!status) fprintf(table.out, "state,head,decay,input,largest,bound,limit,f16,bf16,f32\n");
  for (int i = 0; !status && i < e->of.model->op_count; i++)
    if (e->of.model->ops[i].kind == OP_CALL) status = judge_states_of(&p, i, table.out);
  fflush(stdout);
  probe_close(&p);
  return evaluation_save(e, b, &table, status, "overflow.csv");
}
