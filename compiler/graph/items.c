// Calls of recurrences and layers: inputs by position, axes by name, paths of weights as strings.
//
//   let y = ssd(x, dt, B, C, D = "skip")      sizes of ssd's G, R, P, N from the arguments; op: call ssd;
//                                               weights layers.0.A_log, .., layers.0.skip; carried
//                                               state layers.0.h
#include <string.h>

#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

typedef struct weight_name {
  const char *param, *path;
} weight_name;

typedef struct item_call {
  const typed_name *callee;
  const ast_expr *call;
  VEC(value_id) arguments;  // values of the caller's body
  VEC(const ast_expr *) written;
  VEC(size_binding) bindings;
  const char *name;
  VEC(weight_name) weights;  // params of a recurrence whose paths the call gives
} item_call;

static bool axis_in_header(const ast_header *header, const char *name) {
  for (int i = 0; i < header->count; i++)
    if (header->items[i].name.text == name) return true;
  return false;
}

static bool is_bound(const item_call *c, const char *axis) {
  for (int i = 0; i < c->bindings.count; i++)
    if (c->bindings.items[i].axis == axis) return true;
  return false;
}

// The declaration of the callee's input at this place, NULL if there are fewer.
static const ast_decl *input_declared(const ast_item *item, int place) {
  for (int i = 0; i < item->body.statements.count; i++) {
    const ast_stmt *s = item->body.statements.items[i];
    if (s->kind != AST_INPUT) continue;
    if (place < s->decls.count) return &s->decls.items[place];
    place -= s->decls.count;
  }
  return NULL;
}

static bool names_have(const ast_names *names, const char *name) {
  for (int i = 0; i < names->count; i++)
    if (names->items[i].text == name) return true;
  return false;
}

// Sizes that the arguments tell: those of the axes that the input has, too. An axis of the callee
// that only happens to have the name of one of the caller's keeps its own size.
static void bind_argument_sizes(instance *in, item_call *c) {
  for (int i = 0; i < c->arguments.count; i++) {
    const ast_decl *input = input_declared(c->callee->item, i);
    axis_set axes = in->body->values.items[c->arguments.items[i]].axes;
    for (int k = 0; input && k < in->body->axes.count; k++) {
      const typed_axis *axis = &in->body->axes.items[k];
      if (axis_in(axes, k) && names_have(&input->axes, axis->name) && !is_bound(c, axis->name))
        vec_push(in->b->arena, &c->bindings,
                 (size_binding){.axis = axis->name, .size = axis->size});
    }
  }
}

static bool has_param(const ast_item *item, const char *name) {
  for (int i = 0; i < item->body.statements.count; i++) {
    const ast_stmt *s = item->body.statements.items[i];
    for (int k = 0; s->kind == AST_PARAM && k < s->decls.count; k++)
      if (s->decls.items[k].name.text == name) return true;
  }
  return false;
}

// The path of a param of a recurrence, as a public checkpoint calls it.
static bool read_weight_name(instance *in, item_call *c, const ast_arg *arg) {
  graph_builder *b = in->b;
  const char *path = arg->value->string.text, *problem = NULL;
  if (!name_is_printable(in, arg->value)) return false;
  if (!has_param(c->callee->item, arg->name.text)) problem = "a param";
  for (int i = 0; i < c->weights.count; i++)
    if (c->weights.items[i].param == arg->name.text) problem = "one path for each param";
  if (!problem && !*path) problem = "a path in the quotes";
  if (problem)
    return diag_error(b->diag, arg->span, "expected %s of %s, found '%s'", problem, c->callee->name,
                      arg->name.text);
  vec_push(b->arena, &c->weights, (weight_name){arg->name.text, path});
  return true;
}

static bool read_named(instance *in, item_call *c, const ast_arg *arg) {
  graph_builder *b = in->b;
  bool recurrence = c->callee->item->kind == AST_RECURRENCE;
  if (!strcmp(arg->name.text, "name") && !recurrence && arg->value->kind == AST_STRING) {
    c->name = arg->value->string.text;
    return name_is_printable(in, arg->value);
  }
  if (recurrence && arg->value->kind == AST_STRING) return read_weight_name(in, c, arg);
  int64_t size;
  if (!axis_in_header(&c->callee->item->body.header, arg->name.text))
    return diag_error(b->diag, arg->span, "expected a name of the header of %s (%s), found '%s'",
                      c->callee->name, header_text(b->arena, &c->callee->item->body.header),
                      arg->name.text);
  if (!sema_whole(in->scope, arg->value, "a size", 1, &size)) return false;
  for (int i = 0; i < c->bindings.count; i++) {
    if (c->bindings.items[i].axis != arg->name.text) continue;
    if (c->bindings.items[i].size == size) return true;
    return diag_error(b->diag, arg->span,
                      "expected the size %lld of %s, as the inputs have it, found %lld",
                      (long long)c->bindings.items[i].size, arg->name.text, (long long)size);
  }
  vec_push(b->arena, &c->bindings, (size_binding){.axis = arg->name.text, .size = size});
  return true;
}

