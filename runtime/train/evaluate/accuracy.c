// Accuracy on a generated task, by length. It is the share of answers that are the model's
// likeliest token, and the share of sequences with all answers right. The model reads the right
// answers before, from the zero state on, window after window with the state carried. Activations
// thus take the same memory for every length. Tasks whose answer follows from one place are counted
// by its depth besides.
//
// The sequences come from a stream of their own, which depends on the seed of the training block
// alone. All evaluations of a block judge by the same sequences.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/random.h"
#include "runtime/train/evaluate/evaluate.h"

enum {
  SEQUENCES = 256,
  TOKENS_OF_A_TASK = 8192,
  MOST_OF_A_TASK = 16,
  LONGEST_WINDOW = 1024,
  DEPTHS = 5  // of a fifth of the sequence each
};

typedef struct counts {
  int64_t sequences, answers, right, exact;
} counts;

// All, and by the depth of what the answer follows from.
typedef struct found_counts {
  counts all, at_depth[DEPTHS];
} found_counts;

typedef struct accuracy {
  const evaluation *e;
  train_task task;      // of one length
  int64_t tokens;       // of a sequence
  int at_once;          // sequences of a task of the pool
  found_counts *found;  // by task of the pool
} accuracy;

static void add_accuracy_counts(counts *to, const counts *from) {
  to->sequences += from->sequences;
  to->answers += from->answers;
  to->right += from->right;
  to->exact += from->exact;
}

// Some sequences that are read side by side.
typedef struct reading {
  const accuracy *a;
  rec_blocks memory;  // of all lists
  int count;
  int64_t window;
  token_id *tokens, *targets;  // [count][tokens]
  token_id *window_tokens;     // of the window at hand, [count][its length]
  token_id *window_targets;
  uint8_t *hits, *all_hits;  // of the window; of all, [count][tokens]
  int64_t facts[MOST_OF_A_TASK];
  carried_states states;
  executor *x;
} reading;

static rec_status open_reading(reading *r, int first) {
  const accuracy *a = r->a;
  const trained_model *of = &a->e->of;
  int64_t all = r->count * a->tokens, part = r->count * r->window;
  r->tokens = rec_blocks_list(&r->memory, all, sizeof *r->tokens);
  r->targets = rec_blocks_list(&r->memory, all, sizeof *r->targets);
  r->all_hits = rec_blocks_list(&r->memory, all, 1);
  r->window_tokens = rec_blocks_list(&r->memory, part, sizeof *r->tokens);
  r->window_targets = rec_blocks_list(&r->memory, part, sizeof *r->targets);
  r->hits = rec_blocks_list(&r->memory, part, 1);
  rec_status status = carried_open(&r->states, of, r->count, false);
  if (status) return status;
  if (r->memory.failed) return rec_no_memory();
  for (int s = 0; s < r->count; s++)
    r->facts[s] = task_sequence(&a->task, a->e->block->seed, random_stream("held-out sequences"),
                                (uint64_t)(first + s), a->tokens, r->tokens + s * a->tokens,
                                r->targets + s * a->tokens);
  return executor_new(of, &(executor_form){.batch = r->count, .time = r->window}, &r->x);
}

static void close_reading(reading *r) {
  executor_free(r->x);
  rec_blocks_free(&r->memory);
  carried_close(&r->states);
}

// The window of `time` tokens from `from` on.
static rec_status read_accuracy_window(reading *r, int64_t from, int64_t time) {
  const accuracy *a = r->a;
  for (int s = 0; s < r->count; s++) {
    memcpy(r->window_tokens + s * time, r->tokens + s * a->tokens + from,
           (size_t)time * sizeof *r->tokens);
    memcpy(r->window_targets + s * time, r->targets + s * a->tokens + from,
           (size_t)time * sizeof *r->targets);
  }
  carried_next(&r->states, from == 0, a->e->learned ? a->e->weights : NULL);
  shard part = {.batch = r->count,
                .time = time,
                .threads = 1,
                .tokens = r->window_tokens,
                .targets = r->window_targets,
                .before = r->states.before,
                .after = r->states.after};
  rec_status status = executor_hits(r->x, a->e->there, &part, r->hits);
  for (int s = 0; s < r->count; s++)
    memcpy(r->all_hits + s * a->tokens + from, r->hits + s * time, (size_t)time);
  return status;
}

static void count_hits(const reading *r, found_counts *found) {
  int64_t tokens = r->a->tokens;
  for (int s = 0; s < r->count; s++) {
    counts c = {.sequences = 1};
    for (int64_t i = s * tokens; i < (s + 1) * tokens; i++)
      if (r->targets[i] != NO_TARGET) c.answers++, c.right += r->all_hits[i];
    c.exact = c.right == c.answers;
    add_accuracy_counts(&found->all, &c);
    if (r->facts[s] >= 0) add_accuracy_counts(&found->at_depth[r->facts[s] * DEPTHS / tokens], &c);
  }
}

