// The weights of a model: their paths, shapes and starts, and what `init` changes about them.
//
//   let (z[G,R,P], dt[G,R]) = linear(u, name = "in_proj")    layers.0.in_proj.weight [260,64]
//                                                              part z: elements 0..16383
//                                                              part dt: elements 16384..16639
//   init calm for Mamba2 { in_proj.dt ~ 0 }                    part dt: number 0
#include <string.h>

#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

// ---- starts of the field ---------------------------------------------------------------------

static int push_start_number(arena *memory, typed_start *start, double number) {
  vec_push(memory, &start->values,
           (start_value){.kind = START_VALUE, .op = VALUE_NUMBER, .number = number});
  return start->values.count - 1;
}

const typed_start *start_number(arena *memory, double number) {
  typed_start *start = ARENA_NEW(memory, typed_start);
  push_start_number(memory, start, number);
  return start;
}

static const typed_start *start_draw(arena *memory, start_kind kind, double first, double second) {
  typed_start *start = ARENA_NEW(memory, typed_start);
  int a = push_start_number(memory, start, first), b = push_start_number(memory, start, second);
  vec_push(memory, &start->values, (start_value){.kind = kind, .args = {a, b}});
  return start;
}

const typed_start *start_uniform(arena *memory, double low, double high) {
  return start_draw(memory, START_UNIFORM, low, high);
}

const typed_start *start_normal(arena *memory, double mean, double deviation) {
  return start_draw(memory, START_NORMAL, mean, deviation);
}

// The start with its axes told by their place in memory order, and sizes as numbers.
static const typed_start *start_resolve(arena *memory, const typed_body *body, axis_order order,
                                        const typed_start *start) {
  if (!start) return NULL;
  typed_start *resolved = ARENA_NEW(memory, typed_start);
  resolved->source = start->source;
  for (int i = 0; i < start->values.count; i++) {
    start_value v = start->values.items[i];
    if (v.kind == START_VALUE && v.op == VALUE_AXIS_SIZE)
      v = (start_value){
          .kind = START_VALUE, .op = VALUE_NUMBER, .number = (double)body->axes.items[v.axis].size};
    if (v.kind == START_INDEX || v.kind == START_LEGS_IMAG || v.kind == START_LEGS_INPUT) {
      int place = 0;
      while (place < order.count && order.axes[place] != v.axis) place++;
      v.axis = place;
    }
    vec_push(memory, &resolved->values, v);
  }
  return resolved;
}

// ---- creating --------------------------------------------------------------------------------

static const graph_parameter *find_path(const graph_model *model, const char *path) {
  for (int i = 0; i < model->parameters.count; i++)
    if (!strcmp(model->parameters.items[i].name, path)) return &model->parameters.items[i];
  return NULL;
}

// A path that a weight of another layer has already taken gets the layer's name in it. The norm
// before a layer is `layers.0.norm.weight`, the norm inside it `layers.0.Mamba2.norm.weight`. Two
// weights of one layer need `name =`.
static const char *free_path(instance *in, const char *local, span where) {
  graph_builder *b = in->b;
  const char *path = arena_printf(b->arena, "%s%s", in->prefix, local);
  const graph_parameter *taken = find_path(b->model, path);
  if (taken && taken->owner != in->item->item && in->component) {
    path = arena_printf(b->arena, "%s%s%s", in->prefix, in->component, local);
    taken = find_path(b->model, path);
  }
  if (!taken) return path;
  diag_error(
      b->diag, where,
      "expected a path of its own for the weight, found '%s' twice; name = \"...\" gives another",
      path);
  diag_note(b->diag, taken->span, "the other one");
  return path;
}

int parameter_add(instance *in, parameter_kind kind, const char *local, span where) {
  graph_builder *b = in->b;
  const char *path = free_path(in, local, where);
  vec_push(b->arena, &b->model->parameters,
           (graph_parameter){.kind = kind,
                             .name = path,
                             .elements = 0,
                             .owner = in->item->item,
                             .local = local,
                             .prefix = in->prefix,
                             .repeat_index = in->repeat_index,
                             .span = where});
  return b->model->parameters.count - 1;
}