static bool read_item_arguments(instance *in, item_call *c) {
  graph_builder *b = in->b;
  const ast_args *args = &c->call->call.args;
  vec_each(const ast_arg, arg, *args) {
    if (arg->kind == AST_ARG_NAMED) continue;
    if (arg->kind != AST_ARG_POSITIONAL)
      return diag_error(b->diag, arg->span, "expected an input or a size of %s, found a range",
                        c->callee->name);
    sema_operand x = sema_expression(in->scope, arg->value);
    if (x.kind == OPERAND_ERROR) return false;
    vec_push(b->arena, &c->arguments, sema_value(in->scope, x));
    vec_push(b->arena, &c->written, arg->value);
  }
  bind_argument_sizes(in, c);
  for (int i = 0; i < args->count; i++)
    if (args->items[i].kind == AST_ARG_NAMED && !read_named(in, c, &args->items[i])) return false;
  return true;
}

int declared_count(ast_stmt_kind kind, const ast_item *item) {
  int count = 0;
  for (int i = 0; i < item->body.statements.count; i++)
    if (item->body.statements.items[i]->kind == kind)
      count += item->body.statements.items[i]->decls.count;
  return count;
}

// The size of the caller's axis of this name, 0 if it has none.
static int64_t caller_axis_size(const instance *in, const char *name) {
  for (int k = 0; k < in->body->axes.count; k++)
    if (in->body->axes.items[k].name == name) return in->body->axes.items[k].size;
  return 0;
}

// One axis by another: u{E -> D}. Else axes are missing, or there are some that the callee cannot
// run over.
static const char *axes_hint(instance *in, const item_call *c, int place, axis_set axes) {
  arena *memory = in->b->arena;
  const ast_names *wanted = &input_declared(c->callee->item, place)->axes;
  const char *missing = NULL, *extra = NULL;
  int missing_count = 0, extra_count = 0;
  for (int i = 0; i < wanted->count; i++) {
    bool present = false;
    for (int k = 0; k < in->body->axes.count; k++)
      present |= axis_in(axes, k) && in->body->axes.items[k].name == wanted->items[i].text;
    if (present) continue;
    missing = wanted->items[i].text;
    missing_count++;
  }
  for (int k = 0; k < in->body->axes.count; k++) {
    if (!axis_in(axes, k) || names_have(wanted, in->body->axes.items[k].name)) continue;
    extra = in->body->axes.items[k].name;
    extra_count++;
  }
  int64_t from = caller_axis_size(in, extra), to = caller_axis_size(in, missing);
  if (missing_count == 1 && extra_count == 1 && (!to || from == to)) {
    const ast_expr *e = c->written.items[place];
    bool sign = e->kind == AST_BINARY || e->kind == AST_NEGATE;
    return arena_printf(memory, "axes meet by name: write %s%s%s{%s -> %s}%s", sign ? "(" : "",
                        expr_to_text(memory, e), sign ? ")" : "", extra, missing,
                        to ? ""
                           : arena_printf(memory, ", with %s = %s in the header of %s", missing,
                                          extra, in->item->name));
  }
  if (!missing_count)
    return arena_printf(memory, "%s runs over no axis %s: give its inputs one, or sum over %s",
                        c->callee->name, extra, extra);
  return arena_printf(memory, "axes meet by name: let a[%s] = linear(...) makes such a value",
                      names_text(memory, wanted, ","));
}

// Before the callee is looked at: a size from a wrong argument would be reported inside it.
static bool check_argument_axes(instance *in, const item_call *c) {
  bool good = true;
  for (int i = 0; i < c->arguments.count; i++) {
    const ast_decl *input = input_declared(c->callee->item, i);
    axis_set axes = in->body->values.items[c->arguments.items[i]].axes;
    int matched = 0, present = 0;
    for (int k = 0; k < in->body->axes.count; k++) {
      present += axis_in(axes, k);
      matched += axis_in(axes, k) && names_have(&input->axes, in->body->axes.items[k].name);
    }
    bool spread = !axes && c->callee->item->kind == AST_RECURRENCE;
    if (spread || (present == matched && matched == input->axes.count)) continue;
    diag_error(in->b->diag, c->written.items[i]->span,
               "expected [%s] for the input %s of %s, found %s; %s",
               names_text(in->b->arena, &input->axes, ","), input->name.text, c->callee->name,
               set_text(in->b->arena, in->body, axes), axes_hint(in, c, i, axes));
    good = false;
  }
  return good;
}

