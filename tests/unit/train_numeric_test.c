// The parts of training that stand alone: random numbers, the pool, matrix products with their
// gradients, the loss, the optimizer.
#include <math.h>
#include <unistd.h>

#include "runtime/internal.h"
#include "runtime/train/data/random.h"
#include "runtime/train/model/numeric.h"
#include "runtime/train/model/pool.h"

#include "tests/unit/unit.h"

// The published vector of Philox 4x32-10 for counter and key zero.
TEST(random_bits_are_philox) {
  uint32_t bits[4];
  random_bits(0, 0, 0, bits);
  assert_int_equal(bits[0], 0x6627e8d5u);
  assert_int_equal(bits[1], 0xe169c58du);
  assert_int_equal(bits[2], 0xbc57ac4cu);
  assert_int_equal(bits[3], 0x9b00dbd8u);
}

TEST(draws_have_their_moments) {
  double sum = 0, squares = 0, uniform = 0;
  int64_t largest = 0;
  enum { COUNT = 20000 };
  for (int i = 0; i < COUNT; i++) {
    double x = random_normal(1, random_stream("test"), (uint64_t)i);
    sum += x, squares += x * x;
    uniform += random_uniform(1, random_stream("test"), (uint64_t)i);
    int64_t below = random_below(3, 4, (uint64_t)i, 10);
    assert_in_range(below, 0, 9);
    if (below > largest) largest = below;
  }
  assert_true(fabs(sum / COUNT) < 0.03);
  assert_true(fabs(squares / COUNT - 1) < 0.05);
  assert_true(fabs(uniform / COUNT - 0.5) < 0.01);
  assert_int_equal(largest, 9);
}

// Tasks that take a while, so that every worker has woken before the last is taken.
static rec_status keep_worker(void *context, int number, int worker) {
  ((int *)context)[number] = worker;
  usleep(200);
  return REC_OK;
}

TEST(workers_are_no_more_than_tasks) {
  static const int threads[] = {1, 2, 3, 5, 16, 64}, tasks[] = {1, 2, 3, 4, 13};
  for (int i = 0; i < 6; i++) {
    for (int round = 0; round < 50; round++) {
      int workers[13], count = tasks[round % 5];
      assert_int_equal(train_pool_run(threads[i], count, keep_worker, workers), REC_OK);
      for (int k = 0; k < count; k++) {
        assert_in_range(workers[k], 0, count - 1);
        assert_in_range(workers[k], 0, threads[i] - 1);
      }
    }
  }
}

static rec_status mark(void *context, int number, int worker) {
  (void)worker;
  ((int *)context)[number]++;
  return REC_OK;
}

static rec_status fail_once(void *context, int number, int worker) {
  return number == 5 ? rec_fail(REC_ERROR_FILE, "task %d", number) : mark(context, number, worker);
}

TEST(pool_runs_each_task_once) {
  for (int threads = 1; threads <= 3; threads++) {
    for (int round = 0; round < 50; round++) {
      int marks[37] = {0};
      assert_int_equal(train_pool_run(threads, 37, mark, marks), REC_OK);
      for (int i = 0; i < 37; i++) assert_int_equal(marks[i], 1);
    }
  }
}

// Its message reaches the caller, whichever thread it was on; the other tasks are run.
TEST(pool_tells_of_a_failure) {
  for (int threads = 1; threads <= 3; threads++) {
    int marks[9] = {0};
    assert_int_equal(train_pool_run(threads, 9, fail_once, marks), REC_ERROR_FILE);
    assert_string_equal(rec_message(), "task 5");
    for (int i = 0; i < 9; i++) assert_int_equal(marks[i], i != 5);
  }
}

enum { TOKENS = 5, IN = 3, OUT = 4 };

typedef struct problem {
  double x[TOKENS * IN], weight[OUT * IN], bias[OUT];
  token_id targets[TOKENS];
} problem;

