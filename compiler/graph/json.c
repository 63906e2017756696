// The manifest's "program": what librec executes. All numbers of elements are numbers of the
// library's dtype.
//
//   "kernels": ["LM.ssd", "LM.pointwise1"]                   names of the manifest's recurrences
//   "models": [{"name", "text", "vocabulary", "row": elements per token, "logits": tensor,
//     "parameters": [{"name", "kind", "shape", "eps" of a norm, "parts": [{"first", "count", "start"}]}],
//     "states": [{"name", "elements", "lag", "layer", "axes": [[name, size]], "begin" of those that do not start from zero:
//                 {"number": [re, im]} or {"use": [parameter, first], "strides": numbers of the parameter by axis}}],
//     "tensors": [[place of the buffer, its row, offset in the row, numbers, name]]
//     "ops": [{"op": "embed"|"linear"|"call"|"loss", "kernel", "in", "out", "row",
//              "use": [[parameter, first]], "states"}],
//     "backward": [{"of": op, "din", "dout", "add", "add_use"} | {"add": [to, from]} |
//                  {"zero": to}]}]
//   "layers": [..]                                           of --emit=torch: those of the file that run by themselves, like
//                                                            models without "backward". Beside their "inputs" and "outputs":
//                                                            [{"name", "tensor", "axes": [[name, size]], "complex"}]
//   "trains": [..], "evaluates": [..]
//
// Starts are trees of lists (start_json.c).
#include <cjson/cJSON.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/graph/build.h"

static cJSON *json_integer(int64_t x) { return cJSON_CreateNumber((double)x); }

static cJSON *add_member(cJSON *object, const char *key, cJSON *value) {
  cJSON_AddItemToObject(object, key, value);
  return value;
}

static void add_json_whole(cJSON *object, const char *key, int64_t x) {
  add_member(object, key, json_integer(x));
}

static cJSON *ints(const int *items, int count) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, json_integer(items[i]));
  return list;
}

// ---- models ----------------------------------------------------------------------------------

static cJSON *parameter_json(arena *memory, const graph_model *model, const graph_parameter *w) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", w->name);
  cJSON_AddStringToObject(object, "kind", parameter_kind_names[w->kind]);
  if (w->kind == PARAMETER_NORM) cJSON_AddNumberToObject(object, "eps", w->eps);
  cJSON *shape = add_member(object, "shape", cJSON_CreateArray()),
        *parts = add_member(object, "parts", cJSON_CreateArray());
  for (int i = 0; i < w->rank; i++) cJSON_AddItemToArray(shape, json_integer(w->shape[i]));
  vec_each(const graph_part, from, w->parts) {
    cJSON *part = cJSON_CreateObject();
    add_json_whole(part, "first", from->first);
    add_json_whole(part, "count", from->count);
    add_member(part, "default", part_start_json(memory, model, w, from, from->by_default));
    add_member(part, "start", part_start_json(memory, model, w, from, from->start));
    cJSON_AddItemToArray(parts, part);
  }
  return object;
}

// [[name, size]]
static cJSON *axes_json(const char *const *names, const int64_t *sizes, int count) {
  cJSON *axes = cJSON_CreateArray();
  for (int i = 0; i < count; i++) {
    cJSON *axis = cJSON_CreateArray();
    cJSON_AddItemToArray(axis, cJSON_CreateString(names[i]));
    cJSON_AddItemToArray(axis, json_integer(sizes[i]));
    cJSON_AddItemToArray(axes, axis);
  }
  return axes;
}

static cJSON *begin_json(const graph_state *s) {
  cJSON *object = cJSON_CreateObject();
  if (s->begin->use.parameter == NONE) {
    add_member(object, "number", cJSON_CreateDoubleArray(s->begin->number, 2));
    return object;
  }
  cJSON *use = add_member(object, "use", cJSON_CreateArray()),
        *strides = add_member(object, "strides", cJSON_CreateArray());
  cJSON_AddItemToArray(use, json_integer(s->begin->use.parameter));
  cJSON_AddItemToArray(use, json_integer(s->begin->use.first));
  for (int i = 0; i < s->axis_count; i++)
    cJSON_AddItemToArray(strides, json_integer(s->begin->strides[i]));
  return object;
}

