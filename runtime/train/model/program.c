// From the manifest's JSON to the structures of program.h. Numbers out of range are refused here,
// so that nothing later asks.
#include "runtime/train/model/program.h"

#include "compiler/abi/json.h"

#include <string.h>

typedef struct reader {
  rec_blocks blocks;
  rec_status status;
  const char *what;  // the object being read, for the message
  const char *list;  // the last that was begun
  train_program *program;
  train_model *model;          // whose lists are being read
  int64_t first_of_next_part;  // of the parameter being read
} reader;

static void *reader_memory(reader *r, size_t count, size_t size) {
  void *memory = rec_blocks_take(&r->blocks, (count ? count : 1) * size);
  if (!memory && !r->status) r->status = rec_no_memory();
  return memory;
}

static void wrong_key(reader *r, const char *key) {
  if (!r->status)
    r->status = rec_fail(REC_ERROR_FORMAT,
                         "expected a library made by recc, found one whose %s has no proper '%s'",
                         r->what, key);
}

static int64_t whole_item(reader *r, const cJSON *item, const char *key, int64_t least,
                          int64_t most) {
  if (cJSON_IsNumber(item) && item->valuedouble >= (double)least &&
      item->valuedouble <= (double)most)
    return (int64_t)item->valuedouble;
  wrong_key(r, key);
  return least;
}

enum { ANY_INT = 0x7fffffff, MOST_LENGTH = 1 << 24 };
static const int64_t most_elements = (int64_t)1 << 48;

static int64_t whole_member(reader *r, const cJSON *object, const char *key, int64_t least,
                            int64_t most) {
  return whole_item(r, json_get(object, key), key, least, most);
}

static double real_member(reader *r, const cJSON *object, const char *key) {
  const cJSON *item = json_get(object, key);
  if (!cJSON_IsNumber(item)) wrong_key(r, key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *text(reader *r, const cJSON *object, const char *key, bool optional) {
  const cJSON *item = json_get(object, key);
  if (cJSON_IsString(item)) return item->valuestring;
  if (!optional) wrong_key(r, key);
  return optional ? NULL : "";
}

static bool json_flag(const cJSON *object, const char *key) {
  return cJSON_IsTrue(json_get(object, key));
}

// The list `key`, its length in *count; room for `size` bytes an entry.
static void *open_json_list(reader *r, const cJSON *object, const char *key, size_t size,
                            const cJSON **items, int *count) {
  *items = json_get(object, key);
  *count = 0;
  if (!cJSON_IsArray(*items)) return wrong_key(r, key), NULL;
  int length = cJSON_GetArraySize(*items);
  void *memory = reader_memory(r, (size_t)length, size);
  if (memory) *count = length;
  return memory;
}

typedef void read_entry(reader *r, const cJSON *item, void *entry);

static void *json_list(reader *r, const cJSON *object, const char *key, size_t size, int *count,
                       read_entry *read) {
  const cJSON *items, *item;
  char *memory = open_json_list(r, object, key, size, &items, count), *entry = memory;
  r->list = key;
  if (memory) cJSON_ArrayForEach(item, items) read(r, item, entry), entry += size;
  return memory;
}

static void read_name_item(reader *r, const cJSON *item, void *entry) {
  *(const char **)entry = cJSON_IsString(item) ? item->valuestring : (wrong_key(r, r->list), "");
}

static const int *int_list(reader *r, const cJSON *object, const char *key, int least, int most,
                           int *count) {
  const cJSON *items, *item;
  int *numbers = open_json_list(r, object, key, sizeof *numbers, &items, count), i = 0;
  if (numbers)
    cJSON_ArrayForEach(item, items) numbers[i++] = (int)whole_item(r, item, key, least, most);
  return numbers;
}

// The place of a name in a list of `count`.
static int named(reader *r, const cJSON *object, const char *key, const char *const *names,
                 int count) {
  const char *name = text(r, object, key, false);
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name)) return i;
  wrong_key(r, key);
  return 0;
}

