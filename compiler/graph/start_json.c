// Starts of parameters as trees of lists, which librec and the modules of torch evaluate.
//
//   ~ log(uniform(1, 16))     ["log", ["uniform", 2, 1, 16]]      2: the draw's place in the start
//   ~ index[N] of B[N,K]      ["index", stride, size]             numbers of entries
//   in_proj.C + in_proj.B     ["add", ["weight", 0, 3], ["weight", 0, 2]]
//
// Numbers stand for themselves, and a name for the size of an axis that calls tell. Further lists:
// ["identity", columns], ["tap", width], ["legs_imag", stride, size, size of the matrix],
// ["ipow", x, n], and the elementwise rows of value_ops.def by their text.
#include <cjson/cJSON.h>

#include "compiler/base/ice.h"
#include "compiler/graph/build.h"

// The axes that the start names by their position, and which of them its parameter has.
typedef struct start_place {
  arena *memory;
  const char *names[TYPED_MAX_AXES];
  int64_t sizes[TYPED_MAX_AXES];
  int own_count, own[TYPED_MAX_AXES];
  const graph_model *model;  // NULL: the parameter of a recurrence by itself
  const graph_parameter *parameter;
  const graph_part *part;
} start_place;

static cJSON *whole(int64_t x) { return cJSON_CreateNumber((double)x); }

static cJSON *named_list(const char *name) {
  cJSON *list = cJSON_CreateArray();
  cJSON_AddItemToArray(list, cJSON_CreateString(name));
  return list;
}

static cJSON *size_json(const start_place *p, int axis) {
  return p->sizes[axis] == TYPED_RUNTIME_SIZE ? cJSON_CreateString(p->names[axis])
                                              : whole(p->sizes[axis]);
}

// The product of the sizes of the parameter's axes from position `first` on.
static cJSON *product_json(const start_place *p, int first) {
  int64_t known = 1;
  cJSON *product = NULL;
  for (int i = first; i < p->own_count; i++)
    if (p->sizes[p->own[i]] != TYPED_RUNTIME_SIZE) known *= p->sizes[p->own[i]];
  for (int i = first; i < p->own_count; i++) {
    if (p->sizes[p->own[i]] != TYPED_RUNTIME_SIZE) continue;
    cJSON *list = named_list("mul");
    cJSON_AddItemToArray(list, product ? product : whole(known));
    cJSON_AddItemToArray(list, size_json(p, p->own[i]));
    product = list;
  }
  return product ? product : whole(known);
}

static cJSON *index_json(const start_place *p, const char *name, int axis) {
  int place = 0;
  while (place < p->own_count - 1 && p->own[place] != axis) place++;
  cJSON *list = named_list(name);
  cJSON_AddItemToArray(list, product_json(p, place + 1));
  cJSON_AddItemToArray(list, p->own_count ? size_json(p, axis) : whole(1));
  return list;
}

// The weight that hands its input through: a matrix of ones on the diagonal, a convolution of its
// last tap.
static cJSON *identity_json(const start_place *p) {
  const graph_parameter *w = p->parameter;
  bool convolution = w && w->kind == PARAMETER_CONVOLUTION;
  cJSON *list = named_list(convolution ? "tap" : "identity");
  if (w)
    cJSON_AddItemToArray(list, whole(w->rank ? w->shape[w->rank - 1] : 1));
  else
    cJSON_AddItemToArray(list, product_json(p, p->own_count - 1));
  return list;
}

static cJSON *other_json(const start_place *p, const char *path) {
  int parameter = 0, part = 0;
  if (!p->model ||
      !parameter_find_path(p->memory, p->model, p->parameter, p->part, path, &parameter, &part))
    ICE("graph", "no weight '%s'", path);
  cJSON *list = named_list("weight");
  cJSON_AddItemToArray(list, whole(parameter));
  cJSON_AddItemToArray(list, whole(part));
  return list;
}

static cJSON *step_json(const start_place *p, const typed_start *start, int step) {
  const start_value *v = &start->values.items[step];
  const char *name = NULL;
  int layers = p->model ? model_depth(p->model) : 1;
  switch (v->kind) {
    case START_VALUE:
      if (v->op == VALUE_NUMBER) return cJSON_CreateNumber(v->number);
      if (v->op == VALUE_AXIS_SIZE) return size_json(p, v->axis);
      name = value_op_text(v->op);
      break;
    case START_INDEX: return index_json(p, "index", v->axis);
    case START_LEGS_IMAG:
    case START_LEGS_INPUT: {
      cJSON *legs = index_json(p, v->kind == START_LEGS_IMAG ? "legs_imag" : "legs_input", v->axis);
      cJSON_AddItemToArray(legs, step_json(p, start, v->args[0]));
      return legs;
    }
    case START_LAYER:
      return whole(p->model && p->parameter->repeat_index != NONE ? p->parameter->repeat_index : 0);
    case START_LAYERS: return whole(layers > 0 ? layers : 1);
    case START_IDENTITY: return identity_json(p);
    case START_OTHER_DRAW: return other_json(p, v->path);
    case START_UNIFORM: name = "uniform"; break;
    case START_LOGUNIFORM: name = "loguniform"; break;
    case START_NORMAL: name = "normal"; break;
    case START_INV_SOFTPLUS: name = "inv_softplus"; break;
  }
  cJSON *list = named_list(name);
  if (v->kind == START_UNIFORM || v->kind == START_LOGUNIFORM || v->kind == START_NORMAL)
    cJSON_AddItemToArray(list, whole(step));
  for (int i = 0; i < start_arity(v); i++)
    cJSON_AddItemToArray(list, step_json(p, start, v->args[i]));
  if (v->kind == START_VALUE && v->op == VALUE_WHOLE_POWER)
    cJSON_AddItemToArray(list, whole(v->exponent));
  return list;
}

cJSON *part_start_json(arena *memory, const graph_model *model, const graph_parameter *parameter,
                       const graph_part *part, const typed_start *start) {
  if (!start) return cJSON_CreateNull();
  start_place place = {.memory = memory,
                       .own_count = part->axis_count,
                       .model = model,
                       .parameter = parameter,
                       .part = part};
  for (int i = 0; i < part->axis_count; i++) {
    place.names[i] = part->axes[i];
    place.sizes[i] = part->sizes[i];
    place.own[i] = i;
  }
  return step_json(&place, start, start->values.count - 1);
}

cJSON *tensor_start_json(arena *memory, const typed_body *body, const typed_tensor *tensor) {
  if (!tensor->start) return cJSON_CreateNull();
  start_place place = {.memory = memory, .own_count = tensor->axis_count};
  for (int i = 0; i < body->axes.count; i++) {
    place.names[i] = body->axes.items[i].name;
    place.sizes[i] = body->axes.items[i].size;
  }
  for (int i = 0; i < tensor->axis_count; i++) place.own[i] = tensor->axes[i];
  return step_json(&place, tensor->start, tensor->start->values.count - 1);
}
