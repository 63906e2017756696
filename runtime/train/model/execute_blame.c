// The first number of a run that is not finite: the operations of execute.c again, one after
// another, with a look at each result.
#include "runtime/train/model/execute_parts.h"

#include <math.h>
#include <stdio.h>

// What cannot be looked at is not to blame.
static bool finite_rows(const compute *c, rows y) {
  double sum = 0;
  return !y.data || c->ops->row_squares(c, y, &sum) || isfinite(sum);
}

static bool finite_block(const compute *c, const void *values, int64_t count) {
  double sum = 0;
  return !values || c->ops->square_sums(c, &(value_list){values, count}, 1, &sum) || isfinite(sum);
}

// What people know an operation by: a weight or a state of it, else the recurrence.
static const char *op_name(const run *r, const model_op *op) {
  const train_model *m = r->x->model;
  if (op->kind == OP_CALL && op->state_count) return m->states[op->states[0]].name;
  if (op->use_count) return m->parameters[op->uses[0].parameter].name;
  return op->kind == OP_CALL ? r->x->kernels[op->kernel].signature->name : "the loss";
}

// ", after layers.0.in_proj.weight": where an operation without weights and states stands.
static const char *text_of_place(const run *r, int number, char text[512]) {
  const model_op *ops = r->x->model->ops;
  *text = 0;
  if (ops[number].use_count || ops[number].state_count) return text;
  while (number > 0 && !ops[number].use_count && !ops[number].state_count) number--;
  snprintf(text, 512, ", after %s", op_name(r, &ops[number]));
  return text;
}

static bool blame_forward(const run *r, int number, char *text, size_t size) {
  const train_model *m = r->x->model;
  const model_op *op = &m->ops[number];
  char place[512];
  for (int i = 0; i < op->out_count; i++) {
    if (finite_rows(r->x->c, run_rows(r, op->out[i]))) continue;
    snprintf(text, size, "the output '%s' of %s%s", m->tensors[op->out[i]].name, op_name(r, op),
             text_of_place(r, number, place));
    return true;
  }
  for (int i = 0; i < op->state_count; i++) {
    int64_t numbers = m->states[op->states[i]].elements * r->s->batch;
    const void *after = seams_state(&r->x->ends, r->segment + 1, op->states[i]);
    if (finite_block(r->x->c, after, numbers)) continue;
    snprintf(text, size, "the state %s", m->states[op->states[i]].name);
    return true;
  }
  return false;
}

static bool blame_backward(const run *r, const model_step *step, char *text, size_t size) {
  const train_model *m = r->x->model;
  if (step->kind != STEP_OF) return false;
  const model_op *op = &m->ops[step->op];
  char place[512];
  for (int i = 0; i < op->use_count; i++) {
    const model_parameter *p = &m->parameters[op->uses[i].parameter];
    const char *gradient = (char *)r->gradients[r->segment] + p->place * r->x->c->n->element_size;
    if (finite_block(r->x->c, gradient, p->elements)) continue;
    snprintf(text, size, "the gradient of the weight %s", p->name);
    return true;
  }
  for (int i = 0; i < step->in_count; i++) {
    if (finite_rows(r->x->c, run_optional_rows(r, step->d_in[i]))) continue;
    snprintf(text, size, "the gradient of '%s', an input of %s%s", m->tensors[op->in[i]].name,
             op_name(r, op), text_of_place(r, step->op, place));
    return true;
  }
  return false;
}

// What is found first stays. The rest is run all the same, for ranks that share the sequences wait
// for each other.
typedef struct search {
  char *text;
  size_t size;
  int at, found;  // in the order of the run
} search;

static bool looks(const search *s) { return s->found == NOTHING_FOUND; }

static void found(search *s, bool is) {
  if (is) s->found = s->at;
}

static rec_status search_forward(run *r, search *s) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < r->x->model->op_count; i++, s->at++) {
    status = run_forward(r, i);
    for (int k = 0; !status && k < r->count && looks(s); k++) {
      run_enter(r, k);
      found(s, blame_forward(r, i, s->text, s->size));
    }
  }
  return status;
}

static rec_status search_loss(run *r, double scale, search *s) {
  rec_status status = REC_OK;
  double loss;
  for (int k = 0; !status && k < r->count; k++) {
    run_enter(r, k);
    status = run_loss(r, scale, &loss, NULL);
    if (!status && looks(s) && !finite_rows(r->x->c, run_rows(r, r->x->model->logits))) {
      snprintf(s->text, s->size, "the gradient of the logits");
      found(s, true);
    }
    if (!status) status = run_clear_gradients(r);
  }
  s->at++;
  return status;
}

static rec_status search_backward(run *r, search *s) {
  rec_status status = REC_OK;
  seams_turn(&r->x->ends);
  for (int i = 0; !status && i < r->x->model->step_count; i++, s->at++) {
    status = run_backward(r, &r->x->model->steps[i]);
    for (int k = r->count - 1; !status && k >= 0 && looks(s); k--) {
      run_enter(r, k);
      found(s, blame_backward(r, &r->x->model->steps[i], s->text, s->size));
    }
  }
  return status;
}

int executor_blame(executor *x, const void *parameters, const shard *here, double scale,
                   void *const *gradients, char *text, size_t size) {
  shard there;
  run r = {.x = x, .parameters = parameters, .backward = true, .gradients = gradients};
  search s = {text, size, 0, NOTHING_FOUND};
  *text = 0;
  rec_status status = run_begin(&r, here, &there);
  if (!status) status = search_forward(&r, &s);
  if (!status) status = search_loss(&r, scale, &s);
  if (!status) status = search_backward(&r, &s);
  run_end(&r, here, status);
  return s.found;
}
