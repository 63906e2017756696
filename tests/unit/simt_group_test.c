// wgmma in the executor against plain products: every size, type and layout of operands. Tables of
// where 16 bytes go, written a second time here, put operands into shared memory. Faults are each
// found for every seed.
#include "compiler/abi/library.h"
#include "compiler/abi/simt.h"
#include "runtime/support/narrow.h"
#include "runtime/support/simt/layout.h"
#include "runtime/support/simt/ops.h"

#include "tests/unit/unit.h"

enum { ROWS = 64, MOST_COLUMNS = 64, DEPTH = 16, SHARED = 49152, B_AT = 24576, THREADS = 256 };

// ---- layouts ---------------------------------------------------------------------------------

// The 16 bytes number `piece` of row number `row` of a matrix with so many numbers in a row. In
// groups of 8 rows, the pieces of 128 bytes trade places with those of the same 128 bytes:
static int place_of_piece(int width, int row, int piece) {
  static const int trades[3][8] = {
      {0, 0, 0, 0, 1, 1, 1, 1},  // 16: rows of 32 bytes, of which the second four trade
      {0, 0, 1, 1, 2, 2, 3, 3},  // 32
      {0, 1, 2, 3, 4, 5, 6, 7},  // 64
  };
  int kind = width == 16 ? 0 : width == 32 ? 1 : 2;
  int pieces = width / 8, group = row / 8 * 8 * pieces;
  return group + row % 8 * pieces + (piece ^ trades[kind][row % 8]);
}

TEST(test_pieces_cover_shared_memory_once) {
  for (int width = 16; width <= 64; width *= 2) {
    for (int transposed = 0; transposed < 2; transposed++) {
      int seen[64 * 64] = {0}, lines = 64, depth = transposed ? 16 : width;
      simt_matrix m = {0, (uint32_t)(depth * width * 2), (uint32_t)(8 * width * 2), width};
      for (int line = 0; line < lines; line++) {
        for (int k = 0; k < depth; k++) {
          uint32_t at = layout_operand(&m, line, k, transposed);
          int row = transposed ? k + line / width * depth : line,
              column = transposed ? line % width : k;
          assert_int_equal(at / 16, place_of_piece(width, row, column / 8));
          assert_int_equal(at % 16, 2 * (column % 8));
          assert_int_equal(seen[at / 2]++, 0);
        }
      }
    }
  }
}

TEST(test_sums_cover_each_element_once) {
  int count[ROWS][MOST_COLUMNS] = {{0}};
  for (int thread = 0; thread < 128; thread++) {
    for (int i = 0; i < MOST_COLUMNS / 2; i++) {
      simt_element at = layout_group_c(thread / 32, thread % 32, i);
      count[at.row][at.column]++;
      // two neighbours, then 8 rows below, then 8 columns on
      assert_int_equal(at.row, thread / 32 * 16 + i / 2 % 2 * 8 + thread % 32 / 4);
      assert_int_equal(at.column, i / 4 * 8 + i % 2 + thread % 4 * 2);
    }
  }
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < MOST_COLUMNS; column++) assert_int_equal(count[row][column], 1);
}

// ---- products --------------------------------------------------------------------------------

typedef struct trial {
  // depth: of several products, one behind the other
  int columns, width_a, width_b, trans_a, trans_b, depth;
  int scale;
  // twice: another product of the same operands is under way, and added in the end
  bool f16, registers, twice;
  uint16_t a[ROWS][64], b[MOST_COLUMNS][64];  // lines of k
  float c[ROWS][MOST_COLUMNS], d[ROWS][MOST_COLUMNS];
  int fault;  // what the kernel does wrong
} trial;

enum {
  NO_FAULT,
  NO_FENCE,  // of shared memory
  NO_BARRIER,
  NO_REGISTER_FENCE,
  NO_WAIT,
  NO_COMMIT,
  TOUCHED_SUMS,
  OVERWRITTEN,  // an operand, before the wait
  ONE_WARP_LESS,
  OTHER_OPERANDS,  // in one warp
  BETWEEN_ROWS,    // of a pattern of 8
  OVER_A_ROW,
  OTHER_STRIDE,
  FAULTS
};

static void put(int base, int width, int tile, int line, int k, int transposed, uint16_t bits) {
  int row = transposed ? k : line, column = transposed ? line : k;
  int at = base + column / width * tile + 16 * place_of_piece(width, row, column % width / 8) +
           2 * (column % 8);
  char *shared = simt_shared();
  simt_check_shared(shared + at, 2, 2, 1);
  memcpy(shared + at, &bits, 2);
}

// Bytes of what `width` columns of an operand take.
static int tile_of(int lines, int depth, int width, int transposed) {
  return (transposed ? depth : lines) * width * 2;
}

static uint64_t descriptor(int base, int tile, int width) {
  uint64_t mode = width == 64 ? 1 : width == 32 ? 2 : 3;
  return (uint64_t)(base >> 4) | (uint64_t)(tile >> 4) << 16 |
         (uint64_t)(8 * width * 2 >> 4) << 32 | mode << 62;
}

