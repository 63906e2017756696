// mbarriers and bulk copies in the executor: every number of axes, swizzle and type against a plain loop. Boxes leave the
// tensor; there are pipelines; a tensor map may be refused. Faults are each found for every seed.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/shared/library.h"
#include "runtime/shared/simt.h"
#include "runtime/simt/layout.h"
#include "runtime/simt/ops.h"
#include "runtime/simt/tensor_map.h"
#include "runtime/support/narrow.h"

// Last of its kind: it uses the headers above.
#include <cmocka.h>

enum { SEEDS = 8, THREADS = 128, SHARED = 32768, BARRIERS_AT = 0, ROWS_AT = 1024 };
enum { U16 = 1, F32 = 7, BF16 = 9 };  // the driver's numbers

typedef struct any_map {
  _Alignas(64) unsigned char bytes[TENSOR_MAP_BYTES];
} any_map;

static simt_answer run(void (*kernel)(const void *), const void *parameters, int threads, uint64_t seed, simt_counts *counts,
                       char message[SIMT_MESSAGE]) {
  simt_launch launch = {.kernel = "k",
                        .function = kernel,
                        .parameters = parameters,
                        .blocks = 1,
                        .threads = threads,
                        .shared_bytes = SHARED,
                        .seed = seed};
  return simt_run(&launch, 0, 1, counts, message);
}

static char *shared_at(int offset) { return (char *)simt_shared() + offset; }

static uint16_t read_half(int offset) {
  uint16_t bits;
  simt_check_shared(shared_at(offset), 2, 2, 0);
  memcpy(&bits, shared_at(offset), sizeof bits);
  return bits;
}
static void write_half(int offset, uint16_t bits) {
  simt_check_shared(shared_at(offset), 2, 2, 1);
  memcpy(shared_at(offset), &bits, sizeof bits);
}

// ---- swizzles --------------------------------------------------------------------------------

