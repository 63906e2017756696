// What the executor counts, against access patterns whose wavefronts and sectors are known by hand:
// shared memory has 32 banks of 4 bytes, sectors of global memory have 32 bytes.
#include "compiler/abi/gpu_costs.h"
#include "runtime/support/simt/ops.h"
#include "tests/unit/unit.h"

#include "compiler/abi/simt.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"  // kernels share a signature

enum { SHARED = 64 << 10, MMA_RATE = 1024, CACHE_RATE = 16 };

static const simt_place place = {.number = 1, .kernel = "k", .file = "", .text = "here"};

static simt_place_cost run_threads(void (*kernel)(const void *), const void *parameters,
                                   int threads) {
  char message[SIMT_MESSAGE] = "";
  simt_cost cost = {.speed = {.mma = MMA_RATE, .cache = CACHE_RATE}};
  simt_launch launch = {.kernel = "k",
                        .function = kernel,
                        .parameters = parameters,
                        .blocks = 1,
                        .threads = threads,
                        .shared_bytes = SHARED,
                        .cost = &cost};
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_DONE);
  assert_true(cost.count > place.number);
  simt_place_cost found = cost.costs[place.number];
  free(cost.places);
  free(cost.costs);
  return found;
}

static simt_place_cost run(void (*kernel)(const void *), const void *parameters) {
  return run_threads(kernel, parameters, SIMT_WARP);
}

// ---- loads of shared memory ------------------------------------------------------------------

typedef struct pattern {
  const char *name;
  int bytes, stride, lanes;  // of a lane; between lanes; of the first lanes alone
  // vectors of 16 bytes in rows of 128 lie at (vector ^ row), 0: they do not
  int swizzle;
  int wavefronts, ideal;
} pattern;

static uint32_t offset_of(const pattern *p, int lane) {
  uint32_t at = (uint32_t)(lane * p->stride);
  return p->swizzle ? at ^ (at >> 7 & 7) << 4 : at;
}

static void load_by_pattern(const void *parameters) {
  const pattern *p = parameters;
  int lane = simt_thread_x();
  simt_count_place(&place);
  if (lane < p->lanes)
    simt_count_access((char *)simt_shared() + offset_of(p, lane), p->bytes, p->bytes, false, 0);
}

