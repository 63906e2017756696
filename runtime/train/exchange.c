// What the ranks of a job exchange in a step: sums of a few numbers, the gradients, the new
// weights.
#include <string.h>

#include "runtime/train/trainer_parts.h"

enum { SLICE = 1 << 14 };          // numbers that one task adds
enum { WINDOW_OF_GPU = 1 << 22 };  // that are received at a time from another GPU

rec_status exchange_check(const trainer *t) {
  const leaves *all = &t->in->share.all;
  int data = ranks_data_count(t->ranks), times = ranks_time_count(t->ranks);
  if (all->segments % times)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "train %s: expected time ranks to divide its %d segments, found %d",
                    t->block->name, all->segments, times);
  if (data <= all->shards) return REC_OK;
  return rec_fail(
      REC_ERROR_ARGUMENT,
      "train %s: expected at most %d data ranks, for its batch of %lld sequences of %lld tokens is "
      "cut into %d shards; found %d; a larger batch, or accumulate, has more",
      t->block->name, all->shards, (long long)t->block->batch, (long long)t->block->context,
      all->shards, data);
}

static rec_status new_window_there(trainer *t, int64_t bytes) {
  t->memory.gradients += bytes;
  return t->of.where->ops->allocate(t->of.where, bytes, &t->in->exchange.window_there);
}

rec_status exchange_new(trainer *t, int64_t widest) {
  trainer_internals *in = t->in;
  int count = ranks_count(t->ranks);
  int64_t most = pieces_most_of_slot(t), bytes = t->of.n->element_size,
          block = t->of.model->parameter_elements;
  in->exchange.sum_room =
      trainer_list(t, tree_room(in->share.all.shards, widest), sizeof *in->exchange.sum_room);
  if (count == 1) return REC_OK;
  in->exchange.squares_sent = trainer_list(t, most, sizeof *in->exchange.squares_sent);
  in->exchange.gathered =
      trainer_list(t, count * (most > widest ? most : widest), sizeof *in->exchange.gathered);
  in->exchange.others = trainer_list(t, ranks_time_count(t->ranks), sizeof *in->exchange.others);
  in->exchange.moves = trainer_list(
      t, (in->share.segments + 1) * ranks_time_count(t->ranks) + in->share.all.segments,
      sizeof *in->exchange.moves);
  if (in->exchange.direct) return new_window_there(t, least_of(block, WINDOW_OF_GPU) * bytes);
  in->exchange.sends = trainer_list(t, block / EXCHANGE_WINDOW + 1, sizeof(message *));
  for (int i = 0; i < 2; i++)
    in->exchange.windows_of[i] = trainer_list(t, EXCHANGE_WINDOW, (size_t)bytes);
  t->memory.gradients += 2 * EXCHANGE_WINDOW * bytes;
  if (compute_is_host(t->of.where)) return REC_OK;
  in->exchange.sent_block = trainer_list(t, block, (size_t)bytes);
  return new_window_there(t, EXCHANGE_WINDOW * bytes);
}

void exchange_squares(trainer *t) {
  trainer_internals *in = t->in;
  const int64_t most = pieces_most_of_slot(t), size = (int64_t)sizeof *in->update.squares;
  if (ranks_count(t->ranks) == 1) return;
  memcpy(in->exchange.squares_sent, in->update.squares + in->update.own.first,
         (size_t)((in->update.own.end - in->update.own.first) * size));
  ranks_all_gather(t->ranks, in->exchange.squares_sent, in->exchange.gathered, most * size,
                   trainer_busy_with(t, "squares of gradients"));
  for (int rank = 0; rank < ranks_count(t->ranks); rank++) {
    piece_range owned = pieces_of_rank(t, rank);
    memcpy(in->update.squares + owned.first, in->exchange.gathered + rank * most,
           (size_t)((owned.end - owned.first) * size));
  }
}

// ---- gradients ----------------------------------------------------------------------------------