// Where piece `piece` of line `line` of 128 bytes lies in its line, drawn out.
static int traded(int span, int line, int piece) {
  static const int lines_32[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
  static const int lines_64[4][8] = {
      {0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4}};
  static const int lines_128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                      {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                      {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
  return span == 32    ? lines_32[line % 2][piece]
         : span == 64  ? lines_64[line % 4][piece]
         : span == 128 ? lines_128[line % 8][piece]
                       : piece;
}

static int place_of(int span, int at) { return at / 128 * 128 + 16 * traded(span, at / 128, at / 16 % 8) + at % 16; }

static void test_swizzles(void **state) {
  (void)state;
  for (int span = 32; span <= 128; span *= 2) {
    int seen[4096] = {0};
    for (int at = 0; at < 4096; at++) {
      uint32_t place = layout_swizzle((uint32_t)at, (uint32_t)span);
      assert_int_equal(place, place_of(span, at));
      assert_int_equal(seen[place]++, 0);
    }
  }
}

// ---- boxes -----------------------------------------------------------------------------------

typedef struct boxes {
  any_map map;
  int axes, bytes, span;
  int box[5], size[5], at[5];
  int64_t stride[5];  // bytes
  uint16_t tensor[8192], found[4096];
} boxes;

static void bulk(const boxes *x, void *to, void *mbarrier) {
  const int *at = x->at;
  switch (x->axes) {
    case 2: simt_bulk_2(to, &x->map, mbarrier, at[0], at[1]); break;
    case 3: simt_bulk_3(to, &x->map, mbarrier, at[0], at[1], at[2]); break;
    case 4: simt_bulk_4(to, &x->map, mbarrier, at[0], at[1], at[2], at[3]); break;
    default: simt_bulk_5(to, &x->map, mbarrier, at[0], at[1], at[2], at[3], at[4]);
  }
}

static void kernel_box(const void *parameters) {
  boxes *x = (boxes *)parameters;
  int thread = simt_thread_x();
  void *mbarrier = shared_at(BARRIERS_AT);
  if (thread == 0) {
    simt_mbarrier_init(mbarrier, 1);
    simt_fence_async();
    simt_mbarrier_expect(mbarrier, x->bytes);
    bulk(x, shared_at(ROWS_AT), mbarrier);
  }
  simt_barrier();
  simt_mbarrier_wait(mbarrier, 0);
  for (int i = thread; i < x->bytes / 2; i += THREADS) x->found[i] = read_half(ROWS_AT + place_of(x->span, 2 * i));
}

// Number `i` of the box.
static uint16_t number_in_box(const boxes *x, int i, int numbers) {
  int64_t offset = (int64_t)(i % numbers) * 2;
  i /= numbers;
  for (int axis = 0; axis < x->axes; axis++) {
    int at = x->at[axis] + i % x->box[axis];
    i /= x->box[axis];
    if (at < 0 || at >= x->size[axis]) return 0;
    offset += at * x->stride[axis];
  }
  return x->tensor[offset / 2];
}

// type: as many numbers of 16 bits to an element.
static void expect_box(boxes *x, int type, int numbers) {
  uint64_t sizes[5], strides[4];
  uint32_t box[5], steps[5] = {1, 1, 1, 1, 1};
  x->bytes = 2 * numbers;
  for (int i = 0; i < x->axes; i++) {
    sizes[i] = (uint64_t)x->size[i];
    box[i] = (uint32_t)x->box[i];
    x->bytes *= x->box[i];
    if (i) strides[i - 1] = (uint64_t)x->stride[i];
  }
  int swizzle = x->span == 128 ? 3 : x->span == 64 ? 2 : x->span == 32;
  assert_int_equal(simt_tensor_map(&x->map, type, (uint32_t)x->axes, x->tensor, sizes, strides, box, steps, 0, swizzle, 2, 0),
                   0);
  for (uint64_t seed = 0; seed < 3; seed++) {
    char message[SIMT_MESSAGE] = "";
    simt_counts counts = {0};
    memset(x->found, 0xff, sizeof x->found);
    if (run(kernel_box, x, THREADS, seed, &counts, message) != SIMT_DONE) fail_msg("%s", message);
    for (int i = 0; i < x->bytes / 2; i++)
      if (x->found[i] != number_in_box(x, i, numbers))
        fail_msg("%d axes, span %d: number %d is %d, expected %d", x->axes, x->span, i, x->found[i],
                 number_in_box(x, i, numbers));
    assert_int_equal(counts.bulk_copies, 1);
    assert_int_equal(counts.copies, 1);
  }
}

// Boxes inside of the tensor, and over each of its ends.
static void test_boxes(void **state) {
  (void)state;
  static boxes x;
  for (int i = 0; i < 8192; i++) x.tensor[i] = (uint16_t)(i + 1);
  for (int axes = 2; axes <= 5; axes++) {
    for (int span = 0; span <= 128; span = span ? 2 * span : 32) {
      for (int where = 0; where < 3; where++) {
        x.axes = axes;
        x.span = span;
        x.stride[0] = 2;
        for (int i = 0, stride = 2; i < axes; i++) {
          x.size[i] = i == 0 ? 80 : i == 1 ? 12 : 2;
          x.box[i] = i == 0 ? (span ? span / 2 : 24) : i == 1 ? 7 : i % 2 + 1;
          x.at[i] = where == 0 ? 0 : where == 1 ? -1 : x.size[i] - x.box[i] + 1;
          x.stride[i] = stride;
          stride *= x.size[i];
        }
        expect_box(&x, where ? U16 : BF16, 1);
      }
    }
  }
  x = (boxes){.axes = 2, .span = 64, .box = {16, 10}, .size = {20, 20}, .at = {8, 13}, .stride = {4, 96}};
  for (int i = 0; i < 8192; i++) x.tensor[i] = (uint16_t)(3 * i);
  expect_box(&x, F32, 2);
}

static void test_maps(void **state) {
  (void)state;
  static any_map map;
  _Alignas(16) static char data[64];
  uint64_t sizes[5] = {64, 10, 3, 2, 2}, strides[4] = {128, 1280, 4096, 8192};
  uint32_t box[5] = {64, 10, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
#define MAP(type, axes, data, swizzle) simt_tensor_map(&map, type, axes, data, sizes, strides, box, steps, 0, swizzle, 0, 0)
#define REFUSED_WITH(what, bad, good)           \
  do {                                          \
    what = bad;                                 \
    assert_int_equal(MAP(BF16, 3, data, 3), 1); \
    what = good;                                \
    assert_int_equal(MAP(BF16, 3, data, 3), 0); \
  } while (0)
  assert_int_equal(MAP(BF16, 5, data, 3), 0);
  assert_int_equal(MAP(BF16, 0, data, 3), 1);
  assert_int_equal(MAP(BF16, 6, data, 3), 1);
  assert_int_equal(MAP(BF16, 2, data + 8, 3), 1);
  assert_int_equal(MAP(-1, 2, data, 3), 1);
  assert_int_equal(MAP(13, 2, data, 3), 1);
  assert_int_equal(MAP(BF16, 2, data, 2), 1);  // rows of 128 bytes in a span of 64
  assert_int_equal(MAP(F32, 2, data, 3), 1);
  assert_int_equal(MAP(F32, 2, data, 0), 0);
  assert_int_equal(MAP(BF16, 2, data, 4), 1);
  assert_int_equal(simt_tensor_map(map.bytes + 32, BF16, 2, data, sizes, strides, box, steps, 0, 3, 0, 0), 1);
  REFUSED_WITH(sizes[1], 0, 10);
  REFUSED_WITH(sizes[2], (UINT64_C(1) << 32) + 1, UINT64_C(1) << 32);
  REFUSED_WITH(strides[0], 136, 128);
  REFUSED_WITH(strides[1], UINT64_C(1) << 40, (UINT64_C(1) << 40) - 16);
  REFUSED_WITH(strides[1], 0, 1280);
  sizes[1] = 300;
  REFUSED_WITH(box[1], 257, 256);
  sizes[1] = 10;
  box[1] = 10;
  REFUSED_WITH(box[1], 0, 10);
  REFUSED_WITH(sizes[1], 9, 10);
  REFUSED_WITH(box[0], 60, 64);
  REFUSED_WITH(steps[1], 2, 1);
#undef REFUSED_WITH
#undef MAP
}

// ---- pipelines -------------------------------------------------------------------------------

enum { CHUNKS = 7, CHUNK_ROWS = 16, ROW = 64, CHUNK_BYTES = CHUNK_ROWS * ROW * 2, HALF_BYTES = 4096 };

// What a kernel does wrong.
typedef enum fault {
  NO_FAULT,
  NO_INIT,
  NO_INIT_FENCE,
  NO_INIT_BARRIER,
  INIT_TWICE,
  NO_EXPECT,
  TOO_MANY_BYTES,
  TOO_FEW_BYTES,
  NO_WAIT,
  ONE_WARP_WAITS,
  WRONG_PARITY,
  NEXT_PARITY,
  WRONG_SWIZZLE,  // seen by its numbers alone
  EARLY_READ,
  EARLY_COPY,   // over rows that others still read
  SECOND_COPY,  // over rows that a copy fills
  NO_FENCE,     // after threads wrote what is copied over
  EXPECT_TWICE,
  LAST_NOT_WAITED,
  NOTHING_COPIED,
  MISALIGNED,
  OUTSIDE,
  NO_MAP,
  OTHER_AXES,
  PART_OF_SPAN,
  TOUCHED_MBARRIER,
  NOT_AN_MBARRIER,
  FAULTS
} fault;

typedef struct pipeline {
  any_map map, plain, part;
  uint16_t tensor[CHUNKS * CHUNK_ROWS * ROW], found[CHUNKS * CHUNK_ROWS * ROW];
  fault fault;
} pipeline;

static void *mbarrier_of(int chunk) { return shared_at(BARRIERS_AT + 8 * (chunk % 2)); }
static int half_of(int chunk) { return ROWS_AT + chunk % 2 * HALF_BYTES; }

static void start(const pipeline *p, int chunk) {
  fault f = p->fault;
  int bytes = f == TOO_MANY_BYTES ? CHUNK_BYTES + 16 : f == TOO_FEW_BYTES ? CHUNK_BYTES - 16 : CHUNK_BYTES;
  void *to = shared_at(half_of(chunk) + (f == MISALIGNED ? 64 : 0)), *mbarrier = mbarrier_of(chunk);
  if (f == OUTSIDE) to = shared_at(SHARED - 1024);
  const any_map *map = f == WRONG_SWIZZLE ? &p->plain : f == PART_OF_SPAN ? &p->part : &p->map;
  if (f == NOT_AN_MBARRIER) mbarrier = shared_at(BARRIERS_AT + 16);
  if (f != NO_FENCE) simt_fence_async();
  if (f != NO_EXPECT) simt_mbarrier_expect(mbarrier, bytes);
  if (f == EXPECT_TWICE) simt_mbarrier_expect(mbarrier, 0);
  if (f == NOTHING_COPIED && chunk == CHUNKS - 1) return;
  if (f == NO_MAP) simt_bulk_2(to, p->tensor, mbarrier, 0, 0);
  if (f == OTHER_AXES) simt_bulk_3(to, map, mbarrier, 0, 0, 0);
  simt_bulk_2(to, map, mbarrier, 0, chunk * CHUNK_ROWS);
  if (f == SECOND_COPY) simt_bulk_2(to, map, mbarrier, 0, 0);
}

static void wait_for(const pipeline *p, int chunk, int thread) {
  int parity = chunk / 2 % 2;
  if (p->fault == NO_WAIT || (p->fault == ONE_WARP_WAITS && thread >= 32)) return;
  if (p->fault == WRONG_PARITY || (p->fault == NEXT_PARITY && chunk == 2)) parity = !parity;
  if (p->fault == LAST_NOT_WAITED && chunk == CHUNKS - 1) return;
  simt_mbarrier_wait(mbarrier_of(chunk), parity);
}

static void make_mbarriers(const pipeline *p) {
  if (p->fault == NO_INIT) return;
  for (int i = 0; i < 2; i++) simt_mbarrier_init(mbarrier_of(i), 1);
  if (p->fault == INIT_TWICE) simt_mbarrier_init(mbarrier_of(0), 1);
  if (p->fault != NO_INIT_FENCE && p->fault != NO_FENCE) simt_fence_async();
}

// Threads write the halves first, as if something else had been there.
static void kernel_pipeline(const void *parameters) {
  pipeline *p = (pipeline *)parameters;
  int thread = simt_thread_x();
  if (thread == 5) make_mbarriers(p);
  for (int i = thread; i < HALF_BYTES; i += THREADS) write_half(ROWS_AT + 2 * i, 7);
  if (p->fault != NO_INIT_BARRIER) simt_barrier();
  if (p->fault == TOUCHED_MBARRIER && thread == 9) write_half(BARRIERS_AT + 4, 1);
  if (p->fault == NO_INIT_FENCE && thread == 0) simt_bulk_2(shared_at(half_of(0)), &p->map, mbarrier_of(0), 0, 0);
  if (thread == 0) start(p, 0);
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    wait_for(p, chunk, thread);
    if ((p->fault != EARLY_COPY || chunk != 1) && p->fault != ONE_WARP_WAITS) simt_barrier();
    if (thread == 0 && chunk + 1 < CHUNKS) start(p, chunk + 1);
    int of = p->fault == EARLY_READ && chunk + 1 < CHUNKS ? chunk + 1 : chunk;
    if (p->fault == LAST_NOT_WAITED && chunk == CHUNKS - 1) continue;
    for (int i = thread; i < CHUNK_ROWS * ROW; i += THREADS)
      p->found[chunk * CHUNK_ROWS * ROW + i] = read_half(half_of(of) + place_of(128, 2 * i));
  }
}

static int make_map(any_map *map, pipeline *p, uint32_t columns, int swizzle) {
  return simt_tensor_map(map, BF16, 2, p->tensor, (uint64_t[]){ROW, CHUNKS * CHUNK_ROWS}, (uint64_t[]){2 * ROW},
                         (uint32_t[]){columns, CHUNK_ROWS}, (uint32_t[]){1, 1}, 0, swizzle, 0, 0);
}

static pipeline *pipeline_of(fault f) {
  static _Alignas(64) pipeline p;
  p.fault = f;
  for (int i = 0; i < CHUNKS * CHUNK_ROWS * ROW; i++) p.tensor[i] = (uint16_t)(5 * i + 1);
  memset(p.found, 0xff, sizeof p.found);
  assert_int_equal(make_map(&p.map, &p, ROW, 3) | make_map(&p.plain, &p, ROW, 0) | make_map(&p.part, &p, ROW / 2, 3), 0);
  return &p;
}

static void test_pipelines(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    char message[SIMT_MESSAGE] = "";
    simt_counts counts = {0};
    pipeline *p = pipeline_of(NO_FAULT);
    if (run(kernel_pipeline, p, THREADS, seed, &counts, message) != SIMT_DONE) fail_msg("%s", message);
    assert_memory_equal(p->found, p->tensor, sizeof p->tensor);
    assert_int_equal(counts.bulk_copies, CHUNKS);
    assert_int_equal(counts.read_bytes, CHUNKS * CHUNK_BYTES);
  }
  char message[SIMT_MESSAGE] = "";
  pipeline *p = pipeline_of(WRONG_SWIZZLE);
  assert_int_equal(run(kernel_pipeline, p, THREADS, 1, NULL, message), SIMT_DONE);
  assert_memory_not_equal(p->found, p->tensor, sizeof p->tensor);
}

static void test_faults(void **state) {
  (void)state;
  static const char *const found[FAULTS] = {
      [NO_INIT] = "takes byte 0 of shared memory for an mbarrier, which it is not",
      [NO_INIT_FENCE] = "which thread 5 made without a fence",
      [NO_INIT_BARRIER] = "mbarrier",
      [INIT_TWICE] = "thread 5: writes byte 0 of shared memory, which is part of an mbarrier",
      [NO_EXPECT] = "never ends: 1 of 1 arrivals are missing, 0 bytes are expected, 2048 copied",
      [TOO_MANY_BYTES] = "never ends: 0 of 1 arrivals are missing, 2064 bytes are expected, 2048 copied",
      [TOO_FEW_BYTES] = "copies 2048 bytes in phase 0 of the mbarrier at byte 0, which expects 2032",
      [NO_WAIT] = "while a bulk copy fills it that nobody has waited for",
      [ONE_WARP_WAITS] = "of shared memory",
      [WRONG_PARITY] = "while a bulk copy fills it that nobody has waited for",
      [NEXT_PARITY] = "while a bulk copy fills it that nobody has waited for",
      [EARLY_READ] = "of shared memory",
      [EARLY_COPY] = "of shared memory",
      [SECOND_COPY] = "writes byte 1024 of shared memory while a bulk copy fills it",
      [NO_FENCE] = "without a fence",
      [EXPECT_TWICE] = "whose phase 0 has had all its arrivals",
      [LAST_NOT_WAITED] = "ends with 1 bulk copies under way that nobody has waited for",
      [NOTHING_COPIED] = "2048 bytes are expected, 0 copied",
      [MISALIGNED] = "a bulk copy to byte 1088 of shared memory, not a multiple of 128",
      [OUTSIDE] = "copies 2048 bytes to byte 31744 of shared memory, which has 32768",
      [NO_MAP] = "by a tensor map",
      [OTHER_AXES] = "copies by 3 coordinates from a tensor of 2 axes",
      [PART_OF_SPAN] = "copies rows of 64 bytes that trade places in 128",
      [TOUCHED_MBARRIER] = "writes byte 4 of shared memory, which is part of an mbarrier",
      [NOT_AN_MBARRIER] = "takes byte 16 of shared memory for an mbarrier, which it is not",
  };
  for (fault f = NO_FAULT + 1; f < FAULTS; f++) {
    if (f == WRONG_SWIZZLE) continue;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      char message[SIMT_MESSAGE] = "";
      simt_answer answer = run(kernel_pipeline, pipeline_of(f), THREADS, seed, NULL, message);
      if (answer != SIMT_FAULT || !strstr(message, found[f]))
        fail_msg("fault %d, seed %d: expected `%s`, found %d `%s`", (int)f, (int)seed, found[f], answer, message);
    }
  }
}

// The launch leaves the second expect, or the second wait, of every thread out.
static void test_skipped(void **state) {
  (void)state;
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = {.kernel = "k",
                        .function = kernel_pipeline,
                        .parameters = pipeline_of(NO_FAULT),
                        .blocks = 1,
                        .threads = THREADS,
                        .shared_bytes = SHARED,
                        .skipped_expect = 2};
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "phase 0 of the mbarrier at byte 8, which never ends: 1 of 1"));
  launch.skipped_expect = 0;
  launch.skipped_wait = 2;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "while a bulk copy fills it"));
  launch.skipped_wait = 0;
  launch.skipped_fence = 1;
  assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "without a fence"));
}

