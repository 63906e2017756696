// The operations of a model, one after another, on the rows of the memory plan.
#include "runtime/train/model/execute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/model/blas.h"
#include "runtime/train/model/staging.h"

struct executor {
  const train_model *model;
  const train_kernel *kernels;
  const compute *c;
  int64_t batch, time;
  bool backward;
  void *activations;
  void **saved;  // by operation
  int64_t *saved_bytes;
  void *workspace;
  int64_t workspace_bytes, bytes;  // bytes: of all that follows from the sizes of the batch
  void *scratch;                   // a parameter's gradient on its way to being added
  void *room;                      // of linear products
  void *row;                       // of logits, on the host
  staging staged;
};

// ---- checks -------------------------------------------------------------------------------------

static rec_status misfit(const train_kernel *k) {
  return rec_fail(REC_ERROR_FORMAT, "expected a library made by recc, found one whose model calls '%s' with other tensors",
                  k->signature->name);
}

int64_t kernel_numbers(const rec_signature *s, int variable) {
  int64_t sizes[64];
  if (s->axis_count > 64) return -1;
  for (int i = 0; i < s->axis_count; i++) {
    sizes[i] = s->axes[i].size;
    if (sizes[i] < 0) return -1;
  }
  return rec_variable_numbers(s, variable, sizes);
}

static rec_status check_call(const train_model *m, const model_op *op, const train_kernel *k) {
  const rec_signature *s = k->signature;
  int in = 0, out = 0, use = 0, state = 0;
  if (s->variable_count > MOST_VARIABLES) return misfit(k);
  for (int i = 0; i < s->variable_count; i++) {
    int64_t numbers = kernel_numbers(s, i), found = -1;
    switch (s->variables[i].kind) {
      case REC_INPUT: found = in < op->in_count ? m->tensors[op->in[in]].elements : -1, in++; break;
      case REC_OUTPUT: found = out < op->out_count ? m->tensors[op->out[out]].elements : -1, out++; break;
      case REC_PARAM:
        if (use < op->use_count && op->uses[use].first + numbers <= m->parameters[op->uses[use].parameter].elements)
          found = numbers;
        use++;
        break;
      case REC_STATE:
      case REC_LAG: found = state < op->state_count ? m->states[op->states[state]].elements : -1, state++; break;
    }
    if (numbers < 0 || found != numbers) return misfit(k);
  }
  return in == op->in_count && out == op->out_count && use == op->use_count && state == op->state_count ? REC_OK : misfit(k);
}

static bool linear_fits(const train_model *m, const model_op *op) {
  const model_parameter *w = &m->parameters[op->uses[0].parameter];
  return w->rank == 2 && w->shape[0] == m->tensors[op->row].elements && w->shape[1] == m->tensors[op->in[0]].elements &&
         (op->use_count < 2 || m->parameters[op->uses[1].parameter].elements == w->shape[0]);
}

static bool embed_fits(const train_model *m, const model_op *op) {
  const model_parameter *w = &m->parameters[op->uses[0].parameter];
  return w->rank == 2 && w->shape[0] == m->vocabulary && w->shape[1] == m->tensors[op->out[0]].elements;
}

rec_status execute_check(const train_model *m, const train_kernel *kernels) {
  for (int i = 0; i < m->op_count; i++) {
    const model_op *op = &m->ops[i];
    rec_status status = op->kind == OP_CALL ? check_call(m, op, &kernels[op->kernel]) : REC_OK;
    bool fits = op->kind == OP_LINEAR ? linear_fits(m, op) : op->kind == OP_EMBED ? embed_fits(m, op) : true;
    if (!fits)
      status = rec_fail(REC_ERROR_FORMAT, "expected a library made by recc, found one whose model '%s' does not fit together",
                        m->name);
    if (status) return status;
  }
  if (m->tensors[m->logits].elements == m->vocabulary) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "expected logits for %d symbols, found %lld", m->vocabulary,
                  (long long)m->tensors[m->logits].elements);
}