static problem new_problem(void) {
  problem p;
  for (int i = 0; i < TOKENS * IN; i++) p.x[i] = random_normal(1, 1, (uint64_t)i);
  for (int i = 0; i < OUT * IN; i++) p.weight[i] = random_normal(1, 2, (uint64_t)i);
  for (int i = 0; i < OUT; i++) p.bias[i] = random_normal(1, 3, (uint64_t)i);
  for (int i = 0; i < TOKENS; i++) p.targets[i] = (token_id)random_below(1, 4, (uint64_t)i, OUT);
  p.targets[2] = NO_TARGET;
  return p;
}

static double loss_of(problem *p, double *d_logits) {
  double logits[TOKENS * OUT], row[OUT];
  rows x = {p->x, TOKENS, IN, IN}, y = {logits, TOKENS, OUT, OUT};
  numeric_f64.linear(x, p->weight, p->bias, y, NULL);
  return numeric_f64.cross_entropy(y, p->targets, NULL, 1, (rows){d_logits, TOKENS, OUT, OUT}, NULL,
                                   row);
}

static void check_gradient(problem *p, double *values, const double *gradient, int count) {
  for (int i = 0; i < count; i++) {
    double kept = values[i], step = 1e-5;
    values[i] = kept + step;
    double above = loss_of(p, NULL);
    values[i] = kept - step;
    double below = loss_of(p, NULL);
    values[i] = kept;
    assert_true(fabs((above - below) / (2 * step) - gradient[i]) < 1e-8);
  }
}

TEST(gradients_equal_differences) {
  problem p = new_problem();
  double d_logits[TOKENS * OUT], dx[TOKENS * IN], dw[OUT * IN] = {0}, db[OUT] = {0};
  rows x = {p.x, TOKENS, IN, IN}, dy = {d_logits, TOKENS, OUT, OUT};
  loss_of(&p, d_logits);
  numeric_f64.linear_backward(x, p.weight, dy, (rows){dx, TOKENS, IN, IN}, false, dw, db, NULL);
  check_gradient(&p, p.x, dx, TOKENS * IN);
  check_gradient(&p, p.weight, dw, OUT * IN);
  check_gradient(&p, p.bias, db, OUT);
}

// ---- rows in bfloat16 ---------------------------------------------------------------------------

// More rows than a panel has, cut out of wider rows; small whole numbers, exact in bfloat16 unless
// a test wants them rounded.
enum { MANY = 300, WIDE_IN = 5, WIDE_OUT = 7, STRIDE = 11 };

typedef struct narrow_problem {
  uint16_t x[MANY * STRIDE], y[MANY * STRIDE], dx[MANY * STRIDE];
  float weight[WIDE_OUT * WIDE_IN], bias[WIDE_OUT], dw[WIDE_OUT * WIDE_IN], db[WIDE_OUT];
  char room[65536];
} narrow_problem;

static double narrow_at(const uint16_t *values, int row, int column) {
  return numeric_bf16.load_token(values, (int64_t)row * STRIDE + column);
}

static narrow_problem *new_narrow_problem(void) {
  static narrow_problem p;
  memset(&p, 0, sizeof p);
  for (int i = 0; i < MANY * STRIDE; i++) {
    numeric_bf16.store_token(p.x, i, (double)random_below(1, 5, (uint64_t)i, 5) - 2);
    numeric_bf16.store_token(p.dx, i, 3);
  }
  for (int i = 0; i < WIDE_OUT * WIDE_IN; i++)
    p.weight[i] = (float)random_below(1, 6, (uint64_t)i, 9) - 4;
  for (int i = 0; i < WIDE_OUT; i++) p.bias[i] = (float)i;
  assert_true(numeric_bf16.linear_room(WIDE_IN, WIDE_OUT) <= (int64_t)sizeof p.room);
  return &p;
}