// ---- waiting ---------------------------------------------------------------------------------

// Threads wait before anybody has announced anything; the last of several arrivals ends the phase. Blocks one behind the other
// begin with no mbarriers.
static void kernel_arrivals(const void *parameters) {
  int *last = (int *)parameters, thread = simt_thread_x();
  void *mbarrier = shared_at(BARRIERS_AT);
  if (thread == 0) {
    simt_mbarrier_init(mbarrier, 3);
    *last = 0;
  }
  simt_barrier();
  for (int phase = 0; phase < 4; phase++) {
    if (thread % 40 == 7) {
      *last = phase + 1;
      simt_mbarrier_expect(mbarrier, 0);
    }
    simt_mbarrier_wait(mbarrier, phase % 2);
    if (*last < phase + 1) *last = 100;
    simt_barrier();
  }
}

static void test_arrivals(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    char message[SIMT_MESSAGE] = "";
    int last = 0;
    simt_launch launch = {.kernel = "k",
                          .function = kernel_arrivals,
                          .parameters = &last,
                          .blocks = 2,
                          .threads = 96,
                          .shared_bytes = SHARED,
                          .seed = seed};
    simt_answer answer = simt_run(&launch, 0, 2, NULL, message);
    if (answer != SIMT_DONE) fail_msg("%s", message);
    assert_int_equal(last, 4);
    launch.threads = 64;  // two arrivals alone
    assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_FAULT);
    assert_non_null(strstr(message,
                           "waits for phase 0 of the mbarrier at byte 0, which never ends: 1 of 3 "
                           "arrivals are missing"));
  }
}

