// rec info: the models of a library and what is done with them, from the "program" of its manifest.

#include <string.h>

#include "compiler/abi/closed_sets.h"
#include "compiler/abi/json.h"
#include "runtime/command/command.h"

static double number_item(const cJSON *object, const char *key) {
  const cJSON *item = json_get(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static double json_elements(const cJSON *parameter) {
  double elements = 1;
  const cJSON *size;
  cJSON_ArrayForEach(size, json_get(parameter, "shape")) elements *= size->valuedouble;
  return elements;
}

static double model_weights(const cJSON *model) {
  double weights = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, json_get(model, "parameters")) weights += json_elements(item);
  return weights;
}

static double carried_of(const cJSON *model) {
  double carried = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, json_get(model, "states")) carried += number_item(item, "elements");
  return carried;
}

static void print_model(const cJSON *model) {
  const cJSON *item, *size;
  printf(
      "\nmodel %s\n  %.0f weights, %.0f carried numbers a sequence, %.0f numbers a token in "
      "training\n",
      json_text(model, "text"), model_weights(model), carried_of(model), number_item(model, "row"));
  cJSON_ArrayForEach(item, json_get(model, "parameters")) {
    const char *separator = "[";
    printf("    %s ", json_text(item, "name"));
    cJSON_ArrayForEach(size, json_get(item, "shape")) {
      printf("%s%.0f", separator, size->valuedouble);
      separator = ",";
    }
    printf("%s\n", *separator == ',' ? "]" : "");
  }
}

// AdamW is not named.
static void print_optimizer(const char *name) {
  for (int i = 0; i < OPTIMIZERS; i++) {
    const optimizer_rules *rules = &optimizer_rules_of[i];
    if (strcmp(rules->name, name) != 0) continue;
    printf("optimizer %s%s, ", name,
           rules->matrices ? " (hidden matrices, adamw for other weights)" : "");
  }
}

static void print_train_info(const cJSON *program, const cJSON *train) {
  const cJSON *model =
      cJSON_GetArrayItem(json_get(program, "models"), (int)number_item(train, "model"));
  printf("\ntrain %s%s%s: %s%s%s\n", json_text(train, "name"),
         *json_text(train, "after") ? " after " : "", json_text(train, "after"),
         json_text(model, "text"), *json_text(train, "init") ? ", init " : "",
         json_text(train, "init"));
  printf("  context %.0f", number_item(train, "context"));
  if (number_item(train, "segments") > 1)
    printf(" in %.0f segments", number_item(train, "segments"));
  if (*json_text(train, "exchange")) printf(" by %s", json_text(train, "exchange"));
  printf(", batch %.0f, steps %.0f, seed %.0f, lr %g, ", number_item(train, "batch"),
         number_item(train, "steps"), number_item(train, "seed"), number_item(train, "lr"));
  const cJSON *task = json_get(train, "task");
  print_optimizer(json_text(train, "optimizer"));
  if (cJSON_IsObject(task))
    printf("%s\n", json_text(task, "text"));
  else
    printf("text \"%s\"\n", json_text(train, "file"));
}

static void print_evaluate(const cJSON *e) {
  printf("\nevaluate %s after %s:", json_text(e, "name"), json_text(e, "after"));
  if (number_item(e, "perplexity") > 0)
    printf(" perplexity until %.0f", number_item(e, "perplexity"));
  if (number_item(e, "state_norm") > 0)
    printf("%s state_norm until %.0f", number_item(e, "perplexity") > 0 ? "," : "",
           number_item(e, "state_norm"));
  const cJSON *lengths = json_get(e, "accuracy"), *length;
  cJSON_ArrayForEach(length, lengths) printf(
      "%s%.0f", length == lengths->child ? " accuracy at lengths " : ", ", length->valuedouble);
  if (number_item(e, "remembrance") > 0)
    printf("%s remembrance at %.0f by %s",
           number_item(e, "perplexity") > 0 || number_item(e, "state_norm") > 0 ? "," : "",
           number_item(e, "remembrance"), json_text(e, "distance"));
  printf("\n");
}

void count_program(void *manifest) {
  cJSON *model;
  cJSON_ArrayForEach(model, json_get(json_get(manifest, "program"), "models")) {
    cJSON_AddNumberToObject(model, "weight_count", model_weights(model));
    cJSON_AddNumberToObject(model, "carried_count", carried_of(model));
  }
}

void print_program(const void *manifest) {
  const cJSON *program = json_get(manifest, "program"), *item;
  cJSON_ArrayForEach(item, json_get(program, "models")) print_model(item);
  cJSON_ArrayForEach(item, json_get(program, "trains")) print_train_info(program, item);
  cJSON_ArrayForEach(item, json_get(program, "evaluates")) print_evaluate(item);
}
