// The operations of a model, one after another, on the rows of the memory plan.
#include "runtime/train/model/execute_parts.h"

#include <string.h>

// ---- what an operation sees of a segment --------------------------------------------------------

void run_enter(run *r, int segment) {
  const int64_t most = r->x->form.segment, before = segment * most;
  r->segment = segment;
  r->time = r->s->time - before < most ? r->s->time - before : most;
  r->tokens = r->s->batch * r->time;
  r->first = r->s->batch * before;
}

rows run_rows(const run *r, int tensor) {
  const model_tensor *t = &r->x->model->tensors[tensor];
  char *data = r->x->activations + r->segment * r->x->activation_bytes;
  return (rows){data + (t->place * r->tokens + t->offset) * r->x->c->n->token_size, r->tokens,
                t->elements, t->stride};
}

rows run_optional_rows(const run *r, int tensor) {
  return tensor == NO_TENSOR ? (rows){0} : run_rows(r, tensor);
}

static int64_t use_offset(const run *r, const model_use *use) {
  return (r->x->model->parameters[use->parameter].place + use->first) * r->x->c->n->element_size;
}

static const void *use_values(const run *r, const model_use *use) {
  return r->parameters + use_offset(r, use);
}

static void *use_gradients(const run *r, const model_use *use) {
  return (char *)r->gradients[r->segment] + use_offset(r, use);
}

static kernel_memory kernel_rows(const run *r, int tensor) {
  rows y = run_optional_rows(r, tensor);
  return (kernel_memory){y.data, y.stride * r->time, y.stride};
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
        m->value[i] =
            (kernel_memory){seams_state(&r->x->ends, r->segment, op->states[state]), 0, 0};
        m->final[i] =
            r->inside ? NULL : seams_state(&r->x->ends, r->segment + 1, op->states[state]);
        state++;
        break;
    }
  }
  return (kernel_call){.batch = r->s->batch,
                       .time = r->time,
                       .threads = r->s->threads,
                       .value = m->value,
                       .gradient = m->gradient,
                       .final = m->final,
                       .d_final = m->d_final,
                       .workspace = r->x->workspace,
                       .workspace_bytes = r->x->workspace_bytes,
                       .saved = r->x->saved[number * r->x->segments + r->segment],
                       .saved_bytes = r->x->saved_bytes[number]};
}

static const token_id *tokens_of(const run *r) { return r->s->tokens + r->first; }

static rec_status run_operation(const run *r, int number) {
  const model_op *op = &r->x->model->ops[number];
  const compute *c = r->x->c;
  call_memory memory;
  switch (op->kind) {
    case OP_EMBED:
      return c->ops->embed(c, tokens_of(r), use_values(r, &op->uses[0]), run_rows(r, op->out[0]));
    case OP_LINEAR:
      return c->ops->linear(c, run_rows(r, op->in[0]), use_values(r, &op->uses[0]),
                            op->use_count > 1 ? use_values(r, &op->uses[1]) : NULL,
                            run_rows(r, op->row), r->x->room);
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
    if (rec_is_carried(&s->variables[i])) {
      m->gradient[i].data =
          r->inside ? NULL : seams_gradient(&r->x->ends, r->segment, op->states[state]);
      m->d_final[i] = seams_gradient(&r->x->ends, r->segment + 1, op->states[state++]);
    }
    if (s->variables[i].kind == REC_INPUT) m->gradient[i] = kernel_rows(r, step->d_in[in++]);
    if (s->variables[i].kind == REC_OUTPUT) m->gradient[i] = kernel_rows(r, step->d_out[out++]);
    if (m->use_of[i] >= 0)
      m->gradient[i].data =
          step->add_use[m->use_of[i]] ? r->x->scratch : use_gradients(r, &op->uses[m->use_of[i]]);
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
    for (int i = 0; i < count; i++)
      memory.gradient[waiting[i]].data = i == turn ? r->x->scratch : NULL;
    status = k->backward(k, &call);
    if (!status && turn < count)
      status =
          r->x->c->ops->sum_into(r->x->c, use_gradients(r, &op->uses[memory.use_of[waiting[turn]]]),
                                 r->x->scratch, kernel_numbers(k->signature, waiting[turn]));
  }
  return status;
}

static rec_status clear_gradient_range(const run *r, int64_t first, int64_t end) {
  const compute *c = r->x->c;
  return c->ops->clear(c, (char *)r->gradients[r->segment] + first * c->n->element_size,
                       (end - first) * c->n->element_size);
}

// Before its first sum: so it comes from the cache.
static rec_status clear_summed(const run *r, const model_parameter *p) {
  return clear_gradient_range(r, p->place, p->place + p->elements);
}

