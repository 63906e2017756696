// `--emit=graph`: what was built, for people and for tests.
#include <inttypes.h>
#include <string.h>

#include "compiler/graph/build.h"

typedef struct text {
  arena *memory;
  VEC(char) bytes;
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  for (const char *c = arena_vprintf(t->memory, format, arguments); *c; c++) vec_push(t->memory, &t->bytes, *c);
  va_end(arguments);
}

// A start as one expression; steps that are numbers stand where they are used.
static const char *start_text(arena *memory, const typed_start *start, int step) {
  const start_value *v = &start->values.items[step];
  const char *args[3] = {"", "", ""};
  int arity = v->kind == START_VALUE ? value_arity(v->op) : start_arity(v);
  for (int i = 0; i < arity; i++) args[i] = start_text(memory, start, v->args[i]);
  const char *list = arity == 1   ? args[0]
                     : arity == 2 ? arena_printf(memory, "%s, %s", args[0], args[1])
                                  : arena_printf(memory, "%s, %s, %s", args[0], args[1], args[2]);
  switch (v->kind) {
    case START_VALUE:
      if (v->op == VALUE_NUMBER) return arena_printf(memory, "%.6g", v->number);
      if (v->op == VALUE_WHOLE_POWER) return arena_printf(memory, "ipow(%s, %d)", args[0], v->exponent);
      return arena_printf(memory, "%s(%s)", value_op_text(v->op), list);
    case START_INDEX: return arena_printf(memory, "index(%d)", v->axis);
    case START_UNIFORM: return arena_printf(memory, "uniform(%s)", list);
    case START_LOGUNIFORM: return arena_printf(memory, "loguniform(%s)", list);
    case START_NORMAL: return arena_printf(memory, "normal(%s)", list);
    case START_INV_SOFTPLUS: return arena_printf(memory, "inv_softplus(%s)", list);
    case START_IDENTITY: return "identity";
    case START_LAYER: return "index(layers)";
    case START_LAYERS: return "layers";
    case START_LEGS_IMAG: return arena_printf(memory, "legs_imag(%d, %s)", v->axis, list);
    case START_LEGS_INPUT: return arena_printf(memory, "legs_input(%d, %s)", v->axis, list);
    case START_OTHER_DRAW: return v->path;
  }
  return "";
}

static void put_parameters(text *t, const graph_model *model) {
  int64_t total = 0;
  for (int i = 0; i < model->parameters.count; i++) total += model->parameters.items[i].elements;
  put(t, "  parameters %" PRId64 "\n", total);
  for (int i = 0; i < model->parameters.count; i++) {
    const graph_parameter *p = &model->parameters.items[i];
    put(t, "    %s [", p->name);
    for (int k = 0; k < p->rank; k++) put(t, "%s%" PRId64, k ? "," : "", p->shape[k]);
    put(t, "]");
    for (int k = 0; k < p->parts.count; k++) {
      const graph_part *part = &p->parts.items[k];
      put(t, "%s%s%s ~ %s", k ? ", " : " ", part->name ? part->name : "", part->name ? "" : "",
          part->start ? start_text(t->memory, part->start, part->start->values.count - 1) : "given");
    }
    put(t, "\n");
  }
}

static void put_tensor(text *t, const graph_model *model, int tensor) {
  if (tensor == NONE) {
    put(t, " -");
    return;
  }
  const graph_tensor *x = &model->tensors.items[tensor];
  put(t, " %%%d.%s", tensor, x->name);
}

static void put_tensors(text *t, const graph_model *model, const int *tensors, int count) {
  for (int i = 0; i < count; i++) put_tensor(t, model, tensors[i]);
}

