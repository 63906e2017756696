#include "runtime/train/model/learned.h"

#include <string.h>

bool learned_has(const train_model *model) {
  for (int i = 0; i < model->state_count; i++)
    if (model->states[i].learned >= 0) return true;
  return false;
}

void learned_start(const trained_model *of, const void *weights, int64_t sequences, void *block, void **before) {
  const train_model *m = of->model;
  for (int i = 0; i < m->state_count; i++) {
    const model_state *s = &m->states[i];
    before[i] = NULL;
    if (s->learned < 0) continue;
    size_t size = (size_t)(s->elements * of->n->element_size);
    char *to = (char *)block + s->place * sequences * of->n->element_size;
    before[i] = to;
    for (int64_t k = 0; k < sequences; k++, to += size)
      memcpy(to, (const char *)weights + m->parameters[s->learned].place * of->n->element_size, size);
  }
}