// ---- memory -------------------------------------------------------------------------------------

static int64_t padded(int64_t bytes) { return (bytes + REC_ALIGNMENT - 1) / REC_ALIGNMENT * REC_ALIGNMENT; }

typedef struct executor_sizes {
  int64_t activations, workspace, scratch, saved, room;
} executor_sizes;

static int64_t linear_room(const train_model *m, const model_op *op, const compute *c) {
  if (op->kind != OP_LINEAR) return 0;
  return c->ops->linear_room(c, m->tensors[op->in[0]].elements, m->tensors[op->row].elements);
}

static rec_status measure(const train_model *m, const train_kernel *kernels, const compute *c, int64_t batch, int64_t time,
                          bool backward, executor_sizes *sizes, int64_t *saved_bytes) {
  int64_t tokens;
  *sizes = (executor_sizes){0};
  if (!rec_multiply(batch, time, &tokens) || !rec_multiply(m->row, tokens, &sizes->activations) ||
      !rec_multiply(sizes->activations, c->n->token_size, &sizes->activations))
    return rec_no_memory();
  sizes->activations = padded(sizes->activations);
  if (backward) sizes->scratch = padded(m->largest_parameter * c->n->element_size);
  for (int i = 0; i < m->op_count; i++) {
    int64_t room = linear_room(m, &m->ops[i], c);
    if (room > sizes->room) sizes->room = padded(room);
    if (m->ops[i].kind != OP_CALL) continue;
    int64_t workspace = 0, saved = 0;
    const train_kernel *k = &kernels[m->ops[i].kernel];
    rec_status status = k->sizes(k, batch, time, &workspace, &saved);
    if (status) return status;
    if (workspace > sizes->workspace) sizes->workspace = padded(workspace);
    if (!backward) continue;
    sizes->saved += padded(saved);
    saved_bytes[i] = saved;
  }
  return REC_OK;
}

int64_t executor_bytes(const executor *x) { return x->bytes; }

void executor_free(executor *x) {
  if (!x) return;
  const compute *c = x->c;
  c->ops->release(c, x->activations);
  for (int i = 0; x->saved && i < x->model->op_count; i++) c->ops->release(c, x->saved[i]);
  free(x->saved);
  free(x->saved_bytes);
  c->ops->release(c, x->workspace);
  c->ops->release(c, x->scratch);
  c->ops->release(c, x->room);
  free(x->row);
  staging_close(&x->staged);
  free(x);
}

static rec_status allocate(executor *x, const executor_sizes *sizes) {
  const compute *c = x->c;
  rec_status status = c->ops->allocate(c, sizes->activations, &x->activations);
  if (!status) status = c->ops->allocate(c, sizes->workspace, &x->workspace);
  if (!status) status = c->ops->allocate(c, sizes->scratch, &x->scratch);
  if (!status) status = c->ops->allocate(c, sizes->room, &x->room);
  for (int i = 0; !status && i < x->model->op_count; i++) status = c->ops->allocate(c, x->saved_bytes[i], &x->saved[i]);
  return status ? status : staging_open(c, x->model, x->batch, x->time, &x->staged);
}

rec_status executor_new(const train_model *model, const train_kernel *kernels, const compute *c, int64_t batch, int64_t time,
                        bool backward, executor **made) {
  executor_sizes sizes;
  executor *x = calloc(1, sizeof *x);
  *made = NULL;
  if (!x) return rec_no_memory();
  *x = (executor){.model = model, .kernels = kernels, .c = c, .batch = batch, .time = time, .backward = backward};
  x->saved = calloc((size_t)model->op_count + 1, sizeof *x->saved);
  x->saved_bytes = calloc((size_t)model->op_count + 1, sizeof *x->saved_bytes);
  x->row = malloc((size_t)(model->vocabulary * c->n->token_size) + 1);
  rec_status status = x->saved && x->saved_bytes && x->row ? REC_OK : rec_no_memory();
  if (!status && compute_is_host(c)) status = blas_reserve(1);
  if (!status) status = measure(model, kernels, c, batch, time, backward, &sizes, x->saved_bytes);
  if (!status) x->workspace_bytes = sizes.workspace;
  if (!status) x->bytes = sizes.activations + sizes.workspace + sizes.scratch + sizes.saved + sizes.room;
  if (!status) status = allocate(x, &sizes);
  if (status)
    executor_free(x);
  else
    *made = x;
  return status;
}

