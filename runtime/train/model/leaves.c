#include "runtime/train/model/leaves.h"

// A leaf costs a pass over a block of gradients, which a few hundred tokens outweigh. Few tokens
// are cut into as many leaves as keep threads busy; many tokens into so many that a cluster can
// share them.
static int64_t shards_of_part(int64_t sequences, int64_t context, bool host) {
  enum { HOST_LEAST = 128, HOST_MOST = 8192, FOR_THREADS = 16, DEVICE_MOST = 32768 };
  int64_t tokens = sequences * context;
  int64_t shards = host ? most_of(least_of(tokens / HOST_LEAST, FOR_THREADS), tokens / HOST_MOST)
                        : tokens / DEVICE_MOST;
  return most_of(least_of(shards, sequences), 1);
}

leaves leaves_of(const leaf_sizes *s) {
  int64_t shards = s->accumulate * shards_of_part(s->batch / s->accumulate, s->context, s->host);
  return (leaves){.sequences = s->batch, .shards = (int)shards, .segments = (int)s->segments};
}

int64_t leaves_first_sequence(const leaves *l, int shard) {
  return l->sequences * shard / l->shards;
}

int leaves_of_wave(int64_t parameters, int threads) {
  enum { LEAST = 2, FOR_THREADS = 16 };
  const int64_t most_numbers = (int64_t)1 << 27;  // of the blocks of a wave
  int64_t most = most_of(threads, FOR_THREADS);
  return (int)most_of(least_of(most, most_numbers / (parameters + 1)), LEAST);
}

leaf_range tree_range(tree_node n) {
  int64_t first = ((int64_t)n.count * n.number) >> n.level,
          end = ((int64_t)n.count * (n.number + 1)) >> n.level;
  return (leaf_range){(int)first, (int)end};
}

tree_node tree_left(tree_node n) { return (tree_node){n.count, n.level + 1, 2 * n.number}; }
tree_node tree_right(tree_node n) { return (tree_node){n.count, n.level + 1, 2 * n.number + 1}; }

int tree_level(int count, int most, int level) {
  while (((count - 1) >> level) + 1 > most) level++;
  return level;
}

int64_t tree_room(int count, int64_t width) { return tree_level(count, 1, 0) * width; }

void tree_sum(tree_node node, int64_t width, tree_leaf *leaf, void *context, double *to,
              double *room) {
  leaf_range covered = tree_range(node);
  if (covered.end - covered.first == 1) {
    leaf(context, covered.first, to);
    return;
  }
  tree_sum(tree_left(node), width, leaf, context, to, room);
  tree_sum(tree_right(node), width, leaf, context, room, room + width);
  for (int64_t i = 0; i < width; i++) to[i] += room[i];
}
