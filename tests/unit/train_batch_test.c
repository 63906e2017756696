// What the targets of a batch weigh: from a token on, by label, answers and the rest of a task.
#include "runtime/train/trainer_parts.h"

#include "tests/unit/unit.h"

enum { BATCH = 3, TIME = 12, TOKENS = BATCH * TIME };

typedef struct fixture {
  trainer t;
  trainer_internals in;
  train_block block;
  token_id tokens[TOKENS], targets[TOKENS], answers[2 * TOKENS];
  float weights[TOKENS];
  double sums[2];
} fixture;

static void fill(fixture *f, const train_data *data) {
  f->block.batch = BATCH, f->block.context = TIME, f->block.seed = 4;
  f->in = (trainer_internals){.share = {.all = {BATCH, 2, 1}, .own = {0, 2}, .rows = BATCH},
                              .batch = {.windows = 9,
                                        .tokens = f->tokens,
                                        .targets = f->targets,
                                        .target_weights = f->weights,
                                        .weight_sums = f->sums,
                                        .answers = f->answers,
                                        .answer_room = TOKENS}};
  f->t = (trainer){.block = &f->block, .in = &f->in, .threads = 2, .step = 6};
  batch_fill(&f->t, data);
}

TEST(text_counts_from_a_token_on_and_by_label) {
  static token_id text[500];
  static fixture f;
  const weighted_label labels[] = {{2, 0.5}, {0, 0}};
  for (int i = 0; i < 500; i++) text[i] = (token_id)(i % 7);
  train_data data = {.source.kind = SOURCE_TOKENS,
                     .windows.vocabulary = 7,
                     .file = {.type.bytes = sizeof *text, .numbers = (const char *)text},
                     .count = 500,
                     .train_count = 500};
  f.block = (train_block){.loss_from = 3, .loss_rest = 1, .labels = labels, .label_count = 2};
  fill(&f, &data);
  double sum = 0;
  for (int i = 0; i < TOKENS; i++) {
    double want = f.targets[i] == 0 ? 0 : f.targets[i] == 2 ? 0.5 : 1;
    if (i % TIME < 3) want = 0;
    assert_true((double)f.weights[i] == want);
    sum += want;
  }
  assert_true(f.sums[0] + f.sums[1] == sum && sum > 0);
}

// 3 letters, delimiter, 3 letters, stop: of seven targets the last four are answers.
TEST(the_rest_of_a_task_weighs_less) {
  static fixture f;
  const weighted_label stop = {5, 3};
  const train_task task = {TASK_COPYING, 3, 3, 4, 0, true};
  train_data data;
  assert_int_equal(train_data_generate(&task, TIME, 6, &data), REC_OK);
  f.block = (train_block){.loss_rest = 0.25, .task = task, .labels = &stop, .label_count = 1};
  fill(&f, &data);
  for (int i = 0; i < TOKENS; i++) {
    int place = i % TIME;
    double want = place < 3 ? 0.25 : place < 6 ? 1 : 3;
    if (place < 7)
      assert_true((double)f.weights[i] == want);
    else
      assert_int_equal(f.targets[i], NO_TARGET);
  }
  assert_true(f.sums[0] + f.sums[1] == BATCH * (3 * 0.25 + 3 + 3));
}