// Sends some numbers of the gradient, window by window, as they are received.
static rec_status send_windows(trainer *t, int to, int tag, char *from, number_range n,
                               int *count) {
  const compute *c = t->of.where;
  int64_t size = c->n->element_size;
  *count = 0;
  if (!compute_is_host(c)) {
    rec_status status = c->ops->download(c, t->in->exchange.sent_block + n.place * size,
                                         from + n.place * size, n.count * size);
    if (status) return status;
    from = t->in->exchange.sent_block;
  }
  for (int64_t done = 0; done < n.count; done += EXCHANGE_WINDOW) {
    int64_t part = n.count - done < EXCHANGE_WINDOW ? n.count - done : EXCHANGE_WINDOW;
    t->in->exchange.sends[(*count)++] = ranks_send(t->ranks, to, MESSAGE_GRADIENTS, tag,
                                                   from + (n.place + done) * size, part * size);
  }
  return REC_OK;
}

typedef struct window {
  trainer *t;
  char *to;
  const char *from;
  int64_t count;
} window;

static rec_status add_slice(void *context, int number, int worker) {
  const window *w = context;
  const compute *c = w->t->of.where;
  int64_t first = (int64_t)number * SLICE,
          count = w->count - first < SLICE ? w->count - first : SLICE;
  (void)worker;
  return c->ops->sum_into(c, w->to + first * c->n->element_size,
                          w->from + first * c->n->element_size, count);
}

static rec_status add_window(window *w) {
  const compute *c = w->t->of.where;
  if (compute_is_host(c))
    return train_pool_run(w->t->threads, (int)((w->count - 1) / SLICE + 1), add_slice, w);
  rec_status status =
      c->ops->upload(c, w->t->in->exchange.window_there, w->from, w->count * c->n->element_size);
  return status ? status : c->ops->sum_into(c, w->to, w->t->in->exchange.window_there, w->count);
}

static message *receive_window(trainer *t, int from, int tag, number_range n, int64_t first) {
  int64_t size = t->of.n->element_size,
          count = n.count - first < EXCHANGE_WINDOW ? n.count - first : EXCHANGE_WINDOW;
  if (count <= 0) return NULL;
  return ranks_receive(t->ranks, from, MESSAGE_GRADIENTS, tag,
                       t->in->exchange.windows_of[first / EXCHANGE_WINDOW % 2], count * size);
}

// Adds what the other rank has of some numbers. One window is on its way while the one before it is
// added.
static rec_status add_windows(trainer *t, int from, int tag, char *sum, number_range n) {
  rec_status status = REC_OK;
  message *next = receive_window(t, from, tag, n, 0);
  for (int64_t done = 0; done < n.count; done += EXCHANGE_WINDOW) {
    message *now = next;
    window w = {t, sum + (n.place + done) * t->of.n->element_size,
                t->in->exchange.windows_of[done / EXCHANGE_WINDOW % 2],
                n.count - done < EXCHANGE_WINDOW ? n.count - done : EXCHANGE_WINDOW};
    next = receive_window(t, from, tag, n, done + EXCHANGE_WINDOW);
    ranks_wait(t->ranks, now, trainer_busy_with(t, "gradients"));
    if (!status) status = add_window(&w);
    spent_on_sums(t, w.count);
  }
  return status;
}

// What a window that begins there has of some numbers.
static number_range window_range(number_range n, int64_t first) {
  int64_t left = n.count - first;
  return (number_range){n.place + first, left < 0 ? 0 : least_of(left, WINDOW_OF_GPU)};
}