static cJSON *state_json(const graph_state *s) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", s->name);
  add_json_whole(object, "elements", s->elements);
  cJSON_AddBoolToObject(object, "lag", s->lag);
  add_json_whole(object, "layer", s->repeat_index);
  add_json_whole(object, "learned", s->learned);
  if (s->begin) add_member(object, "begin", begin_json(s));
  cJSON_AddBoolToObject(object, "complex", s->complex);
  cJSON_AddBoolToObject(object, "counter", s->counter);
  // Element e belongs to head e / head_elements mod heads. Heads are all axes but the last two; the
  // depth of a tail stands before them.
  int64_t head_elements = s->complex ? 2 : 1;
  for (int i = s->axis_count < 2 ? 0 : s->axis_count - 2; i < s->axis_count; i++)
    head_elements *= s->sizes[i];
  add_json_whole(object, "head_elements", head_elements);
  add_member(object, "axes", axes_json(s->axes, s->sizes, s->axis_count));
  return object;
}

// [place of the buffer, numbers of its row, offset in the row, numbers, name]
static cJSON *tensor_json(const graph_model *model, const graph_tensor *t) {
  cJSON *list = cJSON_CreateArray();
  const graph_buffer *buffer = &model->buffers.items[t->buffer];
  int64_t numbers[] = {buffer->place, buffer->elements, t->offset, t->elements};
  for (int i = 0; i < 4; i++) cJSON_AddItemToArray(list, json_integer(numbers[i]));
  cJSON_AddItemToArray(list, cJSON_CreateString(t->name));
  return list;
}

static cJSON *op_json(const graph_op *op) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", model_op_names[op->kind]);
  add_json_whole(object, "kernel", op->kernel);
  add_member(object, "in", ints(op->inputs.items, op->inputs.count));
  add_member(object, "out", ints(op->outputs.items, op->outputs.count));
  add_json_whole(object, "row", op->row);
  cJSON *uses = add_member(object, "use", cJSON_CreateArray());
  for (int i = 0; i < op->uses.count; i++) {
    cJSON *use = ints(&op->uses.items[i].parameter, 1);
    cJSON_AddItemToArray(use, json_integer(op->uses.items[i].first));
    cJSON_AddItemToArray(uses, use);
  }
  add_member(object, "states", ints(op->states.items, op->states.count));
  return object;
}

static cJSON *step_object(const gradient_step *s) {
  cJSON *object = cJSON_CreateObject();
  if (s->kind == GRADIENT_ADD) add_member(object, "add", ints((int[]){s->to, s->from}, 2));
  if (s->kind == GRADIENT_ZERO) add_json_whole(object, "zero", s->to);
  if (s->kind != GRADIENT_OF) return object;
  add_json_whole(object, "of", s->op);
  add_member(object, "din", ints(s->d_inputs.items, s->d_inputs.count));
  add_member(object, "dout", ints(s->d_outputs.items, s->d_outputs.count));
  cJSON_AddBoolToObject(object, "add", s->add);
  add_member(object, "add_use", ints(s->add_use.items, s->add_use.count));
  return object;
}

static cJSON *port_json(const graph_port *port) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", port->name);
  add_json_whole(object, "tensor", port->tensor);
  add_member(object, "axes", axes_json(port->axes, port->sizes, port->axis_count));
  cJSON_AddBoolToObject(object, "complex", port->complex);
  return object;
}

static cJSON *model_json(arena *memory, const graph_model *model) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", model->name);
  cJSON_AddStringToObject(object, "text", model->text);
  add_json_whole(object, "vocabulary", model->vocabulary);
  add_json_whole(object, "row", model->row_elements);
  add_json_whole(object, "logits", model->logits);
  cJSON *parameters = add_member(object, "parameters", cJSON_CreateArray()),
        *states = add_member(object, "states", cJSON_CreateArray());
  cJSON *tensors = add_member(object, "tensors", cJSON_CreateArray()),
        *ops = add_member(object, "ops", cJSON_CreateArray());
  cJSON *backward = add_member(object, "backward", cJSON_CreateArray());
  for (int i = 0; i < model->parameters.count; i++)
    cJSON_AddItemToArray(parameters, parameter_json(memory, model, &model->parameters.items[i]));
  for (int i = 0; i < model->states.count; i++)
    cJSON_AddItemToArray(states, state_json(&model->states.items[i]));
  for (int i = 0; i < model->tensors.count; i++)
    cJSON_AddItemToArray(tensors, tensor_json(model, &model->tensors.items[i]));
  for (int i = 0; i < model->ops.count; i++)
    cJSON_AddItemToArray(ops, op_json(&model->ops.items[i]));
  for (int i = 0; i < model->gradient.count; i++)
    cJSON_AddItemToArray(backward, step_object(&model->gradient.items[i]));
  return object;
}

