// Writes this thread's last message.
#include <stdarg.h>
#include <stdio.h>

#include "runtime/support/error.h"

rec_status rec_fail(rec_status status, const char *format, ...) {
  // The buffer is this thread's own and never constant; only users of rec_error may not write it.
  char *text = (char *)rec_error();
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, REC_ERROR_TEXT_MAX, format, arguments);
  va_end(arguments);
  return status;
}
