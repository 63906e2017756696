// attention(T = N): what the recurrences of a model do as matrices over positions, from gradients alone, so
// that any structure has them. On one sequence, with everything else that a recurrence reads kept as it is:
//
//   M[i,j]     how y at i follows x at j, entry by entry: dy_i / dx_j, meaned over the entries of a head. x is the first
//              input with all the axes of the output. M of arXiv 2410.11135, eq. 8.
//   mask[i,j]  how the state after i follows the state after j, meaned over its entries: the product of the decays
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/probe.h"

// One recurrence of the model while its maps are made.
typedef struct mapped {
  int op;                // of the model
  int value, output;     // variables of its kernel
  int64_t heads, width;  // of the output: width numbers a head
  double *map;           // [head][T][T]
  double *mask;          // [T][T]
} mapped;

typedef struct attention {
  evaluation *e;
  probe p;
  mapped *maps;
  int count;
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

static int first_of(const rec_signature *s, rec_kind kind) {
  for (int i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == kind) return i;
  return -1;
}

// A recurrence with a state whose output has the axes of an input.
static bool find_map(const train_model *m, const train_kernel *kernels, int op, mapped *to) {
  if (m->ops[op].kind != OP_CALL) return false;
  const rec_signature *s = kernels[m->ops[op].kernel].signature;
  *to = (mapped){.op = op, .value = -1, .output = first_of(s, REC_OUTPUT)};
  if (to->output < 0 || first_of(s, REC_STATE) < 0) return false;
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

static void *zeroed_rows(int64_t numbers, const numeric *n) {
  return calloc((size_t)numbers + 1, (size_t)n->token_size);
}

static void fill(const numeric *n, void *to, int64_t count, double x) {
  for (int64_t i = 0; i < count; i++) n->store(to, i, x);
}

// A one for every number of row `place` of `time` rows.
static void fill_row(const numeric *n, void *to, int64_t time, int64_t numbers, int64_t place) {
  for (int64_t i = 0; i < time * numbers; i++) n->store_token(to, i, i / numbers == place);
}

static double mean(double (*load)(const void *, int64_t), const void *values, int64_t first,
                   int64_t count) {
  double sum = 0;
  for (int64_t i = first; i < first + count; i++) sum += load(values, i);
  return sum / (double)count;
}

// A row of M at a time: the gradient of the sum of y at i by x at every j.
static rec_status make_map(kernel_runs *r, const mapped *m, int64_t time) {
  int64_t numbers = kernel_numbers(r->k->signature, m->output);
  void *dy = zeroed_rows(numbers * time, r->n), *dx = zeroed_rows(numbers * time, r->n);
  rec_status status = dy && dx ? kernel_runs_steps(r, 0, time) : rec_no_memory();
  for (int64_t i = 0; !status && i < time; i++) {
    fill_row(r->n, dy, time, numbers, i);
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
      fill(r->n, r->d_final[i], kernel_numbers(s, i), s->variables[i].kind == REC_STATE);
      r->gradient[i] = (kernel_memory){r->d_before[i], 0, 0};
    }
  if (!status) status = r->k->backward(r->k, &r->call);
  for (int i = 0; !status && i < s->variable_count; i++) {
    int64_t numbers = kernel_numbers(s, i);
    if (kernel_runs_is_state(r, i)) fill(r->n, r->d_final[i], numbers, 0);
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
  if (!status) status = make_map(&r, m, time);
  if (!status) status = make_mask(&r, m, time);
  kernel_runs_close(&r);
  return status;
}

static void run_map(void *context, int number, int worker) {
  attention *a = context;
  (void)worker;
  rec_status status = make_maps(a, &a->maps[number]);
  int good = REC_OK;
  if (!status || !atomic_compare_exchange_strong(&a->e->failed, &good, (int)status)) return;
  snprintf(a->e->message, sizeof a->e->message, "%s", rec_message());
}

// ---- the model ----------------------------------------------------------------------------------

static rec_status open_attention(attention *a, int64_t time) {
  const trained_model *of = &a->e->of;
  a->maps = calloc((size_t)of->model->op_count + 1, sizeof *a->maps);
  if (!a->maps) return rec_no_memory();
  for (int i = 0; i < of->model->op_count; i++)
    if (find_map(of->model, of->kernels, i, &a->maps[a->count])) a->count++;
  return probe_open(&a->p, a->e, time);
}

static void close_attention(attention *a) {
  for (int i = 0; i < a->count; i++) {
    free(a->maps[i].map);
    free(a->maps[i].mask);
  }
  free(a->maps);
  probe_close(&a->p);
}

static void write_map(FILE *file, const attention *a, const mapped *m) {
  int64_t t = a->p.time;
  for (int64_t h = 0; h < m->heads; h++)
    for (int64_t i = 0; i < t; i++)
      for (int64_t j = 0; j <= i; j++)
        fprintf(file, "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g,%.6g\n",
                probe_name(&a->p, m->op), h, i, j, m->map[(h * t + i) * t + j], m->mask[i * t + j]);
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
         " head%s, |M| reaches %.2f tokens back, half the sequence keeps %.4f of a "
         "state\n",
         probe_name(&a->p, m->op), m->heads, m->heads == 1 ? "" : "s", all > 0 ? reach / all : 0,
         m->mask[(t / 2) * t]);
}

static rec_status save_maps(const attention *a, const evaluate_block *b) {
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) return rec_no_memory();
  fprintf(memory, "state,head,i,j,m,mask\n");
  for (int i = 0; i < a->count; i++) write_map(memory, a, &a->maps[i]);
  fclose(memory);
  rec_status status = evaluation_save(a->e->s, b, "attention.csv", text, size);
  free(text);
  return status;
}

rec_status judge_attention(evaluation *e, const evaluate_block *b) {
  attention a = {.e = e};
  printf("evaluate %s after %s: attention maps of %" PRId64 " tokens\n", b->name, b->after,
         b->attention);
  rec_status status = open_attention(&a, b->attention);
  if (!status && !a.count) printf("  no recurrence has an input with the axes of its output\n");
  fflush(stdout);
  atomic_store(&e->failed, REC_OK);
  if (!status) train_pool_run(e->pool, a.count, run_map, &a);
  if (!status && atomic_load(&e->failed))
    status = rec_fail((rec_status)atomic_load(&e->failed), "%s", e->message);
  for (int i = 0; !status && i < a.count; i++) print_map(&a, &a.maps[i]);
  if (!status) status = save_maps(&a, b);
  fflush(stdout);
  close_attention(&a);
  return status;
}
