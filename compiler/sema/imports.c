// Files and the names that their items see. Every file is loaded once; its imports lend their own
// items, which are not handed on.
//
//   import std.mamba2            names of stdlib/mamba2.rec
//   import "my_layer.rec"        names of a file beside this one
#include <ctype.h>
#include <string.h>

#include "compiler/base/program.h"
#include "compiler/sema/internal.h"

typedef struct loaded {
  const char *key;  // the path that identifies the file
  typed_file *file;
  bool active;  // its imports are being loaded
} loaded;

typedef struct import_check {
  sema *sema;
  VEC(loaded *)
  files;
} import_check;

// ---- loading ---------------------------------------------------------------------------------

// Without "./" and "folder/..": equal files get equal texts, links aside.
static const char *normalise_path(arena *memory, const char *path) {
  char *out = arena_alloc(memory, strlen(path) + 2);
  size_t length = 0;
  if (path[0] == '/') out[length++] = '/';
  while (*path) {
    path += strspn(path, "/");
    size_t part = strcspn(path, "/");
    bool up = part == 2 && strncmp(path, "..", 2) == 0;
    size_t last = length;
    while (last > 0 && out[last - 1] != '/') last--;
    bool can_drop = length > 0 && out[length - 1] != '/' && strcmp(out + last, "..") != 0;
    if (part == 0 || (part == 1 && *path == '.')) {
      // nothing to add
    } else if (up && can_drop) {
      length = last > 1 ? last - 1 : last;
    } else {
      if (length > 0 && out[length - 1] != '/') out[length++] = '/';
      memcpy(out + length, path, part);
      length += part;
    }
    out[length] = '\0';
    path += part;
  }
  return out;
}

static const char *path_beside(arena *memory, const char *importer, const char *name) {
  const char *slash = strrchr(importer, '/');
  if (name[0] == '/' || !slash) return name;
  return arena_printf(memory, "%.*s/%s", (int)(slash - importer), importer, name);
}

// The NAME of std.NAME or std.FOLDER.NAME; NULL: another path.
static const char *standard_name(const sema *s, const ast_names *path) {
  if (path->count < 2 || path->count > 3 || path->items[0].text != s->word_std) return NULL;
  if (path->count == 2) return path->items[1].text;
  return arena_printf(s->memory, "%s.%s", path->items[1].text, path->items[2].text);
}

static const source *load_std(sema *s, const ast_item *item) {
  const ast_names *path = &item->import.path;
  const char *name = standard_name(s, path);
  if (!name) {
    diag_error(
        s->messages, item->import.target_span,
        "expected std.NAME or a file name in quotes, found another path; write import std.mamba2 "
        "or import \"my_layer.rec\"");
    return NULL;
  }
  // A compiled library carries the text that it was made from, and that one counts.
  const source *carried = sources_find(s->all, program_standard_path(s->memory, name));
  if (carried) return carried;
  const embedded_file *row = s->options.stdlib ? embedded_find(s->options.stdlib, name) : NULL;
  if (!row) {
    suggestion found = {.name = name};
    for (const embedded_file *r = s->options.stdlib; r && r->name; r++) suggest(&found, r->name);
    diag_error(s->messages, path->items[path->count - 1].span,
               "expected a file of the standard library, found '%s'%s", name,
               suggestion_text(s, &found));
    offer_suggestion(s, &found, span_join(path->items[1].span, path->items[path->count - 1].span));
    return NULL;
  }
  return program_add_standard(s->all, s->memory, row);
}

static loaded *find_loaded_file(const import_check *c, const char *key) {
  for (int i = 0; i < c->files.count; i++)
    if (strcmp(c->files.items[i]->key, key) == 0) return c->files.items[i];
  return NULL;
}

static typed_file *load_imports(import_check *c, const char *key, const ast_file *ast);

static typed_file *refuse_cycle(import_check *c, const ast_item *item) {
  diag_error(c->sema->messages, item->import.target_span,
             "expected a file that does not lead back to this one, found a circle of imports");
  return NULL;
}

