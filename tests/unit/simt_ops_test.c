// The executor's ops against plain computations. Where a register lies in a matrix is derived a
// second time here, from 8 x 8 blocks instead of the formulas of runtime/support/simt/layout.h.
#include <math.h>

#include "compiler/abi/library.h"
#include "compiler/abi/simt.h"
#include "runtime/support/narrow.h"
#include "runtime/support/simt/layout.h"
#include "runtime/support/simt/ops.h"

#include "tests/unit/unit.h"

static void run(void (*kernel)(const void *), const void *parameters, int threads,
                int64_t shared_bytes) {
  char message[SIMT_MESSAGE] = "";
  for (uint64_t seed = 0; seed < 3; seed++) {
    simt_launch launch = {.kernel = "test",
                          .function = kernel,
                          .parameters = parameters,
                          .blocks = 1,
                          .threads = threads,
                          .shared_bytes = shared_bytes,
                          .seed = seed};
    simt_answer answer = simt_run(&launch, 0, 1, NULL, message);
    if (answer != SIMT_DONE) fail_msg("%s", message);
  }
}

// ---- layouts ---------------------------------------------------------------------------------

// The position of element `row`, `column` of a matrix of blocks. Blocks are numbered down the
// columns of blocks. A lane has `run` elements of a row of each block, and the rows of a block
// follow each other.
typedef struct place {
  int lane, element;
} place;

static place place_in_blocks(int row, int column, int block_rows, int block_columns,
                             int blocks_down, int run) {
  int block = row / block_rows + column / block_columns * blocks_down;
  int inside = row % block_rows * block_columns + column % block_columns;
  return (place){inside / run, block * run + inside % run};
}

static place place_a_16x16(int row, int column) { return place_in_blocks(row, column, 8, 8, 2, 2); }
static place place_b_16x8(int row, int column) { return place_in_blocks(column, row, 8, 8, 1, 2); }
static place place_c_16x8(int row, int column) { return place_in_blocks(row, column, 8, 8, 2, 2); }
static place place_a_16x8(int row, int column) { return place_in_blocks(row, column, 8, 4, 2, 1); }
static place place_b_8x8(int row, int column) { return place_in_blocks(column, row, 8, 4, 1, 1); }
static place place_load(int row, int column) { return place_in_blocks(row, column, 8, 8, 1, 2); }
static place place_load_trans(int row, int column) {
  return place_in_blocks(column, row, 8, 8, 1, 2);
}

typedef struct layout {
  const char *name;
  simt_element (*formula)(int lane, int element);
  place (*second)(int row, int column);
  int rows, columns, elements;
} layout;

static const layout layouts[] = {
    {"A 16 x 16", layout_a_16x16, place_a_16x16, 16, 16, 8},
    {"B 16 x 8", layout_b_16x8, place_b_16x8, 16, 8, 4},
    {"C 16 x 8", layout_c_16x8, place_c_16x8, 16, 8, 4},
    {"A 16 x 8, tf32", layout_a_16x8, place_a_16x8, 16, 8, 4},
    {"B 8 x 8, tf32", layout_b_8x8, place_b_8x8, 8, 8, 2},
    {"ldmatrix", layout_ldmatrix, place_load, 8, 8, 2},
    {"ldmatrix .trans", layout_ldmatrix_trans, place_load_trans, 8, 8, 2},
};

TEST(test_layouts_cover_each_element_once) {
  for (size_t n = 0; n < sizeof layouts / sizeof *layouts; n++) {
    const layout *l = &layouts[n];
    int count[16][16] = {{0}};
    for (int lane = 0; lane < SIMT_WARP; lane++) {
      for (int element = 0; element < l->elements; element++) {
        simt_element at = l->formula(lane, element);
        assert_in_range(at.row, 0, l->rows - 1);
        assert_in_range(at.column, 0, l->columns - 1);
        count[at.row][at.column]++;
        place second = l->second(at.row, at.column);
        if (second.lane != lane || second.element != element)
          fail_msg("%s: element %d of lane %d", l->name, element, lane);
      }
    }
    for (int row = 0; row < l->rows; row++)
      for (int column = 0; column < l->columns; column++) assert_int_equal(count[row][column], 1);
  }
}