// ---- models -------------------------------------------------------------------------------------

static void read_model_part(reader *r, const cJSON *object, void *entry) {
  model_part *part = entry;
  *part = (model_part){whole_member(r, object, "first", 0, most_elements),
                       whole_member(r, object, "count", 0, most_elements),
                       json_get(object, "default"), json_get(object, "start")};
  if (part->first != r->first_of_next_part) wrong_key(r, "first");
  r->first_of_next_part = part->first + part->count;
}

static void read_parameter_shape(reader *r, const cJSON *object, model_parameter *p) {
  const cJSON *items, *item;
  int64_t *shape = open_json_list(r, object, "shape", sizeof *shape, &items, &p->rank);
  p->elements = 1;
  p->shape = shape;
  if (shape) cJSON_ArrayForEach(item, items) {
      *shape = whole_item(r, item, "shape", 0, most_elements);
      if (!rec_multiply(p->elements, *shape, &p->elements) || p->elements > most_elements)
        wrong_key(r, "shape"), p->elements = 0;
      shape++;
    }
}

static int64_t aligned(int64_t elements) { return (elements + 15) / 16 * 16; }

static void read_parameter(reader *r, const cJSON *object, void *entry) {
  model_parameter *p = entry;
  train_model *m = r->model;
  p->kind = (parameter_kind)named(r, object, "kind", parameter_kind_names, PARAMETER_KINDS);
  p->name = text(r, object, "name", false);
  p->eps = json_get(object, "eps") ? real_member(r, object, "eps") : 0;
  p->decays = parameter_kind_decays[p->kind];
  read_parameter_shape(r, object, p);
  r->first_of_next_part = 0;
  p->parts = json_list(r, object, "parts", sizeof *p->parts, &p->part_count, read_model_part);
  if (p->parts && r->first_of_next_part != p->elements) wrong_key(r, "parts");
  p->place = m->parameter_elements;
  m->parameter_elements += aligned(p->elements);
  m->weight_count += p->elements;
  if (p->elements > m->largest_parameter) m->largest_parameter = p->elements;
}

// The product of all axes but the last two; a complex element is two numbers of one head.
static int64_t heads_of(reader *r, const cJSON *object, int64_t elements) {
  const cJSON *axes = json_get(object, "axes");
  int64_t heads = 1;
  for (int i = 0; i < cJSON_GetArraySize(axes) - 2; i++) {
    int64_t size =
        whole_item(r, cJSON_GetArrayItem(cJSON_GetArrayItem(axes, i), 1), "axes", 1, most_elements);
    if (!rec_multiply(heads, size, &heads)) wrong_key(r, "axes");
    if (r->status) return 1;
  }
  if (elements % heads) wrong_key(r, "axes");
  return heads;
}

// Axes and their strides; `unit` numbers are an element, and what is left before the axes is the
// depth of a tail.
static void read_state_axes(reader *r, const cJSON *object, model_state *s) {
  const cJSON *axes = json_get(object, "axes");
  int64_t stride = json_flag(object, "complex") ? 2 : 1;
  s->axis_count = cJSON_GetArraySize(axes);
  if (s->axis_count > MOST_STATE_AXES) wrong_key(r, "axes"), s->axis_count = 0;
  for (int i = s->axis_count - 1; i >= 0; i--) {
    const cJSON *axis = cJSON_GetArrayItem(axes, i), *name = cJSON_GetArrayItem(axis, 0);
    int64_t size = whole_item(r, cJSON_GetArrayItem(axis, 1), "axes", 1, most_elements);
    s->axes[i] = (state_axis){cJSON_IsString(name) ? name->valuestring : "", size, stride};
    if (!rec_multiply(stride, size, &stride) || stride > most_elements)
      wrong_key(r, "axes"), stride = 1;
  }
  if (s->elements % stride) wrong_key(r, "axes");
}

static int64_t list_number(const cJSON *list, int place) {
  const cJSON *item = cJSON_GetArrayItem(list, place);
  return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : -1;
}

