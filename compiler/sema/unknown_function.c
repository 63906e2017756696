// A call of a name that is no function: which one was meant, who has it, or what stands for it here.
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
  for (int i = 0; i < scope->file->names.count; i++) {
    const typed_name *known = &scope->file->names.items[i];
    if (!can_call(scope, known->item)) continue;
    if (known->item->kind == AST_LAYER) suggest(&layers, known->name);
    suggest(&all, known->name);
  }
  return is_capitalised(name) && layers.best ? layers.best : all.best;
}

static const char *nearest_builtin(const sema_scope *scope, const char *name) {
  suggestion found = {.name = name};
  for (int i = 0; builtin_name(i); i++) suggest(&found, builtin_name(i));
  for (int i = 0; scope->hook && builtin_layer_name(i); i++) suggest(&found, builtin_layer_name(i));
  return found.best;
}

// ---- the standard library -----------------------------------------------------------------------

static bool declares(const char *text, const char *word, const char *name) {
  size_t word_length = strlen(word), length = strlen(name);
  for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
    bool starts_line = at == text || at[-1] == '\n';
    const char *declared = at + word_length;
    bool ends = !isalnum((unsigned char)declared[length]) && declared[length] != '_';
    if (starts_line && strncmp(declared, name, length) == 0 && ends) return true;
  }
  return false;
}

// The file of the standard library that has such a layer or recurrence, or NULL.
static const char *library_file(const sema_scope *scope, const char *name) {
  const char *word = is_capitalised(name) ? "layer " : "recurrence ";
  for (const embedded_file *row = scope->sema->options.stdlib; row && row->name; row++) {
    if (declares((const char *)row->data, word, name)) return row->name;
  }
  return NULL;
}

// ---- the message --------------------------------------------------------------------------------

const char *unknown_function_hint(const sema_scope *scope, const char *name) {
  arena *memory = scope->sema->memory;
  const char *file = scope->hook ? library_file(scope, name) : NULL;
  if (file) return arena_printf(memory, "import std.%s has it", file);
  const char *meant = nearest_declared(scope, name);
  const char *other = meant ? NULL : way_out(name);
  if (other) return other;
  if (!meant) meant = nearest_builtin(scope, name);
  if (meant) return arena_printf(memory, "did you mean '%s'?", meant);
  if (!scope->hook) {
    return arena_printf(
        memory, "there is none of that name; fn %s(x) = ... at the top of the file makes it", name);
  }
  return arena_printf(
      memory, "there is none of that name; %s makes it, import \"FILE.rec\" lends it",
      is_capitalised(name) ? arena_printf(memory, "layer %s(D) { ... }", name)
                           : arena_printf(memory, "recurrence %s(D) { ... } or fn", name));
}
