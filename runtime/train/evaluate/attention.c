// attention(T = N): what the recurrences of a model do as matrices over positions, from gradients
// alone, so that any structure has them. On one sequence, with everything else that a recurrence
// reads kept as it is:
//
//   M[i,j]     how y at i follows x at j, entry by entry: dy_i / dx_j, meaned over the entries of a head. x is the first
//              input with all the axes of the output. Meant as the M of arXiv 2410.11135; computed as said here.
//   mask[i,j]  how the state after i follows the state after j, meaned over its entries: the product of the decays
//
// Of a task whose answers stand in its sequences, on 64 of them: how often M leads from a place to
// its answer.
//
//   copying    a b c | a b c     row 5 of M (the second a, whose answer is b) is largest, of its columns 0 to 2, in column 1: found
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/escape.h"
#include "runtime/train/evaluate/evaluate.h"
#include "runtime/train/evaluate/probe.h"

// One recurrence of the model while its maps are made.
typedef struct mapped {
  int op;                // of the model
  int value, output;     // variables of its kernel
  int64_t heads, width;  // of the output: width numbers a head
  double *map;           // [head][T][T]
  double *mask;          // [T][T]
} mapped;

// Of the answers that stand in their sequence, how many M leads to.
typedef struct found_answers {
  int64_t answers, found;
} found_answers;

enum { SEQUENCES = 64 };  // for found_answers

typedef struct attention {
  evaluation *e;
  probe p;
  mapped *maps;
  int count;
  found_answers *found;  // [SEQUENCES][count]
} attention;

// ---- which recurrences --------------------------------------------------------------------------

static bool has_axes_of(const rec_variable *a, const rec_variable *b) {
  for (int i = 0; i < b->axis_count; i++) {
    bool found = false;
    for (int k = 0; k < a->axis_count; k++) found |= a->axes[k] == b->axes[i];
    if (!found) return false;
  }
  return a->axis_count == b->axis_count;
}

static int first_variable(const rec_signature *s, rec_kind kind) {
  for (int i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == kind) return i;
  return -1;
}

// A recurrence with a state whose output has the axes of an input.
static bool find_map(const train_model *m, const train_kernel *kernels, int op, mapped *to) {
  if (m->ops[op].kind != OP_CALL) return false;
  const rec_signature *s = kernels[m->ops[op].kernel].signature;
  *to = (mapped){.op = op, .value = -1, .output = first_variable(s, REC_OUTPUT)};
  if (to->output < 0 || first_variable(s, REC_STATE) < 0) return false;
  const rec_variable *y = &s->variables[to->output];
  for (int i = s->variable_count - 1; i >= 0; i--)
    if (s->variables[i].kind == REC_INPUT && has_axes_of(&s->variables[i], y) &&
        !s->variables[i].complex && !y->complex)
      to->value = i;
  if (to->value < 0) return false;
  to->width = y->axis_count ? s->axes[y->axes[y->axis_count - 1]].size : 1;
  to->heads = to->width ? kernel_numbers(s, to->output) / to->width : 0;
  if (y->axis_count < 2) to->heads = 1, to->width = kernel_numbers(s, to->output);
  return to->heads > 0;
}

// ---- one recurrence -----------------------------------------------------------------------------

static void fill_with_number(const numeric *n, void *to, int64_t count, double x) {
  for (int64_t i = 0; i < count; i++) n->store(to, i, x);
}

// A one for every number of row `place` of `time` rows.
static void fill_with_ones(const numeric *n, void *to, int64_t time, int64_t numbers,
                           int64_t place) {
  for (int64_t i = 0; i < time * numbers; i++) n->store_token(to, i, i / numbers == place);
}

static double mean(double (*load)(const void *, int64_t), const void *values, int64_t first,
                   int64_t count) {
  double sum = 0;
  for (int64_t i = first; i < first + count; i++) sum += load(values, i);
  return sum / (double)count;
}

// A row of M at a time: the gradient of the sum of y at i by x at every j.
static rec_status make_attention_map(kernel_runs *r, const mapped *m, int64_t time) {
  int64_t numbers = kernel_numbers(r->k->signature, m->output);
  void *dy = zeroed_rows(numbers * time, r->n), *dx = zeroed_rows(numbers * time, r->n);
  rec_status status = dy && dx ? kernel_runs_steps(r, 0, time) : rec_no_memory();
  for (int64_t i = 0; !status && i < time; i++) {
    fill_with_ones(r->n, dy, time, numbers, i);
    r->gradient[m->output] = (kernel_memory){dy, numbers * time, numbers};
    r->gradient[m->value] = (kernel_memory){dx, numbers * time, numbers};
    status = r->k->backward(r->k, &r->call);
    for (int64_t h = 0; !status && h < m->heads; h++)
      for (int64_t j = 0; j <= i; j++)
        m->map[(h * time + i) * time + j] =
            mean(r->n->load_token, dx, j * numbers + h * m->width, m->width);
  }
  free(dy);
  free(dx);
  return status;
}

