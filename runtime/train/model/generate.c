#include "runtime/train/model/generate.h"

#include <stdlib.h>

#include "runtime/train/model/carried.h"

enum { LONGEST_WINDOW = 1024, WINDOW_BYTES = 1 << 26 };

struct generator {
  const trained_model *of;
  const void *weights;
  void *there;  // the weights where the model runs
  int threads;
  int64_t window;            // tokens that are read together
  executor *single, *whole;  // for one token; for a window, while a long text is read
  carried_states states;
  bool begun, learned;  // something was read; the first token starts from the learned states
  double *logits;
};

rec_status generator_new(const trained_model *of, const void *weights, int threads,
                         generator **made) {
  const train_model *m = of->model;
  generator *g = calloc(1, sizeof *g);
  *made = NULL;
  if (!g) return rec_no_memory();
  *g = (generator){.of = of, .weights = weights, .threads = threads, .window = LONGEST_WINDOW};
  while (g->window > 1 && m->row * g->window * of->n->token_size > WINDOW_BYTES) g->window /= 2;
  g->logits = calloc((size_t)m->vocabulary, sizeof *g->logits);
  rec_status status = carried_open(&g->states, of, 1, true);
  if (!status && !g->logits) status = rec_no_memory();
  if (!status) status = compute_place(of->where, weights, trained_bytes(of), &g->there);
  if (!status) status = executor_new(of, &(executor_form){.batch = 1, .time = 1}, &g->single);
  if (status)
    generator_free(g);
  else
    *made = g;
  return status;
}

void generator_free(generator *g) {
  if (!g) return;
  executor_free(g->single);
  executor_free(g->whole);
  if (g->there) compute_take_back(g->of->where, g->weights, g->there);
  carried_close(&g->states);
  free(g->logits);
  free(g);
}

// The executor for `count` tokens; that of windows exists only while they are read.
static rec_status choose_executor(generator *g, int64_t count, executor **x) {
  rec_status status = REC_OK;
  if (count == 1) {
    executor_free(g->whole);
    g->whole = NULL;
  } else if (!g->whole) {
    status = executor_new(g->of, &(executor_form){.batch = 1, .time = g->window}, &g->whole);
  }
  *x = count == 1 ? g->single : g->whole;
  return status;
}

static rec_status read_prompt_window(generator *g, const token_id *tokens, int64_t count) {
  executor *x;
  rec_status status = choose_executor(g, count, &x);
  carried_next(&g->states, !g->begun, g->learned ? g->weights : NULL);
  g->begun = true;
  shard s = {.batch = 1,
             .time = count,
             .threads = g->threads,
             .tokens = tokens,
             .before = g->states.before,
             .after = g->states.after};
  return status ? status : executor_logits(x, g->there, &s, g->logits);
}

void generator_start_learned(generator *g) { g->learned = true; }

rec_status generator_read(generator *g, const token_id *tokens, int64_t count) {
  rec_status status = REC_OK;
  for (int64_t at = 0; !status && at < count; at += g->window) {
    int64_t rest = count - at;
    status = read_prompt_window(g, tokens + at, rest < g->window ? rest : g->window);
  }
  return status;
}

const double *generator_logits(const generator *g) { return g->logits; }
