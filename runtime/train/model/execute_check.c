// Do the kernels of a library, which may be damaged, fit the model? Are its weights finite?
#include <math.h>

#include "runtime/train/model/execute.h"

static rec_status misfit_kernel(const train_kernel *k) {
  return rec_fail(
      REC_ERROR_FORMAT,
      "expected a library made by recc, found one whose model calls '%s' with other tensors",
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

static rec_status check_op_call(const train_model *m, const model_op *op, const train_kernel *k) {
  const rec_signature *s = k->signature;
  int in = 0, out = 0, use = 0, state = 0;
  if (s->variable_count > MOST_VARIABLES) return misfit_kernel(k);
  for (int i = 0; i < s->variable_count; i++) {
    int64_t numbers = kernel_numbers(s, i), found = -1;
    switch (s->variables[i].kind) {
      case REC_INPUT: found = in < op->in_count ? m->tensors[op->in[in]].elements : -1, in++; break;
      case REC_OUTPUT:
        found = out < op->out_count ? m->tensors[op->out[out]].elements : -1, out++;
        break;
      case REC_PARAM:
        if (use < op->use_count &&
            op->uses[use].first + numbers <= m->parameters[op->uses[use].parameter].elements)
          found = numbers;
        use++;
        break;
      case REC_STATE:
      case REC_LAG:
        found = state < op->state_count ? m->states[op->states[state]].elements : -1, state++;
        break;
    }
    if (numbers < 0 || found != numbers) return misfit_kernel(k);
  }
  return in == op->in_count && out == op->out_count && use == op->use_count &&
                 state == op->state_count
             ? REC_OK
             : misfit_kernel(k);
}

static bool linear_fits(const train_model *m, const model_op *op) {
  const model_parameter *w = &m->parameters[op->uses[0].parameter];
  return w->rank == 2 && w->shape[0] == m->tensors[op->row].elements &&
         w->shape[1] == m->tensors[op->in[0]].elements &&
         (op->use_count < 2 || m->parameters[op->uses[1].parameter].elements == w->shape[0]);
}

static bool embed_fits(const train_model *m, const model_op *op) {
  const model_parameter *w = &m->parameters[op->uses[0].parameter];
  return w->rank == 2 && w->shape[0] == m->vocabulary &&
         w->shape[1] == m->tensors[op->out[0]].elements;
}

rec_status execute_check(const train_model *m, const train_kernel *kernels) {
  for (int i = 0; i < m->op_count; i++) {
    const model_op *op = &m->ops[i];
    rec_status status = op->kind == OP_CALL ? check_op_call(m, op, &kernels[op->kernel]) : REC_OK;
    bool fits = op->kind == OP_LINEAR  ? linear_fits(m, op)
                : op->kind == OP_EMBED ? embed_fits(m, op)
                                       : true;
    if (!fits)
      status = rec_fail(
          REC_ERROR_FORMAT,
          "expected a library made by recc, found one whose model '%s' does not fit together",
          m->name);
    if (status) return status;
  }
  if (m->tensors[m->logits].elements == m->vocabulary) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "expected logits for %lld symbols, found %lld",
                  (long long)m->vocabulary, (long long)m->tensors[m->logits].elements);
}

const char *trained_bad_weight(const trained_model *of, const void *weights) {
  const train_model *m = of->model;
  for (int i = 0; i < m->parameter_count; i++) {
    const model_parameter *p = &m->parameters[i];
    const char *numbers = (const char *)weights + p->place * of->n->element_size;
    if (!isfinite(of->n->square_sum(numbers, p->elements))) return p->name;
  }
  return NULL;
}
