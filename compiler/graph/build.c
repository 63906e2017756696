// Entry of the graph: the models that train blocks ask for, those that none asks for, and layers
// that no model calls.
#include "compiler/graph/build.h"

#include <string.h>

#include "compiler/syntax/syntax.h"

static void open_model(graph_builder *b, graph_model *model, const typed_name *item) {
  b->model = model;
  b->trunk = ARENA_NEW(b->arena, typed_body);
  b->trunk->name = item->name;
  b->trunk->span = item->item->span;
  b->tensors.count = b->lags.count = b->ops.count = 0;
  b->tensors.items = NULL, b->lags.items = NULL, b->ops.items = NULL;
  b->tensors.capacity = b->lags.capacity = b->ops.capacity = 0;
  b->embedding = NONE;
}

// Sizes that `LM(depth = 2, D = 64)` gives.
static bool call_bindings(graph_builder *b, const typed_name *item, const ast_expr *call,
                          size_binding *bindings, int *count) {
  sema_scope *scope =
      sema_scope_new(b->program->sema, b->program->main, ARENA_NEW(b->arena, typed_body));
  for (int i = 0; call && call->kind == AST_CALL && i < call->call.args.count; i++) {
    const ast_arg *arg = &call->call.args.items[i];
    bool known = false;
    for (int k = 0; arg->kind == AST_ARG_NAMED && k < item->item->body.header.count; k++)
      known |= item->item->body.header.items[k].name.text == arg->name.text;
    if (!known)
      return diag_error(b->diag, arg->span,
                        "expected a name of the header of %s (%s) with its size, found %s",
                        item->name, header_text(b->arena, &item->item->body.header),
                        arg->kind == AST_ARG_NAMED ? arena_printf(b->arena, "'%s'", arg->name.text)
                                                   : "another argument");
    for (int k = 0; k < *count; k++)
      if (bindings[k].axis == arg->name.text)
        return diag_error(b->diag, arg->span, "expected each size once, found %s twice",
                          arg->name.text);
    bindings[*count].axis = arg->name.text;
    if (!sema_whole(scope, arg->value, "a size", 1, &bindings[(*count)++].size)) return false;
  }
  return true;
}

static const char *model_text(graph_builder *b, const instance *in) {
  const char *text = arena_printf(b->arena, "%s(", in->item->name);
  for (int i = 0; i < in->item->item->body.header.count; i++)
    text = arena_printf(b->arena, "%s%s%s = %lld", text, i ? ", " : "",
                        in->body->axes.items[i].name, (long long)in->body->axes.items[i].size);
  return arena_printf(b->arena, "%s)", text);
}

static bool model_logits(graph_builder *b, instance *in, trunk_row *logits) {
  const typed_tensor *t = &in->output_tensors.items[0];
  if (in->outputs.count != 1 || b->embedding == NONE)
    return diag_error(b->diag, in->item->item->name.span,
                      "expected a model with one embed and one output, found %d output%s and %s",
                      in->outputs.count, in->outputs.count == 1 ? "" : "s",
                      b->embedding == NONE ? "no embed" : "an embed");
  axis_order order = order_of_tensor(t);
  if (order_elements(in->body, order) != b->model->vocabulary)
    return diag_error(b->diag, t->span,
                      "expected an output of %d numbers, one for each symbol of embed, found %s",
                      b->model->vocabulary, order_text(b->arena, in->body, order));
  *logits = (trunk_row){trunk_lift(in, in->outputs.items[0]), trunk_order(in, order), false};
  const typed_value *v = &b->trunk->values.items[logits->value];
  bool made = v->op == VALUE_INPUT && b->ops.items[b->tensors.items[v->index].op].kind == OP_LINEAR;
  if (!made)
    diag_error(b->diag, t->span,
               "expected unembed(..) or linear(..) as the right side of the model's output, found "
               "another expression");
  return made;
}

static void add_loss(graph_builder *b) {
  graph_op loss = {.kind = OP_LOSS, .row = NONE, .kernel = NONE};
  vec_push(b->arena, &loss.inputs, b->model->logits);
  vec_push(b->arena, &b->model->ops, loss);
}