// The gradient of the sum of the states after step i by those after step j.
static rec_status make_entry(kernel_runs *r, int64_t from, int64_t to, double *entry) {
  const rec_signature *s = r->k->signature;
  double sum = 0;
  int64_t count = 0;
  rec_status status = kernel_runs_steps(r, from, to);
  for (int i = 0; !status && i < s->variable_count; i++)
    if (kernel_runs_is_state(r, i)) {
      fill_with_number(r->n, r->d_final[i], kernel_numbers(s, i),
                       s->variables[i].kind == REC_STATE);
      r->gradient[i] = (kernel_memory){r->d_before[i], 0, 0};
    }
  if (!status) status = r->k->backward(r->k, &r->call);
  for (int i = 0; !status && i < s->variable_count; i++) {
    int64_t numbers = kernel_numbers(s, i);
    if (kernel_runs_is_state(r, i)) fill_with_number(r->n, r->d_final[i], numbers, 0);
    if (s->variables[i].kind != REC_STATE) continue;
    sum += mean(r->n->load, r->d_before[i], 0, numbers) * (double)numbers;
    count += numbers;
  }
  *entry = sum / (double)count;
  return status;
}

static rec_status make_mask(kernel_runs *r, const mapped *m, int64_t time) {
  const rec_signature *s = r->k->signature;
  rec_status status = REC_OK;
  for (int64_t j = 0; !status && j < time; j++) {
    // The state after step j, which what follows starts from.
    status = kernel_runs_steps(r, j, j + 1);
    for (int i = 0; !status && i < s->variable_count; i++)
      if (kernel_runs_is_state(r, i))
        memcpy(r->before[i], r->final[i], (size_t)(kernel_numbers(s, i) * r->n->element_size));
    m->mask[j * time + j] = 1;
    for (int64_t i = j + 1; !status && i < time; i++)
      status = make_entry(r, j + 1, i + 1, &m->mask[i * time + j]);
  }
  return status;
}

static rec_status make_maps(const attention *a, mapped *m) {
  kernel_runs r;
  int64_t time = a->p.time;
  m->map = calloc((size_t)(m->heads * time * time), sizeof *m->map);
  m->mask = calloc((size_t)(time * time), sizeof *m->mask);
  rec_status status = kernel_runs_open(&a->p, m->op, &r);
  if (!status && (!m->map || !m->mask)) status = rec_no_memory();
  if (!status) status = make_attention_map(&r, m, time);
  if (!status) status = make_mask(&r, m, time);
  kernel_runs_close(&r);
  return status;
}

static rec_status run_map(void *context, int number, int worker) {
  attention *a = context;
  (void)worker;
  return make_maps(a, &a->maps[number]);
}

// ---- answers that a map leads to ----------------------------------------------------------------

// In the others an answer is bytes of a text, which stand in many places.
static bool answers_are_symbols(const train_task *t) { return t && !task_rules_of[t->kind].text; }

// The place below `before` where the mean over the heads of row i is largest.
static int64_t largest_place(const mapped *m, int64_t time, int64_t i, int64_t before) {
  int64_t place = 0;
  double most = -1;
  for (int64_t j = 0; j < before; j++) {
    double sum = 0;
    for (int64_t h = 0; h < m->heads; h++) sum += m->map[(h * time + i) * time + j];
    if (fabs(sum) > most) most = fabs(sum), place = j;
  }
  return place;
}

// Answers that do not stand before the first of them, as what ends a sequence, do not count.
static found_answers count_found(const probe *p, const mapped *m) {
  found_answers sum = {0};
  int64_t first = 0;
  while (first < p->time && p->targets[first] == NO_TARGET) first++;
  for (int64_t i = first; i < p->time; i++) {
    int64_t j = 0;
    while (j < first && p->tokens[j] != p->targets[i]) j++;
    if (j == first) continue;
    sum.answers++;
    sum.found += p->tokens[largest_place(m, p->time, i, first)] == p->targets[i];
  }
  return sum;
}

static rec_status find_answers(const probe *p, const mapped *of, found_answers *found) {
  kernel_runs r;
  mapped m = *of;
  m.map = calloc((size_t)(m.heads * p->time * p->time), sizeof *m.map);
  rec_status status = kernel_runs_open(p, m.op, &r);
  if (!status && !m.map) status = rec_no_memory();
  if (!status) status = make_attention_map(&r, &m, p->time);
  if (!status) *found = count_found(p, &m);
  kernel_runs_close(&r);
  free(m.map);
  return status;
}

