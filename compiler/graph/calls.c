// What layers call: linear, embed, unembed, conv1d, rms_norm, recurrences, layers.
//
//   let (q[N], k[N]) = linear(u, name = "qk")   op: linear layers.0.qk.weight [2N,D], outputs q, k
//   conv1d(x, width = 3)                          w0 * x[t-2] + w1 * x[t-1] + w2 * x + bias
//   rms_norm[D](x)                                x * rsqrt(sum[D](x * x) / D + eps) * weight
//   rms_norm[D](x, weight = [H,D])                the same; the weight has also the axis H of x
#include <math.h>
#include <string.h>

#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

// ---- arguments -------------------------------------------------------------------------------

// The named settings of a call, each NULL if absent.
typedef struct call_settings {
  const char *names[5];
  const ast_expr *values[5];
  int positional;
} call_settings;

// Checks that a call has `positional` arguments and no other named ones than those of `settings`.
static bool read_settings(instance *in, const ast_expr *call, int positional,
                          call_settings *settings) {
  for (int i = 0; i < call->call.args.count; i++) {
    const ast_arg *arg = &call->call.args.items[i];
    if (arg->kind == AST_ARG_POSITIONAL &&
        !(i && call->call.args.items[i - 1].kind == AST_ARG_NAMED)) {
      settings->positional++;
      continue;
    }
    int k = 0;
    while (arg->kind == AST_ARG_NAMED && k < 5 && settings->names[k] &&
           strcmp(settings->names[k], arg->name.text) != 0)
      k++;
    if (arg->kind != AST_ARG_NAMED || k == 5 || !settings->names[k] || settings->values[k]) {
      const char *known = "";
      for (int n = 0; n < 5 && settings->names[n]; n++)
        known = arena_printf(in->b->arena, "%s%s%s", known, n ? ", " : "", settings->names[n]);
      return diag_error(in->b->diag, arg->span, "expected %s for %s, found %s",
                        *known ? known : "no setting", call->call.callee.text,
                        arg->kind == AST_ARG_NAMED
                            ? arena_printf(in->b->arena, "'%s'", arg->name.text)
                            : "another argument");
    }
    settings->values[k] = arg->value;
  }
  if (settings->positional == positional) return true;
  return diag_error(in->b->diag, call->span, "expected %d argument%s of %s, found %d", positional,
                    positional == 1 ? "" : "s", call->call.callee.text, settings->positional);
}

// Names reach checkpoints, tables, pages and the terminal.
bool name_is_printable(instance *in, const ast_expr *value) {
  for (const char *c = value->string.text; *c; c++) {
    if ((unsigned char)*c >= ' ' && *c != 0x7f) continue;
    return diag_error(in->b->diag, value->span,
                      "expected a name of printable characters, found the control character 0x%02x",
                      (unsigned char)*c);
  }
  return true;
}

static bool read_name_setting(instance *in, const ast_expr *value, const char **name) {
  if (!value) return true;
  if (value->kind == AST_STRING && value->string.text[0]) {
    *name = value->string.text;
    return name_is_printable(in, value);
  }
  return diag_error(in->b->diag, value->span,
                    "expected a name in quotes, found another expression");
}

static bool read_switch(instance *in, const ast_expr *value, bool *on) {
  if (!value) return true;
  bool is_on = value->kind == AST_NAME && !strcmp(value->name.text, "on");
  bool is_off = value->kind == AST_NAME && !strcmp(value->name.text, "off");
  *on = is_on;
  if (is_on || is_off) return true;
  return diag_error(in->b->diag, value->span, "expected on or off, found another expression");
}

const ast_expr *call_positional(const ast_expr *call, int place) {
  for (int i = 0; i < call->call.args.count; i++)
    if (call->call.args.items[i].kind == AST_ARG_POSITIONAL && place-- == 0)
      return call->call.args.items[i].value;
  return NULL;
}

static bool real_value(instance *in, const ast_expr *e, value_id *value) {
  sema_operand operand = sema_expression(in->scope, e);
  if (operand.kind == OPERAND_ERROR) return false;
  *value = sema_value(in->scope, operand);
  if (!operand.complex) return true;
  return diag_error(in->b->diag, e->span,
                    "expected a real value, found a complex one; take re(..) or im(..)");
}

