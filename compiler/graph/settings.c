/* Train and evaluate blocks: from settings to the schedule table.
 *
 *   train more after base { steps 100 }      model, data, .. of base; steps 100; base's weights
 *
 * A block's settings are its own and, behind `after`, those of the block before it that it does not
 * restate.
 */
#include <math.h>
#include <string.h>

#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

static const char *const setting_names[] = {"model",    "init",         "data", "context",
                                            "batch",    "steps",        "seed", "optimizer",
                                            "schedule", "initial_state"};
enum {
  MODEL,
  INIT,
  DATA,
  CONTEXT,
  BATCH,
  STEPS,
  SEED,
  OPTIMIZER,
  SCHEDULE,
  INITIAL_STATE,
  SETTING_COUNT
};

/* A train block while it is read. */
typedef struct block {
  graph_builder *b;
  graph_train *train;
  sema_scope *scope;                          /* for constants */
  const ast_setting *settings[SETTING_COUNT]; /* its own or inherited, or NULL */
} block;

static sema_scope *constant_scope(graph_builder *b) {
  return sema_scope_new(b->program->sema, b->program->main, ARENA_NEW(b->arena, typed_body));
}

/* ---- values of settings ---------------------------------------------------------------------- */

static bool read_number(block *k, const ast_expr *e, const char *what, double *x) {
  if (e->kind == AST_PERCENT) return *x = e->percent.value, true;
  return sema_constant(k->scope, e, what, x);
}

static bool read_whole(block *k, int setting, int64_t least, int64_t by_default, int64_t *x) {
  const ast_setting *s = k->settings[setting];
  *x = by_default;
  if (s) {
    if (s->value && s->value->kind != AST_MIX)
      return sema_whole(k->scope, s->value, setting_names[setting], least, x);
    diag_error(k->b->diag, s->span, "expected a number for '%s', found a block",
               setting_names[setting]);
    return false;
  }
  if (by_default >= 0) return true;
  diag_error(k->b->diag, k->train->item->name.span,
             "expected the setting '%s' in train '%s', found none", setting_names[setting],
             k->train->name);
  return false;
}

/* The arguments of `NAME(arg = value, ..)`: checks the names and that each stands once. */
typedef struct setting_call {
  const char *const *names;
  int count;
  const ast_expr *values[8];
  const ast_expr *positional;
} setting_call;

static const char *list_names(arena *memory, const char *const *names, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(memory, "%s%s%s", text, i ? ", " : "", names[i]);
  return text;
}

static bool read_call(block *k, const ast_expr *e, setting_call *call, bool positional) {
  graph_builder *b = k->b;
  for (int i = 0; e->kind == AST_CALL && i < e->call.args.count; i++) {
    const ast_arg *arg = &e->call.args.items[i];
    if (arg->kind == AST_ARG_POSITIONAL && positional && !call->positional) {
      call->positional = arg->value;
      continue;
    }
    int place = 0;
    while (arg->kind == AST_ARG_NAMED && place < call->count &&
           strcmp(call->names[place], arg->name.text) != 0)
      place++;
    if (arg->kind != AST_ARG_NAMED || place == call->count || call->values[place]) {
      diag_error(b->diag, arg->span, "expected %s for %s, found %s",
                 call->count ? list_names(b->arena, call->names, call->count) : "no arguments",
                 e->call.callee.text,
                 arg->kind != AST_ARG_NAMED
                     ? "another argument"
                     : arena_printf(b->arena, "'%s'%s", arg->name.text,
                                    place < call->count ? " a second time" : ""));
      return false;
    }
    call->values[place] = arg->value;
  }
  return true;
}

static const char *callee(const ast_expr *e) {
  return e->kind == AST_CALL ? e->call.callee.text : e->kind == AST_NAME ? e->name.text : "";
}

static const ast_expr *setting_value(block *k, int setting, const char *wanted) {
  const ast_setting *s = k->settings[setting];
  if (s->value) return s->value;
  diag_error(k->b->diag, s->span, "expected %s for '%s', found a block", wanted,
             setting_names[setting]);
  return NULL;
}

