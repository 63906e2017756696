// Sums over the segments of the context, the last level of the tree of leaves.h. After the exchange
// among data ranks each rank has, for each segment of its own, the numbers of a slot for every rank
// that shares its sequences. All of them then send one another the slots of the owners:
//
//   time rank   has              gets, for slot 0                 sums
//   0           segments 0, 1    segments 2, 3 of time rank 1     (0 + 1) + (2 + 3) of slot 0
//   1           segments 2, 3                                     (0 + 1) + (2 + 3) of slot 1
#include <string.h>

#include "runtime/train/trainer_parts.h"

enum { WEIGHTS_OF_PLACES = 64 };  // a tag beyond those of the rounds among data ranks

struct segment_exchange {
  double *losses, *room;   // by segment of all; for their sum
  char **parts;            // by segment of all: its gradients of the weights that are stepped here
  char *other;             // where the model is trained: the same of other ranks' segments
  char *arrived, *copies;  // of a device, on the host: what has arrived, and what goes
  message **messages;
  device_message *moves;  // the same from GPU to GPU
};

static number_range slot_of_place(const trainer *t, int place) {
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  int first = owners_left(&grid).first + place;
  return pieces_numbers(t, (slot_range){first, first + 1});
}

static number_range own_slot(const trainer *t) { return slot_of_place(t, ranks_time(t->ranks)); }

static int segment_rank(const trainer *t, int place) {
  return ranks_at(t->ranks, ranks_data(t->ranks), place);
}

static bool is_own_segment(const trainer *t, int segment) {
  return segment >= t->in->share.first_segment &&
         segment < t->in->share.first_segment + t->in->share.segments;
}

rec_status segments_new(trainer *t, int64_t widest) {
  trainer_internals *in = t->in;
  const compute *c = t->of.where;
  int count = in->share.all.segments, others = count - in->share.segments;
  int64_t slot = own_slot(t).count * c->n->element_size;
  in->by_segment = trainer_list(t, 1, sizeof *in->by_segment);
  if (!in->by_segment) return rec_no_memory();
  in->by_segment->losses = trainer_list(t, count, sizeof *in->by_segment->losses);
  in->by_segment->room = trainer_list(t, tree_room(count, 1), sizeof *in->by_segment->room);
  in->exchange.place_sums = trainer_list(t, widest, sizeof *in->exchange.place_sums);
  in->by_segment->parts = trainer_list(t, count, sizeof *in->by_segment->parts);
  in->by_segment->messages =
      trainer_list(t, count * (1 + ranks_time_count(t->ranks)) + 2 * ranks_time_count(t->ranks),
                   sizeof(message *));
  in->by_segment->moves =
      trainer_list(t, (in->share.segments + 1) * ranks_time_count(t->ranks) + others,
                   sizeof *in->by_segment->moves);
  if (in->memory.failed) return rec_no_memory();
  rec_status status =
      others ? c->ops->allocate(c, slot * others, (void **)&in->by_segment->other) : REC_OK;
  if (others && !compute_is_host(c) && !in->exchange.direct) {
    owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
    in->by_segment->arrived = trainer_list(t, slot * others, 1);
    in->by_segment->copies =
        trainer_list(t, in->share.segments * pieces_numbers(t, owners_left(&grid)).count,
                     (size_t)c->n->element_size);
  }
  t->memory.gradients += slot * others;
  return in->memory.failed ? rec_no_memory() : status;
}

void segments_free(trainer *t) {
  if (t->in->by_segment) t->of.where->ops->release(t->of.where, t->in->by_segment->other);
}

// ---- gradients ----------------------------------------------------------------------------------

// Where the numbers of this rank's slot lie, by segment. Those of other ranks come behind one
// another.
static void point_at_parts(trainer *t) {
  trainer_internals *in = t->in;
  const int64_t size = t->of.n->element_size;
  number_range slot = own_slot(t);
  for (int k = 0, other = 0; k < in->share.all.segments; k++)
    in->by_segment->parts[k] =
        is_own_segment(t, k)
            ? gradients_of_segment(t, k - in->share.first_segment) + slot.place * size
            : in->by_segment->other + other++ * slot.count * size;
}

// The sums of an own segment for all slots of the ranks that share the sequences, in the host's
// memory.
static rec_status bring_here(trainer *t, int segment, number_range all, char **here) {
  const compute *c = t->of.where;
  int64_t size = c->n->element_size;
  char *there = gradients_of_segment(t, segment) + all.place * size;
  *here = there;
  if (compute_is_host(c)) return REC_OK;
  *here = t->in->by_segment->copies + segment * all.count * size;
  return c->ops->download(c, *here, there, all.count * size);
}