TEST(products_of_bfloat_rows_are_exact_where_they_can_be) {
  narrow_problem *p = new_narrow_problem();
  rows x = {p->x, MANY, WIDE_IN, STRIDE}, y = {p->y, MANY, WIDE_OUT, STRIDE},
       dx = {p->dx, MANY, WIDE_IN, STRIDE};
  numeric_bf16.linear(x, p->weight, p->bias, y, p->room);
  numeric_bf16.linear_backward(x, p->weight, y, dx, true, p->dw, p->db, p->room);
  double dw[WIDE_OUT][WIDE_IN] = {0}, db[WIDE_OUT] = {0};
  for (int t = 0; t < MANY; t++) {
    for (int o = 0; o < WIDE_OUT; o++) {
      double sum = o;
      for (int i = 0; i < WIDE_IN; i++) sum += p->weight[o * WIDE_IN + i] * narrow_at(p->x, t, i);
      assert_true(narrow_at(p->y, t, o) == sum);
      for (int i = 0; i < WIDE_IN; i++) dw[o][i] += sum * narrow_at(p->x, t, i);
      db[o] += sum;
    }
    assert_true(narrow_at(p->y, t, WIDE_OUT) == 0);  // between the rows
    for (int i = 0; i < WIDE_IN; i++) {
      double sum = 3;
      for (int o = 0; o < WIDE_OUT; o++) sum += p->weight[o * WIDE_IN + i] * narrow_at(p->y, t, o);
      assert_true(fabs(narrow_at(p->dx, t, i) - sum) <= fabs(sum) / 256);
    }
  }
  for (int o = 0; o < WIDE_OUT; o++) {
    assert_true(p->db[o] == (float)db[o]);
    for (int i = 0; i < WIDE_IN; i++) assert_true(p->dw[o * WIDE_IN + i] == (float)dw[o][i]);
  }
}

// Few rows are multiplied by another function, in bfloat16 block by block of the weight. Small whole
// numbers are exact.
TEST(few_rows_and_many_are_alike) {
  enum { INPUTS = 83, RESULTS = 900, MOST = 14, PAD = 3 };
  static const numeric *const kinds[] = {&numeric_f32, &numeric_f64, &numeric_bf16};
  for (int k = 0; k < 3; k++) {
    const numeric *n = kinds[k];
    bool f64 = n == &numeric_f64;
    void *weight = calloc(INPUTS * RESULTS, 8), *bias = calloc(RESULTS, 8),
         *room = calloc(1, (size_t)n->linear_room(INPUTS, RESULTS) + 1);
    void *x = calloc(MOST * (INPUTS + PAD), 8), *y = calloc(MOST * (RESULTS + PAD), 8);
    for (int i = 0; i < INPUTS * RESULTS; i++)
      (f64 ? numeric_f64 : numeric_f32).store(weight, i, i % 5 - 2);
    for (int i = 0; i < RESULTS; i++) (f64 ? numeric_f64 : numeric_f32).store(bias, i, i % 4);
    for (int i = 0; i < MOST * (INPUTS + PAD); i++) n->store_token(x, i, i % 3 - 1);
    for (int count = 1; count <= MOST; count++) {
      memset(y, 0, MOST * (RESULTS + PAD) * 8);
      n->linear((rows){x, count, INPUTS, INPUTS + PAD}, weight, count % 2 ? bias : NULL,
                (rows){y, count, RESULTS, RESULTS + PAD}, room);
      for (int t = 0; t < MOST; t++) {
        for (int o = 0; o < RESULTS + PAD; o++) {
          double sum = count % 2 ? o % 4 : 0;
          for (int i = 0; i < INPUTS && o < RESULTS; i++)
            sum += ((o * INPUTS + i) % 5 - 2) * ((t * (INPUTS + PAD) + i) % 3 - 1);
          assert_true(n->load_token(y, t * (RESULTS + PAD) + o) ==
                      (t < count && o < RESULTS ? sum : 0));
        }
      }
    }
    free(weight), free(bias), free(room), free(x), free(y);
  }
}

TEST(few_rows_do_not_change_each_other) {
  enum { INPUTS = 83, RESULTS = 8, MOST = 12 };
  float weight[INPUTS * RESULTS], x[MOST * INPUTS], together[MOST * RESULTS], alone[RESULTS];
  for (int i = 0; i < INPUTS * RESULTS; i++) weight[i] = sinf((float)i);
  for (int i = 0; i < MOST * INPUTS; i++) x[i] = cosf((float)i);
  for (int count = 2; count <= MOST; count++) {
    numeric_f32.linear((rows){x, count, INPUTS, INPUTS}, weight, NULL,
                       (rows){together, count, RESULTS, RESULTS}, NULL);
    for (int i = 0; i < count; i++) {
      numeric_f32.linear((rows){x + i * INPUTS, 1, INPUTS, INPUTS}, weight, NULL,
                         (rows){alone, 1, RESULTS, RESULTS}, NULL);
      assert_memory_equal(together + i * RESULTS, alone, sizeof alone);
    }
  }
}

