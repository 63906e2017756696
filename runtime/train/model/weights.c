// A start is a tree of lists (compiler/graph/json.c), which is read once and evaluated for each
// number. Every draw is a function of the seed, the weight's path, the element's position and the
// draw's place in the expression. A weight thus starts the same beside any other weights.
#include "runtime/train/model/weights.h"

#include <math.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/sema/typed.h"
#include "runtime/train/data/random.h"
#include "runtime/train/model/legs.h"

typedef enum weight_kind {
  WEIGHT_NUMBER,
  WEIGHT_OPERATION,  // of the language, on real numbers
  WEIGHT_POWER,
  WEIGHT_INV_SOFTPLUS,
  WEIGHT_INDEX,
  WEIGHT_IDENTITY,
  WEIGHT_TAP,
  WEIGHT_NORMAL,
  WEIGHT_UNIFORM,
  WEIGHT_LOGUNIFORM,
  WEIGHT_LEGS_IMAG,
  WEIGHT_LEGS_INPUT,
  WEIGHT_OTHER,
  WEIGHT_KINDS
} weight_kind;

static const struct {
  const char *name;
  int operands;
} weight_kinds[WEIGHT_KINDS] = {
    [WEIGHT_POWER] = {"ipow", 2},
    [WEIGHT_INV_SOFTPLUS] = {"inv_softplus", 1},
    [WEIGHT_INDEX] = {"index", 2},
    [WEIGHT_IDENTITY] = {"identity", 1},
    [WEIGHT_TAP] = {"tap", 1},
    [WEIGHT_NORMAL] = {"normal", 3},
    [WEIGHT_UNIFORM] = {"uniform", 3},
    [WEIGHT_LOGUNIFORM] = {"loguniform", 3},
    [WEIGHT_LEGS_IMAG] = {"legs_imag", 3},
    [WEIGHT_LEGS_INPUT] = {"legs_input", 3},
    [WEIGHT_OTHER] = {"weight", 2},
};

typedef struct start_run start_run;

typedef struct weight_node {
  weight_kind kind;
  double number;
  value_function *function;
  int operand_count;
  struct weight_node *operands[3];
  start_run *other;        // WEIGHT_OTHER: the start of that weight
  const double *spectrum;  // WEIGHT_LEGS_..: of as many entries as operand 2 says
} weight_node;

struct start_run {
  const train_model *model;        // or, of a parameter of a recurrence by itself,
  const rec_signature *signature;  // whose axes have these sizes
  const int64_t *sizes;
  const model_parameter *parameter;
  const model_part *part;
  uint64_t seed, stream;
  rec_blocks *memory;
  weight_node *expression;
  int64_t element;  // in the part
  const char *unknown;
  bool is_other;  // the default start of a weight, which refers to no further one
};

enum { DRAWS_OF_A_NUMBER = 4096, DEEPEST = 1000 };

// ---- reading ---------------------------------------------------------------------------------

static weight_node *read_start(start_run *r, const cJSON *e, int depth);

static weight_node *fail_start(start_run *r, const char *unknown) {
  if (!r->unknown) r->unknown = unknown;
  return NULL;
}

static weight_node *number_node(start_run *r, double number) {
  weight_node *n = rec_blocks_take(r->memory, sizeof *n);
  if (n) n->number = number;
  return n;
}

static weight_node *axis_size(start_run *r, const char *name) {
  for (int i = 0; r->signature && i < r->signature->axis_count; i++)
    if (!strcmp(r->signature->axes[i].name, name)) return number_node(r, (double)r->sizes[i]);
  return fail_start(r, name);
}

static bool find_kind(const char *name, weight_node *n) {
  for (int kind = 0; kind < WEIGHT_KINDS; kind++) {
    if (!weight_kinds[kind].name || strcmp(weight_kinds[kind].name, name) != 0) continue;
    n->kind = (weight_kind)kind;
    n->operand_count = weight_kinds[kind].operands;
    return true;
  }
  value_op op = value_op_find(name);
  value_class class = op == VALUE_OP_COUNT ? CLASS_LEAF : value_op_class(op);
  if (class != CLASS_REAL && class != CLASS_FIELD && class != CLASS_COMPARE) return false;
  n->kind = WEIGHT_OPERATION;
  n->operand_count = value_arity(op);
  n->function = value_function_of(op);
  return true;
}

