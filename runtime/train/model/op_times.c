#include "runtime/train/model/op_times.h"

#include <stdlib.h>

#include "runtime/json_file.h"

static const double US = 1e-6;

static rec_status read_time(const char *path, const cJSON *json, const char *key, bool needed,
                            double *seconds) {
  double us = 0;
  rec_status status =
      needed || json_get(json, key) ? json_real(path, json, key, 0, 1e12, &us) : REC_OK;
  *seconds = us * US;
  return status;
}

static const char *const part_keys[RUN_PARTS] = {
    [RAN_FORWARD] = "forward_us", [RAN_BACKWARD] = "backward_us",
    [RAN_SUMMARY] = "summary_us", [RAN_SUMMARY_BACKWARD] = "summary_backward_us",
    [RAN_FOLD] = "fold_us",       [RAN_FOLD_BACKWARD] = "fold_backward_us"};

// All recurrences have them.
static bool is_always_run(run_part part) { return part == RAN_FORWARD || part == RAN_BACKWARD; }

double op_times_of(const op_times *times, int op, run_part part, double amount) {
  double of_one = times->of[op].of[part];
  return part == RAN_FOLD || part == RAN_FOLD_BACKWARD ? of_one * amount
                                                       : of_one * amount / (double)times->tokens;
}

static rec_status read_op(const char *path, const cJSON *json, op_time *of) {
  rec_status status = REC_OK;
  for (int part = 0; !status && part < RUN_PARTS; part++)
    status = read_time(path, json, part_keys[part], is_always_run(part), &of->of[part]);
  return status;
}

static rec_status read_ops(const char *path, const cJSON *list, const train_model *m,
                           op_times *times) {
  int found = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
  if (found != m->op_count)
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected %d \"operations\", as the model %s has, found %d", path,
                    m->op_count, m->name, found);
  times->of = calloc((size_t)found, sizeof *times->of);
  if (!times->of) return rec_no_memory();
  times->count = found;
  rec_status status = REC_OK;
  op_time *of = times->of;
  for (const cJSON *item = list->child; !status && item; item = item->next)
    status = read_op(path, item, of++);
  return status;
}

rec_status op_times_read(const char *path, const train_model *model, op_times *times) {
  cJSON *json;
  double tokens = 0;
  *times = (op_times){0};
  rec_status status = json_read_file(path, &json);
  if (status) return status;
  status = json_real(path, json, "tokens", 1, 0x1p53, &tokens);
  times->tokens = (int64_t)tokens;
  if (!status) status = read_ops(path, json_get(json, "operations"), model, times);
  if (!status) status = read_time(path, json_get(json, "weight"), "sum_us", true, &times->sum);
  if (!status) status = read_time(path, json_get(json, "weight"), "step_us", true, &times->step);
  cJSON_Delete(json);
  if (status) op_times_free(times);
  return status;
}

void op_times_free(op_times *times) {
  free(times->of);
  *times = (op_times){0};
}

// What people know an operation by: a weight or a state of it, or the recurrence.
static const char *name_of_operation(const trained_model *of, const model_op *op) {
  if (op->kind == OP_LOSS) return "loss";
  if (op->state_count) return of->model->states[op->states[0]].name;
  return op->use_count ? of->model->parameters[op->uses[0].parameter].name
                       : of->kernels[op->kernel].signature->name;
}

static void describe_op(const op_time *t, const char *name, cJSON *list) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToArray(list, item);
  cJSON_AddStringToObject(item, "name", name);
  for (int part = 0; part < RUN_PARTS; part++)
    if (is_always_run(part) || t->of[part] > 0)
      cJSON_AddNumberToObject(item, part_keys[part], t->of[part] / US);
}

void op_times_describe(const op_times *times, const trained_model *of, cJSON *object) {
  cJSON_AddNumberToObject(object, "tokens", (double)times->tokens);
  cJSON *list = cJSON_AddArrayToObject(object, "operations"),
        *weight = cJSON_AddObjectToObject(object, "weight");
  for (int i = 0; i < times->count; i++)
    describe_op(&times->of[i], name_of_operation(of, &of->model->ops[i]), list);
  cJSON_AddNumberToObject(weight, "sum_us", times->sum / US);
  cJSON_AddNumberToObject(weight, "step_us", times->step / US);
}