static void put_op(text *t, const graph_program *program, const graph_model *model, const graph_op *op) {
  put(t, "%s", model_op_names[op->kind]);
  if (op->kind == OP_CALL) put(t, " %s", program->kernels.items[op->kernel].name);
  put_tensors(t, model, op->inputs.items, op->inputs.count);
  for (int i = 0; i < op->uses.count; i++) {
    put(t, " %s", model->parameters.items[op->uses.items[i].parameter].name);
    if (op->uses.items[i].first) put(t, "+%" PRId64, op->uses.items[i].first);
  }
  if (op->outputs.count) put(t, " ->");
  put_tensors(t, model, op->outputs.items, op->outputs.count);
  if (op->states.count) put(t, " carries");
  for (int i = 0; i < op->states.count; i++) put(t, " %s", model->states.items[op->states.items[i]].name);
  put(t, "\n");
}

static void put_backward(text *t, const graph_program *program, const graph_model *model) {
  put(t, "  backward\n");
  for (int i = 0; i < model->gradient.count; i++) {
    const gradient_step *s = &model->gradient.items[i];
    put(t, "    ");
    if (s->kind == GRADIENT_ADD) put(t, "add"), put_tensor(t, model, s->from), put(t, " to"), put_tensor(t, model, s->to);
    if (s->kind == GRADIENT_ZERO) put(t, "zero"), put_tensor(t, model, s->to);
    if (s->kind == GRADIENT_OF) {
      const graph_op *op = &model->ops.items[s->op];
      put(t, "of %s",
          op->kind == OP_EMBED    ? "embed"
          : op->kind == OP_LINEAR ? "linear"
                                  : program->kernels.items[op->kernel].name);
      put_tensors(t, model, s->d_outputs.items, s->d_outputs.count);
      if (s->d_inputs.count) put(t, s->add ? " -> +" : " ->");
      put_tensors(t, model, s->d_inputs.items, s->d_inputs.count);
    }
    put(t, "\n");
  }
}

static void put_model(text *t, const graph_program *program, const graph_model *model) {
  put(t, "model %s vocabulary %d\n", model->text, model->vocabulary);
  put_parameters(t, model);
  for (int i = 0; i < model->states.count; i++)
    put(t, "  state %s %" PRId64 "\n", model->states.items[i].name, model->states.items[i].elements);
  put(t, "  forward\n");
  for (int i = 0; i < model->ops.count; i++) put(t, "    "), put_op(t, program, model, &model->ops.items[i]);
  put_backward(t, program, model);
  put(t, "  memory %" PRId64 " numbers a token\n", model->row_elements);
  for (int i = 0; i < model->tensors.count; i++) {
    const graph_tensor *x = &model->tensors.items[i];
    const graph_buffer *buffer = &model->buffers.items[x->buffer];
    put(t, "    %%%d.%s at %" PRId64 "+%" PRId64 " numbers %" PRId64 " of %" PRId64 "\n", i, x->name, buffer->place, x->offset,
        x->elements, buffer->elements);
  }
}

static void put_ramp(text *t, graph_ramp r) {
  put(t, "%g", r.from);
  if (r.to != r.from) put(t, "->%g", r.to);
}

// What a block has beyond the usual.
static void put_recipe(text *t, const graph_model *model, const graph_train *train) {
  for (int i = 0; i < train->no_decay.count; i++)
    put(t, "%s %s", i ? "," : "  no decay of", model->parameters.items[train->no_decay.items[i]].name);
  if (train->no_decay.count) put(t, "\n");
  if (train->accumulate > 1) put(t, "  accumulates %" PRId64 " parts\n", train->accumulate);
  if (train->loss_from) put(t, "  loss from token %" PRId64 "\n", train->loss_from);
  if (train->loss_rest != 1) put(t, "  loss of other tokens than answers %g\n", train->loss_rest);
  for (int i = 0; i < train->labels.count; i++)
    put(t, "%s %" PRId64 ": %g", i ? "," : "  loss of labels", train->labels.items[i].label, train->labels.items[i].weight);
  if (train->labels.count) put(t, "\n");
}

static void put_source(text *t, const graph_source *s) {
  put(t, "\n  text \"%s\" %s split %g", s->file, source_names[s->tokens], s->split);
  if (s->format) put(t, " format %s", token_format_names[s->format]);
  if (s->streaming) put(t, " streaming");
  if (s->apart) put(t, " documents apart");
  if (s->separator >= 0) put(t, " separator %" PRId64, s->separator);
}

