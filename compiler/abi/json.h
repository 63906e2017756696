// Members of JSON objects.
#pragma once

#include <cjson/cJSON.h>

static inline cJSON *json_get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

// The text of a member; "": there is none.
static inline const char *json_text(const cJSON *object, const char *key) {
  const cJSON *item = json_get(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}
