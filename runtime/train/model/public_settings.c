#include "runtime/train/model/public_settings.h"

#include <math.h>
#include <string.h>

#include "compiler/abi/json.h"
#include "compiler/base/text.h"

const cJSON *config_setting(const settings *s, const char *key) {
  const cJSON *inner =
      s->writer == BY_STATE_SPACES ? json_get(json_get(s->read, "ssm_cfg"), key) : NULL;
  return inner ? inner : json_get(s->read, key);
}

bool config_has(const settings *s, const char *key) { return config_setting(s, key) != NULL; }

static bool is_absent(const settings *s, const char *key) {
  const cJSON *item = config_setting(s, key);
  return !item || cJSON_IsNull(item);
}

static void refuse_setting(settings *s, const char *key, const char *expected) {
  if (s->status) return;
  const cJSON *item = config_setting(s, key);
  char *found = item ? cJSON_PrintUnformatted(item) : NULL;
  s->status = rec_fail(REC_ERROR_UNSUPPORTED, "config.json: expected %s for '%s', found %.100s",
                       expected, key, found ? found : "none");
  cJSON_free(found);
}

static int64_t read_config_whole(settings *s, const char *key, int64_t by_default) {
  if (is_absent(s, key) && by_default >= 0) return by_default;
  const cJSON *item = config_setting(s, key);
  double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
  if (!(x >= 1 && x <= 1 << 24) || x != floor(x)) refuse_setting(s, key, "a whole number");
  return s->status ? 1 : (int64_t)x;
}

static double read_setting_number(settings *s, const char *key, double by_default) {
  if (is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  if (cJSON_IsNumber(item)) return item->valuedouble;
  refuse_setting(s, key, "a number");
  return by_default;
}

static int64_t read_multiple(settings *s, const char *key, double by_default, int64_t size) {
  double x = read_setting_number(s, key, by_default) * (double)size + 1e-4;  // 3 * 1.3333333 is 4
  if (!(x >= 1 && x <= 1 << 24)) refuse_setting(s, key, "a number that makes a size");
  return s->status ? 1 : (int64_t)x;
}

bool config_read_flag(settings *s, const char *key, bool by_default) {
  if (is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  if (!cJSON_IsBool(item)) refuse_setting(s, key, "true or false");
  return cJSON_IsTrue(item);
}

static double read_eps(settings *s, const char *key, double by_default) {
  double eps = read_setting_number(s, key, by_default);
  if (!(eps > 0 && eps < 1)) refuse_setting(s, key, "a number between 0 and 1");
  return eps;
}

const char *config_function(settings *s, const char *key, const char *by_default) {
  static const struct {
    const char *public, *name;
  } functions[] = {{"silu", "silu"},
                   {"swish", "silu"},
                   {"relu", "relu"},
                   {"sigmoid", "sigmoid"},
                   {"tanh", "tanh"}};
  if (is_absent(s, key)) return by_default;
  const cJSON *item = config_setting(s, key);
  for (size_t i = 0; cJSON_IsString(item) && i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(item->valuestring, functions[i].public)) return functions[i].name;
  refuse_setting(s, key, "silu, swish, relu, sigmoid or tanh");
  return by_default;
}

void config_must(settings *s, const char *key, bool right, const char *expected) {
  if (s->read && !right) refuse_setting(s, key, expected);
}

void config_must_be(settings *s, const char *key, bool wanted) {
  if (config_read_flag(s, key, wanted) != wanted) refuse_setting(s, key, wanted ? "true" : "false");
}

void config_must_be_absent(settings *s, const char *key) {
  const cJSON *item = config_setting(s, key);
  bool empty_list = cJSON_IsArray(item) && !item->child;
  if (!is_absent(s, key) && !empty_list) refuse_setting(s, key, "nothing");
}

void config_must_be_word(settings *s, const char *key, const char *word) {
  const cJSON *item = config_setting(s, key);
  bool same = cJSON_IsString(item) && !strcmp(item->valuestring, word);
  if (!is_absent(s, key) && !same) refuse_setting(s, key, word);
}

void config_must_be_silu(settings *s, const char *key) {
  if (strcmp(config_function(s, key, "silu"), "silu") != 0) refuse_setting(s, key, "silu");
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
  if (is_absent(s, key)) return;
  bool from_zero = cJSON_IsNumber(least) && least->valuedouble == 0;
  if (!from_zero || !is_unbounded(cJSON_GetArrayItem(item, 1)))
    refuse_setting(s, key, "[0, Infinity]");
}

// ---- both directions ----------------------------------------------------------------------------

// Without a size no config can be told: some of the weights have other names.
void config_tell_size(settings *s, const char *key, int64_t size) {
  if (!s->told) return;
  if (size < 1) s->status = REC_ERROR_UNSUPPORTED;
  cJSON_AddNumberToObject(s->told, key, (double)size);
}

void config_tell_flag(settings *s, const char *key, bool on) {
  if (s->told) cJSON_AddBoolToObject(s->told, key, on);
}

void config_tell_word(settings *s, const char *key, const char *word) {
  if (s->told) cJSON_AddStringToObject(s->told, key, word);
}

// Python shall read a float though the number may be whole.
static void tell_real(settings *s, const char *key, double x) {
  char text[SHORTEST_TEXT + 2];
  if (!s->told) return;
  shortest_text(x, text);
  if (!strpbrk(text, ".e")) strcat(text, ".0");
  cJSON_AddRawToObject(s->told, key, text);
}

void config_size(settings *s, int64_t *value, const char *key, int64_t by_default, int64_t told) {
  *value = s->read ? read_config_whole(s, key, by_default) : told;
  config_tell_size(s, key, *value);
}

void config_open_size(settings *s, int64_t *value, const char *key, int64_t by_default,
                      int64_t told) {
  *value = s->read && !told ? read_config_whole(s, key, by_default) : told;
  config_tell_size(s, key, *value);
}

void config_automatic_size(settings *s, int64_t *value, const char *key, int64_t by_default,
                           int64_t told) {
  bool there = cJSON_IsNumber(config_setting(s, key));
  *value = there ? read_config_whole(s, key, NEEDED) : s->read && !told ? by_default : told;
  config_tell_size(s, key, *value);
}

void config_ratio(settings *s, int64_t *value, const char *key, double by_default, int64_t of,
                  int64_t told) {
  *value = s->read ? read_multiple(s, key, by_default, of) : told;
  config_tell_size(s, key, *value / (of > 0 ? of : 1));
}

void config_real_ratio(settings *s, int64_t *value, const char *key, double by_default, int64_t of,
                       int64_t told) {
  *value = s->read ? read_multiple(s, key, by_default, of) : told;
  if (*value < 1 || of < 1) s->status = REC_ERROR_UNSUPPORTED;
  tell_real(s, key, (double)*value / (double)of);
}

void config_flag(settings *s, bool *value, const char *key, bool by_default, bool told) {
  *value = s->read ? config_read_flag(s, key, by_default) : told;
  config_tell_flag(s, key, *value);
}

void config_eps(settings *s, double *value, const char *key, double by_default, double told) {
  *value = s->read ? read_eps(s, key, by_default) : told;
  tell_real(s, key, *value);
}
