#include "runtime/train/model/seams.h"

#include <stdlib.h>

// ---- memory -------------------------------------------------------------------------------------

// Of gradients: the first two in turn. All of these in copies of messages.
typedef enum seam_block { STATES_IN, STATES_OUT, GRADIENTS_IN, GRADIENTS_OUT, SEAM_BLOCKS } seam_block;

static int64_t block_bytes(const train_model *m, const compute *c, int64_t batch) {
  return m->state_elements * batch * c->n->element_size;
}

// The seams of a place that lie between two segments, one of them maybe of another place.
static int seam_count(const seam_place *p) { return p->segments - 1 + (p->place > 0) + (p->place + 1 < p->places); }

static int gradient_count(const seam_place *p, bool backward) {
  if (!backward || seam_count(p) == 0) return 0;
  return p->places > 1 ? SEAM_BLOCKS : 2;
}

int64_t seams_bytes(const train_model *m, const compute *c, const executor_form *form, const seam_place *p) {
  if (p->segments == 0) return 0;
  return block_bytes(m, c, form->batch) * (seam_count(p) + gradient_count(p, form->backward));
}

static rec_status open_messages(seams *s) {
  size_t states = (size_t)s->model->state_count + 1;
  message **lists = s->lists = calloc(5 * states, sizeof *lists);
  if (!lists) return rec_no_memory();
  s->of = (seam_messages){lists, lists + states, lists + 2 * states, lists + 3 * states, lists + 4 * states};
  if (compute_is_host(s->c)) return REC_OK;
  s->copies = malloc((size_t)s->block * SEAM_BLOCKS + 1);
  return s->copies ? REC_OK : rec_no_memory();
}

rec_status seams_open(const compute *c, const train_model *m, const executor_form *form, int segments, seams *s) {
  *s = (seams){.c = c,
               .model = m,
               .line = form->line,
               .place = ranks_time(form->line),
               .places = ranks_time_count(form->line),
               .most = segments_of_place(form->line, (int)((form->time + form->segment - 1) / form->segment), 0),
               .block = block_bytes(m, c, form->batch)};
  const seam_place place = {s->place, s->places, segments};
  if (segments == 0) return REC_OK;
  rec_status status = c->ops->allocate(c, s->block * seam_count(&place), (void **)&s->states);
  if (!status) status = c->ops->allocate(c, s->block * gradient_count(&place, form->backward), (void **)&s->gradients);
  return status || s->places == 1 ? status : open_messages(s);
}

void seams_close(seams *s) {
  if (!s->c) return;
  s->c->ops->release(s->c, s->states);
  s->c->ops->release(s->c, s->gradients);
  free(s->copies);
  free(s->lists);
}

// Where a state lies in a block, and its bytes.
static int64_t offset_of(const seams *s, int state) {
  return s->model->states[state].place * s->there->batch * s->c->n->element_size;
}

static int64_t bytes_of(const seams *s, int state) {
  return s->model->states[state].elements * s->there->batch * s->c->n->element_size;
}

void *seams_state(const seams *s, int seam, int state) {
  if (seam == 0 && seams_first(s)) return s->there->before[state];
  if (seam == s->count && seams_last(s)) return s->there->after[state];
  return s->states + (seam - (s->place == 0)) * s->block + offset_of(s, state);
}

void *seams_gradient(const seams *s, int seam, int state) {
  const shard *run = s->there;
  int block = seam % 2;
  if (seam == 0 && seams_first(s)) return run->d_before && run->before[state] ? run->d_before[state] : NULL;
  if (seam == s->count && seams_last(s)) return NULL;
  if (seam == s->count) block = GRADIENTS_IN;
  if (seam == 0) block = GRADIENTS_OUT;
  return s->gradients + block * s->block + offset_of(s, state);
}

bool seams_first(const seams *s) { return s->place == 0; }
bool seams_last(const seams *s) { return s->place == s->last; }

// ---- messages -----------------------------------------------------------------------------------

static int64_t tag_of(const seams *s, int state) {
  int states = s->model->state_count;
  return s->here->number % (RANKS_TAGS / states) * states + state;
}

// Tails of convolutions and lags are counted apart from states.
static message_kind kind_of(const seams *s, int state) { return s->model->states[state].lag ? MESSAGE_HALO : MESSAGE_STATES; }

static int rank_at(const seams *s, int place) { return ranks_at(s->line, ranks_data(s->line), place); }

// Where the bytes of a message lie: on the host where the state or gradient does.
static void *bytes_at(const seams *s, seam_block block, int state, void *there) {
  return s->copies ? s->copies + block * s->block + offset_of(s, state) : there;
}

