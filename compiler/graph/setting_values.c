// Values of settings: what the readers of train and evaluate blocks share.
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

const char *const setting_names[] = {
    "model",     "init",     "data",       "context",  "batch",    "steps", "seed",
    "optimizer", "schedule", "accumulate", "segments", "exchange", "loss",  "initial_state"};

// Reads a setting that may not be written as a percentage, for there is nothing that it would be a
// share of.
static bool setting_number(train_settings *k, const ast_expr *e, const char *what, double *x) {
  if (e->kind != AST_PERCENT) return sema_constant(k->scope, e, what, x);
  return diag_error(k->b->diag, e->span,
                    "expected a number for %s, which is a share of nothing, found %s; write %g",
                    what, e->percent.text, e->percent.value);
}

bool setting_part(train_settings *k, const ast_expr *e, const char *what, double whole, double *x) {
  if (e->kind != AST_PERCENT) return sema_constant(k->scope, e, what, x);
  *x = e->percent.value * whole;
  return true;
}

bool setting_whole(train_settings *k, int setting, int64_t least, int64_t by_default, int64_t *x) {
  const ast_setting *s = k->settings[setting];
  *x = by_default;
  if (s) {
    if (s->value && s->value->kind != AST_MIX)
      return sema_whole(k->scope, s->value, setting_names[setting], least, x);
    return diag_error(k->b->diag, s->span, "expected a number for '%s', found a block",
                      setting_names[setting]);
  }
  if (by_default >= 0) return true;
  return diag_error(k->b->diag, k->train->item->name.span,
                    "expected the setting '%s' in train '%s', found none", setting_names[setting],
                    k->train->name);
}

const char *setting_list(arena *memory, const char *const *names, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(memory, "%s%s%s", text, i ? ", " : "", names[i]);
  return text;
}

const char *setting_choice(arena *memory, const char *const *names, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(memory, "%s%s%s", text,
                        i == 0          ? ""
                        : i + 1 < count ? ", "
                                        : " or ",
                        names[i]);
  return text;
}

bool setting_arguments(train_settings *k, const ast_expr *e, setting_call *call, bool positional) {
  graph_builder *b = k->b;
  for (int i = 0; e->kind == AST_CALL && i < e->call.args.count; i++) {
    const ast_arg *arg = &e->call.args.items[i];
    if (arg->kind == AST_ARG_POSITIONAL && positional && !call->positional) {
      call->positional = arg->value;
      continue;
    }
    if (arg->kind == AST_ARG_ARROW && call->pairs) continue;
    int place = 0;
    while (arg->kind == AST_ARG_NAMED && place < call->count &&
           strcmp(call->names[place], arg->name.text) != 0)
      place++;
    if (arg->kind != AST_ARG_NAMED || place == call->count || call->values[place]) {
      return diag_error(
          b->diag, arg->span, "expected %s for %s, found %s",
          call->count ? setting_list(b->arena, call->names, call->count) : "no arguments",
          e->call.callee.text,
          arg->kind != AST_ARG_NAMED ? "another argument"
                                     : arena_printf(b->arena, "'%s'%s", arg->name.text,
                                                    place < call->count ? " a second time" : ""));
    }
    call->values[place] = arg->value;
  }
  return true;
}

const char *setting_callee(const ast_expr *e) {
  return e->kind == AST_CALL ? e->call.callee.text : e->kind == AST_NAME ? e->name.text : "";
}

const ast_expr *setting_value(train_settings *k, int setting, const char *wanted) {
  const ast_setting *s = k->settings[setting];
  if (s->value) return s->value;
  diag_error(k->b->diag, s->span, "expected %s for '%s', found a block", wanted,
             setting_names[setting]);
  return NULL;
}

bool setting_in_range(train_settings *k, const ast_expr *at, const char *what, double x, double low,
                      double high) {
  if (x >= low && x <= high) return true;
  return diag_error(k->b->diag, at->span, "expected %s between %g and %g, found %.15g", what, low,
                    high, x);
}

bool setting_optional(train_settings *k, const ast_expr *e, const char *what, double low,
                      double high, double *x) {
  return !e || (setting_number(k, e, what, x) && setting_in_range(k, e, what, *x, low, high));
}

bool setting_share(train_settings *k, const ast_expr *e, const char *what, double low, double high,
                   double *x) {
  return !e || (setting_part(k, e, what, 1, x) && setting_in_range(k, e, what, *x, low, high));
}

bool setting_layers(train_settings *k, const ast_expr *filter, int *first, int *last) {
  const ast_args *args = &filter->call.args;
  int64_t from, to;
  if (strcmp(filter->call.callee.text, "layers") != 0 || args->count != 1 ||
      args->items[0].kind == AST_ARG_NAMED || args->items[0].kind == AST_ARG_ARROW) {
    return diag_error(k->b->diag, filter->span,
                      "expected a range of steps or layers(0..3), found '%s'",
                      expr_to_text(k->b->arena, filter));
  }
  if (!sema_whole(k->scope, args->items[0].value, "a layer", 0, &from)) return false;
  to = from + 1;
  if (args->items[0].kind == AST_ARG_RANGE &&
      !sema_whole(k->scope, args->items[0].to, "a layer", 0, &to))
    return false;
  *first = (int)from, *last = (int)to;
  return true;
}
