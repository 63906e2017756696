// Train and evaluate blocks: from settings to the schedule table.
//
//   train more after base { steps 100 }      model, data, .. of base; steps 100; base's weights
//
// A block's settings are its own and, behind `after`, those of the block before it that it does not
// restate.
#include "compiler/graph/settings.h"

#include <string.h>

#include "compiler/abi/segment.h"
#include "compiler/syntax/syntax.h"

static sema_scope *constant_scope(graph_builder *b) {
  return sema_scope_new(b->program->sema, b->program->main, ARENA_NEW(b->arena, typed_body));
}

// ---- data ------------------------------------------------------------------------------------

static bool read_generated(train_settings *k, const ast_expr *e, const task_rules *rules) {
  graph_train *t = k->train;
  setting_call call = {.names = rules->settings, .count = task_settings(rules)};
  t->source.separator = -1;
  t->task = (graph_task){.rules = rules, .text = expr_to_text(k->b->arena, e)};
  return setting_arguments(k, e, &call, false) &&
         task_read(k->b, k->scope, e, call.values, &t->task);
}

static bool read_data(train_settings *k) {
  graph_train *t = k->train;
  if (!k->settings[DATA])
    return diag_error(k->b->diag, t->item->name.span,
                      "expected the setting 'data' in train '%s', found none", t->name);
  const ast_expr *e = setting_value(k, DATA, "text(\"file.txt\")");
  if (!e) return false;
  const task_rules *rules = task_rules_find(setting_callee(e));
  if (rules) return read_generated(k, e, rules);
  const source_rules *files = source_rules_find(setting_callee(e));
  if (!files)
    return diag_error(
        k->b->diag, e->span,
        "expected text(\"file.txt\"), tokens(\"file.bin\") or a task (%s), found '%s'",
        task_list(k->b->arena), expr_to_text(k->b->arena, e));
  setting_call call = {.names = files->names, .count = files->name_count};
  return setting_arguments(k, e, &call, true) && source_read(k, e, call.positional, call.values);
}

// ---- models of blocks ------------------------------------------------------------------------