void parameter_shape(graph_builder *b, int parameter, int64_t size) {
  graph_parameter *p = &b->model->parameters.items[parameter];
  p->shape[p->rank++] = size;
}

void parameter_complex(graph_builder *b, int parameter, bool complex) {
  const graph_parameter *p = &b->model->parameters.items[parameter];
  if (complex)
    diag_error(b->diag, p->span,
               "expected real weights in a model, found the complex param '%s'; write polar(..) or "
               "complex(..) "
               "of real params",
               p->local);
}

void parameter_part(instance *in, int parameter, const char *name, const typed_body *body,
                    axis_order order, const typed_start *start, span where) {
  graph_builder *b = in->b;
  graph_parameter *p = &b->model->parameters.items[parameter];
  start = start_resolve(b->arena, body, order, start);
  graph_part part = {.name = name,
                     .first = p->elements,
                     .count = order_elements(body, order),
                     .axis_count = order.count,
                     .by_default = start,
                     .start = start,
                     .span = where};
  for (int i = 0; i < order.count; i++) {
    part.axes[i] = body->axes.items[order.axes[i]].name;
    part.sizes[i] = body->axes.items[order.axes[i]].size;
  }
  p->elements += part.count;
  vec_push(b->arena, &p->parts, part);
}

// ---- init ------------------------------------------------------------------------------------

// Does `path` mean part `part` of the parameter? `in_proj` and `in_proj.weight` mean all of its
// parts.
static bool path_means(arena *memory, const graph_parameter *p, const graph_part *part,
                       const char *path) {
  if (!strcmp(path, p->local)) return true;
  size_t length = strlen(p->local);
  const char *weight = ".weight";
  if (length <= strlen(weight) || strcmp(p->local + length - strlen(weight), weight) != 0)
    return false;
  const char *base = arena_strndup(memory, p->local, length - strlen(weight));
  if (!strcmp(path, base)) return true;
  return part->name && !strcmp(path, arena_printf(memory, "%s.%s", base, part->name));
}

bool parameter_named(arena *memory, const graph_parameter *p, const char *path) {
  const graph_part none = {0};
  return !strcmp(path, p->name) || !strcmp(arena_printf(memory, "%s.weight", path), p->name) ||
         path_means(memory, p, &none, path);
}

bool parameter_find_path(arena *memory, const graph_model *model, const graph_parameter *near,
                         const graph_part *own, const char *path, int *parameter, int *part) {
  if (path_means(memory, near, own, path)) {
    *parameter = (int)(near - model->parameters.items);
    *part = (int)(own - near->parts.items);
    return true;
  }
  for (int i = 0; i < model->parameters.count; i++) {
    const graph_parameter *p = &model->parameters.items[i];
    if (p->owner != near->owner || strcmp(p->prefix, near->prefix) != 0) continue;
    for (int k = 0; k < p->parts.count; k++)
      if (path_means(memory, p, &p->parts.items[k], path)) {
        *parameter = i, *part = k;
        return true;
      }
  }
  return false;
}

typedef struct init_run {
  graph_builder *b;
  graph_model *model;
  const ast_item *item;
  const typed_name *name;
  number_binding *bindings;
  int binding_count;
  const graph_parameter *near;  // the weight being started, for paths on the right
  const graph_part *part;
} init_run;

// "A_log, in_proj.weight (x, z)": the weights of a layer or model as an init calls them, those of
// its first instance.
static const char *weights_text(const init_run *run) {
  const char *text = "", *prefix = NULL;
  vec_each(const graph_parameter, p, run->model->parameters) {
    if (!p->owner || p->owner->name.text != run->item->init.target.text) continue;
    if (prefix && strcmp(prefix, p->prefix) != 0) continue;
    prefix = p->prefix;
    const char *parts = "";
    for (int k = 0; k < p->parts.count; k++)
      if (p->parts.items[k].name)
        parts = arena_printf(run->b->arena, "%s%s%s", parts, *parts ? ", " : "",
                             p->parts.items[k].name);
    text = arena_printf(run->b->arena, "%s%s%s%s%s%s", text, *text ? ", " : "", p->local,
                        *parts ? " (" : "", parts, *parts ? ")" : "");
  }
  return *text ? text : "none in this model";
}

