#include "runtime/train/trainer_parts.h"

#include <string.h>

#include "runtime/train/data/random.h"

void *trainer_zeroed(trainer *t, int64_t count) {
  int64_t bytes;
  void *memory = rec_multiply(count, t->of.n->element_size, &bytes) ? rec_numbers_new(bytes) : NULL;
  if (memory)
    memset(memory, 0, (size_t)bytes);
  else
    t->in->memory.failed = true;
  return memory;
}

void *trainer_list(trainer *t, int64_t count, size_t size) {
  return rec_blocks_list(&t->in->memory, count + 1, size);
}

message_place trainer_busy_with(const trainer *t, const char *what) {
  return (message_place){t->step, -1, what};
}

uint64_t trainer_stream(const char *what, const train_block *block) {
  char name[1024];
  size_t used = 0;
  for (const char *c = what; *c && used < sizeof name - 1; c++) name[used++] = *c;
  for (const char *c = block->name; *c && used < sizeof name - 1; c++) name[used++] = *c;
  name[used] = 0;
  return random_stream(name);
}

char *trainer_parameter(const trainer *t, void *block, int parameter) {
  return (char *)block + t->of.model->parameters[parameter].place * t->of.n->element_size;
}

// ---- sums over shards ---------------------------------------------------------------------------

owner_grid trainer_grid(const ranks *r, int rank) {
  int times = ranks_time_count(r);
  return (owner_grid){ranks_data_count(r), rank / times, times, rank % times};
}

tree_node trainer_own_node(const trainer *t) {
  owner_grid grid = trainer_grid(t->ranks, ranks_number(t->ranks));
  return (tree_node){t->in->share.all.shards, owners_round_count(grid.data_count), grid.data};
}

trainer_rows trainer_own_rows(const trainer *t) {
  return (trainer_rows){t->in->share.first_sequence, t->in->share.rows};
}

typedef struct shard_numbers {
  const double *by_shard;
  int64_t width;
  int first;
} shard_numbers;

static void of_shard(void *context, int number, double *to) {
  const shard_numbers *n = context;
  memcpy(to, n->by_shard + (number - n->first) * n->width, (size_t)n->width * sizeof *to);
}

void trainer_sum_shards(const trainer *t, const double *by_shard, int64_t width, double *sum) {
  shard_numbers list = {by_shard, width, t->in->share.own.first};
  tree_sum(trainer_own_node(t), width, of_shard, &list, sum, t->in->exchange.sum_room);
}
