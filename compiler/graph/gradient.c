// The backward pass of a model: its operations in reverse, each with the gradients that it reads
// and writes.
//
//   linear in_proj x1 -> z, x          loss                      d logits take the logits' place
//   call gate y, z -> g                of call gate              d g -> d y, d z
//   linear out_proj g -> o             of linear in_proj         d (z, x) -> d x1
//
// The first step that writes the gradient of a tensor sets it, later ones add. Kernels only set:
// their second writing goes to a place of its own, which is added. Parts of a row that nothing
// reads are set to zero before the row is used.
#include "compiler/graph/build.h"

typedef struct backward {
  arena *memory;
  graph_model *model;
  int *gradient_of;   // by tensor: its gradient's tensor, or NONE
  int *buffer_of;     // by buffer: its gradient's buffer, or NONE
  bool *written;      // by tensor: the gradient holds something
  bool *use_written;  // by parameter: a kernel has written its gradient
} backward;

static int new_buffer(backward *w, int64_t elements) {
  vec_push(w->memory, &w->model->buffers, (graph_buffer){.elements = elements, .gradient = true});
  return w->model->buffers.count - 1;
}

static int new_tensor(backward *w, const char *name, int buffer, int64_t offset, int64_t elements) {
  const char *text = arena_printf(w->memory, "d.%s", name);
  vec_push(w->memory, &w->model->tensors, (graph_tensor){text, buffer, offset, elements});
  return w->model->tensors.count - 1;
}

static int gradient_of(backward *w, int tensor) {
  if (w->gradient_of[tensor] != NONE) return w->gradient_of[tensor];
  graph_tensor t = w->model->tensors.items[tensor];
  if (w->buffer_of[t.buffer] == NONE)
    w->buffer_of[t.buffer] = new_buffer(w, w->model->buffers.items[t.buffer].elements);
  return w->gradient_of[tensor] =
             new_tensor(w, t.name, w->buffer_of[t.buffer], t.offset, t.elements);
}

static void push_step(backward *w, gradient_step step) {
  vec_push(w->memory, &w->model->gradient, step);
}

static void zero_unread_parts(backward *w, const graph_op *op) {
  for (int i = 0; i < op->outputs.count; i++)
    if (!w->written[op->outputs.items[i]])
      push_step(w, (gradient_step){.kind = GRADIENT_ZERO,
                                   .op = NONE,
                                   .to = gradient_of(w, op->outputs.items[i]),
                                   .from = NONE});
}

static void linear_step(backward *w, int number) {
  const graph_op *op = &w->model->ops.items[number];
  int x = op->inputs.items[0];
  zero_unread_parts(w, op);
  gradient_step step = {
      .kind = GRADIENT_OF, .op = number, .to = NONE, .from = NONE, .add = w->written[x]};
  vec_push(w->memory, &step.d_outputs, gradient_of(w, op->row));
  vec_push(w->memory, &step.d_inputs, gradient_of(w, x));
  w->written[x] = true;
  push_step(w, step);
}

static void call_step(backward *w, int number) {
  const graph_op *op = &w->model->ops.items[number];
  gradient_step step = {.kind = GRADIENT_OF, .op = number, .to = NONE, .from = NONE};
  VEC(gradient_step) additions = {0};
  for (int i = 0; i < op->outputs.count; i++)
    vec_push(w->memory, &step.d_outputs,
             w->written[op->outputs.items[i]] ? gradient_of(w, op->outputs.items[i]) : NONE);
  for (int i = 0; i < op->inputs.count; i++) {
    int x = op->inputs.items[i], d = gradient_of(w, x);
    if (w->written[x]) {
      graph_tensor t = w->model->tensors.items[d];
      int apart =
          new_tensor(w, w->model->tensors.items[x].name, new_buffer(w, t.elements), 0, t.elements);
      vec_push(w->memory, &additions,
               (gradient_step){.kind = GRADIENT_ADD, .op = NONE, .to = d, .from = apart});
      d = apart;
    }
    vec_push(w->memory, &step.d_inputs, d);
    w->written[x] = true;
  }
  for (int i = 0; i < op->uses.count; i++)
    vec_push(w->memory, &step.add_use, w->use_written[op->uses.items[i].parameter] ? 1 : 0);
  // parts of one parameter (a convolution's) do not overlap, so only its own second use adds
  for (int i = 0; i < op->uses.count; i++)
    if (w->model->parameters.items[op->uses.items[i].parameter].kind == PARAMETER_OWN ||
        w->model->parameters.items[op->uses.items[i].parameter].kind == PARAMETER_NORM)
      w->use_written[op->uses.items[i].parameter] = true;
  push_step(w, step);
  for (int i = 0; i < additions.count; i++) push_step(w, additions.items[i]);
}

static void embed_step(backward *w, int number) {
  const graph_op *op = &w->model->ops.items[number];
  gradient_step step = {.kind = GRADIENT_OF, .op = number, .to = NONE, .from = NONE};
  vec_push(w->memory, &step.d_outputs, gradient_of(w, op->outputs.items[0]));
  push_step(w, step);
}

void gradient_build(arena *memory, graph_model *model) {
  int tensors = model->tensors.count, buffers = model->buffers.count;
  backward w = {.memory = memory,
                .model = model,
                .gradient_of = ARENA_ARRAY(memory, int, tensors),
                .buffer_of = ARENA_ARRAY(memory, int, buffers),
                .written = ARENA_ARRAY(memory, bool, tensors),
                .use_written = ARENA_ARRAY(memory, bool, model->parameters.count + 1)};
  for (int i = 0; i < tensors; i++) w.gradient_of[i] = NONE;
  for (int i = 0; i < buffers; i++) w.buffer_of[i] = NONE;
  w.gradient_of[model->logits] = model->logits;  // the loss writes its gradient over them
  w.buffer_of[model->tensors.items[model->logits].buffer] =
      model->tensors.items[model->logits].buffer;
  w.written[model->logits] = true;
  for (int i = model->ops.count - 1; i >= 0; i--) switch (model->ops.items[i].kind) {
      case OP_LOSS: break;
      case OP_LINEAR: linear_step(&w, i); break;
      case OP_CALL: call_step(&w, i); break;
      case OP_EMBED: embed_step(&w, i); break;
    }
}