static message *expect(const seams *s, int place, message_kind kind, int state, void *bytes) {
  return ranks_receive(s->line, rank_at(s, place), kind, tag_of(s, state), bytes, bytes_of(s, state));
}

static void take(const seams *s, message **list, int state, const char *what) {
  ranks_wait(s->line, list[state], (message_place){s->here->step, s->model->states[state].layer, what});
  list[state] = NULL;
}

static rec_status arrive(const seams *s, message **list, seam_block block, int state, void *there, const char *what) {
  take(s, list, state, what);
  return s->copies ? s->c->ops->upload(s->c, there, bytes_at(s, block, state, there), bytes_of(s, state)) : REC_OK;
}

// `here`: where the bytes lie in the host's memory.
static rec_status leave(const seams *s, message **sent, int place, message_kind kind, int state, void *here, void *there) {
  rec_status status = s->copies ? s->c->ops->download(s->c, here, there, bytes_of(s, state)) : REC_OK;
  if (!status) *sent = ranks_send(s->line, rank_at(s, place), kind, tag_of(s, state), here, bytes_of(s, state));
  return status;
}

void seams_reach(seams *s, int all) { s->last = s->places == 1 ? 0 : (all - 1) / s->most; }

void seams_begin(seams *s, const shard *here, const shard *there, int count) {
  s->here = here, s->there = there;
  s->count = count;
  for (int i = 0; s->last > 0 && i < s->model->state_count; i++) {
    if (s->place > 0 && s->place <= s->last)
      s->of.states_in[i] = expect(s, s->place - 1, kind_of(s, i), i, bytes_at(s, STATES_IN, i, seams_state(s, 0, i)));
    if (s->place == 0 && here->after[i]) s->of.carried[i] = expect(s, s->last, MESSAGE_CARRIED, i, here->after[i]);
  }
}

// Only operations that the backward pass reaches have gradients.
void seams_turn(seams *s) {
  const train_model *m = s->model;
  for (int i = 0; s->place < s->last && i < m->step_count; i++) {
    if (m->steps[i].kind != STEP_OF) continue;
    const model_op *op = &m->ops[m->steps[i].op];
    for (int k = 0; k < op->state_count; k++) {
      int state = op->states[k];
      void *bytes = bytes_at(s, GRADIENTS_IN, state, seams_gradient(s, s->count, state));
      s->of.gradients_in[state] = expect(s, s->place + 1, MESSAGE_COTANGENTS, state, bytes);
    }
  }
}

void seams_end(seams *s) {
  for (int i = 0; s->last > 0 && i < s->model->state_count; i++) {
    take(s, s->of.states_out, i, "states to arrive");
    take(s, s->of.gradients_out, i, "gradients of states to arrive");
    take(s, s->of.carried, i, "the states that the sequences end with");
  }
}

rec_status seams_before(seams *s, const model_op *op, int segment, bool backward) {
  rec_status status = REC_OK;
  for (int k = 0; !status && k < op->state_count; k++) {
    int state = op->states[k];
    if (!backward && segment == 0 && !seams_first(s))
      status = arrive(s, s->of.states_in, STATES_IN, state, seams_state(s, 0, state), "states");
    if (backward && segment == s->count - 1 && !seams_last(s))
      status = arrive(s, s->of.gradients_in, GRADIENTS_IN, state, seams_gradient(s, s->count, state), "gradients of states");
  }
  return status;
}

static rec_status send_on(seams *s, int state) {
  void *there = seams_state(s, s->count, state);
  if (!seams_last(s))
    return leave(s, &s->of.states_out[state], s->place + 1, kind_of(s, state), state, bytes_at(s, STATES_OUT, state, there),
                 there);
  if (seams_first(s) || !s->here->after[state]) return REC_OK;
  return leave(s, &s->of.carried[state], 0, MESSAGE_CARRIED, state, s->here->after[state], there);
}

static rec_status send_back(seams *s, int state) {
  void *there = seams_gradient(s, 0, state);
  return leave(s, &s->of.gradients_out[state], s->place - 1, MESSAGE_COTANGENTS, state,
               bytes_at(s, GRADIENTS_OUT, state, there), there);
}

rec_status seams_after(seams *s, const model_op *op, int segment, bool backward) {
  rec_status status = REC_OK;
  for (int k = 0; !status && k < op->state_count; k++) {
    if (!backward && segment == s->count - 1) status = send_on(s, op->states[k]);
    if (backward && segment == 0 && !seams_first(s)) status = send_back(s, op->states[k]);
  }
  return status;
}
