// Accuracy on a generated task, by length: the share of answers that are the model's likeliest
// token, and the share of sequences whose answers all are. The right answers before are read, from
// the zero state on.
//
// The sequences come from a stream of their own, which depends on the seed of the training block
// alone: all evaluations of a block judge by the same ones.
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/random.h"
#include "runtime/train/session.h"

enum { SEQUENCES = 256, TOKENS_OF_A_TASK = 8192, MOST_OF_A_TASK = 16 };

typedef struct counts {
  int64_t answers, right, exact;
} counts;

typedef struct accuracy {
  trained_model of;
  uint64_t seed;
  train_task task;  // of one length
  int64_t tokens;   // of a sequence
  int at_once;      // sequences of a task of the pool
  void *weights;
  counts *found;  // by task of the pool
  atomic_int failed;
  char message[512];
} accuracy;

static void count_hits(const accuracy *a, const uint16_t *targets, const uint8_t *hits, int count,
                       counts *found) {
  for (int s = 0; s < count; s++) {
    int64_t answers = 0, right = 0;
    for (int64_t i = s * a->tokens; i < (s + 1) * a->tokens; i++)
      if (targets[i] != NO_TARGET) answers++, right += hits[i];
    found->answers += answers;
    found->right += right;
    found->exact += right == answers;
  }
}

static rec_status judge(const accuracy *a, int first, int count, counts *found) {
  size_t all = (size_t)(count * a->tokens);
  uint16_t *tokens = calloc(all, sizeof *tokens), *targets = calloc(all, sizeof *targets);
  uint8_t *hits = calloc(all, 1);
  void **states = calloc((size_t)a->of.model->state_count + 1, sizeof *states);
  executor *x = NULL;
  rec_status status =
      tokens && targets && hits && states
          ? executor_new(a->of.model, a->of.kernels, a->of.n, count, a->tokens, false, &x)
          : rec_no_memory();
  for (int s = 0; !status && s < count; s++)
    task_sequence(&a->task, a->seed, random_stream("held-out sequences"), (uint64_t)(first + s),
                  a->tokens, tokens + s * a->tokens, targets + s * a->tokens);
  shard s = {.batch = count,
             .time = a->tokens,
             .threads = 1,
             .tokens = tokens,
             .targets = targets,
             .before = states,
             .after = states};
  if (!status) status = executor_hits(x, a->weights, &s, hits);
  if (!status) count_hits(a, targets, hits, count, found);
  executor_free(x);
  free(tokens);
  free(targets);
  free(hits);
  free(states);
  return status;
}

static void run_task(void *context, int number, int worker) {
  accuracy *a = context;
  int first = number * a->at_once,
      count = SEQUENCES - first < a->at_once ? SEQUENCES - first : a->at_once;
  (void)worker;
  rec_status status = judge(a, first, count, &a->found[number]);
  int good = REC_OK;
  if (!status || !atomic_compare_exchange_strong(&a->failed, &good, (int)status)) return;
  snprintf(a->message, sizeof a->message, "%s", rec_message());
}

// All sequences of one length.
static rec_status measure(accuracy *a, train_pool *pool, int64_t length, counts *sum) {
  *sum = (counts){0};
  if (length < task_least(&a->task))
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected a length from %" PRId64 " on, found %" PRId64,
                    task_name(a->task.kind), task_least(&a->task), length);
  a->task.shortest = a->task.length = length;
  a->task.all = false;
  a->tokens = task_tokens(&a->task, length);
  int64_t fitting = TOKENS_OF_A_TASK / a->tokens;
  a->at_once = fitting < 1 ? 1 : fitting > MOST_OF_A_TASK ? MOST_OF_A_TASK : (int)fitting;
  int tasks = (SEQUENCES + a->at_once - 1) / a->at_once;
  a->found = calloc((size_t)tasks, sizeof *a->found);
  if (!a->found) return rec_no_memory();
  atomic_store(&a->failed, REC_OK);
  train_pool_run(pool, tasks, run_task, a);
  for (int i = 0; i < tasks; i++) {
    sum->answers += a->found[i].answers;
    sum->right += a->found[i].right;
    sum->exact += a->found[i].exact;
  }
  free(a->found);
  int failed = atomic_load(&a->failed);
  return failed ? rec_fail((rec_status)failed, "%s", a->message) : REC_OK;
}

// Prints the table while it is made, and writes it.
static rec_status measure_all(accuracy *a, train_pool *pool, const evaluate_block *b, FILE *file) {
  rec_status status = REC_OK;
  fprintf(file, "length,character_accuracy,exact_accuracy,answers,sequences\n");
  for (int i = 0; !status && i < b->length_count; i++) {
    counts sum;
    status = measure(a, pool, b->lengths[i], &sum);
    if (status) break;
    double character = (double)sum.right / (double)sum.answers,
           exact = (double)sum.exact / SEQUENCES;
    printf("  length %6d   %.4f of the answers   %.4f of the sequences\n", b->lengths[i], character,
           exact);
    fflush(stdout);
    fprintf(file, "%d,%.6f,%.6f,%" PRId64 ",%d\n", b->lengths[i], character, exact, sum.answers,
            SEQUENCES);
  }
  return status;
}

static rec_status measure_into_file(accuracy *a, train_pool *pool, const session *s,
                                    const evaluate_block *b) {
  char *path = session_path(s, b->name, "accuracy.csv");
  if (!path) return rec_no_memory();
  FILE *file = fopen(path, "w");
  rec_status status = file ? measure_all(a, pool, b, file) : REC_OK;
  bool good = file && !ferror(file);
  if (file && fclose(file)) good = false;
  if (!status && !good) status = rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  free(path);
  return status;
}

rec_status session_accuracy(session *s, const evaluate_block *b) {
  const train_block *block = train_program_block(s->program, b->after);
  accuracy a = {.of = session_model(s, block), .seed = block->seed, .task = block->task};
  train_data data = {0};
  train_pool *pool = train_pool_new(s->options.threads);
  a.weights = calloc((size_t)a.of.model->parameter_elements + 1, (size_t)a.of.n->element_size);
  rec_status status = pool && a.weights ? session_open_data(s, block, &data) : rec_no_memory();
  if (!status) status = session_load_result(s, block, a.weights);
  if (!status) status = session_make_folder(s, b->name);
  if (!status) {
    printf("evaluate %s after %s: accuracy by length, %s\n", b->name, b->after,
           task_name(block->task.kind));
    status = measure_into_file(&a, pool, s, b);
  }
  train_data_close(&data);
  train_pool_free(pool);
  free(a.weights);
  return status;
}
