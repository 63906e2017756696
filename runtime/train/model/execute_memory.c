// The memory of an executor: a function of the sizes of its form alone.
#include "runtime/train/model/execute_parts.h"

#include <stdlib.h>

#include "runtime/train/model/blas.h"
#include "runtime/train/model/chain.h"
#include "runtime/train/model/leaves.h"

static int64_t padded(int64_t bytes) {
  return (bytes + REC_ALIGNMENT - 1) / REC_ALIGNMENT * REC_ALIGNMENT;
}

typedef struct executor_sizes {
  // activations, saved, summary: of a segment
  int64_t activations, workspace, scratch, saved, room, summary;
} executor_sizes;

static int64_t linear_room(const train_model *m, const model_op *op, const compute *c) {
  if (op->kind != OP_LINEAR) return 0;
  return c->ops->linear_room(c, m->tensors[op->in[0]].elements, m->tensors[op->row].elements);
}

int segments_before_place(const struct ranks *line, int all, int place) {
  int places = ranks_time_count(line);
  return (int)least_of(all, ceiling(all, places) * place);
}

int segments_of_place(const struct ranks *line, int all, int place) {
  return segments_before_place(line, all, place + 1) - segments_before_place(line, all, place);
}

// Which segments this place has, and which tokens. The last places may have none.
static void take_share(executor *x) {
  const executor_form *f = &x->form;
  int place = ranks_time(f->line), all = (int)ceiling(f->time, f->segment);
  x->segments = segments_of_place(f->line, all, place);
  x->from = segments_before_place(f->line, all, place) * f->segment;
  x->time = x->segments * f->segment;
  x->time = most_of(least_of(x->time, f->time - x->from), 0);
}

// An operation that goes by a chain.
static void take_summary(executor *x, const model_op *op, const kernel_sizes *of,
                         executor_sizes *sizes) {
  const train_model *m = x->model;
  if (!op->state_count || chain_why_not(m, op, of)) return;
  for (int back = 0; back < 2; back++)
    if (of->summary[back] > sizes->summary) sizes->summary = padded(of->summary[back]);
  for (int i = 0; i < op->state_count; i++)
    x->cuts[op->states[i]] = (seam_cut){of->instances / x->form.batch,
                                        chain_state_elements(m, op) * x->c->n->element_size};
}

static rec_status measure_sizes(executor *x, executor_sizes *sizes) {
  const train_model *m = x->model;
  const compute *c = x->c;
  const executor_form *form = &x->form;
  int64_t tokens, all, batch = form->batch, time = form->segment;
  *sizes = (executor_sizes){0};
  if (!rec_multiply(batch, time, &tokens) || !rec_multiply(m->row, tokens, &sizes->activations) ||
      !rec_multiply(sizes->activations, c->n->token_size, &sizes->activations) ||
      !rec_multiply(sizes->activations, x->segments, &all))
    return rec_no_memory();
  sizes->activations = padded(sizes->activations);
  if (form->backward) sizes->scratch = padded(m->largest_parameter * c->n->element_size);
  for (int i = 0; i < m->op_count; i++) {
    int64_t room = linear_room(m, &m->ops[i], c);
    if (room > sizes->room) sizes->room = padded(room);
    if (m->ops[i].kind != OP_CALL) continue;
    kernel_sizes of = {0};
    const train_kernel *k = &x->kernels[m->ops[i].kernel];
    rec_status status = k->sizes(k, batch, time, &of);
    if (status) return status;
    if (of.workspace > sizes->workspace) sizes->workspace = padded(of.workspace);
    if (form->chain) take_summary(x, &m->ops[i], &of, sizes);
    if (!form->backward) continue;
    sizes->saved += padded(of.saved);
    x->saved_bytes[i] = of.saved;
  }
  return REC_OK;
}

int64_t executor_bytes(const executor *x) { return x->bytes; }

// ---- what an operation needs for itself ---------------------------------------------------------

static void release_shared(executor *x) {
  const compute *c = x->c;
  c->ops->release(c, x->workspace);
  c->ops->release(c, x->scratch);
  c->ops->release(c, x->room);
  c->ops->release(c, x->summaries);
  c->ops->release(c, x->out_of_range);
}

static rec_status allocate_shared(executor *x, const executor_sizes *sizes) {
  const compute *c = x->c;
  rec_status status = c->ops->allocate(c, sizes->workspace, &x->workspace);
  if (!status) status = c->ops->allocate(c, sizes->scratch, &x->scratch);
  if (!status) status = c->ops->allocate(c, sizes->room, &x->room);
  if (!status) status = c->ops->allocate(c, sizes->summary * x->segments, (void **)&x->summaries);
  if (!status && sizes->summary)
    status = c->ops->allocate(c, REC_ALIGNMENT, (void **)&x->out_of_range);
  return status;
}