// The same draw as the other weight's default start.
static weight_node *read_other(start_run *r, weight_node *n, int depth) {
  double parameter = n->operands[0]->number, part = n->operands[1]->number;
  bool known = r->model && !r->is_other && parameter >= 0 &&
               parameter < r->model->parameter_count && part >= 0 &&
               part < r->model->parameters[(int)parameter].part_count;
  if (!known) return fail_start(r, "weight");
  n->other = rec_blocks_take(r->memory, sizeof *n->other);
  if (!n->other) return NULL;
  *n->other = *r;
  n->other->is_other = true;
  n->other->parameter = &r->model->parameters[(int)parameter];
  n->other->part = &n->other->parameter->parts[(int)part];
  n->other->stream = random_stream(n->other->parameter->name);
  n->other->expression = read_start(n->other, n->other->part->by_default, depth);
  r->unknown = n->other->unknown;
  return n->other->expression ? n : NULL;
}

// The spectrum of HiPPO-LegS.
static weight_node *read_legs(start_run *r, weight_node *n) {
  const weight_node *size = n->operands[2];
  if (size->kind != WEIGHT_NUMBER || !(size->number >= 1 && size->number <= 4096))
    return fail_start(r, "size of HiPPO-LegS");
  int64_t entries = (int64_t)size->number;
  double *imaginary = rec_blocks_list(r->memory, 2 * entries, sizeof *imaginary);
  if (!imaginary) return NULL;
  legs_spectrum((int)entries, imaginary, imaginary + entries);
  n->spectrum = n->kind == WEIGHT_LEGS_INPUT ? imaginary + entries : imaginary;
  return n;
}

static double evaluate_start(start_run *r, const weight_node *n);

static weight_node *read_list(start_run *r, const cJSON *e, const char *name, int depth) {
  weight_node *n = number_node(r, 0);
  if (!n) return NULL;
  if (!find_kind(name, n)) return fail_start(r, name);
  bool fixed = n->kind <= WEIGHT_INV_SOFTPLUS, numbers = true;
  for (int i = 0; i < n->operand_count; i++) {
    n->operands[i] = read_start(r, cJSON_GetArrayItem(e, i + 1), depth);
    if (!n->operands[i]) return NULL;
    numbers &= n->operands[i]->kind == WEIGHT_NUMBER;
  }
  if (n->kind == WEIGHT_LEGS_IMAG || n->kind == WEIGHT_LEGS_INPUT) return read_legs(r, n);
  if (n->kind == WEIGHT_OTHER) return numbers ? read_other(r, n, depth) : fail_start(r, name);
  return fixed && numbers ? number_node(r, evaluate_start(r, n)) : n;
}

// NULL: there is something unknown, or no memory.
static weight_node *read_start(start_run *r, const cJSON *e, int depth) {
  if (cJSON_IsNumber(e)) return number_node(r, e->valuedouble);
  if (cJSON_IsString(e)) return axis_size(r, e->valuestring);
  const cJSON *head = cJSON_GetArrayItem(e, 0);
  if (!cJSON_IsString(head) || depth > DEEPEST) return fail_start(r, "expression");
  return read_list(r, e, head->valuestring, depth + 1);
}

// ---- evaluating ------------------------------------------------------------------------------

// A library may name any number as the draw; one that no int64_t holds counts as 0.
static uint64_t draw_position(const start_run *r, double draw) {
  int64_t number = draw > -0x1p63 && draw < 0x1p63 ? (int64_t)draw : 0;
  return (uint64_t)(r->part->first + r->element) * DRAWS_OF_A_NUMBER + (uint64_t)number;
}

static int64_t at_least_one(double x) { return x >= 1 && x < 1e15 ? (int64_t)x : 1; }

// The entry of an axis that the number belongs to. The axis has x[1] entries, x[0] numbers apart.
static int64_t place_on_axis(const start_run *r, const double *x) {
  return r->element / at_least_one(x[0]) % at_least_one(x[1]);
}

