#include "runtime/train/model/seams.h"

#include <stdlib.h>

#include "runtime/train/model/chain.h"

// ---- memory -------------------------------------------------------------------------------------

// In copies of messages.
typedef enum seam_block {
  STATES_IN,
  STATES_OUT,
  GRADIENTS_IN,
  GRADIENTS_OUT,
  SEAM_BLOCKS
} seam_block;

static int64_t seam_block_bytes(const train_model *m, const compute *c, int64_t batch) {
  return m->state_elements * batch * c->n->element_size;
}

// The seams of a place that lie between two segments, one of them maybe of another place.
static int seam_count(const seam_place *p) {
  return p->segments - 1 + (p->place > 0) + (p->place + 1 < p->places);
}

// Blocks of gradients between two segments of a place. What comes from the next place and what goes
// to the one before lie behind.
static int inner_gradients(int segments, bool apart) { return apart ? segments - 1 : 2; }

static int gradient_count(const seam_place *p, bool backward, bool apart) {
  if (!backward || seam_count(p) == 0) return 0;
  return inner_gradients(p->segments, apart) + (p->places > 1 ? 2 : 0);
}

int64_t seams_bytes(const train_model *m, const compute *c, const executor_form *form,
                    const seam_place *p) {
  if (p->segments == 0) return 0;
  return seam_block_bytes(m, c, form->batch) *
         (seam_count(p) + gradient_count(p, form->backward, form->chain));
}

// The last step of the backward pass that is of an operation with states.
static int last_step_of(const train_model *m) {
  int i = m->step_count - 1;
  while (i >= 0 && (m->steps[i].kind != STEP_OF || !m->ops[m->steps[i].op].state_count)) i--;
  return i;
}

static rec_status open_joined(seams *s) {
  size_t most = (size_t)JOINED_SHARDS * s->model->state_count + 1;
  s->joined_in = calloc(2 * most, sizeof *s->joined_in);
  s->joined_out = s->joined_in + most;
  return s->joined_in ? REC_OK : rec_no_memory();
}

static rec_status open_messages(seams *s) {
  size_t states = ((size_t)s->model->state_count + 1) * CHAIN_BLOCKS;
  message **lists = s->lists = calloc(5 * states, sizeof *lists);
  if (!lists) return rec_no_memory();
  s->of = (seam_messages){lists, lists + states, lists + 2 * states, lists + 3 * states,
                          lists + 4 * states};
  if (s->direct) return open_joined(s);
  if (compute_is_host(s->c)) return REC_OK;
  s->copies = malloc((size_t)s->block * SEAM_BLOCKS + 1);
  return s->copies ? REC_OK : rec_no_memory();
}

rec_status seams_open(const compute *c, const train_model *m, const executor_form *form,
                      int segments, const seam_cut *cuts, seams *s) {
  *s = (seams){.c = c,
               .model = m,
               .line = form->line,
               .direct = !compute_is_host(c) && ranks_have_gpus(form->line),
               .place = ranks_time(form->line),
               .places = ranks_time_count(form->line),
               .most = segments_of_place(
                   form->line, (int)((form->time + form->segment - 1) / form->segment), 0),
               .block = seam_block_bytes(m, c, form->batch),
               .cuts = cuts,
               .apart = form->chain,
               .last_step = last_step_of(m),
               .inner = inner_gradients(segments, form->chain)};
  const seam_place place = {s->place, s->places, segments};
  if (segments == 0) return REC_OK;
  rec_status status = c->ops->allocate(c, s->block * seam_count(&place), (void **)&s->states);
  if (!status)
    status = c->ops->allocate(c, s->block * gradient_count(&place, form->backward, form->chain),
                              (void **)&s->gradients);
  return status || s->places == 1 ? status : open_messages(s);
}

void seams_close(seams *s) {
  if (!s->c) return;
  s->c->ops->release(s->c, s->states);
  s->c->ops->release(s->c, s->gradients);
  free(s->copies);
  free(s->joined_in);
  free(s->lists);
}

// Where a state lies in a block, and its bytes.
static int64_t state_offset(const seams *s, int state) {
  return s->model->states[state].place * s->there->batch * s->c->n->element_size;
}

static int64_t bytes_of_seam(const seams *s, int state) {
  return s->model->states[state].elements * s->there->batch * s->c->n->element_size;
}