// 1 + 2^-8 lies between two numbers of bfloat16 and goes to the even one, 1; 1 + 3 * 2^-9 to 1 +
// 2^-7.
TEST(weights_are_rounded_where_they_are_read) {
  narrow_problem *p = new_narrow_problem();
  const float weight[2] = {1 + 0x1p-8f, 1 + 0x3p-9f};
  numeric_bf16.store_token(p->x, 0, 1);
  numeric_bf16.linear((rows){p->x, 1, 1, 1}, weight, NULL, (rows){p->y, 1, 2, 2}, p->room);
  assert_true(narrow_at(p->y, 0, 0) == 1 && narrow_at(p->y, 0, 1) == 1 + 0x1p-7);
  const token_id token = 1;
  numeric_bf16.embed(&token, weight, (rows){p->y, 1, 1, 1});
  assert_true(narrow_at(p->y, 0, 0) == 1 + 0x1p-7);
}

// The loss of rows in bfloat16 is that of the same numbers in float; its gradient is rounded once.
TEST(loss_of_bfloat_rows_is_that_of_floats) {
  uint16_t narrow[TOKENS * OUT];
  float wide[TOKENS * OUT], row[OUT];
  problem p = new_problem();
  for (int i = 0; i < TOKENS * OUT; i++) {
    numeric_bf16.store_token(narrow, i, p.x[i % (TOKENS * IN)]);
    wide[i] = (float)numeric_bf16.load_token(narrow, i);
  }
  rows few = {narrow, TOKENS, OUT, OUT}, all = {wide, TOKENS, OUT, OUT};
  double expected = numeric_f32.cross_entropy(all, p.targets, NULL, 0.5, all, NULL, row),
         found = numeric_bf16.cross_entropy(few, p.targets, NULL, 0.5, few, NULL, row);
  assert_true(found == expected);
  for (int i = 0; i < TOKENS * OUT; i++)
    assert_true(fabs(numeric_bf16.load_token(narrow, i) - (double)wide[i]) <=
                fabs((double)wide[i]) / 256);
  numeric_bf16.store_token(narrow, 0, NAN);
  assert_true(isnan(numeric_bf16.load_token(narrow, 0)) && isnan(numeric_bf16.row_squares(few)));
}

TEST(embedding_gradients_add_up) {
  float table[6] = {1, 2, 3, 4, 5, 6}, out[4 * 3], d_table[6] = {0};
  token_id tokens[4] = {2, 0, 2, 1};
  rows y = {out, 4, 2, 3};  // rows with a stride
  memset(out, 0, sizeof out);
  numeric_f32.embed(tokens, table, y);
  assert_true(out[0] == 5 && out[1] == 6 && out[3] == 1 && out[9] == 3);
  numeric_f32.embed_backward(tokens, y, d_table);
  assert_true(d_table[4] == 10 && d_table[5] == 12 && d_table[0] == 1);
}

// One step from zero moments moves every weight by the rate, whatever the gradient's size.
TEST(adamw_steps_by_the_rate) {
  float p[2] = {1, -1}, g[2] = {100, -0.01f}, m[2] = {0}, v[2] = {0};
  adamw_step step = {.rate = 0.1,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .epsilon = 1e-12,
                     .decay = 0.5,
                     .correction1 = 0.1,
                     .correction2 = 0.05,
                     .gradient_scale = 1};
  numeric_f32.adamw(p, g, m, v, 2, &step);
  assert_true(fabs(p[0] - (0.95 - 0.1)) < 1e-5);
  assert_true(fabs(p[1] - (-0.95 + 0.1)) < 1e-5);
}