static void refuse_weight(const init_run *run, span where, const char *path) {
  diag_error(run->b->diag, where, "expected a weight of '%s', found '%s'; it has %s",
             run->item->init.target.text, path, weights_text(run));
}

static bool known_path(void *context, const ast_expr *path) {
  init_run *run = context;
  int parameter, part;
  const char *text =
      path->kind == AST_NAME ? path->name.text : names_text(run->b->arena, &path->path.steps, ".");
  if (!parameter_find_path(run->b->arena, run->model, run->near, run->part, text, &parameter,
                           &part)) {
    if (path->kind == AST_NAME) return false;  // sema knows better what else a name may be
    refuse_weight(run, path->span, text);
    return true;
  }
  int64_t found = run->model->parameters.items[parameter].parts.items[part].count;
  if (found != run->part->count)
    diag_error(
        run->b->diag, path->span,
        "expected a weight of %lld numbers like the one that starts here, found '%s' of %lld",
        (long long)run->part->count, text, (long long)found);
  return true;
}

// An init's expressions know the numbers of its header and the axes of the weight.
static const typed_start *entry_start(init_run *run, const ast_init_entry *entry,
                                      const graph_part *part) {
  graph_builder *b = run->b;
  typed_body *body = ARENA_NEW(b->arena, typed_body);
  body->name = run->item->name.text;
  body->span = run->item->span;
  axis_order order = {0};
  for (int i = 0; i < part->axis_count; i++) {
    int axis = 0;
    while (axis < body->axes.count && body->axes.items[axis].name != part->axes[i]) axis++;
    if (axis == body->axes.count)
      vec_push(b->arena, &body->axes,
               (typed_axis){.name = part->axes[i], .size = part->sizes[i], .span = part->span});
    order.axes[order.count++] = axis;
  }
  sema_scope *scope = sema_scope_new(b->program->sema, run->name->file, body);
  if (!sema_bind_header(scope, run->name, run->bindings, run->binding_count)) return NULL;
  run->part = part;
  const typed_start *start =
      sema_check_start(scope, entry->start, order_set(order), known_path, run);
  return start_resolve(b->arena, body, order, start);
}

static bool in_layers(const graph_parameter *p, int first, int last) {
  return p->repeat_index == NONE ? last == INT32_MAX
                                 : p->repeat_index >= first && p->repeat_index < last;
}

static void apply_entry(init_run *run, const ast_init_entry *entry, int first, int last) {
  graph_builder *b = run->b;
  const char *path = names_text(b->arena, &entry->path, ".");
  bool found = false;
  vec_each(graph_parameter, p, run->model->parameters) {
    if (!p->owner || p->owner->name.text != run->item->init.target.text) continue;
    vec_each(graph_part, part, p->parts) {
      if (!path_means(b->arena, p, part, path)) continue;
      found = true;
      if (!in_layers(p, first, last)) continue;
      run->near = p;
      part->start = entry_start(run, entry, part);
      if (!part->start) return;
    }
  }
  if (!found) refuse_weight(run, entry->span, path);
}

static bool init_bindings(init_run *run, const ast_expr *setting) {
  graph_builder *b = run->b;
  if (setting->kind != AST_CALL) return true;
  vec_each(const ast_arg, arg, setting->call.args) {
    bool known = false;
    if (arg->kind == AST_ARG_NAMED)
      for (int k = 0; k < run->item->init.header.count; k++)
        known |= run->item->init.header.items[k].name.text == arg->name.text;
    if (!known)
      return diag_error(b->diag, arg->span,
                        "expected a name of the header of init '%s' (%s) with its value, found %s",
                        run->item->name.text, header_text(b->arena, &run->item->init.header),
                        arg->kind == AST_ARG_NAMED ? arena_printf(b->arena, "'%s'", arg->name.text)
                                                   : "another argument");
    sema_scope *scope =
        sema_scope_new(b->program->sema, run->name->file, ARENA_NEW(b->arena, typed_body));
    double number;
    if (!sema_constant(scope, arg->value, "a number of an init", &number)) return false;
    run->bindings[run->binding_count++] = (number_binding){arg->name.text, number};
  }
  return true;
}