static rec_status run_gradient_step(const run *r, const model_step *step) {
  const compute *c = r->x->c;
  if (step->kind == STEP_ADD) return c->ops->add(c, run_rows(r, step->to), run_rows(r, step->from));
  if (step->kind == STEP_ZERO) return c->ops->zero(c, run_rows(r, step->to));
  const model_op *op = &r->x->model->ops[step->op];
  if (op->kind == OP_CALL) return call_backward(r, step);
  if (step->begins_sum) {
    rec_status status = clear_summed(r, &r->x->model->parameters[op->uses[0].parameter]);
    if (status) return status;
  }
  if (op->kind == OP_EMBED)
    return c->ops->embed_backward(c, tokens_of(r), run_rows(r, step->d_out[0]),
                                  use_gradients(r, &op->uses[0]));
  if (op->kind == OP_LINEAR)
    return c->ops->linear_backward(
        c, run_rows(r, op->in[0]), use_values(r, &op->uses[0]), run_rows(r, step->d_out[0]),
        run_optional_rows(r, step->d_in[0]), step->add, use_gradients(r, &op->uses[0]),
        op->use_count > 1 ? use_gradients(r, &op->uses[1]) : NULL, r->x->room);
  return REC_OK;
}

static void told(const run *r, int op, run_part part, double amount) {
  const executor_watch *w = &r->x->watch;
  if (w->ran) w->ran(w->context, op, part, amount);
}

void executor_watch_by(executor *x, executor_watch watch) { x->watch = watch; }

rec_status run_call(const run *r, int op, const model_step *step) {
  rec_status status = step ? call_backward(r, step) : run_operation(r, op);
  told(r, op, step ? RAN_BACKWARD : RAN_FORWARD, (double)r->tokens);
  return status;
}

static bool goes_by_chain(const run *r, const model_op *op) {
  return op->state_count && r->x->cuts[op->states[0]].instances && !r->by_step;
}

static rec_status forward_of(const run *r, int number) {
  const model_op *op = &r->x->model->ops[number];
  rec_status status = seams_before(&r->x->ends, op, r->segment, false);
  if (!status) status = run_operation(r, number);
  if (op->kind != OP_LOSS) told(r, number, RAN_FORWARD, (double)r->tokens);
  return status ? status : seams_after(&r->x->ends, op, r->segment, false);
}

rec_status run_forward(run *r, int number) {
  rec_status status = REC_OK;
  if (goes_by_chain(r, &r->x->model->ops[number])) return run_chain(r, number, NULL);
  for (int k = 0; !status && k < r->count; k++) {
    run_enter(r, k);
    status = forward_of(r, number);
  }
  return status;
}

static rec_status run_step_backward(const run *r, const model_step *step) {
  if (step->kind != STEP_OF) return run_gradient_step(r, step);
  const model_op *op = &r->x->model->ops[step->op];
  rec_status status = seams_before(&r->x->ends, op, r->segment, true);
  if (!status) status = run_gradient_step(r, step);
  told(r, step->op, RAN_BACKWARD, (double)r->tokens);
  return status ? status : seams_after(&r->x->ends, op, r->segment, true);
}

rec_status run_backward(run *r, const model_step *step) {
  rec_status status = REC_OK;
  if (step->kind == STEP_OF && goes_by_chain(r, &r->x->model->ops[step->op]))
    return run_chain(r, step->op, step);
  for (int k = r->count - 1; !status && k >= 0; k--) {
    run_enter(r, k);
    status = run_step_backward(r, step);
  }
  return status;
}

// ---- summaries ----------------------------------------------------------------------------------

// The call of an operation on the segment at hand; of its backward pass where there is a step.
static kernel_call bind_operation(const run *r, int op, const model_step *step, call_memory *m) {
  kernel_call call = bind_call(r, op, m);
  if (step) bind_gradients(r, step, m);
  return call;
}

static const train_kernel *op_kernel(const run *r, int op) {
  return &r->x->kernels[r->x->model->ops[op].kernel];
}

rec_status run_summary(const run *r, int op, const model_step *step, void *summary) {
  call_memory memory;
  const kernel_call call = bind_operation(r, op, step, &memory);
  rec_status status = op_kernel(r, op)->summary(op_kernel(r, op), &call, step != NULL, summary);
  told(r, op, step ? RAN_SUMMARY_BACKWARD : RAN_SUMMARY, (double)r->tokens);
  return status;
}

// A fold of no states tells it.
rec_status run_check_summary(const run *r, int op, const model_step *step, const void *summary,
                             bool *usable) {
  const train_kernel *k = op_kernel(r, op);
  call_memory memory;
  kernel_call call = bind_operation(r, op, step, &memory);
  int32_t out_of_range = 0;
  call.instance_count = 1;
  for (int i = 0; i < k->signature->variable_count; i++) {
    if (!rec_is_carried(&k->signature->variables[i])) continue;
    memory.value[i] = memory.gradient[i] = (kernel_memory){0};
    memory.final[i] = memory.d_final[i] = NULL;
  }
  rec_status status = k->fold(k, &call, step != NULL, summary, r->x->out_of_range);
  if (!status)
    status =
        r->x->c->ops->download(r->x->c, &out_of_range, r->x->out_of_range, sizeof out_of_range);
  *usable = !out_of_range;
  return status;
}

