// The entry: files and names, then functions, then every recurrence that the file declares or
// imports.
#include "compiler/sema/sema.h"

#include <string.h>

#include "compiler/sema/internal.h"

static const ast_header *item_header(const ast_item *item) {
  switch (item->kind) {
    case AST_RECURRENCE:
    case AST_LAYER:
    case AST_MODEL: return &item->body.header;
    case AST_INIT: return &item->init.header;
    default: return NULL;
  }
}

static bool header_declares(const ast_header *header, const char *axis) {
  for (int i = 0; header && i < header->count; i++)
    if (strcmp(header->items[i].name.text, axis) == 0) return true;
  return false;
}

static const ast_header *header_named(const typed_program *program, const char *name) {
  const typed_file *file = program->main;
  for (int i = 0; i < file->names.count; i++)
    if (strcmp(file->names.items[i].name, name) == 0) return item_header(file->names.items[i].item);
  for (int i = 0; i < file->inits.count; i++)
    if (strcmp(file->inits.items[i].name, name) == 0) return item_header(file->inits.items[i].item);
  return NULL;
}

static void suggest_axes(suggestion *found, const ast_header *header) {
  for (int i = 0; header && i < header->count; i++) suggest(found, header->items[i].name.text);
}

static void check_override_of_item(sema *s, size_override *o) {
  static const span nowhere = {0};
  const ast_header *header = header_named(s->program, o->item);
  if (!header) {
    suggestion found = {.name = o->item};
    for (int i = 0; i < s->program->main->names.count; i++)
      suggest(&found, s->program->main->names.items[i].name);
    diag_error(s->messages, nowhere,
               "expected a declaration with axes in -D %s.%s=%lld, found '%s'%s", o->item, o->axis,
               (long long)o->size, o->item, suggestion_text(s, &found));
  } else if (!header_declares(header, o->axis)) {
    suggestion found = {.name = o->axis};
    suggest_axes(&found, header);
    diag_error(s->messages, nowhere, "expected an axis of %s in -D %s.%s=%lld, found '%s'%s",
               o->item, o->item, o->axis, (long long)o->size, o->axis, suggestion_text(s, &found));
  } else {
    o->used = true;
  }
}

static void check_override_of_file(sema *s, size_override *o) {
  static const span nowhere = {0};
  const ast_file *file = s->program->main->file;
  suggestion found = {.name = o->axis};
  for (int i = 0; i < file->items.count; i++) {
    const ast_header *header = item_header(file->items.items[i]);
    if (header_declares(header, o->axis)) o->used = true;
    suggest_axes(&found, header);
  }
  if (o->used) return;
  diag_error(s->messages, nowhere,
             "expected an axis of a declaration of %s in -D %s=%lld, found '%s'%s",
             file->source->path, o->axis, (long long)o->size, o->axis, suggestion_text(s, &found));
}

static void check_overrides(sema *s) {
  for (int i = 0; i < s->options.override_count; i++) {
    size_override *o = &s->options.overrides[i];
    if (o->item)
      check_override_of_item(s, o);
    else
      check_override_of_file(s, o);
    if (o->size < 1 || o->size > INT32_MAX) {
      diag_error(s->messages, (span){0},
                 "expected a size from 1 to 2147483647 in -D %s%s%s=%lld, found %lld",
                 o->item ? o->item : "", o->item ? "." : "", o->axis, (long long)o->size,
                 (long long)o->size);
      o->size = 1;
    }
  }
}

static void list_layers(sema *s) {
  typed_program *p = s->program;
  for (int i = 0; i < p->main->names.count; i++) {
    ast_item_kind kind = p->main->names.items[i].item->kind;
    if (kind == AST_LAYER || kind == AST_MODEL)
      vec_push(s->memory, &p->layers, p->main->names.items[i]);
  }
  for (int i = 0; i < p->main->inits.count; i++)
    vec_push(s->memory, &p->layers, p->main->inits.items[i]);
  for (int i = 0; i < p->main->file->items.count; i++) {
    const ast_item *item = p->main->file->items.items[i];
    if (item->kind != AST_TRAIN && item->kind != AST_EVALUATE) continue;
    vec_push(s->memory, &p->layers,
             (typed_name){.name = item->name.text, .item = item, .file = p->main});
  }
}

static void check_bodies(sema *s) {
  typed_program *p = s->program;
  for (int i = 0; i < p->files.count; i++) {
    const typed_file *file = p->files.items[i];
    vec_each(const typed_name, name, file->names) {
      if (diag_error_count(s->messages) > MOST_ERRORS) return;
      if (name->item->kind == AST_FN && name->file == file) check_function(s, name);
    }
  }
  vec_each(const typed_name, name, p->main->names) {
    if (name->item->kind != AST_RECURRENCE) continue;
    if (diag_error_count(s->messages) > MOST_ERRORS) return;
    typed_body *body = sema_instantiate(s, name, NULL, 0, (span){0});
    if (body) vec_push(s->memory, &p->recurrences, body);
  }
}

typed_program *sema_check(arena *memory, interner *names, diag *messages, sources *all,
                          const ast_file *file, const sema_options *options) {
  sema *s = ARENA_NEW(memory, sema);
  s->memory = memory;
  s->names = names;
  s->messages = messages;
  s->all = all;
  s->options = *options;
  s->program = ARENA_NEW(memory, typed_program);
  s->program->sema = s;
  s->word_t = intern(names, "t");
  s->word_pi = intern(names, "pi");
  s->word_complex = intern(names, "complex");
  s->word_std = intern(names, "std");
  resolve_files(s, file);
  list_layers(s);
  if (s->broken && !options->uses) return s->program;
  // For editors the names of the rest are resolved nevertheless; half of what is said then follows
  // from what is missing.
  if (s->broken) s->messages = diag_new(memory, all);
  check_overrides(s);
  check_bodies(s);
  return s->program;
}
