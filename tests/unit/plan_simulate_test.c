// Steps of many ranks, simulated: held against formulas that can be written down, and messages of
// all ranks to all others against the plain simulation of each.
#include "runtime/predict/simulate.h"
#include "runtime/train/data/random.h"

#include "tests/unit/unit.h"

enum { STATE = 1000, LAYERS = 3 };
// seconds of a recurrence, and of what stands before it
static const double CELL = 5e-4, OTHER = 2e-3;

// Layers of an operation without states, then one with a state of `STATE` numbers. Backward takes
// twice as long as forward.
typedef struct tiny {
  model_state states[LAYERS];
  int state_of[LAYERS];
  model_op ops[2 * LAYERS];
  model_step steps[2 * LAYERS];
  op_time times_of[2 * LAYERS];
  op_times times;
  int64_t instances[2 * LAYERS];
  train_model model;
  train_block block;
  predicted_program program;
} tiny;

static void make(tiny *t, int64_t batch, int shards, int segments) {
  *t = (tiny){0};
  for (int i = 0; i < LAYERS; i++) {
    t->state_of[i] = i;
    t->states[i] = (model_state){.elements = STATE, .layer = i};
    t->ops[2 * i].kind = t->ops[2 * i + 1].kind = OP_CALL;
    t->ops[2 * i + 1].state_count = 1;
    t->ops[2 * i + 1].states = &t->state_of[i];
    t->times_of[2 * i] = (op_time){{[RAN_FORWARD] = OTHER, [RAN_BACKWARD] = 2 * OTHER}};
    t->times_of[2 * i + 1] = (op_time){{[RAN_FORWARD] = CELL, [RAN_BACKWARD] = 2 * CELL}};
  }
  for (int i = 0; i < 2 * LAYERS; i++)
    t->steps[i] = (model_step){.kind = STEP_OF, .op = 2 * LAYERS - 1 - i};
  t->model = (train_model){.op_count = 2 * LAYERS,
                           .step_count = 2 * LAYERS,
                           .state_count = LAYERS,
                           .ops = t->ops,
                           .steps = t->steps,
                           .states = t->states};
  t->times = (op_times){.tokens = 128, .count = 2 * LAYERS, .of = t->times_of};
  t->block = (train_block){.context = 128 * segments, .batch = batch, .accumulate = 1};
  t->program =
      (predicted_program){.of = {.model = &t->model, .where = &compute_host_f32, .n = &numeric_f32},
                          .block = &t->block,
                          .leaves = {batch, shards, segments},
                          .times = &t->times,
                          .instances = t->instances};
}

static double step_of(const tiny *t, int64_t data, int64_t time, exchange_kind exchange,
                      const network *n) {
  double seconds;
  rank_grid grid = {.data = data, .time = time, .exchange = exchange};
  assert_int_equal(simulate_step(&t->program, &grid, n, &seconds), REC_OK);
  return seconds;
}

static void assert_near(double found, double expected) {
  if (found < expected * (1 - 1e-9) || found > expected * (1 + 1e-9))
    fail_msg("expected %.9g, found %.9g", expected, found);
}

static const network slow = {{1e-4, 1e7}, {1e-4, 1e7}, 1};
static const double HOP = 1e-4 + STATE * 4 / 1e7;

// Seconds that the ranks take to tell each other the weight of the targets, how the shards have
// ended, the squares of pieces, losses of segments, and whether they go on.
static double agreeing(int count, int pieces, int segments, const network_link *l) {
  const int bytes[] = {8, 4, 8 * pieces, 8 * segments, 3};
  double seconds = 0;
  for (int i = 0; i < 5; i++)
    for (int have = 1; have < count; have *= 2)
      seconds += l->latency + have * bytes[i] / l->bandwidth;
  return seconds;
}

// The skew of a pipeline is paid once a pass: each further rank waits for one cell and one message,
// forward and backward. A rank computes longer between two messages than they take, so nothing else
// waits.
TEST(the_skew_of_a_pipeline_is_paid_once_a_pass) {
  tiny t;
  for (int count = 1; count <= 8; count *= 2) {
    make(&t, 1, 1, 8);
    double own = 3 * LAYERS * (OTHER + CELL) * 8 / count,
           skew = (count - 1) * (CELL * 8 / count * 3 + 2 * HOP);
    assert_near(step_of(&t, 1, count, EXCHANGE_PIPELINE, &slow),
                own + skew + agreeing(count, 0, 8 / count, &slow.between));
  }
}

