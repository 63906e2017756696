// The pieces of the weights that this process sums and steps, and the moments that optimizers keep
// for them.
#include "runtime/train/model/blas.h"
#include "runtime/train/trainer_parts.h"

enum { ALIGNED = 16 };  // numbers; a state of an optimizer begins at a multiple

// ---- pieces -------------------------------------------------------------------------------------

static void list_pieces(trainer *t) {
  trainer_internals *in = t->in;
  piece_list_make(&in->memory, t->of.model, t->block, compute_is_host(t->of.where),
                  &in->update.pieces);
  in->update.squares = trainer_list(t, in->update.pieces.count, sizeof *in->update.squares);
  if (!in->memory.failed) in->update.own = pieces_of_rank(t, ranks_number(t->ranks));
}

piece_range pieces_of_rank(const trainer *t, int rank) {
  owner_grid grid = trainer_grid(t->ranks, rank);
  int slot = owners_left(&grid).first + grid.time;
  return piece_list_slots(&t->in->update.pieces, (slot_range){slot, slot + 1},
                          ranks_count(t->ranks));
}

int64_t pieces_most_of_slot(const trainer *t) {
  return piece_list_most(&t->in->update.pieces, ranks_count(t->ranks));
}

number_range pieces_numbers(const trainer *t, slot_range slots) {
  return piece_list_numbers(&t->in->update.pieces, slots, ranks_count(t->ranks));
}

// ---- moments ------------------------------------------------------------------------------------

// The numbers of a parameter that are stepped here, all of whose states are aligned as the
// parameter is.
static number_range own_numbers(const trainer *t, int parameter) {
  const model_parameter *p = &t->of.model->parameters[parameter];
  int64_t first = piece_list_place(&t->in->update.pieces, t->in->update.own.first) - p->place,
          end = piece_list_place(&t->in->update.pieces, t->in->update.own.end) - p->place;
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
    t->moment_elements =
        trainer_moment(t, i, optimizer_rules_of[optimizer_of(m, t->block, i)].states).place;
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
  for (int i = t->in->update.own.first; i < t->in->update.own.end; i++) {
    const piece *p = &t->in->update.pieces.of[i];
    if (!optimizers[p->optimizer].room) continue;
    int64_t numbers = optimizers[p->optimizer].room(p->rows, p->columns);
    if (numbers > most) most = numbers;
  }
  if (!most) return REC_OK;
  int workers = t->threads;
  t->in->update.rooms = trainer_list(t, workers, sizeof *t->in->update.rooms);
  if (!t->in->update.rooms) return rec_no_memory();
  if (compute_is_host(c)) status = blas_reserve(workers);
  for (int i = 0; !status && i < workers; i++)
    status = c->ops->allocate(c, most * c->n->element_size, &t->in->update.rooms[i]);
  t->memory.moments += most * c->n->element_size * workers;
  return status;
}

// ---- a step -------------------------------------------------------------------------------------

static rec_status square_pieces(trainer *t, int first, int count) {
  value_list lists[SQUARES_AT_ONCE];
  for (int i = 0; i < count; i++) {
    const piece *p = &t->in->update.pieces.of[first + i];
    lists[i] = (value_list){gradients_sum(t) + p->place * t->of.n->element_size, p->count};
  }
  return t->of.where->ops->square_sums(t->of.where, lists, count, &t->in->update.squares[first]);
}

static rec_status square_piece(void *context, int place, int worker) {
  trainer *t = context;
  (void)worker;
  return square_pieces(t, t->in->update.own.first + place, 1);
}

static rec_status run_pieces(trainer *t, train_pool_task *task) {
  return train_pool_run(t->threads, t->in->update.own.end - t->in->update.own.first, task, t);
}

rec_status pieces_square(trainer *t) {
  piece_range own = t->in->update.own;
  rec_status status = REC_OK;
  if (compute_is_host(t->of.where)) return run_pieces(t, square_piece);
  for (int i = own.first; !status && i < own.end; i += SQUARES_AT_ONCE)
    status = square_pieces(t, i, own.end - i < SQUARES_AT_ONCE ? own.end - i : SQUARES_AT_ONCE);
  return status;
}

static rec_status step_piece(void *context, int place, int worker) {
  trainer *t = context;
  trainer_internals *in = t->in;
  const piece *p = &in->update.pieces.of[in->update.own.first + place];
  const int64_t size = t->of.n->element_size;
  const optimizer *o = &optimizers[p->optimizer];
  stepped_weights w = {.values = in->update.weights + p->place * size,
                       .gradient = gradients_sum(t) + p->place * size,
                       .room = in->update.rooms ? in->update.rooms[worker] : NULL,
                       .rows = p->rows,
                       .columns = p->columns,
                       .decays = p->decays};
  for (int i = 0; i < optimizer_rules_of[p->optimizer].states; i++) {
    moment_part m = trainer_moment(t, p->parameter, i);
    w.states[i] = in->update.moments + (m.place + p->first - m.first) * size;
  }
  return o->step(t->of.where, &in->update.step, &w);
}

rec_status pieces_step(trainer *t) {
  const piece_list *l = &t->in->update.pieces;
  spent_on_step(t, l->before[t->in->update.own.end] - l->before[t->in->update.own.first]);
  return run_pieces(t, step_piece);
}