void *seams_state(const seams *s, int seam, int state) {
  if (seam == 0 && seams_first(s)) return s->there->before[state];
  if (seam == s->count && seams_last(s)) return s->there->after[state];
  return s->states + (seam - (s->place == 0)) * s->block + state_offset(s, state);
}

void *seams_gradient(const seams *s, int seam, int state) {
  const shard *run = s->there;
  int block = s->apart ? seam - 1 : seam % 2;
  if (seam == 0 && seams_first(s))
    return run->d_before && run->before[state] ? run->d_before[state] : NULL;
  if (seam == s->count && seams_last(s)) return NULL;
  if (seam == s->count) block = s->inner;
  if (seam == 0) block = s->inner + 1;
  return s->gradients + block * s->block + state_offset(s, state);
}

bool seams_first(const seams *s) { return s->place == 0; }
bool seams_last(const seams *s) { return s->place == s->last; }
static bool seams_begins(const seams *s, bool backward) {
  return backward ? seams_last(s) : seams_first(s);
}
bool seams_ends(const seams *s, bool backward) { return seams_begins(s, !backward); }

// ---- messages -----------------------------------------------------------------------------------

static int64_t state_tag(const seams *s, int state) {
  int states = s->model->state_count;
  return s->here->number % (RANKS_TAGS / states) * states + state;
}

// Tails of convolutions and lags are counted apart from states.
static message_kind state_message_kind(const seams *s, int state) {
  return s->model->states[state].lag ? MESSAGE_HALO : MESSAGE_STATES;
}

static int seam_rank(const seams *s, int place) {
  return ranks_at(s->line, ranks_data(s->line), place);
}

// Where the bytes of a message lie: where the state or gradient does, or a copy of it.
static void *message_bytes_at(const seams *s, seam_block block, int state, void *there) {
  return s->copies ? s->copies + block * s->block + state_offset(s, state) : there;
}

// Part of the bytes of a state.
typedef struct byte_range {
  int64_t first, count;
} byte_range;

static int seam_blocks(const seams *s, int state) {
  const seam_cut *cut = &s->cuts[state];
  return cut->instances
             ? chain_blocks(cut->instances * s->there->batch, cut->bytes * s->there->batch)
             : 1;
}

// All states of an operation have the same instances, one behind the other.
static int64_t instance_of(const seams *s, int state, int block) {
  return chain_instance(s->cuts[state].instances * s->there->batch, seam_blocks(s, state), block);
}

static byte_range block_byte_range(const seams *s, int state, int block) {
  int64_t all = s->cuts[state].instances * s->there->batch;
  if (!all) return (byte_range){0, bytes_of_seam(s, state)};
  int64_t of_one = bytes_of_seam(s, state) / all, first = instance_of(s, state, block);
  return (byte_range){first * of_one, (instance_of(s, state, block + 1) - first) * of_one};
}

int seams_blocks(const seams *s, const model_op *op) {
  return op->state_count ? seam_blocks(s, op->states[0]) : 1;
}
int64_t seams_instance(const seams *s, const model_op *op, int block) {
  return instance_of(s, op->states[0], block);
}

static message **message_slot(message **list, int state, int block) {
  return &list[state * CHAIN_BLOCKS + block];
}

// Messages of several blocks have one tag: they leave, and are expected, in the order of the
// blocks.
static void expect(const seams *s, int place, message_kind kind, int state, message **list,
                   char *bytes) {
  for (int block = 0; block < seam_blocks(s, state); block++) {
    byte_range range = block_byte_range(s, state, block);
    *message_slot(list, state, block) = ranks_receive(
        s->line, seam_rank(s, place), kind, state_tag(s, state), bytes + range.first, range.count);
  }
}

static void wait_for_block(const seams *s, message **list, int state, int block, const char *what) {
  message **slot = message_slot(list, state, block);
  ranks_wait(s->line, *slot, (message_place){s->here->step, s->model->states[state].layer, what});
  *slot = NULL;
}

static rec_status arrive(const seams *s, message **list, seam_block room, int state, int block,
                         char *there, const char *what) {
  byte_range range = block_byte_range(s, state, block);
  wait_for_block(s, list, state, block, what);
  if (!s->copies) return REC_OK;
  return s->c->ops->upload(s->c, there + range.first,
                           (char *)message_bytes_at(s, room, state, there) + range.first,
                           range.count);
}