static rec_status run_accuracy_task(void *context, int number, int worker) {
  const accuracy *a = context;
  int first = number * a->at_once,
      count = SEQUENCES - first < a->at_once ? SEQUENCES - first : a->at_once;
  (void)worker;
  reading r = {
      .a = a, .count = count, .window = a->tokens < LONGEST_WINDOW ? a->tokens : LONGEST_WINDOW};
  rec_status status = open_reading(&r, first);
  for (int64_t from = 0; !status && from < a->tokens; from += r.window)
    status =
        read_accuracy_window(&r, from, a->tokens - from < r.window ? a->tokens - from : r.window);
  if (!status) count_hits(&r, &a->found[number]);
  close_reading(&r);
  return status;
}

// All sequences of one length.
static rec_status measure_length(accuracy *a, int64_t length, found_counts *sum) {
  *sum = (found_counts){0};
  if (length < task_least(&a->task))
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected a length from %" PRId64 " on, found %" PRId64,
                    task_rules_of[a->task.kind].name, task_least(&a->task), length);
  a->task.shortest = a->task.length = length;
  a->task.all = false;
  a->tokens = task_tokens(&a->task, length);
  int64_t fitting = TOKENS_OF_A_TASK / a->tokens;
  a->at_once = fitting < 1 ? 1 : fitting > MOST_OF_A_TASK ? MOST_OF_A_TASK : (int)fitting;
  int tasks = (SEQUENCES + a->at_once - 1) / a->at_once;
  a->found = calloc((size_t)tasks, sizeof *a->found);
  if (!a->found) return rec_no_memory();
  rec_status status = evaluation_run(a->e, tasks, run_accuracy_task, a);
  for (int i = 0; i < tasks; i++) {
    add_accuracy_counts(&sum->all, &a->found[i].all);
    for (int d = 0; d < DEPTHS; d++)
      add_accuracy_counts(&sum->at_depth[d], &a->found[i].at_depth[d]);
  }
  free(a->found);
  return status;
}

static double part_of_all(int64_t part, int64_t all) {
  return all ? (double)part / (double)all : 0;
}

static void put_depths(FILE *file, int length, const found_counts *sum) {
  for (int d = 0; d < DEPTHS; d++) {
    const counts *c = &sum->at_depth[d];
    if (!c->sequences) continue;
    printf("    depth %.1f..%.1f   %.4f of the answers   %.4f of the sequences\n",
           (double)d / DEPTHS, (double)(d + 1) / DEPTHS, part_of_all(c->right, c->answers),
           part_of_all(c->exact, c->sequences));
    fprintf(file, "%d,%.2f,%.2f,%.6f,%.6f,%" PRId64 ",%" PRId64 "\n", length, (double)d / DEPTHS,
            (double)(d + 1) / DEPTHS, part_of_all(c->right, c->answers),
            part_of_all(c->exact, c->sequences), c->answers, c->sequences);
  }
}

// Prints the table while it is made, and writes it.
static rec_status measure_all(accuracy *a, const evaluate_block *b, FILE *file, FILE *depths) {
  rec_status status = REC_OK;
  fprintf(file, "length,character_accuracy,exact_accuracy,answers,sequences\n");
  fprintf(depths, "length,from,to,character_accuracy,exact_accuracy,answers,sequences\n");
  for (int i = 0; !status && i < b->length_count; i++) {
    found_counts sum;
    status = measure_length(a, b->lengths[i], &sum);
    if (status) break;
    double character = part_of_all(sum.all.right, sum.all.answers),
           exact = part_of_all(sum.all.exact, sum.all.sequences);
    printf("  length %6d   %.4f of the answers   %.4f of the sequences\n", b->lengths[i], character,
           exact);
    fprintf(file, "%d,%.6f,%.6f,%" PRId64 ",%d\n", b->lengths[i], character, exact, sum.all.answers,
            SEQUENCES);
    put_depths(depths, b->lengths[i], &sum);
    fflush(stdout);
  }
  return status;
}

static rec_status measure_into_files(accuracy *a, const evaluate_block *b) {
  made_text table, depths = {0};
  rec_status status = text_open(&table) && text_open(&depths)
                          ? measure_all(a, b, table.out, depths.out)
                          : rec_no_memory();
  status = evaluation_save(a->e, b, &table, status, "accuracy.csv");
  if (task_rules_of[a->task.kind].text)
    return evaluation_save(a->e, b, &depths, status, "accuracy_depth.csv");
  text_close(&depths);
  free(depths.text);
  return status;
}

rec_status judge_accuracy(evaluation *e, const evaluate_block *b) {
  accuracy a = {.e = e, .task = e->block->task};
  printf("evaluate %s after %s: accuracy by length, %s\n", b->name, b->after,
         task_rules_of[a.task.kind].name);
  return measure_into_files(&a, b);
}
