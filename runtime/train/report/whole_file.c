#include "runtime/train/report/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

rec_status whole_file_write(const char *path, const char *text, size_t size) {
  size_t room = strlen(path) + sizeof ".new";
  char *fresh = malloc(room);
  if (!fresh) return rec_no_memory();
  snprintf(fresh, room, "%s.new", path);
  FILE *file = fopen(fresh, "w");
  bool good = file && fwrite(text, 1, size, file) == size && !fflush(file) && !fsync(fileno(file));
  int error = errno;
  if (file && fclose(file) && good) good = false, error = errno;
  if (good && rename(fresh, path)) good = false, error = errno;
  if (file && !good) unlink(fresh);
  free(fresh);
  return good ? REC_OK : rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(error));
}

rec_status whole_file_read(const char *path, char **text) {
  rec_mapping bytes;
  rec_status status = rec_map(path, &bytes);
  if (status) return status;
  *text = strndup(bytes.bytes ? bytes.bytes : "", bytes.bytes ? bytes.size : 0);
  rec_unmap(&bytes);
  return *text ? REC_OK : rec_no_memory();
}