static bool in_range(block *k, const ast_expr *at, const char *what, double x, double low,
                     double high) {
  if (x >= low && x <= high) return true;
  diag_error(k->b->diag, at->span, "expected %s between %g and %g, found %g", what, low, high, x);
  return false;
}

static bool optional_number(block *k, const ast_expr *e, const char *what, double low, double high,
                            double *x) {
  return !e || (read_number(k, e, what, x) && in_range(k, e, what, *x, low, high));
}

static bool read_optimizer(block *k) {
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
  if (strcmp(callee(e), "adamw") != 0) {
    diag_error(k->b->diag, e->span, "expected adamw(lr = ...), found '%s'",
               expr_to_text(k->b->arena, e));
    return false;
  }
  if (!read_call(k, e, &call, false)) return false;
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
    if (!optional_number(k, betas->tuple.items.items[0], "the first beta", 0, 0.999999,
                         &t->beta1) ||
        !optional_number(k, betas->tuple.items.items[1], "the second beta", 0, 0.999999999,
                         &t->beta2))
      return false;
  }
  return optional_number(k, call.values[0], "lr", 0, 1e6, &t->rate) &&
         optional_number(k, call.values[2], "eps", 0, 1, &t->epsilon) &&
         optional_number(k, call.values[3], "weight_decay", 0, 1e6, &t->weight_decay) &&
         optional_number(k, call.values[4], "clip", 0, 1e30, &t->clip);
}

static bool read_schedule(block *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"warmup", "floor"};
  setting_call call = {.names = names, .count = 2};
  double warmup = 0.1 * (double)t->steps;
  if (k->settings[SCHEDULE]) {
    const ast_expr *e = setting_value(k, SCHEDULE, "cosine(...)");
    if (!e) return false;
    if (strcmp(callee(e), "cosine") != 0) {
      diag_error(k->b->diag, e->span, "expected cosine(warmup = 10%%, floor = 0), found '%s'",
                 expr_to_text(k->b->arena, e));
      return false;
    }
    if (!read_call(k, e, &call, false) ||
        !optional_number(k, call.values[1], "floor", 0, 1e6, &t->floor))
      return false;
    const ast_expr *w = call.values[0];
    if (w && !(w->kind == AST_PERCENT ? (warmup = w->percent.value * (double)t->steps, true)
                                      : read_number(k, w, "warmup", &warmup)))
      return false;
    if (w && !in_range(k, w, "the steps of the warm-up", warmup, 0, (double)t->steps)) return false;
  }
  t->warmup = llround(warmup);
  return true;
}

static bool read_generated(block *k, const ast_expr *e, const task_rules *rules) {
  graph_train *t = k->train;
  setting_call call = {.names = rules->names, .count = rules->name_count};
  t->file = NULL;
  t->task = (graph_task){.rules = rules, .text = expr_to_text(k->b->arena, e)};
  return read_call(k, e, &call, false) && task_read(k->b, k->scope, e, call.values, &t->task);
}

static bool read_data(block *k) {
  graph_train *t = k->train;
  static const char *const names[] = {"tokens", "split"};
  setting_call call = {.names = names, .count = 2};
  t->split = 0.95;
  if (!k->settings[DATA]) {
    diag_error(k->b->diag, t->item->name.span,
               "expected the setting 'data' in train '%s', found none", t->name);
    return false;
  }
  const ast_expr *e = setting_value(k, DATA, "text(\"file.txt\")");
  if (!e) return false;
  const task_rules *rules = task_rules_find(callee(e));
  if (rules) return read_generated(k, e, rules);
  if (strcmp(callee(e), "text") != 0) {
    diag_error(k->b->diag, e->span,
               "expected text(\"file.txt\") or a task (copying, stack_copying, sorting, "
               "selective_copying, mqar, passkey), found '%s'",
               expr_to_text(k->b->arena, e));
    return false;
  }
  if (!read_call(k, e, &call, true)) return false;
  if (!call.positional || call.positional->kind != AST_STRING) {
    diag_error(k->b->diag, e->span, "expected the file of the text in quotes, found %s",
               call.positional ? "another expression" : "none");
    return false;
  }
  t->file = call.positional->string.text;
  const ast_expr *tokens = call.values[0];
  if (tokens && (tokens->kind != AST_NAME || strcmp(tokens->name.text, "bytes") != 0)) {
    diag_error(k->b->diag, tokens->span,
               "expected tokens = bytes, found '%s'; this version reads bytes alone",
               expr_to_text(k->b->arena, tokens));
    return false;
  }
  return optional_number(k, call.values[1], "split", 0.01, 0.999, &t->split);
}