static void put_train(text *t, const graph_program *program, const graph_train *train) {
  put(t, "train %s%s%s: %s", train->name, train->after ? " after " : "", train->after ? train->after : "",
      program->models.items[train->model].text);
  if (train->init_text) put(t, " init %s", train->init_text);
  if (train->task.rules)
    put(t, "\n  %s", train->task.text);
  else
    put_source(t, &train->source);
  put(t, ", context %" PRId64 " batch %" PRId64 " steps %" PRId64 " seed %" PRId64 "\n", train->context, train->batch,
      train->steps, train->seed);
  const optimizer_rules *rules = &optimizer_rules_of[train->optimizer];
  put(t, "  %s", rules->name);
  if (rules->own) put(t, " %s %g", rules->own, train->optimizer_own);
  put(t, " lr %g betas %g %g eps %g weight_decay %g clip %g, %s warmup %" PRId64, train->rate, train->beta1, train->beta2,
      train->epsilon, train->weight_decay, train->clip, schedule_names[train->schedule], train->warmup);
  if (train->schedule == SCHEDULE_STABLE) put(t, " decay %" PRId64, train->decay);
  put(t, " floor %g\n", train->floor);
  put_recipe(t, &program->models.items[train->model], train);
  for (int i = 0; i < train->interventions.count; i++) {
    const graph_intervention *v = &train->interventions.items[i];
    put(t, "  steps %" PRId64 "..%" PRId64, v->from, v->to);
    if (v->last_layer != INT32_MAX) put(t, " layers %d..%d", v->first_layer, v->last_layer);
    for (int k = 0; k < v->choices.count; k++) {
      const graph_choice *c = &v->choices.items[k];
      put(t, "%s %g", k ? "," : ":", c->weight.constant);
      for (int n = 0; n < c->weight.ramps.count; n++) put(t, " "), put_ramp(t, c->weight.ramps.items[n]);
      put(t, " %s", intervention_names[c->kind]);
      if (intervention_noise[c->kind]) put(t, "("), put_ramp(t, c->number), put(t, ")");
    }
    if (v->per) put(t, " per [");
    for (int k = 0; v->per && k < v->per->count; k++) put(t, "%s%s", k ? "," : "", v->per->items[k].text);
    if (v->per) put(t, "]");
    put(t, "\n");
  }
}

static void put_evaluate(text *t, const graph_evaluate *e) {
  put(t, "evaluate %s after %s:", e->name, e->after);
  if (e->until) put(t, " perplexity until %" PRId64, e->until);
  if (e->until && e->tolerance != 0.05) put(t, " tolerance %g", e->tolerance);
  if (e->state_until) put(t, "%s state_norm until %" PRId64, e->until ? "," : "", e->state_until);
  for (int i = 0; i < e->lengths.count; i++) put(t, "%s %" PRId64, i ? "," : " accuracy at lengths", e->lengths.items[i]);
  if (e->remembrance)
    put(t, "%s remembrance at %" PRId64 " by %s", e->until || e->state_until ? "," : "", e->remembrance,
        distance_names[e->distance]);
  if (e->attention) put(t, " attention of %" PRId64, e->attention);
  if (e->overflow) put(t, " overflow of %" PRId64, e->overflow);
  if (e->learned) put(t, " from learned states");
  put(t, "\n");
}

char *graph_print(arena *memory, const graph_program *program) {
  text t = {.memory = memory};
  for (int i = 0; i < program->kernels.count; i++) put(&t, "%s", typed_print_body(memory, program->kernels.items[i].body));
  for (int i = 0; i < program->models.count; i++) put_model(&t, program, &program->models.items[i]);
  for (int i = 0; i < program->trains.count; i++) put_train(&t, program, &program->trains.items[i]);
  for (int i = 0; i < program->evaluates.count; i++) put_evaluate(&t, &program->evaluates.items[i]);
  vec_push(memory, &t.bytes, '\0');
  return t.bytes.items;
}
