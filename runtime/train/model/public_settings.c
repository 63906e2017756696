#include "runtime/train/model/public_settings.h"

#include "runtime/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cJSON *config_setting(const settings *s, const char *key) { return json_get(s->object, key); }

bool config_is_absent(const settings *s, const char *key) {
  const cJSON *item = config_setting(s, key);
  return !item || cJSON_IsNull(item);
}

void config_refuse(settings *s, const char *key, const char *expected) {
  if (s->status) return;
  const cJSON *item = config_setting(s, key);
  char *found = item ? cJSON_PrintUnformatted(item) : NULL;
  s->status =
      rec_fail(REC_ERROR_UNSUPPORTED, "config.json: expected %s for '%s', found %.100s", expected, key, found ? found : "none");
  cJSON_free(found);
}

int64_t config_whole(settings *s, const char *key, int64_t by_default) {
  if (config_is_absent(s, key) && by_default >= 0) return by_default;
  const cJSON *item = config_setting(s, key);
  double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
  if (!(x >= 1 && x <= 1 << 24) || x != floor(x)) config_refuse(s, key, "a whole number");
  return s->status ? 1 : (int64_t)x;
}

static double config_number(settings *s, const char *key, double by_default) {
  if (config_is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  if (cJSON_IsNumber(item)) return item->valuedouble;
  config_refuse(s, key, "a number");
  return by_default;
}

int64_t config_multiple(settings *s, const char *key, double by_default, int64_t size) {
  double x = config_number(s, key, by_default) * (double)size + 1e-4;  // 3 * 1.3333333 is 4
  if (!(x >= 1 && x <= 1 << 24)) config_refuse(s, key, "a number that makes a size");
  return s->status ? 1 : (int64_t)x;
}

bool config_flag(settings *s, const char *key, bool by_default) {
  if (config_is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  if (!cJSON_IsBool(item)) config_refuse(s, key, "true or false");
  return cJSON_IsTrue(item);
}

double config_eps(settings *s, const char *key, double by_default) {
  double eps = config_number(s, key, by_default);
  if (!(eps > 0 && eps < 1)) config_refuse(s, key, "a number between 0 and 1");
  return eps;
}

const char *config_function(settings *s, const char *key, const char *by_default) {
  static const struct {
    const char *public, *name;
  } functions[] = {{"silu", "silu"}, {"swish", "silu"}, {"relu", "relu"}, {"sigmoid", "sigmoid"}, {"tanh", "tanh"}};
  if (config_is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  for (size_t i = 0; cJSON_IsString(item) && i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(item->valuestring, functions[i].public)) return functions[i].name;
  config_refuse(s, key, "silu, swish, relu, sigmoid or tanh");
  return by_default;
}

void config_must_be(settings *s, const char *key, bool by_default, bool wanted) {
  if (config_flag(s, key, by_default) != wanted) config_refuse(s, key, wanted ? "true" : "false");
}

void config_must_be_absent(settings *s, const char *key) {
  const cJSON *item = config_setting(s, key);
  bool empty_list = cJSON_IsArray(item) && !item->child;
  if (!config_is_absent(s, key) && !empty_list) config_refuse(s, key, "nothing");
}

void config_must_be_word(settings *s, const char *key, const char *word) {
  const cJSON *item = config_setting(s, key);
  bool same = cJSON_IsString(item) && !strcmp(item->valuestring, word);
  if (!config_is_absent(s, key) && !same) config_refuse(s, key, word);
}

// JSON has no infinity. Python writes Infinity, transformers from 5 on {"__float__": "Infinity"}.
static bool is_unbounded(const cJSON *item) {
  const cJSON *marked = json_get(item, "__float__");
  if (marked) item = marked;
  if (cJSON_IsNumber(item)) return item->valuedouble > 1e6;
  return item && item->valuestring && !strcmp(item->valuestring, "Infinity");
}

void config_must_not_bound(settings *s, const char *key) {
  const cJSON *item = config_setting(s, key), *least = cJSON_GetArrayItem(item, 0);
  if (config_is_absent(s, key)) return;
  bool from_zero = cJSON_IsNumber(least) && least->valuedouble == 0;
  if (!from_zero || !is_unbounded(cJSON_GetArrayItem(item, 1))) config_refuse(s, key, "[0, Infinity]");
}

const char *shortest_text(double x, char text[SHORTEST_TEXT]) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, SHORTEST_TEXT, "%.*g", digits, x);
    if (strtod(text, NULL) == x) break;
  }
  return text;
}
