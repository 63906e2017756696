// Layers and models, statement by statement: from syntax to values of an instance's body.
//
//   layer Norm(D) { input u[D]  output v[D] = rms_norm[D](u) }    body of instance "layers.0.":
//                                                                    %0 [D] = input u
//                                                                    %1 [D] = param norm.weight ..
#include <string.h>

#include "compiler/graph/build.h"

// ---- names -----------------------------------------------------------------------------------

static void add_binding(instance *in, const char *name, value_id value, span where,
                        binding_kind kind) {
  vec_push(in->b->arena, &in->bindings, (binding){name, value, where, kind, false});
}

static bool bind_let(instance *in, const layer_target *target, sema_operand operand) {
  value_id value = sema_value(in->scope, operand);
  if (!sema_bind_let(in->scope, target->name, target->span, value)) return false;
  add_binding(in, target->name, value, target->span, BINDING_LET);
  return true;
}

static const typed_tensor *find_output(instance *in, const char *name, int *place) {
  for (int i = 0; i < in->output_tensors.count; i++)
    if (in->output_tensors.items[i].name == name) {
      *place = i;
      return &in->output_tensors.items[i];
    }
  return NULL;
}

// ---- declarations ----------------------------------------------------------------------------

static bool declared_tensor(instance *in, const ast_decl *decl, tensor_kind kind,
                            typed_tensor *tensor) {
  graph_builder *b = in->b;
  *tensor = (typed_tensor){.kind = kind,
                           .name = decl->name.text,
                           .doc = decl->doc,
                           .assigned = NO_VALUE,
                           .span = decl->span};
  int order[TYPED_MAX_AXES] = {0};
  if (decl->axes.count && !sema_axes(in->scope, &decl->axes, &tensor->axis_set, order))
    return false;
  tensor->axis_count = decl->axes.count;
  tensor->axes = ARENA_ARRAY(b->arena, int, tensor->axis_count + 1);
  memcpy(tensor->axes, order, sizeof(int) * (size_t)tensor->axis_count);
  tensor->complex = decl->type.text && !strcmp(decl->type.text, "complex");
  if (decl->type.text && !tensor->complex)
    return diag_error(b->diag, decl->type.span, "expected the type complex, found '%s'",
                      decl->type.text);
  tensor->promised = decl->low != NULL;
  return !decl->low || (sema_constant(in->scope, decl->low, "the lower end", &tensor->low) &&
                        sema_constant(in->scope, decl->high, "the upper end", &tensor->high));
}

static value_id last_tensor_value(instance *in) {
  return tensor_value(in->b->arena, in->body, in->body->tensors.count - 1);
}

static bool declare_input(instance *in, const ast_decl *decl, const value_id *arguments,
                          int argument_count, int place, span call) {
  graph_builder *b = in->b;
  typed_tensor tensor;
  if (!declared_tensor(in, decl, TENSOR_INPUT, &tensor) || !sema_bind_tensor(in->scope, &tensor))
    return false;
  if (in->model) {
    int token = trunk_add_input(b, tensor.name, (axis_order){0}, false, NONE, 0);
    b->trunk->tensors.items[token].span = decl->name.span;
    set_tensor_value(in, trunk_input_value(b, token));
    if (tensor.axis_count || place)
      return diag_error(
          b->diag, decl->span,
          "expected one input without axes, the token, as the input of a model, found '%s'",
          tensor.name);
  } else if (!arguments) {  // the layer by itself
    axis_order order = trunk_order(in, order_of_tensor(&tensor));
    int made = trunk_add_input(b, tensor.name, order, tensor.complex, 0, place);
    vec_push(b->arena, &b->ops.items[0].outputs, made);
    set_tensor_value(in, trunk_input_value(b, made));
  } else {
    if (place >= argument_count) return true;  // the call has reported it
    value_id argument = arguments[place];
    axis_set wanted = order_set(trunk_order(in, order_of_tensor(&tensor)));
    const typed_value *found = &b->trunk->values.items[argument];
    if (found->axes != wanted || found->complex != tensor.complex)
      return diag_error(b->diag, call, "expected %s%s for the input %s of %s, found %s%s",
                        tensor.complex ? "complex " : "",
                        order_text(b->arena, in->body, order_of_tensor(&tensor)), tensor.name,
                        in->item->name, found->complex ? "complex " : "",
                        set_text(b->arena, b->trunk, found->axes));
    set_tensor_value(in, argument);
  }
  add_binding(in, tensor.name, last_tensor_value(in), decl->name.span, BINDING_GIVEN);
  return true;
}

