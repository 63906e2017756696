// Generated tasks of a train block's data: settings and what they ask of model and context.
//
//   data copying(length = 20, alphabet = 26)      at least 28 symbols, a context of at least 41
#include <string.h>

#include "compiler/abi/token.h"
#include "compiler/graph/build.h"
#include "compiler/syntax/syntax.h"

enum { LENGTH, SHORTEST, LOSS, ALPHABET, COUNT };

static const int64_t longest = 1 << 24;

const task_rules *task_rules_find(const char *name) {
  for (int i = 0; i < TASK_KINDS; i++)
    if (!strcmp(task_rules_of[i].name, name)) return &task_rules_of[i];
  return NULL;
}

int task_settings(const task_rules *r) {
  int count = 0;
  while (count < 5 && r->settings[count]) count++;
  return count;
}

const char *task_list(arena *memory) {
  const char *text = "";
  for (int i = 0; i < TASK_KINDS; i++)
    text = arena_printf(memory, "%s%s%s", text, i ? ", " : "", task_rules_of[i].name);
  return text;
}

static int64_t task_least_length(const graph_task *task) {
  return task->rules->least + task->rules->least_for_each * task->count;
}

static bool at_most(graph_builder *b, const ast_expr *at, const char *what, int64_t x,
                    int64_t most) {
  if (x <= most) return true;
  return diag_error(b->diag, at->span, "expected %s of at most %lld, found %lld", what,
                    (long long)most, (long long)x);
}

// A whole number, or `by_default`; below 0: it must stand.
static bool read_whole_setting(graph_builder *b, sema_scope *scope, const ast_expr *task,
                               const char *name, const ast_expr *value, int64_t least, int64_t most,
                               int64_t by_default, int64_t *x) {
  *x = by_default;
  if (value) return sema_whole(scope, value, name, least, x) && at_most(b, value, name, *x, most);
  if (by_default >= 0) return true;
  return diag_error(b->diag, task->span, "expected %s = .. in %s, found none", name,
                    task->kind == AST_CALL ? task->call.callee.text : task->name.text);
}

static bool read_loss(graph_builder *b, const ast_expr *e, graph_task *task) {
  const char *word = e && e->kind == AST_NAME ? e->name.text : "";
  task->all = !strcmp(word, "all");
  if (!e || task->all || !strcmp(word, "answers")) return true;
  return diag_error(b->diag, e->span, "expected loss = answers or loss = all, found '%s'",
                    expr_to_text(b->arena, e));
}

static bool check_task_lengths(graph_builder *b, const ast_expr *e, const graph_task *task) {
  int64_t least = task_least_length(task);
  if (task->shortest >= least && task->shortest <= task->length) return true;
  return diag_error(b->diag, e->span,
                    "expected lengths from %lld on, the shortest first, found %lld..%lld",
                    (long long)least, (long long)task->shortest, (long long)task->length);
}

// Which of bAbI's tasks, and from how many facts.
static bool read_babi(graph_builder *b, sema_scope *scope, const ast_expr *e,
                      const ast_expr *const *values, graph_task *task) {
  const int64_t most_facts = 64;
  if (!read_whole_setting(b, scope, e, "task", values[ALPHABET], 1, 20, 1, &task->alphabet))
    return false;
  int64_t least = task->alphabet == 2 ? 2 : 1;
  if (task->alphabet == 1 || task->alphabet == 2 || task->alphabet == 6)
    return read_whole_setting(b, scope, e, "facts", values[COUNT], least, most_facts, 4,
                              &task->count);
  return diag_error(b->diag, values[ALPHABET]->span, "expected task = 1, 2 or 6, found %lld",
                    (long long)task->alphabet);
}

static bool read_task_sizes(graph_builder *b, sema_scope *scope, const ast_expr *e,
                            const ast_expr *const *values, graph_task *task) {
  const task_rules *r = task->rules;
  const int64_t symbols = MOST_SYMBOLS - 2;
  bool mqar = r->kind == TASK_MQAR;
  task->alphabet = 2, task->count = 1;
  if (!read_whole_setting(b, scope, e, "length", values[LENGTH], 1, longest, -1, &task->length) ||
      !read_whole_setting(b, scope, e, "shortest", values[SHORTEST], 1, longest, task->length,
                          &task->shortest))
    return false;
  if (!r->text && !read_whole_setting(b, scope, e, "alphabet", values[ALPHABET], 2, symbols,
                                      mqar ? -1 : 26, &task->alphabet))
    return false;
  if (r->kind == TASK_BABI) return read_babi(b, scope, e, values, task);
  return !r->settings[COUNT] ||
         read_whole_setting(b, scope, e, r->settings[COUNT], values[COUNT], 1,
                            mqar ? task->alphabet / 2 - 1 : longest, -1, &task->count);
}

bool task_read(graph_builder *b, sema_scope *scope, const ast_expr *e,
               const ast_expr *const *values, graph_task *task) {
  return read_task_sizes(b, scope, e, values, task) && read_loss(b, values[LOSS], task) &&
         check_task_lengths(b, e, task);
}

bool task_read_lengths(graph_builder *b, sema_scope *scope, const ast_expr *e,
                       const graph_task *task, graph_evaluate *to) {
  bool list = e->kind == AST_TUPLE;
  for (int i = 0; i < (list ? e->tuple.items.count : 1); i++) {
    const ast_expr *item = list ? e->tuple.items.items[i] : e;
    int64_t length;
    if (!sema_whole(scope, item, "lengths", task_least_length(task), &length) ||
        !at_most(b, item, "a length", length, longest))
      return false;
    vec_push(b->arena, &to->lengths, length);
  }
  return true;
}

int64_t task_sequence_tokens(const graph_task *t) {
  const task_rules *r = t->rules;
  return r->tokens_for_each * t->length + r->tokens_beyond + r->tokens_for_each_count * t->count;
}

bool task_check(graph_builder *b, const graph_train *train, const graph_model *model, span where) {
  const graph_task *t = &train->task;
  const task_rules *r = t->rules;
  int64_t symbols = r->symbols + (r->text ? 0 : t->alphabet);
  int64_t tokens = task_sequence_tokens(t);
  if (symbols > model->vocabulary)
    diag_error(b->diag, where, "expected a model of at least %lld symbols for %s, found %d",
               (long long)symbols, r->name, model->vocabulary);
  else if (tokens > train->context)
    diag_error(b->diag, where,
               "expected a context of at least %lld for %s of length %lld, found %lld",
               (long long)tokens, r->name, (long long)t->length, (long long)train->context);
  else
    return true;
  return false;
}
