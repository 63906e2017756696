#include "runtime/train/model/carried.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/train/model/begins.h"

rec_status carried_open(carried_states *c, const trained_model *of, int64_t sequences,
                        bool in_place) {
  *c = (carried_states){.of = of, .sequences = sequences};
  size_t elements = (size_t)(of->model->state_elements * sequences) + 1,
         states = (size_t)of->model->state_count + 1;
  for (int i = 0; i < 2; i++)
    c->blocks[i] = i && in_place ? c->blocks[0] : calloc(elements, (size_t)of->n->element_size);
  c->before = calloc(states, sizeof *c->before);
  c->after = calloc(states, sizeof *c->after);
  return c->blocks[0] && c->blocks[1] && c->before && c->after ? REC_OK : rec_no_memory();
}

void carried_close(carried_states *c) {
  if (c->blocks[1] != c->blocks[0]) free(c->blocks[1]);
  free(c->blocks[0]);
  free(c->before);
  free(c->after);
}

void carried_next(carried_states *c, bool first, const void *weights) {
  const train_model *m = c->of->model;
  for (int i = 0; i < m->state_count; i++) {
    int64_t offset = m->states[i].place * c->sequences * c->of->n->element_size;
    c->before[i] = c->blocks[c->turn] + offset;
    c->after[i] = c->blocks[1 - c->turn] + offset;
  }
  c->turn = 1 - c->turn;
  for (int i = 0; first && i < m->state_count; i++) {
    const model_state *s = &m->states[i];
    size_t size = (size_t)(s->elements * c->of->n->element_size);
    char *to = c->before[i];
    if (!weights || s->learned < 0) {
      c->before[i] = NULL;
      continue;
    }
    for (int64_t k = 0; k < c->sequences; k++, to += size) {
      memcpy(to, (const char *)weights + m->parameters[s->learned].place * c->of->n->element_size,
             size);
      begin_add(c->of, s, weights, to);
    }
  }
}

bool carried_learns(const train_model *model) {
  for (int i = 0; i < model->state_count; i++)
    if (model->states[i].learned >= 0) return true;
  return false;
}
