#include "compiler/base/source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/abi/output.h"

struct sources {
  arena *memory;
  VEC(source *) list;
};

sources *sources_new(arena *a) {
  sources *all = ARENA_NEW(a, sources);
  all->memory = a;
  return all;
}

const source *sources_get(const sources *all, uint32_t id) {
  if (id == 0 || id > (uint32_t)all->list.count) return NULL;
  return all->list.items[id - 1];
}

const source *sources_find(const sources *all, const char *path) {
  for (int i = 0; i < all->list.count; i++)
    if (strcmp(all->list.items[i]->path, path) == 0) return all->list.items[i];
  return NULL;
}

// Length of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7: no overlong forms, no
// surrogates); 0 if there is none.
static size_t utf8_sequence(const unsigned char *p, const unsigned char *end) {
  unsigned char lead = p[0], low = 0x80, high = 0xBF;
  size_t length;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if ((size_t)(end - p) < length || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < length; i++)
    if (p[i] < 0x80 || p[i] > 0xBF) return 0;
  return length;
}

// Offset of the first byte that a source may not hold, or `size` if there is none.
static size_t first_bad_byte(const char *text, size_t size) {
  const unsigned char *begin = (const unsigned char *)text, *end = begin + size;
  for (const unsigned char *p = begin; p < end;) {
    size_t length = *p ? utf8_sequence(p, end) : 0;
    if (length == 0) return (size_t)(p - begin);
    p += length;
  }
  return size;
}

static void index_lines(sources *all, source *s) {
  int lines = 1;
  for (uint32_t i = 0; i < s->size; i++) lines += s->text[i] == '\n';
  uint32_t *starts = ARENA_ARRAY(all->memory, uint32_t, lines);
  int line = 1;
  for (uint32_t i = 0; i < s->size; i++)
    if (s->text[i] == '\n') starts[line++] = i + 1;
  s->line_starts = starts;
  s->line_count = lines;
}

static const source *add_source(sources *all, const char *path, const char *text, size_t size,
                                bool is_file, const char **error) {
  if (size > SOURCE_SIZE_MAX) {
    *error = arena_printf(all->memory, "'%s' is larger than %d MiB", path,
                          SOURCE_SIZE_MAX / (1024 * 1024));
    return NULL;
  }
  source *s = ARENA_NEW(all->memory, source);
  s->path = arena_strdup(all->memory, path);
  s->text = arena_strndup(all->memory, text, size);
  s->size = (uint32_t)size;
  s->is_file = is_file;
  index_lines(all, s);
  size_t bad = first_bad_byte(text, size);
  if (bad < size) {
    source_position at = source_locate(s, (uint32_t)bad);
    *error = arena_printf(all->memory, "'%s' is not UTF-8 text: byte 0x%02x at line %d, column %d",
                          path, (unsigned)(unsigned char)text[bad], at.line, at.column);
    return NULL;
  }
  vec_push(all->memory, &all->list, s);
  s->id = (uint32_t)all->list.count;
  return s;
}

const source *sources_add(sources *all, const char *path, const char *text, size_t size,
                          const char **error) {
  return add_source(all, path, text, size, false, error);
}

// Reads at most one byte more than is allowed, so that `add` sees a file that is too large.
static char *read_source_bytes(FILE *file, size_t *size) {
  size_t capacity = (size_t)SOURCE_SIZE_MAX + 1;
  char *text = malloc(capacity);
  if (text) *size = fread(text, 1, capacity, file);
  return text;
}

static const char *cannot_read(sources *all, const char *path, const char *why) {
  return arena_printf(all->memory, "cannot read '%s': %s", path, why);
}

static const source *load_source(sources *all, const char *path, FILE *file, const char **error) {
  size_t size = 0;
  output_note_input(fileno(file));
  char *text = read_source_bytes(file, &size);
  const source *s = NULL;
  if (!text || ferror(file))
    *error = cannot_read(all, path, strerror(errno));
  else
    s = add_source(all, path, text, size, file != stdin, error);
  free(text);
  return s;
}

static const source *load_file(sources *all, const char *path, const char **error) {
  FILE *file = fopen(path, "rb");
  const source *s = file ? load_source(all, path, file, error) : NULL;
  if (file)
    fclose(file);
  else
    *error = cannot_read(all, path, strerror(errno));
  return s;
}

const source *sources_load(sources *all, const char *path, const char **error) {
  if (strcmp(path, "-") == 0) return load_source(all, path, stdin, error);
  struct stat status;
  if (stat(path, &status) || !S_ISDIR(status.st_mode)) return load_file(all, path, error);
  *error = cannot_read(all, path, "it is a folder");
  return NULL;
}

const source *sources_load_import(sources *all, const char *path, const char **error) {
  struct stat status;
  if (stat(path, &status) || S_ISREG(status.st_mode)) return load_file(all, path, error);
  *error = cannot_read(all, path,
                       S_ISDIR(status.st_mode) ? "it is a folder" : "it is a pipe or a device");
  return NULL;
}

// Index of the line that holds the offset, from 0.
static int line_index(const source *s, uint32_t offset) {
  int low = 0, high = s->line_count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (s->line_starts[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return low;
}

source_position source_locate(const source *s, uint32_t offset) {
  if (offset > s->size) offset = s->size;
  int line = line_index(s, offset);
  int column = 1;
  for (uint32_t i = s->line_starts[line]; i < offset; i++)
    column += ((unsigned char)s->text[i] & 0xC0) != 0x80;  // continuation bytes are no characters
  return (source_position){.line = line + 1, .column = column};
}

uint32_t source_indent(const source *s, uint32_t offset) {
  return offset - s->line_starts[line_index(s, offset)];
}

const char *source_line(const source *s, int line, uint32_t *length) {
  uint32_t begin = s->line_starts[line - 1];
  uint32_t end = line < s->line_count ? s->line_starts[line] - 1 : s->size;
  if (end > begin && s->text[end - 1] == '\r') end--;
  *length = end - begin;
  return s->text + begin;
}

span span_join(span first, span last) {
  if (first.source == 0) return last;
  if (last.source == 0 || first.source != last.source) return first;
  span joined = first;
  if (last.begin < joined.begin) joined.begin = last.begin;
  if (last.end > joined.end) joined.end = last.end;
  return joined;
}