// A lane waits for its warp, which then meets.
static void kernel_lane_waits(const void *parameters) {
  pipeline *p = (pipeline *)parameters;
  int thread = simt_thread_x();
  if (thread == 0) {
    simt_mbarrier_init(mbarrier_of(0), 1);
    simt_fence_async();
    start(p, 0);
    simt_mbarrier_wait(mbarrier_of(0), 0);
  }
  if (p->fault != NO_WAIT) simt_warp_barrier();
  p->found[thread] = read_half(half_of(0) + place_of(128, 2 * thread));
}

static void test_one_lane_waits(void **state) {
  (void)state;
  char message[SIMT_MESSAGE] = "";
  pipeline *p = pipeline_of(NO_FAULT);
  if (run(kernel_lane_waits, p, 32, 1, NULL, message) != SIMT_DONE) fail_msg("%s", message);
  assert_memory_equal(p->found, p->tensor, 32 * sizeof *p->found);
  assert_int_equal(run(kernel_lane_waits, pipeline_of(NO_WAIT), 32, 1, NULL, message), SIMT_FAULT);
  assert_non_null(strstr(message, "of shared memory"));
}

// ---- products --------------------------------------------------------------------------------

enum { LINES = 64, COLUMNS = 8, DEPTH = 64, B_AT = ROWS_AT + LINES * DEPTH * 2 };

