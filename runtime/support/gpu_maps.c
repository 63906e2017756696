// Tensor maps: how rows of tokens lie in memory, for bulk copies of a tile ("box") of them (sm_90a).
//
//   k [batch,time,H,K = 64] in bf16, chunks of 64 steps   ->   sizes 64, H, time, batch; a box of 64 columns and 64 steps
//
// The maps travel in the parameter of a launch and are made for each call. A tensor whose address or strides do not suit, or
// that the driver refuses, gets no map: the kernel copies its rows by 16 bytes.
#include <string.h>

#include "runtime/support/gpu.h"
#include "runtime/support/stage.h"

enum { RANK = 4, NUMBER_BYTES = 2, PIECE = 16 };

// The driver's enumerators.
enum { TYPE_UINT16 = 1, NO_INTERLEAVE = 0, LINES_OF_128_BYTES = 2, FILL_WITH_ZEROS = 0 };

static int swizzle_number(int bytes) {
  switch (bytes) {
    case 32: return 1;
    case 64: return 2;
    case 128: return 3;
    default: return 0;
  }
}

// Bytes between entries of the dimensions after the first, which lie `numbers` elements apart. A dimension with a single entry
// has the stride of one that follows the whole tensor.
static bool put_strides(uint64_t strides[RANK - 1], const int64_t numbers[RANK - 1], const uint64_t sizes[RANK]) {
  static const uint64_t limit = UINT64_C(1) << 40;
  uint64_t extent = NUMBER_BYTES * sizes[0];
  for (int i = 0; i < RANK - 1; i++) {
    if (sizes[i + 1] > 1 && (numbers[i] <= 0 || (uint64_t)numbers[i] >= limit)) return false;
    strides[i] = sizes[i + 1] > 1 ? NUMBER_BYTES * (uint64_t)numbers[i] : extent;
    if (strides[i] >= limit || strides[i] % PIECE) return false;
    extent = strides[i] * sizes[i + 1];
  }
  return true;
}

static bool encode(const call *c, gpu_encode *encode_map, const rec_table_map *m, const rec_table_memory *memory,
                   rec_gpu_slot slot, void *to) {
  int64_t of_step = call_numbers(c, memory) / m->columns;
  int64_t numbers[RANK - 1] = {m->columns, slot.time_stride, slot.batch_stride};
  uint64_t sizes[RANK] = {(uint64_t)m->columns, (uint64_t)of_step, (uint64_t)c->time, (uint64_t)c->batch};
  uint64_t strides[RANK - 1];
  uint32_t box[RANK] = {(uint32_t)m->box, 1, (uint32_t)m->steps, 1}, steps[RANK] = {1, 1, 1, 1};
  if (!slot.data || (uintptr_t)slot.data % PIECE || c->time < m->steps) return false;
  if (!put_strides(strides, numbers, sizes)) return false;
  return encode_map(to, TYPE_UINT16, RANK, slot.data, sizes, strides, box, steps, NO_INTERLEAVE, swizzle_number(m->swizzle),
                    LINES_OF_128_BYTES, FILL_WITH_ZEROS) == 0;
}

void gpu_fill_maps(const call *c, const gpu_device *device, const rec_table_gpu_kernel *kernel, unsigned char *parameter) {
  const rec_table_kernel *base = &kernel->base;
  const rec_table_map *maps = table_at(c->table, kernel->maps_at);
  if (!kernel->map_count) return;
  int64_t slots_at = (int64_t)sizeof(rec_gpu_frame) + (int64_t)sizeof(int64_t) * c->table->axis_count;
  int64_t mapped = 0;
  for (int i = 0; i < kernel->map_count; i++) {
    rec_gpu_slot slot;
    memcpy(&slot, parameter + slots_at + (int64_t)sizeof slot * maps[i].slot, sizeof slot);
    const rec_table_memory *memory = table_memory(c->table, table_slot(c->table, base, maps[i].slot)->memory);
    void *to = parameter + kernel->parameter_maps_at + (int64_t)sizeof(rec_gpu_map) * i;
    memset(to, 0, sizeof(rec_gpu_map));
    if (device->encode && encode(c, device->encode, &maps[i], memory, slot, to)) mapped |= INT64_C(1) << i;
  }
  memcpy(parameter + slots_at + (int64_t)sizeof(rec_gpu_slot) * base->slot_count, &mapped, sizeof mapped);
}