// ---- threads, shuffles -----------------------------------------------------------------------

typedef struct numbers {
  float *out;
  int way;
} numbers;

static void kernel_shuffle(const void *parameters) {
  const numbers *p = parameters;
  int thread = simt_thread_x();
  float x = (float)thread;
  for (int by = 0; by < 32; by++) {
    float y = p->way == 0   ? simt_shfl_bfly_f32(x, by)
              : p->way == 1 ? simt_shfl_idx_f32(x, (by + thread) % 32)
              : p->way == 2 ? simt_shfl_down_f32(x, by)
                            : simt_shfl_up_f32(x, by);
    p->out[thread * 32 + by] = y;
  }
}

TEST(test_shuffles) {
  enum { THREADS = 96 };
  static float out[THREADS * 32];
  for (int way = 0; way < 4; way++) {
    run(kernel_shuffle, &(numbers){out, way}, THREADS, 0);
    for (int thread = 0; thread < THREADS; thread++) {
      int lane = thread % 32, warp = thread - lane;
      for (int by = 0; by < 32; by++) {
        int source = way == 0   ? lane ^ by
                     : way == 1 ? (by + lane) % 32
                     : way == 2 ? lane + by
                                : lane - by;
        if (source < 0 || source > 31) source = lane;
        assert_true(out[thread * 32 + by] == (float)(warp + source));
      }
    }
  }
}

// The sum of a block: through shared memory, with barriers.
static void kernel_sum(const void *parameters) {
  const numbers *p = parameters;
  int thread = simt_thread_x();
  float *shared = simt_shared(), x = (float)(thread + simt_block_x());
  for (int mask = 16; mask; mask /= 2) x += simt_shfl_bfly_f32(x, mask);
  if (thread % 32 == 0) {
    simt_check_shared(&shared[thread / 32], 4, 4, 1);
    shared[thread / 32] = x;
  }
  simt_barrier();
  float sum = 0;
  for (int w = 0; w < 4; w++) {
    simt_check_shared(&shared[w], 4, 4, 0);
    sum += shared[w];
  }
  p->out[simt_block_x() * 128 + thread] = sum;
}

TEST(test_blocks_on_any_threads) {
  enum { BLOCKS = 9 };
  static float out[BLOCKS * 128];
  char message[SIMT_MESSAGE] = "";
  simt_counts counts = {0};
  numbers p = {out, 0};
  simt_launch launch = {.kernel = "sum",
                        .function = kernel_sum,
                        .parameters = &p,
                        .blocks = BLOCKS,
                        .threads = 128,
                        .shared_bytes = 16};
  assert_int_equal(simt_run(&launch, 0, 4, &counts, message), SIMT_DONE);
  assert_int_equal(simt_run(&launch, 4, BLOCKS, &counts, message), SIMT_DONE);
  for (int i = 0; i < BLOCKS * 128; i++)
    assert_true(out[i] == (float)(128 * 127 / 2 + 128 * (i / 128)));
  assert_int_equal(counts.barriers, BLOCKS);
  assert_int_equal(counts.collectives, BLOCKS * 4 * 5);
}

// ---- ldmatrix --------------------------------------------------------------------------------

typedef struct loads {
  uint32_t (*out)[4];
  int count;
  bool transposed;
} loads;

// Rows of 16 bytes at distance 48, those of four matrices one behind the other.
static void kernel_load(const void *parameters) {
  const loads *p = parameters;
  int lane = simt_thread_x();
  char *shared = simt_shared(), *row = shared + lane * 48;
  for (int i = 0; i < 8; i++) {
    uint16_t half = (uint16_t)(lane * 8 + i);
    simt_check_shared(row + 2 * i, 2, 2, 1);
    memcpy(row + 2 * i, &half, 2);
  }
  simt_warp_barrier();
  uint32_t *to = p->out[lane];
  if (p->count == 2 && !p->transposed) simt_ldmatrix_x2(to, row);
  if (p->count == 4 && !p->transposed) simt_ldmatrix_x4(to, row);
  if (p->count == 2 && p->transposed) simt_ldmatrix_x2_trans(to, row);
  if (p->count == 4 && p->transposed) simt_ldmatrix_x4_trans(to, row);
}

