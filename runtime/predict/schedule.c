#include "runtime/predict/schedule.h"

#include <stdlib.h>

#include "runtime/train/model/chain.h"

// ---- lists --------------------------------------------------------------------------------------

static void add_event(rank_schedule *s, rank_event e) {
  if (rec_list_grow(&s->events, &s->room, (size_t)s->count, 1, sizeof *s->events))
    s->events[s->count++] = e;
  else
    s->failed = true;
}

// Computing without a message between is one event, which no pass is cut within. `beside`: of the
// ranks that have one there.
static void add_computing(rank_schedule *s, int64_t cut, int beside, double seconds) {
  rank_event *last = s->count > cut ? &s->events[s->count - 1] : NULL;
  if (last && last->kind == EVENT_COMPUTE && last->beside == beside)
    last->seconds += seconds;
  else
    add_event(s, (rank_event){.kind = EVENT_COMPUTE, .beside = beside, .seconds = seconds});
}

void schedule_free(rank_schedule *s) {
  free(s->events);
  free(s->begins);
  *s = (rank_schedule){0};
}

bool schedule_has(const rank_event *e, int64_t place, int64_t places) {
  return place + e->beside >= 0 && place + e->beside < places;
}

turns schedule_turns(const rank_schedule *s, int64_t place, int64_t places) {
  return turns_of(s->program->of.model, &(turn_line){places, s->shards, s->under_way}, place);
}

rank_events schedule_events(const rank_schedule *s, turn of) {
  int operations = s->program->of.model->op_count;
  const int64_t *begins = s->begins + of.shard * (operations + 1);
  if (of.backward) return (rank_events){begins[operations], begins[operations + 1]};
  return (rank_events){begins[of.operations.first], begins[of.operations.end]};
}

double schedule_seconds(const rank_schedule *s, int64_t place, int64_t places) {
  double seconds = 0;
  for (int64_t i = 0; i < s->count; i++)
    if (schedule_has(&s->events[i], place, places)) seconds += s->events[i].seconds;
  return seconds;
}

// ---- shards -------------------------------------------------------------------------------------

leaf_range rank_grid_shards(const predicted_program *p, const rank_grid *grid, int64_t data) {
  return tree_range((tree_node){p->leaves.shards, owners_round_count(grid->data), (int)data});
}

// ---- operations ---------------------------------------------------------------------------------

// One shard on its way through the operations.
typedef struct walk {
  const predicted_program *p;
  const rank_grid *grid;
  rank_schedule *s;
  int64_t rows, segments, steps;  // of the shard; of the rank; of a segment
  int64_t shard;                  // of the rank's, from 0
  int64_t cut;                    // a pass may be cut before this event
} walk;

// A part of an operation on a segment.
static double seconds_of(const walk *w, int op, run_part part) {
  return op_times_of(w->p->times, op, part, (double)(w->rows * w->steps));
}

static void call_segments(const walk *w, double seconds) {
  add_computing(w->s, w->cut, 0, seconds * (double)w->segments);
}

// Computing for all segments but the last one of a pass, which has no summary.
static void summarise_segments(const walk *w, int behind, double seconds) {
  add_computing(w->s, w->cut, 0, seconds * (double)(w->segments - 1));
  add_computing(w->s, w->cut, behind, seconds);
}

static int64_t message_state_bytes(const walk *w, int state) {
  return w->p->of.model->states[state].elements * w->rows * w->p->of.n->element_size;
}

static message_kind kind_of_message(const walk *w, int state, bool backward) {
  if (backward) return MESSAGE_COTANGENTS;
  return w->p->of.model->states[state].lag ? MESSAGE_HALO : MESSAGE_STATES;
}

// A part of a state.
typedef struct block_range {
  int number;
  int64_t first, end, of;  // instances
} block_range;

static const block_range whole_state = {0, 0, 1, 1};

// On its way to or from a rank beside this one. No other message between two ranks has its tag.
static void add_rank_message(const walk *w, rank_event_kind kind, int beside, int state,
                             bool backward, block_range block) {
  int64_t number = (w->shard * w->p->of.model->state_count + state) * 2 + backward;
  add_event(w->s, (rank_event){.kind = kind,
                               .message = kind_of_message(w, state, backward),
                               .beside = beside,
                               .tag = number * CHAIN_BLOCKS + block.number,
                               .bytes = message_state_bytes(w, state) / block.of *
                                        (block.end - block.first)});
}

