// Variants of one library: a recurrence for several number types and sizes.
//
//   --dtype f32,bf16 -D K=64,128:
//     gla_f32_K64, gla_f32_K128, gla_bf16_K64, gla_bf16_K128   the variants
//     gla_f32, gla_bf16                                        pick one by the sizes of a call
//     gla                                                      another name of gla_f32
//
// An entry point that picks has a table of its own (rec_choice), which points to the tables of its
// variants. For foreign runtimes there is one of all variants (rec_variants).
#include <string.h>

#include "compiler/artifact/tables.h"
#include "compiler/base/text.h"

// ---- putting variants together ---------------------------------------------------------------

static void add_recurrences(arena *a, const artifact *const *variants, int count, const char *plain,
                            artifact *whole) {
  for (int v = 0; v < count; v++)
    vec_each(const artifact_recurrence, r, variants[v]->recurrences)
      if (strcmp(r->plain, plain) == 0) vec_push(a, &whole->recurrences, *r);
}

static bool has_dtype(const artifact *whole, number_type dtype) {
  for (int i = 0; i < whole->dtypes.count; i++)
    if (whole->dtypes.items[i] == dtype) return true;
  return false;
}

// An entry for the variants of one type, if there are several. Returns the symbol that stands for
// them.
static const char *add_variant_choice(arena *a, artifact *whole, const artifact_recurrence *like,
                                      number_type dtype, const char *symbol) {
  artifact_entry entry = {.symbol = symbol};
  for (int i = 0; i < whole->recurrences.count; i++) {
    const artifact_recurrence *r = &whole->recurrences.items[i];
    if (r->variant->dtype == dtype && strcmp(r->plain, like->plain) == 0)
      vec_push(a, &entry.variants, i);
  }
  if (entry.variants.count == 1)
    return whole->recurrences.items[entry.variants.items[0]].abi->symbol;
  vec_push(a, &whole->entries, entry);
  return symbol;
}

static void add_dtype_entries(arena *a, artifact *whole, const artifact_recurrence *like,
                              const char *const *plain, int count) {
  const char *first = NULL;
  for (int i = 0; i < whole->dtypes.count; i++) {
    number_type dtype = whole->dtypes.items[i];
    const char *suffix =
        whole->dtypes.count > 1 ? arena_printf(a, "_%s", number_type_text(dtype)) : "";
    const char *symbol = add_variant_choice(
        a, whole, like, dtype, abi_variant_symbol(a, like->plain, suffix, plain, count));
    if (!first) first = symbol;
  }
  if (strcmp(first, like->plain) == 0) return;
  artifact_entry same = {.symbol = like->plain, .same_as = first};
  vec_push(a, &whole->entries, same);
}

// A call fills the same struct whichever variant it gets.
static const char *check_variant_arguments(arena *a, const artifact *whole) {
  vec_each(const artifact_entry, entry, whole->entries) {
    for (int i = 1; i < entry->variants.count; i++) {
      const abi_recurrence *first = whole->recurrences.items[entry->variants.items[0]].abi,
                           *other = whole->recurrences.items[entry->variants.items[i]].abi;
      if (!abi_same_arguments(first, other))
        return arena_printf(
            a, "expected the same arguments of %s with every size, found others of %s than of %s",
            first->body->name, other->symbol, first->symbol);
    }
  }
  return NULL;
}

const char *artifact_join(arena *a, const artifact *const *variants, int count, artifact *whole) {
  artifact joined = *variants[0];
  joined.choices = whole->choices;
  memset(&joined.recurrences, 0, sizeof joined.recurrences);
  int recurrences = variants[0]->recurrences.count;
  const char **plain = ARENA_ARRAY(a, const char *, recurrences + 1);
  for (int v = 0; v < count; v++) {
    if (!has_dtype(&joined, variants[v]->dtype)) vec_push(a, &joined.dtypes, variants[v]->dtype);
    joined.gpu_targets |= variants[v]->gpu_targets;
  }
  for (int i = 0; i < recurrences; i++) plain[i] = variants[0]->recurrences.items[i].plain;
  for (int i = 0; i < recurrences; i++) add_recurrences(a, variants, count, plain[i], &joined);
  for (int i = 0; i < recurrences; i++)
    add_dtype_entries(a, &joined, &variants[0]->recurrences.items[i], plain, recurrences);
  *whole = joined;
  return check_variant_arguments(a, whole);
}

// ---- tables of variants ----------------------------------------------------------------------