TEST(test_wavefronts) {
  static const pattern patterns[] = {
      {"a word each, side by side", 4, 4, 32, 0, 1, 1},
      {"all lanes the same word", 4, 0, 32, 0, 1, 1},
      {"16 bits each, side by side: two lanes share a word", 2, 2, 32, 0, 1, 1},
      {"every second word: two of each bank", 4, 8, 32, 0, 2, 1},
      {"every fourth word", 4, 16, 32, 0, 4, 1},
      {"every third word: an odd stride", 4, 12, 32, 0, 1, 1},
      {"a column of rows of 128 bytes: one bank", 4, 128, 32, 0, 32, 1},
      {"the same column of rows of 132 bytes", 4, 132, 32, 0, 1, 1},
      {"16 bits of a column of rows of 32 bytes", 2, 32, 32, 0, 8, 1},
      {"8 lanes of that column", 2, 32, 8, 0, 2, 1},
      {"8 bytes each: half a warp at a time", 8, 8, 32, 0, 2, 2},
      {"8 bytes each, all the same", 8, 0, 32, 0, 2, 2},
      {"8 bytes each, 16 lanes", 8, 8, 16, 0, 1, 1},
      {"16 bytes each: 8 lanes at a time", 16, 16, 32, 0, 4, 4},
      {"16 bytes each, 8 lanes", 16, 16, 8, 0, 1, 1},
      {"16 bytes each of rows of 32 bytes", 16, 32, 32, 0, 8, 4},
      {"16 bytes each of rows of 128 bytes", 16, 128, 32, 0, 32, 4},
      {"the same of rows of 144 bytes", 16, 144, 32, 0, 4, 4},
      {"the same, swizzled by the row", 16, 128, 32, 1, 4, 4},
      {"no lane", 4, 4, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    const pattern *p = &patterns[i];
    simt_place_cost found = {0};
    if (p->lanes) found = run(load_by_pattern, p);
    if (found.work.wavefronts != p->wavefronts || found.least_wavefronts != p->ideal)
      fail_msg("%s: expected %d wavefronts and %d at best, found %g and %g", p->name, p->wavefronts,
               p->ideal, found.work.wavefronts, found.least_wavefronts);
  }
}

// ---- executions ------------------------------------------------------------------------------

// Lane i loads word k in turn k, lanes one after the other: the warp's access is of all lanes'
// k-th.
static void load_in_turns(const void *parameters) {
  simt_count_place(&place);
  for (int turn = 0; turn < 3; turn++)
    simt_count_access((char *)simt_shared() + 4 * simt_thread_x() + 128 * turn, 4, 4, false, 0);
}

TEST(test_turns) {
  simt_place_cost found = run(load_in_turns, NULL);
  assert_true(found.work.wavefronts == 3 && found.least_wavefronts == 3);
}

// An access of 16 bytes that is known to lie at multiples of 4 alone is four of them.
static void load_unaligned(const void *parameters) {
  simt_count_place(&place);
  simt_count_access((char *)simt_shared() + 16 * simt_thread_x(), 16, 4, false, 0);
}

TEST(test_pieces) {
  simt_place_cost found = run(load_unaligned, NULL);
  // words 4 apart: 4 of each bank
  assert_true(found.least_wavefronts == 4 && found.work.wavefronts == 16);
}

static const simt_segment two_adds = {
    .number = 0, .issued = 3, .counts = {[SIMT_FP32] = 2, [SIMT_EXP] = 1, [SIMT_MOVE] = 7}};

// 8 lanes of the first warp run the segment 5 times, all others of the two warps once.
static void run_segments(const void *parameters) {
  simt_count_place(&place);
  for (int turn = 0; turn < (simt_thread_x() < 8 ? 5 : 1); turn++) simt_count_segment(&two_adds);
  simt_barrier();
}

TEST(test_segments) {
  simt_place_cost found = run_threads(run_segments, NULL, 2 * SIMT_WARP);
  assert_true(found.instructions[SIMT_FP32] == 2 * (5 + 1) &&
              found.instructions[SIMT_EXP] == 5 + 1);
  assert_true(found.work.instructions == 3 * (5 + 1) && found.work.busiest == 3 * 5);
  assert_true(found.lanes == 3 * (8 * 5 + 24 * 1 + 32));
  assert_true(found.work.barriers == 1);
  double busiest = gpu_cost_swift * 3 * 5 + GPU_COST_BARRIER_CYCLES;
  assert_float_equal(found.cycles[0], busiest, 1e-9);
  assert_float_equal(found.bound[GPU_LIMIT_WARP], gpu_cost_swift * 3 * 5, 1e-9);
  double at_work = (8 * 5 + 24 * 1 + 32) / (5.0 * 2 * SIMT_WARP);
  assert_float_equal(found.worked, at_work * found.cycles[SIMT_PACES - 1], 1e-9);
}

// A warp in each of two places: together they keep all threads at work.
static void run_beside(const void *parameters) {
  static const simt_place other = {.number = 0, .kernel = "k", .file = "", .text = "beside"};
  simt_count_place(simt_thread_x() < SIMT_WARP ? &place : &other);
  simt_count_segment(&two_adds);
}

TEST(test_beside) {
  simt_place_cost found = run_threads(run_beside, NULL, 2 * SIMT_WARP);
  assert_true(found.work.instructions == 3);
  assert_float_equal(found.worked, found.cycles[SIMT_PACES - 1], 1e-9);
}

// Products: 16 x 8 x 16 multiply-adds each.
static const simt_segment eight_products = {.number = 0, .issued = 8, .counts = {[SIMT_MMA] = 8}};

static void run_products(const void *parameters) {
  simt_count_place(&place);
  simt_count_segment(&eight_products);
}

TEST(test_products) {
  simt_place_cost found = run(run_products, NULL);
  double cycles = gpu_cost_mma_slack * 8 * 16 * 8 * 16 / MMA_RATE;
  assert_float_equal(found.bound[GPU_LIMIT_TENSOR], cycles, 1e-9);
}

// ---- ldmatrix --------------------------------------------------------------------------------

// Rows of 16 bytes of four matrices, so far apart; 8 rows are read at a time.
typedef struct rows {
  const char *name;
  int row, swizzle, wavefronts;
} rows;

static void load_matrices(const void *parameters) {
  const rows *r = parameters;
  uint32_t registers[4];
  int lane = simt_thread_x();
  uint32_t at = (uint32_t)(lane % 8 * r->row + lane / 8 * 16);
  if (r->swizzle) at ^= (at >> 7 & 7) << 4;
  simt_count_place(&place);
  simt_ldmatrix_x4(registers, (char *)simt_shared() + at);
}

TEST(test_ldmatrix) {
  static const rows all[] = {
      {"rows of 128 bytes: one group of banks", 128, 0, 32},
      {"rows of 128 bytes, swizzled", 128, 1, 4},
      {"rows of 144 bytes", 144, 0, 4},
      {"rows of 64 bytes: two rows side by side", 64, 0, 16},
      {"rows of 16 bytes, one behind the other", 16, 0, 4},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    simt_place_cost found = run(load_matrices, &all[i]);
    if (found.work.wavefronts != all[i].wavefronts || found.least_wavefronts != 4)
      fail_msg("%s: expected %d wavefronts and 4 at best, found %g and %g", all[i].name,
               all[i].wavefronts, found.work.wavefronts, found.least_wavefronts);
  }
}

// ---- products of warpgroups ------------------------------------------------------------------

// 64 x 16 by 16 x 8, operands in rows of 128 bytes, 8 rows after 1,024.
static void multiply_group(const void *parameters) {
  enum { SWIZZLE_128 = 1, B_AT = 8192 };
  const uint64_t operand = (uint64_t)(1024 >> 4) << 32 | (uint64_t)SWIZZLE_128 << 62;
  float c[4] = {0}, d[4];
  simt_count_place(&place);
  simt_wgmma_fence_n8(d, c);
  simt_wgmma_n8_bf16(d, d, operand, operand | B_AT >> 4, 1, 0, 0);
  simt_wgmma_commit();
  simt_wgmma_wait_n8(d, d);
}

TEST(test_group_product) {
  simt_place_cost found = run_threads(multiply_group, NULL, 4 * SIMT_WARP);
  // 64 rows of a and 8 columns of b, 32 bytes each, once for the four warps
  assert_true(found.work.wavefronts == (64 + 8) * 32 / 128 &&
              found.least_wavefronts == found.work.wavefronts);
  assert_float_equal(found.work.groups, 64 * 8 * 16, 1e-9);
}

// ---- global memory ---------------------------------------------------------------------------

typedef struct reads {
  const char *name;
  int bytes, stride, shift;
  int sectors, ideal;
} reads;

static _Alignas(128) char memory[32 * 256];

static void load_global(const void *parameters) {
  const reads *r = parameters;
  simt_count_place(&place);
  simt_count_access(memory + r->shift + simt_thread_x() * r->stride, r->bytes, r->bytes, true, 0);
}

TEST(test_sectors) {
  static const reads all[] = {
      {"a word each, side by side", 4, 4, 0, 4, 4},
      {"the same, shifted by a word", 4, 4, 4, 5, 4},
      {"16 bits each, side by side", 2, 2, 0, 2, 2},
      {"16 bits of rows of 256 bytes: a sector each", 2, 256, 0, 32, 2},
      {"16 bytes each, side by side", 16, 16, 0, 16, 16},
      {"all lanes the same word", 4, 0, 0, 1, 1},
      {"every second word", 4, 8, 0, 8, 4},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    simt_place_cost found = run(load_global, &all[i]);
    if (found.work.bytes != all[i].sectors * SIMT_SECTOR || found.least_sectors != all[i].ideal)
      fail_msg("%s: expected %d sectors and %d at best, found %g and %g", all[i].name,
               all[i].sectors, all[i].ideal, found.work.bytes / SIMT_SECTOR, found.least_sectors);
  }
}

// Between two barriers a block takes no less time than its bytes of the second-level cache do.
TEST(test_cache_bound) {
  const reads each = {"a sector each", 4, 256, 0, 32, 4};
  simt_place_cost found = run(load_global, &each);
  double cycles = 32.0 * SIMT_SECTOR / CACHE_RATE;
  assert_float_equal(found.bound[GPU_LIMIT_CACHE], cycles, 1e-9);
  for (int pace = 0; pace < SIMT_PACES; pace++)
    assert_float_equal(found.cycles[pace], cycles + GPU_COST_BARRIER_CYCLES, 1e-9);
}

// Where nothing is counted, the calls do nothing.
TEST(test_uncounted) {
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = {
      .kernel = "k", .function = run_segments, .blocks = 1, .threads = 64, .shared_bytes = SHARED};
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_DONE);
}