static typed_file *load_import(import_check *c, const typed_file *importer, const ast_item *item) {
  sema *s = c->sema;
  const char *key = NULL, *error = NULL;
  const source *text = NULL;
  if (!item->import.file) {
    const char *name = standard_name(s, &item->import.path);
    key = name ? arena_printf(s->memory, "std.%s", name) : NULL;
    loaded *known = key ? find_loaded_file(c, key) : NULL;
    if (known) return known->active ? refuse_cycle(c, item) : known->file;
    text = load_std(s, item);
    if (!text) return NULL;
  } else {
    const char *path = path_beside(s->memory, importer->file->source->path, item->import.file);
    key = normalise_path(s->memory, path);
    loaded *known = find_loaded_file(c, key);
    if (known) return known->active ? refuse_cycle(c, item) : known->file;
    text = sources_find(s->all, key);
    if (!text) text = sources_load_import(s->all, key, &error);
    if (!text) {
      diag_error(s->messages, item->import.target_span, "expected a readable file, found none: %s",
                 error ? error : key);
      return NULL;
    }
  }
  int errors = diag_error_count(s->messages);
  const ast_file *ast = parse_source(s->memory, s->names, s->messages, text);
  if (diag_error_count(s->messages) > errors) {
    s->broken = true;
    return NULL;
  }
  return load_imports(c, key, ast);
}

static void add_import(sema *s, typed_file *file, const ast_item *item, typed_file *imported) {
  for (int i = 0; i < file->imports.count; i++) {
    if (file->imports.items[i].file != imported) continue;
    diag_error(
        s->messages, item->import.target_span,
        "expected each file to be imported once, found it a second time; remove this import");
    return;
  }
  vec_push(s->memory, &file->imports,
           (typed_import){.file = imported, .span = item->import.target_span});
}

static void fill_names(sema *s, typed_file *file);

static typed_file *load_imports(import_check *c, const char *key, const ast_file *ast) {
  sema *s = c->sema;
  typed_file *file = ARENA_NEW(s->memory, typed_file);
  file->file = ast;
  file->name_index = ARENA_NEW(s->memory, name_map);
  file->init_index = ARENA_NEW(s->memory, name_map);
  vec_push(s->memory, &s->program->files, file);
  loaded *entry = ARENA_NEW(s->memory, loaded);
  *entry = (loaded){.key = key, .file = file, .active = true};
  vec_push(s->memory, &c->files, entry);
  for (int i = 0; i < ast->items.count; i++) {
    const ast_item *item = ast->items.items[i];
    if (item->kind != AST_IMPORT) continue;
    typed_file *imported = load_import(c, file, item);
    if (imported)
      add_import(s, file, item, imported);
    else
      s->broken = true;
  }
  entry->active = false;
  fill_names(s, file);
  return file;
}

// ---- names -----------------------------------------------------------------------------------

const char *item_kind_text(ast_item_kind kind) {
  static const char *const words[] = {"recurrence", "layer", "model", "function",
                                      "import",     "init",  "train", "evaluate"};
  return words[kind];
}

static bool has_own_space(ast_item_kind kind) {
  return kind == AST_INIT || kind == AST_TRAIN || kind == AST_EVALUATE;
}

static bool is_callable(ast_item_kind kind) { return !has_own_space(kind) && kind != AST_IMPORT; }

static void check_case(sema *s, const ast_item *item) {
  bool upper = isupper((unsigned char)item->name.text[0]);
  bool wants_upper = item->kind == AST_LAYER || item->kind == AST_MODEL;
  if (upper == wants_upper || (wants_upper && !isalpha((unsigned char)item->name.text[0]))) return;
  diag_warning(s->messages, item->name.span, "expected a%s name for the %s, found '%s'",
               wants_upper ? " capitalised" : " lower-case", item_kind_text(item->kind),
               item->name.text);
}

static bool refuse_word(sema *s, const ast_item *item) {
  const char *name = item->name.text;
  const char *what = name == s->word_t    ? "stands for the step"
                     : name == s->word_pi ? "is a number"
                     : builtin_any(name)  ? "is a built-in function"
                                          : NULL;
  if (!what) return false;
  diag_error(s->messages, item->name.span, "expected a new name, found '%s', which %s", name, what);
  return true;
}