// ---- running ------------------------------------------------------------------------------------

// What an operation sees of one run.
typedef struct run {
  executor *x;
  const shard *s;  // in the memory of the place
  const char *parameters;
  char *gradients;
  int64_t tokens;
  bool by_step;  // recurrences run in their single-step form
} run;

static rows rows_of(const run *r, int tensor) {
  const model_tensor *t = &r->x->model->tensors[tensor];
  char *data = (char *)r->x->activations + (t->place * r->tokens + t->offset) * r->x->c->n->token_size;
  return (rows){data, r->tokens, t->elements, t->stride};
}

static rows optional_rows(const run *r, int tensor) { return tensor == NO_TENSOR ? (rows){0} : rows_of(r, tensor); }

static int64_t use_offset(const run *r, const model_use *use) {
  return (r->x->model->parameters[use->parameter].place + use->first) * r->x->c->n->element_size;
}

static const void *use_values(const run *r, const model_use *use) { return r->parameters + use_offset(r, use); }
static void *use_gradients(const run *r, const model_use *use) { return r->gradients + use_offset(r, use); }

static kernel_memory kernel_rows(const run *r, int tensor) {
  rows y = optional_rows(r, tensor);
  return (kernel_memory){y.data, y.stride * r->s->time, y.stride};
}

typedef struct call_memory {
  kernel_memory value[MOST_VARIABLES], gradient[MOST_VARIABLES];
  void *final[MOST_VARIABLES], *d_final[MOST_VARIABLES];
  int use_of[MOST_VARIABLES];  // by variable, -1: not a parameter
} call_memory;

// Everything that forward reads and writes; backward adds its gradients.
static kernel_call bind_call(const run *r, int number, call_memory *m) {
  const model_op *op = &r->x->model->ops[number];
  const train_kernel *k = &r->x->kernels[op->kernel];
  int in = 0, out = 0, use = 0, state = 0;
  for (int i = 0; i < k->signature->variable_count; i++) {
    m->gradient[i] = (kernel_memory){0};
    m->final[i] = m->d_final[i] = NULL;
    m->use_of[i] = -1;
    switch (k->signature->variables[i].kind) {
      case REC_INPUT: m->value[i] = kernel_rows(r, op->in[in++]); break;
      case REC_OUTPUT: m->value[i] = kernel_rows(r, op->out[out++]); break;
      case REC_PARAM:
        m->use_of[i] = use;
        m->value[i] = (kernel_memory){(void *)use_values(r, &op->uses[use++]), 0, 0};
        break;
      case REC_STATE:
      case REC_LAG:
        m->value[i] = (kernel_memory){r->s->before[op->states[state]], 0, 0};
        m->final[i] = r->s->after[op->states[state++]];
        break;
    }
  }
  return (kernel_call){.batch = r->s->batch,
                       .time = r->s->time,
                       .threads = r->s->threads,
                       .value = m->value,
                       .gradient = m->gradient,
                       .final = m->final,
                       .d_final = m->d_final,
                       .workspace = r->x->workspace,
                       .workspace_bytes = r->x->workspace_bytes,
                       .saved = r->x->saved[number],
                       .saved_bytes = r->x->saved_bytes[number]};
}