const artifact_entry *artifact_entry_named(const artifact *whole, const char *symbol) {
  for (int i = 0; i < whole->entries.count; i++)
    if (strcmp(whole->entries.items[i].symbol, symbol) == 0) return &whole->entries.items[i];
  return NULL;
}

// The command that made the library, but for the sizes there are to choose from.
static const char *command_of(arena *a, const artifact *whole) {
  const char *text = arena_printf(a, "recc %s --dtype ", whole->source);
  for (int i = 0; i < whole->dtypes.count; i++)
    text = arena_printf(a, "%s%s%s", text, i ? "," : "", number_type_text(whole->dtypes.items[i]));
  if (*whole->prefix) text = arena_printf(a, "%s --prefix %s", text, whole->prefix);
  if (*whole->without) text = arena_printf(a, "%s --without %s", text, whole->without);
  for (int i = 0; i < whole->exported.count; i++)
    text = arena_printf(a, "%s --export %s", text, whole->exported.items[i]);
  for (int i = 0; i < whole->defines.count; i++)
    if (!strchr(whole->defines.items[i], ','))
      text = arena_printf(a, "%s -D %s", text, whole->defines.items[i]);
  return text;
}

static bool is_fixed_axis(const artifact_recurrence *r, const char *axis) {
  for (int i = 0; i < r->fixed.count; i++)
    if (strcmp(r->fixed.items[i].axis, axis) == 0) return true;
  return false;
}

typedef VEC(char) text_block;

// Puts a text behind the table; returns its place from the start.
static int32_t put_variant_text(arena *a, text_block *texts, size_t table_size, const char *text) {
  int32_t at = (int32_t)table_size + texts->count;
  for (const char *c = text; c <= text + strlen(text); c++) vec_push(a, texts, *c);
  return at;
}

typedef VEC(codegen_address) address_list;

// The tables of variants, one behind the other from `at` on.
static void add_table_address(arena *a, address_list *addresses, size_t at,
                              const artifact_recurrence *variant) {
  int64_t offset = (int64_t)(at + sizeof(void *) * (size_t)addresses->count);
  vec_push(a, addresses,
           (codegen_address){offset, arena_printf(a, "%s.table", variant->abi->symbol)});
}

codegen_blob artifact_variants_table(arena *a, const artifact *whole, const char *plain,
                                     const char *symbol) {
  address_list addresses = {0};
  for (int i = 0; i < whole->recurrences.count; i++)
    if (strcmp(whole->recurrences.items[i].plain, plain) == 0)
      add_table_address(a, &addresses, sizeof(rec_variants), &whole->recurrences.items[i]);
  size_t size = sizeof(rec_variants) + sizeof(void *) * (size_t)addresses.count;
  rec_variants variants = {addresses.count, (int32_t)size};
  char *bytes = arena_alloc(a, size + strlen(plain) + 1);
  memcpy(bytes, &variants, sizeof variants);
  strcpy(bytes + size, plain);
  return (codegen_blob){.symbol = symbol,
                        .bytes = bytes,
                        .size = (int64_t)(size + strlen(plain) + 1),
                        .addresses = addresses.items,
                        .address_count = addresses.count};
}

codegen_blob artifact_choice_table(arena *a, const artifact *whole, const artifact_entry *entry,
                                   const char *symbol) {
  const artifact_recurrence *first = &whole->recurrences.items[entry->variants.items[0]];
  size_t size = sizeof(rec_choice) + sizeof(void *) * (size_t)entry->variants.count;
  text_block texts = {0};
  rec_choice choice = {.count = entry->variants.count};
  choice.name_at = put_variant_text(a, &texts, size, entry->symbol);
  choice.command_at = put_variant_text(a, &texts, size, command_of(a, whole));
  vec_each(const artifact_choice, sizes, whole->choices) {
    if (!is_fixed_axis(first, sizes->axis) || choice.axis_count == REC_CHOICE_AXES) continue;
    choice.axes[choice.axis_count++] =
        (rec_choice_axis){body_axis_named(first->abi->body, sizes->axis),
                          put_variant_text(a, &texts, size, sizes->name)};
  }
  char *bytes = arena_alloc(a, size + (size_t)texts.count);
  memcpy(bytes, &choice, sizeof choice);
  memcpy(bytes + size, texts.items, (size_t)texts.count);
  address_list addresses = {0};
  for (int i = 0; i < entry->variants.count; i++)
    add_table_address(a, &addresses, sizeof choice,
                      &whole->recurrences.items[entry->variants.items[i]]);
  return (codegen_blob){.symbol = symbol,
                        .bytes = bytes,
                        .size = (int64_t)size + texts.count,
                        .addresses = addresses.items,
                        .address_count = addresses.count};
}