static bool check_argument_count(instance *in, const item_call *c) {
  int wanted = declared_count(AST_INPUT, c->callee->item);
  if (c->arguments.count == wanted) return true;
  const char *names = "";
  for (int i = 0; i < wanted; i++)
    names = arena_printf(in->b->arena, "%s%s%s", names, i ? ", " : "",
                         input_declared(c->callee->item, i)->name.text);
  return diag_error(in->b->diag, c->call->span, "expected %d input%s of %s (%s), found %d", wanted,
                    wanted == 1 ? "" : "s", c->callee->name, names, c->arguments.count);
}

// The caller has no such axis (NULL), or one of another size.
static void refuse_result_axis(instance *in, const item_call *c, const typed_axis *axis,
                               const typed_axis *own) {
  arena *memory = in->b->arena;
  diag_error(
      in->b->diag, c->call->span,
      "expected the axis %s = %lld of the result of %s in the header of %s, found %s; %s",
      axis->name, (long long)axis->size, c->callee->name, in->item->name,
      own ? arena_printf(memory, "%s = %lld", axis->name, (long long)own->size) : "none",
      own ? arena_printf(memory, "write %s(.., %s = %lld), or give the axis of %s another name",
                         c->callee->name, axis->name, (long long)own->size, in->item->name)
          : arena_printf(memory, "declare it: %s(.., %s = %lld)", in->item->name, axis->name,
                         (long long)axis->size));
}

// The caller's axes for those of a result; every one must stand in the caller's header.
static bool caller_order(instance *in, const item_call *c, const typed_body *body, const int *axes,
                         int count, axis_order *order) {
  *order = (axis_order){.count = count};
  for (int i = 0; i < count; i++) {
    const typed_axis *axis = &body->axes.items[axes[i]];
    int k = 0;
    while (k < in->body->axes.count && in->body->axes.items[k].name != axis->name) k++;
    if (k == in->body->axes.count || in->body->axes.items[k].size != axis->size) {
      refuse_result_axis(in, c, axis, k < in->body->axes.count ? &in->body->axes.items[k] : NULL);
      return false;
    }
    order->axes[i] = k;
  }
  return true;
}

// ---- recurrences -----------------------------------------------------------------------------

static axis_order recurrence_order(graph_builder *b, const typed_body *body, const int *axes,
                                   int count) {
  axis_order order = {.count = count};
  for (int i = 0; i < count; i++)
    order.axes[i] = trunk_axis(b, body->axes.items[axes[i]].name, body->axes.items[axes[i]].size);
  return order;
}

static bool bind_input(instance *in, const item_call *c, int op, const typed_body *body,
                       const typed_tensor *tensor, int place) {
  graph_builder *b = in->b;
  value_id x = c->arguments.items[place];
  trunk_row row = {trunk_lift(in, x), recurrence_order(b, body, tensor->axes, tensor->axis_count),
                   tensor->complex};
  const typed_value *v = &b->trunk->values.items[row.value];
  bool fits = (v->axes == order_set(row.order) || !v->axes) &&
              (v->complex == tensor->complex || tensor->complex);
  if (!fits)
    return diag_error(
        b->diag, c->written.items[place]->span, "expected %s%s for the input %s of %s, found %s%s",
        tensor->complex ? "complex " : "", order_text(b->arena, b->trunk, row.order), tensor->name,
        c->callee->name, v->complex ? "complex " : "", set_text(b->arena, b->trunk, v->axes));
  vec_push(b->arena, &b->ops.items[op].inputs, row);
  return true;
}

static void add_recurrence_param(instance *in, const item_call *c, int op, const typed_body *body,
                                 const typed_tensor *tensor) {
  graph_builder *b = in->b;
  const char *path = tensor->name;
  for (int i = 0; i < c->weights.count; i++)
    if (c->weights.items[i].param == tensor->name) path = c->weights.items[i].path;
  axis_order order = order_of_tensor(tensor);
  int parameter = parameter_add(in, PARAMETER_OWN, path, c->call->span);
  for (int i = 0; i < order.count; i++)
    parameter_shape(b, parameter, body->axes.items[order.axes[i]].size);
  parameter_part(in, parameter, NULL, body, order, tensor->start, tensor->span);
  parameter_complex(b, parameter, tensor->complex);
  vec_push(b->arena, &b->ops.items[op].uses, (graph_use){parameter, 0});
}