// Shards in turn pay it once for all of them.
TEST(the_skew_is_paid_once_for_all_shards) {
  tiny t;
  for (int count = 2; count <= 4; count *= 2)
    for (int shards = 1; shards <= 64; shards *= 2) {
      make(&t, shards, shards, 8);
      double own = shards * 3 * LAYERS * (OTHER + CELL) * 8 / count,
             skew = (count - 1) * (CELL * 8 / count * 3 + 2 * HOP);
      assert_near(step_of(&t, 1, count, EXCHANGE_PIPELINE, &slow),
                  own + skew + agreeing(count, 0, 8 / count, &slow.between));
    }
}

// Data ranks share the shards out and wait for nobody before their gradients are there.
TEST(data_ranks_share_the_shards) {
  tiny t;
  for (int count = 1; count <= 8; count *= 2) {
    make(&t, 8, 8, 1);
    double own = 3 * LAYERS * (OTHER + CELL) * 8 / count;
    assert_near(step_of(&t, count, 1, EXCHANGE_PIPELINE, &slow),
                own + agreeing(count, 0, 1, &slow.between));
  }
}

// Two data ranks exchange halves of the gradient, then of the weights.
TEST(ranks_exchange_halves) {
  enum { WEIGHTS = 1 << 20, WINDOWS = WEIGHTS / 2 / EXCHANGE_WINDOW };
  model_parameter weights = {.elements = WEIGHTS};
  rec_blocks memory = {0};
  tiny t;
  make(&t, 2, 2, 1);
  t.model.parameters = &weights, t.model.parameter_count = 1, t.model.parameter_elements = WEIGHTS;
  piece_list_make(&memory, &t.model, &t.block, true, &t.program.pieces);
  t.times.sum = 1e-7, t.times.step = 1e-6;
  // a window is added while the next arrives
  double half = WEIGHTS / 2, bytes = 4 * half / 1e7, adds = half / WINDOWS * 1e-7;
  double own = 3 * LAYERS * (OTHER + CELL);
  assert_near(step_of(&t, 2, 1, EXCHANGE_PIPELINE, &slow),
              own + agreeing(2, WEIGHTS / PIECE / 2, 1, &slow.between) + 2 * (bytes + 1e-4) + adds +
                  half * 1e-6);
  rec_blocks_free(&memory);
}

// With 5 shards on 4 ranks one rank has two of them.
TEST(the_busiest_rank_counts) {
  const network none = {{0, 1e30}, {0, 1e30}, 1};
  tiny t;
  double busiest, all;
  make(&t, 5, 5, 1);
  double one = 3 * LAYERS * (OTHER + CELL);
  rank_grid grid = {.data = 4, .time = 1, .exchange = EXCHANGE_PIPELINE};
  assert_near(step_of(&t, 4, 1, EXCHANGE_PIPELINE, &none), 2 * one);
  assert_int_equal(simulate_computing(&t.program, &grid, &busiest, &all), REC_OK);
  assert_near(busiest, 2 * one);
  assert_near(all, 5 * one);
}

// Cells whose states pass by a chain of so many instances.
static void make_chain(tiny *t, int64_t instances, double fold) {
  for (int i = 0; i < LAYERS; i++) {
    double *cell = t->times_of[2 * i + 1].of;
    cell[RAN_SUMMARY] = cell[RAN_SUMMARY_BACKWARD] = CELL / 2;
    cell[RAN_FOLD] = cell[RAN_FOLD_BACKWARD] = fold;
    t->instances[2 * i + 1] = instances;
  }
}

// A chain pays for summaries, and no cell in the skew. The last segment of a pass has none.
TEST(a_chain_pays_for_summaries_alone) {
  const network none = {{0, 1e30}, {0, 1e30}, 1};
  const double passes = 2 * LAYERS, cells = 3 * LAYERS * (OTHER + CELL);
  tiny t;
  make(&t, 1, 1, 8);
  make_chain(&t, 4, 0);
  for (int count = 1; count <= 8; count *= 2) {
    double segments = 8.0 / count, summaries = count > 1 ? segments : segments - 1;
    assert_near(step_of(&t, 1, count, EXCHANGE_CHAIN, &none),
                cells * segments + passes * summaries * CELL / 2);
  }
  assert_near(step_of(&t, 1, 8, EXCHANGE_PIPELINE, &none), cells + 7 * 3 * CELL);
}