static rec_status forward(const run *r, int number) {
  const model_op *op = &r->x->model->ops[number];
  const compute *c = r->x->c;
  call_memory memory;
  switch (op->kind) {
    case OP_EMBED: return c->ops->embed(c, r->s->tokens, use_values(r, &op->uses[0]), rows_of(r, op->out[0]));
    case OP_LINEAR:
      return c->ops->linear(c, rows_of(r, op->in[0]), use_values(r, &op->uses[0]),
                            op->use_count > 1 ? use_values(r, &op->uses[1]) : NULL, rows_of(r, op->row), r->x->room);
    case OP_CALL: {
      kernel_call call = bind_call(r, number, &memory);
      const train_kernel *k = &r->x->kernels[op->kernel];
      return r->by_step ? k->step(k, &call) : k->forward(k, &call);
    }
    case OP_LOSS: break;
  }
  return REC_OK;
}

static void bind_gradients(const run *r, const model_step *step, call_memory *m) {
  const model_op *op = &r->x->model->ops[step->op];
  const rec_signature *s = r->x->kernels[op->kernel].signature;
  int in = 0, out = 0, state = 0;
  for (int i = 0; i < s->variable_count; i++) {
    bool carried = rec_is_carried(&s->variables[i]);
    int number = carried ? op->states[state++] : 0;
    if (carried && r->s->d_before && r->s->before[number]) m->gradient[i].data = r->s->d_before[number];
    if (s->variables[i].kind == REC_INPUT) m->gradient[i] = kernel_rows(r, step->d_in[in++]);
    if (s->variables[i].kind == REC_OUTPUT) m->gradient[i] = kernel_rows(r, step->d_out[out++]);
    if (m->use_of[i] >= 0)
      m->gradient[i].data = step->add_use[m->use_of[i]] ? r->x->scratch : use_gradients(r, &op->uses[m->use_of[i]]);
  }
}

// A parameter that an earlier kernel has used: its gradient goes to the scratch memory and is
// added. Only one such parameter may be on its way at a time, so each further one takes a run of
// its own.
static rec_status call_backward(const run *r, const model_step *step) {
  const model_op *op = &r->x->model->ops[step->op];
  const train_kernel *k = &r->x->kernels[op->kernel];
  call_memory memory;
  kernel_call call = bind_call(r, step->op, &memory);
  bind_gradients(r, step, &memory);
  for (int i = 0; i < k->signature->variable_count; i++) memory.final[i] = NULL;
  int waiting[MOST_VARIABLES], count = 0;
  for (int i = 0; i < k->signature->variable_count; i++)
    if (memory.use_of[i] >= 0 && step->add_use[memory.use_of[i]]) waiting[count++] = i;
  rec_status status = REC_OK;
  for (int turn = 0; !status && (turn < count || turn == 0); turn++) {
    for (int i = 0; i < count; i++) memory.gradient[waiting[i]].data = i == turn ? r->x->scratch : NULL;
    status = k->backward(k, &call);
    if (!status && turn < count)
      status = r->x->c->ops->sum_into(r->x->c, use_gradients(r, &op->uses[memory.use_of[waiting[turn]]]), r->x->scratch,
                                      kernel_numbers(k->signature, waiting[turn]));
  }
  return status;
}

static rec_status backward(const run *r, const model_step *step) {
  const compute *c = r->x->c;
  if (step->kind == STEP_ADD) return c->ops->add(c, rows_of(r, step->to), rows_of(r, step->from));
  if (step->kind == STEP_ZERO) return c->ops->zero(c, rows_of(r, step->to));
  const model_op *op = &r->x->model->ops[step->op];
  if (op->kind == OP_CALL) return call_backward(r, step);
  if (op->kind == OP_EMBED)
    return c->ops->embed_backward(c, r->s->tokens, rows_of(r, step->d_out[0]), use_gradients(r, &op->uses[0]));
  if (op->kind == OP_LINEAR)
    return c->ops->linear_backward(c, rows_of(r, op->in[0]), use_values(r, &op->uses[0]), rows_of(r, step->d_out[0]),
                                   optional_rows(r, step->d_in[0]), step->add, use_gradients(r, &op->uses[0]),
                                   op->use_count > 1 ? use_gradients(r, &op->uses[1]) : NULL, r->x->room);
  return REC_OK;
}

