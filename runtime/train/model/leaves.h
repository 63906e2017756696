// The order in which the numbers of a batch are added: a binary tree that the program fixes,
// whatever threads and ranks there are.
//
// A leaf is what is computed whole: one shard of the sequences in one segment of the context.
// Shards are numbered as their sequences are, over all parts of the batch (`accumulate`). Each
// segment has a tree over its shards. A tree over the segments stands above these:
//
//   5 shards, 2 segments                the sum
//                             +------------+------------+
//                         segment 0                 segment 1
//                       +-----+-----+             +-----+-----+
//                    +--+--+     +--+--+       +--+--+     +--+--+
//                    0     1     2   +-+-+     0     1     2   +-+-+
//                                    3   4                     3   4
//
// A tree over n has 2^level nodes at each level. Node i of them covers n * i / 2^level and what
// follows, up to the first of node i + 1; a node that covers one is a leaf. With 2^level ranks,
// rank i thus has the shards of node i: it adds its own subtree, and the levels above are added
// along the same tree.
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
// a / b, rounded up.
static inline int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

typedef struct leaves {
  int64_t sequences;  // of the batch
  int shards;         // of all parts
  int segments;
} leaves;

// What decides the number of leaves.
typedef struct leaf_sizes {
  int64_t batch, accumulate, context, segments;
  bool host;  // a device runs more tokens at a time than a thread does
} leaf_sizes;

leaves leaves_of(const leaf_sizes *sizes);
// Shard s has the sequences from this of s to this of s + 1.
int64_t leaves_first_sequence(const leaves *l, int shard);

// The most shards of a process that run side by side, each into a block of `parameters` gradients.
// Waves are small where blocks are large. Two blocks take no more memory than one, for then one sum
// less waits.
int leaves_of_wave(int64_t parameters, int threads);

// numbers that one task of the host sums and steps: a piece is what ranks own
enum { PIECE = 1 << 14 };

typedef struct tree_node {
  int count;  // that the tree is over
  int level, number;
} tree_node;

typedef struct leaf_range {
  int first, end;
} leaf_range;

leaf_range tree_range(tree_node node);
tree_node tree_left(tree_node node);
tree_node tree_right(tree_node node);
// The first level whose nodes cover at most `most` each, from `level` on.
int tree_level(int count, int most, int level);

// Writes the numbers of one leaf.
typedef void tree_leaf(void *context, int leaf, double *to);
// The sum of `width` numbers over the leaves of a node. The room has tree_room(count, width)
// numbers.
void tree_sum(tree_node node, int64_t width, tree_leaf *leaf, void *context, double *to,
              double *room);
int64_t tree_room(int count, int64_t width);
