// Faults seeded into kernels: each is found for every seed, with a message that says where.
#include "compiler/abi/simt.h"
#include "runtime/support/simt/ops.h"

#include "tests/unit/unit.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"  // kernels share a signature

enum { SEEDS = 8 };

static _Alignas(16) float global_memory[256];

static simt_launch launch_of(void (*kernel)(const void *), int threads, uint64_t seed) {
  return (simt_launch){.kernel = "k",
                       .function = kernel,
                       .blocks = 1,
                       .threads = threads,
                       .shared_bytes = 4096,
                       .seed = seed};
}

static void expect_fault(void (*kernel)(const void *), int threads, const char *expected) {
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    char message[SIMT_MESSAGE] = "";
    simt_launch launch = launch_of(kernel, threads, seed);
    simt_answer answer = simt_run(&launch, 0, 1, NULL, message);
    if (answer != SIMT_FAULT || !strstr(message, expected) ||
        strncmp(message, "k, block 0, thread ", 19) != 0)
      fail_msg("seed %d: expected `%s`, found %d `%s`", (int)seed, expected, answer, message);
  }
}

static void write_shared(int index, float x) {
  float *shared = simt_shared();
  simt_check_shared(&shared[index], 4, 4, 1);
  shared[index] = x;
}
static float read_shared(int index) {
  const float *shared = simt_shared();
  simt_check_shared(&shared[index], 4, 4, 0);
  return shared[index];
}
static void store(int index, float x) {
  simt_check_global(&global_memory[index], 4, 4, 1);
  global_memory[index] = x;
}

// ---- races -----------------------------------------------------------------------------------

static void kernel_no_barrier(const void *parameters) {
  int thread = simt_thread_x();
  write_shared(thread, 1);
  store(thread, read_shared((thread + 32) % 64));
}
static void kernel_no_second_barrier(const void *parameters) {
  int thread = simt_thread_x();
  for (int i = 0; i < 2; i++) {
    write_shared(thread, (float)i);
    simt_barrier();
    store(thread, read_shared((thread + 32) % 64));
  }
}
static void kernel_same_place(const void *parameters) { write_shared(5, (float)simt_thread_x()); }
static void kernel_no_warp_barrier(const void *parameters) {
  int thread = simt_thread_x();
  write_shared(thread, 1);
  store(thread, read_shared(thread ^ 1));
}
static void kernel_warp_barrier_between_warps(const void *parameters) {
  int thread = simt_thread_x();
  write_shared(thread, 1);
  simt_warp_barrier();
  store(thread, read_shared(thread ^ 32));
}
// Two lanes of a warp read what a third one then overwrites.
static void kernel_write_after_reads(const void *parameters) {
  int thread = simt_thread_x();
  if (thread == 9) write_shared(0, 1);
  simt_barrier();
  if (thread != 9) store(thread, read_shared(0));
  simt_warp_barrier();
  if (thread == 9) write_shared(0, 2);
  simt_barrier();
  store(thread, read_shared(0));
}

TEST(test_races) {
  expect_fault(kernel_no_barrier, 64, "race: ");
  expect_fault(kernel_no_second_barrier, 64, "race: ");
  expect_fault(kernel_same_place, 32, "race: writes byte 20 of shared memory");
  expect_fault(kernel_no_warp_barrier, 32, "race: ");
  expect_fault(kernel_warp_barrier_between_warps, 64, "race: ");
  expect_fault(kernel_write_after_reads, 64, "race: ");
}

// ---- asynchronous copies ---------------------------------------------------------------------