// Numbers that no machine holds would overflow in the plan that librec makes of them.
static bool fits_memory(graph_builder *b, const graph_model *model) {
  const int64_t most = (int64_t)1 << 40;
  int64_t weights = 0, carried = 0;
  for (int i = 0; i < model->parameters.count && weights <= most; i++)
    weights += model->parameters.items[i].elements;
  for (int i = 0; i < model->states.count && carried <= most; i++)
    carried += model->states.items[i].elements;
  if (weights <= most && carried <= most && model->row_elements <= most) return true;
  return diag_error(b->diag, model->span, "expected a model of at most 2^40 numbers, found more");
}

int model_build(graph_builder *b, const typed_name *item, const ast_expr *call, span where) {
  graph_model model = {.name = item->name, .span = where, .logits = NONE};
  size_binding *bindings = ARENA_ARRAY(
      b->arena, size_binding, call && call->kind == AST_CALL ? call->call.args.count + 1 : 1);
  int count = 0, errors = diag_error_count(b->diag);
  trunk_row logits;
  if (!call_bindings(b, item, call, bindings, &count)) return NONE;
  open_model(b, &model, item);
  instance *in = layer_instance(b, NULL, item, bindings, count, NULL, 0, NULL, where);
  if (!in || !model_logits(b, in, &logits)) return NONE;
  model.text = model_text(b, in);
  if (!gather_operations(b, &logits, 1, &model.logits) || diag_error_count(b->diag) > errors)
    return NONE;
  add_loss(b);
  gradient_build(b->arena, &model);
  memory_plan(b->arena, &model);
  if (!fits_memory(b, &model)) return NONE;
  vec_push(b->arena, &b->result->models, model);
  return b->result->models.count - 1;
}

// ---- what no train block reaches -------------------------------------------------------------

static bool was_built(const graph_builder *b, const ast_item *item) {
  for (int i = 0; i < b->built.count; i++)
    if (b->built.items[i] == item) return true;
  return false;
}

// Sizes for a check alone: those without a value of their own get a small one.
static int stand_in_sizes(graph_builder *b, const ast_item *item, size_binding **bindings) {
  int count = 0;
  *bindings = ARENA_ARRAY(b->arena, size_binding, item->body.header.count + 1);
  for (int i = 0; i < item->body.header.count; i++)
    if (!item->body.header.items[i].value)
      (*bindings)[count++] = (size_binding){item->body.header.items[i].name.text, 4, true};
  return count;
}

// Writes a layer or model out and throws all but its weights away, whose paths editors offer.
static void check_alone(graph_builder *b, const typed_name *item) {
  graph_program *kept = b->result, thrown = {0};
  graph_model model = {.name = item->name, .span = item->item->span};
  size_binding *bindings;
  int count = stand_in_sizes(b, item->item, &bindings);
  b->result = &thrown;
  open_model(b, &model, item);
  // stands for whatever makes the inputs
  vec_push(b->arena, &b->ops, (trunk_op){.kind = OP_EMBED});
  trunk_row logits;
  instance *in =
      layer_instance(b, NULL, item, bindings, count, NULL, 0, NULL, item->item->name.span);
  if (in && in->model) model_logits(b, in, &logits);
  b->result = kept;
  vec_push(b->arena, &kept->alone, model);
}

static bool sizes_complete(const ast_item *item) {
  for (int i = 0; i < item->body.header.count; i++)
    if (!item->body.header.items[i].value) return false;
  return true;
}

static void build_rest(graph_builder *b) {
  for (int pass = 0; pass < 2; pass++)
    vec_each(const typed_name, n, b->program->layers) {
      bool own = n->file == b->program->main;
      if (!own || was_built(b, n->item) || n->item->kind != (pass ? AST_LAYER : AST_MODEL))
        continue;
      if (!pass && sizes_complete(n->item))
        model_build(b, n, NULL, n->item->name.span);
      else
        check_alone(b, n);
    }
}

