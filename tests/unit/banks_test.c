// Wavefronts of accesses by hand, and layouts in which accesses of products take no more than they
// must. Below a second.
#include "compiler/plan/plan.h"
#include "tests/unit/unit.h"

enum { LANES = 32, WORD = 4 };

// The address of lane n: what it has in common with its neighbours, and what not.
typedef int64_t address_of(int lane, int64_t row);

static int wavefronts(address_of *of, int64_t row, int bytes) {
  int64_t addresses[LANES];
  for (int lane = 0; lane < LANES; lane++) addresses[lane] = of(lane, row);
  return plan_wavefronts(addresses, bytes);
}

static int64_t same(int lane, int64_t row) { return lane * 0 + row; }
static int64_t neighbours(int lane, int64_t row) { return lane * row; }
static int64_t first_only(int lane, int64_t row) { return lane ? -1 : row; }
static int64_t halves_of_words(int lane, int64_t row) { return 2 * lane + row; }
static int64_t accumulators(int lane, int64_t row) {
  return WORD * (lane / 4 * row + 2 * (lane % 4));
}

TEST(wavefronts_are_words_of_the_busiest_bank) {
  assert_int_equal(wavefronts(same, 64, WORD), 1);
  assert_int_equal(wavefronts(neighbours, WORD, WORD), 1);
  assert_int_equal(wavefronts(neighbours, 2 * WORD, WORD), 2);
  assert_int_equal(wavefronts(neighbours, 32 * WORD, WORD), 32);
  assert_int_equal(wavefronts(neighbours, 33 * WORD, WORD), 1);
  assert_int_equal(wavefronts(neighbours, 16, 16), 4);
  assert_int_equal(wavefronts(neighbours, 128, 16), 32);
  assert_int_equal(wavefronts(first_only, 0, 16), 1);
  assert_int_equal(wavefronts(halves_of_words, 0, 2), 1);
  assert_int_equal(wavefronts(accumulators, 128, 8), 8);
  assert_int_equal(wavefronts(accumulators, 136, 8), 2);
}

// ---- patterns ----

// Rows and columns of the lanes, and how many numbers each takes.
typedef struct fragment {
  const char *name;
  int rows[LANES], columns[LANES], numbers;
} fragment;

static fragment accumulator(void) {
  fragment f = {.name = "accumulator", .numbers = 2};
  for (int lane = 0; lane < LANES; lane++)
    f.rows[lane] = lane / 4, f.columns[lane] = 2 * (lane % 4);
  return f;
}

// Of 16 bits: two rows of k side by side, which are two loads.
static fragment operand_b(void) {
  fragment f = {.name = "operand B", .numbers = 1};
  for (int lane = 0; lane < LANES; lane++)
    f.rows[lane] = 2 * (lane % 4), f.columns[lane] = lane / 4;
  return f;
}

static fragment matrices(void) {
  fragment f = {.name = "ldmatrix", .numbers = 4};
  for (int lane = 0; lane < LANES; lane++)
    f.rows[lane] = lane % 16, f.columns[lane] = lane / 16 * 4;
  return f;
}

// Four lanes to a column, 16 rows each.
static fragment scan(void) {
  fragment f = {.name = "scan", .numbers = 1};
  for (int lane = 0; lane < LANES; lane++) f.rows[lane] = lane / 8 * 16, f.columns[lane] = lane % 8;
  return f;
}

static int wavefronts_of(fragment f, plan_layout layout, int64_t row) {
  int64_t addresses[LANES];
  for (int lane = 0; lane < LANES; lane++)
    addresses[lane] =
        WORD * plan_offset_in(layout, NUMBER_F32, f.rows[lane] * row + f.columns[lane]);
  return plan_wavefronts(addresses, WORD * f.numbers);
}

TEST(patterns_have_no_conflicts) {
  for (int line = 5; line <= 8; line++) {
    int64_t row = (int64_t)1 << line;
    const plan_layout plain = {0}, lines = {PATTERN_LINES, line, 0},
                      pairs = {PATTERN_PAIRS, line, 0};
    const plan_layout gray = {PATTERN_GRAY, line, 0}, all = {PATTERN_MATRICES, line, 0},
                      both = {PATTERN_GRAY_AND_GROUPS, line, 4};
    assert_int_equal(wavefronts_of(accumulator(), plain, row), 8);
    assert_int_equal(wavefronts_of(operand_b(), plain, row), 4);
    assert_int_equal(wavefronts_of(matrices(), plain, row), 32);
    assert_int_equal(wavefronts_of(scan(), plain, row), 4);
    assert_int_equal(wavefronts_of(accumulator(), lines, row), 2);
    assert_int_equal(wavefronts_of(operand_b(), lines, row), 2);
    assert_int_equal(wavefronts_of(operand_b(), pairs, row), 1);
    assert_int_equal(wavefronts_of(accumulator(), gray, row), 2);
    assert_int_equal(wavefronts_of(operand_b(), gray, row), 1);
    assert_int_equal(wavefronts_of(matrices(), all, row), 4);
    assert_int_equal(wavefronts_of(accumulator(), all, row), 2);
    assert_int_equal(wavefronts_of(operand_b(), all, row), 1);
    assert_int_equal(wavefronts_of(scan(), both, row), 1);
    assert_int_equal(wavefronts_of(accumulator(), both, row), 2);
    assert_int_equal(wavefronts_of(operand_b(), both, row), 1);
  }
}

// Each number has one place, in its own block of banks, and vectors of 16 bytes stay whole.
TEST(patterns_move_vectors_within_blocks) {
  enum { NUMBERS = 4096, FOUR = 4 };
  for (plan_pattern pattern = 0; pattern < PATTERN_COUNT; pattern++) {
    plan_layout layout = {pattern, 6, pattern >= PATTERN_GROUPS ? 3 : 0};
    char taken[NUMBERS] = {0};
    for (int64_t at = 0; at < NUMBERS; at++) {
      int64_t to = plan_offset_in(layout, NUMBER_F32, at);
      assert_int_equal(to / PLAN_BANKS, at / PLAN_BANKS);
      assert_int_equal(to % FOUR, at % FOUR);
      assert_int_equal(taken[to]++, 0);
    }
  }
}
