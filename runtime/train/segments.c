// Sums over the segments of the context, the last level of the tree of leaves.h. After the exchange
// among data ranks each rank has, for each segment of its own, the numbers of a slot for every rank
// that shares its sequences. All of them then send one another the slots of the owners:
//
//   time rank   has              gets, for slot 0                 sums
//   0           segments 0, 1    segments 2, 3 of time rank 1     (0 + 1) + (2 + 3) of slot 0
//   1           segments 2, 3                                     (0 + 1) + (2 + 3) of slot 1
#include "runtime/train/trainer_parts.h"

enum { WEIGHTS_OF_PLACES = 64 };  // a tag beyond those of the rounds among data ranks

struct segment_exchange {
  double *losses, *room;   // by segment of all; for their sum
  char **parts;            // by segment of all: its gradients of the weights that are stepped here
  char *other;             // where the model is trained: the same of other ranks' segments
  char *arrived, *copies;  // of a device, on the host: what has arrived, and what goes
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

// The sums of an own segment for all slots of the ranks that share the sequences, where they are
// sent from.
static rec_status bring_here(trainer *t, int segment, number_range all, char **here) {
  const compute *c = t->of.where;
  int64_t size = c->n->element_size;
  char *there = gradients_of_segment(t, segment) + all.place * size;
  *here = there;
  if (!t->in->by_segment->copies) return REC_OK;
  *here = t->in->by_segment->copies + segment * all.count * size;
  return c->ops->download(c, *here, there, all.count * size);
}

// Between two ranks a list has the numbers of all segments in their order.
static rec_status exchange(trainer *t) {
  trainer_internals *in = t->in;
  const compute *c = t->of.where;
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  const number_range all = pieces_numbers(t, owners_left(&grid));
  const int64_t size = c->n->element_size, bytes = own_slot(t).count * size;
  char *arrivals = in->by_segment->arrived ? in->by_segment->arrived : in->by_segment->other;
  listed_message *list = in->exchange.moves;
  rec_status status = REC_OK;
  int count = 0;
  for (int k = 0, other = 0; bytes && k < in->share.all.segments; k++)
    if (!is_own_segment(t, k))
      list[count++] = (listed_message){true,
                                       segment_rank(t, k / in->share.segments),
                                       MESSAGE_GRADIENTS,
                                       arrivals + other++ * bytes,
                                       bytes,
                                       k};
  for (int k = 0; k < in->share.segments; k++) {
    char *from;
    rec_status brought = bring_here(t, k, all, &from);
    if (!status) status = brought;
    for (int place = 0; place < grid.time_count; place++) {
      number_range slot = slot_of_place(t, place);
      if (place != grid.time && slot.count)
        list[count++] = (listed_message){.peer = segment_rank(t, place),
                                         .kind = MESSAGE_GRADIENTS,
                                         .bytes = from + (slot.place - all.place) * size,
                                         .size = slot.count * size,
                                         .tag = in->share.first_segment + k};
    }
  }
  exchange_list(t, list, count, "gradients of segments");
  if (status || !in->by_segment->arrived) return status;
  return c->ops->upload(c, in->by_segment->other, in->by_segment->arrived,
                        (in->share.all.segments - in->share.segments) * bytes);
}

// The sum lies in the part of the first segment; it belongs where this rank has its gradients.
static rec_status sum_segments(const trainer *t, int64_t first, int64_t count) {
  const compute *c = t->of.where;
  int64_t offset = first * c->n->element_size;
  char *sum = gradients_sum(t) + own_slot(t).place * c->n->element_size;
  rec_status status = gradients_sum_node(t, (tree_node){t->in->share.all.segments, 0, 0},
                                         t->in->by_segment->parts, (number_range){first, count});
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
  if (ranks_time_count(t->ranks) > 1) status = exchange(t);
  point_at_parts(t);
  spent_on_sums(t, (t->in->share.all.segments - 1) * count);
  if (status || !count) return status;
  if (!compute_is_host(t->of.where)) return sum_segments(t, 0, count);
  return train_pool_run(t->threads, (int)((count - 1) / SLICE + 1), sum_slice, t);
}

// ---- weights ------------------------------------------------------------------------------------

// Every rank of the same sequences has stepped a slot, and gets those of the others.
rec_status segments_gather_weights(trainer *t) {
  stepped_range *others = t->in->exchange.others;
  int count = 0;
  for (int place = 0; place < ranks_time_count(t->ranks); place++)
    if (place != ranks_time(t->ranks))
      others[count++] = (stepped_range){segment_rank(t, place), slot_of_place(t, place)};
  return count ? exchange_stepped(t, REC_OK, own_slot(t), others, count, WEIGHTS_OF_PLACES)
               : REC_OK;
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