// Every number that a state takes lies in the parameter.
static void read_state_begin(reader *r, const cJSON *object, model_state *s) {
  const cJSON *begin = json_get(object, "begin"),
              *number = begin ? json_get(begin, "number") : NULL;
  model_begin *to = &s->begin;
  *to = (model_begin){.given = begin != NULL, .parameter = -1};
  for (int i = 0; begin && i < 2 && number; i++) {
    const cJSON *part = cJSON_GetArrayItem(number, i);
    if (!cJSON_IsNumber(part)) wrong_key(r, "begin");
    to->number[i] = cJSON_IsNumber(part) ? part->valuedouble : 0;
  }
  if (!begin || number) return;
  const cJSON *use = json_get(begin, "use"), *strides = json_get(begin, "strides");
  int64_t parameter = list_number(use, 0), last = to->first = list_number(use, 1);
  if (parameter < 0 || parameter >= r->model->parameter_count || last < 0 || last > most_elements) {
    wrong_key(r, "begin");
    return;
  }
  to->parameter = (int)parameter;
  last += s->parts - 1;
  for (int i = 0; i < s->axis_count; i++) {
    int64_t stride = to->strides[i] = list_number(strides, i);
    if (stride < 0 || stride > most_elements) wrong_key(r, "begin");
    last += (s->axes[i].size - 1) * stride;
  }
  if (last >= r->model->parameters[parameter].elements) wrong_key(r, "begin");
}

static void read_model_state(reader *r, const cJSON *object, void *entry) {
  model_state *s = entry;
  train_model *m = r->model;
  *s = (model_state){
      .name = text(r, object, "name", false),
      .elements = whole_member(r, object, "elements", 0, most_elements),
      .place = m->state_elements,
      .lag = json_flag(object, "lag"),
      .counter = json_flag(object, "counter"),
      .layer = (int)whole_member(r, object, "layer", -1, ANY_INT),
      .heads = heads_of(r, object, whole_member(r, object, "elements", 0, most_elements)),
      .head_elements = whole_member(r, object, "head_elements", 1, ANY_INT),
      .parts = json_flag(object, "complex") ? 2 : 1,
      .learned = (int)whole_member(r, object, "learned", -1, m->parameter_count - 1)};
  if (s->learned >= 0 && m->parameters[s->learned].elements != s->elements) wrong_key(r, "learned");
  read_state_axes(r, object, s);
  read_state_begin(r, object, s);
  int64_t round;
  if (!rec_multiply(s->heads, s->head_elements, &round) || s->elements % round)
    wrong_key(r, "head_elements");
  m->state_elements += aligned(s->elements);
}

static void read_tensor_place(reader *r, const cJSON *item, void *entry) {
  int64_t n[4];
  for (int i = 0; i < 4; i++)
    n[i] = whole_item(r, cJSON_GetArrayItem(item, i), "tensors", 0, most_elements);
  const cJSON *name = cJSON_GetArrayItem(item, 4);
  *(model_tensor *)entry =
      (model_tensor){n[0], n[1], n[2], n[3], cJSON_IsString(name) ? name->valuestring : ""};
  if (!cJSON_IsString(name) || n[2] + n[3] > n[1] || n[0] + n[1] > r->model->row)
    wrong_key(r, "tensors");
}

static void read_use(reader *r, const cJSON *item, void *entry) {
  *(model_use *)entry = (model_use){
      (int)whole_item(r, cJSON_GetArrayItem(item, 0), "use", 0, r->model->parameter_count - 1),
      whole_item(r, cJSON_GetArrayItem(item, 1), "use", 0, most_elements)};
}