static const typed_name *find_in_space(const typed_file *file, const ast_item *item) {
  if (item->kind != AST_INIT) return sema_find(file, item->name.text);
  int found = name_map_find(file->init_index, item->name.text);
  return found < 0 ? NULL : &file->inits.items[found];
}

static void add_item_name(sema *s, typed_file *file, typed_file *home, const ast_item *item) {
  typed_name name = {.name = item->name.text, .item = item, .file = home};
  if (item->kind == AST_INIT) {
    name_map_set(s->memory, file->init_index, name.name, file->inits.count);
    vec_push(s->memory, &file->inits, name);
  } else {
    name_map_set(s->memory, file->name_index, name.name, file->names.count);
    vec_push(s->memory, &file->names, name);
  }
}

static void refuse_taken(sema *s, span where, const char *expected, const ast_item *item,
                         const typed_name *taken, const char *already) {
  const char *kind = item_kind_text(taken->item->kind);
  diag_error(s->messages, where, "%s, found '%s', which is the name of a%s %s%s", expected,
             item->name.text, taken->item->kind == AST_INIT ? "n" : "", kind, already);
  diag_note(s->messages, taken->item->name.span, "the %s '%s' is declared here", kind, taken->name);
}

static void add_own(sema *s, typed_file *file, const ast_item *item) {
  sema_note_item(s, item->name.span, item);
  if (is_callable(item->kind)) {
    if (refuse_word(s, item)) return;
    check_case(s, item);
  }
  const typed_name *taken = find_in_space(file, item);
  if (taken) {
    refuse_taken(s, item->name.span, "expected a new name", item, taken, "");
    return;
  }
  add_item_name(s, file, file, item);
}

static void add_imported(sema *s, typed_file *file, const typed_import *import,
                         const ast_item *item) {
  const typed_name *taken = find_in_space(file, item);
  if (!taken) {
    add_item_name(s, file, import->file, item);
    return;
  }
  refuse_taken(s, import->span, "expected new names from an import", item, taken, " already");
  diag_note(s->messages, item->name.span, "the imported one is declared here");
}

// Names of runs: a train and a second train, or two evaluates, cannot share one.
static void check_runs(sema *s, const typed_file *file, ast_item_kind kind) {
  const ast_items *items = &file->file->items;
  name_map names = {0};
  for (int i = 0; i < items->count; i++) {
    const ast_item *item = items->items[i];
    if (item->kind != kind) continue;
    sema_note_item(s, item->name.span, item);
    int taken = name_map_find(&names, item->name.text);
    if (taken < 0) {
      name_map_set(s->memory, &names, item->name.text, i);
      continue;
    }
    diag_error(s->messages, item->name.span,
               "expected a new name, found '%s', which is the name of a%s %s", item->name.text,
               kind == AST_EVALUATE ? "n" : "", item_kind_text(kind));
    diag_note(s->messages, items->items[taken]->name.span, "the %s '%s' is declared here",
              item_kind_text(kind), item->name.text);
  }
}

static void fill_names(sema *s, typed_file *file) {
  for (int i = 0; i < file->file->items.count; i++) {
    const ast_item *item = file->file->items.items[i];
    if (is_callable(item->kind) || item->kind == AST_INIT) add_own(s, file, item);
  }
  check_runs(s, file, AST_TRAIN);
  check_runs(s, file, AST_EVALUATE);
  vec_each(const typed_import, import, file->imports) {
    const typed_file *imported = import->file;
    for (int k = 0; k < imported->file->items.count; k++) {
      const ast_item *item = imported->file->items.items[k];
      bool lent = (is_callable(item->kind) || item->kind == AST_INIT) &&
                  find_in_space(imported, item) && find_in_space(imported, item)->item == item;
      if (lent) add_imported(s, file, import, item);
    }
  }
}

void resolve_files(sema *s, const ast_file *ast) {
  import_check c = {.sema = s};
  s->program->main = load_imports(&c, normalise_path(s->memory, ast->source->path), ast);
}

const typed_name *sema_find(const typed_file *file, const char *name) {
  int found = name_map_find(file->name_index, name);
  return found < 0 ? NULL : &file->names.items[found];
}
