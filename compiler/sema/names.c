#include "compiler/sema/names.h"

#include <string.h>

#include "compiler/base/text.h"
#include "compiler/sema/internal.h"

// ---- while names are resolved ----------------------------------------------------------------

name_uses *name_uses_new(arena *memory) {
  name_uses *all = ARENA_NEW(memory, name_uses);
  all->memory = memory;
  return all;
}

// A place as a key of a name_map.
static const void *place_key(uint32_t text, uint32_t begin) {
  return (const void *)(uintptr_t)((uint64_t)text << 32 | begin);
}

// What is written once may be resolved again and again: by each call of a function, in each layer
// of a model. The first time counts, or the first that knows more than the name.
static void add_use(name_uses *all, name_use use) {
  if (use.where.source == 0 || use.name[0] == '(') return;  // a name of no source
  // of a declaration that begins with it
  use.where.end = use.where.begin + (uint32_t)strlen(use.name);
  use.declared.end = use.declared.begin + (uint32_t)strlen(use.name);
  const void *key = place_key(use.where.source, use.where.begin);
  int known = name_map_find(&all->places, key);
  if (known < 0) {
    name_map_set(all->memory, &all->places, key, all->list.count);
    vec_push(all->memory, &all->list, use);
  } else if (!all->list.items[known].body && use.body) {
    use.kind = all->list.items[known].kind;
    use.declared = all->list.items[known].declared;
    all->list.items[known] = use;
  }
}

void note_symbol_use(const sema_scope *scope, const symbol *s, span where) {
  name_uses *all = scope->sema->options.uses;
  if (!all) return;
  add_use(all, (name_use){.where = where,
                          .declared = s->span,
                          .name = s->name,
                          .kind = symbol_kind_text(s->kind),
                          .symbol = s,
                          .body = scope->body});
}

void sema_note_name(const sema *s, const ast_name *name, span declared, const char *kind) {
  if (!s->options.uses) return;
  add_use(s->options.uses,
          (name_use){.where = name->span, .declared = declared, .name = name->text, .kind = kind});
}

void sema_note_item(const sema *s, span where, const ast_item *item) {
  if (!s->options.uses) return;
  add_use(s->options.uses, (name_use){.where = where,
                                      .declared = item->name.span,
                                      .name = item->name.text,
                                      .kind = item_kind_text(item->kind),
                                      .item = item});
}

// ---- afterwards ------------------------------------------------------------------------------

const name_use *name_uses_at(const name_uses *all, uint32_t text, uint32_t offset) {
  const name_use *before = NULL;
  vec_each(const name_use, use, all->list) {
    if (use->where.source != text || offset < use->where.begin || offset > use->where.end) continue;
    if (offset < use->where.end) return use;
    before = use;
  }
  return before;
}

const name_use *name_uses_declaration(const name_uses *all, const name_use *use) {
  int found = name_map_find(&all->places, place_key(use->declared.source, use->declared.begin));
  return found < 0 ? NULL : &all->list.items[found];
}

int name_use_tensor(const name_use *use) {
  if (!use->symbol) return -1;
  symbol_kind kind = use->symbol->kind;
  bool tensor =
      kind == SYMBOL_INPUT || kind == SYMBOL_PARAM || kind == SYMBOL_STATE || kind == SYMBOL_OUTPUT;
  return tensor && use->symbol->index < use->body->tensors.count ? use->symbol->index : -1;
}

static void print_named_axis(FILE *out, const typed_axis *axis) {
  fputs(axis->name, out);
  if (axis->size != TYPED_RUNTIME_SIZE && !axis->stands_in)
    fprintf(out, " = %lld", (long long)axis->size);
}

static void print_named_axes(FILE *out, const typed_body *body, const int *axes, int count) {
  for (int i = 0; i < count; i++) {
    fputs(i ? ", " : "[", out);
    print_named_axis(out, &body->axes.items[axes[i]]);
  }
  if (count) fputc(']', out);
}

static void print_axes_of_set(FILE *out, const typed_body *body, axis_set set) {
  int axes[TYPED_MAX_AXES], count = 0;
  for (int i = 0; i < body->axes.count; i++)
    if (axis_in(set, i)) axes[count++] = i;
  print_named_axes(out, body, axes, count);
}

static void print_tensor_of(FILE *out, const typed_body *body, const typed_tensor *tensor) {
  print_named_axes(out, body, tensor->axes, tensor->axis_count);
  print_tensor_kind(out, body, tensor);
}

static void print_operand(FILE *out, const typed_body *body, const sema_operand *value) {
  if (value->kind == OPERAND_CONSTANT) {
    fputs(" = ", out);
    print_number(out, value->number);
  } else if (value->kind == OPERAND_VALUE) {
    print_axes_of_set(out, body, value->axes);
    if (value->complex) fputs(" : complex", out);
  }
}

char *name_use_text(arena *memory, const name_use *use) {
  text_stream text;
  FILE *out = text_begin(&text);
  int tensor = name_use_tensor(use);
  fprintf(out, "%s %s", use->kind, use->name);
  if (tensor >= 0) {
    print_tensor_of(out, use->body, &use->body->tensors.items[tensor]);
  } else if (use->symbol && use->symbol->kind == SYMBOL_AXIS) {
    const typed_axis *axis = &use->body->axes.items[use->symbol->index];
    if (axis->stands_in)
      fputs(", whose size the caller gives", out);
    else if (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr)
      fprintf(out, " = %s, known at run time", expr_to_text(memory, axis->size_expr));
    else if (axis->size == TYPED_RUNTIME_SIZE)
      fputs(", whose size is known at run time", out);
    else
      fprintf(out, " = %lld", (long long)axis->size);
  } else if (use->symbol) {
    print_operand(out, use->body, &use->symbol->value);
  }
  return text_end(&text, memory);
}