// From GPU to GPU: a window each way, which is added before the next one comes.
static rec_status exchange_there(trainer *t, int partner, char *sum, number_range gives,
                                 number_range keeps) {
  const compute *c = t->of.where;
  const int64_t size = c->n->element_size,
                most = gives.count > keeps.count ? gives.count : keeps.count;
  rec_status status = REC_OK;
  for (int64_t first = 0; first < most; first += WINDOW_OF_GPU) {
    number_range given = window_range(gives, first), kept = window_range(keeps, first);
    listed_message list[2];
    int count = 0;
    if (given.count)
      list[count++] = (listed_message){
          false, partner, MESSAGE_GRADIENTS, sum + given.place * size, given.count * size, 0};
    if (kept.count)
      list[count++] = (listed_message){
          true, partner, MESSAGE_GRADIENTS, t->in->exchange.window_there, kept.count * size, 0};
    ranks_move(t->ranks, list, count, trainer_busy_with(t, "gradients"));
    if (!status)
      status =
          c->ops->sum_into(c, sum + kept.place * size, t->in->exchange.window_there, kept.count);
  }
  return status;
}

// A rank that fails goes on to exchange: the others wait for it until all of them agree on how the
// step has ended.
static rec_status exchange_round(trainer *t, const owner_round *round, int tag, char *sum) {
  int partner = ranks_at(t->ranks, round->partner, ranks_time(t->ranks)), count;
  number_range gives = pieces_numbers(t, round->gives), keeps = pieces_numbers(t, round->keeps);
  if (t->in->exchange.direct) return exchange_there(t, partner, sum, gives, keeps);
  rec_status sent = send_windows(t, partner, tag, sum, gives, &count);
  rec_status added = add_windows(t, partner, tag, sum, keeps);
  ranks_wait_all(t->ranks, t->in->exchange.sends, count, trainer_busy_with(t, "gradients"));
  return sent ? sent : added;
}

rec_status exchange_gradients(trainer *t) {
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  rec_status status = REC_OK;
  for (int i = 0; i < owners_round_count(grid.data_count); i++) {
    owner_round round = owners_round(&grid, i);
    for (int k = 0; k < t->in->share.segments; k++) {
      rec_status exchanged = exchange_round(t, &round, k, gradients_of_segment(t, k));
      if (!status) status = exchanged;
    }
  }
  return status;
}

// ---- weights ------------------------------------------------------------------------------------

void exchange_list(trainer *t, const listed_message *list, int count, const char *what) {
  (t->in->exchange.direct ? ranks_move : ranks_move_here)(t->ranks, list, count,
                                                          trainer_busy_with(t, what));
}

// A rank that has none of some weights sends none.
rec_status exchange_stepped(trainer *t, rec_status status, number_range own,
                            const stepped_range *others, int count, int tag) {
  const compute *c = t->of.where;
  const int64_t size = c->n->element_size;
  const bool direct = t->in->exchange.direct, copied = !direct && !compute_is_host(c);
  char *here = t->weights, *there = t->in->update.weights, *moved = direct ? there : here;
  listed_message *list = t->in->exchange.moves;
  int listed = 0;
  if (copied && !status)
    status =
        c->ops->download(c, here + own.place * size, there + own.place * size, own.count * size);
  for (int i = 0; i < count; i++) {
    number_range other = others[i].numbers;
    if (other.count)
      list[listed++] = (listed_message){
          true, others[i].rank, MESSAGE_WEIGHTS, moved + other.place * size, other.count * size,
          tag};
    if (own.count)
      list[listed++] = (listed_message){
          false, others[i].rank, MESSAGE_WEIGHTS, moved + own.place * size, own.count * size, tag};
  }
  exchange_list(t, list, listed, "weights");
  for (int i = 0; copied && !status && i < count; i++) {
    number_range other = others[i].numbers;
    status = c->ops->upload(c, there + other.place * size, here + other.place * size,
                            other.count * size);
  }
  return status;
}

rec_status exchange_weights(trainer *t, rec_status status) {
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  for (int i = owners_round_count(grid.data_count) - 1; i >= 0; i--) {
    owner_round round = owners_round(&grid, i);
    const stepped_range other = {ranks_at(t->ranks, round.partner, grid.time),
                                 pieces_numbers(t, round.gives)};
    status = exchange_stepped(t, status, pieces_numbers(t, round.keeps), &other, 1, i);
  }
  return status;
}
