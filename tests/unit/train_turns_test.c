// The order of the shards of a rank: all of each is run once, few are under way, and ranks that share sequences never all wait.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/train/turns.h"

#include <cmocka.h>

enum { MOST_LAYERS = 9, OF_LAYER = 3, MOST_OPS = MOST_LAYERS * OF_LAYER, MOST_COUNT = 11, MOST_PLACES = 23 };

// Layers of operations of which the second has a state.
typedef struct layered {
  model_state states[MOST_LAYERS];
  model_op ops[MOST_OPS];
  train_model model;
} layered;

static const train_model *make(layered *l, int layers) {
  *l = (layered){.model = {.op_count = layers * OF_LAYER, .state_count = layers, .ops = l->ops, .states = l->states}};
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

static bool ends_turn(const rank_work *w) { return w->at == (w->now.backward ? w->turns.operations : w->now.operations.end); }

static void begin_turn(rank_work *w) {
  w->busy = turns_next(&w->turns, &w->now);
  w->at = w->now.backward ? 0 : w->now.operations.first;
}

static int under_way(const rank_work *w) {
  int count = 0;
  for (int i = 0; i < w->turns.count; i++) count += w->done[i] > 0 && w->back[i] < w->turns.operations;
  return count;
}

// Operations without states wait for nobody.
static bool may_run(const layered *l, const rank_work *all, int place, int places) {
  const rank_work *w = &all[place];
  int64_t k = w->now.shard, n = w->turns.operations;
  if (w->now.backward) return place + 1 == places || !l->ops[n - 1 - w->at].state_count || all[place + 1].back[k] > w->at;
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

static void run_row(const layered *l, const train_model *m, int places, int count) {
  static rank_work all[MOST_PLACES];
  int64_t left = 2L * m->op_count * count * places;
  for (int i = 0; i < places; i++) {
    all[i] = (rank_work){.turns = turns_of(m, &compute_host_f32, i, places, count)};
    assert_in_range(turns_under_way(&all[i].turns), 1, i ? turns_under_way(&all[i - 1].turns) : 4);
    begin_turn(&all[i]);
  }
  for (int64_t run = 1; run; left -= run) {
    run = 0;
    for (int i = 0; i < places; i++) run += advance(l, all, i, places);
  }
  assert_int_equal(left, 0);
}

static void rows_of_ranks_come_to_the_end(void **state) {
  layered l;
  (void)state;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int places = 1; places <= MOST_PLACES; places += 1 + places / 4)
      for (int count = 1; count <= MOST_COUNT; count++) run_row(&l, make(&l, layers), places, count);
}

// A part of a pass begins where it would wait for the states of another rank.
static void passes_are_cut_before_states(void **state) {
  layered l;
  turn next;
  (void)state;
  for (int layers = 1; layers <= MOST_LAYERS; layers++)
    for (int place = 0; place < MOST_PLACES; place++)
      for (turns t = turns_of(make(&l, layers), &compute_host_f32, place, MOST_PLACES, MOST_COUNT); turns_next(&t, &next);)
        assert_true(next.backward || next.operations.first == 0 || l.ops[next.operations.first].state_count);
}

static void one_rank_runs_shard_after_shard(void **state) {
  layered l;
  turns t = turns_of(make(&l, 2), &compute_host_f32, 0, 1, 3);
  turn next;
  (void)state;
  assert_int_equal(turns_under_way(&t), 1);
  for (int i = 0; i < 6; i++) {
    assert_true(turns_next(&t, &next));
    assert_int_equal(next.shard, i / 2);
    assert_int_equal(next.backward, i % 2);
  }
  assert_false(turns_next(&t, &next));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_ranks_come_to_the_end),
                                     cmocka_unit_test(passes_are_cut_before_states),
                                     cmocka_unit_test(one_rank_runs_shard_after_shard)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