rec_status run_fold(const run *r, int op, const model_step *step, const void *summary,
                    run_block block) {
  const train_kernel *k = op_kernel(r, op);
  call_memory memory;
  kernel_call call = bind_operation(r, op, step, &memory);
  call.first_instance = block.first;
  call.instance_count = block.end - block.first;
  rec_status status = k->fold(k, &call, step != NULL, summary, NULL);
  int64_t of_sequence = r->x->cuts[r->x->model->ops[op].states[0]].instances;
  told(r, op, step ? RAN_FOLD_BACKWARD : RAN_FOLD,
       (double)call.instance_count / (double)of_sequence);
  return status;
}

// ---- runs ---------------------------------------------------------------------------------------

static staged_ends ends_of(const executor *x) {
  return (staged_ends){seams_first(&x->ends), seams_last(&x->ends)};
}

static int count_segments(const executor *x, int64_t time) {
  return (int)((time + x->form.segment - 1) / x->form.segment);
}

rec_status run_begin(run *r, const shard *here, shard *there) {
  executor *x = r->x;
  if (here->batch > x->form.batch || here->time > x->form.time ||
      (r->backward && !x->form.backward))
    return rec_fail(REC_ERROR_INTERNAL, "a run of %lld x %lld tokens in memory for %lld x %lld",
                    (long long)here->batch, (long long)here->time, (long long)x->form.batch,
                    (long long)x->form.time);
  r->s = there;
  seams_reach(&x->ends, count_segments(x, here->time));
  rec_status status = staging_enter(&x->staged, here, ends_of(x), there);
  r->count = count_segments(x, there->time);
  if (!status) seams_begin(&x->ends, here, there, r->count);
  return status;
}

rec_status run_end(const run *r, const shard *here, rec_status status) {
  executor *x = r->x;
  if (!status) status = staging_leave(&x->staged, here, ends_of(x), r->s);
  if (!status) seams_end(&x->ends);
  if (status && ranks_time_count(x->form.line) > 1) ranks_abort(x->form.line, "%s", rec_message());
  return status;
}

static rec_status forward(run *r, op_range ops) {
  rec_status status = REC_OK;
  for (int i = ops.first; !status && i < ops.end; i++) status = run_forward(r, i);
  return status;
}

static op_range all_of(const executor *x) { return (op_range){0, x->model->op_count}; }

static rec_status backward(run *r) {
  rec_status status = REC_OK;
  for (int k = 0; !status && k < r->count; k++) {
    run_enter(r, k);
    status = run_clear_gradients(r);
  }
  for (int i = 0; !status && i < r->x->model->step_count; i++) {
    status = run_backward(r, &r->x->model->steps[i]);
    if (i == r->x->ends.last_step) seams_take_joined(&r->x->ends);
  }
  return status;
}

static rec_status begin_and_run(run *r, const shard *here, shard *there) {
  rec_status status = run_begin(r, here, there);
  return status ? status : forward(r, all_of(r->x));
}

rec_status executor_logits(executor *x, const void *parameters, const shard *s, double *logits) {
  const train_model *m = x->model;
  const compute *c = x->c;
  shard there;
  run r = {.x = x, .parameters = parameters, .by_step = s->time == 1};
  rec_status status = begin_and_run(&r, s, &there);
  if (!status && r.count) run_enter(&r, r.count - 1);
  for (int64_t b = 0; !status && seams_last(&x->ends) && b < s->batch; b++) {
    rows all = run_rows(&r, m->logits);
    int64_t last = ((b + 1) * r.time - 1) * all.stride;
    status = c->ops->download(c, x->row, (char *)all.data + last * c->n->token_size,
                              m->vocabulary * c->n->token_size);
    for (int64_t i = 0; !status && i < m->vocabulary; i++)
      logits[b * m->vocabulary + i] = c->n->load_token(x->row, i);
  }
  return run_end(&r, s, status);
}

rec_status executor_hits(executor *x, const void *parameters, const shard *s, uint8_t *hits) {
  const compute *c = x->c;
  shard there;
  run r = {.x = x, .parameters = parameters};
  rec_status status = begin_and_run(&r, s, &there);
  uint8_t *found = staging_row(&x->staged, ROW_HITS, hits);
  for (int k = 0; !status && k < r.count; k++) {
    run_enter(&r, k);
    status =
        c->ops->hits(c, run_rows(&r, x->model->logits), there.targets + r.first, found + r.first);
  }
  if (!status) status = staging_take(&x->staged, ROW_HITS, s, &there, hits);
  return run_end(&r, s, status);
}

