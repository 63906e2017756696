// How a train block learns: optimizer, schedule, the weights of the loss.
//
//   optimizer adamw(lr = 1e-3, no_decay = "conv1d")   rate 0.001, no decay of parameters 3, 9
//   schedule  linear(warmup = 10%)                    linear, warmup 200, floor 0
//   loss      cross_entropy(from = 8, 32 -> 0.5)      from token 8; label 32 weighs 0.5
#include <math.h>
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

static bool read_betas(train_settings *k, const ast_expr *betas) {
  if (!betas) return true;
  if (betas->kind != AST_TUPLE || betas->tuple.items.count != 2)
    return diag_error(k->b->diag, betas->span,
                      "expected two numbers, as in betas = (0.9, 0.95), found '%s'",
                      expr_to_text(k->b->arena, betas));
  return setting_share(k, betas->tuple.items.items[0], "the first beta", 0, 0.999999,
                       &k->train->beta1) &&
         setting_share(k, betas->tuple.items.items[1], "the second beta", 0, 0.999999999,
                       &k->train->beta2);
}

// Kinds of weights by name, single weights by their path in quotes.
static bool exclude(train_settings *k, const ast_expr *e) {
  const graph_model *model = &k->b->result->models.items[k->train->model];
  int found = 0;
  for (int i = 0; i < model->parameters.count; i++) {
    const graph_parameter *p = &model->parameters.items[i];
    bool same = e->kind == AST_STRING ? parameter_named(k->b->arena, p, e->string.text)
                : e->kind == AST_NAME && parameter_kind_decays[p->kind]
                    ? !strcmp(e->name.text, parameter_kind_names[p->kind])
                    : false;
    if (!same) continue;
    found++;
    bool again = false;
    for (int n = 0; n < k->train->no_decay.count; n++) again |= k->train->no_decay.items[n] == i;
    if (!again) vec_push(k->b->arena, &k->train->no_decay, i);
  }
  if (found) return true;
  return diag_error(
      k->b->diag, e->span,
      "expected linear, embedding, convolution or a weight's path in quotes in no_decay, "
      "found '%s'%s",
      expr_to_text(k->b->arena, e),
      e->kind == AST_STRING ? ", which no weight of the model has" : "");
}

static bool read_no_decay(train_settings *k, const ast_expr *e) {
  bool good = true;
  if (k->train->model == NONE) return true;  // an error already
  if (e && e->kind != AST_TUPLE) return exclude(k, e);
  for (int i = 0; e && i < e->tuple.items.count; i++) good &= exclude(k, e->tuple.items.items[i]);
  return good;
}

static const optimizer_rules *find_optimizer(train_settings *k, const ast_expr *e) {
  const char *known = "";
  for (int i = 0; i < OPTIMIZERS; i++) {
    const optimizer_rules *rules = &optimizer_rules_of[i];
    if (!strcmp(setting_callee(e), rules->name)) return rules;
    known = arena_printf(k->b->arena, "%s%s%s(lr = ...)", known, i ? " or " : "", rules->name);
  }
  diag_error(k->b->diag, e->span, "expected %s, found '%s'", known, expr_to_text(k->b->arena, e));
  return NULL;
}

bool read_optimizer(train_settings *k) {
  graph_train *t = k->train;
  const char *names[7] = {"lr", "betas", "eps", "weight_decay", "clip", "no_decay"};
  setting_call call = {.names = names, .count = 6};
  t->beta1 = 0.9, t->beta2 = 0.95, t->epsilon = 1e-8, t->weight_decay = 0.01, t->clip = 1;
  if (!k->settings[OPTIMIZER])
    return diag_error(k->b->diag, t->item->name.span,
                      "expected the setting 'optimizer' in train '%s', found none", t->name);
  const ast_expr *e = setting_value(k, OPTIMIZER, "adamw(lr = ...)");
  if (!e) return false;
  const optimizer_rules *rules = find_optimizer(k, e);
  if (!rules) return false;
  t->optimizer = (optimizer_kind)(rules - optimizer_rules_of), t->optimizer_own = rules->by_default;
  if (rules->own) names[call.count++] = rules->own;
  if (!setting_arguments(k, e, &call, false)) return false;
  if (!call.values[0])
    return diag_error(k->b->diag, e->span, "expected lr = ... in %s, found none", rules->name);
  return setting_share(k, call.values[6], rules->own, 0, 0.999999, &t->optimizer_own) &&
         read_betas(k, call.values[1]) &&
         setting_optional(k, call.values[0], "lr", 0, 1e6, &t->rate) &&
         setting_optional(k, call.values[2], "eps", 0, 1, &t->epsilon) &&
         setting_share(k, call.values[3], "weight_decay", 0, 1e6, &t->weight_decay) &&
         setting_optional(k, call.values[4], "clip", 0, 1e30, &t->clip) &&
         read_no_decay(k, call.values[5]);
}

// A number of steps, or a part of all of them. A fraction is neither: 0.1 of a step is nothing.
static bool read_step_setting(train_settings *k, const ast_expr *e, const char *what,
                              double *steps) {
  double all = (double)k->train->steps;
  if (!e) return true;
  if (!setting_part(k, e, what, all, steps)) return false;
  if (e->kind != AST_PERCENT && *steps != floor(*steps))
    return diag_error(
        k->b->diag, e->span,
        "expected whole steps or a percentage of all steps for the %s, as in 100 or 10%%, "
        "found %g",
        what, *steps);
  return setting_in_range(k, e, arena_printf(k->b->arena, "the steps of the %s", what), *steps, 0,
                          all);
}