static rec_status run_forward(const run *r) {
  const executor *x = r->x;
  if (r->s->batch > x->batch || r->s->time > x->time || (r->gradients && !x->backward))
    return rec_fail(REC_ERROR_INTERNAL, "a run of %lld x %lld tokens in memory for %lld x %lld", (long long)r->s->batch,
                    (long long)r->s->time, (long long)x->batch, (long long)x->time);
  rec_status status = REC_OK;
  for (int i = 0; !status && i < x->model->op_count; i++) status = forward(r, i);
  return status;
}

// Forward over sequences of the host; `there` are those that the run is of.
static rec_status enter_and_run(run *r, const shard *s, shard *there) {
  rec_status status = staging_enter(&r->x->staged, s, there);
  r->s = there;
  r->tokens = s->batch * s->time;
  return status ? status : run_forward(r);
}

rec_status executor_logits(executor *x, const void *parameters, const shard *s, double *logits) {
  const train_model *m = x->model;
  const compute *c = x->c;
  shard there;
  run r = {.x = x, .parameters = parameters, .by_step = s->time == 1};
  rec_status status = enter_and_run(&r, s, &there);
  rows all = rows_of(&r, m->logits);
  for (int64_t b = 0; !status && b < s->batch; b++) {
    int64_t last = ((b + 1) * s->time - 1) * all.stride;
    status = c->ops->download(c, x->row, (char *)all.data + last * c->n->token_size, m->vocabulary * c->n->token_size);
    for (int i = 0; !status && i < m->vocabulary; i++) logits[b * m->vocabulary + i] = c->n->load_token(x->row, i);
  }
  return status ? status : staging_leave(&x->staged, s, &there);
}

rec_status executor_hits(executor *x, const void *parameters, const shard *s, uint8_t *hits) {
  const compute *c = x->c;
  shard there;
  run r = {.x = x, .parameters = parameters};
  rec_status status = enter_and_run(&r, s, &there);
  uint8_t *found = compute_is_host(c) ? hits : x->staged.hits;
  if (!status) status = c->ops->hits(c, rows_of(&r, x->model->logits), there.targets, found);
  if (!status && found != hits) status = c->ops->download(c, hits, found, r.tokens);
  return status ? status : staging_leave(&x->staged, s, &there);
}

rec_status executor_forward(executor *x, const void *parameters, const shard *s) {
  shard there;
  run r = {.x = x, .parameters = parameters};
  rec_status status = enter_and_run(&r, s, &there);
  return status ? status : staging_leave(&x->staged, s, &there);
}

void executor_values(executor *x, const void *parameters, const shard *s, int op, kernel_memory value[MOST_VARIABLES]) {
  run r = {.x = x, .s = s, .parameters = parameters, .tokens = s->batch * s->time};
  call_memory memory = {0};
  bind_call(&r, op, &memory);
  memcpy(value, memory.value, sizeof memory.value);
}

// The loss, and in place of the logits their gradient, if it is wanted.
static rec_status run_loss(const run *r, double scale, double *loss, float *losses) {
  const executor *x = r->x;
  const compute *c = x->c;
  rows logits = rows_of(r, x->model->logits);
  float *found = compute_is_host(c) ? losses : x->staged.losses;
  rec_status status =
      c->ops->cross_entropy(c, logits, r->s->targets, r->s->weights, scale, r->gradients ? logits : (rows){0}, found, loss);
  if (!status && losses && found != losses) status = c->ops->download(c, losses, found, r->tokens * (int64_t)sizeof *losses);
  return status;
}