static bool declare_param(instance *in, const ast_decl *decl) {
  graph_builder *b = in->b;
  typed_tensor tensor;
  if (!declared_tensor(in, decl, TENSOR_PARAM, &tensor)) return false;
  if (decl->start) {
    tensor.start = sema_check_start(in->scope, decl->start, tensor.axis_set, NULL, NULL);
    if (!tensor.start) return false;
  }
  if (!sema_bind_tensor(in->scope, &tensor)) return false;
  axis_order order = order_of_tensor(&tensor);
  int parameter = parameter_add(in, PARAMETER_OWN, tensor.name, decl->span);
  for (int i = 0; i < order.count; i++)
    parameter_shape(b, parameter, in->body->axes.items[order.axes[i]].size);
  parameter_part(in, parameter, NULL, in->body, order, tensor.start, decl->span);
  parameter_complex(b, parameter, tensor.complex);
  set_tensor_value(
      in, trunk_add_param(in, tensor.name, order, tensor.complex, (graph_use){parameter, 0}));
  add_binding(in, tensor.name, last_tensor_value(in), decl->name.span, BINDING_GIVEN);
  return true;
}

// ---- right sides -----------------------------------------------------------------------------

bool call_is(const ast_expr *e, const char *name) {
  return e->kind == AST_CALL && !strcmp(e->call.callee.text, name);
}

// A value bound to stated axes has exactly these, or none.
static bool fits_target(instance *in, const layer_target *target, sema_operand operand,
                        const char *what) {
  axis_set wanted = order_set(target->order);
  if (!target->has_axes || operand.axes == wanted || !operand.axes) return true;
  return diag_error(in->b->diag, target->span, "expected axes %s for %s %s, found %s",
                    order_text(in->b->arena, in->body, target->order), what, target->name,
                    set_text(in->b->arena, in->body, operand.axes));
}

static bool single_operand(instance *in, const ast_expr *e, operands *out) {
  sema_operand operand = sema_expression(in->scope, e);
  if (operand.kind == OPERAND_ERROR) return false;
  vec_push(in->b->arena, out, operand);
  return true;
}

static bool run_repeat(instance *in, const ast_expr *e, operands *out);

static bool right_side(instance *in, const ast_expr *value, const layer_target *targets,
                       int target_count, operands *out) {
  graph_builder *b = in->b;
  const char *outer = in->bound_to;
  in->bound_to = targets[0].name;
  bool good;
  sema_operand one;
  if (call_is(value, "linear")) {
    good = call_linear(in, value, targets, target_count, out);
  } else if (call_is(value, "embed") || call_is(value, "unembed")) {
    good = call_is(value, "embed") ? call_embed(in, value, &targets[0], &one)
                                   : call_unembed(in, value, &targets[0], &one);
    if (good) vec_push(b->arena, out, one);
  } else if (value->kind == AST_REPEAT) {
    good = run_repeat(in, value, out);
  } else {
    good = target_count == 1 ? single_operand(in, value, out) : layer_tuple(in, value, out);
  }
  in->bound_to = outer;
  if (good && out->count != target_count)
    return diag_error(b->diag, value->span, "expected %d value%s, found %d", target_count,
                      target_count == 1 ? "" : "s", out->count);
  return good;
}

// ---- repeat ----------------------------------------------------------------------------------

// A repeat in a repeat may carry a name that the outer one carries, too.
static bool is_carried_anew(const instance *in, int place) {
  const binding *outer = &in->bindings.items[place];
  for (int i = place + 1; i < in->bindings.count && outer->kind == BINDING_CARRIED; i++)
    if (in->bindings.items[i].name == outer->name) return true;
  return false;
}

