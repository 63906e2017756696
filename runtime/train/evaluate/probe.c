#include "runtime/train/evaluate/probe.h"

#include <stdlib.h>

#include "runtime/train/data/random.h"
#include "runtime/train/model/begins.h"

// ---- the sequence -------------------------------------------------------------------------------

// Of a task whose shortest sequence does not fit its beginning.
static rec_status read_probe_sequence(probe *p, int number) {
  const train_data *d = &p->e->data;
  int64_t room = p->time;
  train_task task = {.kind = TASK_KINDS};
  if (d->task) {
    task = *d->task;
    while (task_tokens(&task, task.length) > p->time && task.length > task_least(&task))
      task.length--;
    task.shortest = task.length;
    if (task_tokens(&task, task.length) > room) room = task_tokens(&task, task.length);
  }
  p->tokens = calloc((size_t)room, sizeof *p->tokens);
  p->targets = calloc((size_t)room, sizeof *p->targets);
  if (!p->tokens || !p->targets) return rec_no_memory();
  if (d->task)
    task_sequence(&task, p->e->block->seed, random_stream("held-out sequences"), (uint64_t)number,
                  room, p->tokens, p->targets);
  else
    train_data_held_out(d, 0, p->time, p->tokens, p->targets);
  return REC_OK;
}

rec_status probe_open(probe *p, const evaluation *e, int64_t time, int number) {
  const trained_model *of = &e->of;
  *p = (probe){.e = e, .time = time};
  p->states = calloc(2 * (size_t)of->model->state_count + 1, sizeof *p->states);
  if (!p->states) return rec_no_memory();
  rec_status status = read_probe_sequence(p, number);
  if (status) return status;
  p->sequence = (shard){.batch = 1,
                        .time = p->time,
                        .threads = 1,
                        .tokens = p->tokens,
                        .targets = p->targets,
                        .before = p->states,
                        .after = p->states};
  status = executor_new(of, &(executor_form){.batch = 1, .time = p->time}, &p->x);
  return status ? status : executor_forward(p->x, e->weights, &p->sequence);
}

void probe_close(probe *p) {
  free(p->tokens);
  free(p->targets);
  free(p->states);
  executor_free(p->x);
}

const char *probe_name(const probe *p, int op) {
  const train_model *model = p->e->of.model;
  return model->states[model->ops[op].states[0]].name;
}

// ---- one recurrence -----------------------------------------------------------------------------

bool kernel_runs_is_state(const kernel_runs *r, int i) {
  return rec_is_carried(&r->k->signature->variables[i]);
}

static void *zeroed(int64_t numbers, const numeric *n) {
  return calloc((size_t)numbers + 1, (size_t)n->element_size);
}

void *zeroed_rows(int64_t numbers, const numeric *n) {
  return calloc((size_t)numbers + 1, (size_t)n->token_size);
}

rec_status kernel_runs_open(const probe *p, int op, kernel_runs *r) {
  const train_model *model = p->e->of.model;
  const train_kernel *k = &p->e->of.kernels[model->ops[op].kernel];
  *r = (kernel_runs){.k = k, .n = p->e->of.n};
  r->call = (kernel_call){.batch = 1,
                          .threads = 1,
                          .value = r->value,
                          .gradient = r->gradient,
                          .final = r->final,
                          .d_final = r->d_final};
  executor_values(p->x, p->e->weights, &p->sequence, op, r->whole);
  bool good = true;
  for (int i = 0, state = 0; i < k->signature->variable_count; i++) {
    int64_t numbers = kernel_numbers(k->signature, i);
    if (kernel_runs_is_state(r, i)) {
      good &= (r->before[i] = zeroed(numbers, r->n)) && (r->final[i] = zeroed(numbers, r->n)) &&
              (r->d_final[i] = zeroed(numbers, r->n)) && (r->d_before[i] = zeroed(numbers, r->n));
      if (good)
        begin_add(&p->e->of, &model->states[model->ops[op].states[state++]], p->e->weights,
                  r->before[i]);
    } else if (k->signature->variables[i].kind == REC_OUTPUT) {
      good &= (r->output[i] = zeroed_rows(numbers * p->time, r->n)) != NULL;
    }
  }
  kernel_sizes sizes;
  rec_status status = k->sizes(k, 1, p->time, &sizes);
  r->call.workspace_bytes = sizes.workspace;
  r->call.saved_bytes = sizes.saved;
  if (status) return status;
  r->call.workspace = rec_numbers_new(sizes.workspace);
  r->call.saved = rec_numbers_new(sizes.saved);
  return good && r->call.workspace && r->call.saved ? REC_OK : rec_no_memory();
}

void kernel_runs_close(kernel_runs *r) {
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

rec_status kernel_runs_steps(kernel_runs *r, int64_t from, int64_t to) {
  for (int i = 0; i < r->k->signature->variable_count; i++) {
    int64_t numbers = kernel_numbers(r->k->signature, i);
    kernel_memory *v = &r->value[i];
    *v = r->whole[i];
    r->gradient[i] = (kernel_memory){0};
    if (r->k->signature->variables[i].kind == REC_INPUT) {
      v->data = (char *)v->data + from * v->time_stride * r->n->token_size;
      v->batch_stride = v->time_stride * (to - from);
    }
    if (kernel_runs_is_state(r, i)) *v = (kernel_memory){r->before[i], 0, 0};
    if (r->output[i]) *v = (kernel_memory){r->output[i], numbers * (to - from), numbers};
  }
  r->call.time = to - from;
  return r->k->forward(r->k, &r->call);
}
