// rec info: the models of a library and what is done with them, from the "program" of its manifest.
#include <cjson/cJSON.h>

#include "runtime/command/command.h"

static const char *text_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static double elements_of(const cJSON *parameter) {
  double elements = 1;
  const cJSON *size;
  cJSON_ArrayForEach(size, cJSON_GetObjectItemCaseSensitive(parameter, "shape")) elements *= size->valuedouble;
  return elements;
}

static void print_model(const cJSON *model) {
  const cJSON *item, *size;
  double weights = 0, carried = 0;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(model, "parameters")) weights += elements_of(item);
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(model, "states")) carried += number_of(item, "elements");
  printf("\nmodel %s\n  %.0f weights, %.0f carried numbers a sequence, %.0f numbers a token in training\n",
         text_of(model, "text"), weights, carried, number_of(model, "row"));
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(model, "parameters")) {
    const char *separator = "[";
    printf("    %s ", text_of(item, "name"));
    cJSON_ArrayForEach(size, cJSON_GetObjectItemCaseSensitive(item, "shape")) {
      printf("%s%.0f", separator, size->valuedouble);
      separator = ",";
    }
    printf("%s\n", *separator == ',' ? "]" : "");
  }
}

static void print_train(const cJSON *program, const cJSON *train) {
  const cJSON *model = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(program, "models"), (int)number_of(train, "model"));
  printf("\ntrain %s%s%s: %s%s%s\n", text_of(train, "name"), *text_of(train, "after") ? " after " : "", text_of(train, "after"),
         text_of(model, "text"), *text_of(train, "init") ? ", init " : "", text_of(train, "init"));
  printf("  context %.0f, batch %.0f, steps %.0f, seed %.0f, lr %g, ", number_of(train, "context"), number_of(train, "batch"),
         number_of(train, "steps"), number_of(train, "seed"), number_of(train, "lr"));
  const cJSON *task = cJSON_GetObjectItemCaseSensitive(train, "task");
  if (*text_of(train, "optimizer"))
    printf("optimizer %s (hidden matrices, adamw for other weights), ", text_of(train, "optimizer"));
  if (cJSON_IsObject(task))
    printf("%s\n", text_of(task, "text"));
  else
    printf("text \"%s\"\n", text_of(train, "file"));
}

static void print_evaluate(const cJSON *e) {
  printf("\nevaluate %s after %s:", text_of(e, "name"), text_of(e, "after"));
  if (number_of(e, "perplexity") > 0) printf(" perplexity until %.0f", number_of(e, "perplexity"));
  if (number_of(e, "state_norm") > 0)
    printf("%s state_norm until %.0f", number_of(e, "perplexity") > 0 ? "," : "", number_of(e, "state_norm"));
  const cJSON *lengths = cJSON_GetObjectItemCaseSensitive(e, "accuracy"), *length;
  cJSON_ArrayForEach(length, lengths)
      printf("%s%.0f", length == lengths->child ? " accuracy at lengths " : ", ", length->valuedouble);
  if (number_of(e, "remembrance") > 0)
    printf("%s remembrance at %.0f by %s", number_of(e, "perplexity") > 0 || number_of(e, "state_norm") > 0 ? "," : "",
           number_of(e, "remembrance"), text_of(e, "distance"));
  printf("\n");
}

void print_program(const void *manifest) {
  const cJSON *program = cJSON_GetObjectItemCaseSensitive(manifest, "program"), *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(program, "models")) print_model(item);
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(program, "trains")) print_train(program, item);
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(program, "evaluates")) print_evaluate(item);
}
