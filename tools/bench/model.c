// rec-bench-model LIBRARY: how much of a training step of the first block its matrix products are,
// and one token of 1 and 4 sequences beside reading the weights of these products. The library is
// one of model.rec, or of another program that trains a model.
//
// On one thread, the fastest of several turns. The weights are drawn, so that nothing need be
// trained before. Beside other programs the third-level cache holds less of them.
//
//   step 513.5 ms, of them products 371.3 ms: 1.38
//   token 0.45 ms, of 4 sequences 0.75 ms: 1.67; 26.7 MB read in 0.74 ms, 36.2 GB/s: 163.6 %
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/machine.h"
#include "runtime/train/model/carried.h"
#include "runtime/train/model/leaves.h"
#include "runtime/train/model/op_times.h"
#include "runtime/train/model/weights.h"
#include "runtime/train/session.h"

static void check(rec_status status) {
  if (!status) return;
  fprintf(stderr, "rec-bench-model: %s\n", rec_message());
  exit(1);
}

static void train(const trained_model *of, const train_block *b) {
  const leaves l = leaves_of(&(leaf_sizes){b->batch, b->accumulate, b->context, b->segments, true});
  op_times t;
  double all = 0, products = 0, weights = (double)of->model->parameter_elements;
  check(op_times_measure(of, b, b->batch / l.shards, b->context / l.segments, l.segments, &t));
  for (int i = 0; i < t.count; i++) {
    double seconds = l.shards * (t.of[i].of[RAN_FORWARD] + t.of[i].of[RAN_BACKWARD]);
    all += seconds;
    if (of->model->ops[i].kind == OP_LINEAR) products += seconds;
  }
  all += weights * (t.step + (l.shards * l.segments - 1) * t.sum);
  printf("step %.1f ms, of them products %.1f ms: %.2f\n", all * 1e3, products * 1e3,
         all / products);
}

static int64_t bytes_of_products(const trained_model *of) {
  int64_t numbers = 0;
  for (int i = 0; i < of->model->op_count; i++) {
    const model_op *op = &of->model->ops[i];
    if (op->kind == OP_LINEAR)
      numbers += of->model->tensors[op->in[0]].elements * of->model->tensors[op->row].elements;
  }
  return numbers * of->n->element_size;
}

typedef uint64_t pair __attribute__((vector_size(16)));

static void read_all(const void *from, int64_t bytes) {
  enum { CHAINS = 8 };
  static volatile uint64_t kept;
  pair sums[CHAINS] = {{0}};
  for (const pair *p = from; bytes >= (int64_t)sizeof sums; p += CHAINS, bytes -= sizeof sums)
    for (int k = 0; k < CHAINS; k++) sums[k] += p[k];
  for (int k = 0; k < CHAINS; k++) kept += sums[k][0] + sums[k][1];
}

static void generate(const trained_model *of, const train_block *b) {
  enum { KINDS = 2, MOST = 4, TURNS = 100, TOKENS = 10 };
  static const int64_t counts[KINDS] = {1, MOST};
  const token_id tokens[MOST] = {0};
  const int64_t bytes = bytes_of_products(of);
  double least[KINDS + 1] = {INFINITY, INFINITY, INFINITY};
  void *weights = rec_numbers_new(trained_bytes(of));
  double *logits = calloc((size_t)of->model->vocabulary * MOST, sizeof *logits);
  executor *x[KINDS];
  carried_states states[KINDS];
  check(weights && logits ? train_weights_start(of->model, b->seed, of->n, weights)
                          : rec_no_memory());
  for (int k = 0; k < KINDS; k++) {
    const executor_form form = {.batch = counts[k], .time = 1};
    check(executor_new(of, &form, &x[k]));
    check(carried_open(&states[k], of, counts[k], true));
    carried_next(&states[k], true, NULL);
  }
  for (int i = 0; i < TURNS * TOKENS * (KINDS + 1); i++) {
    const int k = i / TOKENS % (KINDS + 1);
    const double begin = rec_seconds(1);
    if (k < KINDS)
      check(executor_logits(x[k], weights,
                            &(shard){.batch = counts[k],
                                     .time = 1,
                                     .threads = 1,
                                     .tokens = tokens,
                                     .before = states[k].before,
                                     .after = states[k].after},
                            logits));
    else
      read_all(weights, bytes);
    least[k] = fmin(least[k], rec_seconds(1) - begin);
    if (k < KINDS) carried_next(&states[k], false, NULL);
  }
  printf("token %.2f ms, of 4 sequences %.2f ms: %.2f; ", least[0] * 1e3, least[1] * 1e3,
         least[1] / least[0]);
  printf("%.1f MB read in %.2f ms, %.1f GB/s: %.1f %%\n", (double)bytes * 1e-6, least[KINDS] * 1e3,
         (double)bytes * 1e-9 / least[KINDS], least[KINDS] / least[0] * 100);
}

int main(int count, char **list) {
  rec_module *module;
  session *s;
  if (count != 2) {
    fprintf(stderr, "expected rec-bench-model LIBRARY\n");
    return 2;
  }
  check(rec_module_open(list[1], &module));
  check(session_open(module, &(session_options){.threads = 1}, &s));
  const train_block *b = s->program->blocks;
  if (!b) check(rec_fail(REC_ERROR_ARGUMENT, "expected a train block in %s, found none", list[1]));
  const trained_model of = session_model(s, b);
  train(&of, b);
  generate(&of, b);
  return 0;
}
