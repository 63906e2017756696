// The multiply-adds that `rec bench` measures against: those of the best hand-written kernels.
#include "runtime/limit.h"
#include "runtime/front.h"
#include "tests/unit/unit.h"

// GFLOP of 2048 steps with these sizes, by the order of the header.
static double gflop(const char *file, const char *name, const int64_t *sizes) {
  char path[512];
  rec_front *front;
  snprintf(path, sizeof path, REC_SOURCE_DIR "/stdlib/%s.rec", file);
  assert_int_equal(rec_front_new(path, NULL, 0, NULL, NULL, 0, stderr, &front), REC_OK);
  const recurrence *program = rec_front_find(front, name);
  assert_non_null(program);
  double result = 2 * rec_limit_forward(program, sizes) * 2048 / 1e9;
  rec_front_free(front);
  return result;
}

TEST(mamba2_is_counted_by_chunks) {
  double found = gflop("mamba2", "ssd", (int64_t[]){1, 24, 64, 128});
  assert_true(found > 1.70 && found < 1.72);
}

TEST(mamba1_is_counted_by_entries) {
  double found = gflop("mamba1", "selective_scan", (int64_t[]){1536, 16});
  assert_true(found > 0.90 && found < 0.92);
}

TEST(gla_is_counted_by_chunks) {
  double found = gflop("gla", "gla", (int64_t[]){8, 128, 128});
  assert_true(found > 1.16 && found < 1.20);
}

// Of 8 * 64 * 64 entries: GDN is read twice and written once, RWKV-7 is written with two keys, and
// two erasures of DeltaProduct are three reads and two writes.
TEST(low_rank_states_are_counted_by_reads_and_writes) {
  const int64_t sizes[] = {8, 64, 64, 2};
  double one = 2 * 8 * 64 * 64 * 2048 / 1e9;
  double gdn = gflop("gated_deltanet", "gated_deltanet", sizes) / one,
         rwkv7 = gflop("rwkv7", "rwkv7", sizes) / one,
         product = gflop("deltaproduct", "deltaproduct", sizes) / one;
  assert_true(gdn > 3 && gdn < 3.7);
  assert_true(rwkv7 > 4 && rwkv7 < 5);
  assert_true(product > 5 && product < 6.3);
}

// Two products with parts of B, two of which the real part is made of C and h, and one with D: no
// more than the five of a layer in real numbers.
TEST(lru_is_counted_by_real_products) {
  double products = 2 * 5 * 64 * 64 * 2048 / 1e9;
  double found = gflop("lru", "lru", (int64_t[]){64, 64, 64});
  assert_true(found > products && found < 1.04 * products);
}