static double spectrum_entry(start_run *r, const weight_node *n, const double *x) {
  int64_t place = place_on_axis(r, x);
  if (place < (int64_t)x[2]) return n->spectrum[place];
  fail_start(r, "size of HiPPO-LegS");
  return 0;
}

static double evaluate_other(start_run *r, start_run *other) {
  other->element = r->element;
  double x = evaluate_start(other, other->expression);
  if (other->unknown) r->unknown = other->unknown;
  return x;
}

static double evaluate_start(start_run *r, const weight_node *n) {
  if (n->kind == WEIGHT_NUMBER) return n->number;
  double x[3] = {0};
  for (int i = 0; i < n->operand_count; i++) x[i] = evaluate_start(r, n->operands[i]);
  switch (n->kind) {
    case WEIGHT_OPERATION: return n->function(x);
    case WEIGHT_POWER: return pow(x[0], x[1]);
    case WEIGHT_INV_SOFTPLUS: return x[0] + log(-expm1(-x[0]));
    case WEIGHT_INDEX: return (double)place_on_axis(r, x);
    case WEIGHT_IDENTITY: return r->element / at_least_one(x[0]) == r->element % at_least_one(x[0]);
    case WEIGHT_TAP: return r->element % at_least_one(x[0]) == at_least_one(x[0]) - 1;
    case WEIGHT_NORMAL:
      return x[1] + x[2] * random_normal(r->seed, r->stream, draw_position(r, x[0]));
    case WEIGHT_UNIFORM:
      return x[1] + (x[2] - x[1]) * random_uniform(r->seed, r->stream, draw_position(r, x[0]));
    case WEIGHT_LOGUNIFORM:
      return exp(log(x[1]) + (log(x[2]) - log(x[1])) *
                                 random_uniform(r->seed, r->stream, draw_position(r, x[0])));
    case WEIGHT_LEGS_IMAG:
    case WEIGHT_LEGS_INPUT: return spectrum_entry(r, n, x);
    case WEIGHT_OTHER: return evaluate_other(r, n->other);
    default: ICE("weights", "a start of kind %d", (int)n->kind);
  }
}

static rec_status start_part(start_run *r, const numeric *n, void *block) {
  if (!r->part->start || cJSON_IsNull(r->part->start))
    return rec_fail(REC_ERROR_ARGUMENT, "expected a start for the weight '%s', found none",
                    r->parameter->name);
  rec_blocks memory = {0};
  r->memory = &memory;
  r->expression = read_start(r, r->part->start, 0);
  for (r->element = 0; r->expression && r->element < r->part->count; r->element++)
    n->store(block, r->parameter->place + r->part->first + r->element,
             evaluate_start(r, r->expression));
  bool failed = memory.failed;
  rec_blocks_free(&memory);
  if (failed) return rec_no_memory();
  if (!r->unknown) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: the start has an unknown '%s'", r->parameter->name,
                  r->unknown);
}

rec_status train_weights_start(const train_model *model, uint64_t seed, const numeric *n,
                               void *block) {
  for (int i = 0; i < model->parameter_count; i++) {
    const model_parameter *p = &model->parameters[i];
    for (int k = 0; k < p->part_count; k++) {
      start_run r = {.model = model,
                     .parameter = p,
                     .part = &p->parts[k],
                     .seed = seed,
                     .stream = random_stream(p->name)};
      rec_status status = start_part(&r, n, block);
      if (status) return status;
    }
  }
  return REC_OK;
}

rec_status parameter_start(const rec_signature *signature, int variable, const cJSON *start,
                           const int64_t *sizes, const numeric *n, void *numbers) {
  const rec_variable *v = &signature->variables[variable];
  const model_part part = {.count = rec_variable_numbers(signature, variable, sizes),
                           .start = start};
  const model_parameter parameter = {.name = v->name};
  start_run r = {.signature = signature,
                 .sizes = sizes,
                 .parameter = &parameter,
                 .part = &part,
                 .stream = random_stream(v->name)};
  return start_part(&r, n, numbers);
}