static void take_shared_memory(executor *x, const executor *of) {
  x->workspace = of->workspace;
  x->scratch = of->scratch;
  x->room = of->room;
  x->summaries = of->summaries;
  x->out_of_range = of->out_of_range;
}

// ---- the whole ----------------------------------------------------------------------------------

void executor_free(executor *x) {
  if (!x) return;
  const compute *c = x->c;
  c->ops->release(c, x->activations);
  for (int i = 0; x->saved && i < x->model->op_count * x->segments; i++)
    c->ops->release(c, x->saved[i]);
  free(x->saved);
  free(x->saved_bytes);
  if (!x->form.beside) release_shared(x);
  free(x->row);
  free(x->cuts);
  free(x->usable);
  staging_close(&x->staged);
  seams_close(&x->ends);
  free(x);
}

static rec_status allocate_activations(executor *x, const executor_sizes *sizes) {
  const compute *c = x->c;
  rec_status status =
      c->ops->allocate(c, sizes->activations * x->segments, (void **)&x->activations);
  if (x->form.beside)
    take_shared_memory(x, x->form.beside);
  else if (!status)
    status = allocate_shared(x, sizes);
  for (int i = 0; !status && i < x->model->op_count * x->segments; i++)
    status = c->ops->allocate(c, x->saved_bytes[i / x->segments], &x->saved[i]);
  if (!status) status = seams_open(c, x->model, &x->form, x->segments, x->cuts, &x->ends);
  return status ? status : staging_open(c, x->model, &x->form, x->from, x->time, &x->staged);
}

static executor_bytes_needed bytes_of_executor(const executor *x, const executor_sizes *sizes,
                                               const seam_place *place) {
  int64_t own = (sizes->activations + sizes->saved) * x->segments +
                seams_bytes(x->model, x->c, &x->form, place);
  int64_t shared = sizes->summary * x->segments + sizes->workspace + sizes->scratch + sizes->room;
  return (executor_bytes_needed){own + shared, own};
}

static rec_status measure_and_allocate(executor *x) {
  executor_sizes sizes;
  rec_status status = measure_sizes(x, &sizes);
  if (status) return status;
  x->activation_bytes = sizes.activations;
  x->summary_bytes = sizes.summary;
  x->workspace_bytes = sizes.workspace;
  const seam_place place = {ranks_time(x->form.line), ranks_time_count(x->form.line), x->segments};
  const executor_bytes_needed bytes = bytes_of_executor(x, &sizes, &place);
  x->bytes = x->form.beside ? bytes.beside : bytes.whole;
  return allocate_activations(x, &sizes);
}

static executor executor_of(const trained_model *of, const executor_form *form) {
  return (executor){.model = of->model, .kernels = of->kernels, .c = of->where, .form = *form};
}

rec_status executor_need(const trained_model *of, const executor_form *form, int place, int places,
                         executor_bytes_needed *bytes) {
  executor_sizes sizes;
  executor x = executor_of(of, form);
  x.segments = (int)(form->time / form->segment) / places;
  x.saved_bytes = calloc((size_t)of->model->op_count + 1, sizeof *x.saved_bytes);
  x.cuts = calloc((size_t)of->model->state_count + 1, sizeof *x.cuts);
  rec_status status = x.saved_bytes && x.cuts ? measure_sizes(&x, &sizes) : rec_no_memory();
  if (!status) *bytes = bytes_of_executor(&x, &sizes, &(seam_place){place, places, x.segments});
  free(x.saved_bytes);
  free(x.cuts);
  return status;
}

rec_status executor_new(const trained_model *of, const executor_form *form, executor **made) {
  const train_model *model = of->model;
  executor *x = calloc(1, sizeof *x);
  *made = NULL;
  if (!x) return rec_no_memory();
  *x = executor_of(of, form);
  if (!x->form.segment) x->form.segment = x->form.time;
  if (x->form.segment >= x->form.time) x->form.chain = false;
  take_share(x);
  x->saved = calloc((size_t)(model->op_count * x->segments) + 1, sizeof *x->saved);
  x->saved_bytes = calloc((size_t)model->op_count + 1, sizeof *x->saved_bytes);
  x->row = malloc((size_t)(model->vocabulary * x->c->n->element_size) + 1);
  x->cuts = calloc((size_t)model->state_count + 1, sizeof *x->cuts);
  x->usable = calloc((size_t)x->segments + 1, sizeof *x->usable);
  rec_status status =
      x->saved && x->saved_bytes && x->row && x->cuts && x->usable ? REC_OK : rec_no_memory();
  if (!status && compute_is_host(x->c)) status = blas_reserve(1);
  if (!status) status = measure_and_allocate(x);
  if (status)
    executor_free(x);
  else
    *made = x;
  return status;
}