static void kernel_no_wait(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  simt_cp_async4(&shared[thread], &global_memory[thread], 4);
  simt_cp_async_commit();
  simt_barrier();
  store(thread, read_shared((thread + 1) % 32));
  simt_cp_async_wait_0();
}
static void kernel_no_commit(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  simt_cp_async4(&shared[thread], &global_memory[thread], 4);
  simt_cp_async_wait_0();
  simt_barrier();
  store(thread, read_shared((thread + 1) % 32));
}
static void kernel_waits_for_too_few(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  for (int i = 0; i < 2; i++) {
    simt_cp_async4(&shared[32 * i + thread], &global_memory[thread], 4);
    simt_cp_async_commit();
  }
  simt_cp_async_wait_1();
  simt_barrier();
  store(thread, read_shared(32 + thread));
  simt_cp_async_wait_0();
}
static void kernel_overwrites_source(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  global_memory[(thread + 1) % 32] = 1;
  simt_cp_async4(&shared[thread], &global_memory[thread], 4);
  simt_cp_async_commit();
  simt_barrier();
  store((thread + 1) % 32, 2);
  simt_cp_async_wait_0();
}
static void kernel_no_barrier_behind_wait(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  simt_cp_async4(&shared[thread], &global_memory[thread], 4);
  simt_cp_async_commit();
  simt_cp_async_wait_0();
  store(thread, read_shared((thread + 32) % 64));
}
static void kernel_ends_with_copy(const void *parameters) {
  float *shared = simt_shared();
  simt_cp_async4(&shared[simt_thread_x()], global_memory, 4);
  simt_cp_async_commit();
}
// A second copy into a place that the first still fills.
static void kernel_copies_twice(const void *parameters) {
  float *shared = simt_shared();
  for (int i = 0; i < 2; i++) {
    simt_cp_async4(&shared[simt_thread_x()], &global_memory[i], 4);
    simt_cp_async_commit();
  }
  simt_cp_async_wait_0();
}

// A double buffer whose other half is filled again while other warps still read it: the barrier is
// missing.
static void kernel_fills_too_early(const void *parameters) {
  int thread = simt_thread_x();
  float *shared = simt_shared();
  for (int i = 0; i < 3; i++) {
    if (i > 0) simt_cp_async_wait_0();
    if (i == 1) simt_barrier();
    if (i > 0) store(thread, read_shared(64 * ((i - 1) % 2) + (i == 1 ? thread ^ 32 : thread)));
    simt_cp_async4(&shared[64 * (i % 2) + thread], &global_memory[thread], 4);
    simt_cp_async_commit();
  }
  simt_cp_async_wait_0();
}
// 16 bytes from where rows begin at multiples of 4.
static void kernel_copies_unaligned(const void *parameters) {
  float *shared = simt_shared();
  simt_cp_async16(&shared[4 * simt_thread_x()], &global_memory[simt_thread_x() + 1], 16);
  simt_cp_async_commit();
  simt_cp_async_wait_0();
}

TEST(test_copies) {
  expect_fault(kernel_no_wait, 32, "asynchronous copy of thread ");
  expect_fault(kernel_no_commit, 32, "asynchronous copy of thread ");
  expect_fault(kernel_waits_for_too_few, 32, "asynchronous copy of thread ");
  expect_fault(kernel_overwrites_source, 32, "4 bytes of global memory changed under way");
  expect_fault(kernel_no_barrier_behind_wait, 64, " of shared memory");
  expect_fault(kernel_ends_with_copy, 32, "ends with 1 asynchronous copies");
  expect_fault(kernel_copies_twice, 32, "asynchronous copy of thread ");
  expect_fault(kernel_fills_too_early, 64, " of shared memory");
  expect_fault(kernel_copies_unaligned, 32, "at an address that is not a multiple of 16");
}

// ---- collectives, barriers -------------------------------------------------------------------

static void kernel_half_a_warp(const void *parameters) {
  if (simt_thread_x() < 16) simt_shfl_bfly_f32(1, 1);
}
static void kernel_two_collectives(const void *parameters) {
  if (simt_thread_x() % 32 < 16)
    simt_shfl_bfly_f32(1, 1);
  else
    simt_warp_barrier();
}
static void kernel_barrier_in_a_warp(const void *parameters) {
  if (simt_thread_x() % 32 == 3)
    simt_barrier();
  else
    simt_shfl_idx_f32(1, 0);
}
static void kernel_barrier_not_for_all(const void *parameters) {
  if (simt_thread_x() != 40) simt_barrier();
}

