// The order of the shards of a rank: all of each is run once, few are under way, and ranks that
// share sequences never all wait.
#include "runtime/train/turns.h"

#include "tests/unit/unit.h"

enum {
  MOST_LAYERS = 9,
  OF_LAYER = 3,
  MOST_OPS = MOST_LAYERS * OF_LAYER,
  MOST_COUNT = 11,
  MOST_PLACES = 23
};

// Layers of operations of which the second has a state.
typedef struct layered {
  model_state states[MOST_LAYERS];
  model_op ops[MOST_OPS];
  train_model model;
} layered;

static const train_model *make(layered *l, int layers) {
  *l = (layered){.model = {.op_count = layers * OF_LAYER,
                           .state_count = layers,
                           .ops = l->ops,
                           .states = l->states}};
  for (int i = 0; i < layers; i++) {
    l->states[i].layer = i;
    l->ops[i * OF_LAYER + 1].state_count = 1;
  }
  return &l->model;
}

// What a rank has done: operations of each shard, forward and backward.
typedef struct rank_work {
  turns turns;
  turn now;
  int done[MOST_COUNT], back[MOST_COUNT];
  int at;     // the next operation of the turn
  bool busy;  // there is a turn
} rank_work;

static bool ends_turn(const rank_work *w) {
  return w->at == (w->now.backward ? w->turns.operations : w->now.operations.end);
}

static void begin_turn(rank_work *w) {
  w->busy = turns_next(&w->turns, &w->now);
  w->at = w->now.backward ? 0 : w->now.operations.first;
}

static int under_way(const rank_work *w) {
  int count = 0;
  for (int i = 0; i < w->turns.count; i++)
    count += w->done[i] > 0 && w->back[i] < w->turns.operations;
  return count;
}

// Operations without states wait for nobody.
static bool may_run(const layered *l, const rank_work *all, int place, int places) {
  const rank_work *w = &all[place];
  int64_t k = w->now.shard, n = w->turns.operations;
  if (w->now.backward)
    return place + 1 == places || !l->ops[n - 1 - w->at].state_count ||
           all[place + 1].back[k] > w->at;
  return place == 0 || !l->ops[w->at].state_count || all[place - 1].done[k] > w->at;
}

static void run_operation(rank_work *w) {
  int64_t k = w->now.shard;
  int *of = w->now.backward ? &w->back[k] : &w->done[k];
  if (w->now.backward) assert_int_equal(w->done[k], w->turns.operations);
  assert_int_equal(*of, w->at);
  *of = ++w->at;
  assert_in_range(under_way(w), 0, turns_under_way(&w->turns));
}

// As far as a rank comes; how many operations that are.
static int advance(const layered *l, rank_work *all, int place, int places) {
  rank_work *w = &all[place];
  int run = 0;
  while (w->busy && may_run(l, all, place, places)) {
    run_operation(w);
    run++;
    if (ends_turn(w)) begin_turn(w);
  }
  return run;
}

static void run_row(const layered *l, const train_model *m, int places, int count, int most) {
  static rank_work all[MOST_PLACES];
  int64_t left = 2L * m->op_count * count * places;
  for (int i = 0; i < places; i++) {
    all[i] = (rank_work){.turns = turns_of(m, &(turn_line){places, count, most}, i)};
    assert_in_range(turns_under_way(&all[i].turns), 1,
                    i ? turns_under_way(&all[i - 1].turns) : most);
    begin_turn(&all[i]);
  }
  for (int64_t run = 1; run; left -= run) {
    run = 0;
    for (int i = 0; i < places; i++) run += advance(l, all, i, places);
  }
  assert_int_equal(left, 0);
}

TEST(rows_of_ranks_come_to_the_end) {
  layered l;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int places = 1; places <= MOST_PLACES; places += 1 + places / 4)
      for (int count = 1; count <= MOST_COUNT; count++)
        for (int most = 1; most <= MOST_UNDER_WAY + 2; most++)
          run_row(&l, make(&l, layers), places, count, most);
}

// ---- messages that have one order ---------------------------------------------------------------

// States of an operation, or their gradients, on their way between a rank and the next one.
typedef struct passed {
  int pair;  // the first of both ranks
  int64_t shard;
  int operation;
  bool backward;
} passed;

typedef struct passed_list {
  passed of[4 * MOST_COUNT * MOST_LAYERS];
  int count, done;
} passed_list;

static void add_passed(passed_list *list, int places, passed p) {
  if (p.pair >= 0 && p.pair + 1 < places) list->of[list->count++] = p;
}