// ---- operations ------------------------------------------------------------------------------

static int add_op(graph_builder *b, model_op_kind kind) {
  vec_push(b->arena, &b->ops, (trunk_op){.kind = kind});
  return b->ops.count - 1;
}

// The value as rows with its axes in the order of the layer's header.
static trunk_row header_row(instance *in, value_id value) {
  axis_order order = order_of_set(in->body->values.items[value].axes);
  return (trunk_row){trunk_lift(in, value), trunk_order(in, order),
                     in->body->values.items[value].complex};
}

// One more output of operation `op`: a real value of the instance with axes in this order.
static value_id add_output(instance *in, int op, const char *name, axis_order order) {
  graph_builder *b = in->b;
  int tensor =
      trunk_add_input(b, name, trunk_order(in, order), false, op, b->ops.items[op].outputs.count);
  vec_push(b->arena, &b->ops.items[op].outputs, tensor);
  return instance_add_input(in, name, order, false, trunk_input_value(b, tensor));
}

static const char *joined_name(graph_builder *b, const char *name, const char *end) {
  return arena_printf(b->arena, "%s%s", name, end);
}

static axis_order joined_order(axis_order first, axis_order second) {
  for (int i = 0; i < second.count && first.count < TYPED_MAX_AXES; i++)
    first.axes[first.count++] = second.axes[i];
  return first;
}

static bool stated_axes(instance *in, const ast_expr *call, const layer_target *targets,
                        int count) {
  for (int i = 0; i < count; i++) {
    if (targets[i].has_axes) continue;
    return diag_error(
        in->b->diag, targets[i].span,
        "expected axes for '%s', found none; %s maps to the axes on the left: let %s[...] = ...",
        targets[i].name, call->call.callee.text, targets[i].name);
  }
  return true;
}

// `bias = on`, or how the bias starts.
static bool read_bias(instance *in, const ast_expr *value, bool *bias, const ast_expr **start) {
  bool is_switch = !value || (value->kind == AST_NAME && (!strcmp(value->name.text, "on") ||
                                                          !strcmp(value->name.text, "off")));
  if (is_switch) return read_switch(in, value, bias);
  *bias = true;
  *start = value;
  return true;
}

// One part of the bias of a linear.
static bool bias_part(instance *in, int parameter, const layer_target *target, const char *part,
                      const ast_expr *start, double bound) {
  const typed_start *how = start_uniform(in->b->arena, -bound, bound);
  if (start) how = sema_check_start(in->scope, start, order_set(target->order), NULL, NULL);
  if (!how) return false;
  parameter_part(in, parameter, part, in->body, target->order, how, target->span);
  return true;
}

bool call_linear(instance *in, const ast_expr *call, const layer_target *targets, int target_count,
                 operands *out) {
  graph_builder *b = in->b;
  call_settings settings = {.names = {"name", "bias"}};
  bool bias = false;
  const ast_expr *bias_start = NULL;
  const char *name = target_count == 1 ? targets[0].name : NULL;
  value_id x;
  if (!read_settings(in, call, 1, &settings) || !stated_axes(in, call, targets, target_count) ||
      !read_name_setting(in, settings.values[0], &name) ||
      !read_bias(in, settings.values[1], &bias, &bias_start) ||
      !real_value(in, call_positional(call, 0), &x))
    return false;
  if (!name)
    return diag_error(b->diag, call->span,
                      "expected name = \"...\" for a linear with several parts, found none");
  trunk_row row = header_row(in, x);
  axis_order x_order = order_of_set(in->body->values.items[x].axes);
  int64_t width = order_elements(in->body, x_order), rows = 0;
  double bound = 1 / sqrt((double)width);
  int weight = parameter_add(in, PARAMETER_LINEAR, joined_name(b, name, ".weight"), call->span);
  int biases =
      bias ? parameter_add(in, PARAMETER_BIAS, joined_name(b, name, ".bias"), call->span) : NONE;
  for (int i = 0; i < target_count; i++) {
    const char *part = target_count == 1 ? NULL : targets[i].name;
    parameter_part(in, weight, part, in->body, joined_order(targets[i].order, x_order),
                   start_uniform(b->arena, -bound, bound), targets[i].span);
    if (bias && !bias_part(in, biases, &targets[i], part, bias_start, bound)) return false;
    rows += order_elements(in->body, targets[i].order);
  }
  parameter_shape(b, weight, rows);
  parameter_shape(b, weight, width);
  if (bias) parameter_shape(b, biases, rows);
  int op = add_op(b, OP_LINEAR);
  vec_push(b->arena, &b->ops.items[op].inputs, row);
  vec_push(b->arena, &b->ops.items[op].uses, (graph_use){weight, 0});
  if (bias) vec_push(b->arena, &b->ops.items[op].uses, (graph_use){biases, 0});
  for (int i = 0; i < target_count; i++)
    vec_push(b->arena, out,
             operand_of_value(in->scope, add_output(in, op, targets[i].name, targets[i].order)));
  return true;
}

