// The open texts: their changes, their analysis when it is asked for, and places in them.
#include "compiler/lsp/document.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- places ----------------------------------------------------------------------------------

// A character at text[at]: its bytes, and the units that a column counts it as.
static size_t character_step(const char *text, size_t at, size_t end, bool utf8, int *units) {
  unsigned char lead = (unsigned char)text[at];
  size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > end - at) length = end - at;
  *units = utf8 ? (int)length : length == 4 ? 2 : 1;
  return length;
}

size_t lsp_offset(const char *text, size_t size, bool utf8, lsp_place place) {
  size_t at = 0;
  for (int line = 0; line < place.line; line++) {
    const char *newline = memchr(text + at, '\n', size - at);
    if (!newline) return size;
    at = (size_t)(newline - text) + 1;
  }
  const char *newline = memchr(text + at, '\n', size - at);
  size_t end = newline ? (size_t)(newline - text) : size;
  if (newline && end > at && text[end - 1] == '\r') end--;
  for (int column = 0, units; at < end; column += units) {
    size_t length = character_step(text, at, end, utf8, &units);
    if (column + units > place.column) break;
    at += length;
  }
  return at;
}

lsp_place lsp_place_of(const source *text, bool utf8, uint32_t offset) {
  if (offset > text->size) offset = text->size;
  lsp_place place = {.line = source_locate(text, offset).line - 1};
  size_t at = text->line_starts[place.line];
  for (int units; at < offset; place.column += units)
    at += character_step(text->text, at, text->size, utf8, &units);
  return place;
}

// ---- URIs ------------------------------------------------------------------------------------

static int hexadecimal(char c) {
  return isdigit((unsigned char)c)    ? c - '0'
         : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                      : -1;
}

// The path of a file:// URI, one that no file has of any other URI.
static char *path_of(const char *uri) {
  static const char scheme[] = "file://";
  char *path = malloc(strlen(uri) + 2), *to = path;
  if (!path) out_of_memory();
  if (strncmp(uri, scheme, sizeof scheme - 1) != 0) {
    *path = '/';  // no import is read relative to the folder of the server, or from its input
    strcpy(path + 1, uri);
    return path;
  }
  const char *from = strchr(uri + sizeof scheme - 1, '/');  // behind the host
  for (from = from ? from : ""; *from; from++) {
    int high = *from == '%' ? hexadecimal(from[1]) : -1,
        low = high >= 0 ? hexadecimal(from[2]) : -1;
    bool escape = low >= 0 && (high || low);
    *to++ = escape ? (char)(high * 16 + low) : *from;
    if (escape) from += 2;
  }
  *to = '\0';
  return path;
}

char *lsp_uri_of(arena *memory, const char *path) {
  char *uri = arena_alloc(memory, 3 * strlen(path) + 8), *to = uri + sprintf(uri, "file://");
  if (path[0] != '/') return arena_strdup(memory, path);
  for (; *path; path++) {
    bool plain = isalnum((unsigned char)*path) || strchr("/-._~", *path);
    to += plain ? (*to = *path, 1) : sprintf(to, "%%%02X", (unsigned)(unsigned char)*path);
  }
  *to = '\0';
  return uri;
}

// ---- documents -------------------------------------------------------------------------------

static char *copy_text(const char *text, size_t size) {
  char *made = malloc(size + 1);
  if (!made) out_of_memory();
  memcpy(made, text, size);
  made[size] = '\0';
  return made;
}

lsp_document *lsp_document_find(const lsp_documents *all, const char *uri) {
  for (int i = 0; i < all->count; i++)
    if (strcmp(all->items[i]->uri, uri) == 0) return all->items[i];
  return NULL;
}

static lsp_document *add_document(lsp_documents *all, const char *uri) {
  if (all->count == all->room) {
    all->room = all->room ? 2 * all->room : 8;
    all->items = realloc(all->items, sizeof *all->items * (size_t)all->room);
    if (!all->items) out_of_memory();
  }
  lsp_document *d = calloc(1, sizeof *d);
  if (!d) out_of_memory();
  d->uri = copy_text(uri, strlen(uri));
  d->path = path_of(uri);
  d->text = copy_text("", 0);
  return all->items[all->count++] = d;
}

lsp_document *lsp_document_open(lsp_documents *all, const char *uri, const char *text,
                                double version) {
  lsp_document *d = lsp_document_find(all, uri);
  if (!d) d = add_document(all, uri);
  lsp_document_replace(d, 0, d->size, text);
  d->version = version;
  return d;
}

static void free_document(lsp_document *d) {
  if (d->good != d->analysis) lsp_analysis_free(d->good);
  lsp_analysis_free(d->analysis);
  free(d->uri);
  free(d->path);
  free(d->text);
  free(d);
}

void lsp_document_close(lsp_documents *all, lsp_document *d) {
  for (int i = 0; i < all->count; i++)
    if (all->items[i] == d) all->items[i] = all->items[--all->count];
  free_document(d);
}

void lsp_documents_free(lsp_documents *all) {
  while (all->count) free_document(all->items[--all->count]);
  free(all->items);
  *all = (lsp_documents){0};
}

void lsp_document_stale(lsp_document *d) {
  if (d->good != d->analysis) lsp_analysis_free(d->analysis);
  d->analysis = NULL;
  d->changed = true;
}

void lsp_document_replace(lsp_document *d, size_t begin, size_t end, const char *text) {
  size_t length = strlen(text), size = d->size - (end - begin) + length;
  char *made = malloc(size + 1);
  if (!made) out_of_memory();
  memcpy(made, d->text, begin);
  memcpy(made + begin, text, length);
  memcpy(made + begin + length, d->text + end, d->size - end);
  made[size] = '\0';
  free(d->text);
  d->text = made;
  d->size = size;
  lsp_document_stale(d);
}
