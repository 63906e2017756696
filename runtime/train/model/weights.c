// A start is a tree of lists (compiler/graph/json.c). Every draw is a function of the seed, the
// weight's path, the element's position and the draw's place in the expression. A weight thus
// starts the same beside any other weights.
#include "runtime/train/model/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sema/typed.h"
#include "runtime/train/data/random.h"
#include "runtime/train/model/legs.h"

typedef struct start_run {
  const train_model *model;        // or, of a parameter of a recurrence by itself,
  const rec_signature *signature;  // whose axes have these sizes
  const int64_t *sizes;
  const model_parameter *parameter;
  const model_part *part;
  uint64_t seed, stream;
  int64_t element;  // in the part
  const char *unknown;
  int legs_size;  // of the spectrum that was asked for last
  double *legs;   // imaginary parts, then inputs
} start_run;

enum { DRAWS_OF_A_NUMBER = 4096, DEEPEST = 1000 };

static double evaluate_weight(start_run *r, const cJSON *e, int depth);

static double argument(start_run *r, const cJSON *e, int place, int depth) {
  return evaluate_weight(r, cJSON_GetArrayItem(e, place), depth);
}

static uint64_t draw_position(const start_run *r, int64_t draw) {
  return (uint64_t)(r->part->first + r->element) * DRAWS_OF_A_NUMBER + (uint64_t)draw;
}

// The same draw as the other weight's default start.
static double other_weight(start_run *r, const cJSON *e, int depth) {
  int64_t parameter = (int64_t)argument(r, e, 1, depth), part = (int64_t)argument(r, e, 2, depth);
  if (!r->model || parameter < 0 || parameter >= r->model->parameter_count || part < 0 ||
      part >= r->model->parameters[parameter].part_count) {
    r->unknown = "weight";
    return 0;
  }
  start_run other = *r;
  other.parameter = &r->model->parameters[parameter];
  other.part = &other.parameter->parts[part];
  other.stream = random_stream(other.parameter->name);
  other.legs = NULL, other.legs_size = 0;
  double x = evaluate_weight(&other, other.part->by_default, depth);
  free(other.legs);
  if (other.unknown) r->unknown = other.unknown;
  return x;
}

// Entry `place` of the spectrum of HiPPO-LegS, which is kept for the entries that follow.
static double legs(start_run *r, bool input, int64_t place, double size) {
  if (!(size >= 1 && size <= 4096) || place >= (int64_t)size) {
    r->unknown = "size of HiPPO-LegS";
    return 0;
  }
  if (r->legs_size != (int)size) {
    double *grown = realloc(r->legs, 2 * (size_t)size * sizeof *grown);
    if (!grown) {
      r->unknown = "spectrum, for want of memory";
      return 0;
    }
    r->legs = grown;
    r->legs_size = (int)size;
    legs_spectrum(r->legs_size, grown, grown + r->legs_size);
  }
  return r->legs[place + (input ? r->legs_size : 0)];
}

static double axis_size(start_run *r, const char *name) {
  for (int i = 0; r->signature && i < r->signature->axis_count; i++)
    if (!strcmp(r->signature->axes[i].name, name)) return (double)r->sizes[i];
  r->unknown = name;
  return 0;
}

static int64_t at_least_one(double x) { return x >= 1 && x < 1e15 ? (int64_t)x : 1; }

static double special(start_run *r, const cJSON *e, const char *name, int depth) {
  if (!strcmp(name, "weight")) return other_weight(r, e, depth);
  double a = argument(r, e, 1, depth);
  if (!strcmp(name, "index"))
    return (double)(r->element / at_least_one(a) % at_least_one(argument(r, e, 2, depth)));
  if (!strncmp(name, "legs_", 5))
    return legs(r, !strcmp(name, "legs_input"),
                r->element / at_least_one(a) % at_least_one(argument(r, e, 2, depth)),
                argument(r, e, 3, depth));
  if (!strcmp(name, "identity"))
    return r->element / at_least_one(a) == r->element % at_least_one(a);
  if (!strcmp(name, "tap")) return r->element % at_least_one(a) == at_least_one(a) - 1;
  if (!strcmp(name, "inv_softplus")) return a + log(-expm1(-a));
  double low = argument(r, e, 2, depth), high = argument(r, e, 3, depth);
  if (!strcmp(name, "normal"))
    return low + high * random_normal(r->seed, r->stream, draw_position(r, (int64_t)a));
  double u = random_uniform(r->seed, r->stream, draw_position(r, (int64_t)a));
  if (!strcmp(name, "uniform")) return low + (high - low) * u;
  return exp(log(low) + (log(high) - log(low)) * u);
}

static double evaluate_weight(start_run *r, const cJSON *e, int depth) {
  static const char *const specials[] = {"weight",       "index",     "identity", "tap",
                                         "inv_softplus", "normal",    "uniform",  "loguniform",
                                         "legs_imag",    "legs_input"};
  if (cJSON_IsNumber(e)) return e->valuedouble;
  if (cJSON_IsString(e)) return axis_size(r, e->valuestring);
  const cJSON *head = cJSON_GetArrayItem(e, 0);
  if (!cJSON_IsString(head) || depth > DEEPEST) {
    r->unknown = "expression";
    return 0;
  }
  const char *name = head->valuestring;
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (!strcmp(specials[i], name)) return special(r, e, name, depth + 1);
  if (!strcmp(name, "ipow")) return pow(argument(r, e, 1, depth + 1), argument(r, e, 2, depth + 1));
  value_op op = value_op_find(name);
  value_class class = op == VALUE_OP_COUNT ? CLASS_LEAF : value_op_class(op);
  if (class == CLASS_REAL || class == CLASS_FIELD || class == CLASS_COMPARE) {
    double x[3] = {0};
    for (int i = 0; i < value_arity(op); i++) x[i] = argument(r, e, i + 1, depth + 1);
    return value_function_of(op)(x);
  }
  r->unknown = name;
  return 0;
}

static rec_status start_part(start_run *r, const numeric *n, void *block) {
  if (!r->part->start || cJSON_IsNull(r->part->start))
    return rec_fail(REC_ERROR_ARGUMENT, "expected a start for the weight '%s', found none",
                    r->parameter->name);
  for (r->element = 0; r->element < r->part->count; r->element++)
    n->store(block, r->parameter->place + r->part->first + r->element,
             evaluate_weight(r, r->part->start, 0));
  free(r->legs);
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
