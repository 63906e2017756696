// rec_error(): exported by every library. It stands in a file of its own. The writer below asks for
// the buffer through the dynamic linker, so that a program which links two libraries reads the
// message of either.
#include "runtime/support/error.h"

const char *rec_error(void) {
  static _Thread_local char text[REC_ERROR_TEXT_MAX];
  return text;
}