static bool apply_init(train_settings *k, graph_model *model) {
  const ast_setting *s = k->settings[INIT];
  if (!s) return true;
  if (s->value) return parameters_init(k->b, model, s->value, 0, INT32_MAX);
  vec_each(const ast_setting_entry, entry, s->entries) {
    int first = 0, last = INT32_MAX, depth = model_depth(model);
    if (entry->from)
      return diag_error(k->b->diag, entry->span,
                        "expected layers(..) before an init, found a range of steps");
    if (entry->filter && !setting_layers(k, entry->filter, &first, &last)) return false;
    if (entry->filter && (last > depth || first >= last))
      return diag_error(k->b->diag, entry->filter->span,
                        "expected layers inside 0..%d, found %d..%d", depth, first, last);
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

static const typed_name *find_model(train_settings *k, const ast_expr *e) {
  const typed_name *item =
      *setting_callee(e) ? sema_find(k->b->program->main, setting_callee(e)) : NULL;
  if (item) sema_note_item(k->b->program->sema, e->span, item->item);
  if (item && item->item->kind == AST_MODEL) return item;
  diag_error(k->b->diag, e->span, "expected a model, as in model LM(depth = 2), found '%s'",
             expr_to_text(k->b->arena, e));
  return NULL;
}

static bool read_train_model(train_settings *k, const graph_train *before) {
  graph_builder *b = k->b;
  if (before) return k->train->model = before->model, k->train->init_text = before->init_text, true;
  if (!k->settings[MODEL])
    return diag_error(b->diag, k->train->item->name.span,
                      "expected the setting 'model' in train '%s', found none", k->train->name);
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

// ---- blocks ----------------------------------------------------------------------------------

static int find_setting(const char *name) {
  int i = 0;
  while (i < SETTING_COUNT && strcmp(setting_names[i], name) != 0) i++;
  return i;
}

static bool read_settings(train_settings *k, bool continues) {
  const ast_settings *own = &k->train->item->train.settings;
  const ast_setting *seen[SETTING_COUNT] = {0};
  vec_each(const ast_setting, s, *own) {
    int place = find_setting(s->name.text);
    if (place == SETTING_COUNT)
      return diag_error(k->b->diag, s->name.span, "expected a setting (%s), found '%s'",
                        setting_list(k->b->arena, setting_names, SETTING_COUNT), s->name.text);
    if (seen[place]) {
      diag_error(k->b->diag, s->name.span, "expected the setting '%s' once, found it twice",
                 s->name.text);
      diag_note(k->b->diag, seen[place]->span, "the first one");
      return false;
    }
    if (continues && (place == MODEL || place == INIT))
      return diag_error(
          k->b->diag, s->name.span,
          "expected no '%s' in a block with 'after', which continues the weights of '%s', "
          "found one",
          s->name.text, k->train->after);
    k->settings[place] = seen[place] = s;
  }
  return true;
}

typedef struct block_list {
  VEC(train_settings)
  items;
} block_list;

static const graph_train *find_train(const graph_program *program, const char *name) {
  for (int i = 0; i < program->trains.count; i++)
    if (program->trains.items[i].name == name) return &program->trains.items[i];
  return NULL;
}

static const graph_train *find_train_before(const graph_builder *b, const ast_name *after) {
  const graph_train *before = after->text ? find_train(b->result, after->text) : NULL;
  if (before) sema_note_item(b->program->sema, after->span, before->item);
  return before;
}

// An earlier block of this name had a message of its own: who comes after it says nothing.
static bool is_refused(const graph_builder *b, const ast_item *item, const char *name) {
  for (int i = 0; b->program->layers.items[i].item != item; i++) {
    const ast_item *earlier = b->program->layers.items[i].item;
    if (earlier->kind == AST_TRAIN && earlier->name.text == name) return true;
  }
  return false;
}

static bool check_segment_steps(const train_settings *k) {
  const graph_train *t = k->train;
  if (t->segments == 1 ||
      (t->context % SEGMENT_STEPS == 0 && t->context / SEGMENT_STEPS % t->segments == 0))
    return true;
  return diag_error(
      k->b->diag, k->settings[SEGMENTS]->span,
      "expected segments to cut the context of %lld into parts of a multiple of %d steps, "
      "found %lld",
      (long long)t->context, SEGMENT_STEPS, (long long)t->segments);
}

static bool read_exchange(train_settings *k) {
  if (!k->settings[EXCHANGE]) return true;
  const ast_expr *e = setting_value(k, EXCHANGE, "pipeline or chain");
  if (!e) return false;
  for (int i = 0; e->kind == AST_NAME && i < EXCHANGE_KINDS; i++)
    if (!strcmp(e->name.text, exchange_names[i]))
      return k->train->exchange = (exchange_kind)i, true;
  return diag_error(k->b->diag, e->span, "expected %s as exchange, found '%s'",
                    setting_choice(k->b->arena, exchange_names, EXCHANGE_KINDS),
                    expr_to_text(k->b->arena, e));
}

static void build_train(graph_builder *b, const ast_item *item, block_list *blocks) {
  graph_program *p = b->result;
  const ast_name *after = &item->train.after;
  const graph_train *before = find_train_before(b, after);
  if (find_train(p, item->name.text)) {
    diag_error(b->diag, item->name.span,
               "expected a name of its own for the train block, found '%s' twice", item->name.text);
    return;
  }
  if (after->text && !before && is_refused(b, item, after->text)) return;
  if (after->text && !before) {
    const char *known = "";
    for (int i = 0; i < p->trains.count; i++)
      known = arena_printf(b->arena, "%s%s%s", known, i ? ", " : "", p->trains.items[i].name);
    diag_error(b->diag, after->span, "expected an earlier train block (%s), found '%s'",
               *known ? known : "there is none", after->text);
    return;
  }
  graph_train train = {.name = item->name.text, .after = after->text, .item = item, .model = NONE};
  train_settings k = {.b = b, .train = &train, .scope = constant_scope(b)};
  for (int i = 0; before && i < blocks->items.count; i++)
    if (blocks->items.items[i].train->name == before->name)
      memcpy(k.settings, blocks->items.items[i].settings, sizeof k.settings);
  bool good = read_settings(&k, before != NULL);
  if (!good) return;
  bool model = read_train_model(&k, before);
  good &= model;
  good &= read_data(&k);
  good &= setting_whole(&k, CONTEXT, 1, -1, &train.context);
  good &= setting_whole(&k, BATCH, 1, -1, &train.batch);
  good &= setting_whole(&k, SEED, 0, 1, &train.seed);
  good &= setting_whole(&k, ACCUMULATE, 1, 1, &train.accumulate);
  good &= setting_whole(&k, SEGMENTS, 1, 1, &train.segments);
  good &= read_exchange(&k);
  good &= read_optimizer(&k);
  if (setting_whole(&k, STEPS, 1, -1, &train.steps)) {
    good &= read_schedule(&k);
    good &= !model || read_initial_state(&k);
  } else {
    good = false;
  }
  if (good) good = check_floor(&k) && read_loss(&k);
  if (good && train.accumulate > train.batch) {
    diag_error(b->diag, k.settings[ACCUMULATE]->span,
               "expected accumulate to be at most the batch of %lld, found %lld",
               (long long)train.batch, (long long)train.accumulate);
    good = false;
  }
  if (good) good = check_segment_steps(&k);
  if (good && train.task.rules)
    good = task_check(b, &train, &p->models.items[train.model], k.settings[DATA]->span);
  if (!good) return;
  vec_push(b->arena, &p->trains, train);
  k.train = ARENA_NEW(b->arena, graph_train);
  *k.train = train;
  vec_push(b->arena, &blocks->items, k);
}

// ---- evaluate --------------------------------------------------------------------------------

static bool read_accuracy(train_settings *k, const ast_expr *e, const graph_train *judged,
                          graph_evaluate *to) {
  static const char *const names[] = {"lengths"};
  setting_call call = {.names = names, .count = 1};
  if (!judged->task.rules)
    return diag_error(k->b->diag, e->span,
                      "expected perplexity(until = N) for '%s', which reads text, "
                      "found accuracy, which is of a task",
                      judged->name);
  if (to->lengths.count)
    return diag_error(k->b->diag, e->span, "expected accuracy once, found it twice");
  if (!setting_arguments(k, e, &call, false)) return false;
  if (call.values[0]) return task_read_lengths(k->b, k->scope, call.values[0], &judged->task, to);
  return diag_error(k->b->diag, e->span, "expected lengths = (N, ..) in accuracy, found none");
}

static bool read_distance(graph_builder *b, const ast_expr *e, distance_kind *distance) {
  for (int i = 0; i < DISTANCE_KINDS; i++)
    if (!e || (e->kind == AST_NAME && !strcmp(e->name.text, distance_names[i])))
      return *distance = (distance_kind)i, true;
  return diag_error(b->diag, e->span, "expected %s as distance, found '%s'",
                    setting_list(b->arena, distance_names, DISTANCE_KINDS),
                    expr_to_text(b->arena, e));
}

// initial_state(learned), initial_state(zero): what is judged starts from.
static bool read_judged_start(graph_builder *b, const ast_expr *e, const graph_train *judged,
                              graph_evaluate *to) {
  const ast_arg *arg = e->kind == AST_CALL && e->call.args.count == 1 ? e->call.args.items : NULL;
  const char *start = arg && arg->kind == AST_ARG_POSITIONAL && arg->value->kind == AST_NAME
                          ? arg->value->name.text
                          : "";
  bool learned = !strcmp(start, "learned"), can = false;
  if (!learned && strcmp(start, "zero") != 0)
    return diag_error(b->diag, e->span,
                      "expected initial_state(zero) or initial_state(learned), found '%s'",
                      expr_to_text(b->arena, e));
  const graph_model *model = &b->result->models.items[judged->model];
  for (int i = 0; i < model->states.count; i++) can |= model->states.items[i].learned != NONE;
  if (learned && !can)
    diag_error(b->diag, e->span,
               "expected initial_state(zero) for '%s', found learned; it learns no states",
               judged->name);
  to->learned = learned;
  return !learned || can;
}

static bool read_judged_task(graph_builder *b, const ast_expr *task, const graph_train *judged,
                             graph_evaluate *to) {
  static const char *const lengths[] = {"until", "tolerance"}, *const memories[] = {"T",
                                                                                    "distance"};
  const char *name = setting_callee(task);
  bool remembers = !strcmp(name, "remembrance"),
       attends = !strcmp(name, "attention") || !strcmp(name, "overflow");
  setting_call call = {.names = remembers || attends ? memories : lengths,
                       .count = remembers || !strcmp(name, "perplexity") ? 2 : 1};
  train_settings k = {.b = b, .scope = constant_scope(b)};
  if (!strcmp(name, "accuracy")) return read_accuracy(&k, task, judged, to);
  if (!strcmp(name, "initial_state")) return read_judged_start(b, task, judged, to);
  if (judged->task.rules && !attends)
    return diag_error(
        b->diag, task->span,
        "expected accuracy(lengths = N), attention(T = N) or overflow(T = N) for '%s', which "
        "reads a task, found '%s'",
        judged->name, expr_to_text(b->arena, task));
  int64_t *length = !strcmp(name, "perplexity")   ? &to->until
                    : !strcmp(name, "state_norm") ? &to->state_until
                    : remembers                   ? &to->remembrance
                    : !strcmp(name, "attention")  ? &to->attention
                    : attends                     ? &to->overflow
                                                  : NULL;
  if (!length || task->kind != AST_CALL)
    return diag_error(b->diag, task->span,
                      "expected perplexity(until = N), state_norm(until = N), remembrance(T = N), "
                      "attention(T = N) or overflow(T = N), found '%s'",
                      expr_to_text(b->arena, task));
  if (*length) return diag_error(b->diag, task->span, "expected %s once, found it twice", name);
  if (!setting_arguments(&k, task, &call, false)) return false;
  if (!call.values[0])
    return diag_error(b->diag, task->span, "expected %s = N in %s, found none", call.names[0],
                      name);
  return sema_whole(k.scope, call.values[0], call.names[0], 2, length) &&
         (remembers || attends ||
          setting_optional(&k, call.values[1], "tolerance", 0, 100, &to->tolerance)) &&
         (!attends || setting_in_range(&k, call.values[0], "T", (double)*length, 2, 4096)) &&
         (!remembers || read_distance(b, call.values[1], &to->distance));
}

static void build_evaluate(graph_builder *b, const ast_item *item) {
  graph_program *p = b->result;
  graph_evaluate made = {.name = item->name.text, .item = item, .tolerance = 0.05};
  const ast_name *after = &item->evaluate.after;
  for (int i = 0; i < p->evaluates.count; i++)
    if (p->evaluates.items[i].name == made.name)
      diag_error(b->diag, item->name.span,
                 "expected a name of its own for the evaluate block, found '%s' twice", made.name);
  if (after->text ? !find_train_before(b, after) : !p->trains.count) {
    diag_error(b->diag, after->text ? after->span : item->name.span,
               "expected a train block to judge, found %s",
               after->text ? arena_printf(b->arena, "'%s'", after->text) : "none in this file");
    return;
  }
  made.after = after->text ? after->text : p->trains.items[p->trains.count - 1].name;
  bool good = true;
  for (int i = 0; i < item->evaluate.tasks.count; i++)
    good &= read_judged_task(b, item->evaluate.tasks.items[i], find_train(p, made.after), &made);
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
