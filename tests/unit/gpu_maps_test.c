// The rows of a call that get a tensor map (runtime/support/gpu_maps.c), and the request to the driver. The strides of one
// token are [H, K]; a box is 64 columns of 32 steps.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/support/gpu_maps.c"

#include <cmocka.h>

enum { H = 3, K = 128, AXES = 2, SLOTS_AT = sizeof(rec_gpu_frame) + 8 * AXES, MAPS_AT = 512 };

// One slot of one token tensor, and a map of it.
typedef struct tables {
  rec_table table;
  rec_table_memory memory;
  rec_table_slot slot;
  rec_table_map map;
} tables;

static struct {
  int times, answer, type, swizzle;
  uint64_t sizes[RANK], strides[RANK - 1];
  uint32_t box[RANK];
} asked;

int64_t call_numbers(const call *c, const rec_table_memory *memory) {
  (void)c, (void)memory;
  return H * K;
}

static int note(void *map, int type, unsigned rank, void *data, const uint64_t *sizes, const uint64_t *strides,
                const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  (void)data, (void)promotion;
  assert_int_equal((uintptr_t)map % _Alignof(rec_gpu_map), 0);
  assert_int_equal(rank, RANK);
  assert_int_equal(interleave + fill, 0);
  for (int i = 0; i < RANK; i++) assert_int_equal(steps[i], 1);
  asked.times++;
  asked.type = type;
  asked.swizzle = swizzle;
  memcpy(asked.sizes, sizes, sizeof asked.sizes);
  memcpy(asked.strides, strides, sizeof asked.strides);
  memcpy(asked.box, box, sizeof asked.box);
  return asked.answer;
}

static _Alignas(rec_gpu_map) unsigned char parameter[1024];

static int64_t mapped_for(rec_gpu_slot slot, int64_t batch, int64_t time, gpu_encode *encode_map) {
  tables t = {.map = {.columns = K, .box = 64, .steps = 32, .swizzle = 128}};
  t.table.memories_at = offsetof(tables, memory);
  rec_table_gpu_kernel kernel = {.map_count = 1, .maps_at = offsetof(tables, map), .parameter_maps_at = MAPS_AT};
  kernel.base.slots_at = offsetof(tables, slot);
  kernel.base.slot_count = 1;
  t.table.axis_count = AXES;
  call c = {.table = &t.table, .batch = batch, .time = time};
  gpu_device device = {.encode = encode_map};
  int64_t mapped;
  memset(parameter, 0xff, sizeof parameter);
  memcpy(parameter + SLOTS_AT, &slot, sizeof slot);
  asked.times = 0;
  gpu_fill_maps(&c, &device, &kernel, parameter);
  memcpy(&mapped, parameter + SLOTS_AT + sizeof slot, sizeof mapped);
  return mapped;
}

static rec_gpu_slot dense(int64_t time) {
  static _Alignas(16) unsigned char data[64];
  return (rec_gpu_slot){.data = data, .batch_stride = time * H * K, .time_stride = H * K};
}

static void a_dense_tensor_has_a_map(void **state) {
  (void)state;
  static const uint64_t sizes[RANK] = {K, H, 100, 2};
  static const uint64_t strides[] = {2 * K, 2 * H * K, 2 * 100 * H * K};
  static const uint32_t box[RANK] = {64, 1, 32, 1};
  assert_int_equal(mapped_for(dense(100), 2, 100, note), 1);
  assert_memory_equal(asked.sizes, sizes, sizeof sizes);
  assert_memory_equal(asked.strides, strides, sizeof strides);
  assert_memory_equal(asked.box, box, sizeof box);
  assert_int_equal(asked.type, 1);
  assert_int_equal(asked.swizzle, 3);
}

static void strides_that_copies_do_not_take_have_none(void **state) {
  (void)state;
  rec_gpu_slot slot = dense(100);
  slot.time_stride += 8;
  slot.batch_stride += 800;
  assert_int_equal(mapped_for(slot, 2, 100, note), 1);
  slot.time_stride += 1;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  slot = dense(100);
  slot.batch_stride += 4;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  slot.batch_stride = 0;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  slot.batch_stride = INT64_C(1) << 39;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  assert_int_equal(asked.times, 0);
}

// Packed sequences, and a batch of one: whatever its stride, the next entry would lie behind all steps.
static void a_single_entry_has_any_stride(void **state) {
  (void)state;
  rec_gpu_slot slot = dense(100);
  for (int64_t stride = 0; stride < 3; stride++) {
    slot.batch_stride = stride;
    assert_int_equal(mapped_for(slot, 1, 100, note), 1);
    assert_int_equal(asked.strides[2], 2 * 100 * H * K);
  }
}

static void other_tensors_have_none(void **state) {
  (void)state;
  rec_gpu_slot slot = dense(100);
  slot.data = (char *)slot.data + 2;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  slot.data = NULL;
  assert_int_equal(mapped_for(slot, 2, 100, note), 0);
  assert_int_equal(mapped_for(dense(31), 2, 31, note), 0);  // no chunk is whole
  assert_int_equal(mapped_for(dense(32), 2, 32, NULL), 0);
  assert_int_equal(asked.times, 0);
  asked.answer = 1;
  assert_int_equal(mapped_for(dense(32), 2, 32, note), 0);
  assert_int_equal(asked.times, 1);
  asked.answer = 0;
  assert_int_equal(mapped_for(dense(32), 2, 32, note), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_dense_tensor_has_a_map),
      cmocka_unit_test(strides_that_copies_do_not_take_have_none),
      cmocka_unit_test(a_single_entry_has_any_stride),
      cmocka_unit_test(other_tensors_have_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