typedef struct product {
  any_map map_a, map_b;
  uint16_t a[LINES][DEPTH], b[COLUMNS][DEPTH];
  float d[LINES][COLUMNS];
  int careless;  // all but the first warp do not wait
} product;

// What copies have put into shared memory, products find there without a fence.
static void kernel_product(const void *parameters) {
  product *p = (product *)parameters;
  int thread = simt_thread_x();
  void *mbarrier = shared_at(BARRIERS_AT);
  if (thread == 0) {
    simt_mbarrier_init(mbarrier, 1);
    simt_fence_async();
    simt_mbarrier_expect(mbarrier, (LINES + COLUMNS) * DEPTH * 2);
    simt_bulk_2(shared_at(ROWS_AT), &p->map_a, mbarrier, 0, 0);
    simt_bulk_2(shared_at(B_AT), &p->map_b, mbarrier, 0, 0);
  }
  simt_barrier();
  if (!p->careless || thread < 32) simt_mbarrier_wait(mbarrier, 0);
  float c[4] = {0}, d[4];
  simt_wgmma_fence_n8(d, c);
  for (int k = 0; k < DEPTH; k += 16) {
    uint64_t rest = UINT64_C(64) << 32 | UINT64_C(1) << 62;
    memcpy(c, d, sizeof c);
    simt_wgmma_n8_bf16(d, c, (uint64_t)(ROWS_AT + 2 * k) >> 4 | rest, (uint64_t)(B_AT + 2 * k) >> 4 | rest, 1, 0, 0);
  }
  simt_wgmma_commit();
  memcpy(c, d, sizeof c);
  simt_wgmma_wait_n8(d, c);
  for (int i = 0; i < 4; i++) {
    simt_element at = layout_group_c(thread / 32, thread % 32, i);
    p->d[at.row][at.column] = d[i];
  }
}

