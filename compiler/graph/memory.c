// The memory plan: which rows share memory because they are never needed at the same time.
//
//   z, x, B, C   forward 2 .. backward 31    place 0      places count numbers per token;
//   d (z, x, ..) backward 25 .. 31           place 512    librec multiplies by the tokens of a batch
//   x1           forward 7 .. 9              place 512
//
// Buffers are placed from the largest to the smallest, each at the lowest place where it overlaps
// no buffer that lives at the same time. Places and long rows are multiples of 16 numbers: in f32
// every row begins with a cache line.
#include <stdlib.h>

#include "compiler/graph/build.h"

typedef struct lifetime {
  int buffer, first, last;
  int64_t elements;
} lifetime;

static void touch(const graph_model *model, lifetime *lives, int tensor, int when) {
  if (tensor == NONE) return;
  lifetime *life = &lives[model->tensors.items[tensor].buffer];
  if (life->first < 0 || when < life->first) life->first = when;
  if (when > life->last) life->last = when;
}

static void touch_all(const graph_model *model, lifetime *lives, const int *tensors, int count,
                      int when) {
  for (int i = 0; i < count; i++) touch(model, lives, tensors[i], when);
}

static void find_lifetimes(const graph_model *model, lifetime *lives) {
  for (int i = 0; i < model->ops.count; i++) {
    const graph_op *op = &model->ops.items[i];
    touch_all(model, lives, op->inputs.items, op->inputs.count, i);
    touch_all(model, lives, op->outputs.items, op->outputs.count, i);
  }
  for (int i = 0; i < model->gradient.count; i++) {
    const gradient_step *step = &model->gradient.items[i];
    int when = model->ops.count + i;
    touch_all(model, lives, step->d_inputs.items, step->d_inputs.count, when);
    touch_all(model, lives, step->d_outputs.items, step->d_outputs.count, when);
    touch(model, lives, step->to, when);
    touch(model, lives, step->from, when);
    if (step->kind != GRADIENT_OF) continue;
    const graph_op *op = &model->ops.items[step->op];
    touch_all(model, lives, op->inputs.items, op->inputs.count, when);
  }
}

static int larger_first(const void *a, const void *b) {
  const lifetime *x = a, *y = b;
  if (x->elements != y->elements) return x->elements < y->elements ? 1 : -1;
  return x->buffer - y->buffer;
}

// The lowest place where the i-th buffer fits beside those already placed.
static int64_t find_buffer_place(const graph_model *model, const lifetime *lives, int i) {
  int64_t place = 0;
  for (int k = 0; k < i; k++) {
    int64_t other = model->buffers.items[lives[k].buffer].place;
    bool apart = place + lives[i].elements <= other || other + lives[k].elements <= place;
    if (apart || lives[i].first > lives[k].last || lives[k].first > lives[i].last) continue;
    place = other + lives[k].elements;
    k = -1;
  }
  return place;
}

enum { LINE_NUMBERS = 16 };

static int64_t whole_lines(int64_t elements) {
  return (elements + LINE_NUMBERS - 1) / LINE_NUMBERS * LINE_NUMBERS;
}

// Short rows share their lines.
static void pad_rows(graph_model *model) {
  vec_each(graph_buffer, buffer, model->buffers)
    if (buffer->elements > LINE_NUMBERS) buffer->elements = whole_lines(buffer->elements);
}

void memory_plan(arena *memory, graph_model *model) {
  pad_rows(model);
  int n = model->buffers.count;
  lifetime *lives = ARENA_ARRAY(memory, lifetime, n + 1);
  for (int i = 0; i < n; i++)
    lives[i] = (lifetime){i, -1, -1, whole_lines(model->buffers.items[i].elements)};
  find_lifetimes(model, lives);
  qsort(lives, (size_t)n, sizeof *lives, larger_first);
  for (int i = 0; i < n; i++) {
    int64_t place = find_buffer_place(model, lives, i);
    model->buffers.items[lives[i].buffer].place = place;
    if (place + lives[i].elements > model->row_elements)
      model->row_elements = place + lives[i].elements;
  }
}