static bool is_token_input(instance *in, const ast_expr *e) {
  if (!in->model || e->kind != AST_NAME) return false;
  vec_each(binding, known, in->bindings) {
    if (known->name != e->name.text || known->kind != BINDING_GIVEN) continue;
    if (in->body->values.items[known->value].op != VALUE_INPUT) continue;
    sema_note_name(in->b->program->sema, &e->name, known->span, "input");
    return known->used = true;
  }
  return false;
}

bool call_embed(instance *in, const ast_expr *call, const layer_target *target, sema_operand *out) {
  graph_builder *b = in->b;
  call_settings settings = {.names = {"name"}};
  const char *name = "embedding";
  int64_t symbols;
  if (!read_settings(in, call, 2, &settings) || !stated_axes(in, call, target, 1) ||
      !read_name_setting(in, settings.values[0], &name) ||
      !sema_whole(in->scope, call_positional(call, 1), "the number of symbols", 1, &symbols))
    return false;
  if (!is_token_input(in, call_positional(call, 0)))
    return diag_error(b->diag, call_positional(call, 0)->span,
                      "expected the model's input (the token), found another expression");
  if (b->embedding != NONE)
    return diag_error(b->diag, call->span, "expected one embed in a model, found a second");
  int64_t width = order_elements(in->body, target->order);
  int weight = parameter_add(in, PARAMETER_EMBEDDING, joined_name(b, name, ".weight"), call->span);
  typed_body *shape = ARENA_NEW(b->arena, typed_body);  // the row axis has no name in the source
  for (int i = 0; i < in->body->axes.count; i++)
    vec_push(b->arena, &shape->axes, in->body->axes.items[i]);
  vec_push(b->arena, &shape->axes,
           (typed_axis){.name = intern(b->names, "symbol"), .size = symbols});
  axis_order order = joined_order((axis_order){1, {shape->axes.count - 1}}, target->order);
  parameter_part(in, weight, NULL, shape, order, start_normal(b->arena, 0, 0.02), call->span);
  parameter_shape(b, weight, symbols);
  parameter_shape(b, weight, width);
  int op = add_op(b, OP_EMBED);
  vec_push(b->arena, &b->ops.items[op].uses, (graph_use){weight, 0});
  b->embedding = weight;
  b->embedding_order = trunk_order(in, target->order);
  b->model->vocabulary = (int)symbols;
  *out = operand_of_value(in->scope, add_output(in, op, target->name, target->order));
  return true;
}

static int untied_weight(instance *in, const ast_expr *call, const char *name,
                         const layer_target *target, axis_order x) {
  graph_builder *b = in->b;
  int64_t width = order_elements(in->body, x);
  double bound = 1 / sqrt((double)width);
  int weight = parameter_add(in, PARAMETER_LINEAR, joined_name(b, name, ".weight"), call->span);
  parameter_part(in, weight, NULL, in->body, joined_order(target->order, x),
                 start_uniform(b->arena, -bound, bound), call->span);
  parameter_shape(b, weight, order_elements(in->body, target->order));
  parameter_shape(b, weight, width);
  return weight;
}

