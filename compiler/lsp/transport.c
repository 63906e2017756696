#include "compiler/lsp/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PORTION = 1 << 16, LONGEST_LINE = 4096 };

// ---- bytes -----------------------------------------------------------------------------------

static bool make_input_room(lsp_input *in, size_t more) {
  if (in->begin > 0) {
    memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
  }
  if (in->end + more < in->room) return true;
  char *larger = realloc(in->bytes, in->end + more + 1);
  if (!larger) return false;
  in->bytes = larger;
  in->room = in->end + more + 1;
  return true;
}

// Takes in what has arrived, or waits for it. False: there is no more.
static bool fill_input(lsp_input *in) {
  if (in->file < 0 || !make_input_room(in, PORTION)) return false;
  ssize_t got;
  do got = read(in->file, in->bytes + in->end, PORTION);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  in->end += (size_t)got;
  return true;
}

bool lsp_waits(const lsp_input *in) {
  if (in->end > in->begin || in->file < 0) return true;
  struct pollfd ready = {.fd = in->file, .events = POLLIN};
  return poll(&ready, 1, 0) > 0;
}

// ---- the head --------------------------------------------------------------------------------

// The next line, without its end; NULL: there is none. A line that does not end is cut.
static char *read_message_line(lsp_input *in) {
  for (;;) {
    size_t length = in->end - in->begin;
    char *line = in->bytes + in->begin, *newline = length ? memchr(line, '\n', length) : NULL;
    if (!newline && length > LONGEST_LINE) newline = line + LONGEST_LINE;
    if (newline) {
      in->begin += (size_t)(newline - line) + 1;
      if (newline > line && newline[-1] == '\r') newline[-1] = '\0';
      *newline = '\0';
      return line;
    }
    if (!fill_input(in)) return NULL;
  }
}

// A message that was shorter than it said ends inside of one of these lines.
static const char *length_field(const char *line) {
  static const char name[] = "Content-Length:";
  for (; *line; line++)
    if (strncasecmp(line, name, sizeof name - 1) == 0) return line + sizeof name - 1;
  return NULL;
}

static bool read_length(const char *field, size_t *length) {
  char *end;
  field += strspn(field, " \t");
  errno = 0;
  unsigned long long value = strtoull(field, &end, 10);
  if (*field < '0' || *field > '9' || end[strspn(end, " \t")] || errno) return false;
  *length = value > LSP_LARGEST_MESSAGE ? (size_t)LSP_LARGEST_MESSAGE + 1 : (size_t)value;
  return true;
}

// The lines up to an empty one. Empty lines before the first one are passed over.
static lsp_arrival read_head(lsp_input *in, size_t *length, const char **problem) {
  bool any = false, known = false;
  *problem = NULL;
  for (char *line; (line = read_message_line(in));) {
    const char *field = length_field(line);
    if (!*line && !any) continue;
    if (!*line) {
      if (!known && !*problem)
        *problem = "expected the field Content-Length before a message, found none";
      return *problem ? LSP_BROKEN : LSP_MESSAGE;
    }
    any = true;
    if (!field) continue;
    known = read_length(field, length);
    *problem = known ? NULL : "expected a whole number of bytes as Content-Length, found none";
  }
  return LSP_END;
}

// ---- messages --------------------------------------------------------------------------------

lsp_arrival lsp_read(lsp_input *in, const char **text, size_t *size, const char **problem) {
  lsp_arrival head = read_head(in, size, problem);
  if (head != LSP_MESSAGE) return head;
  if (*size > LSP_LARGEST_MESSAGE) {
    *problem = "expected a message of at most 64 MiB, found a larger one";
    return LSP_BROKEN;  // its text has no line that is a head
  }
  while (in->end - in->begin < *size)
    if (!fill_input(in)) return LSP_END;
  *text = in->bytes + in->begin;
  in->begin += *size;
  return LSP_MESSAGE;
}

void lsp_write(FILE *out, const char *text) {
  fprintf(out, "Content-Length: %zu\r\n\r\n%s", strlen(text), text);
  fflush(out);
}