// Each rank but the last one of a pass folds a block before the next rank has it. The blocks leave
// one after another.
TEST(the_skew_of_a_chain_is_that_of_its_blocks) {
  enum { INSTANCES = 64, BLOCKS = 4, NUMBERS = 1 << 15 };  // 128 KiB of states
  const double fold = CELL / 20, hop = 1e-4, bandwidth = 1e9,
               own = 3 * LAYERS * (OTHER + CELL) + 2 * LAYERS * (CELL / 2 + fold);
  const network unlimited = {{hop, 1e30}, {hop, 1e30}, 1},
                limited = {{hop, bandwidth}, {hop, bandwidth}, 1};
  tiny t;
  for (int count = 2; count <= 8; count *= 2) {
    make(&t, 1, 1, count);
    make_chain(&t, INSTANCES, fold);
    for (int i = 0; i < LAYERS; i++) t.states[i].elements = NUMBERS;
    double skew = (count - 2) * fold / BLOCKS + (count - 1) * hop;
    assert_near(step_of(&t, 1, count, EXCHANGE_CHAIN, &unlimited),
                own + 2 * skew + agreeing(count, 0, 1, &unlimited.between));
    if (count > 2) continue;
    skew = fold / BLOCKS + NUMBERS * 4 / bandwidth + hop - fold;
    assert_near(step_of(&t, 1, count, EXCHANGE_CHAIN, &limited),
                own + 2 * skew + agreeing(count, 0, 1, &limited.between));
  }
}

// After some shards the rest is extrapolated; with unlimited bandwidth and no latency the time is
// linear in the shards.
TEST(further_shards_take_as_long_as_the_last) {
  const network none = {{0, 1e30}, {0, 1e30}, 1};
  tiny t;
  make(&t, 2, 2, 4);
  double two = step_of(&t, 1, 4, EXCHANGE_PIPELINE, &none);
  make(&t, 3, 3, 4);
  double three = step_of(&t, 1, 4, EXCHANGE_PIPELINE, &none);
  make(&t, 40, 40, 4);
  assert_near(step_of(&t, 1, 4, EXCHANGE_PIPELINE, &none), two + 38 * (three - two));
}

static double drawn(int which, int number) {
  return random_uniform(7, (uint64_t)which, (uint64_t)number);
}

// Message by message, as each rank sends them.
static void exchange_plainly(const network *n, int64_t count, int64_t bytes, double *ready) {
  double *all = calloc((size_t)count, sizeof *all),
         *link_free = calloc((size_t)count, sizeof *link_free);
  for (int64_t i = 0; i < count; i++) all[i] = ready[i];
  for (int64_t step = 1; step < count; step++)
    for (int64_t from = 0; from < count; from++) {
      int64_t to = (from + step) % count;
      double time =
          network_arrival(network_between(n, from, to), ready[from], bytes, &link_free[from]);
      if (time > all[to]) all[to] = time;
    }
  for (int64_t i = 0; i < count; i++) ready[i] = all[i];
  free(all);
  free(link_free);
}

TEST(exchanges_end_as_their_messages_do) {
  static const int counts[] = {1, 2, 3, 4, 8, 12, 31}, nodes[] = {1, 2, 4, 5, 64};
  double plain[31], quick[31];
  for (int c = 0; c < 7; c++)
    for (int k = 0; k < 5; k++)
      for (int draw = 0; draw < 4; draw++) {
        const network n = {{1e-6 * drawn(1, draw), 1e9},
                           {1e-4 * drawn(2, draw), 1e7 + 1e9 * drawn(3, draw)},
                           nodes[k]};
        for (int i = 0; i < counts[c]; i++)
          plain[i] = quick[i] = draw ? 1e-3 * drawn(4 + draw, i) : 1;
        exchange_plainly(&n, counts[c], 10000, plain);
        assert_int_equal(simulate_exchange(&n, counts[c], 10000, quick), REC_OK);
        for (int i = 0; i < counts[c]; i++) assert_near(quick[i], plain[i]);
      }
}