static void test_products(void **state) {
  (void)state;
  static _Alignas(64) product p;
  uint32_t random = 1;
  for (int k = 0; k < DEPTH; k++) {
    for (int line = 0; line < LINES; line++) {
      float x = (float)((int)((random = random * 1664525u + 1013904223u) >> 28) - 8);
      rec_narrow(&p.a[line][k], &x, 1, REC_STORED_BF16);
      if (line < COLUMNS) rec_narrow(&p.b[line][k], &(float){x + (float)(k % 3)}, 1, REC_STORED_BF16);
    }
  }
  uint32_t steps[2] = {1, 1};
  assert_int_equal(simt_tensor_map(&p.map_a, BF16, 2, p.a, (uint64_t[]){DEPTH, LINES}, (uint64_t[]){2 * DEPTH},
                                   (uint32_t[]){DEPTH, LINES}, steps, 0, 3, 0, 0),
                   0);
  assert_int_equal(simt_tensor_map(&p.map_b, BF16, 2, p.b, (uint64_t[]){DEPTH, COLUMNS}, (uint64_t[]){2 * DEPTH},
                                   (uint32_t[]){DEPTH, COLUMNS}, steps, 0, 3, 0, 0),
                   0);
  char message[SIMT_MESSAGE] = "";
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    p.careless = 0;
    if (run(kernel_product, &p, THREADS, seed, NULL, message) != SIMT_DONE) fail_msg("%s", message);
    for (int i = 0; i < LINES; i++) {
      for (int j = 0; j < COLUMNS; j++) {
        float sum = 0;  // whole numbers: exact
        for (int k = 0; k < DEPTH; k++) sum += rec_widen(p.a[i][k], REC_STORED_BF16) * rec_widen(p.b[j][k], REC_STORED_BF16);
        assert_true(p.d[i][j] == sum);
      }
    }
    p.careless = 1;
    assert_int_equal(run(kernel_product, &p, THREADS, seed, NULL, message), SIMT_FAULT);
    if (!strstr(message, "a bulk copy")) fail_msg("%s", message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_swizzles),  cmocka_unit_test(test_boxes),          cmocka_unit_test(test_maps),
      cmocka_unit_test(test_pipelines), cmocka_unit_test(test_faults),         cmocka_unit_test(test_skipped),
      cmocka_unit_test(test_arrivals),  cmocka_unit_test(test_one_lane_waits), cmocka_unit_test(test_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