TEST(test_divergence) {
  expect_fault(kernel_half_a_warp, 32, "shfl_bfly_f32");
  expect_fault(kernel_two_collectives, 32, "of the same warp in ");
  expect_fault(kernel_barrier_in_a_warp, 64, "barrier");
  expect_fault(kernel_barrier_not_for_all, 64,
               "waits at a barrier with 63 of 64 threads; thread 40");
}

// ---- addresses -------------------------------------------------------------------------------

static void kernel_outside(const void *parameters) {
  if (simt_thread_x() == 7) write_shared(1024, 1);
}
static void kernel_below(const void *parameters) {
  if (simt_thread_x() == 7) write_shared(-1, 1);
}
static void kernel_misaligned(const void *parameters) {
  const char *shared = simt_shared();
  simt_check_shared(shared + 4 * (simt_thread_x() / 8), 16, 16, 0);
}
static void kernel_misaligned_matrix(const void *parameters) {
  uint32_t to[4];
  simt_ldmatrix_x4(to, (const char *)simt_shared() + 8 * simt_thread_x());
}
static void kernel_deep_stack(const void *parameters) {
  volatile char deep[20000];
  for (size_t i = 0; i < sizeof deep; i++) deep[i] = 0x11;
  simt_barrier();
}

TEST(test_addresses) {
  expect_fault(kernel_outside, 32,
               "thread 7: writes 4 bytes at byte 4096 of shared memory, which has 4096");
  expect_fault(kernel_below, 32, "writes 4 bytes at byte -4 of shared memory");
  expect_fault(kernel_misaligned, 32, "of shared memory, not a multiple of 16");
  expect_fault(kernel_misaligned_matrix, 32, "of shared memory, not a multiple of 16");
}

static void kernel_one_too_far(const void *parameters) {
  store(simt_thread_x() + (simt_thread_x() == 31), 1);
}
static void kernel_reads_and_writes(const void *parameters) {
  int thread = simt_thread_x();
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    simt_check_global(&global_memory[64 + thread], 4, 4, 0);
    sum += global_memory[64 + thread];
  }
  store(thread, sum);
}

TEST(test_global_memory) {
  char message[SIMT_MESSAGE];
  simt_region regions[] = {{"y", global_memory, 32 * sizeof(float), true},
                           {"x", global_memory + 64, 32 * sizeof(float), false}};
  simt_launch launch = launch_of(kernel_one_too_far, 32, 0);
  launch.regions = regions;
  launch.region_count = 2;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message,
                         "thread 31: writes 4 bytes of global memory outside of every tensor, 128 "
                         "bytes behind the start of y, which has 128"));
  regions[0].writable = false;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "writes to y, which is read only"));
}

static void kernel_no_barrier_in_tensor(const void *parameters) {
  int thread = simt_thread_x();
  store(thread, 1);
  simt_warp_barrier();
  simt_check_global(&global_memory[thread ^ 32], 4, 4, 0);
}
static void kernel_blocks_write_the_same(const void *parameters) {
  store(simt_thread_x() + 16 * simt_block_x(), 1);
}
static void kernel_overwrites_what_others_read(const void *parameters) {
  int thread = simt_thread_x();
  simt_check_global(&global_memory[thread], 4, 4, 0);
  simt_barrier();
  if (simt_block_x() == 2) store(thread, 1);
}
static void kernel_reads_what_others_wrote(const void *parameters) {
  if (simt_block_x() == 0) store(simt_thread_x(), 1);
  if (simt_block_x() == 1) simt_check_global(&global_memory[simt_thread_x()], 4, 4, 0);
}
static void kernel_own_parts(const void *parameters) {
  int thread = simt_thread_x(), first = 64 * simt_block_x();
  store(first + thread, 1);
  simt_barrier();
  simt_check_global(&global_memory[first + (thread ^ 32)], 4, 4, 0);
  simt_barrier();
  store(first + (thread ^ 1), 2);
}