// Where the numbers from k on begin.
static int start_of(int base, int tile, int width, int k, int transposed) {
  return transposed ? base + k * width * 2 : base + k / width * tile + k % width * 2;
}

#define CALL(columns, op, ...)                            \
  case columns:                                           \
    if (t->f16) {                                         \
      simt_wgmma_##op##columns##_f16(d, c, __VA_ARGS__);  \
    } else {                                              \
      simt_wgmma_##op##columns##_bf16(d, c, __VA_ARGS__); \
    }                                                     \
    break;
#define ALL(op, ...)       \
  CALL(8, op, __VA_ARGS__) \
  CALL(16, op, __VA_ARGS__) CALL(32, op, __VA_ARGS__) CALL(64, op, __VA_ARGS__)

static void multiply(const trial *t, float *d, const float *c, uint64_t a, uint64_t b) {
  switch (t->columns) { ALL(n, a, b, t->scale, t->trans_a, t->trans_b) }
}
static void multiply_registers(const trial *t, float *d, const float *c, const uint32_t *a,
                               uint64_t b) {
  switch (t->columns) { ALL(registers_n, a, b, t->scale, t->trans_b) }
}
static void fence(const trial *t, float *d, const float *c) {
  switch (t->columns) {
    case 8: simt_wgmma_fence_n8(d, c); break;
    case 16: simt_wgmma_fence_n16(d, c); break;
    case 32: simt_wgmma_fence_n32(d, c); break;
    default: simt_wgmma_fence_n64(d, c);
  }
}
static void wait(const trial *t, float *d, const float *c) {
  switch (t->columns) {
    case 8: simt_wgmma_wait_n8(d, c); break;
    case 16: simt_wgmma_wait_n16(d, c); break;
    case 32: simt_wgmma_wait_n32(d, c); break;
    default: simt_wgmma_wait_n64(d, c);
  }
}

static void one_step(const trial *t, int thread, float *sums, int k) {
  float before[32];
  int tile_a = tile_of(ROWS, t->depth, t->width_a, t->trans_a);
  int tile_b = tile_of(t->columns, t->depth, t->width_b, t->trans_b);
  int other = t->fault == OTHER_OPERANDS && thread / 32 == 2 ? 1024
              : t->fault == BETWEEN_ROWS                     ? 128
              : t->fault == OVER_A_ROW                       ? 16
                                                             : 0;
  uint64_t a = descriptor(start_of(other, tile_a, t->width_a, k, t->trans_a), tile_a, t->width_a);
  uint64_t b = descriptor(start_of(B_AT, tile_b, t->width_b, k, t->trans_b), tile_b, t->width_b);
  if (t->fault == OTHER_STRIDE) b ^= UINT64_C(8) << 32;
  memcpy(before, sums, sizeof before);
  if (!t->registers) {
    multiply(t, sums, before, a, b);
    return;
  }
  uint32_t registers[4] = {0};
  for (int i = 0; i < 8; i++) {
    simt_element at = layout_group_a(thread / 32, thread % 32, i);
    registers[i / 2] |= (uint32_t)t->a[at.row][k + at.column] << 16 * (i % 2);
  }
  multiply_registers(t, sums, before, registers, b);
}

static void kernel_product(const void *parameters) {
  trial *t = (trial *)parameters;
  int thread = simt_thread_x();
  int tile_a = tile_of(ROWS, t->depth, t->width_a, t->trans_a);
  int tile_b = tile_of(t->columns, t->depth, t->width_b, t->trans_b);
  for (int i = thread; i < ROWS * t->depth; i += THREADS)
    put(0, t->width_a, tile_a, i % ROWS, i / ROWS, t->trans_a, t->a[i % ROWS][i / ROWS]);
  for (int i = thread; i < t->columns * t->depth; i += THREADS)
    put(B_AT, t->width_b, tile_b, i % t->columns, i / t->columns, t->trans_b,
        t->b[i % t->columns][i / t->columns]);
  if (t->fault != NO_FENCE) simt_fence_async();
  if (t->fault != NO_BARRIER) simt_barrier();
  // two warpgroups do the same
  float sums[32] = {0}, after[32] = {0};
  for (int i = 0; i < t->columns / 2; i++) {
    simt_element at = layout_group_c(thread / 32, thread % 32, i);
    sums[i] = t->c[at.row][at.column];
  }
  if (t->fault == ONE_WARP_LESS && thread / 32 == 1) return;
  if (t->fault != NO_REGISTER_FENCE) {
    fence(t, after, sums);
    memcpy(sums, after, sizeof sums);
  }
  float others[32] = {0};
  if (t->twice) fence(t, after, others);
  for (int k = 0; k < t->depth; k += DEPTH) {
    one_step(t, thread, sums, k);
    if (t->twice) one_step(t, thread, others, k);
    if (t->fault == TOUCHED_SUMS) sums[1] = 0;
  }
  if (t->fault != NO_COMMIT) simt_wgmma_commit();
  if (t->fault == OVERWRITTEN) {
    simt_barrier();
    put(B_AT, t->width_b, tile_b, thread % t->columns, 0, t->trans_b, 0);
    simt_barrier();
  }
  if (t->fault != NO_WAIT) {
    wait(t, after, sums);
    memcpy(sums, after, sizeof sums);
    if (t->twice) wait(t, after, others);
  }
  for (int i = 0; i < t->columns / 2; i++) {
    simt_element at = layout_group_c(thread / 32, thread % 32, i);
    if (t->twice) sums[i] += after[i];
    t->d[at.row][at.column] = sums[i];
  }
}