static bool find_schedule(train_settings *k, const ast_expr *e) {
  for (int i = 0; i < SCHEDULE_KINDS; i++)
    if (!strcmp(setting_callee(e), schedule_names[i]))
      return k->train->schedule = (schedule_kind)i, true;
  return diag_error(
      k->b->diag, e->span, "expected %s, as in cosine(warmup = 10%%, floor = 0), found '%s'",
      setting_choice(k->b->arena, schedule_names, SCHEDULE_KINDS), expr_to_text(k->b->arena, e));
}

// A number, or a share of the rate.
static bool read_floor(train_settings *k, const ast_expr *e) {
  k->floor = e;
  return !e || (setting_part(k, e, "floor", k->train->rate, &k->train->floor) &&
                setting_in_range(k, e, "floor", k->train->floor, 0, 1e6));
}

bool check_floor(const train_settings *k) {
  const graph_train *t = k->train;
  if (t->floor <= t->rate) return true;
  return diag_error(k->b->diag, k->floor->span,
                    "expected a floor of at most %g, the lr of train '%s', found %g", t->rate,
                    t->name, t->floor);
}

bool read_schedule(train_settings *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"warmup", "floor", "decay"};
  double warmup = 0.1 * (double)t->steps, decay = 0.2 * (double)t->steps;
  const ast_expr *e = NULL;
  if (k->settings[SCHEDULE]) {
    e = setting_value(k, SCHEDULE, "cosine(...)");
    if (!e || !find_schedule(k, e)) return false;
    setting_call call = {.names = names, .count = schedule_settings[t->schedule]};
    if (!setting_arguments(k, e, &call, false) ||
        !read_step_setting(k, call.values[0], "warm-up", &warmup) ||
        !read_floor(k, call.values[1]) || !read_step_setting(k, call.values[2], "decay", &decay))
      return false;
  }
  t->warmup = llround(warmup);
  t->decay = t->schedule == SCHEDULE_STABLE ? llround(decay) : 0;
  if (t->warmup + t->decay <= t->steps) return true;
  return diag_error(k->b->diag, e->span,
                    "expected warm-up and decay within %lld steps, found %lld and %lld",
                    (long long)t->steps, (long long)t->warmup, (long long)t->decay);
}

// ---- loss ------------------------------------------------------------------------------------

static bool read_label_setting(train_settings *k, const ast_arg *arg) {
  label_weight made = {.weight = 1};
  int vocabulary = k->b->result->models.items[k->train->model].vocabulary;
  if (!sema_whole(k->scope, arg->value, "a label", 0, &made.label) ||
      !setting_share(k, arg->to, "the weight of a label", 0, 1e6, &made.weight))
    return false;
  bool again = false;
  for (int i = 0; i < k->train->labels.count; i++)
    again |= k->train->labels.items[i].label == made.label;
  if (made.label < vocabulary && !again) {
    vec_push(k->b->arena, &k->train->labels, made);
    return true;
  }
  return diag_error(k->b->diag, arg->span, "expected %s, found %lld",
                    again ? "each label once" : "a label of the model's vocabulary",
                    (long long)made.label);
}

// Some sequence must have this token.
static bool read_from_token(train_settings *k, const ast_expr *e) {
  graph_train *t = k->train;
  bool generated = t->task.rules && task_sequence_tokens(&t->task) <= t->context;
  int64_t tokens = generated ? task_sequence_tokens(&t->task) : t->context;
  if (!e) return true;
  if (!sema_whole(k->scope, e, "from", 0, &t->loss_from)) return false;
  if (t->loss_from < tokens) return true;
  return diag_error(
      k->b->diag, e->span, "expected a loss from a token below the %s of %lld, found %lld",
      generated ? "longest sequence" : "context", (long long)tokens, (long long)t->loss_from);
}

bool read_loss(train_settings *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"from", "rest"};
  setting_call call = {.names = names, .count = 2, .pairs = true};
  t->loss_rest = 1;
  if (!k->settings[LOSS]) return true;
  const ast_expr *e = setting_value(k, LOSS, "cross_entropy(...)");
  if (!e) return false;
  if (strcmp(setting_callee(e), "cross_entropy") != 0)
    return diag_error(k->b->diag, e->span,
                      "expected cross_entropy(from = 0, rest = 1, LABEL -> WEIGHT, ..), found '%s'",
                      expr_to_text(k->b->arena, e));
  if (!setting_arguments(k, e, &call, false)) return false;
  if (!read_from_token(k, call.values[0]) ||
      !setting_share(k, call.values[1], "rest", 0, 1e6, &t->loss_rest))
    return false;
  if (call.values[1] && !(t->task.rules && t->task.all))
    return diag_error(
        k->b->diag, call.values[1]->span,
        "expected 'rest' beside a task with loss = all, which has answers and other tokens, "
        "found other data");
  for (int i = 0; e->kind == AST_CALL && i < e->call.args.count; i++)
    if (e->call.args.items[i].kind == AST_ARG_ARROW &&
        !read_label_setting(k, &e->call.args.items[i]))
      return false;
  return true;
}
