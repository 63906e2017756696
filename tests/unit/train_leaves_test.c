// The tree that sums follow: its nodes, and that a sum has the same bits however many processes
// share the tree.
#include "runtime/train/model/leaves.h"

#include "tests/unit/unit.h"

enum { MOST = 70, WIDTH = 2, ROOM = 8 * WIDTH };

// Numbers whose sum depends on the order.
static void number_of(void *context, int leaf, double *to) {
  const double *factor = context;
  for (int i = 0; i < WIDTH; i++) to[i] = *factor / (double)(3 * leaf + i + 1);
}

TEST(a_level_covers_every_leaf_once) {
  for (int count = 1; count <= MOST; count++)
    for (int level = 0; level < 8; level++) {
      int next = 0;
      for (int i = 0; i < 1 << level; i++) {
        leaf_range covered = tree_range((tree_node){count, level, i});
        assert_int_equal(covered.first, next);
        assert_true(covered.end > covered.first || 1 << level > count);
        next = covered.end;
      }
      assert_int_equal(next, count);
    }
}

TEST(a_node_is_its_two_halves) {
  for (int count = 2; count <= MOST; count++)
    for (int level = 0; 1 << level <= count; level++)
      for (int i = 0; i < 1 << level; i++) {
        tree_node node = {count, level, i};
        leaf_range covered = tree_range(node), left = tree_range(tree_left(node)),
                   right = tree_range(tree_right(node));
        if (covered.end - covered.first == 1) continue;
        assert_true(left.first == covered.first && left.end == right.first &&
                    right.end == covered.end);
        assert_true(left.end > left.first && right.end > right.first);
      }
}

TEST(levels_are_as_narrow_as_asked_for) {
  for (int count = 1; count <= MOST; count++)
    for (int most = 2; most <= 20; most++) {
      int level = tree_level(count, most, 0);
      for (int i = 0; i < 1 << level; i++) {
        leaf_range covered = tree_range((tree_node){count, level, i});
        assert_true(covered.end - covered.first <= most && covered.end > covered.first);
      }
      assert_int_equal(tree_level(count, most, level + 2), level + 2);
    }
}

// What each of 2^level processes has summed is one leaf of a tree over the processes.
typedef struct processes {
  int count, level;
} processes;

static double factor = 1.1;

static void sum_of_process(void *context, int process, double *to) {
  const processes *p = context;
  double room[ROOM];
  tree_sum((tree_node){p->count, p->level, process}, WIDTH, number_of, &factor, to, room);
}

TEST(processes_do_not_change_a_bit) {
  int differ = 0;
  for (int count = 1; count <= MOST; count++) {
    double whole[WIDTH], left_to_right[WIDTH] = {0}, one[WIDTH], room[ROOM];
    tree_sum((tree_node){count, 0, 0}, WIDTH, number_of, &factor, whole, room);
    for (int i = 0; i < count; i++) {
      number_of(&factor, i, one);
      left_to_right[0] += one[0];
    }
    differ += left_to_right[0] != whole[0];
    for (int level = 1; 1 << level <= count; level++) {
      processes p = {count, level};
      double shared[WIDTH];
      tree_sum((tree_node){1 << level, 0, 0}, WIDTH, sum_of_process, &p, shared, room);
      assert_memory_equal(shared, whole, sizeof whole);
    }
  }
  assert_true(differ > MOST / 2);
}

TEST(sizes_alone_decide_the_leaves) {
  const struct {
    leaf_sizes sizes;
    int shards;
  } cases[] = {
      {{13, 1, 32, 1, true}, 3},       {{32, 1, 32, 1, true}, 8},    {{32, 4, 32, 1, true}, 8},
      {{8, 1, 512, 1, true}, 8},       {{64, 1, 512, 1, true}, 16},  {{256, 1, 2048, 1, true}, 64},
      {{1024, 4, 2048, 1, true}, 256}, {{64, 1, 512, 1, false}, 1},  {{256, 1, 2048, 1, false}, 16},
      {{1, 1, 8, 1, true}, 1},         {{3, 3, 100000, 4, true}, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    leaves l = leaves_of(&cases[i].sizes);
    assert_int_equal(l.shards, cases[i].shards);
    assert_int_equal(l.segments, cases[i].sizes.segments);
    assert_int_equal(leaves_first_sequence(&l, 0), 0);
    assert_int_equal(leaves_first_sequence(&l, l.shards), cases[i].sizes.batch);
    for (int s = 0; s < l.shards; s++)
      assert_true(leaves_first_sequence(&l, s) < leaves_first_sequence(&l, s + 1));
  }
}
