// Copies of a shard in the memory of a device, made before a run; what it ends with is copied back.
#include "runtime/train/model/staging.h"

#include <stdlib.h>

#include "runtime/internal.h"

static int64_t state_bytes(const compute *c, const train_model *m, int64_t batch) {
  return m->state_elements * batch * c->n->element_size;
}

rec_status staging_open(const compute *c, const train_model *m, int64_t batch, int64_t time, staging *s) {
  *s = (staging){.c = c, .model = m, .batch = batch, .time = time};
  if (compute_is_host(c)) return REC_OK;
  size_t states = (size_t)m->state_count + 1;
  s->before = calloc(3 * states, sizeof *s->before);
  if (!s->before) return rec_no_memory();
  s->after = s->before + states;
  s->d_before = s->after + states;
  struct {
    void **memory;
    int64_t bytes;
  } parts[] = {{(void **)&s->tokens, batch * time * (int64_t)sizeof *s->tokens},
               {(void **)&s->targets, batch * time * (int64_t)sizeof *s->targets},
               {(void **)&s->weights, batch * time * (int64_t)sizeof *s->weights},
               {(void **)&s->losses, batch * time * (int64_t)sizeof *s->losses},
               {(void **)&s->hits, batch * time},
               {(void **)&s->states, 3 * state_bytes(c, m, batch)}};
  rec_status status = REC_OK;
  for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++)
    status = c->ops->allocate(c, parts[i].bytes, parts[i].memory);
  return status;
}

void staging_close(staging *s) {
  if (!s->c || compute_is_host(s->c)) return;
  void *parts[] = {s->tokens, s->targets, s->weights, s->losses, s->hits, s->states};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) s->c->ops->release(s->c, parts[i]);
  free(s->before);
}

// Where a state of the shard's sequences lies in one of the three blocks.
static void *place_of(const staging *s, int block, int state, int64_t batch) {
  return s->states + block * state_bytes(s->c, s->model, s->batch) +
         s->model->states[state].place * batch * s->c->n->element_size;
}

static int64_t bytes_of(const staging *s, int state, int64_t batch) {
  return s->model->states[state].elements * batch * s->c->n->element_size;
}

static rec_status enter_states(const staging *s, const shard *here) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < s->model->state_count; i++) {
    s->before[i] = here->before[i] ? place_of(s, 0, i, here->batch) : NULL;
    s->after[i] = here->after[i] ? place_of(s, 1, i, here->batch) : NULL;
    s->d_before[i] = here->d_before && here->d_before[i] ? place_of(s, 2, i, here->batch) : NULL;
    if (s->before[i]) status = s->c->ops->upload(s->c, s->before[i], here->before[i], bytes_of(s, i, here->batch));
  }
  return status;
}

rec_status staging_enter(const staging *s, const shard *here, shard *there) {
  const compute *c = s->c;
  int64_t tokens = here->batch * here->time;
  *there = *here;
  if (compute_is_host(c)) return REC_OK;
  there->tokens = s->tokens;
  rec_status status = c->ops->upload(c, s->tokens, here->tokens, tokens * (int64_t)sizeof *here->tokens);
  if (!status && here->targets) {
    there->targets = s->targets;
    status = c->ops->upload(c, s->targets, here->targets, tokens * (int64_t)sizeof *here->targets);
  }
  if (!status && here->weights) {
    there->weights = s->weights;
    status = c->ops->upload(c, s->weights, here->weights, tokens * (int64_t)sizeof *here->weights);
  }
  there->before = s->before;
  there->after = s->after;
  there->d_before = here->d_before ? s->d_before : NULL;
  return status ? status : enter_states(s, here);
}

rec_status staging_leave(const staging *s, const shard *here, const shard *there) {
  const compute *c = s->c;
  rec_status status = REC_OK;
  if (compute_is_host(c)) return REC_OK;
  for (int i = 0; !status && i < s->model->state_count; i++) {
    int64_t bytes = bytes_of(s, i, here->batch);
    if (here->after[i]) status = c->ops->download(c, here->after[i], there->after[i], bytes);
    // Only states that the run started from have a gradient.
    if (!status && here->before[i] && here->d_before && here->d_before[i])
      status = c->ops->download(c, here->d_before[i], there->d_before[i], bytes);
  }
  return status;
}
