#include "runtime/plan/schedule.h"

#include <stdlib.h>

enum { CHAIN_BLOCKS = 8 };  // of the states of an operation, each sent by itself

// ---- lists --------------------------------------------------------------------------------------

static void add(plan_schedule *s, plan_event e) {
  if (s->count == s->room) {
    int64_t room = 2 * s->room + 64;
    plan_event *events = realloc(s->events, (size_t)room * sizeof *events);
    s->failed |= !events;
    if (!events) return;
    s->events = events, s->room = room;
  }
  s->events[s->count++] = e;
}

// Computing without a message between is one event.
static void add_computing(plan_schedule *s, double seconds) {
  plan_event *last = s->count ? &s->events[s->count - 1] : NULL;
  if (last && last->kind == EVENT_COMPUTE)
    last->seconds += seconds;
  else
    add(s, (plan_event){.kind = EVENT_COMPUTE, .seconds = seconds});
}

void schedule_free(plan_schedule *s) {
  free(s->events);
  *s = (plan_schedule){0};
}

double schedule_seconds(const plan_schedule *s) {
  double seconds = 0;
  for (int64_t i = 0; i < s->count; i++) seconds += s->events[i].seconds;
  return seconds;
}

// ---- shards -------------------------------------------------------------------------------------

static int level_of(int64_t count) {
  int level = 0;
  while (((int64_t)1 << level) < count) level++;
  return level;
}

leaf_range plan_shards(const plan_program *p, const plan_grid *grid, int64_t data) {
  return tree_range((tree_node){p->leaves.shards, level_of(grid->data), (int)data});
}

// ---- operations ---------------------------------------------------------------------------------

// One shard on its way through the operations.
typedef struct walk {
  const plan_program *p;
  const plan_grid *grid;
  plan_schedule *s;
  int64_t rows, segments, steps;  // of the shard; of the rank; of a segment
  int64_t shard;                  // of the rank's, from 0
} walk;

static double seconds_of(const walk *w, double measured) { return op_times_scaled(w->p->times, measured, w->rows * w->steps); }

static void call_segments(const walk *w, double seconds) { add_computing(w->s, seconds * (double)w->segments); }

static int64_t state_bytes(const walk *w, int state) {
  return w->p->of.model->states[state].elements * w->rows * w->p->of.n->element_size;
}

static message_kind kind_of(const walk *w, int state, bool backward) {
  if (backward) return MESSAGE_COTANGENTS;
  return w->p->of.model->states[state].lag ? MESSAGE_HALO : MESSAGE_STATES;
}

// Block `block` of a state, on its way to or from a rank beside this one. No other message between two ranks has its tag.
static void add_message(const walk *w, plan_event_kind kind, int beside, int state, bool backward, int block, int blocks) {
  int64_t bytes = state_bytes(w, state), number = (w->shard * w->p->of.model->state_count + state) * 2 + backward;
  add(w->s, (plan_event){.kind = kind,
                         .message = kind_of(w, state, backward),
                         .beside = beside,
                         .tag = number * CHAIN_BLOCKS + block,
                         .bytes = bytes * (block + 1) / blocks - bytes * block / blocks});
}

// The states come from the rank before, and go to the rank behind; their gradients the other way.
static void pipeline(const walk *w, const model_op *op, bool backward, double seconds) {
  int from = backward ? 1 : -1;
  for (int i = 0; i < op->state_count; i++) add_message(w, EVENT_WAIT, from, op->states[i], backward, 0, 1);
  call_segments(w, seconds);
  for (int i = 0; i < op->state_count; i++) add_message(w, EVENT_SEND, -from, op->states[i], backward, 0, 1);
}

// A summary of the rank's segments, then block after block the states that come are folded with it and go on; then the call.
static void chain(const walk *w, const model_op *op, bool backward, double seconds, double summary) {
  int from = backward ? 1 : -1;
  call_segments(w, summary);
  for (int i = 0; i < op->state_count; i++)
    for (int b = 0; b < CHAIN_BLOCKS; b++) {
      add_message(w, EVENT_WAIT, from, op->states[i], backward, b, CHAIN_BLOCKS);
      add_message(w, EVENT_SEND, -from, op->states[i], backward, b, CHAIN_BLOCKS);
    }
  call_segments(w, seconds);
}

static void operation(const walk *w, int number, bool backward) {
  const model_op *op = &w->p->of.model->ops[number];
  const op_time *t = &w->p->times->of[number];
  double seconds = seconds_of(w, backward ? t->backward : t->forward);
  double summary = seconds_of(w, backward ? t->summary_backward : t->summary);
  if (w->grid->time == 1)
    call_segments(w, seconds);
  else if (w->grid->exchange == EXCHANGE_CHAIN && summary > 0)
    chain(w, op, backward, seconds, summary);
  else
    pipeline(w, op, backward, seconds);
}

static void run_shard(const walk *w) {
  const train_model *m = w->p->of.model;
  for (int i = 0; i < m->op_count; i++) operation(w, i, false);
  for (int i = 0; i < m->step_count; i++)
    if (m->steps[i].kind == STEP_OF) operation(w, m->steps[i].op, true);
}

rec_status schedule_shards(const plan_program *p, const plan_grid *grid, leaf_range shards, plan_schedule *made) {
  const leaves *l = &p->leaves;
  *made = (plan_schedule){0};
  for (int i = shards.first; i < shards.end; i++) {
    walk w = {.p = p,
              .grid = grid,
              .s = made,
              .shard = i - shards.first,
              .rows = leaves_first_sequence(l, i + 1) - leaves_first_sequence(l, i),
              .segments = l->segments / grid->time,
              .steps = p->block->context / l->segments};
    run_shard(&w);
  }
  if (!made->failed) return REC_OK;
  schedule_free(made);
  return rec_no_memory();
}
