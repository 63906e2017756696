#include "runtime/predict/traffic.h"

#include <string.h>

#include "runtime/train/after_step.h"
#include "runtime/train/starts.h"

typedef struct counting {
  const predicted_program *p;
  const rank_grid *grid;
  int count;  // of the ranks
  message_count *sent;
} counting;

static void count_messages(const counting *c, message_kind kind, int64_t messages, int64_t bytes) {
  c->sent[kind].messages += messages;
  c->sent[kind].bytes += bytes;
}

// ---- small exchanges ----------------------------------------------------------------------------

step_gathers step_gathers_of(const predicted_program *p, const rank_grid *grid) {
  const train_model *m = p->of.model;
  const int64_t number = sizeof(double), segments = p->leaves.segments / grid->time,
                fits = fits_number_count(m, p->block);
  return (step_gathers){
      .fits = number * fits,
      .fittings = fits ? 2 : 0,
      .starts = number * (1 + starts_number_count(m, p->block)),
      .shards = sizeof(rec_status),
      .squares = number * piece_list_most(&p->pieces, (int)(grid->data * grid->time)),
      .ends = number * (segments + ends_number_count(m, p->block)),
      .going_on = sizeof(after_step),
      .agreements = compute_is_host(p->of.where) ? 0 : 3};
}

static void count_gather(const counting *c, int64_t bytes) {
  gather_round round;
  for (int i = 0; ranks_gather_round(c->count, i, &round); i++)
    count_messages(c, MESSAGE_NUMBERS, c->count, c->count * round.blocks * bytes);
}

static void count_gathers(const counting *c) {
  const step_gathers g = step_gathers_of(c->p, c->grid);
  const int64_t sizes[] = {g.starts, g.shards, g.squares, g.ends, g.going_on};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) count_gather(c, sizes[i]);
  for (int i = 0; i < g.fittings; i++) count_gather(c, g.fits);
  for (int i = 0; i < g.agreements; i++) count_gather(c, g.shards);
}

// ---- states -------------------------------------------------------------------------------------

// The states that the sequences of a row end with go from its last rank to the first.
static void count_carried(const counting *c, leaf_range shards) {
  const train_model *m = c->p->of.model;
  const leaves *l = &c->p->leaves;
  int64_t sequences = leaves_first_sequence(l, shards.end) - leaves_first_sequence(l, shards.first);
  if (!starts_are_kept(c->p->block)) return;
  for (int i = 0; i < m->state_count; i++)
    count_messages(c, MESSAGE_CARRIED, shards.end - shards.first,
                   m->states[i].elements * sequences * c->p->of.n->element_size);
}

// Each message of a schedule is sent by all ranks of a row but one.
static rec_status count_data_row(const counting *c, int64_t data) {
  rank_schedule s;
  leaf_range shards = rank_grid_shards(c->p, c->grid, data);
  rec_status status = schedule_shards(c->p, c->grid, shards, &s);
  for (int64_t i = 0; !status && i < s.count; i++)
    if (s.events[i].kind == EVENT_SEND)
      count_messages(c, s.events[i].message, c->grid->time - 1,
                     (c->grid->time - 1) * s.events[i].bytes);
  schedule_free(&s);
  count_carried(c, shards);
  return status;
}

static rec_status count_rows(const counting *c) {
  rec_status status = REC_OK;
  for (int64_t d = 0; !status && c->grid->time > 1 && d < c->grid->data; d++)
    status = count_data_row(c, d);
  return status;
}

// ---- gradients and weights ----------------------------------------------------------------------

static int64_t slot_numbers(const counting *c, slot_range slots) {
  return piece_list_numbers(&c->p->pieces, slots, c->count).count;
}

// The rounds of a rank: windows of each of its segments, then weights.
static void count_rounds(const counting *c, const owner_grid *place) {
  const int64_t segments = c->p->leaves.segments / c->grid->time, size = c->p->of.n->element_size;
  for (int i = 0; i < owners_round_count(place->data_count); i++) {
    owner_round round = owners_round(place, i);
    int64_t gives = slot_numbers(c, round.gives), keeps = slot_numbers(c, round.keeps);
    int64_t windows = (gives + EXCHANGE_WINDOW - 1) / EXCHANGE_WINDOW;
    count_messages(c, MESSAGE_GRADIENTS, segments * windows, segments * gives * size);
    count_messages(c, MESSAGE_WEIGHTS, keeps > 0, keeps * size);
  }
}

// What a rank sends to those of its row: their slots of its segments, and its slot of the weights.
static void count_slots(const counting *c, const owner_grid *place) {
  const int64_t segments = c->p->leaves.segments / c->grid->time, size = c->p->of.n->element_size;
  int first = owners_left(place).first;
  for (int other = 0; other < place->time_count; other++) {
    int64_t slot = slot_numbers(c, (slot_range){first + other, first + other + 1}),
            others = place->time_count - 1;
    if (other == place->time)
      count_messages(c, MESSAGE_WEIGHTS, slot > 0 ? others : 0, others * slot * size);
    else
      count_messages(c, MESSAGE_GRADIENTS, slot > 0 ? segments : 0, segments * slot * size);
  }
}

static void count_weights(const counting *c) {
  const int times = (int)c->grid->time;
  for (int rank = 0; rank < c->count; rank++) {
    const owner_grid place = {(int)c->grid->data, rank / times, times, rank % times};
    count_rounds(c, &place);
    count_slots(c, &place);
  }
}

rec_status predict_messages(const predicted_program *p, const rank_grid *grid,
                            message_count sent[MESSAGE_KINDS]) {
  const counting c = {p, grid, (int)(grid->data * grid->time), sent};
  memset(sent, 0, MESSAGE_KINDS * sizeof *sent);
  count_gathers(&c);
  count_weights(&c);
  return count_rows(&c);
}