TEST(test_ldmatrix) {
  static uint32_t out[32][4];
  for (int count = 2; count <= 4; count *= 2) {
    for (int transposed = 0; transposed < 2; transposed++) {
      run(kernel_load, &(loads){out, count, transposed}, 32, 32 * 48);
      for (int matrix = 0; matrix < count; matrix++) {
        for (int i = 0; i < 64; i++) {
          place at = transposed ? place_load_trans(i / 8, i % 8) : place_load(i / 8, i % 8);
          uint32_t half = out[at.lane][matrix] >> 16 * at.element & 0xffff;
          assert_int_equal(half, matrix * 64 + i);
        }
      }
    }
  }
}

// ---- products --------------------------------------------------------------------------------

typedef enum product_type { BF16, F16, TF32 } product_type;

typedef struct product_case {
  product_type type;
  int depth;
  float a[16][16], b[16][8], c[16][8], d[16][8];
} product_case;

static void put_half(uint32_t *registers, place at, float x, int stored) {
  uint16_t bits;
  rec_narrow(&bits, &x, 1, stored);
  registers[at.element / 2] |= (uint32_t)bits << 16 * (at.element % 2);
}

static void put(uint32_t *registers, place at, float x, product_type type) {
  if (type != TF32)
    put_half(registers, at, x, type == BF16 ? REC_STORED_BF16 : REC_STORED_F16);
  else
    memcpy(&registers[at.element], &x, sizeof x);
}

static void kernel_product(const void *parameters) {
  product_case *p = (product_case *)parameters;
  int lane = simt_thread_x();
  uint32_t a[4] = {0}, b[2] = {0};
  float c[4] = {0}, d[4];
  for (int row = 0; row < 16; row++) {
    for (int column = 0; column < p->depth; column++) {
      place at = p->type == TF32 ? place_a_16x8(row, column) : place_a_16x16(row, column);
      if (at.lane == lane) put(a, at, p->a[row][column], p->type);
    }
    for (int column = 0; column < 8; column++) {
      place at = p->type == TF32 ? place_b_8x8(row, column) : place_b_16x8(row, column);
      if (row < p->depth && at.lane == lane) put(b, at, p->b[row][column], p->type);
      at = place_c_16x8(row, column);
      if (at.lane == lane) c[at.element] = p->c[row][column];
    }
  }
  if (p->type == BF16)
    simt_mma_m16n8k16_bf16(d, a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]);
  if (p->type == F16)
    simt_mma_m16n8k16_f16(d, a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]);
  if (p->type == TF32)
    simt_mma_m16n8k8_tf32(d, a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++)
      if (place_c_16x8(row, column).lane == lane)
        p->d[row][column] = d[place_c_16x8(row, column).element];
}

// Small whole numbers: exact in every type, with sums that are exact, too.
TEST(test_products) {
  static product_case p;
  uint32_t random = 1;
  for (p.type = BF16; p.type <= TF32; p.type++) {
    p.depth = p.type == TF32 ? 8 : 16;
    for (int i = 0; i < 16; i++) {
      for (int k = 0; k < 16; k++)
        p.a[i][k] = (float)((int)((random = random * 1664525 + 1013904223) >> 24) - 128);
      for (int k = 0; k < 8; k++) {
        p.b[i][k] = (float)((int)((random = random * 1664525 + 1013904223) >> 26) - 32);
        p.c[i][k] = (float)i - (float)k / 8;
      }
    }
    run(kernel_product, &p, 32, 0);
    for (int i = 0; i < 16; i++) {
      for (int j = 0; j < 8; j++) {
        double sum = p.c[i][j];
        for (int k = 0; k < p.depth; k++) sum += (double)p.a[i][k] * p.b[k][j];
        assert_true(p.d[i][j] == (float)sum);
      }
    }
  }
}