int state_add(graph_builder *b, const char *name, int repeat_index, const typed_body *body,
              axis_order order, int64_t depth, bool complex) {
  graph_state state = {
      .name = name,
      .elements = order_elements(body, order) * (depth ? depth : 1) * (complex ? 2 : 1),
      .lag = depth > 0,
      .complex = complex,
      .repeat_index = repeat_index,
      .axis_count = order.count,
      .learned = NONE};
  for (int number = 2, i = 0; i < b->model->states.count; i++)
    if (!strcmp(b->model->states.items[i].name, state.name)) {
      state.name = arena_printf(b->arena, "%s.%d", name, number++);
      i = -1;
    }
  for (int i = 0; i < order.count; i++) {
    state.axes[i] = body->axes.items[order.axes[i]].name;
    state.sizes[i] = body->axes.items[order.axes[i]].size;
  }
  vec_push(b->arena, &b->model->states, state);
  return b->model->states.count - 1;
}

// What inputs move: values, states and lag buffers, each by its position in the body.
typedef struct reach {
  bool *values, *states, *lags;
} reach;

static bool value_reached(const typed_body *body, const reach *r, const typed_value *v) {
  if (v->op == VALUE_INPUT) return true;
  if (v->op == VALUE_PREVIOUS) return r->states[v->index];
  if (v->op == VALUE_LAG) return r->lags[v->index] || body->lags.items[v->index].input >= 0;
  for (int i = 0; i < value_arity(v->op); i++)
    if (r->values[v->args[i]]) return true;
  return false;
}

// One round over the body; true if it found more.
static bool reach_further(const typed_body *body, reach *r) {
  bool more = false;
  for (int i = 0; i < body->values.count; i++)
    r->values[i] |= value_reached(body, r, &body->values.items[i]);
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    bool now = t->kind == TENSOR_STATE && r->values[t->assigned];
    more |= now && !r->states[i];
    r->states[i] |= now;
  }
  for (int i = 0; i < body->lags.count; i++) {
    bool now = r->values[body->lags.items[i].source];
    more |= now && !r->lags[i];
    r->lags[i] |= now;
  }
  return more;
}

static reach reach_of(arena *memory, const typed_body *body) {
  reach r = {ARENA_ARRAY(memory, bool, body->values.count + 1),
             ARENA_ARRAY(memory, bool, body->tensors.count + 1),
             ARENA_ARRAY(memory, bool, body->lags.count + 1)};
  while (reach_further(body, &r)) continue;
  return r;
}

// The uses of an operation are by parameter of its body.
static const graph_begin *state_begin(graph_builder *b, int op, const typed_body *body,
                                      const typed_tensor *state) {
  if (!state->begin) return NULL;
  graph_begin *begin = ARENA_NEW(b->arena, graph_begin);
  *begin = (graph_begin){.number = {state->begin->number[0], state->begin->number[1]},
                         .use = {.parameter = NONE}};
  if (state->begin->parameter == NO_PARAMETER) return begin;
  const typed_tensor *from = &body->tensors.items[state->begin->parameter];
  int use = 0;
  for (int i = 0; i < state->begin->parameter; i++)
    use += body->tensors.items[i].kind == TENSOR_PARAM;
  begin->use = b->ops.items[op].uses.items[use];
  for (int i = 0; i < state->axis_count; i++) {
    int64_t stride = from->complex ? 2 : 1;
    for (int k = from->axis_count - 1; k >= 0; k--) {
      if (from->axes[k] == state->axes[i]) begin->strides[i] = stride;
      stride *= body->axes.items[from->axes[k]].size;
    }
  }
  return begin;
}

static void add_layer_states(instance *in, int op, const typed_body *body) {
  graph_builder *b = in->b;
  const reach reached = reach_of(b->arena, body);
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    axis_order order = order_of_tensor(t);
    int state = state_add(b, arena_printf(b->arena, "%s%s", in->prefix, t->name), in->repeat_index,
                          body, order, 0, t->complex);
    b->model->states.items[state].counter = !reached.states[i];
    b->model->states.items[state].begin = state_begin(b, op, body, t);
    vec_push(b->arena, &b->ops.items[op].states, state);
  }
  for (int i = 0; i < body->lags.count; i++) {
    const typed_lag *lag = &body->lags.items[i];
    int state =
        state_add(b, arena_printf(b->arena, "%s%s.lag", in->prefix, lag->name), in->repeat_index,
                  body, order_of_set(lag->axes), lag->depth, lag->complex);
    b->model->states.items[state].counter = !reached.lags[i];
    vec_push(b->arena, &b->ops.items[op].states, state);
  }
}

