/* How a train block learns: optimizer and schedule.
 *
 *   optimizer adamw(lr = 1e-3)  schedule cosine(warmup = 10%)     rate 0.001, warmup 200, ..
 */
#include <math.h>
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

bool read_optimizer(train_settings *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"lr", "betas", "eps", "weight_decay", "clip"};
  setting_call call = {.names = names, .count = 5};
  t->beta1 = 0.9, t->beta2 = 0.95, t->epsilon = 1e-8, t->weight_decay = 0.01, t->clip = 1;
  if (!k->settings[OPTIMIZER]) {
    diag_error(k->b->diag, t->item->name.span,
               "expected the setting 'optimizer' in train '%s', found none", t->name);
    return false;
  }
  const ast_expr *e = setting_value(k, OPTIMIZER, "adamw(lr = ...)");
  if (!e) return false;
  if (strcmp(setting_callee(e), "adamw") != 0) {
    diag_error(k->b->diag, e->span, "expected adamw(lr = ...), found '%s'",
               expr_to_text(k->b->arena, e));
    return false;
  }
  if (!setting_arguments(k, e, &call, false)) return false;
  if (!call.values[0]) {
    diag_error(k->b->diag, e->span, "expected lr = ... in adamw, found none");
    return false;
  }
  const ast_expr *betas = call.values[1];
  if (betas) {
    if (betas->kind != AST_TUPLE || betas->tuple.items.count != 2) {
      diag_error(k->b->diag, betas->span,
                 "expected two numbers, as in betas = (0.9, 0.95), found '%s'",
                 expr_to_text(k->b->arena, betas));
      return false;
    }
    if (!setting_optional(k, betas->tuple.items.items[0], "the first beta", 0, 0.999999,
                          &t->beta1) ||
        !setting_optional(k, betas->tuple.items.items[1], "the second beta", 0, 0.999999999,
                          &t->beta2))
      return false;
  }
  return setting_optional(k, call.values[0], "lr", 0, 1e6, &t->rate) &&
         setting_optional(k, call.values[2], "eps", 0, 1, &t->epsilon) &&
         setting_optional(k, call.values[3], "weight_decay", 0, 1e6, &t->weight_decay) &&
         setting_optional(k, call.values[4], "clip", 0, 1e30, &t->clip);
}

bool read_schedule(train_settings *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"warmup", "floor"};
  setting_call call = {.names = names, .count = 2};
  double warmup = 0.1 * (double)t->steps;
  if (k->settings[SCHEDULE]) {
    const ast_expr *e = setting_value(k, SCHEDULE, "cosine(...)");
    if (!e) return false;
    if (strcmp(setting_callee(e), "cosine") != 0) {
      diag_error(k->b->diag, e->span, "expected cosine(warmup = 10%%, floor = 0), found '%s'",
                 expr_to_text(k->b->arena, e));
      return false;
    }
    if (!setting_arguments(k, e, &call, false) ||
        !setting_optional(k, call.values[1], "floor", 0, 1e6, &t->floor))
      return false;
    const ast_expr *w = call.values[0];
    if (w && !(w->kind == AST_PERCENT ? (warmup = w->percent.value * (double)t->steps, true)
                                      : setting_number(k, w, "warmup", &warmup)))
      return false;
    if (w && !setting_in_range(k, w, "the steps of the warm-up", warmup, 0, (double)t->steps))
      return false;
  }
  t->warmup = llround(warmup);
  return true;
}
