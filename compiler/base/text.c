#include "compiler/base/text.h"

#include <math.h>
#include <stdlib.h>

FILE *text_begin(text_stream *stream) {
  stream->out = open_memstream(&stream->bytes, &stream->size);
  if (!stream->out) out_of_memory();
  return stream->out;
}

char *text_end(text_stream *stream, arena *a) {
  if (fclose(stream->out) != 0) out_of_memory();
  char *copy = arena_strndup(a, stream->bytes, stream->size);
  free(stream->bytes);
  return copy;
}

void print_number(FILE *out, double number) {
  char text[40];
  if (isnan(number)) {
    fputs("nan", out);
    return;
  }
  int digits = 1;
  do snprintf(text, sizeof text, "%.*g", digits, number);
  while (strtod(text, NULL) != number && ++digits <= 17);
  fputs(text, out);
}
