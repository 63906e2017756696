// initial_state: what sequences start from, as a table of interventions.
//
//   initial_state {
//     0..20   : zero                                            steps 0..20: 1 zero
//     20..100 : mix { 0.9: state_passing, 0.1: zero }           steps 20..100: 0.9 state_passing,
//   }                                                             0.1 zero
#include <math.h>
#include <string.h>

#include "compiler/graph/settings.h"
#include "compiler/syntax/syntax.h"

static bool read_start_kind(train_settings *k, const ast_expr *e, graph_weight share,
                            graph_intervention *to);

// ---- numbers and weights ---------------------------------------------------------------------

static const graph_ramp no_number = {0, 0};

// Reads one number: setting_optional or setting_share.
typedef bool number_reader(train_settings *k, const ast_expr *e, const char *what, double low,
                           double high, double *x);

// A number, or ramp(from -> to).
static bool read_ramp_setting(train_settings *k, const ast_expr *e, number_reader *read,
                              const char *what, double high, graph_ramp *r) {
  if (!e) return true;
  if (strcmp(setting_callee(e), "ramp") != 0 || e->kind != AST_CALL) {
    if (!read(k, e, what, 0, high, &r->from)) return false;
    r->to = r->from;
    return true;
  }
  const ast_args *args = &e->call.args;
  if (args->count == 1 && args->items[0].kind == AST_ARG_ARROW)
    return read(k, args->items[0].value, what, 0, high, &r->from) &&
           read(k, args->items[0].to, what, 0, high, &r->to);
  return diag_error(k->b->diag, e->span, "expected two numbers, as in ramp(0 -> 0.1), found '%s'",
                    expr_to_text(k->b->arena, e));
}

static graph_weight ramp_product(train_settings *k, graph_weight share, graph_ramp r) {
  graph_weight product = {.constant = share.constant};
  for (int i = 0; i < share.ramps.count; i++)
    vec_push(k->b->arena, &product.ramps, share.ramps.items[i]);
  if (r.from == r.to)
    product.constant *= r.from;
  else
    vec_push(k->b->arena, &product.ramps, r);
  return product;
}

static void add_start_choice(train_settings *k, graph_intervention *to, graph_weight weight,
                             intervention_kind kind, graph_ramp number) {
  if (weight.constant <= 0) return;
  vec_each(graph_choice, c, to->choices) {
    bool same = c->kind == kind && c->number.from == number.from && c->number.to == number.to;
    if (!same || c->weight.ramps.count || weight.ramps.count) continue;
    c->weight.constant += weight.constant;
    return;
  }
  vec_push(k->b->arena, &to->choices, (graph_choice){weight, kind, number});
}

// ---- kinds -----------------------------------------------------------------------------------

static bool read_mix(train_settings *k, const ast_expr *e, graph_weight share,
                     graph_intervention *to) {
  graph_ramp sum = {0};
  vec_each(const ast_mix_entry, entry, e->mix.entries) {
    graph_ramp weight = {0};
    if (!read_ramp_setting(k, entry->weight, setting_share, "a weight of mix", 1, &weight) ||
        !read_start_kind(k, entry->kind, ramp_product(k, share, weight), to))
      return false;
    sum.from += weight.from, sum.to += weight.to;
  }
  double wrong = fabs(sum.from - 1) < 1e-6 ? sum.to : sum.from;
  if (fabs(wrong - 1) < 1e-6) return true;
  return diag_error(k->b->diag, e->span, "expected weights of mix that sum to 1, found a sum of %g",
                    wrong);
}

// A kind without settings.
static bool read_plain_kind(train_settings *k, const ast_expr *e, graph_weight share,
                            graph_intervention *to, intervention_kind kind) {
  add_start_choice(k, to, share, kind, no_number);
  return setting_arguments(k, e, &(setting_call){0}, false);
}

// What a batch ends with belongs to the next one if the data are read on.
static bool read_tbtt(train_settings *k, const ast_expr *e, graph_weight share,
                      graph_intervention *to) {
  // NULL: an error already
  const ast_expr *data = k->settings[DATA] ? k->settings[DATA]->value : NULL;
  if (k->train->task.rules)
    return diag_error(
        k->b->diag, e->span,
        "expected tbtt beside a text or tokens, which go on from batch to batch, found the "
        "task %s",
        k->train->task.rules->name);
  for (int i = 0; data && data->kind == AST_CALL && i < data->call.args.count; i++) {
    const ast_arg *arg = &data->call.args.items[i];
    if (arg->kind != AST_ARG_NAMED || strcmp(arg->name.text, "order") != 0 ||
        k->train->source.streaming)
      continue;
    diag_error(k->b->diag, e->span,
               "expected tbtt beside order = streaming, found order = shuffled");
    diag_note(k->b->diag, arg->span, "the order");
    return false;
  }
  k->train->source.streaming = true;
  return read_plain_kind(k, e, share, to, FROM_TBTT);
}