static rec_status send_segment(trainer *t, int segment, message **sent) {
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  number_range all = pieces_numbers(t, owners_left(&grid));
  const int64_t size = t->of.n->element_size;
  char *here;
  rec_status status = bring_here(t, segment, all, &here);
  for (int place = 0; place < grid.time_count; place++) {
    number_range slot = slot_of_place(t, place);
    if (place != grid.time && slot.count)
      sent[place] = ranks_send(t->ranks, segment_rank(t, place), MESSAGE_GRADIENTS,
                               t->in->share.first_segment + segment,
                               here + (slot.place - all.place) * size, slot.count * size);
  }
  return status;
}

// From GPU to GPU. A list has the numbers of all segments, between two ranks in the order of the
// segments.
static void move_segments(trainer *t) {
  trainer_internals *in = t->in;
  const int64_t size = t->of.n->element_size, bytes = own_slot(t).count * size;
  device_message *list = in->by_segment->moves;
  int count = 0;
  for (int k = 0, other = 0; bytes && k < in->share.all.segments; k++)
    if (!is_own_segment(t, k))
      list[count++] =
          (device_message){true, segment_rank(t, k / in->share.segments), MESSAGE_GRADIENTS,
                           in->by_segment->other + other++ * bytes, bytes};
  for (int k = 0; k < in->share.segments; k++)
    for (int place = 0; place < ranks_time_count(t->ranks); place++) {
      number_range slot = slot_of_place(t, place);
      if (place != ranks_time(t->ranks) && slot.count)
        list[count++] =
            (device_message){false, segment_rank(t, place), MESSAGE_GRADIENTS,
                             gradients_of_segment(t, k) + slot.place * size, slot.count * size};
    }
  ranks_move(t->ranks, list, count, trainer_busy_with(t, "gradients of segments"));
}

// Where the numbers of segments of other ranks arrive in the host's memory.
static char *arrivals(const trainer *t) {
  return compute_is_host(t->of.where) ? t->in->by_segment->other : t->in->by_segment->arrived;
}

static rec_status exchange(trainer *t) {
  trainer_internals *in = t->in;
  const compute *c = t->of.where;
  int places = ranks_time_count(t->ranks), count = in->share.all.segments;
  int64_t bytes = own_slot(t).count * c->n->element_size;
  message **received = in->by_segment->messages, **sent = received + count;
  rec_status status = REC_OK;
  memset(received, 0, (size_t)(count + in->share.segments * places) * sizeof *received);
  for (int k = 0, other = 0; bytes && k < count; k++)
    if (!is_own_segment(t, k))
      received[k] = ranks_receive(t->ranks, segment_rank(t, k / in->share.segments),
                                  MESSAGE_GRADIENTS, k, arrivals(t) + other++ * bytes, bytes);
  for (int k = 0; k < in->share.segments; k++) {
    rec_status brought = send_segment(t, k, sent + k * places);
    if (!status) status = brought;
  }
  ranks_wait_all(t->ranks, received, count + in->share.segments * places,
                 trainer_busy_with(t, "gradients of segments"));
  if (status || compute_is_host(c)) return status;
  return c->ops->upload(c, in->by_segment->other, in->by_segment->arrived,
                        (count - in->share.segments) * bytes);
}

static rec_status sum_node(const trainer *t, tree_node node, int64_t first, int64_t count) {
  const compute *c = t->of.where;
  leaf_range all = tree_range(node);
  if (all.end - all.first == 1) return REC_OK;
  tree_node right = tree_right(node);
  rec_status status = sum_node(t, tree_left(node), first, count);
  if (!status) status = sum_node(t, right, first, count);
  char **parts = t->in->by_segment->parts;
  int64_t offset = first * c->n->element_size;
  return status ? status
                : c->ops->sum_into(c, parts[all.first] + offset,
                                   parts[tree_range(right).first] + offset, count);
}

// The sum lies in the part of the first segment; it belongs where this rank has its gradients.
static rec_status sum_segments(const trainer *t, int64_t first, int64_t count) {
  const compute *c = t->of.where;
  int64_t offset = first * c->n->element_size;
  char *sum = gradients_sum(t) + own_slot(t).place * c->n->element_size;
  rec_status status = sum_node(t, (tree_node){t->in->share.all.segments, 0, 0}, first, count);
  if (status || sum == t->in->by_segment->parts[0]) return status;
  return c->ops->copy(c, sum + offset, t->in->by_segment->parts[0] + offset,
                      count * c->n->element_size);
}