// `here`: where the bytes lie in the host's memory.
static rec_status send_seam(const seams *s, message **sent, int place, message_kind kind, int state,
                            byte_range range, char *here, char *there) {
  rec_status status = here == there ? REC_OK
                                    : s->c->ops->download(s->c, here + range.first,
                                                          there + range.first, range.count);
  if (!status)
    *sent = ranks_send(s->line, seam_rank(s, place), kind, state_tag(s, state), here + range.first,
                       range.count);
  return status;
}

void seams_reach(seams *s, int all) { s->last = s->places == 1 ? 0 : (all - 1) / s->most; }

void seams_begin(seams *s, const shard *here, const shard *there, int count) {
  s->here = here, s->there = there;
  s->count = count;
  s->takes = s->gives = (op_range){0, s->model->op_count};
  for (int i = 0; s->last > 0 && i < s->model->state_count; i++) {
    if (s->place > 0 && s->place <= s->last && !s->direct)
      expect(s, s->place - 1, state_message_kind(s, i), i, s->of.states_in,
             message_bytes_at(s, STATES_IN, i, seams_state(s, 0, i)));
    if (s->place == 0 && here->after[i])
      *message_slot(s->of.carried, i, 0) =
          ranks_receive(s->line, seam_rank(s, s->last), MESSAGE_CARRIED, state_tag(s, i),
                        here->after[i], bytes_of_seam(s, i));
  }
}

// Only operations that the backward pass reaches have gradients.
void seams_turn(seams *s) {
  const train_model *m = s->model;
  for (int i = 0; s->place < s->last && !s->direct && i < m->step_count; i++) {
    if (m->steps[i].kind != STEP_OF) continue;
    const model_op *op = &m->ops[m->steps[i].op];
    for (int k = 0; k < op->state_count; k++) {
      int state = op->states[k];
      char *bytes = message_bytes_at(s, GRADIENTS_IN, state, seams_gradient(s, s->count, state));
      expect(s, s->place + 1, MESSAGE_COTANGENTS, state, s->of.gradients_in, bytes);
    }
  }
}

void seams_end(seams *s) {
  for (int i = 0; s->last > 0 && s->place <= s->last && i < s->model->state_count; i++) {
    for (int block = 0; block < seam_blocks(s, i); block++) {
      wait_for_block(s, s->of.states_out, i, block, "states to arrive");
      wait_for_block(s, s->of.gradients_out, i, block, "gradients of states to arrive");
    }
    wait_for_block(s, s->of.carried, i, 0, "the states that the sequences end with");
  }
}

// From GPU to GPU: a block of all states of an operation, or of their gradients, at the seam to the
// place before or behind.
static void move_at_seam(seams *s, const model_op *op, bool receives, bool backward, int block) {
  listed_message list[MOST_VARIABLES];
  int seam = receives == backward ? s->count : 0, peer = seam_rank(s, s->place + (seam ? 1 : -1));
  if (!op->state_count) return;
  for (int k = 0; k < op->state_count; k++) {
    int state = op->states[k];
    byte_range range = block_byte_range(s, state, block);
    char *bytes = backward ? seams_gradient(s, seam, state) : seams_state(s, seam, state);
    list[k] = (listed_message){.receives = receives,
                               .peer = peer,
                               .kind = backward ? MESSAGE_COTANGENTS : state_message_kind(s, state),
                               .bytes = bytes + range.first,
                               .size = range.count};
  }
  ranks_move(s->line, list, op->state_count,
             (message_place){s->here->step, s->model->states[op->states[0]].layer,
                             backward ? "gradients of states" : "states"});
}

// The states of one operation and one seam have one place in time, whichever executor has them.
void seams_join(seams *s, const seams *of, op_range ops, int64_t batch, bool receives) {
  const train_model *m = s->model;
  const int64_t size = s->c->n->element_size, seam = receives ? 0 : of->count;
  char *states = of->states + (seam - (s->place == 0)) * of->block;
  for (int i = ops.first; s->direct && i < ops.end; i++)
    for (int k = 0; k < m->ops[i].state_count; k++) {
      const model_state *state = &m->states[m->ops[i].states[k]];
      listed_message *to =
          receives ? &s->joined_in[s->joined_in_count++] : &s->joined_out[s->joined_out_count++];
      *to = (listed_message){.receives = receives,
                             .peer = seam_rank(s, s->place + (receives ? -1 : 1)),
                             .kind = state_message_kind(s, m->ops[i].states[k]),
                             .bytes = states + state->place * batch * size,
                             .size = state->elements * batch * size};
    }
}

