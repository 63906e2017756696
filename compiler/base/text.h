// Text that is printed piece by piece and lives in an arena.
//
//   text_stream text;
//   FILE *out = text_begin(&text);
//   fprintf(out, ..);
//   return text_end(&text, arena);
#pragma once

#include <stdio.h>

#include "compiler/base/arena.h"

typedef struct text_stream {
  FILE *out;
  char *bytes;
  size_t size;
} text_stream;

// The stream must not move before its end.
FILE *text_begin(text_stream *stream);
char *text_end(text_stream *stream, arena *a);

// The shortest text that reads back to the same number.
enum { SHORTEST_TEXT = 40 };
const char *shortest_text(double number, char text[SHORTEST_TEXT]);
void print_number(FILE *out, double number);

// The last part of a path: mamba2.rec for any/path/mamba2.rec.
const char *file_name(const char *path);
// The same without its ending: mamba2.
char *file_stem(arena *a, const char *path);

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
int edit_distance(const char *a, const char *b);