static void read_op(reader *r, const cJSON *object, void *entry) {
  model_op *op = entry;
  const train_model *m = r->model;
  op->kind = (model_op_kind)named(r, object, "op", model_op_names, OP_LOSS + 1);
  op->kernel = (int)whole_member(r, object, "kernel", op->kind == OP_CALL ? 0 : -1,
                                 r->program->kernel_count - 1);
  op->in = int_list(r, object, "in", 0, m->tensor_count - 1, &op->in_count);
  op->out = int_list(r, object, "out", 0, m->tensor_count - 1, &op->out_count);
  op->row = (int)whole_member(r, object, "row", op->kind == OP_LINEAR ? 0 : NO_TENSOR,
                              m->tensor_count - 1);
  op->states = int_list(r, object, "states", 0, m->state_count - 1, &op->state_count);
  op->uses = json_list(r, object, "use", sizeof *op->uses, &op->use_count, read_use);
  static const int least[][2] = {
      [OP_EMBED] = {0, 1}, [OP_LINEAR] = {1, 1}, [OP_CALL] = {0, 0}, [OP_LOSS] = {1, 0}};
  if (op->in_count < least[op->kind][0] || op->use_count < least[op->kind][1] ||
      (op->kind == OP_EMBED && op->out_count < 1))
    wrong_key(r, "op");
}

static void read_model_step(reader *r, const cJSON *object, void *entry) {
  model_step *step = entry;
  const train_model *m = r->model;
  if (r->status) return;
  const cJSON *add = json_get(object, "add"), *zero = json_get(object, "zero");
  if (cJSON_IsArray(add)) {
    step->kind = STEP_ADD;
    step->to = (int)whole_item(r, cJSON_GetArrayItem(add, 0), "add", 0, m->tensor_count - 1);
    step->from = (int)whole_item(r, cJSON_GetArrayItem(add, 1), "add", 0, m->tensor_count - 1);
    return;
  }
  if (zero) {
    step->kind = STEP_ZERO;
    step->to = (int)whole_item(r, zero, "zero", 0, m->tensor_count - 1);
    return;
  }
  step->kind = STEP_OF;
  step->op = (int)whole_member(r, object, "of", 0, m->op_count - 1);
  step->d_in = int_list(r, object, "din", NO_TENSOR, m->tensor_count - 1, &step->in_count);
  step->d_out = int_list(r, object, "dout", NO_TENSOR, m->tensor_count - 1, &step->out_count);
  step->add_use = int_list(r, object, "add_use", 0, 1, &step->use_count);
  step->add = json_flag(object, "add");
  if (r->status) return;
  const model_op *op = &m->ops[step->op];
  bool call = op->kind == OP_CALL;
  if (step->in_count != op->in_count || step->out_count != (call ? op->out_count : 1) ||
      step->use_count != (call ? op->use_count : 0))
    wrong_key(r, "backward");
}

// Kernels set the gradients of their parameters, the other operations add to those of matrices.
static void find_sums(const train_model *m, model_parameter *parameters, model_step *steps,
                      bool *begun) {
  for (int i = 0; i < m->step_count; i++) {
    if (steps[i].kind != STEP_OF) continue;
    const model_op *op = &m->ops[steps[i].op];
    bool adds = op->kind == OP_LINEAR || op->kind == OP_EMBED;
    if (adds && !begun[op->uses[0].parameter])
      steps[i].begins_sum = parameters[op->uses[0].parameter].begun_by_sum = true;
    for (int k = 0; k < op->use_count; k++) begun[op->uses[k].parameter] = true;
  }
}

static void read_manifest_model(reader *r, const cJSON *object, void *entry) {
  train_model *m = r->model = entry;
  r->what = "model";
  m->json = object;
  m->name = text(r, object, "name", false);
  m->text = text(r, object, "text", false);
  m->vocabulary = whole_member(r, object, "vocabulary", 1, MOST_SYMBOLS);
  m->row = whole_member(r, object, "row", 0, most_elements);
  model_parameter *parameters = json_list(r, object, "parameters", sizeof *m->parameters,
                                          &m->parameter_count, read_parameter);
  m->parameters = parameters;
  m->states = json_list(r, object, "states", sizeof *m->states, &m->state_count, read_model_state);
  m->tensors =
      json_list(r, object, "tensors", sizeof *m->tensors, &m->tensor_count, read_tensor_place);
  m->logits = (int)whole_member(r, object, "logits", 0, m->tensor_count - 1);
  m->ops = json_list(r, object, "ops", sizeof *m->ops, &m->op_count, read_op);
  model_step *steps =
      json_list(r, object, "backward", sizeof *m->steps, &m->step_count, read_model_step);
  m->steps = steps;
  bool *begun = reader_memory(r, (size_t)m->parameter_count, sizeof *begun);
  if (!r->status) find_sums(m, parameters, steps, begun);
  r->what = "program";
}

