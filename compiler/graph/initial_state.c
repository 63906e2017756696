/* initial_state: what sequences start from, as a table of interventions.
 *
 *   initial_state {
 *     0..20   : zero                                            steps 0..20: 1 zero
 *     20..100 : mix { 0.9: state_passing, 0.1: zero }           steps 20..100: 0.9 state_passing,
 *   }                                                             0.1 zero
 */
#include <math.h>
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

static bool read_kind(train_settings *k, const ast_expr *e, double share, graph_intervention *to);

const char *intervention_name(intervention_kind kind) {
  static const char *const names[] = {[START_ZERO] = "zero",
                                      [START_STATE_PASSING] = "state_passing",
                                      [START_RANDOM_NOISE] = "random_noise",
                                      [START_FITTED_NOISE] = "fitted_noise"};
  return names[kind];
}

static void add_choice(train_settings *k, graph_intervention *to, graph_choice added) {
  if (added.weight <= 0) return;
  for (int i = 0; i < to->choices.count; i++) {
    graph_choice *c = &to->choices.items[i];
    if (c->kind == added.kind && c->number == added.number) {
      c->weight += added.weight;
      return;
    }
  }
  vec_push(k->b->arena, &to->choices, added);
}

static bool read_mix(train_settings *k, const ast_expr *e, double share, graph_intervention *to) {
  double sum = 0;
  for (int i = 0; i < e->mix.entries.count; i++) {
    const ast_mix_entry *entry = &e->mix.entries.items[i];
    double weight;
    if (!setting_number(k, entry->weight, "a weight", &weight) ||
        !setting_in_range(k, entry->weight, "a weight of mix", weight, 0, 1) ||
        !read_kind(k, entry->kind, share * weight, to))
      return false;
    sum += weight;
  }
  if (fabs(sum - 1) < 1e-6) return true;
  diag_error(k->b->diag, e->span, "expected weights of mix that sum to 1, found a sum of %g", sum);
  return false;
}

static bool read_state_passing(train_settings *k, const ast_expr *e, double share,
                               graph_intervention *to) {
  static const char *const names[] = {"dropout"};
  setting_call call = {.names = names, .count = 1};
  double dropout = 0;
  if (!setting_arguments(k, e, &call, false) ||
      !setting_optional(k, call.values[0], "dropout", 0, 1, &dropout))
    return false;
  add_choice(k, to, (graph_choice){share * (1 - dropout), START_STATE_PASSING, 0});
  add_choice(k, to, (graph_choice){share * dropout, START_ZERO, 0});
  return true;
}

static bool read_random_noise(train_settings *k, const ast_expr *e, double share,
                              graph_intervention *to) {
  static const char *const names[] = {"sigma"};
  setting_call call = {.names = names, .count = 1};
  double sigma = 0;
  if (!setting_arguments(k, e, &call, true)) return false;
  const ast_expr *number = call.positional ? call.positional : call.values[0];
  if (!number || (call.positional && call.values[0])) {
    diag_error(k->b->diag, e->span,
               "expected one standard deviation, as in random_noise(0.1), found '%s'",
               expr_to_text(k->b->arena, e));
    return false;
  }
  if (!setting_optional(k, number, "sigma", 0, 1e6, &sigma)) return false;
  add_choice(k, to, (graph_choice){share, START_RANDOM_NOISE, sigma});
  return true;
}

/* A state has one mean and one variance a head, so a mix has one beta. */
static bool read_fitted_noise(train_settings *k, const ast_expr *e, double share,
                              graph_intervention *to) {
  static const char *const names[] = {"beta"};
  setting_call call = {.names = names, .count = 1};
  double beta = 0.1;
  if (!setting_arguments(k, e, &call, false) ||
      !setting_optional(k, call.values[0], "beta", 0, 1, &beta))
    return false;
  for (int i = 0; i < to->choices.count; i++) {
    const graph_choice *c = &to->choices.items[i];
    if (c->kind != START_FITTED_NOISE || c->number == beta) continue;
    diag_error(k->b->diag, e->span,
               "expected one beta for all fitted_noise of a mix, found %g and %g", c->number, beta);
    return false;
  }
  add_choice(k, to, (graph_choice){share, START_FITTED_NOISE, beta});
  return true;
}

static bool read_kind(train_settings *k, const ast_expr *e, double share, graph_intervention *to) {
  static const char *const later[] = {"tbtt", "learned"};
  const char *name = setting_callee(e);
  if (e->kind == AST_MIX) return read_mix(k, e, share, to);
  if (!strcmp(name, "zero"))
    return add_choice(k, to, (graph_choice){share, START_ZERO, 0}),
           setting_arguments(k, e, &(setting_call){0}, false);
  if (!strcmp(name, "state_passing")) return read_state_passing(k, e, share, to);
  if (!strcmp(name, "random_noise")) return read_random_noise(k, e, share, to);
  if (!strcmp(name, "fitted_noise")) return read_fitted_noise(k, e, share, to);
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (!strcmp(name, later[i])) {
      diag_error(
          k->b->diag, e->span,
          "expected zero, state_passing, random_noise, fitted_noise or mix, found '%s', which this "
          "version does not have yet",
          name);
      return false;
    }
  diag_error(k->b->diag, e->span,
             "expected zero, state_passing(dropout = p), random_noise(sigma), fitted_noise or mix "
             "{ .. }, found "
             "'%s'",
             expr_to_text(k->b->arena, e));
  return false;
}