static bool read_learned(train_settings *k, const ast_expr *e, graph_weight share,
                         graph_intervention *to) {
  parameters_learn_states(k->b, &k->b->result->models.items[k->train->model], to->first_layer,
                          to->last_layer);
  return read_plain_kind(k, e, share, to, FROM_LEARNED);
}

static bool read_state_passing(train_settings *k, const ast_expr *e, graph_weight share,
                               graph_intervention *to) {
  static const char *const names[] = {"dropout"};
  setting_call call = {.names = names, .count = 1};
  graph_ramp dropout = {0};
  if (!setting_arguments(k, e, &call, false) ||
      !read_ramp_setting(k, call.values[0], setting_share, "dropout", 1, &dropout))
    return false;
  graph_ramp kept = {1 - dropout.from, 1 - dropout.to};
  add_start_choice(k, to, ramp_product(k, share, kept), FROM_STATE_PASSING, no_number);
  add_start_choice(k, to, ramp_product(k, share, dropout), FROM_ZERO, no_number);
  return true;
}

static bool read_random_noise(train_settings *k, const ast_expr *e, graph_weight share,
                              graph_intervention *to) {
  static const char *const names[] = {"sigma"};
  setting_call call = {.names = names, .count = 1};
  graph_ramp sigma = {0};
  if (!setting_arguments(k, e, &call, true)) return false;
  const ast_expr *number = call.positional ? call.positional : call.values[0];
  if (!number || (call.positional && call.values[0]))
    return diag_error(k->b->diag, e->span,
                      "expected one standard deviation, as in random_noise(0.1), found '%s'",
                      expr_to_text(k->b->arena, e));
  if (!read_ramp_setting(k, number, setting_optional, "sigma", 1e6, &sigma)) return false;
  add_start_choice(k, to, share, FROM_RANDOM_NOISE, sigma);
  return true;
}

static bool equal_names(const ast_names *a, const ast_names *b) {
  bool equal = (a == NULL) == (b == NULL) && (!a || a->count == b->count);
  for (int i = 0; equal && a && i < a->count; i++) equal = a->items[i].text == b->items[i].text;
  return equal;
}

// Some state of the layers must have each of the axes.
static bool read_per(train_settings *k, const ast_expr *e, graph_intervention *to) {
  const graph_model *model = &k->b->result->models.items[k->train->model];
  const ast_names *per = e ? &e->axes.names : NULL;
  if (e && e->kind != AST_AXES)
    return diag_error(k->b->diag, e->span, "expected axes in brackets, as in per = [H], found '%s'",
                      expr_to_text(k->b->arena, e));
  for (int i = 0; per && i < per->count; i++) {
    bool found = false;
    for (int n = 0; n < model->states.count; n++)
      for (int axis = 0; axis < model->states.items[n].axis_count; axis++)
        found |= !strcmp(model->states.items[n].axes[axis], per->items[i].text);
    if (found) continue;
    return diag_error(k->b->diag, per->items[i].span,
                      "expected an axis of a state of the model, found '%s'", per->items[i].text);
  }
  bool before = false;
  for (int i = 0; i < to->choices.count; i++)
    before |= to->choices.items[i].kind == FROM_FITTED_NOISE;
  if (before && !equal_names(to->per, per))
    return diag_error(k->b->diag, e ? e->span : to->per->items[0].span,
                      "expected the same axes for all fitted_noise of a mix, found others");
  to->per = per;
  return true;
}

// A state has one mean and one variance a head, so a mix has one beta.
static bool read_fitted_noise(train_settings *k, const ast_expr *e, graph_weight share,
                              graph_intervention *to) {
  static const char *const names[] = {"beta", "per"};
  setting_call call = {.names = names, .count = 2};
  graph_ramp beta = {0.1, 0.1};
  if (!setting_arguments(k, e, &call, false) ||
      !read_ramp_setting(k, call.values[0], setting_share, "beta", 1, &beta) ||
      !read_per(k, call.values[1], to))
    return false;
  vec_each(const graph_choice, c, to->choices) {
    if (c->kind != FROM_FITTED_NOISE || (c->number.from == beta.from && c->number.to == beta.to))
      continue;
    return diag_error(k->b->diag, e->span,
                      "expected one beta for all fitted_noise of a mix, found %g and %g",
                      c->number.from, beta.from);
  }
  add_start_choice(k, to, share, FROM_FITTED_NOISE, beta);
  return true;
}

typedef bool kind_reader(train_settings *k, const ast_expr *e, graph_weight share,
                         graph_intervention *to);

// By kind, the function that reads its settings and notes what else it changes. NULL: the kind has
// no settings.
static kind_reader *const readers[INTERVENTION_KINDS] = {
    [FROM_LEARNED] = read_learned,
    [FROM_STATE_PASSING] = read_state_passing,
    [FROM_RANDOM_NOISE] = read_random_noise,
    [FROM_FITTED_NOISE] = read_fitted_noise,
    [FROM_TBTT] = read_tbtt,
};