rec_status executor_forward(executor *x, const void *parameters, const shard *s) {
  shard there;
  run r = {.x = x, .parameters = parameters};
  rec_status status = begin_and_run(&r, s, &there);
  return run_end(&r, s, status);
}

void executor_values(executor *x, const void *parameters, const shard *s, int op,
                     kernel_memory value[MOST_VARIABLES]) {
  run r = {.x = x, .s = s, .parameters = parameters, .count = 1};
  call_memory memory = {0};
  run_enter(&r, 0);
  seams_begin(&x->ends, s, s, 1);
  bind_call(&r, op, &memory);
  memcpy(value, memory.value, sizeof memory.value);
}

rec_status run_loss(const run *r, double scale, double *loss, float *losses) {
  const executor *x = r->x;
  rows logits = run_rows(r, x->model->logits);
  float *found = staging_row(&x->staged, ROW_LOSSES, losses);
  return x->c->ops->cross_entropy(
      x->c, logits, r->s->targets + r->first, r->s->weights ? r->s->weights + r->first : NULL,
      scale, r->backward ? logits : (rows){0}, found ? found + r->first : NULL, x->row, loss);
}

// All but those that are cleared before their first sum.
rec_status run_clear_gradients(const run *r) {
  const train_model *m = r->x->model;
  int64_t first = 0;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < m->parameter_count; i++) {
    const model_parameter *p = &m->parameters[i];
    if (!p->begun_by_sum) continue;
    status = clear_gradient_range(r, first, p->place);
    first = p->place + p->elements;
  }
  return status ? status : clear_gradient_range(r, first, m->parameter_elements);
}

static int loss_op(const train_model *m) {
  int op = m->op_count - 1;
  while (op > 0 && m->ops[op].kind != OP_LOSS) op--;
  return op;
}

static rec_status all_losses(run *r, double scale, double *loss, float *losses) {
  rec_status status = REC_OK;
  for (int k = 0; !status && k < r->count; k++) {
    run_enter(r, k);
    status = run_loss(r, scale, &loss[k], losses);
    told(r, loss_op(r->x->model), RAN_FORWARD, (double)r->tokens);
  }
  return status ? status : staging_take(&r->x->staged, ROW_LOSSES, &r->x->here, r->s, losses);
}

static rec_status start_pass(executor *x, const void *parameters, const shard *s, bool backward) {
  x->under_way = (run){.x = x, .parameters = parameters, .backward = backward};
  x->here = *s;
  return run_begin(&x->under_way, &x->here, &x->there);
}

// Receives for the backward pass are posted here, so that cotangents may come while another
// executor runs.
static rec_status judge_losses(executor *x, double scale, double *loss, float *losses) {
  rec_status status = all_losses(&x->under_way, scale, loss, losses);
  if (!status && x->under_way.backward) seams_turn(&x->ends);
  return status;
}

rec_status executor_run_forward(executor *x, const void *parameters, const shard *s, double scale,
                                double *loss, const forward_part *part) {
  const op_range ops = part->operations;
  rec_status status = ops.first == 0 ? start_pass(x, parameters, s, true) : REC_OK;
  x->ends.takes = part->takes, x->ends.gives = part->gives;
  if (!status) status = forward(&x->under_way, ops);
  if (!status && ops.end == x->model->op_count) status = judge_losses(x, scale, loss, NULL);
  return status ? run_end(&x->under_way, &x->here, status) : REC_OK;
}

static rec_status finish_backward(executor *x, void *const *gradients) {
  x->under_way.gradients = gradients;
  return run_end(&x->under_way, &x->here, backward(&x->under_way));
}

rec_status executor_run_backward(executor *x, void *const *gradients, const backward_part *part) {
  for (int i = 0; i < JOINED_SHARDS; i++) {
    const joined_states *takes = &part->takes[i], *gives = &part->gives[i];
    if (takes->x) seams_join(&x->ends, &takes->x->ends, takes->operations, takes->batch, true);
    if (gives->x) seams_join(&x->ends, &gives->x->ends, gives->operations, gives->batch, false);
  }
  return finish_backward(x, gradients);
}

rec_status executor_run(executor *x, const void *parameters, const shard *s, void *const *gradients,
                        double *loss, float *losses) {
  rec_status status = start_pass(x, parameters, s, gradients != NULL);
  if (!status) status = forward(&x->under_way, all_of(x));
  if (!status) status = judge_losses(x, 1, loss, losses);
  return status || !gradients ? run_end(&x->under_way, &x->here, status)
                              : finish_backward(x, gradients);
}