static cJSON *layer_json(arena *memory, const graph_model *layer) {
  cJSON *object = model_json(memory, layer),
        *inputs = add_member(object, "inputs", cJSON_CreateArray()),
        *outputs = add_member(object, "outputs", cJSON_CreateArray());
  for (int i = 0; i < layer->inputs.count; i++)
    cJSON_AddItemToArray(inputs, port_json(&layer->inputs.items[i]));
  for (int i = 0; i < layer->outputs.count; i++)
    cJSON_AddItemToArray(outputs, port_json(&layer->outputs.items[i]));
  return object;
}

// ---- the schedule table ----------------------------------------------------------------------

static cJSON *ramp_json(graph_ramp r) {
  return cJSON_CreateDoubleArray((double[]){r.from, r.to}, 2);
}

static cJSON *choice_json(const graph_choice *c) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "kind", intervention_names[c->kind]);
  cJSON_AddNumberToObject(object, "weight", c->weight.constant);
  cJSON *ramps = add_member(object, "ramps", cJSON_CreateArray());
  for (int i = 0; i < c->weight.ramps.count; i++)
    cJSON_AddItemToArray(ramps, ramp_json(c->weight.ramps.items[i]));
  add_member(object, "number", ramp_json(c->number));
  return object;
}

static cJSON *intervention_json(const graph_intervention *v) {
  cJSON *object = cJSON_CreateObject();
  add_json_whole(object, "from", v->from);
  add_json_whole(object, "to", v->to);
  add_json_whole(object, "first_layer", v->first_layer);
  add_json_whole(object, "last_layer", v->last_layer);
  cJSON *choices = add_member(object, "mix", cJSON_CreateArray());
  for (int i = 0; i < v->choices.count; i++)
    cJSON_AddItemToArray(choices, choice_json(&v->choices.items[i]));
  cJSON *per = v->per ? add_member(object, "per", cJSON_CreateArray()) : NULL;
  for (int i = 0; per && i < v->per->count; i++)
    cJSON_AddItemToArray(per, cJSON_CreateString(v->per->items[i].text));
  return object;
}

static void add_json_name(cJSON *object, const char *key, const char *name) {
  add_member(object, key, name ? cJSON_CreateString(name) : cJSON_CreateNull());
}

static cJSON *task_json(const graph_task *t) {
  if (!t->rules) return cJSON_CreateNull();
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "kind", t->rules->name);
  cJSON_AddStringToObject(object, "text", t->text);
  add_json_whole(object, "shortest", t->shortest);
  add_json_whole(object, "length", t->length);
  add_json_whole(object, "alphabet", t->alphabet);
  add_json_whole(object, "count", t->count);
  cJSON_AddBoolToObject(object, "all", t->all);
  return object;
}

static cJSON *source_json(const graph_source *s) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "tokens", source_names[s->tokens]);
  cJSON_AddStringToObject(object, "format", token_format_names[s->format]);
  if (s->bits) add_json_whole(object, "bits", s->bits);
  cJSON_AddNumberToObject(object, "split", s->split);
  cJSON_AddBoolToObject(object, "streaming", s->streaming);
  cJSON_AddBoolToObject(object, "apart", s->apart);
  add_json_whole(object, "separator", s->separator);
  return object;
}

