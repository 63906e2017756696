// The pieces of the weights: what one task sums and steps, and the moments that optimizers keep for them.
#include "runtime/train/model/blas.h"
#include "runtime/train/trainer_parts.h"

// Numbers of a parameter that one task sums and steps. On a device a piece has many threads of its own, and ends so that a large
// parameter can be shared out among ranks.
enum { PIECE_OF_DEVICE = 1 << 22 };

enum { ALIGNED = 16 };  // numbers; a state of an optimizer begins at a multiple

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

static void add_numbers(trainer *t, int parameter) {
  const int64_t longest = compute_is_host(t->of.where) ? PIECE : PIECE_OF_DEVICE;
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
  in->before_piece = trainer_list(t, most + 1, sizeof *in->before_piece);
  for (int i = 0; in->before_piece && i < in->piece_count; i++)
    in->before_piece[i + 1] = in->before_piece[i] + in->pieces[i].count;
  if (!in->memory.failed) in->own_pieces = pieces_of_rank(t, ranks_number(t->ranks));
}

static int first_of_slot(const trainer *t, int slot) {
  return owners_first_piece(t->in->before_piece, t->in->piece_count, slot, ranks_count(t->ranks));
}

piece_range pieces_of_rank(const trainer *t, int rank) {
  owner_grid grid = exchange_grid(t->ranks, rank);
  int slot = owners_left(&grid).first + grid.time;
  return (piece_range){first_of_slot(t, slot), first_of_slot(t, slot + 1)};
}

int64_t pieces_most_of_slot(const trainer *t) {
  int most = 0;
  for (int i = 0; i < ranks_count(t->ranks); i++) {
    int count = first_of_slot(t, i + 1) - first_of_slot(t, i);
    if (count > most) most = count;
  }
  return most;
}

static int64_t place_of_piece(const trainer *t, int number) {
  return number < t->in->piece_count ? t->in->pieces[number].place : t->of.model->parameter_elements;
}

number_range pieces_numbers(const trainer *t, slot_range slots) {
  int64_t place = place_of_piece(t, first_of_slot(t, slots.first));
  return (number_range){place, place_of_piece(t, first_of_slot(t, slots.end)) - place};
}

// ---- moments ------------------------------------------------------------------------------------

// The numbers of a parameter that are stepped here, all of whose states are aligned as the parameter is.
static number_range own_numbers(const trainer *t, int parameter) {
  const model_parameter *p = &t->of.model->parameters[parameter];
  int64_t first = place_of_piece(t, t->in->own_pieces.first) - p->place,
          end = place_of_piece(t, t->in->own_pieces.end) - p->place;
  if (first < 0) first = 0;
  if (end > p->elements) end = p->elements;
  return (number_range){first, end > first ? end - first : 0};
}

moment_part trainer_moment(const trainer *t, int parameter, int number) {
  number_range own = own_numbers(t, parameter);
  int64_t aligned = (own.count + ALIGNED - 1) / ALIGNED * ALIGNED;
  return (moment_part){own.place, own.count, t->moments_of[parameter] + number * aligned};
}

static void make_moments(trainer *t) {
  const train_model *m = t->of.model;
  t->moments_of = trainer_list(t, m->parameter_count, sizeof *t->moments_of);
  for (int i = 0; !t->in->memory.failed && i < m->parameter_count; i++) {
    t->moments_of[i] = t->moment_elements;
    t->moment_elements = trainer_moment(t, i, optimizer_rules_of[optimizer_of(m, t->block, i)].states).place;
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
  for (int i = t->in->own_pieces.first; i < t->in->own_pieces.end; i++) {
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

static rec_status square_piece(void *context, int place, int worker) {
  trainer *t = context;
  (void)worker;
  int number = t->in->own_pieces.first + place;
  const piece *p = &t->in->pieces[number];
  return t->of.where->ops->square_sum(t->of.where, gradients_sum(t) + p->place * t->of.n->element_size, p->count,
                                      &t->in->squares[number]);
}

static rec_status run_pieces(trainer *t, train_pool_task *task) {
  return train_pool_run(t->threads, t->in->own_pieces.end - t->in->own_pieces.first, task, t);
}

rec_status pieces_square(trainer *t) { return run_pieces(t, square_piece); }

static rec_status step_piece(void *context, int place, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  const piece *p = &in->pieces[in->own_pieces.first + place];
  const int64_t size = t->of.n->element_size;
  const optimizer *o = &optimizers[p->optimizer];
  stepped_weights w = {.values = in->weights + p->place * size,
                       .gradient = gradients_sum(t) + p->place * size,
                       .room = in->step_rooms ? in->step_rooms[worker] : NULL,
                       .rows = p->rows,
                       .columns = p->columns,
                       .decays = p->decays};
  for (int i = 0; i < optimizer_rules_of[p->optimizer].states; i++) {
    moment_part m = trainer_moment(t, p->parameter, i);
    w.states[i] = in->moments + (m.place + p->first - m.first) * size;
  }
  return o->step(t->of.where, &in->step, &w);
}

rec_status pieces_step(trainer *t) { return run_pieces(t, step_piece); }