static sema_scope *inner_scope(instance *in) {
  sema_scope *scope = sema_scope_new(in->b->program->sema, in->item->file, in->body);
  sema_scope_set_hook(scope, layer_call, in);
  for (int i = 0; i < in->bindings.count; i++) {
    const binding *known = &in->bindings.items[i];
    if (is_carried_anew(in, i)) continue;
    if (!sema_bind_let(scope, known->name, known->span, known->value)) return NULL;
  }
  return scope;
}

static bool layer_let(instance *in, const ast_stmt *s);

static int carried_place(const ast_expr *e, const char *name) {
  for (int i = 0; i < e->repeat.carried.count; i++)
    if (e->repeat.carried.items[i].name.text == name) return i;
  return -1;
}

static bool repeat_statements(instance *in, const ast_expr *e, value_id *next) {
  graph_builder *b = in->b;
  for (int i = 0; i < e->repeat.statements.count; i++) {
    const ast_stmt *s = e->repeat.statements.items[i];
    if (s->kind == AST_LET) {
      if (!layer_let(in, s)) return false;
      continue;
    }
    int place = carried_place(e, s->assign.name.text);
    if (place < 0 || next[place] != NO_VALUE)
      return diag_error(
          b->diag, s->assign.name.span, "expected %s, found '%s'",
          place < 0 ? "a name that the repeat carries" : "one assignment of each carried name",
          s->assign.name.text);
    layer_target target = {.name = s->assign.name.text, .span = s->assign.name.span};
    operands values = {0};
    if (!right_side(in, s->assign.value, &target, 1, &values)) return false;
    next[place] = sema_value(in->scope, values.items[0]);
  }
  return true;
}

static bool repeat_once(instance *in, const ast_expr *e, int carried_count, const char *label,
                        const value_id *carried, value_id *next) {
  if (e->repeat.body) {
    operands values = {0};
    if (carried_count == 1 ? !single_operand(in, e->repeat.body, &values)
                           : !layer_tuple(in, e->repeat.body, &values))
      return false;
    if (values.count != carried_count)
      return diag_error(in->b->diag, e->repeat.body->span,
                        "expected %d values, one for each carried name, found %d", carried_count,
                        values.count);
    for (int i = 0, k = 0; i < e->repeat.carried.count; i++)
      if (e->repeat.carried.items[i].name.text != label)
        next[i] = sema_value(in->scope, values.items[k++]);
  } else if (!repeat_statements(in, e, next)) {
    return false;
  }
  for (int i = 0; i < e->repeat.carried.count; i++) {
    const ast_name *name = &e->repeat.carried.items[i].name;
    if (name->text == label) continue;
    if (next[i] == NO_VALUE) next[i] = carried[i];
    axis_set before = in->body->values.items[carried[i]].axes,
             after = in->body->values.items[next[i]].axes;
    if (before == after) continue;
    return diag_error(in->b->diag, name->span,
                      "expected '%s' to keep its axes %s from one repetition to the next, found %s",
                      name->text, set_text(in->b->arena, in->body, before),
                      set_text(in->b->arena, in->body, after));
  }
  return true;
}

static void warn_unused(instance *in, const binding *known) {
  if (known->kind == BINDING_LET && !known->used && !sema_is_used(in->scope, known->name))
    diag_unused_warning(in->b->diag, known->span, "'%s' is never used", known->name);
}

// Runs the body once more in names of its own; `outer` are the names that it sees.
static bool repeat_instance(instance *in, const ast_expr *e, int carried_count, const char *label,
                            const value_id *carried, value_id *next) {
  sema_scope *outer_scope = in->scope;
  int outer_bindings = in->bindings.count;
  for (int i = 0; i < e->repeat.carried.count; i++) {
    const ast_name *name = &e->repeat.carried.items[i].name;
    if (name->text != label) add_binding(in, name->text, carried[i], name->span, BINDING_CARRIED);
  }
  sema_scope *scope = inner_scope(in);
  if (!scope) return false;
  in->scope = scope;
  bool good = repeat_once(in, e, carried_count, label, carried, next);
  instance_note_lags(in);
  for (int i = 0; i < in->bindings.count; i++) {
    if (i >= outer_bindings && good) warn_unused(in, &in->bindings.items[i]);
    in->bindings.items[i].used |= sema_is_used(scope, in->bindings.items[i].name);
  }
  for (int i = 0; i < in->body->axes.count; i++)
    if (sema_is_used(scope, in->body->axes.items[i].name)) in->axes_used |= axis_bit(i);
  in->bindings.count = outer_bindings;
  in->scope = outer_scope;
  return good;
}

