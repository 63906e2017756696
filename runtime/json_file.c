#include "runtime/json_file.h"

static int text_line_number(const char *text, const char *place) {
  int line = 1;
  for (; text < place; text++) line += *text == '\n';
  return line;
}

rec_status json_read_file(const char *path, cJSON **json) {
  rec_mapping file;
  const char *end = NULL;
  *json = NULL;
  rec_status status = rec_map(path, &file);
  if (status) return status;
  if (file.size) *json = cJSON_ParseWithLengthOpts(file.bytes, file.size, &end, false);
  if (!*json)
    status = rec_fail(REC_ERROR_FORMAT, "%s:%d: expected JSON, found something else", path,
                      end ? text_line_number(file.bytes, end) : 1);
  else if (!cJSON_IsObject(*json))
    status = rec_fail(REC_ERROR_FORMAT, "%s: expected a JSON object, found another value", path);
  rec_unmap(&file);
  if (!status) return REC_OK;
  cJSON_Delete(*json);
  *json = NULL;
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