static cJSON *train_json(const graph_train *t) {
  cJSON *object = cJSON_CreateObject();
  const struct {
    const char *name;
    double x;
  } numbers[] = {{"model", t->model},
                 {"context", (double)t->context},
                 {"batch", (double)t->batch},
                 {"steps", (double)t->steps},
                 {"seed", (double)t->seed},
                 {"lr", t->rate},
                 {"beta1", t->beta1},
                 {"beta2", t->beta2},
                 {"eps", t->epsilon},
                 {"weight_decay", t->weight_decay},
                 {"clip", t->clip},
                 {"accumulate", (double)t->accumulate},
                 {"warmup", (double)t->warmup},
                 {"decay", (double)t->decay},
                 {"floor", t->floor},
                 {"loss_from", (double)t->loss_from},
                 {"loss_rest", t->loss_rest}};
  cJSON_AddStringToObject(object, "name", t->name);
  add_json_name(object, "after", t->after);
  add_json_name(object, "init", t->init_text);
  add_json_name(object, "file", t->source.file);
  add_member(object, "source", source_json(&t->source));
  add_member(object, "task", task_json(&t->task));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    cJSON_AddNumberToObject(object, numbers[i].name, numbers[i].x);
  if (t->segments > 1) add_json_whole(object, "segments", t->segments);
  if (t->exchange != EXCHANGE_PIPELINE)
    cJSON_AddStringToObject(object, "exchange", exchange_names[t->exchange]);
  cJSON_AddStringToObject(object, "schedule", schedule_names[t->schedule]);
  const optimizer_rules *rules = &optimizer_rules_of[t->optimizer];
  if (t->optimizer != OPTIMIZER_ADAMW) cJSON_AddStringToObject(object, "optimizer", rules->name);
  if (rules->own) cJSON_AddNumberToObject(object, rules->own, t->optimizer_own);
  add_member(object, "no_decay", ints(t->no_decay.items, t->no_decay.count));
  cJSON *labels = add_member(object, "label_weights", cJSON_CreateArray());
  for (int i = 0; i < t->labels.count; i++)
    cJSON_AddItemToArray(
        labels, cJSON_CreateDoubleArray(
                    (double[]){(double)t->labels.items[i].label, t->labels.items[i].weight}, 2));
  cJSON *list = add_member(object, "initial_state", cJSON_CreateArray());
  for (int i = 0; i < t->interventions.count; i++)
    cJSON_AddItemToArray(list, intervention_json(&t->interventions.items[i]));
  return object;
}

static cJSON *evaluate_json(const graph_evaluate *e) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", e->name);
  cJSON_AddStringToObject(object, "after", e->after);
  add_json_whole(object, "perplexity", e->until);
  cJSON_AddNumberToObject(object, "tolerance", e->tolerance);
  add_json_whole(object, "state_norm", e->state_until);
  cJSON *lengths = add_member(object, "accuracy", cJSON_CreateArray());
  for (int i = 0; i < e->lengths.count; i++)
    cJSON_AddItemToArray(lengths, json_integer(e->lengths.items[i]));
  add_json_whole(object, "remembrance", e->remembrance);
  add_json_whole(object, "attention", e->attention);
  add_json_whole(object, "overflow", e->overflow);
  cJSON_AddBoolToObject(object, "learned", e->learned);
  cJSON_AddStringToObject(object, "distance", distance_names[e->distance]);
  return object;
}

char *graph_to_json(arena *memory, const graph_program *program) {
  cJSON *object = cJSON_CreateObject();
  cJSON *kernels = add_member(object, "kernels", cJSON_CreateArray()),
        *models = add_member(object, "models", cJSON_CreateArray());
  cJSON *trains = add_member(object, "trains", cJSON_CreateArray()),
        *evaluates = add_member(object, "evaluates", cJSON_CreateArray());
  for (int i = 0; i < program->kernels.count; i++)
    cJSON_AddItemToArray(kernels, cJSON_CreateString(program->kernels.items[i].name));
  for (int i = 0; i < program->models.count; i++)
    cJSON_AddItemToArray(models, model_json(memory, &program->models.items[i]));
  if (program->layers.count) {
    cJSON *layers = add_member(object, "layers", cJSON_CreateArray());
    for (int i = 0; i < program->layers.count; i++)
      cJSON_AddItemToArray(layers, layer_json(memory, &program->layers.items[i]));
  }
  for (int i = 0; i < program->trains.count; i++)
    cJSON_AddItemToArray(trains, train_json(&program->trains.items[i]));
  for (int i = 0; i < program->evaluates.count; i++)
    cJSON_AddItemToArray(evaluates, evaluate_json(&program->evaluates.items[i]));
  char *printed = cJSON_PrintUnformatted(object);
  cJSON_Delete(object);
  if (!printed) ICE("graph", "out of memory");
  char *text = arena_strdup(memory, printed);
  cJSON_free(printed);
  return text;
}