// tf32 reads 10 bits behind the point.
TEST(test_tf32_reads_19_bits) {
  static product_case p = {.type = TF32, .depth = 8};
  p.a[3][5] = 1 + 0x1p-10f + 0x1p-11f;
  p.b[5][2] = 1;
  run(kernel_product, &p, 32, 0);
  assert_true(p.d[3][2] == 1 + 0x1p-10f);
}

// ---- asynchronous copies ---------------------------------------------------------------------

typedef struct copies {
  const float *from;
  float *to;
} copies;

static void kernel_copy(const void *parameters) {
  const copies *p = parameters;
  int thread = simt_thread_x();
  float *shared = simt_shared();
  simt_cp_async16(shared + 4 * thread, p->from + 4 * thread, thread % 2 ? 16 : 8);
  simt_cp_async_commit();
  simt_cp_async4(shared + 128 + thread, p->from + thread, 4);
  simt_cp_async_commit();
  simt_cp_async_wait_1();
  for (int i = 0; i < 4; i++) {
    simt_check_shared(&shared[4 * thread + i], 4, 4, 0);
    p->to[4 * thread + i] = shared[4 * thread + i];
  }
  simt_cp_async_wait_0();
  simt_barrier();
  int other = (thread + 7) % 32;
  simt_check_shared(&shared[128 + other], 4, 4, 0);
  p->to[128 + thread] = shared[128 + other];
}

TEST(test_copies_land_when_waited_for) {
  static float from[128], to[160];
  for (int i = 0; i < 128; i++) from[i] = (float)i + 1;
  run(kernel_copy, &(copies){from, to}, 32, 1024);
  for (int i = 0; i < 128; i++) assert_true(to[i] == (i % 8 == 2 || i % 8 == 3 ? 0 : from[i]));
  for (int i = 0; i < 32; i++) assert_true(to[128 + i] == from[(i + 7) % 32]);
}

// ---- numbers ---------------------------------------------------------------------------------

static float tf32_number(float x) {
  uint32_t bits = simt_cvt_tf32(x);
  memcpy(&x, &bits, sizeof x);
  return x;
}

TEST(test_conversions) {
  assert_int_equal(simt_cvt_bf16x2(1.0f, -2.0f), 0xc0003f80);
  assert_int_equal(simt_cvt_f16x2(1.0f, -2.0f), 0xc0003c00);
  assert_int_equal(simt_cvt_bf16x2(1 + 0x1p-8f, 1 + 3 * 0x1p-8f), 0x3f823f80);  // ties to even
  assert_true(tf32_number(1 + 0x1p-11f) == 1 + 0x1p-10f);                       // ties away
  assert_true(tf32_number(-1 - 0x1p-11f) == -1 - 0x1p-10f);
  assert_true(tf32_number(1 + 0x1p-12f) == 1);
  assert_true(isinf(tf32_number(INFINITY)) && isnan(tf32_number(NAN)));
}

TEST(test_functions) {
  assert_true(simt_exp2_f32(3) == 8 && simt_exp2_f32(-126) == 0x1p-126f);
  assert_true(simt_exp2_f32(-127) == 0 && simt_exp2_f32(-INFINITY) == 0);
  assert_true(simt_log2_f32(0.25f) == -2 && simt_log2_f32(0x1p-130f) == -130);
  assert_true(simt_rcp_f32(4) == 0.25f && simt_rcp_f32(0x1p127f) == 0);
  assert_true(simt_rcp_f32(-0x1p-127f) == -INFINITY);
  assert_true(simt_rsqrt_f32(4) == 0.5f && isnan(simt_rsqrt_f32(-1)) &&
              simt_rsqrt_f32(0x1p-128f) == 0x1p64f);
  assert_true(simt_sqrt_f32(0.25f) == 0.5f && simt_sqrt_f32(0) == 0 &&
              simt_sqrt_f32(0x1p-128f) == 0x1p-64f);
  assert_true(simt_div_f32(0x1p127f, -0x1p127f) == -1 && simt_div_f32(0x1p-126f, 0x1p-127f) == 2);
}