static bool read_start_kind(train_settings *k, const ast_expr *e, graph_weight share,
                            graph_intervention *to) {
  if (e->kind == AST_MIX) return read_mix(k, e, share, to);
  for (int kind = 0; kind < INTERVENTION_KINDS; kind++) {
    if (strcmp(setting_callee(e), intervention_names[kind]) != 0) continue;
    return readers[kind] ? readers[kind](k, e, share, to)
                         : read_plain_kind(k, e, share, to, (intervention_kind)kind);
  }
  return diag_error(k->b->diag, e->span, "expected %s, or mix { .. }, found '%s'",
                    setting_choice(k->b->arena, intervention_written, INTERVENTION_KINDS),
                    expr_to_text(k->b->arena, e));
}

// ---- entries ---------------------------------------------------------------------------------

static bool read_edge(train_settings *k, const ast_expr *e, int64_t *edge) {
  if (e->kind == AST_NAME && !strcmp(e->name.text, "steps")) return *edge = k->train->steps, true;
  if (e->kind == AST_PERCENT)
    return *edge = llround(e->percent.value * (double)k->train->steps), true;
  return sema_whole(k->scope, e, "a step", 0, edge);
}

// Entries must follow one another from 0 to `end` in the order written.
static bool check_entry_cover(train_settings *k, int64_t from, int64_t to, int64_t expected,
                              int64_t end, span where, const char *what, bool last) {
  const char *wrong = from < expected ? "an overlap" : from > expected ? "a gap" : NULL;
  if (wrong)
    return diag_error(k->b->diag, where, "expected %s from %lld on, found %s: %lld..%lld", what,
                      (long long)expected, wrong, (long long)from, (long long)to);
  if (to > from && to <= end && (!last || to == end)) return true;
  const char *wanted = to <= from ? "a range that is not empty within"
                       : to > end ? "a range inside all"
                                  : "the last range to reach the end of all";
  return diag_error(k->b->diag, where, "expected %s %s 0..%lld, found %lld..%lld", wanted, what,
                    (long long)end, (long long)from, (long long)to);
}

static bool read_start_entry(train_settings *k, const ast_setting *s, int i, int depth,
                             int64_t *expected) {
  const ast_setting_entry *entry = &s->entries.items[i];
  graph_train *t = k->train;
  graph_intervention made = {.from = 0, .to = t->steps, .first_layer = 0, .last_layer = INT32_MAX};
  bool last = i + 1 == s->entries.count;
  bool ranges = s->entries.items[0].from != NULL, layers = s->entries.items[0].filter != NULL;
  if ((entry->from != NULL) != ranges || (entry->filter != NULL) != layers ||
      (!ranges && !layers && i)) {
    return diag_error(k->b->diag, entry->span,
                      "expected %s before each kind of initial_state, found an entry without",
                      layers ? "layers(..)" : "a range of steps");
  }
  if (ranges) {
    if (!read_edge(k, entry->from, &made.from) || !read_edge(k, entry->to, &made.to) ||
        !check_entry_cover(k, made.from, made.to, *expected, t->steps, entry->span, "steps", last))
      return false;
    *expected = made.to;
  }
  if (layers) {
    if (!setting_layers(k, entry->filter, &made.first_layer, &made.last_layer) ||
        !check_entry_cover(k, made.first_layer, made.last_layer, *expected, depth, entry->span,
                           "layers", last))
      return false;
    *expected = made.last_layer;
  }
  if (!read_start_kind(k, entry->kind, (graph_weight){.constant = 1}, &made)) return false;
  vec_push(k->b->arena, &t->interventions, made);
  return true;
}

// The statistics of a state are kept from entry to entry, so its axes are the same in all of them.
static bool one_per(train_settings *k, const ast_setting *s) {
  const graph_intervention *first = NULL;
  for (int i = 0; i < s->entries.count && s->entries.items[0].from; i++) {
    const graph_intervention *v = &k->train->interventions.items[i];
    bool fitted = false;
    for (int n = 0; n < v->choices.count; n++)
      fitted |= v->choices.items[n].kind == FROM_FITTED_NOISE;
    if (fitted && first && !equal_names(first->per, v->per))
      return diag_error(k->b->diag, s->entries.items[i].span,
                        "expected the same axes for all fitted_noise of a block, found others");
    if (fitted) first = v;
  }
  return true;
}

bool read_initial_state(train_settings *k) {
  const ast_setting *s = k->settings[INITIAL_STATE];
  graph_train *t = k->train;
  graph_intervention all = {.from = 0, .to = t->steps, .first_layer = 0, .last_layer = INT32_MAX};
  if (s && !s->value) {
    int64_t expected = 0;
    for (int i = 0; i < s->entries.count; i++)
      if (!read_start_entry(k, s, i, model_depth(&k->b->result->models.items[t->model]), &expected))
        return false;
    if (s->entries.count) return one_per(k, s);
    return diag_error(k->b->diag, s->span, "expected a kind of initial_state, found none");
  }
  graph_weight whole = {.constant = 1};
  if (s && !read_start_kind(k, s->value, whole, &all)) return false;
  if (!s) add_start_choice(k, &all, whole, FROM_ZERO, no_number);
  vec_push(k->b->arena, &t->interventions, all);
  return true;
}