static void add_messages(const walk *w, rank_event_kind kind, int beside, const model_op *op,
                         bool backward, block_range block) {
  for (int i = 0; i < op->state_count; i++)
    add_rank_message(w, kind, beside, op->states[i], backward, block);
}

// The states come from the rank before, and go to the rank behind; their gradients the other way.
static void pipeline(const walk *w, int number, bool backward) {
  const model_op *op = &w->p->of.model->ops[number];
  int from = backward ? 1 : -1;
  add_messages(w, EVENT_WAIT, from, op, backward, whole_state);
  call_segments(w, seconds_of(w, number, backward ? RAN_BACKWARD : RAN_FORWARD));
  add_messages(w, EVENT_SEND, -from, op, backward, whole_state);
}

// Summaries, then block after block the states that come are folded with them and go on; then the
// calls.
static void chain(const walk *w, int number, bool backward) {
  const model_op *op = &w->p->of.model->ops[number];
  int from = backward ? 1 : -1;
  int64_t all = w->p->instances[number] * w->rows;
  int64_t bytes = chain_state_elements(w->p->of.model, op) * w->rows * w->p->of.n->element_size;
  double fold =
      op_times_of(w->p->times, number, backward ? RAN_FOLD_BACKWARD : RAN_FOLD, (double)w->rows);
  int blocks = chain_blocks(all, bytes);
  summarise_segments(w, -from,
                     seconds_of(w, number, backward ? RAN_SUMMARY_BACKWARD : RAN_SUMMARY));
  for (int b = 0; b < blocks; b++) {
    const block_range block = {b, chain_instance(all, blocks, b),
                               chain_instance(all, blocks, b + 1), all};
    add_messages(w, EVENT_WAIT, from, op, backward, block);
    summarise_segments(w, -from, fold * (double)(block.end - block.first) / (double)all);
    add_messages(w, EVENT_SEND, -from, op, backward, block);
  }
  call_segments(w, seconds_of(w, number, backward ? RAN_BACKWARD : RAN_FORWARD));
}

bool schedule_chains(const predicted_program *p, int op) {
  return p->instances && p->instances[op] && p->times->of[op].of[RAN_SUMMARY] > 0 &&
         p->leaves.segments > 1;
}

static void schedule_operation(const walk *w, int number, bool backward) {
  if (w->grid->exchange == EXCHANGE_CHAIN && schedule_chains(w->p, number))
    chain(w, number, backward);
  else
    pipeline(w, number, backward);
}

static void schedule_shard(walk *w) {
  const train_model *m = w->p->of.model;
  int64_t *begins = w->s->begins + w->shard * (m->op_count + 1);
  for (int i = 0; i < m->op_count; i++) {
    if (i == 0 || m->ops[i].state_count) w->cut = w->s->count;
    begins[i] = w->s->count;
    schedule_operation(w, i, false);
  }
  begins[m->op_count] = w->cut = w->s->count;
  for (int i = 0; i < m->step_count; i++)
    if (m->steps[i].kind == STEP_OF) schedule_operation(w, m->steps[i].op, true);
}

rec_status schedule_shards(const predicted_program *p, const rank_grid *grid, leaf_range shards,
                           rank_schedule *made) {
  const leaves *l = &p->leaves;
  *made = (rank_schedule){
      .program = p, .shards = shards.end - shards.first, .under_way = grid->under_way};
  made->begins =
      calloc((size_t)(made->shards * (p->of.model->op_count + 1)) + 1, sizeof *made->begins);
  if (!made->begins) return rec_no_memory();
  for (int i = shards.first; i < shards.end; i++) {
    walk w = {.p = p,
              .grid = grid,
              .s = made,
              .shard = i - shards.first,
              .rows = leaves_first_sequence(l, i + 1) - leaves_first_sequence(l, i),
              .segments = l->segments / grid->time,
              .steps = p->block->context / l->segments};
    schedule_shard(&w);
  }
  made->begins[made->shards * (p->of.model->op_count + 1)] = made->count;
  if (!made->failed) return REC_OK;
  schedule_free(made);
  return rec_no_memory();
}