static bool inits_known(graph_builder *b) {
  vec_each(const typed_name, n, b->program->layers) {
    if (n->item->kind != AST_INIT) continue;
    const typed_name *target = sema_find(n->file, n->item->init.target.text);
    if (target) sema_note_item(b->program->sema, n->item->init.target.span, target->item);
    if (target && (target->item->kind == AST_LAYER || target->item->kind == AST_MODEL)) continue;
    return diag_error(b->diag, n->item->init.target.span, "expected a layer or model, found '%s'",
                      n->item->init.target.text);
  }
  return true;
}

static graph_builder new_builder(arena *memory, interner *names, diag *messages,
                                 const typed_program *program, graph_program *result) {
  return (graph_builder){.arena = memory,
                         .names = names,
                         .diag = messages,
                         .program = program,
                         .result = result,
                         .embedding = NONE};
}

graph_program *graph_build(arena *memory, interner *names, diag *messages,
                           const typed_program *program) {
  if (!program->layers.count) return NULL;
  graph_builder b = new_builder(memory, names, messages, program, ARENA_NEW(memory, graph_program));
  if (!inits_known(&b)) return b.result;
  settings_build(&b);
  build_rest(&b);
  return b.result;
}

// ---- layers by themselves --------------------------------------------------------------------

static bool sizes_known(graph_builder *b, const typed_name *item) {
  typed_body *body = ARENA_NEW(b->arena, typed_body);
  if (!sema_header(b->program->sema, item, &item->item->body.header, NULL, 0, body)) return false;
  for (int i = 0; i < body->axes.count; i++)
    if (body->axes.items[i].size == TYPED_RUNTIME_SIZE) return false;
  return true;
}

static graph_port port_of(const typed_body *body, const typed_tensor *t, int tensor) {
  graph_port port = {
      .name = t->name, .tensor = tensor, .axis_count = t->axis_count, .complex = t->complex};
  for (int i = 0; i < t->axis_count; i++) {
    port.axes[i] = body->axes.items[t->axes[i]].name;
    port.sizes[i] = body->axes.items[t->axes[i]].size;
  }
  return port;
}

// The inputs are the outputs of the embed that stands for their maker: the trunk's first operation.
static void add_inputs(graph_builder *b, graph_model *layer) {
  int op = 0;
  while (layer->ops.items[op].kind != OP_EMBED) op++;
  for (int i = 0; i < b->ops.items[0].outputs.count; i++)
    vec_push(b->arena, &layer->inputs,
             port_of(b->trunk, &b->trunk->tensors.items[b->ops.items[0].outputs.items[i]],
                     layer->ops.items[op].outputs.items[i]));
}

static trunk_row output_row(instance *in, int output) {
  const typed_tensor *t = &in->output_tensors.items[output];
  axis_order order = order_of_tensor(t);
  return (trunk_row){trunk_lift(in, in->outputs.items[output]), trunk_order(in, order), t->complex};
}

static void build_layer(graph_builder *b, const typed_name *item) {
  graph_model layer = {.name = item->name, .span = item->item->span, .logits = NONE};
  open_model(b, &layer, item);
  vec_push(b->arena, &b->ops, (trunk_op){.kind = OP_EMBED});  // makes the inputs
  instance *in = layer_instance(b, NULL, item, NULL, 0, NULL, 0, NULL, item->item->name.span);
  if (!in) return;
  int count = in->outputs.count, *tensors = ARENA_ARRAY(b->arena, int, count);
  trunk_row *results = ARENA_ARRAY(b->arena, trunk_row, count);
  for (int i = 0; i < count; i++) results[i] = output_row(in, i);
  if (!gather_operations(b, results, count, tensors)) return;
  layer.text = model_text(b, in);
  add_inputs(b, &layer);
  for (int i = 0; i < count; i++)
    vec_push(b->arena, &layer.outputs, port_of(in->body, &in->output_tensors.items[i], tensors[i]));
  vec_push(b->arena, &b->result->layers, layer);
}

void graph_build_layers(arena *memory, interner *names, diag *messages,
                        const typed_program *program, graph_program *result) {
  graph_builder b = new_builder(memory, names, messages, program, result);
  vec_each(const typed_name, item, program->layers)
    if (item->item->kind == AST_LAYER && item->file == program->main && sizes_known(&b, item))
      build_layer(&b, item);
}
