// The pieces of the weights: what one task sums and steps, and the moments that optimizers keep for them.
#include "runtime/train/model/blas.h"
#include "runtime/train/trainer_parts.h"

enum { PIECE = 16384 };  // numbers of a parameter that one task sums and steps

// ---- pieces -------------------------------------------------------------------------------------

static bool parameter_decays(const trainer *t, int parameter) {
  bool decays = t->of.model->parameters[parameter].decays;
  for (int i = 0; i < t->block->no_decay_count; i++)
    if (t->block->no_decay[i] == parameter) decays = false;
  return decays;
}

static void add_piece(trainer *t, int parameter, int64_t first, int64_t height, int64_t width) {
  const train_model *m = t->of.model;
  t->in->pieces[t->in->piece_count++] = (piece){.place = m->parameters[parameter].place + first,
                                                .count = height * width,
                                                .parameter = parameter,
                                                .first = first,
                                                .rows = height,
                                                .columns = width,
                                                .optimizer = optimizer_of(m, t->block, parameter),
                                                .decays = parameter_decays(t, parameter)};
}

// On a device a piece is a whole parameter: it has many threads of its own.
static void add_numbers(trainer *t, int parameter) {
  const int64_t longest = compute_is_host(t->of.where) ? PIECE : INT64_MAX;
  int64_t elements = t->of.model->parameters[parameter].elements;
  for (int64_t done = 0, count; done < elements; done += count) {
    count = elements - done < longest ? elements - done : longest;
    add_piece(t, parameter, done, 1, count);
  }
}

// The parts of a matrix, which are rows of it that make different things.
static void add_matrices(trainer *t, int parameter) {
  const model_parameter *p = &t->of.model->parameters[parameter];
  int64_t columns = p->shape[p->rank - 1];
  for (int i = 0; i < p->part_count; i++)
    if (p->parts[i].count) add_piece(t, parameter, p->parts[i].first, p->parts[i].count / columns, columns);
}

static void list_pieces(trainer *t) {
  const train_model *m = t->of.model;
  trainer_internals *in = t->in;
  int64_t most = m->parameter_elements / PIECE + m->parameter_count + 1;
  for (int i = 0; i < m->parameter_count; i++) most += m->parameters[i].part_count;
  in->pieces = trainer_list(t, most, sizeof *in->pieces);
  in->squares = trainer_list(t, most, sizeof *in->squares);
  for (int i = 0; in->pieces && i < m->parameter_count; i++)
    if (optimizer_rules_of[optimizer_of(m, t->block, i)].matrices)
      add_matrices(t, i);
    else
      add_numbers(t, i);
}

// ---- moments ------------------------------------------------------------------------------------

// Every state of a parameter is aligned as the parameter is.
static int64_t moment_numbers(const trainer *t, int parameter) {
  const train_model *m = t->of.model;
  int64_t end = parameter + 1 < m->parameter_count ? m->parameters[parameter + 1].place : m->parameter_elements;
  return end - m->parameters[parameter].place;
}

int64_t trainer_moment(const trainer *t, int parameter, int number) {
  return t->moments_of[parameter] + number * moment_numbers(t, parameter);
}

static void make_moments(trainer *t) {
  const train_model *m = t->of.model;
  t->moments_of = trainer_list(t, m->parameter_count, sizeof *t->moments_of);
  for (int i = 0; t->moments_of && i < m->parameter_count; i++) {
    t->moments_of[i] = t->moment_elements;
    t->moment_elements += moment_numbers(t, i) * optimizer_rules_of[optimizer_of(m, t->block, i)].states;
  }
  t->memory.moments = t->moment_elements * t->of.n->element_size;
  t->moments = trainer_zeroed(t, t->moment_elements);
}

void pieces_new(trainer *t) {
  list_pieces(t);
  make_moments(t);
}

rec_status pieces_make_rooms(trainer *t) {
  const compute *c = t->of.where;
  int64_t most = 0;
  rec_status status = REC_OK;
  for (int i = 0; i < t->in->piece_count; i++) {
    const piece *p = &t->in->pieces[i];
    if (!optimizers[p->optimizer].room) continue;
    int64_t numbers = optimizers[p->optimizer].room(p->rows, p->columns);
    if (numbers > most) most = numbers;
  }
  if (!most) return REC_OK;
  int workers = t->threads;
  t->in->step_rooms = trainer_list(t, workers, sizeof *t->in->step_rooms);
  if (!t->in->step_rooms) return rec_no_memory();
  if (compute_is_host(c)) status = blas_reserve(workers);
  for (int i = 0; !status && i < workers; i++) status = c->ops->allocate(c, most * c->n->element_size, &t->in->step_rooms[i]);
  t->memory.moments += most * c->n->element_size * workers;
  return status;
}

// ---- a step -------------------------------------------------------------------------------------

static rec_status square_piece(void *context, int number, int worker) {
  trainer *t = context;
  (void)worker;
  const piece *p = &t->in->pieces[number];
  return t->of.where->ops->square_sum(t->of.where, gradients_sum(t) + p->place * t->of.n->element_size, p->count,
                                      &t->in->squares[number]);
}

// On a device at once, with the gaps between parameters, which are zero.
rec_status pieces_measure(trainer *t, double *squares) {
  const compute *c = t->of.where;
  *squares = 0;
  if (!compute_is_host(c)) return c->ops->square_sum(c, gradients_sum(t), t->of.model->parameter_elements, squares);
  rec_status status = train_pool_run(t->threads, t->in->piece_count, square_piece, t);
  for (int i = 0; i < t->in->piece_count; i++) *squares += t->in->squares[i];
  return status;
}

static rec_status step_piece(void *context, int number, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  const piece *p = &in->pieces[number];
  const int64_t size = t->of.n->element_size;
  const optimizer *o = &optimizers[p->optimizer];
  stepped_weights w = {.values = in->weights + p->place * size,
                       .gradient = gradients_sum(t) + p->place * size,
                       .room = in->step_rooms ? in->step_rooms[worker] : NULL,
                       .rows = p->rows,
                       .columns = p->columns,
                       .decays = p->decays};
  for (int i = 0; i < optimizer_rules_of[p->optimizer].states; i++)
    w.states[i] = in->moments + (trainer_moment(t, p->parameter, i) + p->first) * size;
  return o->step(t->of.where, &in->step, &w);
}

rec_status pieces_step(trainer *t) { return train_pool_run(t->threads, t->in->piece_count, step_piece, t); }