static rec_status clear_gradients(const run *r) {
  const compute *c = r->x->c;
  return c->ops->clear(c, r->gradients, r->x->model->parameter_elements * c->n->element_size);
}

rec_status executor_run(executor *x, const void *parameters, const shard *s, double scale, void *gradients, double *loss,
                        float *losses) {
  const train_model *m = x->model;
  shard there;
  run r = {.x = x, .parameters = parameters, .gradients = gradients};
  rec_status status = enter_and_run(&r, s, &there);
  if (!status) status = run_loss(&r, scale, loss, losses);
  if (!status && gradients) status = clear_gradients(&r);
  for (int i = 0; !status && gradients && i < m->step_count; i++) status = backward(&r, &m->steps[i]);
  return status ? status : staging_leave(&x->staged, s, &there);
}

// ---- numbers that are not finite ----------------------------------------------------------------

// What cannot be looked at is not to blame.
static bool finite_rows(const compute *c, rows y) {
  double sum = 0;
  return !y.data || c->ops->row_squares(c, y, &sum) || isfinite(sum);
}

static bool finite_block(const compute *c, const void *values, int64_t count) {
  double sum = 0;
  return !values || c->ops->square_sum(c, values, count, &sum) || isfinite(sum);
}

// What people know an operation by: a weight or a state of it, else the recurrence.
static const char *op_name(const run *r, const model_op *op) {
  const train_model *m = r->x->model;
  if (op->kind == OP_CALL && op->state_count) return m->states[op->states[0]].name;
  if (op->use_count) return m->parameters[op->uses[0].parameter].name;
  return op->kind == OP_CALL ? r->x->kernels[op->kernel].signature->name : "the loss";
}

// ", after layers.0.in_proj.weight": where an operation without weights and states stands.
static const char *place_of(const run *r, int number, char text[512]) {
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
    if (finite_rows(r->x->c, rows_of(r, op->out[i]))) continue;
    snprintf(text, size, "the output '%s' of %s%s", m->tensors[op->out[i]].name, op_name(r, op), place_of(r, number, place));
    return true;
  }
  for (int i = 0; i < op->state_count; i++) {
    int64_t numbers = m->states[op->states[i]].elements * r->s->batch;
    const void *after = r->s->after[op->states[i]];
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
    const char *gradient = r->gradients + p->place * r->x->c->n->element_size;
    if (finite_block(r->x->c, gradient, p->elements)) continue;
    snprintf(text, size, "the gradient of the weight %s", p->name);
    return true;
  }
  for (int i = 0; i < step->in_count; i++) {
    if (finite_rows(r->x->c, optional_rows(r, step->d_in[i]))) continue;
    snprintf(text, size, "the gradient of '%s', an input of %s%s", m->tensors[op->in[i]].name, op_name(r, op),
             place_of(r, step->op, place));
    return true;
  }
  return false;
}

void executor_blame(executor *x, const void *parameters, const shard *s, double scale, void *gradients, char *text,
                    size_t size) {
  const train_model *m = x->model;
  shard there;
  double loss;
  run r = {.x = x, .s = &there, .parameters = parameters, .gradients = gradients, .tokens = s->batch * s->time};
  rec_status status = staging_enter(&x->staged, s, &there);
  *text = 0;
  for (int i = 0; !status && i < m->op_count; i++) {
    status = forward(&r, i);
    if (!status && blame_forward(&r, i, text, size)) return;
  }
  if (!status) status = run_loss(&r, scale, &loss, NULL);
  if (!status && !finite_rows(x->c, rows_of(&r, m->logits))) {
    snprintf(text, size, "the gradient of the logits");
    return;
  }
  if (!status) status = clear_gradients(&r);
  for (int i = 0; !status && i < m->step_count; i++) {
    status = backward(&r, &m->steps[i]);
    if (!status && blame_backward(&r, &m->steps[i], text, size)) return;
  }
}