// NULL after a message.
static const char *repeat_name(instance *in, const ast_expr *e, const char **label) {
  *label = NULL;
  vec_each(const ast_binding, c, e->repeat.carried) {
    if (strcmp(c->name.text, "name") != 0 || c->value->kind != AST_STRING) continue;
    *label = c->name.text;
    return name_is_printable(in, c->value) ? c->value->string.text : NULL;
  }
  return "layers";
}

enum { MOST_REPETITIONS = 4096 };

static bool run_repeat(instance *in, const ast_expr *e, operands *out) {
  graph_builder *b = in->b;
  int64_t count;
  const char *label, *name = repeat_name(in, e, &label);
  if (!name) return false;
  if (!sema_whole(in->scope, e->repeat.count, "the count of repeat", 0, &count)) return false;
  if (count > MOST_REPETITIONS)
    return diag_error(b->diag, e->repeat.count->span, "expected at most %d repetitions, found %lld",
                      MOST_REPETITIONS, (long long)count);
  int n = e->repeat.carried.count, carried_count = 0;
  value_id *carried = ARENA_ARRAY(b->arena, value_id, n),
           *next = ARENA_ARRAY(b->arena, value_id, n);
  for (int i = 0; i < n; i++) {
    const ast_binding *c = &e->repeat.carried.items[i];
    if (c->name.text == label) continue;
    carried_count++;
    sema_operand first = sema_expression(in->scope, c->value);
    if (first.kind == OPERAND_ERROR) return false;
    carried[i] = sema_value(in->scope, first);
  }
  instance_note_lags(in);
  const char *outer_prefix = in->prefix;
  int outer_index = in->repeat_index;
  bool good = true;
  for (int64_t k = 0; good && k < count; k++) {
    in->prefix = arena_printf(b->arena, "%s%s.%lld.", outer_prefix, name, (long long)k);
    if (outer_index == NONE) in->repeat_index = (int)k;
    for (int i = 0; i < n; i++) next[i] = NO_VALUE;
    good = repeat_instance(in, e, carried_count, label, carried, next);
    memcpy(carried, next, sizeof *carried * (size_t)n);
  }
  in->prefix = outer_prefix;
  in->repeat_index = outer_index;
  for (int i = 0; good && i < n; i++) {
    if (e->repeat.carried.items[i].name.text == label) continue;
    vec_push(b->arena, out, operand_of_value(in->scope, carried[i]));
  }
  return good;
}

// ---- statements ------------------------------------------------------------------------------

static bool let_target(instance *in, const ast_bind *bind, layer_target *target) {
  *target =
      (layer_target){.name = bind->name.text, .has_axes = bind->axes.count > 0, .span = bind->span};
  axis_set set;
  if (!bind->axes.count) return true;
  target->order.count = bind->axes.count;
  return sema_axes(in->scope, &bind->axes, &set, target->order.axes);
}

static bool layer_let(instance *in, const ast_stmt *s) {
  int count = s->let.binds.count;
  layer_target *targets = ARENA_ARRAY(in->b->arena, layer_target, count);
  for (int i = 0; i < count; i++)
    if (!let_target(in, &s->let.binds.items[i], &targets[i])) return false;
  operands values = {0};
  bool good = right_side(in, s->let.value, targets, count, &values);
  for (int i = 0; good && i < count; i++)
    good = fits_target(in, &targets[i], values.items[i], "the let") &&
           bind_let(in, &targets[i], values.items[i]);
  return good;
}