bool call_unembed(instance *in, const ast_expr *call, const layer_target *target,
                  sema_operand *out) {
  graph_builder *b = in->b;
  call_settings settings = {.names = {"tied", "name"}};
  bool tied = true;
  const char *name = "unembedding";
  value_id x;
  if (!read_settings(in, call, 1, &settings) || !stated_axes(in, call, target, 1) ||
      !read_switch(in, settings.values[0], &tied) ||
      !read_name_setting(in, settings.values[1], &name) ||
      !real_value(in, call_positional(call, 0), &x))
    return false;
  if (b->embedding == NONE)
    return diag_error(b->diag, call->span, "expected an embed before unembed, found none");
  axis_order order = order_of_set(in->body->values.items[x].axes);
  trunk_row row = header_row(in, x);
  int64_t symbols = order_elements(in->body, target->order);
  if (symbols != b->model->vocabulary ||
      (tied && order_set(row.order) != order_set(b->embedding_order))) {
    return diag_error(b->diag, call->span,
                      "expected %d symbols from axes %s, as embed has them, found %lld from %s",
                      b->model->vocabulary, order_text(b->arena, b->trunk, b->embedding_order),
                      (long long)symbols, order_text(b->arena, b->trunk, row.order));
  }
  if (tied) row.order = b->embedding_order;
  int weight = tied ? b->embedding : untied_weight(in, call, name, target, order);
  int op = add_op(b, OP_LINEAR);
  vec_push(b->arena, &b->ops.items[op].inputs, row);
  vec_push(b->arena, &b->ops.items[op].uses, (graph_use){weight, 0});
  *out = operand_of_value(in->scope, add_output(in, op, target->name, target->order));
  return true;
}

// ---- written out: norms and convolutions -----------------------------------------------------

static value_id append_value(instance *in, typed_value value) {
  return body_append(in->b->arena, in->body, value);
}

static value_id call_number(instance *in, double x) {
  return append_value(in, (typed_value){.op = VALUE_NUMBER, .number = x});
}

static value_id append_binary(instance *in, value_op op, value_id a, value_id b) {
  return append_value(in, (typed_value){.op = op, .args = {a, b, NO_VALUE}});
}

// Some of the axes of x, for a norm or for its weight.
static bool norm_axes(instance *in, const ast_names *names, span where, value_id x,
                      axis_order *order) {
  axis_set set, axes = in->body->values.items[x].axes;
  if (names->count > TYPED_MAX_AXES)
    return diag_error(in->b->diag, where, "expected at most %d axes, found %d", TYPED_MAX_AXES,
                      names->count);
  order->count = names->count;
  if (!sema_axes(in->scope, names, &set, order->axes)) return false;
  if (names->count && !(set & ~axes)) return true;
  return diag_error(in->b->diag, where, "expected axes of the value %s, found %s",
                    set_text(in->b->arena, in->body, axes),
                    order_text(in->b->arena, in->body, *order));
}

// Those of `weight = [..]`, else those of the norm.
static bool norm_weight_axes(instance *in, const ast_expr *setting, value_id x,
                             const axis_order *norm, axis_order *weight) {
  *weight = *norm;
  if (!setting) return true;
  if (setting->kind == AST_AXES)
    return norm_axes(in, &setting->axes.names, setting->span, x, weight);
  return diag_error(in->b->diag, setting->span,
                    "expected axes in brackets, as in weight = [H,D], found '%s'",
                    expr_to_text(in->b->arena, setting));
}

static value_id norm_weight(instance *in, const char *name, double eps, axis_order order,
                            span where) {
  graph_builder *b = in->b;
  int weight = parameter_add(in, PARAMETER_NORM, joined_name(b, name, ".weight"), where);
  b->model->parameters.items[weight].eps = eps;
  parameter_part(in, weight, NULL, in->body, order, start_number(b->arena, 1), where);
  parameter_shape(b, weight, order_elements(in->body, order));
  return instance_add_param(in, "weight", order, (graph_use){weight, 0});
}

