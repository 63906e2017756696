#include "runtime/train/piece_list.h"

#include "runtime/train/model/leaves.h"

// Numbers of a parameter that one task sums and steps. On a device a piece has many threads of its
// own, and ends so that a large parameter can be shared out among ranks.
enum { PIECE_OF_DEVICE = 1 << 22 };

typedef struct maker {
  const train_model *model;
  const train_block *block;
  int64_t longest;
  piece_list *list;
} maker;

static bool parameter_decays(const maker *k, int parameter) {
  bool decays = k->model->parameters[parameter].decays;
  for (int i = 0; i < k->block->no_decay_count; i++)
    if (k->block->no_decay[i] == parameter) decays = false;
  return decays;
}

static void add_parameter_piece(const maker *k, int parameter, int64_t first, int64_t height,
                                int64_t width) {
  k->list->of[k->list->count++] = (piece){.place = k->model->parameters[parameter].place + first,
                                          .count = height * width,
                                          .parameter = parameter,
                                          .first = first,
                                          .rows = height,
                                          .columns = width,
                                          .optimizer = optimizer_of(k->model, k->block, parameter),
                                          .decays = parameter_decays(k, parameter)};
}

static void add_parameter_numbers(const maker *k, int parameter) {
  int64_t elements = k->model->parameters[parameter].elements;
  for (int64_t done = 0, count; done < elements; done += count) {
    count = elements - done < k->longest ? elements - done : k->longest;
    add_parameter_piece(k, parameter, done, 1, count);
  }
}

// The parts of a matrix, which are rows of it that make different things.
static void add_matrices(const maker *k, int parameter) {
  const model_parameter *p = &k->model->parameters[parameter];
  int64_t columns = p->shape[p->rank - 1];
  for (int i = 0; i < p->part_count; i++)
    if (p->parts[i].count)
      add_parameter_piece(k, parameter, p->parts[i].first, p->parts[i].count / columns, columns);
}

static void add_all(const maker *k) {
  piece_list *l = k->list;
  for (int i = 0; i < k->model->parameter_count; i++)
    if (optimizer_rules_of[optimizer_of(k->model, k->block, i)].matrices)
      add_matrices(k, i);
    else
      add_parameter_numbers(k, i);
  for (int i = 0; i < l->count; i++) l->before[i + 1] = l->before[i] + l->of[i].count;
}

void piece_list_make(rec_blocks *memory, const train_model *m, const train_block *block, bool host,
                     piece_list *made) {
  const maker k = {m, block, host ? PIECE : PIECE_OF_DEVICE, made};
  int64_t most = m->parameter_elements / PIECE + m->parameter_count + 1;
  for (int i = 0; i < m->parameter_count; i++) most += m->parameters[i].part_count;
  *made = (piece_list){.of = rec_blocks_list(memory, most, sizeof *made->of),
                       .before = rec_blocks_list(memory, most + 1, sizeof *made->before),
                       .numbers = m->parameter_elements};
  if (made->of && made->before) add_all(&k);
}

piece_range piece_list_slots(const piece_list *l, slot_range slots, int count) {
  return (piece_range){owners_first_piece(l->before, l->count, slots.first, count),
                       owners_first_piece(l->before, l->count, slots.end, count)};
}

int64_t piece_list_place(const piece_list *l, int number) {
  return number < l->count ? l->of[number].place : l->numbers;
}

number_range piece_list_numbers(const piece_list *l, slot_range slots, int count) {
  piece_range p = piece_list_slots(l, slots, count);
  int64_t place = piece_list_place(l, p.first);
  return (number_range){place, piece_list_place(l, p.end) - place};
}

int64_t piece_list_most(const piece_list *l, int count) {
  int most = 0;
  for (int i = 0; i < count; i++) {
    piece_range p = piece_list_slots(l, (slot_range){i, i + 1}, count);
    if (p.end - p.first > most) most = p.end - p.first;
  }
  return most;
}
