// Copies of a shard in the memory of a device, made before a run; what it ends with is copied back.
//
//   two sequences, segments of 2:   a b c d e        in the room:   a b v w | c d x y | e z
//                                   v w x y z
#include "runtime/train/model/staging.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/train/model/leaves.h"

static int64_t staged_state_bytes(const compute *c, const train_model *m, int64_t batch) {
  return m->state_elements * batch * c->n->element_size;
}

static const size_t row_sizes[ROWS] = {[ROW_TOKENS] = sizeof(token_id),
                                       [ROW_TARGETS] = sizeof(token_id),
                                       [ROW_WEIGHTS] = sizeof(float),
                                       [ROW_LOSSES] = sizeof(float),
                                       [ROW_HITS] = sizeof(uint8_t)};

// `there`: in the memory of the place.
static rec_status open_rows(const staging *s, bool there, void *made[ROWS]) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < ROWS; i++) {
    const int64_t bytes = s->form.batch * s->time * (int64_t)row_sizes[i];
    if (there)
      status = s->c->ops->allocate(s->c, bytes, &made[i]);
    else if (!(made[i] = calloc((size_t)bytes + 1, 1)))
      status = rec_no_memory();
  }
  return status;
}

static rec_status open_there(staging *s) {
  size_t states = (size_t)s->model->state_count + 1;
  s->before = calloc(3 * states, sizeof *s->before);
  if (!s->before) return rec_no_memory();
  s->after = s->before + states;
  s->d_before = s->after + states;
  rec_status status = open_rows(s, true, s->there);
  return status ? status
                : s->c->ops->allocate(s->c, 3 * staged_state_bytes(s->c, s->model, s->form.batch),
                                      (void **)&s->states);
}

rec_status staging_open(const compute *c, const train_model *m, const executor_form *form,
                        int64_t from, int64_t time, staging *s) {
  *s = (staging){.c = c, .model = m, .form = *form, .from = from, .time = time};
  rec_status status = form->segment < form->time ? open_rows(s, false, s->cut) : REC_OK;
  return status || compute_is_host(c) ? status : open_there(s);
}

void staging_close(staging *s) {
  if (!s->c) return;
  for (int i = 0; i < ROWS; i++) {
    free(s->cut[i]);
    s->c->ops->release(s->c, s->there[i]);
  }
  s->c->ops->release(s->c, s->states);
  free(s->before);
}

// Rows of the caller to the order of segments, or back.
static void reorder(const staging *s, const shard *here, int64_t time, void *from, void *cut,
                    size_t size, bool back) {
  char *next = cut;
  for (int64_t first = 0; first < time; first += s->form.segment)
    for (int64_t b = 0; b < here->batch; b++) {
      int64_t rest = time - first;
      size_t bytes = (size_t)(rest < s->form.segment ? rest : s->form.segment) * size;
      char *row = (char *)from + (size_t)(b * here->time + s->from + first) * size;
      memcpy(back ? row : next, back ? next : row, bytes);
      next += bytes;
    }
}

// Where a state of the shard's sequences lies in one of the three blocks.
static void *staged_state(const staging *s, int block, int state, int64_t batch) {
  return s->states + block * staged_state_bytes(s->c, s->model, s->form.batch) +
         s->model->states[state].place * batch * s->c->n->element_size;
}

static int64_t bytes_of_state(const staging *s, int state, int64_t batch) {
  return s->model->states[state].elements * batch * s->c->n->element_size;
}

static rec_status enter_states(const staging *s, const shard *here, staged_ends ends) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < s->model->state_count; i++) {
    s->before[i] = ends.first && here->before[i] ? staged_state(s, 0, i, here->batch) : NULL;
    s->after[i] = here->after[i] ? staged_state(s, 1, i, here->batch) : NULL;
    s->d_before[i] =
        here->d_before && here->d_before[i] ? staged_state(s, 2, i, here->batch) : NULL;
    if (s->before[i])
      status =
          s->c->ops->upload(s->c, s->before[i], here->before[i], bytes_of_state(s, i, here->batch));
  }
  return status;
}

// Rows of a shard to where the run reads them: by `cut` to the order of segments, by `there` to the
// memory of the place.
static rec_status enter_rows(const staging *s, const shard *here, int64_t time, staged_row row,
                             const void **from) {
  void *cut = s->cut[row], *there = s->there[row];
  const int64_t size = (int64_t)row_sizes[row];
  if (*from && cut) {
    reorder(s, here, time, (void *)(uintptr_t)*from, cut, row_sizes[row], false);
    *from = cut;
  }
  if (!*from || !there || !time) return REC_OK;
  rec_status status = s->c->ops->upload(s->c, there, *from, here->batch * time * size);
  *from = there;
  return status;
}

rec_status staging_enter(const staging *s, const shard *here, staged_ends ends, shard *there) {
  const int64_t rest = here->time - s->from, time = most_of(least_of(rest, s->time), 0);
  const void *read[] = {
      [ROW_TOKENS] = here->tokens, [ROW_TARGETS] = here->targets, [ROW_WEIGHTS] = here->weights};
  rec_status status = REC_OK;
  for (staged_row i = ROW_TOKENS; !status && i <= ROW_WEIGHTS; i++)
    status = enter_rows(s, here, time, i, &read[i]);
  *there = *here;
  there->time = time;
  there->tokens = read[ROW_TOKENS];
  there->targets = read[ROW_TARGETS];
  there->weights = read[ROW_WEIGHTS];
  if (!time || compute_is_host(s->c)) return status;
  there->before = s->before;
  there->after = s->after;
  there->d_before = here->d_before ? s->d_before : NULL;
  return status ? status : enter_states(s, here, ends);
}

rec_status staging_leave(const staging *s, const shard *here, staged_ends ends,
                         const shard *there) {
  const compute *c = s->c;
  rec_status status = REC_OK;
  if (compute_is_host(c) || !ends.first) return REC_OK;
  for (int i = 0; !status && i < s->model->state_count; i++) {
    int64_t bytes = bytes_of_state(s, i, here->batch);
    if (ends.last && here->after[i])
      status = c->ops->download(c, here->after[i], there->after[i], bytes);
    // Only states that the run started from have a gradient.
    if (!status && here->before[i] && here->d_before && here->d_before[i])
      status = c->ops->download(c, here->d_before[i], there->d_before[i], bytes);
  }
  return status;
}

void *staging_row(const staging *s, staged_row row, void *here) {
  return s->there[row] ? s->there[row] : here && s->cut[row] ? s->cut[row] : here;
}

rec_status staging_take(const staging *s, staged_row row, const shard *here, const shard *there,
                        void *wanted) {
  void *cut = s->cut[row], *to = cut ? cut : wanted, *found = staging_row(s, row, wanted);
  const int64_t bytes = there->batch * there->time * (int64_t)row_sizes[row];
  if (!wanted || found == wanted) return REC_OK;
  rec_status status = found == to ? REC_OK : s->c->ops->download(s->c, to, found, bytes);
  if (!status && cut) reorder(s, here, there->time, wanted, cut, row_sizes[row], true);
  return status;
}