static bool call_rms_norm(instance *in, const ast_expr *call, sema_operand *out) {
  call_settings settings = {.names = {"name", "eps", "weight"}};
  const char *name = "norm";
  double eps = 1e-5;
  axis_order over, weight;
  value_id x;
  if (!call->call.axes.count)
    return diag_error(in->b->diag, call->span,
                      "expected the axes of rms_norm, found none; write rms_norm[...](...)");
  if (!read_settings(in, call, 1, &settings) || !read_name_setting(in, settings.values[0], &name) ||
      (settings.values[1] && !sema_constant(in->scope, settings.values[1], "eps", &eps)) ||
      !real_value(in, call_positional(call, 0), &x) ||
      !norm_axes(in, &call->call.axes, call->span, x, &over) ||
      !norm_weight_axes(in, settings.values[2], x, &over, &weight))
    return false;
  value_id w = norm_weight(in, name, eps, weight, call->span);
  value_id squares = append_value(in, (typed_value){.op = VALUE_SUM,
                                                    .args = {append_binary(in, VALUE_MUL, x, x)},
                                                    .over = order_set(over)});
  value_id mean = append_binary(in, VALUE_MUL, squares,
                                call_number(in, 1 / (double)order_elements(in->body, over)));
  value_id scale = append_value(
      in, (typed_value){.op = VALUE_RSQRT,
                        .args = {append_binary(in, VALUE_ADD, mean, call_number(in, eps))}});
  *out = operand_of_value(in->scope,
                          append_binary(in, VALUE_MUL, append_binary(in, VALUE_MUL, x, scale), w));
  return true;
}

typedef struct convolution {
  int axis;  // of the taps
  int64_t width;
  int weight, bias;  // parameters; bias may be NONE
} convolution;

// The axis of the taps: the name that `width =` gives, or a new one.
static bool convolution_axis(instance *in, const ast_expr *width, convolution *c) {
  if (!sema_whole(in->scope, width, "the width", 1, &c->width)) return false;
  for (int i = 0; i < in->body->axes.count; i++)
    if (width->kind == AST_NAME && in->body->axes.items[i].name == width->name.text) {
      c->axis = i;
      return true;
    }
  if (in->body->axes.count == TYPED_MAX_AXES)
    return diag_error(in->b->diag, width->span, "expected at most %d axes in a layer, found more",
                      TYPED_MAX_AXES);
  c->axis = in->body->axes.count;
  in->axes_used |= axis_bit(c->axis);
  const char *name = intern(in->b->names, arena_printf(in->b->arena, "width%d", c->axis));
  vec_push(in->b->arena, &in->body->axes,
           (typed_axis){.name = name, .size = c->width, .span = width->span});
  return true;
}

// One component of a convolution.
static sema_operand convolve(instance *in, const convolution *c, const char *part, value_id x,
                             span where) {
  graph_builder *b = in->b;
  axis_order order = order_of_set(in->body->values.items[x].axes);
  axis_order taps = joined_order(order, (axis_order){1, {c->axis}});
  double bound = 1 / sqrt((double)c->width);
  int64_t first = b->model->parameters.items[c->weight].elements;
  int64_t first_bias = c->bias == NONE ? 0 : b->model->parameters.items[c->bias].elements;
  parameter_part(in, c->weight, part, in->body, taps, start_uniform(b->arena, -bound, bound),
                 where);
  value_id weight = instance_add_param(in, "weight", taps, (graph_use){c->weight, first});
  int lag = in->body->lags.count;
  if (c->width > 1) {
    const char *name =
        part ? arena_printf(b->arena, "%s.%s", b->model->parameters.items[c->weight].lag_name, part)
             : b->model->parameters.items[c->weight].lag_name;
    vec_push(b->arena, &in->body->lags,
             (typed_lag){.name = name,
                         .input = NONE,
                         .source = x,
                         .depth = (int)c->width - 1,
                         .axes = order_set(order)});
  }
  value_id sum = NO_VALUE;
  for (int64_t k = 0; k < c->width; k++) {
    value_id tap = append_value(
        in, (typed_value){.op = VALUE_SLICE, .args = {weight}, .index = c->axis, .steps = (int)k});
    value_id past = k == c->width - 1
                        ? x
                        : append_value(in, (typed_value){.op = VALUE_LAG,
                                                         .index = lag,
                                                         .steps = (int)(c->width - 1 - k)});
    value_id product = append_binary(in, VALUE_MUL, tap, past);
    sum = sum == NO_VALUE ? product : append_binary(in, VALUE_ADD, sum, product);
  }
  if (c->bias != NONE) {
    parameter_part(in, c->bias, part, in->body, order, start_uniform(b->arena, -bound, bound),
                   where);
    sum = append_binary(in, VALUE_ADD, sum,
                        instance_add_param(in, "bias", order, (graph_use){c->bias, first_bias}));
  }
  return operand_of_value(in->scope, sum);
}

