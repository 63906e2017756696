#include "runtime/json_file.h"

#include <string.h>

static rec_status fail_at(const char *path, const char *text, const char *place) {
  int line = 1, column = 1;
  for (; text < place; text++) {
    line += *text == '\n';
    column = *text == '\n' ? 1 : column + 1;
  }
  return rec_fail(REC_ERROR_FORMAT, "%s:%d:%d: expected JSON, found something else", path, line,
                  column);
}

rec_status json_read_text(const char *path, const char *text, size_t size, cJSON **json) {
  const char *end = text;
  rec_status status = REC_OK;
  *json = size ? cJSON_ParseWithLengthOpts(text, size, &end, false) : NULL;
  for (; *json && end < text + size && strchr(" \t\r\n", *end); end++) {
  }
  if (!*json || end < text + size)
    status = fail_at(path, text, end ? end : text);
  else if (!cJSON_IsObject(*json))
    status = rec_fail(REC_ERROR_FORMAT, "%s: expected a JSON object, found another value", path);
  if (!status) return REC_OK;
  cJSON_Delete(*json);
  *json = NULL;
  return status;
}

rec_status json_read_file(const char *path, cJSON **json) {
  rec_mapping file;
  *json = NULL;
  rec_status status = rec_map(path, &file);
  if (status) return status;
  status = json_read_text(path, file.bytes, file.size, json);
  rec_unmap(&file);
  return status;
}

rec_status json_real(const char *path, const cJSON *object, const char *key, double least,
                     double most, double *value) {
  const cJSON *item = json_get(object, key);
  if (!item)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected a number in \"%s\", found no such member", path,
                    key);
  *value = cJSON_IsNumber(item) ? item->valuedouble : least;
  if (cJSON_IsNumber(item) && *value >= least && *value <= most) return REC_OK;
  char *found = cJSON_PrintUnformatted(item);
  rec_status status =
      rec_fail(REC_ERROR_FORMAT, "%s: expected a number from %g to %g in \"%s\", found %.80s", path,
               least, most, key, found ? found : "another value");
  cJSON_free(found);
  return status;
}