static bool assign_output(instance *in, const ast_name *name, const ast_expr *value) {
  graph_builder *b = in->b;
  int place;
  const typed_tensor *tensor = find_output(in, name->text, &place);
  if (!tensor)
    return diag_error(b->diag, name->span, "expected an output, found '%s'; write let %s = ...",
                      name->text, name->text);
  if (in->outputs.items[place] != NO_VALUE)
    return diag_error(b->diag, name->span,
                      "expected one assignment of the output '%s', found a second", name->text);
  sema_note_name(b->program->sema, name, tensor->span, "output");
  layer_target target = {
      .name = tensor->name, .has_axes = true, .order = order_of_tensor(tensor), .span = name->span};
  operands values = {0};
  if (!right_side(in, value, &target, 1, &values) ||
      !fits_target(in, &target, values.items[0], "the output"))
    return false;
  in->outputs.items[place] = sema_value(in->scope, values.items[0]);
  add_binding(in, name->text, in->outputs.items[place], name->span, BINDING_GIVEN);
  in->bindings.items[in->bindings.count - 1].used = true;
  return sema_bind_let(in->scope, name->text, name->span, in->outputs.items[place]);
}

static bool declare_output(instance *in, const ast_decl *decl) {
  typed_tensor tensor;
  if (!declared_tensor(in, decl, TENSOR_OUTPUT, &tensor)) return false;
  sema_note_name(in->b->program->sema, &decl->name, decl->name.span, "output");
  vec_push(in->b->arena, &in->output_tensors, tensor);
  vec_push(in->b->arena, &in->outputs, NO_VALUE);
  return !decl->value || assign_output(in, &decl->name, decl->value);
}

typedef struct statement_run {
  const value_id *arguments;
  int argument_count, inputs;
  span call;
} statement_run;

static bool declaration(instance *in, const ast_stmt *s, const ast_decl *decl, statement_run *run) {
  if (s->kind == AST_INPUT)
    return declare_input(in, decl, run->arguments, run->argument_count, run->inputs++, run->call);
  if (s->kind == AST_PARAM) return declare_param(in, decl);
  if (s->kind == AST_OUTPUT) return declare_output(in, decl);
  return diag_error(in->b->diag, decl->span,
                    "expected no state in a %s, found '%s'; states belong to recurrences",
                    in->model ? "model" : "layer", decl->name.text);
}

static bool statement(instance *in, const ast_stmt *s, statement_run *run) {
  bool good = true;
  if (s->kind == AST_LET) return layer_let(in, s);
  if (s->kind == AST_ASSIGN) return assign_output(in, &s->assign.name, s->assign.value);
  for (int i = 0; i < s->decls.count; i++) good &= declaration(in, s, &s->decls.items[i], run);
  return good;
}

static void fail_names(instance *in, const ast_stmt *s) {
  arena *memory = in->b->arena;
  if (s->kind == AST_ASSIGN) vec_push(memory, &in->failed, s->assign.name.text);
  for (int i = 0; s->kind == AST_LET && i < s->let.binds.count; i++)
    vec_push(memory, &in->failed, s->let.binds.items[i].name.text);
  for (int i = 0; s->kind != AST_LET && s->kind != AST_ASSIGN && i < s->decls.count; i++)
    vec_push(memory, &in->failed, s->decls.items[i].name.text);
}

static bool reads_failed(const instance *in, const ast_stmt *s) {
  for (int i = 0; i < in->failed.count; i++)
    if (stmt_mentions(s, in->failed.items[i])) return true;
  return false;
}

// All of them: a refused one silences those that read its names, and no other.
static bool statements(instance *in, const ast_stmts *list, statement_run *run) {
  for (int i = 0; i < list->count; i++)
    if (reads_failed(in, list->items[i]) || !statement(in, list->items[i], run))
      fail_names(in, list->items[i]);
  return in->failed.count == 0;
}

// ---- what must not be left over --------------------------------------------------------------

static bool axis_is_used(instance *in, int axis, const ast_header *header) {
  const char *name = in->body->axes.items[axis].name;
  if (axis_in(in->axes_used, axis) || sema_is_used(in->scope, name)) return true;
  for (int i = 0; i < in->body->tensors.count; i++)
    if (axis_in(in->body->tensors.items[i].axis_set, axis)) return true;
  for (int i = 0; i < in->output_tensors.count; i++)
    if (axis_in(in->output_tensors.items[i].axis_set, axis)) return true;
  for (int i = 0; i < in->body->values.count; i++)
    if (axis_in(in->body->values.items[i].axes, axis)) return true;
  for (int i = 0; i < header->count; i++)
    if (expr_mentions(header->items[i].value, name)) return true;
  return false;
}