/* ---- initial states -------------------------------------------------------------------------- */

static bool read_kind(block *k, const ast_expr *e, double share, graph_intervention *to);

const char *intervention_name(intervention_kind kind) {
  static const char *const names[] = {[START_ZERO] = "zero",
                                      [START_STATE_PASSING] = "state_passing",
                                      [START_RANDOM_NOISE] = "random_noise",
                                      [START_FITTED_NOISE] = "fitted_noise"};
  return names[kind];
}

static void add_choice(block *k, graph_intervention *to, graph_choice added) {
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

static bool read_mix(block *k, const ast_expr *e, double share, graph_intervention *to) {
  double sum = 0;
  for (int i = 0; i < e->mix.entries.count; i++) {
    const ast_mix_entry *entry = &e->mix.entries.items[i];
    double weight;
    if (!read_number(k, entry->weight, "a weight", &weight) ||
        !in_range(k, entry->weight, "a weight of mix", weight, 0, 1) ||
        !read_kind(k, entry->kind, share * weight, to))
      return false;
    sum += weight;
  }
  if (fabs(sum - 1) < 1e-6) return true;
  diag_error(k->b->diag, e->span, "expected weights of mix that sum to 1, found a sum of %g", sum);
  return false;
}

static bool read_state_passing(block *k, const ast_expr *e, double share, graph_intervention *to) {
  static const char *const names[] = {"dropout"};
  setting_call call = {.names = names, .count = 1};
  double dropout = 0;
  if (!read_call(k, e, &call, false) ||
      !optional_number(k, call.values[0], "dropout", 0, 1, &dropout))
    return false;
  add_choice(k, to, (graph_choice){share * (1 - dropout), START_STATE_PASSING, 0});
  add_choice(k, to, (graph_choice){share * dropout, START_ZERO, 0});
  return true;
}

static bool read_random_noise(block *k, const ast_expr *e, double share, graph_intervention *to) {
  static const char *const names[] = {"sigma"};
  setting_call call = {.names = names, .count = 1};
  double sigma = 0;
  if (!read_call(k, e, &call, true)) return false;
  const ast_expr *number = call.positional ? call.positional : call.values[0];
  if (!number || (call.positional && call.values[0])) {
    diag_error(k->b->diag, e->span,
               "expected one standard deviation, as in random_noise(0.1), found '%s'",
               expr_to_text(k->b->arena, e));
    return false;
  }
  if (!optional_number(k, number, "sigma", 0, 1e6, &sigma)) return false;
  add_choice(k, to, (graph_choice){share, START_RANDOM_NOISE, sigma});
  return true;
}

/* A state has one mean and one variance a head, so a mix has one beta. */
static bool read_fitted_noise(block *k, const ast_expr *e, double share, graph_intervention *to) {
  static const char *const names[] = {"beta"};
  setting_call call = {.names = names, .count = 1};
  double beta = 0.1;
  if (!read_call(k, e, &call, false) || !optional_number(k, call.values[0], "beta", 0, 1, &beta))
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

static bool read_kind(block *k, const ast_expr *e, double share, graph_intervention *to) {
  static const char *const later[] = {"tbtt", "learned"};
  const char *name = callee(e);
  if (e->kind == AST_MIX) return read_mix(k, e, share, to);
  if (!strcmp(name, "zero"))
    return add_choice(k, to, (graph_choice){share, START_ZERO, 0}),
           read_call(k, e, &(setting_call){0}, false);
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

static bool read_edge(block *k, const ast_expr *e, int64_t *edge) {
  if (e->kind == AST_NAME && !strcmp(e->name.text, "steps")) return *edge = k->train->steps, true;
  if (e->kind == AST_PERCENT)
    return *edge = llround(e->percent.value * (double)k->train->steps), true;
  return sema_whole(k->scope, e, "a step", 0, edge);
}

static bool read_layers(block *k, const ast_expr *filter, int *first, int *last) {
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

static int model_depth(const graph_model *model) {
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
static bool check_cover(block *k, int64_t from, int64_t to, int64_t expected, int64_t end,
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

static bool read_entry(block *k, const ast_setting *s, int i, int depth, int64_t *expected) {
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
    if (!read_layers(k, entry->filter, &made.first_layer, &made.last_layer) ||
        !check_cover(k, made.first_layer, made.last_layer, *expected, depth, entry->span, "layers",
                     last))
      return false;
    *expected = made.last_layer;
  }
  if (!read_kind(k, entry->kind, 1, &made)) return false;
  vec_push(k->b->arena, &t->interventions, made);
  return true;
}

static bool read_initial_state(block *k) {
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

/* ---- models of blocks ------------------------------------------------------------------------ */

static bool apply_init(block *k, graph_model *model) {
  const ast_setting *s = k->settings[INIT];
  if (!s) return true;
  if (s->value) return parameters_init(k->b, model, s->value, 0, INT32_MAX);
  for (int i = 0; i < s->entries.count; i++) {
    const ast_setting_entry *entry = &s->entries.items[i];
    int first = 0, last = INT32_MAX, depth = model_depth(model);
    if (entry->from) {
      diag_error(k->b->diag, entry->span,
                 "expected layers(..) before an init, found a range of steps");
      return false;
    }
    if (entry->filter && !read_layers(k, entry->filter, &first, &last)) return false;
    if (entry->filter && (last > depth || first >= last)) {
      diag_error(k->b->diag, entry->filter->span, "expected layers inside 0..%d, found %d..%d",
                 depth, first, last);
      return false;
    }
    if (!parameters_init(k->b, model, entry->kind, first, last)) return false;
  }
  return true;
}

static const char *init_text(arena *memory, const ast_setting *s) {
  const char *text = "";
  if (!s) return NULL;
  if (s->value) return expr_to_text(memory, s->value);
  for (int i = 0; i < s->entries.count; i++) {
    const ast_setting_entry *e = &s->entries.items[i];
    text = arena_printf(memory, "%s%s%s%s%s", text, i ? ", " : "",
                        e->filter ? expr_to_text(memory, e->filter) : "", e->filter ? ": " : "",
                        expr_to_text(memory, e->kind));
  }
  return text;
}

static const typed_name *find_model(block *k, const ast_expr *e) {
  const typed_name *item = *callee(e) ? sema_find(k->b->program->main, callee(e)) : NULL;
  if (item && item->item->kind == AST_MODEL) return item;
  diag_error(k->b->diag, e->span, "expected a model, as in model LM(depth = 2), found '%s'",
             expr_to_text(k->b->arena, e));
  return NULL;
}

static bool read_model(block *k, const graph_train *before) {
  graph_builder *b = k->b;
  if (before) return k->train->model = before->model, k->train->init_text = before->init_text, true;
  if (!k->settings[MODEL]) {
    diag_error(b->diag, k->train->item->name.span,
               "expected the setting 'model' in train '%s', found none", k->train->name);
    return false;
  }
  const ast_expr *e = setting_value(k, MODEL, "a model");
  const typed_name *item = e ? find_model(k, e) : NULL;
  if (!item) return false;
  k->train->init_text = init_text(b->arena, k->settings[INIT]);
  int number = model_build(b, item, e, e->span);
  if (number == NONE || !apply_init(k, &b->result->models.items[number])) return false;
  k->train->model = number;
  parameters_check(b, &b->result->models.items[number]);
  return true;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int find_setting(const char *name) {
  int i = 0;
  while (i < SETTING_COUNT && strcmp(setting_names[i], name) != 0) i++;
  return i;
}

static bool read_settings(block *k, bool continues) {
  const ast_settings *own = &k->train->item->train.settings;
  const ast_setting *seen[SETTING_COUNT] = {0};
  for (int i = 0; i < own->count; i++) {
    const ast_setting *s = &own->items[i];
    int place = find_setting(s->name.text);
    if (place == SETTING_COUNT) {
      diag_error(k->b->diag, s->name.span, "expected a setting (%s), found '%s'",
                 list_names(k->b->arena, setting_names, SETTING_COUNT), s->name.text);
      return false;
    }
    if (seen[place]) {
      diag_error(k->b->diag, s->name.span, "expected the setting '%s' once, found it twice",
                 s->name.text);
      diag_note(k->b->diag, seen[place]->span, "the first one");
      return false;
    }
    if (continues && (place == MODEL || place == INIT)) {
      diag_error(k->b->diag, s->name.span,
                 "expected no '%s' in a block with 'after', which continues the weights of '%s', "
                 "found one",
                 s->name.text, k->train->after);
      return false;
    }
    k->settings[place] = seen[place] = s;
  }
  return true;
}

typedef struct block_list {
  VEC(block)
  items;
} block_list;

static const graph_train *find_train(const graph_program *program, const char *name) {
  for (int i = 0; i < program->trains.count; i++)
    if (program->trains.items[i].name == name) return &program->trains.items[i];
  return NULL;
}

static void build_train(graph_builder *b, const ast_item *item, block_list *blocks) {
  graph_program *p = b->result;
  const ast_name *after = &item->train.after;
  const graph_train *before = after->text ? find_train(p, after->text) : NULL;
  if (find_train(p, item->name.text)) {
    diag_error(b->diag, item->name.span,
               "expected a name of its own for the train block, found '%s' twice", item->name.text);
    return;
  }
  if (after->text && !before) {
    diag_error(b->diag, after->span, "expected an earlier train block, found '%s'", after->text);
    return;
  }
  graph_train train = {.name = item->name.text, .after = after->text, .item = item, .model = NONE};
  block k = {.b = b, .train = &train, .scope = constant_scope(b)};
  for (int i = 0; before && i < blocks->items.count; i++)
    if (blocks->items.items[i].train->name == before->name)
      memcpy(k.settings, blocks->items.items[i].settings, sizeof k.settings);
  bool good = read_settings(&k, before != NULL);
  if (!good) return;
  bool model = read_model(&k, before);
  good &= model;
  good &= read_data(&k);
  good &= read_whole(&k, CONTEXT, 1, -1, &train.context);
  good &= read_whole(&k, BATCH, 1, -1, &train.batch);
  good &= read_whole(&k, SEED, 0, 1, &train.seed);
  good &= read_optimizer(&k);
  if (read_whole(&k, STEPS, 1, -1, &train.steps)) {
    good &= read_schedule(&k);
    good &= !model || read_initial_state(&k);
  } else {
    good = false;
  }
  if (good && train.task.rules)
    good = task_check(b, &train, &p->models.items[train.model], k.settings[DATA]->span);
  if (!good) return;
  vec_push(b->arena, &p->trains, train);
  k.train = ARENA_NEW(b->arena, graph_train);
  *k.train = train;
  vec_push(b->arena, &blocks->items, k);
}

/* ---- evaluate -------------------------------------------------------------------------------- */

static bool read_accuracy(block *k, const ast_expr *e, const graph_train *judged,
                          graph_evaluate *to) {
  static const char *const names[] = {"lengths"};
  setting_call call = {.names = names, .count = 1};
  if (!judged->task.rules) {
    diag_error(k->b->diag, e->span,
               "expected perplexity(until = N) for '%s', which reads text, "
               "found accuracy, which is of a task",
               judged->name);
    return false;
  }
  if (to->lengths.count) {
    diag_error(k->b->diag, e->span, "expected accuracy once, found it twice");
    return false;
  }
  if (!read_call(k, e, &call, false)) return false;
  if (call.values[0]) return task_read_lengths(k->b, k->scope, call.values[0], &judged->task, to);
  diag_error(k->b->diag, e->span, "expected lengths = (N, ..) in accuracy, found none");
  return false;
}

const char *const graph_distances[] = {"total_variation", "jensen_shannon", "cosine"};

static bool read_distance(graph_builder *b, const ast_expr *e, int *distance) {
  for (int i = 0; i < GRAPH_DISTANCES; i++)
    if (!e || (e->kind == AST_NAME && !strcmp(e->name.text, graph_distances[i])))
      return *distance = i, true;
  diag_error(b->diag, e->span, "expected %s as distance, found '%s'",
             list_names(b->arena, graph_distances, GRAPH_DISTANCES), expr_to_text(b->arena, e));
  return false;
}

static bool read_task(graph_builder *b, const ast_expr *task, const graph_train *judged,
                      graph_evaluate *to) {
  static const char *const lengths[] = {"until"}, *const memories[] = {"T", "distance"};
  const char *name = callee(task);
  bool remembers = !strcmp(name, "remembrance");
  setting_call call = {.names = remembers ? memories : lengths, .count = remembers ? 2 : 1};
  block k = {.b = b, .scope = constant_scope(b)};
  if (!strcmp(name, "accuracy")) return read_accuracy(&k, task, judged, to);
  if (judged->task.rules) {
    diag_error(b->diag, task->span,
               "expected accuracy(lengths = N) for '%s', which reads a task, "
               "found '%s'",
               judged->name, expr_to_text(b->arena, task));
    return false;
  }
  int64_t *length = !strcmp(name, "perplexity")   ? &to->until
                    : !strcmp(name, "state_norm") ? &to->state_until
                    : remembers                   ? &to->remembrance
                                                  : NULL;
  if (!length || task->kind != AST_CALL) {
    diag_error(b->diag, task->span,
               "expected perplexity(until = N), state_norm(until = N) or remembrance(T = N), found "
               "'%s'",
               expr_to_text(b->arena, task));
    return false;
  }
  if (*length) {
    diag_error(b->diag, task->span, "expected %s once, found it twice", name);
    return false;
  }
  if (!read_call(&k, task, &call, false)) return false;
  if (!call.values[0]) {
    diag_error(b->diag, task->span, "expected %s = N in %s, found none", call.names[0], name);
    return false;
  }
  return sema_whole(k.scope, call.values[0], call.names[0], 2, length) &&
         (!remembers || read_distance(b, call.values[1], &to->distance));
}

static void build_evaluate(graph_builder *b, const ast_item *item) {
  graph_program *p = b->result;
  graph_evaluate made = {.name = item->name.text, .item = item};
  const ast_name *after = &item->evaluate.after;
  for (int i = 0; i < p->evaluates.count; i++)
    if (p->evaluates.items[i].name == made.name)
      diag_error(b->diag, item->name.span,
                 "expected a name of its own for the evaluate block, found '%s' twice", made.name);
  if (after->text ? !find_train(p, after->text) : !p->trains.count) {
    diag_error(b->diag, after->text ? after->span : item->name.span,
               "expected a train block to judge, found %s",
               after->text ? arena_printf(b->arena, "'%s'", after->text) : "none in this file");
    return;
  }
  made.after = after->text ? after->text : p->trains.items[p->trains.count - 1].name;
  bool good = true;
  for (int i = 0; i < item->evaluate.tasks.count; i++)
    good &= read_task(b, item->evaluate.tasks.items[i], find_train(p, made.after), &made);
  if (good) vec_push(b->arena, &p->evaluates, made);
}

void settings_build(graph_builder *b) {
  block_list blocks = {0};
  bool train_failed = false;
  for (int i = 0; i < b->program->layers.count; i++) {
    const ast_item *item = b->program->layers.items[i].item;
    int before = diag_error_count(b->diag);
    if (item->kind == AST_TRAIN) build_train(b, item, &blocks);
    train_failed |= diag_error_count(b->diag) > before;
  }
  for (int i = 0; i < b->program->layers.count && !train_failed; i++)
    if (b->program->layers.items[i].item->kind == AST_EVALUATE)
      build_evaluate(b, b->program->layers.items[i].item);
}