// ---- blocks -------------------------------------------------------------------------------------

static number_ramp read_ramp_item(reader *r, const cJSON *item, const char *key) {
  const cJSON *from = cJSON_GetArrayItem(item, 0), *to = cJSON_GetArrayItem(item, 1);
  if (cJSON_IsNumber(from) && cJSON_IsNumber(to))
    return (number_ramp){from->valuedouble, to->valuedouble};
  wrong_key(r, key);
  return (number_ramp){0};
}

static void read_ramp_entry(reader *r, const cJSON *item, void *entry) {
  *(number_ramp *)entry = read_ramp_item(r, item, "ramps");
}

static void read_choice(reader *r, const cJSON *object, void *entry) {
  state_choice *c = entry;
  *c = (state_choice){
      .kind = (intervention_kind)named(r, object, "kind", intervention_names, INTERVENTION_KINDS),
      .weight = real_member(r, object, "weight")};
  c->number = read_ramp_item(r, json_get(object, "number"), "number");
  c->ramps = json_list(r, object, "ramps", sizeof *c->ramps, &c->ramp_count, read_ramp_entry);
}

static void read_intervention(reader *r, const cJSON *object, void *entry) {
  intervention *v = entry;
  v->from = whole_member(r, object, "from", 0, ANY_INT);
  v->to = whole_member(r, object, "to", 0, ANY_INT);
  v->first_layer = (int)whole_member(r, object, "first_layer", 0, ANY_INT);
  v->last_layer = (int)whole_member(r, object, "last_layer", 0, ANY_INT);
  v->choices = json_list(r, object, "mix", sizeof *v->choices, &v->choice_count, read_choice);
  v->has_per = cJSON_IsArray(json_get(object, "per"));
  if (v->has_per)
    v->per = json_list(r, object, "per", sizeof *v->per, &v->per_count, read_name_item);
}

// Bounded so that no count of tokens overflows.
static void read_train_task(reader *r, const cJSON *object, train_block *b) {
  const cJSON *t = json_get(object, "task");
  b->generated = cJSON_IsObject(t);
  if (!b->generated) return;
  b->task = (train_task){.kind = task_find(text(r, t, "kind", false)),
                         .shortest = whole_member(r, t, "shortest", 1, MOST_LENGTH),
                         .length = whole_member(r, t, "length", 1, MOST_LENGTH),
                         .alphabet = whole_member(r, t, "alphabet", 1, MOST_SYMBOLS - 2),
                         .count = whole_member(r, t, "count", 1, MOST_LENGTH),
                         .all = json_flag(t, "all")};
  if (b->task.kind == TASK_KINDS) wrong_key(r, "kind"), b->task.kind = TASK_COPYING;
  if (b->task.kind == TASK_MQAR && b->task.count >= b->task.alphabet / 2) wrong_key(r, "count");
  if (b->task.kind == TASK_BABI &&
      (b->task.count > MOST_BABI_FACTS || b->task.count < (b->task.alphabet == 2 ? 2 : 1)))
    wrong_key(r, "count");
}

static void read_train_source(reader *r, const cJSON *object, train_source *s) {
  const cJSON *o = json_get(object, "source");
  int bits = json_get(o, "bits") ? (int)whole_member(r, o, "bits", 16, 64) : 0;
  if (bits & (bits - 1)) wrong_key(r, "bits");
  *s = (train_source){
      .kind = (source_kind)named(r, o, "tokens", source_names, SOURCES),
      .format = (token_format)named(r, o, "format", token_format_names, TOKEN_FORMATS),
      .bits = bits,
      .split = real_member(r, o, "split"),
      .streaming = json_flag(o, "streaming"),
      .apart = json_flag(o, "apart"),
      .separator = whole_member(r, o, "separator", -1, MOST_SYMBOLS)};
}