static simt_answer run(trial *t, uint64_t seed, char message[SIMT_MESSAGE]) {
  simt_launch launch = {.kernel = "k",
                        .function = kernel_product,
                        .parameters = t,
                        .blocks = 1,
                        .threads = THREADS,
                        .shared_bytes = SHARED,
                        .seed = seed};
  return simt_run(&launch, 0, 1, NULL, message);
}

static void fill(trial *t, uint32_t seed) {
  int stored = t->f16 ? REC_STORED_F16 : REC_STORED_BF16;
  for (int k = 0; k < 64; k++) {
    for (int line = 0; line < 64; line++) {
      seed = seed * 1664525u + 1013904223u;
      float a = (float)(seed >> 28) - 7, b = (float)(seed >> 20 & 15) - 8;
      rec_narrow(&t->a[line][k], &a, 1, stored);
      rec_narrow(&t->b[line][k], &b, 1, stored);
      t->c[line][k] = (float)(seed >> 12 & 255);
    }
  }
}

static void expect_product(trial *t) {
  int stored = t->f16 ? REC_STORED_F16 : REC_STORED_BF16;
  char message[SIMT_MESSAGE] = "";
  fill(t, (uint32_t)(t->columns + t->width_a + t->width_b + t->depth));
  if (run(t, 1, message) != SIMT_DONE) fail_msg("%s", message);
  for (int row = 0; row < ROWS; row++) {
    for (int column = 0; column < t->columns; column++) {
      float sum = t->c[row][column];  // whole numbers: no order of the sum rounds
      for (int k = 0; k < t->depth; k++)
        sum += (float)((t->twice ? 2 : 1) * t->scale) * rec_widen(t->a[row][k], stored) *
               rec_widen(t->b[column][k], stored);
      if (t->d[row][column] != sum)
        fail_msg("%d columns, rows of %d%s and %d%s: at %d, %d found %g, expected %g", t->columns,
                 t->width_a, t->trans_a ? " transposed" : "", t->width_b,
                 t->trans_b ? " transposed" : "", row, column, (double)t->d[row][column],
                 (double)sum);
    }
  }
}

TEST(test_products) {
  static trial t;
  for (int bits = 0; bits < 16; bits++) {
    for (int columns = 8; columns <= MOST_COLUMNS; columns *= 2) {
      for (int width = 16; width <= 64; width *= 2) {
        t = (trial){
            .columns = columns, .width_a = 16 + 48 * (bits & 1), .width_b = width, .depth = 32};
        t.trans_a = bits >> 1 & 1;
        t.trans_b = bits >> 2 & 1;
        t.registers = bits >> 3 & 1;
        t.twice = width == 16;
        t.scale = columns == 16 ? -1 : 1;
        t.f16 = width == 32;
        expect_product(&t);
      }
    }
  }
}

TEST(test_faults) {
  static const char *const found[FAULTS] = {
      [NO_FENCE] = "without a fence",
      [NO_BARRIER] = "race: a warpgroup multiplies",
      [NO_REGISTER_FENCE] = "registers that it has touched, with no fence",
      [NO_WAIT] = "ends with 4 products",
      [NO_COMMIT] = "ends with 4 products",
      [TOUCHED_SUMS] = "touches register 1 of sums",
      [OVERWRITTEN] = "race: ",
      [ONE_WARP_LESS] = "other warps of its warpgroup",
      [OTHER_OPERANDS] = "other warps of its warpgroup",
      [BETWEEN_ROWS] = "multiplies by a that begins 128 bytes behind a pattern of 1024",
      [OVER_A_ROW] = "multiplies by a from byte 112 to 144 of rows of 128",
      [OTHER_STRIDE] =
          "multiplies by b that begins 0 bytes behind a pattern of 1024, 8 rows after 1152 bytes",
  };
  static trial t;
  for (int fault = NO_FAULT + 1; fault < FAULTS; fault++) {
    for (uint64_t seed = 0; seed < 4; seed++) {
      char message[SIMT_MESSAGE] = "";
      t = (trial){
          .columns = 32, .width_a = 64, .width_b = 64, .depth = 64, .scale = 1, .fault = fault};
      fill(&t, 3);
      simt_answer answer = run(&t, seed, message);
      if (answer != SIMT_FAULT || !strstr(message, found[fault]))
        fail_msg("fault %d, seed %d: expected `%s`, found %d `%s`", fault, (int)seed, found[fault],
                 answer, message);
    }
  }
}
