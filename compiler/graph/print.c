// `--emit=graph`: what was built, for people and for tests.
#include <inttypes.h>

#include "compiler/base/text.h"
#include "compiler/graph/build.h"

// A start as one expression; steps that are numbers stand where they are used.
static const char *graph_start_text(arena *memory, const typed_start *start, int step) {
  const start_value *v = &start->values.items[step];
  const char *args[3] = {"", "", ""};
  int arity = start_arity(v);
  for (int i = 0; i < arity; i++) args[i] = graph_start_text(memory, start, v->args[i]);
  const char *list = arity == 1   ? args[0]
                     : arity == 2 ? arena_printf(memory, "%s, %s", args[0], args[1])
                                  : arena_printf(memory, "%s, %s, %s", args[0], args[1], args[2]);
  switch (v->kind) {
    case START_VALUE:
      if (v->op == VALUE_NUMBER) return arena_printf(memory, "%.6g", v->number);
      if (v->op == VALUE_WHOLE_POWER)
        return arena_printf(memory, "ipow(%s, %d)", args[0], v->exponent);
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

static void put_graph_parameters(FILE *out, arena *memory, const graph_model *model) {
  int64_t total = 0;
  for (int i = 0; i < model->parameters.count; i++) total += model->parameters.items[i].elements;
  fprintf(out, "  parameters %" PRId64 "\n", total);
  vec_each(const graph_parameter, p, model->parameters) {
    fprintf(out, "    %s [", p->name);
    for (int k = 0; k < p->rank; k++) fprintf(out, "%s%" PRId64, k ? "," : "", p->shape[k]);
    fprintf(out, "]");
    for (int k = 0; k < p->parts.count; k++) {
      const graph_part *part = &p->parts.items[k];
      fprintf(out, "%s%s ~ %s", k ? ", " : " ", part->name ? part->name : "",
              part->start ? graph_start_text(memory, part->start, part->start->values.count - 1)
                          : "given");
    }
    fprintf(out, "\n");
  }
}

static void put_graph_tensor(FILE *out, const graph_model *model, int tensor) {
  if (tensor == NONE) {
    fprintf(out, " -");
    return;
  }
  const graph_tensor *x = &model->tensors.items[tensor];
  fprintf(out, " %%%d.%s", tensor, x->name);
}

static void put_tensors(FILE *out, const graph_model *model, const int *tensors, int count) {
  for (int i = 0; i < count; i++) put_graph_tensor(out, model, tensors[i]);
}

static void put_op(FILE *out, const graph_program *program, const graph_model *model,
                   const graph_op *op) {
  fprintf(out, "%s", model_op_names[op->kind]);
  if (op->kind == OP_CALL) fprintf(out, " %s", program->kernels.items[op->kernel].name);
  put_tensors(out, model, op->inputs.items, op->inputs.count);
  for (int i = 0; i < op->uses.count; i++) {
    fprintf(out, " %s", model->parameters.items[op->uses.items[i].parameter].name);
    if (op->uses.items[i].first) fprintf(out, "+%" PRId64, op->uses.items[i].first);
  }
  if (op->outputs.count) fprintf(out, " ->");
  put_tensors(out, model, op->outputs.items, op->outputs.count);
  if (op->states.count) fprintf(out, " carries");
  for (int i = 0; i < op->states.count; i++)
    fprintf(out, " %s", model->states.items[op->states.items[i]].name);
  fprintf(out, "\n");
}

static void put_graph_backward(FILE *out, const graph_program *program, const graph_model *model) {
  fprintf(out, "  backward\n");
  vec_each(const gradient_step, s, model->gradient) {
    fprintf(out, "    ");
    if (s->kind == GRADIENT_ADD)
      fprintf(out, "add"), put_graph_tensor(out, model, s->from), fprintf(out, " to"),
          put_graph_tensor(out, model, s->to);
    if (s->kind == GRADIENT_ZERO) fprintf(out, "zero"), put_graph_tensor(out, model, s->to);
    if (s->kind == GRADIENT_OF) {
      const graph_op *op = &model->ops.items[s->op];
      fprintf(out, "of %s",
              op->kind == OP_EMBED    ? "embed"
              : op->kind == OP_LINEAR ? "linear"
                                      : program->kernels.items[op->kernel].name);
      put_tensors(out, model, s->d_outputs.items, s->d_outputs.count);
      if (s->d_inputs.count) fprintf(out, s->add ? " -> +" : " ->");
      put_tensors(out, model, s->d_inputs.items, s->d_inputs.count);
    }
    fprintf(out, "\n");
  }
}

static void put_graph_model(FILE *out, arena *memory, const graph_program *program,
                            const graph_model *model) {
  fprintf(out, "model %s vocabulary %d\n", model->text, model->vocabulary);
  put_graph_parameters(out, memory, model);
  for (int i = 0; i < model->states.count; i++)
    fprintf(out, "  state %s %" PRId64 "\n", model->states.items[i].name,
            model->states.items[i].elements);
  fprintf(out, "  forward\n");
  for (int i = 0; i < model->ops.count; i++)
    fprintf(out, "    "), put_op(out, program, model, &model->ops.items[i]);
  put_graph_backward(out, program, model);
  fprintf(out, "  memory %" PRId64 " numbers a token\n", model->row_elements);
  for (int i = 0; i < model->tensors.count; i++) {
    const graph_tensor *x = &model->tensors.items[i];
    const graph_buffer *buffer = &model->buffers.items[x->buffer];
    fprintf(out, "    %%%d.%s at %" PRId64 "+%" PRId64 " numbers %" PRId64 " of %" PRId64 "\n", i,
            x->name, buffer->place, x->offset, x->elements, buffer->elements);
  }
}

static void put_ramp(FILE *out, graph_ramp r) {
  fprintf(out, "%g", r.from);
  if (r.to != r.from) fprintf(out, "->%g", r.to);
}

// What a block has beyond the usual.
static void put_recipe(FILE *out, const graph_model *model, const graph_train *train) {
  for (int i = 0; i < train->no_decay.count; i++)
    fprintf(out, "%s %s", i ? "," : "  no decay of",
            model->parameters.items[train->no_decay.items[i]].name);
  if (train->no_decay.count) fprintf(out, "\n");
  if (train->accumulate > 1) fprintf(out, "  accumulates %" PRId64 " parts\n", train->accumulate);
  if (train->segments > 1) {
    fprintf(out, "  context in %" PRId64 " segments", train->segments);
    if (train->exchange != EXCHANGE_PIPELINE)
      fprintf(out, " by %s", exchange_names[train->exchange]);
    fprintf(out, "\n");
  }
  if (train->loss_from) fprintf(out, "  loss from token %" PRId64 "\n", train->loss_from);
  if (train->loss_rest != 1)
    fprintf(out, "  loss of other tokens than answers %g\n", train->loss_rest);
  for (int i = 0; i < train->labels.count; i++)
    fprintf(out, "%s %" PRId64 ": %g", i ? "," : "  loss of labels", train->labels.items[i].label,
            train->labels.items[i].weight);
  if (train->labels.count) fprintf(out, "\n");
}

static void put_source(FILE *out, const graph_source *s) {
  fprintf(out, "\n  text \"%s\" %s split %g", s->file, source_names[s->tokens], s->split);
  if (s->format) fprintf(out, " format %s", token_format_names[s->format]);
  if (s->bits) fprintf(out, " bits %d", s->bits);
  if (s->streaming) fprintf(out, " streaming");
  if (s->apart) fprintf(out, " documents apart");
  if (s->separator >= 0) fprintf(out, " separator %" PRId64, s->separator);
}

static void put_train(FILE *out, const graph_program *program, const graph_train *train) {
  fprintf(out, "train %s%s%s: %s", train->name, train->after ? " after " : "",
          train->after ? train->after : "", program->models.items[train->model].text);
  if (train->init_text) fprintf(out, " init %s", train->init_text);
  if (train->task.rules)
    fprintf(out, "\n  %s", train->task.text);
  else
    put_source(out, &train->source);
  fprintf(out, ", context %" PRId64 " batch %" PRId64 " steps %" PRId64 " seed %" PRId64 "\n",
          train->context, train->batch, train->steps, train->seed);
  const optimizer_rules *rules = &optimizer_rules_of[train->optimizer];
  fprintf(out, "  %s", rules->name);
  if (rules->own) fprintf(out, " %s %g", rules->own, train->optimizer_own);
  fprintf(out, " lr %g betas %g %g eps %g weight_decay %g clip %g, %s warmup %" PRId64, train->rate,
          train->beta1, train->beta2, train->epsilon, train->weight_decay, train->clip,
          schedule_names[train->schedule], train->warmup);
  if (train->schedule == SCHEDULE_STABLE) fprintf(out, " decay %" PRId64, train->decay);
  fprintf(out, " floor %g\n", train->floor);
  put_recipe(out, &program->models.items[train->model], train);
  vec_each(const graph_intervention, v, train->interventions) {
    fprintf(out, "  steps %" PRId64 "..%" PRId64, v->from, v->to);
    if (v->last_layer != INT32_MAX) fprintf(out, " layers %d..%d", v->first_layer, v->last_layer);
    for (int k = 0; k < v->choices.count; k++) {
      const graph_choice *c = &v->choices.items[k];
      fprintf(out, "%s %g", k ? "," : ":", c->weight.constant);
      for (int n = 0; n < c->weight.ramps.count; n++)
        fprintf(out, " "), put_ramp(out, c->weight.ramps.items[n]);
      fprintf(out, " %s", intervention_names[c->kind]);
      if (intervention_noise[c->kind])
        fprintf(out, "("), put_ramp(out, c->number), fprintf(out, ")");
    }
    if (v->per) fprintf(out, " per [");
    for (int k = 0; v->per && k < v->per->count; k++)
      fprintf(out, "%s%s", k ? "," : "", v->per->items[k].text);
    if (v->per) fprintf(out, "]");
    fprintf(out, "\n");
  }
}

static void put_evaluate(FILE *out, const graph_evaluate *e) {
  fprintf(out, "evaluate %s after %s:", e->name, e->after);
  if (e->until) fprintf(out, " perplexity until %" PRId64, e->until);
  if (e->until && e->tolerance != 0.05) fprintf(out, " tolerance %g", e->tolerance);
  if (e->state_until)
    fprintf(out, "%s state_norm until %" PRId64, e->until ? "," : "", e->state_until);
  for (int i = 0; i < e->lengths.count; i++)
    fprintf(out, "%s %" PRId64, i ? "," : " accuracy at lengths", e->lengths.items[i]);
  if (e->remembrance)
    fprintf(out, "%s remembrance at %" PRId64 " by %s", e->until || e->state_until ? "," : "",
            e->remembrance, distance_names[e->distance]);
  if (e->attention) fprintf(out, " attention of %" PRId64, e->attention);
  if (e->overflow) fprintf(out, " overflow of %" PRId64, e->overflow);
  if (e->learned) fprintf(out, " from learned states");
  fprintf(out, "\n");
}

char *graph_print(arena *memory, const graph_program *program) {
  text_stream text;
  FILE *out = text_begin(&text);
  for (int i = 0; i < program->kernels.count; i++)
    fprintf(out, "%s", typed_print_body(memory, program->kernels.items[i].body));
  for (int i = 0; i < program->models.count; i++)
    put_graph_model(out, memory, program, &program->models.items[i]);
  for (int i = 0; i < program->trains.count; i++)
    put_train(out, program, &program->trains.items[i]);
  for (int i = 0; i < program->evaluates.count; i++)
    put_evaluate(out, &program->evaluates.items[i]);
  return text_end(&text, memory);
}