static void add_range(const layered *l, passed_list *list, int places, int pair, turn_range range) {
  for (int64_t i = range.first; i < range.end; i++) {
    int op = (int)(i % l->model.op_count);
    if (l->ops[op].state_count)
      add_passed(list, places, (passed){pair, i / l->model.op_count, op, false});
  }
}

// As the executor has them: an operation takes, then gives.
static void add_forward(const layered *l, passed_list *list, int place, int places, const turn *t) {
  for (int64_t i = t->operations.first; i < t->operations.end; i++) {
    int64_t number = t->shard * l->model.op_count + i;
    turn_range one = {number, number + 1};
    if (number >= t->takes.first && number < t->takes.end)
      add_range(l, list, places, place - 1, one);
    if (number >= t->gives.first && number < t->gives.end) add_range(l, list, places, place, one);
  }
}

static void add_backward(const layered *l, passed_list *list, int place, int places,
                         const turn *t) {
  int last = 0;
  while (!l->ops[last].state_count) last++;
  for (int op = l->model.op_count - 1; op >= 0; op--) {
    if (!l->ops[op].state_count) continue;
    add_passed(list, places, (passed){place, t->shard, op, true});
    if (op == last) add_range(l, list, places, place, t->gives);
    add_passed(list, places, (passed){place - 1, t->shard, op, true});
    if (op == last) add_range(l, list, places, place - 1, t->takes);
  }
}

// Whether the next message of a rank is the next one of the rank behind it.
static bool meet(passed_list *a, passed_list *b) {
  if (a->done == a->count || b->done == b->count) return false;
  const passed *x = &a->of[a->done], *y = &b->of[b->done];
  if (x->pair != y->pair || x->shard != y->shard || x->operation != y->operation ||
      x->backward != y->backward)
    return false;
  a->done++, b->done++;
  return true;
}

// A message passes when both of its ranks have come to it. Of the states of an operation each
// passes once.
static void pass_in_order(const layered *l, const turn_line *line) {
  static passed_list all[MOST_PLACES];
  const int places = (int)line->places, layers = l->model.state_count;
  turn next;
  for (int i = 0; i < places; i++) {
    all[i].count = all[i].done = 0;
    for (turns t = turns_of(&l->model, line, i); turns_next(&t, &next);)
      (next.backward ? add_backward : add_forward)(l, &all[i], i, places, &next);
    assert_int_equal(all[i].count, 2 * layers * line->count * ((i > 0) + (i + 1 < places)));
  }
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i + 1 < places; i++)
      while (meet(&all[i], &all[i + 1])) any = true;
  }
  for (int i = 0; i < places; i++) assert_int_equal(all[i].done, all[i].count);
}

TEST(messages_with_one_order_never_wait_in_a_circle) {
  layered l;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int places = 1; places <= MOST_PLACES; places += 1 + places / 4)
      for (int count = 1; count <= MOST_COUNT; count++)
        for (int most = 1; most <= MOST_UNDER_WAY + 2; most++) {
          make(&l, layers);
          pass_in_order(&l, &(turn_line){places, count, most});
        }
}

// The executor of a shard whose states come early has no shard at work but the one whose cotangents
// they come with.
TEST(states_come_where_no_shard_is_at_work) {
  layered l;
  turn next;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int place = 1; place < MOST_PLACES; place++)
      for (turns t =
               turns_of(make(&l, layers), &(turn_line){MOST_PLACES, MOST_COUNT, MOST_COUNT}, place);
           turns_next(&t, &next);)
        if (next.backward && next.takes.first < next.takes.end)
          assert_in_range((next.takes.end - 1) / t.operations, next.shard + 1,
                          next.shard + turns_under_way(&t));
}

// -------------------------------------------------------------------------------------------------

// A part of a pass begins where it would wait for the states of another rank.
TEST(passes_are_cut_before_states) {
  layered l;
  turn next;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int place = 0; place < MOST_PLACES; place++)
      for (turns t = turns_of(make(&l, layers), &(turn_line){MOST_PLACES, MOST_COUNT, 0}, place);
           turns_next(&t, &next);)
        assert_true(next.backward || next.operations.first == 0 ||
                    l.ops[next.operations.first].state_count);
}

TEST(one_rank_runs_shard_after_shard) {
  layered l;
  turns t = turns_of(make(&l, 2), &(turn_line){1, 3, 0}, 0);
  turn next;
  assert_int_equal(turns_under_way(&t), 1);
  for (int i = 0; i < 6; i++) {
    assert_true(turns_next(&t, &next));
    assert_int_equal(next.shard, i / 2);
    assert_int_equal(next.backward, i % 2);
  }
  assert_false(turns_next(&t, &next));
}
