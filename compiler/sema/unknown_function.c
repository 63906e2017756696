// A call of a name that is no function: which one was meant, who has it, or what stands for it
// here.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sema/internal.h"

// ---- functions of other languages ---------------------------------------------------------------

// Is it one of the words? Case and '_' of the name do not count.
static bool among_words(const char *words, const char *name) {
  while (*words) {
    const char *n = name;
    for (;; words++, n++) {
      while (*n == '_') n++;
      if (!*words || *words == ' ' || tolower((unsigned char)*n) != *words) break;
    }
    if (!*n && (!*words || *words == ' ')) return true;
    words += strcspn(words, " ");
    words += strspn(words, " ");
  }
  return false;
}

static const char *way_out(const char *name) {
#define ABSENT(words, text) \
  if (among_words(words, name)) return text;
#include "compiler/sema/absent_functions.def"
#undef ABSENT
  return NULL;
}

// ---- the nearest name ---------------------------------------------------------------------------

static bool is_capitalised(const char *name) { return isupper((unsigned char)*name) != 0; }

// Layers call layers, recurrences and their own built-ins; everything else calls functions alone.
static bool can_call(const sema_scope *scope, const ast_item *item) {
  if (item->kind == AST_FN) return true;
  return scope->hook && (item->kind == AST_LAYER || item->kind == AST_RECURRENCE);
}

// Of the names that the file declares or imports. A layer is meant by a capital, so that `Min` is
// rather `Mine` than a function `min1`.
static const char *nearest_declared(const sema_scope *scope, const char *name) {
  suggestion layers = {.name = name}, all = {.name = name};
  vec_each(const typed_name, known, scope->file->names) {
    if (!can_call(scope, known->item)) continue;
    if (known->item->kind == AST_LAYER) suggest(&layers, known->name);
    suggest(&all, known->name);
  }
  return is_capitalised(name) && layers.best ? layers.best : all.best;
}

static const char *nearest_builtin(const sema_scope *scope, const char *name) {
  suggestion found = {.name = name};
  for (int i = 0; builtin_name(i); i++) suggest(&found, builtin_name(i));
  for (int i = 0; scope->hook && builtin_name_of(BUILTIN_LAYER, i); i++)
    suggest(&found, builtin_name_of(BUILTIN_LAYER, i));
  return found.best;
}

// ---- the standard library -----------------------------------------------------------------------

// The nearest layer or recurrence, by its capital, that some file of the standard library declares.
typedef struct library_item {
  const char *name, *file;  // NULL: none is near
} library_item;

static library_item nearest_of_library(const sema_scope *scope, const char *name) {
  const char *word = is_capitalised(name) ? "layer " : "recurrence ";
  suggestion found = {.name = name};
  library_item nearest = {NULL, NULL};
  for (const embedded_file *row = scope->sema->options.stdlib; row && row->name; row++) {
    const char *text = (const char *)row->data;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
      const char *declared = at + strlen(word), *end = declared;
      if (at != text && at[-1] != '\n') continue;
      while (isalnum((unsigned char)*end) || *end == '_') end++;
      suggest(&found, arena_strndup(scope->sema->memory, declared, (size_t)(end - declared)));
      if (found.best != nearest.name) nearest = (library_item){found.best, row->name};
    }
  }
  return nearest;
}

// ---- the message --------------------------------------------------------------------------------

const char *function_meant(const sema_scope *scope, const char *name) {
  library_item standard = {NULL, NULL};
  if (scope->hook) standard = nearest_of_library(scope, name);
  // an import is missing, the name is right
  if (standard.name && strcmp(standard.name, name) == 0) return NULL;
  const char *meant = nearest_declared(scope, name);
  return meant || way_out(name) ? meant : nearest_builtin(scope, name);
}

const char *unknown_function_hint(const sema_scope *scope, const char *name) {
  arena *memory = scope->sema->memory;
  library_item standard = {NULL, NULL};
  if (scope->hook) standard = nearest_of_library(scope, name);
  if (standard.name && strcmp(standard.name, name) == 0)
    return arena_printf(memory, "import std.%s has it", standard.file);
  const char *meant = function_meant(scope, name);
  if (!meant && way_out(name)) return way_out(name);
  if (meant) return arena_printf(memory, "did you mean '%s'?", meant);
  if (standard.name)
    return arena_printf(memory, "did you mean '%s', which import std.%s has?", standard.name,
                        standard.file);
  if (!scope->hook)
    return arena_printf(
        memory, "there is none of that name; fn %s(x) = ... at the top of the file makes it", name);
  return arena_printf(
      memory, "there is none of that name; %s makes it, import \"FILE.rec\" lends it",
      is_capitalised(name) ? arena_printf(memory, "layer %s(D) { ... }", name)
                           : arena_printf(memory, "recurrence %s(D) { ... } or fn", name));
}