static void expect_tensor_race(void (*kernel)(const void *), int64_t blocks, const char *expected) {
  char message[SIMT_MESSAGE] = "";
  const simt_region region = {"y", global_memory, sizeof global_memory, true};
  simt_launch launch = launch_of(kernel, 64, 0);
  launch.blocks = blocks;
  launch.regions = &region;
  launch.region_count = 1;
  assert_int_equal(simt_run(&launch, 0, blocks, NULL, message), SIMT_DONE);
  launch.watched = true;
  assert_int_equal(simt_run(&launch, 0, blocks, NULL, message), expected ? SIMT_FAULT : SIMT_DONE);
  if (expected && !strstr(message, expected))
    fail_msg("expected `%s`, found `%s`", expected, message);
}

TEST(test_races_in_tensors) {
  expect_tensor_race(kernel_no_barrier_in_tensor, 1, "of y, which thread ");
  expect_tensor_race(kernel_blocks_write_the_same, 2,
                     "of y, which block 0 wrote in the same launch");
  expect_tensor_race(kernel_overwrites_what_others_read, 3,
                     "of y, which several blocks read in the same launch");
  expect_tensor_race(kernel_reads_what_others_wrote, 2,
                     "of y, which block 0 wrote in the same launch");
  expect_tensor_race(kernel_own_parts, 4, NULL);
}

static float scratch_memory[4][64];

static void touch_scratch(int block, int index, int write) {
  simt_check_global(&scratch_memory[block][index], 4, 4, write);
}
static void kernel_scratch_race(const void *parameters) {
  touch_scratch(simt_block_x(), simt_thread_x(), 1);
  touch_scratch(simt_block_x(), simt_thread_x() ^ 1, 0);
}
static void kernel_scratch_of_others(const void *parameters) {
  touch_scratch(simt_block_x() ^ 1, simt_thread_x(), 0);
}
static void kernel_scratch_shared_out(const void *parameters) {
  touch_scratch(simt_block_x(), simt_thread_x(), 1);
  simt_barrier();
  touch_scratch(simt_block_x(), simt_thread_x() ^ 1, 0);
}

TEST(test_scratch) {
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = launch_of(kernel_scratch_race, 64, 0);
  launch.blocks = 4;
  launch.scratch = scratch_memory;
  launch.scratch_bytes = sizeof scratch_memory[0];
  assert_int_equal(simt_run(&launch, 0, 4, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "of scratch, which thread "));
  launch.function = kernel_scratch_of_others;
  assert_int_equal(simt_run(&launch, 2, 4, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "reads 4 bytes of scratch of block 3"));
  launch.function = kernel_scratch_shared_out;
  assert_int_equal(simt_run(&launch, 0, 4, NULL, message), SIMT_DONE);
}

// A word of each of 64 sectors of scratch, in order; then of each again, in order or from the last.
enum { SECTORS = 64, WORDS_OF_SECTOR = SIMT_SECTOR / 4 };
static _Alignas(SIMT_SECTOR) float sectors_memory[SECTORS * WORDS_OF_SECTOR];

static void touch_sectors(bool again_from_last) {
  if (simt_thread_x()) return;
  for (int i = 0; i < SECTORS; i++)
    simt_check_global(&sectors_memory[i * WORDS_OF_SECTOR], 4, 4, 1);
  for (int i = 0; i < SECTORS; i++) {
    int sector = again_from_last ? SECTORS - 1 - i : i;
    simt_check_global(&sectors_memory[sector * WORDS_OF_SECTOR], 4, 4, 0);
  }
}
static void kernel_in_order(const void *parameters) { touch_sectors(false); }
static void kernel_from_last(const void *parameters) { touch_sectors(true); }

