// Which rank owns which slot of the weights: after all rounds every slot has one owner, and has met
// every rank's sum once.
#include <stdbool.h>

#include "runtime/train/owners.h"

#include "tests/unit/unit.h"

enum { MOST = 32 };

// summed[rank][slot]: which ranks' numbers are in it, as bits. A rank gives what its partner keeps.
static void run_rounds(int data_count, int time_count, uint64_t summed[MOST][MOST]) {
  owner_grid grid = {data_count, 0, time_count, 0};
  for (int i = 0; i < MOST; i++)
    for (int k = 0; k < MOST; k++) summed[i][k] = (uint64_t)1 << i;
  for (int r = 0; r < owners_round_count(data_count); r++) {
    uint64_t before[MOST][MOST];
    memcpy(before, summed, sizeof before);
    for (grid.data = 0; grid.data < data_count; grid.data++) {
      owner_round own = owners_round(&grid, r);
      owner_grid there = {data_count, own.partner, time_count, 0};
      owner_round other = owners_round(&there, r);
      assert_int_equal(other.partner, grid.data);
      assert_memory_equal(&own.keeps, &other.gives, sizeof own.keeps);
      assert_memory_equal(&own.gives, &other.keeps, sizeof own.keeps);
      for (int k = own.keeps.first; k < own.keeps.end; k++) {
        assert_int_equal(before[grid.data][k] & before[own.partner][k], 0);
        summed[grid.data][k] |= before[own.partner][k];
      }
    }
  }
}

TEST(every_slot_ends_whole_with_one_owner) {
  static uint64_t summed[MOST][MOST];
  for (int data_count = 1; data_count <= 8; data_count *= 2)
    for (int time_count = 1; time_count <= 4; time_count++) {
      bool owned[MOST] = {false};
      run_rounds(data_count, time_count, summed);
      for (int data = 0; data < data_count; data++) {
        owner_grid grid = {data_count, data, time_count, 0};
        slot_range left = owners_left(&grid);
        assert_int_equal(left.end - left.first, time_count);
        for (int k = left.first; k < left.end; k++) {
          assert_false(owned[k]);
          owned[k] = true;
          assert_true(summed[data][k] == ((uint64_t)1 << data_count) - 1);
        }
      }
      for (int k = 0; k < data_count * time_count; k++) assert_true(owned[k]);
    }
}

// The tree of leaves.h adds neighbours first: what two ranks exchange, both have of the same number
// of neighbouring ranks.
TEST(rounds_follow_the_tree) {
  for (int data = 0; data < 8; data++)
    for (int round = 0; round < 3; round++) {
      owner_grid grid = {8, data, 1, 0};
      assert_int_equal(owners_round(&grid, round).partner >> (round + 1), data >> (round + 1));
    }
}

TEST(slots_are_of_equal_size_but_for_a_piece) {
  enum { PIECES = 40 };
  int64_t before[PIECES + 1] = {0}, most = 0;
  for (int i = 0; i < PIECES; i++) {
    int64_t count = 1 + i * 37 % 19;
    before[i + 1] = before[i] + count;
    if (count > most) most = count;
  }
  for (int slots = 1; slots <= 64; slots++) {
    assert_int_equal(owners_first_piece(before, PIECES, 0, slots), 0);
    assert_int_equal(owners_first_piece(before, PIECES, slots, slots), PIECES);
    for (int k = 0; k < slots; k++) {
      int first = owners_first_piece(before, PIECES, k, slots),
          end = owners_first_piece(before, PIECES, k + 1, slots);
      assert_true(first <= end);
      assert_true(before[end] - before[first] <= before[PIECES] / slots + most + 1);
      assert_int_equal(first, owners_first_piece(before, PIECES, 2 * k, 2 * slots));
    }
  }
}
