// Source files and places in them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/arena.h"
#include "compiler/base/vec.h"

// A place: the bytes [begin, end) of a source. Lines and columns are computed only when something
// is printed. The zeroed span is no place; diagnostics with it print without file and line.
typedef struct span {
  uint32_t source;  // source.id; 0 = no place
  uint32_t begin, end;
} span;

typedef struct source {
  uint32_t id;       // from 1
  const char *path;  // as given by the user; messages print it
  // valid UTF-8 without NUL bytes, followed by one NUL (the lexer's sentinel)
  const char *text;
  uint32_t size;                // bytes before that NUL
  const uint32_t *line_starts;  // byte offset of each line, [line_count]
  int line_count;               // at least 1
  bool is_file;                 // not from memory or standard input
} source;

typedef struct sources sources;

// Files above this size are refused: spans are 32 bits wide and no program is that long.
enum { SOURCE_SIZE_MAX = 4 * 1024 * 1024 };

// All sources of one compilation; they live in the arena.
sources *sources_new(arena *a);

// Loads a file ("-" is standard input). NULL if it cannot be used; *error then says why in one
// line, without a newline. It may be missing, unreadable, a folder or too large. It may not be
// UTF-8 (with line and column), or may have NUL bytes.
const source *sources_load(sources *all, const char *path, const char **error);
// The same for a file that a program names. A pipe or a device is refused: reading it might never
// end.
const source *sources_load_import(sources *all, const char *path, const char **error);

// The same for text already in memory (stdlib, tests); it is copied. The same refusals apply.
const source *sources_add(sources *all, const char *path, const char *text, size_t size,
                          const char **error);

// The source that was loaded or added under this path; NULL if there is none.
const source *sources_find(const sources *all, const char *path);

// The source of a span; NULL for the zeroed span.
const source *sources_get(const sources *all, uint32_t id);

// Line and column of a byte offset, both from 1; the column counts characters (code points), a tab
// is one.
typedef struct source_position {
  int line, column;
} source_position;
source_position source_locate(const source *s, uint32_t offset);

// Bytes between the start of its line and the offset: cheap, for comparing indents.
uint32_t source_indent(const source *s, uint32_t offset);

// One line of text without its line end.
const char *source_line(const source *s, int line, uint32_t *length);

// The smallest span that covers both; either may be no place.
span span_join(span first, span last);