static void move_joined(const seams *s, const listed_message *list, int *count) {
  if (*count)
    ranks_move(s->line, list, *count,
               (message_place){s->here->step, -1, "states of the next shards"});
  *count = 0;
}

void seams_take_joined(seams *s) { move_joined(s, s->joined_in, &s->joined_in_count); }

static bool is_in_op_range(op_range range, int op) { return op >= range.first && op < range.end; }

// Whether the states of an operation have no message of their own.
static bool is_joined(const seams *s, const model_op *op, bool comes) {
  return s->direct && !is_in_op_range(comes ? s->takes : s->gives, (int)(op - s->model->ops));
}

static bool is_last_block(const seams *s, const model_op *op, int block) {
  return s->last_step >= 0 && op == &s->model->ops[s->model->steps[s->last_step].op] &&
         block + 1 == seams_blocks(s, op);
}

rec_status seams_take(seams *s, const model_op *op, bool backward, int block) {
  rec_status status = REC_OK;
  if (!backward && is_joined(s, op, true)) return REC_OK;
  if (s->direct && !seams_begins(s, backward)) {
    move_at_seam(s, op, true, backward, block);
    if (backward && is_last_block(s, op, block))
      move_joined(s, s->joined_out, &s->joined_out_count);
    return REC_OK;
  }
  for (int k = 0; !status && k < op->state_count && !seams_begins(s, backward); k++) {
    int state = op->states[k];
    status = backward ? arrive(s, s->of.gradients_in, GRADIENTS_IN, state, block,
                               seams_gradient(s, s->count, state), "gradients of states")
                      : arrive(s, s->of.states_in, STATES_IN, state, block,
                               seams_state(s, 0, state), "states");
  }
  return status;
}

static rec_status send_on(seams *s, int state, int block) {
  char *there = seams_state(s, s->count, state);
  return send_seam(s, message_slot(s->of.states_out, state, block), s->place + 1,
                   state_message_kind(s, state), state, block_byte_range(s, state, block),
                   message_bytes_at(s, STATES_OUT, state, there), there);
}

static rec_status send_back(seams *s, int state, int block) {
  char *there = seams_gradient(s, 0, state);
  return send_seam(s, message_slot(s->of.gradients_out, state, block), s->place - 1,
                   MESSAGE_COTANGENTS, state, block_byte_range(s, state, block),
                   message_bytes_at(s, GRADIENTS_OUT, state, there), there);
}

rec_status seams_give(seams *s, const model_op *op, bool backward, int block) {
  rec_status status = REC_OK;
  if (!backward && is_joined(s, op, false)) return REC_OK;
  if (s->direct && !seams_ends(s, backward)) {
    move_at_seam(s, op, false, backward, block);
    return REC_OK;
  }
  for (int k = 0; !status && k < op->state_count && !seams_ends(s, backward); k++)
    status = (backward ? send_back : send_on)(s, op->states[k], block);
  return status;
}

// What the sequences end with goes to the first place.
static rec_status carry_to_first(seams *s, const model_op *op) {
  rec_status status = REC_OK;
  for (int k = 0; !status && k < op->state_count; k++) {
    int state = op->states[k];
    if (s->here->after[state])
      status = send_seam(s, message_slot(s->of.carried, state, 0), 0, MESSAGE_CARRIED, state,
                         (byte_range){0, bytes_of_seam(s, state)}, s->here->after[state],
                         seams_state(s, s->count, state));
  }
  return status;
}

// The first segment of a pass at this place, and the last one.
static bool is_first_segment(const seams *s, int segment, bool backward) {
  return segment == (backward ? s->count - 1 : 0);
}
static bool is_last(const seams *s, int segment, bool backward) {
  return is_first_segment(s, segment, !backward);
}

rec_status seams_before(seams *s, const model_op *op, int segment, bool backward) {
  rec_status status = REC_OK;
  for (int b = 0; is_first_segment(s, segment, backward) && !status && b < seams_blocks(s, op); b++)
    status = seams_take(s, op, backward, b);
  return status;
}

rec_status seams_after(seams *s, const model_op *op, int segment, bool backward) {
  rec_status status = REC_OK;
  if (!is_last(s, segment, backward)) return REC_OK;
  if (!backward && seams_last(s) && !seams_first(s)) return carry_to_first(s, op);
  for (int b = 0; !status && b < seams_blocks(s, op); b++) status = seams_give(s, op, backward, b);
  return status;
}
