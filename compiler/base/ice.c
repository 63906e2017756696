#include "compiler/base/ice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ice(const char *pass, const char *file, int line, const char *format, ...) {
  fflush(stdout);
  fprintf(stderr, "internal compiler error in %s: ", pass);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "; please report this with the program (recc %s, %s:%d)\n", REC_VERSION, file,
          line);
  exit(ICE_EXIT_STATUS);
}
