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

#include "runtime/train/evaluate.h"
#include "runtime/train/random.h"

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
  int64_t time;
  executor *x;
  uint16_t *tokens, *targets;
  void **states;  // where the model's states end, by state; all start at zero
  shard sequence;
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

static int64_t numbers_of(const rec_signature *s, int variable) {
  int64_t sizes[64];
  for (int i = 0; i < s->axis_count && i < 64; i++) sizes[i] = s->axes[i].size;
  return rec_variable_numbers(s, variable, sizes);
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
  to->heads = to->width ? numbers_of(s, to->output) / to->width : 0;
  if (y->axis_count < 2) to->heads = 1, to->width = numbers_of(s, to->output);
  return to->heads > 0;
}

// ---- one recurrence -----------------------------------------------------------------------------

// Memory for calls of one kernel on parts of the sequence.
typedef struct kernel_runs {
  const train_kernel *k;
  const numeric *n;
  kernel_memory whole[MOST_VARIABLES];  // of the model's run
  kernel_memory value[MOST_VARIABLES], gradient[MOST_VARIABLES];
  void *final[MOST_VARIABLES], *d_final[MOST_VARIABLES];
  void *before[MOST_VARIABLES], *output[MOST_VARIABLES], *d_before[MOST_VARIABLES];
  kernel_call call;
} kernel_runs;

static bool is_state(const kernel_runs *r, int i) {
  rec_kind kind = r->k->signature->variables[i].kind;
  return kind == REC_STATE || kind == REC_LAG;
}

static void *zeroed(int64_t numbers, const numeric *n) {
  return calloc((size_t)numbers + 1, (size_t)n->element_size);
}

static void *zeroed_rows(int64_t numbers, const numeric *n) {
  return calloc((size_t)numbers + 1, (size_t)n->token_size);
}

