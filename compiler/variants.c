// Variants of a compilation: --dtype with several types and -D with several sizes make one for each
// combination.
//
//   --dtype f32,bf16 -D K=64,128     ->     NAME_f32_K64, NAME_f32_K128, NAME_bf16_K64, NAME_bf16_K128
//
// A recurrence that lacks the axes is compiled in the first variant of its type alone.
#include <string.h>

#include "compiler/passes.h"

// The options of a variant: number type by number type, the last -D first.
static const compile_options *variant_options(arena *a, const compile_options *all, int index,
                                              compilation *variant) {
  compile_options *own = ARENA_NEW(a, compile_options);
  *own = *all;
  memset(&own->overrides, 0, sizeof own->overrides);
  for (int i = 0; i < all->overrides.count; i++)
    vec_push(a, &own->overrides, all->overrides.items[i]);
  int *picks = ARENA_ARRAY(a, int, all->choices.count + 1);
  for (int i = all->choices.count - 1; i >= 0; i--) {
    picks[i] = index % all->choices.items[i].sizes.count;
    index /= all->choices.items[i].sizes.count;
  }
  for (int i = 0; i < all->choices.count; i++) {
    const size_choice *choice = &all->choices.items[i];
    vec_push(a, &variant->picks, picks[i]);
    vec_push(
        a, &own->overrides,
        (size_override){
            .item = choice->item, .axis = choice->axis, .size = choice->sizes.items[picks[i]]});
  }
  if (all->dtypes.count) own->dtype = all->dtypes.items[index];
  return own;
}

static int variant_count(const compile_options *options) {
  int64_t count = options->dtypes.count ? options->dtypes.count : 1;
  for (int i = 0; i < options->choices.count && count <= INT32_MAX; i++)
    count *= options->choices.items[i].sizes.count;
  return count > INT32_MAX ? INT32_MAX : (int)count;
}

bool pass_vary(compilation *c) {
  const compile_options *options = c->options;
  int count = variant_count(options);
  if (count > MOST_VARIANTS)
    c->failure = arena_printf(
        c->memory, "expected at most %d combinations of types and sizes (--dtype, -D), found %d",
        MOST_VARIANTS, count);
  if (options->choices.count && !c->syntax)
    c->failure =
        arena_printf(c->memory, "expected one size of %s with --from=recurrence, found several",
                     options->choices.items[0].name);
  for (int i = 0; i < count && !c->failure; i++) {
    compilation *variant = i ? ARENA_NEW(c->memory, compilation) : c;
    if (i)
      *variant = (compilation){.memory = c->memory,
                               .names = c->names,
                               .needs = c->needs,
                               .files = c->files,
                               .messages = c->messages,
                               .source = c->source,
                               .syntax = c->syntax};
    variant->options = variant_options(c->memory, options, i, variant);
    vec_push(c->memory, &c->variants, variant);
  }
  return c->failure == NULL;
}

bool compilation_has_body(const compilation *c, const typed_body *body) {
  return body->span.source == c->source->id;
}

// Whether -D ITEM.AXIS counts in place of -D AXIS.
static bool is_named_define(const compilation *c, const typed_body *body, const char *axis) {
  vec_each(const size_override, define, c->options->overrides)
    if (define->item && strcmp(define->item, body->name) == 0 && strcmp(define->axis, axis) == 0)
      return true;
  return false;
}

bool variant_concerns(const compilation *c, const size_choice *choice, const typed_body *body) {
  bool here = choice->item
                  ? strcmp(choice->item, body->name) == 0
                  : compilation_has_body(c, body) && !is_named_define(c, body, choice->axis);
  return here && body_axis_named(body, choice->axis) >= 0;
}

bool variant_is_repeated(const compilation *c, const typed_body *body) {
  for (int i = 0; i < c->picks.count; i++)
    if (c->picks.items[i] && !variant_concerns(c, &c->options->choices.items[i], body)) return true;
  return false;
}

const char *variant_suffix(const compilation *c, const typed_body *body) {
  const compile_options *options = c->options;
  const char *suffix = options->dtypes.count > 1
                           ? arena_printf(c->memory, "_%s", number_type_text(options->dtype))
                           : "";
  for (int i = 0; i < options->choices.count; i++) {
    const size_choice *choice = &options->choices.items[i];
    if (variant_concerns(c, choice, body))
      suffix = arena_printf(c->memory, "%s_%s%lld", suffix, choice->axis,
                            (long long)choice->sizes.items[c->picks.items[i]]);
  }
  return suffix;
}
