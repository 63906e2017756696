// Status texts and each thread's last message.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/internal.h"

static _Thread_local char message[2048];

const char *rec_message(void) { return message; }

rec_status rec_fail(rec_status status, const char *format, ...) {
  // Arguments may point into the old message (a caller that adds its own words), so the new one is
  // made beside it.
  char text[sizeof message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *c = text; *c; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  __builtin_memcpy(message, text, sizeof message);
  return status;
}

rec_status rec_file_failed(const char *path) {
  return rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
}

bool rec_file_is_there(const char *path) {
  struct stat about;
  return !lstat(path, &about) || (errno != ENOENT && errno != ENOTDIR);
}

rec_status rec_no_memory(void) { return rec_fail(REC_ERROR_MEMORY, "out of memory"); }

const char *rec_status_text(rec_status status) {
  switch (status) {
    case REC_OK: return "ok";
    case REC_ERROR_ARGUMENT: return "bad argument";
    case REC_ERROR_ABI: return "another version of the binary interface";
    case REC_ERROR_WORKSPACE: return "workspace missing or too small";
    case REC_ERROR_DEVICE: return "no code for this device";
    case REC_ERROR_UNSUPPORTED: return "unsupported";
    case REC_ERROR_MEMORY: return "out of memory";
    case REC_ERROR_FILE: return "file cannot be read or written";
    case REC_ERROR_FORMAT: return "malformed file";
    case REC_ERROR_INTERNAL: return "internal error";
    case REC_ERROR_PROMISE: return "broken promise";
  }
  return "unknown status";
}
