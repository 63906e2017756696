#include "compiler/base/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/vec.h"

struct diag {
  arena *memory;
  const sources *sources;
  VEC(diag_message *) messages;
  int printed;  // messages before this one are printed
  int errors;
  int unused_errors;  // among the errors
};

enum {
  LINE_WINDOW = 120,  // of a longer line only this many bytes around the place are shown
  // messages printed in one go; a file that is not a program at all makes thousands
  PRINTED_MAX = 60,
};

diag *diag_new(arena *a, const sources *all) {
  diag *d = ARENA_NEW(a, diag);
  d->memory = a;
  d->sources = all;
  return d;
}

static diag_message *new_diag_message(diag *d, diag_severity kind, span where, const char *format,
                                      va_list arguments) {
  diag_message *m = ARENA_NEW(d->memory, diag_message);
  *m = (diag_message){.severity = kind, .where = where, .order = d->messages.count};
  m->text = arena_vprintf(d->memory, format, arguments);
  return m;
}

static diag_message *add_diag_message(diag *d, diag_severity kind, span where, const char *format,
                                      va_list arguments) {
  diag_message *m = new_diag_message(d, kind, where, format, arguments);
  vec_push(d->memory, &d->messages, m);
  if (kind == SEVERITY_ERROR) d->errors++;
  return m;
}

bool diag_error(diag *d, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_diag_message(d, SEVERITY_ERROR, where, format, arguments);
  va_end(arguments);
  return false;
}

void diag_warning(diag *d, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_diag_message(d, SEVERITY_WARNING, where, format, arguments);
  va_end(arguments);
}

void diag_unused_error(diag *d, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_diag_message(d, SEVERITY_ERROR, where, format, arguments)->unused = true;
  va_end(arguments);
  d->unused_errors++;
}

void diag_unused_warning(diag *d, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_diag_message(d, SEVERITY_WARNING, where, format, arguments)->unused = true;
  va_end(arguments);
}

void diag_note(diag *d, span where, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  diag_message *note = new_diag_message(d, SEVERITY_NOTE, where, format, arguments);
  va_end(arguments);
  if (d->messages.count == 0) {
    vec_push(d->memory, &d->messages, note);
    return;
  }
  diag_message **last = &d->messages.items[d->messages.count - 1]->note;
  while (*last) last = &(*last)->note;
  *last = note;
}

void diag_fix(diag *d, span where, const char *text) {
  if (d->messages.count == 0) return;
  diag_message *last = d->messages.items[d->messages.count - 1];
  last->fix = text;
  last->fix_where = where;
}

bool diag_has_errors(const diag *d) { return d->errors > 0; }
int diag_error_count(const diag *d) { return d->errors; }

static bool is_shown_message(const diag *d, const diag_message *m) {
  return !m->unused || d->errors == d->unused_errors;
}

const char *diag_error_text(const diag *d, int i) {
  for (int k = 0; k < d->messages.count; k++) {
    const diag_message *m = d->messages.items[k];
    if (m->severity == SEVERITY_ERROR && is_shown_message(d, m) && i-- == 0) return m->text;
  }
  return NULL;
}

static int compare_messages(const void *left, const void *right) {
  const diag_message *a = *(const diag_message *const *)left,
                     *b = *(const diag_message *const *)right;
  if (a->where.source != b->where.source) return a->where.source < b->where.source ? -1 : 1;
  if (a->where.begin != b->where.begin) return a->where.begin < b->where.begin ? -1 : 1;
  return a->order - b->order;
}

// A byte of a line as it is shown: tabs stay (the caret line repeats them), other control
// characters become '?'.
static void put_line_byte(char c, FILE *out) {
  bool control = (unsigned char)c < 0x20 && c != '\t';
  fputc(control || c == 0x7f ? '?' : c, out);
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

// The part [first, last) of the line that is shown: all of it, or a window around the place.
static void choose_window(const char *line, uint32_t length, uint32_t at, uint32_t *first,
                          uint32_t *last) {
  *first = 0;
  *last = length;
  if (length <= LINE_WINDOW) return;
  *first = at > LINE_WINDOW / 2 ? at - LINE_WINDOW / 2 : 0;
  while (*first > 0 && is_continuation(line[*first])) --*first;
  *last = *first + LINE_WINDOW < length ? *first + LINE_WINDOW : length;
  while (*last < length && is_continuation(line[*last])) ++*last;
}

static void print_line_and_caret(const source *s, span where, source_position at, FILE *out) {
  uint32_t length;
  const char *line = source_line(s, at.line, &length);
  if (length == 0) return;  // the end of the file, mostly
  uint32_t begin = where.begin - s->line_starts[at.line - 1];
  if (begin > length) begin = length;
  uint32_t width = where.end > where.begin ? where.end - where.begin : 1;
  uint32_t first, last;
  choose_window(line, length, begin, &first, &last);
  fputs("  ", out);
  for (uint32_t i = first; i < last; i++) put_line_byte(line[i], out);
  fputs("\n  ", out);
  for (uint32_t i = first; i < begin; i++)
    if (!is_continuation(line[i])) fputc(line[i] == '\t' ? '\t' : ' ', out);
  fputc('^', out);
  for (uint32_t i = begin + 1; i < begin + width && i < last; i++)
    if (!is_continuation(line[i])) fputc('~', out);
  fputc('\n', out);
}

static void print_message(const diag *d, const diag_message *m, FILE *out) {
  static const char *const names[] = {"error", "warning", "note"};
  const source *s = sources_get(d->sources, m->where.source);
  if (!s) {
    fprintf(out, "%s: %s\n", names[m->severity], m->text);
  } else {
    source_position at = source_locate(s, m->where.begin);
    fprintf(out, "%s:%d:%d: %s: %s\n", s->path, at.line, at.column, names[m->severity], m->text);
    print_line_and_caret(s, m->where, at, out);
  }
  for (const diag_message *note = m->note; note; note = note->note) print_message(d, note, out);
}

static bool same_message(const diag_message *a, const diag_message *b) {
  return a->severity == b->severity && a->where.source == b->where.source &&
         a->where.begin == b->where.begin && strcmp(a->text, b->text) == 0;
}

// Those from `first` on that are shown.
static const diag_message **sorted_messages(const diag *d, int first, int *count) {
  const diag_message **sorted =
      ARENA_ARRAY(d->memory, const diag_message *, d->messages.count - first);
  int all = 0;
  for (int i = first; i < d->messages.count; i++)
    if (is_shown_message(d, d->messages.items[i])) sorted[all++] = d->messages.items[i];
  qsort(sorted, (size_t)all, sizeof *sorted, compare_messages);
  *count = 0;
  for (int i = 0; i < all; i++) {
    if (*count > 0 && same_message(sorted[*count - 1], sorted[i])) continue;
    sorted[(*count)++] = sorted[i];
  }
  return sorted;
}

const diag_message *const *diag_messages(const diag *d, int *count) {
  return sorted_messages(d, 0, count);
}

void diag_print(diag *d, FILE *out) {
  if (d->printed == d->messages.count) return;
  int count;
  const diag_message **sorted = sorted_messages(d, d->printed, &count);
  d->printed = d->messages.count;
  for (int i = 0; i < count; i++) {
    if (i == PRINTED_MAX) {
      fprintf(out, "... and %d more\n", count - i);
      break;
    }
    print_message(d, sorted[i], out);
  }
}