// Sectors of scratch that come from memory, and that go there.
static void expect_moved(void (*kernel)(const void *), int64_t cache_sectors, int64_t read,
                         int64_t written) {
  char message[SIMT_MESSAGE] = "";
  simt_counts counts = {0};
  simt_stamps stamps = {0};
  simt_launch launch = launch_of(kernel, 32, 0);
  launch.scratch = sectors_memory;
  launch.scratch_bytes = sizeof sectors_memory;
  launch.stamps = &stamps;
  launch.cache_bytes = cache_sectors * SIMT_SECTOR;
  assert_int_equal(simt_run(&launch, 0, 1, &counts, message), SIMT_DONE);
  assert_int_equal(counts.cache_read_bytes, read * SIMT_SECTOR);
  assert_int_equal(counts.cache_written_bytes, written * SIMT_SECTOR);
}

// What was not touched for longest goes first. In order nothing is there any more when it is read;
// from the last, what was written last is. What goes is written once: it is not changed again.
TEST(test_cache) {
  expect_moved(kernel_in_order, SECTORS, 0, 0);
  expect_moved(kernel_in_order, 0, 0, 0);
  expect_moved(kernel_in_order, SECTORS / 2, SECTORS, SECTORS);
  expect_moved(kernel_from_last, SECTORS / 2, SECTORS / 2, SECTORS);
  expect_moved(kernel_from_last, SECTORS - 1, 1, 2);
}

TEST(test_counts) {
  char message[SIMT_MESSAGE] = "";
  static uint32_t read[64], written[64];
  int64_t first[] = {0, 32}, bytes_read[2] = {0}, bytes_written[2] = {0};
  const simt_region regions[] = {{"y", global_memory, 32 * sizeof(float), true},
                                 {"x", global_memory + 64, 32 * sizeof(float), false}};
  simt_stamps stamps = {read, written, first, bytes_read, bytes_written};
  simt_counts counts = {0};
  simt_launch launch = launch_of(kernel_reads_and_writes, 32, 0);
  launch.regions = regions;
  launch.region_count = 2;
  launch.blocks = 3;
  launch.stamps = &stamps;
  assert_int_equal(simt_run(&launch, 0, 3, &counts, message), SIMT_DONE);
  assert_int_equal(counts.read_bytes, 3 * 2 * 128);
  assert_int_equal(counts.written_bytes, 3 * 128);
  int64_t sectors =
      ((uintptr_t)(global_memory + 96) + 31) / 32 - (uintptr_t)(global_memory + 64) / 32;
  assert_int_equal(counts.launch_read_bytes, 32 * sectors);
  assert_int_equal(counts.block_read_bytes, 3 * 32 * sectors);
  assert_int_equal(bytes_read[1], counts.block_read_bytes);
  assert_int_equal(bytes_read[0], 0);
  assert_int_equal(bytes_written[0], counts.block_written_bytes);
}

TEST(test_stack) {
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = launch_of(kernel_deep_stack, 32, 0);
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_DONE);
  launch.stack_bytes = 16384;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "needs more than 16384 bytes of stack"));
  launch.threads = 33;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_string_equal(message, "k: expected blocks of whole warps, at most 1024 threads, found 33");
}

// Shared memory is NaN in every block, whatever the block before left there.
static void kernel_leaves_numbers(const void *parameters) {
  int thread = simt_thread_x();
  float x = read_shared(thread);
  store(simt_block_x() * 32 + thread, x != x);
  write_shared(thread, 1);
}

TEST(test_shared_memory_begins_as_nan) {
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = launch_of(kernel_leaves_numbers, 32, 0);
  launch.blocks = 3;
  assert_int_equal(simt_run(&launch, 0, 3, NULL, message), SIMT_DONE);
  for (int i = 0; i < 3 * 32; i++) assert_true(global_memory[i] == 1);
}