static bool read_edge(train_settings *k, const ast_expr *e, int64_t *edge) {
  if (e->kind == AST_NAME && !strcmp(e->name.text, "steps")) return *edge = k->train->steps, true;
  if (e->kind == AST_PERCENT)
    return *edge = llround(e->percent.value * (double)k->train->steps), true;
  return sema_whole(k->scope, e, "a step", 0, edge);
}

bool setting_layers(train_settings *k, const ast_expr *filter, int *first, int *last) {
  const ast_args *args = &filter->call.args;
  int64_t from, to;
  if (strcmp(filter->call.callee.text, "layers") != 0 || args->count != 1 ||
      args->items[0].kind == AST_ARG_NAMED || args->items[0].kind == AST_ARG_ARROW) {
    diag_error(k->b->diag, filter->span, "expected a range of steps or layers(0..3), found '%s'",
               expr_to_text(k->b->arena, filter));
    return false;
  }
  if (!sema_whole(k->scope, args->items[0].value, "a layer", 0, &from)) return false;
  to = from + 1;
  if (args->items[0].kind == AST_ARG_RANGE &&
      !sema_whole(k->scope, args->items[0].to, "a layer", 0, &to))
    return false;
  *first = (int)from, *last = (int)to;
  return true;
}

int model_depth(const graph_model *model) {
  int depth = 0;
  for (int i = 0; i < model->states.count; i++)
    if (model->states.items[i].repeat_index >= depth)
      depth = model->states.items[i].repeat_index + 1;
  for (int i = 0; i < model->parameters.count; i++)
    if (model->parameters.items[i].repeat_index >= depth)
      depth = model->parameters.items[i].repeat_index + 1;
  return depth;
}

/* Entries must follow one another from 0 to `end` in the order written. */
static bool check_cover(train_settings *k, int64_t from, int64_t to, int64_t expected, int64_t end,
                        span where, const char *what, bool last) {
  const char *wrong = from < expected ? "an overlap" : from > expected ? "a gap" : NULL;
  if (wrong) {
    diag_error(k->b->diag, where, "expected %s from %lld on, found %s: %lld..%lld", what,
               (long long)expected, wrong, (long long)from, (long long)to);
    return false;
  }
  if (to > from && to <= end && (!last || to == end)) return true;
  const char *wanted = to <= from ? "a range that is not empty"
                       : to > end ? "a range inside all"
                                  : "the last range to reach the end of all";
  diag_error(k->b->diag, where, "expected %s %s 0..%lld, found %lld..%lld", wanted, what,
             (long long)end, (long long)from, (long long)to);
  return false;
}

static bool read_entry(train_settings *k, const ast_setting *s, int i, int depth,
                       int64_t *expected) {
  const ast_setting_entry *entry = &s->entries.items[i];
  graph_train *t = k->train;
  graph_intervention made = {.from = 0, .to = t->steps, .first_layer = 0, .last_layer = INT32_MAX};
  bool last = i + 1 == s->entries.count;
  bool ranges = s->entries.items[0].from != NULL, layers = s->entries.items[0].filter != NULL;
  if ((entry->from != NULL) != ranges || (entry->filter != NULL) != layers ||
      (!ranges && !layers && i)) {
    diag_error(k->b->diag, entry->span,
               "expected %s before each kind of initial_state, found an entry without",
               layers ? "layers(..)" : "a range of steps");
    return false;
  }
  if (ranges) {
    if (!read_edge(k, entry->from, &made.from) || !read_edge(k, entry->to, &made.to) ||
        !check_cover(k, made.from, made.to, *expected, t->steps, entry->span, "steps", last))
      return false;
    *expected = made.to;
  }
  if (layers) {
    if (!setting_layers(k, entry->filter, &made.first_layer, &made.last_layer) ||
        !check_cover(k, made.first_layer, made.last_layer, *expected, depth, entry->span, "layers",
                     last))
      return false;
    *expected = made.last_layer;
  }
  if (!read_kind(k, entry->kind, 1, &made)) return false;
  vec_push(k->b->arena, &t->interventions, made);
  return true;
}

bool read_initial_state(train_settings *k) {
  const ast_setting *s = k->settings[INITIAL_STATE];
  graph_train *t = k->train;
  graph_intervention all = {.from = 0, .to = t->steps, .first_layer = 0, .last_layer = INT32_MAX};
  if (s && s->has_entries) {
    int64_t expected = 0;
    for (int i = 0; i < s->entries.count; i++)
      if (!read_entry(k, s, i, model_depth(&k->b->result->models.items[t->model]), &expected))
        return false;
    if (s->entries.count) return true;
    diag_error(k->b->diag, s->span, "expected a kind of initial_state, found none");
    return false;
  }
  if (s ? !read_kind(k, s->value, 1, &all)
        : (add_choice(k, &all, (graph_choice){1, START_ZERO, 0}), false))
    return false;
  vec_push(k->b->arena, &t->interventions, all);
  return true;
}