// Where none is named it is AdamW, as in libraries of before there was another.
static void read_optimizer(reader *r, const cJSON *object, train_block *b) {
  const char *names[OPTIMIZERS];
  for (int i = 0; i < OPTIMIZERS; i++) names[i] = optimizer_rules_of[i].name;
  b->optimizer = json_get(object, "optimizer")
                     ? (optimizer_kind)named(r, object, "optimizer", names, OPTIMIZERS)
                     : OPTIMIZER_ADAMW;
  const char *own = optimizer_rules_of[b->optimizer].own;
  b->optimizer_own = own ? real_member(r, object, own) : 0;
}

static void read_label_weight(reader *r, const cJSON *item, void *entry) {
  const cJSON *weight = cJSON_GetArrayItem(item, 1);
  if (!cJSON_IsNumber(weight)) wrong_key(r, "label_weights");
  *(weighted_label *)entry = (weighted_label){
      (int)whole_item(r, cJSON_GetArrayItem(item, 0), "label_weights", 0, r->model->vocabulary - 1),
      weight ? weight->valuedouble : 1};
}

static void read_recipe(reader *r, const cJSON *object, train_block *b) {
  b->schedule = (schedule_kind)named(r, object, "schedule", schedule_names, SCHEDULE_KINDS);
  if (json_get(object, "exchange"))
    b->exchange = (exchange_kind)named(r, object, "exchange", exchange_names, EXCHANGE_KINDS);
  read_optimizer(r, object, b);
  b->no_decay =
      int_list(r, object, "no_decay", 0, r->model->parameter_count - 1, &b->no_decay_count);
  if (b->accumulate > b->batch) wrong_key(r, "accumulate");
  if (b->context % b->segments || (b->segments > 1 && b->context / b->segments % SEGMENT_STEPS))
    wrong_key(r, "segments");
  if (b->warmup + b->decay > b->steps) wrong_key(r, "decay");
  b->labels =
      json_list(r, object, "label_weights", sizeof *b->labels, &b->label_count, read_label_weight);
}

static void read_train_block(reader *r, const cJSON *object, void *entry) {
  train_block *b = entry;
  r->what = "train block";
  *b = (train_block){.json = object,
                     .name = text(r, object, "name", false),
                     .after = text(r, object, "after", true),
                     .init = text(r, object, "init", true),
                     .file = text(r, object, "file", cJSON_IsObject(json_get(object, "task"))),
                     .model = (int)whole_member(r, object, "model", 0, r->program->model_count - 1),
                     .context = whole_member(r, object, "context", 1, ANY_INT),
                     .batch = whole_member(r, object, "batch", 1, ANY_INT),
                     .steps = whole_member(r, object, "steps", 1, ANY_INT),
                     .warmup = whole_member(r, object, "warmup", 0, ANY_INT),
                     .decay = whole_member(r, object, "decay", 0, ANY_INT),
                     .accumulate = whole_member(r, object, "accumulate", 1, ANY_INT),
                     .segments = json_get(object, "segments")
                                     ? whole_member(r, object, "segments", 1, ANY_INT)
                                     : 1,
                     .loss_from = whole_member(r, object, "loss_from", 0, ANY_INT),
                     .loss_rest = real_member(r, object, "loss_rest"),
                     .seed = (uint64_t)whole_member(r, object, "seed", 0, MOST_SEED),
                     .rate = real_member(r, object, "lr"),
                     .beta1 = real_member(r, object, "beta1"),
                     .beta2 = real_member(r, object, "beta2"),
                     .epsilon = real_member(r, object, "eps"),
                     .weight_decay = real_member(r, object, "weight_decay"),
                     .clip = real_member(r, object, "clip"),
                     .floor = real_member(r, object, "floor")};
  read_train_source(r, object, &b->source);
  read_train_task(r, object, b);
  if (r->status) return;
  r->model = (train_model *)&r->program->models[b->model];
  read_recipe(r, object, b);
  b->interventions = json_list(r, object, "initial_state", sizeof *b->interventions,
                               &b->intervention_count, read_intervention);
}