static bool sizes_known(instance *in, const item_call *c, const typed_body *body) {
  for (int i = 0; i < body->axes.count; i++) {
    if (body->axes.items[i].size != TYPED_RUNTIME_SIZE) continue;
    return diag_error(in->b->diag, c->call->span,
                      "expected a size for the axis %s of %s, found none; write %s(.., %s = ...)",
                      body->axes.items[i].name, c->callee->name, c->callee->name,
                      body->axes.items[i].name);
  }
  return true;
}

static bool call_recurrence(instance *in, const item_call *c, operands *out) {
  graph_builder *b = in->b;
  typed_body *body = sema_instantiate(b->program->sema, c->callee, c->bindings.items,
                                      c->bindings.count, c->call->span);
  if (!body || !sizes_known(in, c, body)) return false;
  vec_push(b->arena, &b->ops,
           (trunk_op){.kind = OP_CALL, .recurrence = body, .recurrence_name = c->callee->name});
  int op = b->ops.count - 1, place = 0;
  vec_each(const typed_tensor, t, body->tensors) {
    if (t->kind == TENSOR_INPUT && !bind_input(in, c, op, body, t, place++)) return false;
    if (t->kind == TENSOR_PARAM) add_recurrence_param(in, c, op, body, t);
  }
  add_layer_states(in, op, body);
  vec_each(const typed_tensor, t, body->tensors) {
    axis_order order;
    if (t->kind != TENSOR_OUTPUT) continue;
    if (!caller_order(in, c, body, t->axes, t->axis_count, &order)) return false;
    int tensor = trunk_add_input(b, t->name, trunk_order(in, order), t->complex, op,
                                 b->ops.items[op].outputs.count);
    vec_push(b->arena, &b->ops.items[op].outputs, tensor);
    value_id y = instance_add_input(in, t->name, order, t->complex, trunk_input_value(b, tensor));
    vec_push(b->arena, out, operand_of_value(in->scope, y));
  }
  return true;
}

// ---- layers ----------------------------------------------------------------------------------

static bool call_layer(instance *in, const item_call *c, operands *out) {
  graph_builder *b = in->b;
  value_id *arguments = ARENA_ARRAY(b->arena, value_id, c->arguments.count + 1);
  for (int i = 0; i < c->arguments.count; i++) arguments[i] = trunk_lift(in, c->arguments.items[i]);
  instance *callee = layer_instance(b, in, c->callee, c->bindings.items, c->bindings.count,
                                    arguments, c->arguments.count, c->name, c->call->span);
  if (!callee) return false;
  for (int i = 0; i < callee->outputs.count; i++) {
    const typed_tensor *t = &callee->output_tensors.items[i];
    axis_order order;
    if (!caller_order(in, c, callee->body, t->axes, t->axis_count, &order)) return false;
    value_id lifted = trunk_lift(callee, callee->outputs.items[i]);
    bool complex = callee->body->values.items[callee->outputs.items[i]].complex;
    value_id y = instance_add_input(in, t->name, order, complex, lifted);
    vec_push(b->arena, out, operand_of_value(in->scope, y));
  }
  return true;
}

bool call_item(instance *in, const ast_expr *call, operands *out, bool *good) {
  if (call->kind != AST_CALL) return false;
  item_call c = {.call = call, .callee = sema_find(in->item->file, call->call.callee.text)};
  if (!c.callee || c.callee->item->kind == AST_FN) return false;
  sema_note_item(in->b->program->sema, call->call.callee.span, c.callee->item);
  *good = false;
  if (c.callee->item->kind == AST_MODEL) {
    diag_error(in->b->diag, call->span, "expected a recurrence or a layer, found the model '%s'",
               c.callee->name);
    return true;
  }
  if (call->call.axes.count) {
    diag_error(in->b->diag, call->span,
               "expected '(' after %s, found axes; sizes are given as %s(.., N = 32)",
               c.callee->name, c.callee->name);
    return true;
  }
  if (!read_item_arguments(in, &c) || !check_argument_count(in, &c) || !check_argument_axes(in, &c))
    return true;
  *good = c.callee->item->kind == AST_RECURRENCE ? call_recurrence(in, &c, out)
                                                 : call_layer(in, &c, out);
  return true;
}