bool parameters_init(graph_builder *b, graph_model *model, const ast_expr *setting, int first,
                     int last) {
  const ast_name *name = setting->kind == AST_CALL ? &setting->call.callee : &setting->name;
  if (setting->kind != AST_CALL && setting->kind != AST_NAME)
    return diag_error(b->diag, setting->span,
                      "expected an init, as in mimetic(c = 8), found another expression");
  int errors = diag_error_count(b->diag);
  init_run run = {.b = b, .model = model};
  vec_each(const typed_name, n, b->program->layers)
    if (n->item->kind == AST_INIT && n->name == name->text) run.name = n, run.item = n->item;
  if (!run.item) {
    const char *known = "";
    for (int i = 0; i < b->program->layers.count; i++)
      if (b->program->layers.items[i].item->kind == AST_INIT)
        known = arena_printf(b->arena, "%s%s%s", known, *known ? ", " : "",
                             b->program->layers.items[i].name);
    return diag_error(b->diag, name->span, "expected an init, found '%s'; declared or imported: %s",
                      name->text, *known ? known : "none");
  }
  sema_note_item(b->program->sema, name->span, run.item);
  int count = setting->kind == AST_CALL ? setting->call.args.count : 0;
  run.bindings = ARENA_ARRAY(b->arena, number_binding, count + 1);
  if (!init_bindings(&run, setting)) return false;
  for (int i = 0; i < run.item->init.entries.count; i++)
    apply_entry(&run, &run.item->init.entries.items[i], first, last);
  return diag_error_count(b->diag) == errors;
}

int model_depth(const graph_model *model) {
  int depth = 0;
  for (int i = 0; i < model->states.count; i++)
    if (model->states.items[i].repeat_index >= depth)
      depth = model->states.items[i].repeat_index + 1;
  for (int i = 0; i < model->parameters.count; i++)
    if (model->parameters.items[i].repeat_index >= depth)
      depth = model->parameters.items[i].repeat_index + 1;
  return depth;
}

static void learn_state(graph_builder *b, graph_model *model, graph_state *s) {
  graph_parameter made = {.kind = PARAMETER_STATE,
                          .name = arena_printf(b->arena, "h0.%s", s->name),
                          .elements = s->elements,
                          .prefix = "",
                          .repeat_index = s->repeat_index,
                          .span = model->span};
  made.local = made.name;
  int64_t rest = s->elements;
  for (int i = 0; i < s->axis_count; i++) rest /= s->sizes[i];
  if (s->complex) rest /= 2;
  if (s->lag) made.shape[made.rank++] = rest;  // its depth
  for (int i = 0; i < s->axis_count; i++) made.shape[made.rank++] = s->sizes[i];
  if (s->complex) made.shape[made.rank++] = 2;
  const typed_start *zero = start_number(b->arena, 0);
  vec_push(b->arena, &made.parts,
           (graph_part){.count = s->elements, .by_default = zero, .start = zero});
  s->learned = model->parameters.count;
  vec_push(b->arena, &model->parameters, made);
}

void parameters_learn_states(graph_builder *b, graph_model *model, int first, int last) {
  vec_each(graph_state, s, model->states) {
    bool inside = last == INT32_MAX || (s->repeat_index >= first && s->repeat_index < last);
    if (inside && s->learned == NONE) learn_state(b, model, s);
  }
}

void parameters_check(graph_builder *b, const graph_model *model) {
  for (int i = 0; i < model->parameters.count; i++)
    for (int k = 0; k < model->parameters.items[i].parts.count; k++)
      if (!model->parameters.items[i].parts.items[k].start)
        diag_error(b->diag, model->parameters.items[i].parts.items[k].span,
                   "expected a start for the weight '%s', found none; write ~ after the param, or "
                   "an init that sets it",
                   model->parameters.items[i].local);
}
