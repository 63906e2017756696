#include "runtime/train/report/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

rec_status whole_file_write(const char *path, const char *text, size_t size) {
  file_path fresh = rec_path("%s.new", path);
  FILE *file = fopen(fresh.text, "w");
  bool good = file && fwrite(text, 1, size, file) == size && !fflush(file) && !fsync(fileno(file));
  int error = errno;
  if (file && fclose(file) && good) good = false, error = errno;
  if (good && rename(fresh.text, path)) good = false, error = errno;
  if (file && !good) unlink(fresh.text);
  errno = error;
  return good ? REC_OK : rec_file_failed(path);
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

rec_status text_save(made_text *s, rec_status status, const char *path) {
  bool whole = text_close(s);
  if (!status) status = whole ? whole_file_write(path, s->text, s->size) : rec_no_memory();
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
