#include "compiler/base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

const char *shortest_text(double number, char text[SHORTEST_TEXT]) {
  int digits = 1;
  do snprintf(text, SHORTEST_TEXT, "%.*g", digits, number);
  while (strtod(text, NULL) != number && ++digits <= 17);
  return isnan(number) ? strcpy(text, "nan") : text;  // whatever its sign
}

void print_number(FILE *out, double number) {
  char text[SHORTEST_TEXT];
  fputs(shortest_text(number, text), out);
}

int edit_distance(const char *a, const char *b) {
  enum { LONGEST = 40 };
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > LONGEST || m > LONGEST) return LONGEST;
  int rows[LONGEST + 1][LONGEST + 1];
  for (int i = 0; i <= n; i++) rows[i][0] = i;
  for (int k = 0; k <= m; k++) rows[0][k] = k;
  for (int i = 1; i <= n; i++) {
    for (int k = 1; k <= m; k++) {
      int best = rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
      if (rows[i - 1][k] + 1 < best) best = rows[i - 1][k] + 1;
      if (rows[i][k - 1] + 1 < best) best = rows[i][k - 1] + 1;
      bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (swapped && rows[i - 2][k - 2] + 1 < best) best = rows[i - 2][k - 2] + 1;
      rows[i][k] = best;
    }
  }
  return rows[n][m];
}

const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *file_stem(arena *a, const char *path) {
  char *name = arena_strdup(a, file_name(path)), *dot = strrchr(name, '.');
  if (dot && dot != name) *dot = 0;
  return name;
}