enum { SLICE = 1 << 14 };  // numbers that one task adds

static rec_status sum_slice(void *context, int number, int worker) {
  const trainer *t = context;
  int64_t all = own_slot(t).count, first = (int64_t)number * SLICE;
  (void)worker;
  return sum_segments(t, first, all - first < SLICE ? all - first : SLICE);
}

rec_status segments_sum_gradients(trainer *t) {
  int64_t count = own_slot(t).count;
  if (t->in->share.all.segments == 1) return REC_OK;
  rec_status status = REC_OK;
  if (t->in->exchange.direct)
    move_segments(t);
  else if (ranks_time_count(t->ranks) > 1)
    status = exchange(t);
  point_at_parts(t);
  spent_on_sums(t, (t->in->share.all.segments - 1) * count);
  if (status || !count) return status;
  if (!compute_is_host(t->of.where)) return sum_segments(t, 0, count);
  return train_pool_run(t->threads, (int)((count - 1) / SLICE + 1), sum_slice, t);
}

// ---- weights ------------------------------------------------------------------------------------

static void move_weights(trainer *t) {
  const int64_t size = t->of.n->element_size;
  const number_range slot = own_slot(t);
  device_message *list = t->in->by_segment->moves;
  int count = 0;
  for (int place = 0; place < ranks_time_count(t->ranks); place++) {
    number_range other = slot_of_place(t, place);
    if (place == ranks_time(t->ranks)) continue;
    if (other.count)
      list[count++] =
          (device_message){true, segment_rank(t, place), MESSAGE_WEIGHTS,
                           t->in->update.weights + other.place * size, other.count * size};
    if (slot.count)
      list[count++] =
          (device_message){false, segment_rank(t, place), MESSAGE_WEIGHTS,
                           t->in->update.weights + slot.place * size, slot.count * size};
  }
  ranks_move(t->ranks, list, count, trainer_busy_with(t, "weights"));
}

// Every rank of the same sequences has stepped a slot, and gets those of the others.
rec_status segments_gather_weights(trainer *t) {
  const compute *c = t->of.where;
  const int64_t size = c->n->element_size;
  int places = ranks_time_count(t->ranks), own = ranks_time(t->ranks), count = 0;
  char *here = t->weights, *there = t->in->update.weights;
  message **list = t->in->by_segment->messages;
  number_range slot = own_slot(t);
  if (places == 1) return REC_OK;
  if (t->in->exchange.direct) {
    move_weights(t);
    return REC_OK;
  }
  rec_status status = compute_is_host(c)
                          ? REC_OK
                          : c->ops->download(c, here + slot.place * size, there + slot.place * size,
                                             slot.count * size);
  for (int place = 0; place < places; place++) {
    number_range other = slot_of_place(t, place);
    if (place == own) continue;
    if (other.count)
      list[count++] =
          ranks_receive(t->ranks, segment_rank(t, place), MESSAGE_WEIGHTS, WEIGHTS_OF_PLACES,
                        here + other.place * size, other.count * size);
    if (slot.count)
      list[count++] = ranks_send(t->ranks, segment_rank(t, place), MESSAGE_WEIGHTS,
                                 WEIGHTS_OF_PLACES, here + slot.place * size, slot.count * size);
  }
  ranks_wait_all(t->ranks, list, count, trainer_busy_with(t, "weights"));
  for (int place = 0; !status && !compute_is_host(c) && place < places; place++) {
    number_range other = slot_of_place(t, place);
    if (place != own)
      status = c->ops->upload(c, there + other.place * size, here + other.place * size,
                              other.count * size);
  }
  return status;
}

// ---- losses -------------------------------------------------------------------------------------

static void segment_loss(void *context, int segment, double *to) {
  *to = ((const trainer *)context)->in->by_segment->losses[segment];
}

double segments_sum_losses(trainer *t, int64_t width) {
  trainer_internals *in = t->in;
  double loss;
  exchange_sums_by_place(t, in->record.sums, width, in->share.segments, in->by_segment->losses);
  tree_sum((tree_node){in->share.all.segments, 0, 0}, 1, segment_loss, t, &loss,
           in->by_segment->room);
  return loss;
}
