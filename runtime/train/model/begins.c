#include "runtime/train/model/begins.h"

// The number of the parameter that number `i` of a state starts from.
static int64_t begin_number(const model_state *s, int64_t i) {
  int64_t at = s->begin.first + i % s->parts;
  for (int a = 0; a < s->axis_count; a++)
    at += i / s->axes[a].stride % s->axes[a].size * s->begin.strides[a];
  return at;
}

void begin_add(const trained_model *of, const model_state *s, const void *weights, void *numbers) {
  const numeric *n = of->n;
  if (!s->begin.given) return;
  int64_t place = s->begin.parameter < 0 ? 0 : of->model->parameters[s->begin.parameter].place;
  for (int64_t i = 0; i < s->elements; i++) {
    double from = s->begin.parameter < 0 ? s->begin.number[i % s->parts]
                                         : n->load(weights, place + begin_number(s, i));
    n->store(numbers, i, n->load(numbers, i) + from);
  }
}

void begin_add_gradient(const trained_model *of, const model_state *s, const void *gradient,
                        void *of_parameter) {
  const numeric *n = of->n;
  for (int64_t i = 0; i < s->elements; i++) {
    int64_t at = begin_number(s, i);
    n->store(of_parameter, at, n->load(of_parameter, at) + n->load(gradient, i));
  }
}