static void check_leftovers(instance *in) {
  graph_builder *b = in->b;
  const ast_header *header = &in->item->item->body.header;
  for (int i = 0; i < in->outputs.count; i++)
    if (in->outputs.items[i] == NO_VALUE)
      diag_error(b->diag, in->output_tensors.items[i].span,
                 "expected a value for the output '%s', found none; write %s = ...",
                 in->output_tensors.items[i].name, in->output_tensors.items[i].name);
  if (!in->outputs.count)
    diag_error(b->diag, in->item->item->name.span, "expected an output in '%s', found none",
               in->item->name);
  vec_each(const binding, known, in->bindings) {
    if (known->used || sema_is_used(in->scope, known->name)) continue;
    if (known->kind == BINDING_LET)
      diag_unused_warning(b->diag, known->span, "'%s' is never used", known->name);
    else
      diag_unused_error(b->diag, known->span, "expected a use of '%s', found none; remove it",
                        known->name);
  }
  for (int i = 0; i < in->body->axes.count; i++)
    if (!axis_is_used(in, i, header))
      diag_unused_error(b->diag, in->body->axes.items[i].span,
                        "expected a use of '%s', found none; remove it from the header",
                        in->body->axes.items[i].name);
}

// ---- instances -------------------------------------------------------------------------------

// Layers that call others twice double with each level: refused while they are written out, before
// memory fills.
static bool is_too_large(graph_builder *b, const typed_name *item, span call) {
  enum { MOST_LAYERS = 16384, MOST_VALUES = 65536 };
  bool layers = b->built.count >= MOST_LAYERS;
  if (!layers && b->trunk->values.count < MOST_VALUES) return false;
  diag_error(b->diag, call, "expected a model of at most %d %s, found more at '%s'",
             layers ? MOST_LAYERS : MOST_VALUES, layers ? "layers" : "operations", item->name);
  return true;
}

static bool open_layer_instance(graph_builder *b, instance *in, const size_binding *bindings,
                                int binding_count, span call) {
  const ast_item *item = in->item->item;
  in->body = ARENA_NEW(b->arena, typed_body);
  in->body->name = in->item->name;
  in->body->span = item->span;
  if (!sema_header(b->program->sema, in->item, &item->body.header, bindings, binding_count,
                   in->body))
    return false;
  vec_each(const typed_axis, axis, in->body->axes) {
    if (axis->size != TYPED_RUNTIME_SIZE) continue;
    return diag_error(b->diag, call,
                      "expected a size for '%s' of %s, found none; write %s(%s = ...)", axis->name,
                      in->item->name, in->item->name, axis->name);
  }
  in->scope = sema_scope_new(b->program->sema, in->item->file, in->body);
  sema_scope_set_hook(in->scope, layer_call, in);
  return true;
}

instance *layer_instance(graph_builder *b, instance *caller, const typed_name *item,
                         const size_binding *bindings, int binding_count, const value_id *arguments,
                         int argument_count, const char *name, span call) {
  for (int i = 0; i < b->active.count; i++)
    if (b->active.items[i]->item == item->item) {
      diag_error(b->diag, call,
                 "expected a layer that does not contain itself, found '%s' inside '%s'",
                 item->name, item->name);
      return NULL;
    }
  if (is_too_large(b, item, call)) return NULL;
  int errors = diag_error_count(b->diag);
  instance *in = ARENA_NEW(b->arena, instance);
  *in = (instance){.b = b,
                   .item = item,
                   .model = item->item->kind == AST_MODEL,
                   .prefix = caller ? caller->prefix : "",
                   .repeat_index = caller ? caller->repeat_index : NONE};
  if (name)
    in->prefix = arena_printf(b->arena, "%s%s.", in->prefix, name);
  else if (caller)
    in->component = arena_printf(b->arena, "%s.", item->name);
  if (!open_layer_instance(b, in, bindings, binding_count, call)) return NULL;
  vec_push(b->arena, &b->active, item);
  vec_push(b->arena, &b->built, item->item);
  statement_run run = {.arguments = arguments, .argument_count = argument_count, .call = call};
  bool good = statements(in, &item->item->body.statements, &run);
  b->active.count--;
  if (!good) return NULL;
  check_leftovers(in);
  return diag_error_count(b->diag) > errors ? NULL : in;
}