static void read_evaluate(reader *r, const cJSON *object, void *entry) {
  evaluate_block *e = entry;
  *e = (evaluate_block){
      .name = text(r, object, "name", false),
      .after = text(r, object, "after", false),
      .until = whole_member(r, object, "perplexity", 0, ANY_INT),
      .state_until = whole_member(r, object, "state_norm", 0, ANY_INT),
      .remembrance = whole_member(r, object, "remembrance", 0, ANY_INT),
      .tolerance = real_member(r, object, "tolerance"),
      .attention = whole_member(r, object, "attention", 0, 4096),
      .overflow = whole_member(r, object, "overflow", 0, 4096),
      .learned = json_flag(object, "learned"),
      .distance = (distance_kind)named(r, object, "distance", distance_names, DISTANCE_KINDS)};
  e->lengths = int_list(r, object, "accuracy", 1, MOST_LENGTH, &e->length_count);
}

static void read_lists(reader *r, const cJSON *json, train_program *p) {
  r->what = "program";
  p->kernels = json_list(r, json, "kernels", sizeof *p->kernels, &p->kernel_count, read_name_item);
  p->models = json_list(r, json, "models", sizeof *p->models, &p->model_count, read_manifest_model);
  p->blocks = json_list(r, json, "trains", sizeof *p->blocks, &p->block_count, read_train_block);
  r->what = "evaluate block";
  p->evaluates =
      json_list(r, json, "evaluates", sizeof *p->evaluates, &p->evaluate_count, read_evaluate);
}

const model_parameter *train_model_parameter(const train_model *model, const char *name) {
  for (int i = 0; i < model->parameter_count; i++)
    if (!strcmp(model->parameters[i].name, name)) return &model->parameters[i];
  return NULL;
}

const train_block *train_program_block(const train_program *program, const char *name) {
  for (int i = 0; i < program->block_count; i++)
    if (!strcmp(program->blocks[i].name, name)) return &program->blocks[i];
  return NULL;
}

const char *train_block_unit(const train_block *block) {
  return source_units[block->generated ? SOURCE_TOKENS : block->source.kind];
}

// Perplexity is of text, accuracy of a task.
static void check_evaluate(reader *r, const evaluate_block *e, const train_block *judged) {
  if (!judged)
    wrong_key(r, "after");
  else if (judged->generated ? e->until + e->state_until > 0 : e->length_count > 0)
    wrong_key(r, judged->generated ? "perplexity" : "accuracy");
}

// A block or evaluation must refer to an earlier block.
static void check_order(reader *r, const train_program *p) {
  for (int i = 0; i < p->block_count; i++) {
    const train_block *before =
        p->blocks[i].after ? train_program_block(p, p->blocks[i].after) : NULL;
    if (p->blocks[i].after && (!before || before >= &p->blocks[i])) wrong_key(r, "after");
  }
  for (int i = 0; i < p->evaluate_count; i++)
    check_evaluate(r, &p->evaluates[i], train_program_block(p, p->evaluates[i].after));
}

rec_status train_program_read(const cJSON *json, train_program **program) {
  reader r = {0};
  *program = NULL;
  train_program *p = r.program = reader_memory(&r, 1, sizeof *p);
  if (p) read_lists(&r, json, p);
  if (p && !r.status) check_order(&r, p);
  if (!r.status) {
    p->memory = r.blocks;
    *program = p;
    return REC_OK;
  }
  rec_blocks_free(&r.blocks);
  return r.status;
}

void train_program_free(train_program *program) {
  rec_blocks memory = program ? program->memory : (rec_blocks){0};
  rec_blocks_free(&memory);
}