static rec_status open_runs(const attention *a, const mapped *m, kernel_runs *r) {
  const train_model *model = a->e->of.model;
  const train_kernel *k = &a->e->of.kernels[model->ops[m->op].kernel];
  *r = (kernel_runs){.k = k, .n = a->e->of.n};
  r->call = (kernel_call){.batch = 1,
                          .threads = 1,
                          .value = r->value,
                          .gradient = r->gradient,
                          .final = r->final,
                          .d_final = r->d_final};
  executor_values(a->x, a->e->weights, &a->sequence, m->op, r->whole);
  bool good = true;
  for (int i = 0; i < k->signature->variable_count; i++) {
    int64_t numbers = numbers_of(k->signature, i);
    if (is_state(r, i)) {
      good &= (r->before[i] = zeroed(numbers, r->n)) && (r->final[i] = zeroed(numbers, r->n)) &&
              (r->d_final[i] = zeroed(numbers, r->n)) && (r->d_before[i] = zeroed(numbers, r->n));
    } else if (k->signature->variables[i].kind == REC_OUTPUT) {
      good &= (r->output[i] = zeroed_rows(numbers * a->time, r->n)) != NULL;
    }
  }
  rec_status status = k->sizes(k, 1, a->time, &r->call.workspace_bytes, &r->call.saved_bytes);
  if (status) return status;
  r->call.workspace = aligned_alloc(
      REC_ALIGNMENT, ((size_t)r->call.workspace_bytes / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  r->call.saved = aligned_alloc(REC_ALIGNMENT,
                                ((size_t)r->call.saved_bytes / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  return good && r->call.workspace && r->call.saved ? REC_OK : rec_no_memory();
}

static void close_runs(kernel_runs *r) {
  for (int i = 0; i < MOST_VARIABLES; i++) {
    free(r->before[i]);
    free(r->final[i]);
    free(r->d_final[i]);
    free(r->d_before[i]);
    free(r->output[i]);
  }
  free(r->call.workspace);
  free(r->call.saved);
}

// Forward over the steps from .. to - 1 from the states in `before`; to `final`, if wanted.
static rec_status run_steps(kernel_runs *r, int64_t from, int64_t to) {
  for (int i = 0; i < r->k->signature->variable_count; i++) {
    int64_t numbers = numbers_of(r->k->signature, i);
    kernel_memory *v = &r->value[i];
    *v = r->whole[i];
    r->gradient[i] = (kernel_memory){0};
    if (r->k->signature->variables[i].kind == REC_INPUT) {
      v->data = (char *)v->data + from * v->time_stride * r->n->token_size;
      v->batch_stride = v->time_stride * (to - from);
    }
    if (is_state(r, i)) *v = (kernel_memory){r->before[i], 0, 0};
    if (r->output[i]) *v = (kernel_memory){r->output[i], numbers * (to - from), numbers};
  }
  r->call.time = to - from;
  return r->k->forward(r->k, &r->call);
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
  int64_t numbers = numbers_of(r->k->signature, m->output);
  void *dy = zeroed_rows(numbers * time, r->n), *dx = zeroed_rows(numbers * time, r->n);
  rec_status status = dy && dx ? run_steps(r, 0, time) : rec_no_memory();
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
  rec_status status = run_steps(r, from, to);
  for (int i = 0; !status && i < s->variable_count; i++)
    if (is_state(r, i)) {
      fill(r->n, r->d_final[i], numbers_of(s, i), s->variables[i].kind == REC_STATE);
      r->gradient[i] = (kernel_memory){r->d_before[i], 0, 0};
    }
  if (!status) status = r->k->backward(r->k, &r->call);
  for (int i = 0; !status && i < s->variable_count; i++) {
    int64_t numbers = numbers_of(s, i);
    if (is_state(r, i)) fill(r->n, r->d_final[i], numbers, 0);
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
    status = run_steps(r, j, j + 1);
    for (int i = 0; !status && i < s->variable_count; i++)
      if (is_state(r, i))
        memcpy(r->before[i], r->final[i], (size_t)(numbers_of(s, i) * r->n->element_size));
    m->mask[j * time + j] = 1;
    for (int64_t i = j + 1; !status && i < time; i++)
      status = make_entry(r, j + 1, i + 1, &m->mask[i * time + j]);
  }
  return status;
}

static rec_status make_maps(const attention *a, mapped *m) {
  kernel_runs r;
  int64_t time = a->time;
  m->map = calloc((size_t)(m->heads * time * time), sizeof *m->map);
  m->mask = calloc((size_t)(time * time), sizeof *m->mask);
  rec_status status = open_runs(a, m, &r);
  if (!status && (!m->map || !m->mask)) status = rec_no_memory();
  if (!status) status = make_map(&r, m, time);
  if (!status) status = make_mask(&r, m, time);
  close_runs(&r);
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

// The beginning of the held-out text, or of the longest sequence of the task that fits, of one that
// does not if none does.
static rec_status read_sequence(attention *a) {
  const train_data *d = &a->e->data;
  int64_t room = a->time;
  train_task task = {.kind = TASK_KINDS};
  if (d->task) {
    task = *d->task;
    while (task_tokens(&task, task.length) > a->time && task.length > task_least(&task))
      task.length--;
    task.shortest = task.length;
    if (task_tokens(&task, task.length) > room) room = task_tokens(&task, task.length);
  }
  a->tokens = calloc((size_t)room, sizeof *a->tokens);
  a->targets = calloc((size_t)room, sizeof *a->targets);
  if (!a->tokens || !a->targets) return rec_no_memory();
  if (d->task)
    task_sequence(&task, a->e->block->seed, random_stream("held-out sequences"), 0, room, a->tokens,
                  a->targets);
  else
    train_data_held_out(d, 0, a->time, a->tokens, a->targets);
  return REC_OK;
}

static rec_status open_attention(attention *a) {
  const trained_model *of = &a->e->of;
  a->states = calloc(2 * (size_t)of->model->state_count + 1, sizeof *a->states);
  a->maps = calloc((size_t)of->model->op_count + 1, sizeof *a->maps);
  if (!a->states || !a->maps) return rec_no_memory();
  for (int i = 0; i < of->model->op_count; i++)
    if (find_map(of->model, of->kernels, i, &a->maps[a->count])) a->count++;
  rec_status status = read_sequence(a);
  if (status) return status;
  a->sequence = (shard){.batch = 1,
                        .time = a->time,
                        .threads = 1,
                        .tokens = a->tokens,
                        .targets = a->targets,
                        .before = a->states,
                        .after = a->states};
  status = executor_new(of->model, of->kernels, of->n, 1, a->time, false, &a->x);
  return status ? status : executor_forward(a->x, a->e->weights, &a->sequence);
}

static void close_attention(attention *a) {
  for (int i = 0; i < a->count; i++) {
    free(a->maps[i].map);
    free(a->maps[i].mask);
  }
  free(a->maps);
  free(a->tokens);
  free(a->targets);
  free(a->states);
  executor_free(a->x);
}

static const char *name_of(const attention *a, const mapped *m) {
  const train_model *model = a->e->of.model;
  return model->states[model->ops[m->op].states[0]].name;
}

static void write_map(FILE *file, const attention *a, const mapped *m) {
  int64_t t = a->time;
  for (int64_t h = 0; h < m->heads; h++)
    for (int64_t i = 0; i < t; i++)
      for (int64_t j = 0; j <= i; j++)
        fprintf(file, "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g,%.6g\n", name_of(a, m), h, i, j,
                m->map[(h * t + i) * t + j], m->mask[i * t + j]);
}

// How much of |M| lies how far back, for people: the share within 1, 2, 4, .. tokens.
static void print_map(const attention *a, const mapped *m) {
  int64_t t = a->time;
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
         name_of(a, m), m->heads, m->heads == 1 ? "" : "s", all > 0 ? reach / all : 0,
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
  attention a = {.e = e, .time = b->attention};
  printf("evaluate %s after %s: attention maps of %" PRId64 " tokens\n", b->name, b->after, a.time);
  rec_status status = open_attention(&a);
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