bool call_conv1d(instance *in, const ast_expr *call, operands *out) {
  graph_builder *b = in->b;
  call_settings settings = {.names = {"width", "name", "bias"}};
  const char *name = "conv1d";
  bool bias = true;
  convolution c = {.bias = NONE};
  operands xs = {0};
  if (!read_settings(in, call, 1, &settings) || !read_name_setting(in, settings.values[1], &name) ||
      !read_switch(in, settings.values[2], &bias))
    return false;
  if (!settings.values[0])
    return diag_error(b->diag, call->span, "expected width = ... for conv1d, found none");
  const ast_expr *argument = call_positional(call, 0);
  if (!convolution_axis(in, settings.values[0], &c) || !layer_tuple(in, argument, &xs))
    return false;
  c.weight = parameter_add(in, PARAMETER_CONVOLUTION, joined_name(b, name, ".weight"), call->span);
  b->model->parameters.items[c.weight].lag_name = name;
  if (bias)
    c.bias =
        parameter_add(in, PARAMETER_CONVOLUTION_BIAS, joined_name(b, name, ".bias"), call->span);
  int64_t channels = 0;
  for (int i = 0; i < xs.count; i++) {
    const ast_expr *item = argument->kind == AST_TUPLE ? argument->tuple.items.items[i] : argument;
    const char *part = xs.count == 1            ? NULL
                       : item->kind == AST_NAME ? item->name.text
                                                : arena_printf(b->arena, "%d", i);
    if (xs.items[i].complex)
      return diag_error(b->diag, item->span,
                        "expected a real value, found a complex one; take re(..) or im(..)");
    value_id x = sema_value(in->scope, xs.items[i]);
    channels += order_elements(in->body, order_of_set(in->body->values.items[x].axes));
    vec_push(b->arena, out, convolve(in, &c, part, x, item->span));
  }
  parameter_shape(b, c.weight, channels);
  parameter_shape(b, c.weight, 1);
  parameter_shape(b, c.weight, c.width);
  if (bias) parameter_shape(b, c.bias, channels);
  return true;
}

// ---- the hook of sema ------------------------------------------------------------------------

bool layer_call(void *context, sema_scope *scope, const ast_expr *call, sema_operand *result) {
  instance *in = context;
  operands out = {0};
  bool good;
  (void)scope;
  *result = (sema_operand){.kind = OPERAND_ERROR};
  if (call_is(call, "linear") || call_is(call, "embed") || call_is(call, "unembed")) {
    diag_error(in->b->diag, call->span,
               "expected %s as the whole right side of stated axes, found it inside an expression; "
               "write let a[...] = %s(...)",
               call->call.callee.text, call->call.callee.text);
    return true;
  }
  if (call_is(call, "rms_norm")) {
    if (!call_rms_norm(in, call, result)) result->kind = OPERAND_ERROR;
    return true;
  }
  if (call_is(call, "conv1d"))
    good = call_conv1d(in, call, &out);
  else if (!call_item(in, call, &out, &good))
    return false;
  if (good && out.count != 1)
    diag_error(in->b->diag, call->span,
               "expected one value, found %d; bind them by let (a, ...) = ...", out.count);
  else if (good)
    *result = out.items[0];
  return true;
}
