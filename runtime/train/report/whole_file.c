#include "runtime/train/report/whole_file.h"

#include <stdlib.h>
#include <string.h>

rec_status whole_file_write(const char *path, const void *bytes, size_t size) {
  const struct iovec all = {(void *)(uintptr_t)bytes, size};
  return output_write(path, &all, 1, OUTPUT_FLUSH) ? REC_OK : rec_file_failed(path);
}

rec_status whole_file_allowed(const char *path, const output_proof *proof, bool again) {
  char why[OUTPUT_WHY];
  return output_allowed(path, proof, again, why) ? REC_OK : rec_fail(REC_ERROR_FILE, "%s", why);
}

bool text_open(made_text *s) {
  *s = (made_text){0};
  s->out = open_memstream(&s->text, &s->size);
  return s->out != NULL;
}

bool text_close(made_text *s) {
  bool whole = s->out && fclose(s->out) == 0;
  s->out = NULL;
  return whole;
}

rec_status text_save(made_text *s, rec_status status, const char *path, unsigned flags) {
  bool whole = text_close(s);
  const struct iovec all = {s->text, s->size};
  if (!status && !whole) status = rec_no_memory();
  if (!status && !output_write(path, &all, 1, flags | OUTPUT_FLUSH | OUTPUT_MARK))
    status = rec_file_failed(path);
  free(s->text);
  return status;
}

rec_status whole_file_read(const char *path, char **text) {
  rec_mapping bytes;
  rec_status status = rec_map(path, &bytes);
  if (status) return status;
  *text = strndup(bytes.bytes ? bytes.bytes : "", bytes.bytes ? bytes.size : 0);
  rec_unmap(&bytes);
  return *text ? REC_OK : rec_no_memory();
}