static rec_status run_found(void *context, int number, int worker) {
  attention *a = context;
  probe p;
  (void)worker;
  rec_status status = probe_open(&p, a->e, a->p.time, number);
  for (int i = 0; !status && i < a->count; i++)
    status = find_answers(&p, &a->maps[i], &a->found[number * a->count + i]);
  probe_close(&p);
  return status;
}

static rec_status save_found(const attention *a, const evaluate_block *b) {
  made_text table;
  if (!text_open(&table)) return rec_no_memory();
  fprintf(table.out, "state,found,answers,sequences\n");
  for (int i = 0; i < a->count; i++) {
    found_answers sum = {0};
    for (int s = 0; s < SEQUENCES; s++) {
      sum.answers += a->found[s * a->count + i].answers;
      sum.found += a->found[s * a->count + i].found;
    }
    if (!sum.answers) continue;  // so few tokens that no answer is among them
    double share = (double)sum.found / (double)sum.answers;
    const char *name = probe_name(&a->p, a->maps[i].op);
    printf("  %s: M leads to %.4f of the answers\n", name, share);
    put_csv_cell(table.out, name);
    fprintf(table.out, ",%.6f,%" PRId64 ",%d\n", share, sum.answers, SEQUENCES);
  }
  return evaluation_save(a->e, b, &table, REC_OK, "attention_found.csv");
}

static rec_status judge_found(attention *a, const evaluate_block *b) {
  a->found = calloc((size_t)(SEQUENCES * a->count) + 1, sizeof *a->found);
  if (!a->found) return rec_no_memory();
  rec_status status = evaluation_run(a->e, SEQUENCES, run_found, a);
  return status ? status : save_found(a, b);
}

// ---- the model ----------------------------------------------------------------------------------

static rec_status open_attention(attention *a, int64_t time) {
  const trained_model *of = &a->e->of;
  a->maps = calloc((size_t)of->model->op_count + 1, sizeof *a->maps);
  if (!a->maps) return rec_no_memory();
  for (int i = 0; i < of->model->op_count; i++)
    if (find_map(of->model, of->kernels, i, &a->maps[a->count])) a->count++;
  return probe_open(&a->p, a->e, time, 0);
}

static void close_attention(attention *a) {
  for (int i = 0; i < a->count; i++) {
    free(a->maps[i].map);
    free(a->maps[i].mask);
  }
  free(a->maps);
  free(a->found);
  probe_close(&a->p);
}

static void write_map(FILE *file, const attention *a, const mapped *m) {
  int64_t t = a->p.time;
  for (int64_t h = 0; h < m->heads; h++)
    for (int64_t i = 0; i < t; i++)
      for (int64_t j = 0; j <= i; j++) {
        put_csv_cell(file, probe_name(&a->p, m->op));
        fprintf(file, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g,%.6g\n", h, i, j,
                m->map[(h * t + i) * t + j], m->mask[i * t + j]);
      }
}

// How much of |M| lies how far back, for people: the share within 1, 2, 4, .. tokens.
static void print_map(const attention *a, const mapped *m) {
  int64_t t = a->p.time;
  double all = 0, reach = 0;
  for (int64_t h = 0; h < m->heads; h++)
    for (int64_t i = 0; i < t; i++)
      for (int64_t j = 0; j <= i; j++) {
        double x = m->map[(h * t + i) * t + j];
        all += x < 0 ? -x : x;
        reach += (x < 0 ? -x : x) * (double)(i - j);
      }
  printf("  %s: %" PRId64
         " head%s, |M| reaches %.2f tokens back, half the sequence keeps %.4f of a state\n",
         probe_name(&a->p, m->op), m->heads, m->heads == 1 ? "" : "s", all > 0 ? reach / all : 0,
         m->mask[(t / 2) * t]);
}

static rec_status save_maps(const attention *a, const evaluate_block *b) {
  made_text table;
  if (!text_open(&table)) return rec_no_memory();
  fprintf(table.out, "state,head,i,j,m,mask\n");
  for (int i = 0; i < a->count; i++) write_map(table.out, a, &a->maps[i]);
  return evaluation_save(a->e, b, &table, REC_OK, "attention.csv");
}

rec_status judge_attention(evaluation *e, const evaluate_block *b) {
  attention a = {.e = e};
  printf("evaluate %s after %s: attention maps of %" PRId64 " tokens\n", b->name, b->after,
         b->attention);
  rec_status status = open_attention(&a, b->attention);
  if (!status && !a.count) printf("  no recurrence has an input with the axes of its output\n");
  fflush(stdout);
  if (!status) status = evaluation_run(e, a.count, run_map, &a);
  for (int i = 0; !status && i < a.count; i++) print_map(&a, &a.maps[i]);
  if (!status) status = save_maps(&a, b);
  if (!status && a.count && answers_are_symbols(e->data.task)) status = judge_found(&a, b);
  fflush(stdout);
  close_attention(&a);
  return status;
}
