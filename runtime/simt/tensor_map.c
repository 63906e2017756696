// Tensor maps: what cuTensorMapEncodeTiled does, as far as the compiler's kernels need it, and where the rows of a box lie.
//
//   sizes {P, T}, strides {time stride}, box {64, 16}, at (64, 32)   ->   row 3: 128 bytes from data + 35 strides + 128
#include "runtime/simt/tensor_map.h"

#include <string.h>

#include "runtime/shared/simt.h"

#define MARK UINT64_C(0x7265632d6d617031)

_Static_assert(sizeof(tensor_map) <= TENSOR_MAP_BYTES, "a map is 128 bytes");

enum { PIECE = 16, MOST_BOX = 256 };

// Of the driver's types: u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32 and tf32 in other forms.
static const uint8_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const uint8_t swizzle_spans[] = {0, 32, 64, 128};

// Boxes longer than the tensor: the driver's manual does not rule them out, and GPUs are said to fault on them.
static int is_known_axis(const tensor_map *m, int axis, uint32_t step) {
  if (m->size[axis] == 0 || m->size[axis] > UINT64_C(1) << 32) return 0;
  if (m->box[axis] == 0 || m->box[axis] > m->size[axis] || step != 1) return 0;
  if (axis == 0) return 1;
  return m->stride[axis] > 0 && m->stride[axis] < INT64_C(1) << 40 && m->stride[axis] % PIECE == 0;
}

int simt_tensor_map(void *map, int type, uint32_t axes, void *data, const uint64_t *sizes, const uint64_t *strides,
                    const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  enum { TYPES = sizeof type_bytes, SWIZZLES = sizeof swizzle_spans, PROMOTIONS = 4 };
  if (type < 0 || type >= TYPES || axes < 1 || axes > TENSOR_AXES || swizzle < 0 || swizzle >= SWIZZLES || interleave != 0 ||
      promotion < 0 || promotion >= PROMOTIONS || fill != 0)
    return 1;
  if ((uintptr_t)map % TENSOR_MAP_ALIGNMENT != 0 || (uintptr_t)data % PIECE != 0) return 1;
  tensor_map m = {.mark = MARK, .data = data, .axes = (uint8_t)axes, .span = swizzle_spans[swizzle]};
  for (int i = 0; i < (int)axes; i++) {
    m.size[i] = sizes[i];
    m.box[i] = box[i] > MOST_BOX ? 0 : (uint16_t)box[i];
    m.stride[i] = i ? (int64_t)strides[i - 1] : type_bytes[type];
    if (!is_known_axis(&m, i, steps[i])) return 1;
  }
  uint32_t bytes = tensor_map_row_bytes(&m);
  if (bytes % PIECE != 0 || (m.span && bytes > m.span)) return 1;
  memset(map, 0, TENSOR_MAP_BYTES);
  memcpy(map, &m, sizeof m);
  return 0;
}

int tensor_map_read(tensor_map *map, const void *bytes) {
  memcpy(map, bytes, sizeof *map);
  return map->mark == MARK;
}

uint32_t tensor_map_row_bytes(const tensor_map *map) { return map->box[0] * (uint32_t)map->stride[0]; }

uint64_t tensor_map_rows(const tensor_map *map) {
  uint64_t rows = 1;
  for (int i = 1; i < map->axes; i++) rows *= map->box[i];
  return rows;
}

tensor_row tensor_map_row(const tensor_map *map, const int32_t *at, uint32_t row) {
  int64_t offset = 0, first = at[0], end = first + map->box[0], size = (int64_t)map->size[0];
  int inside = 1;
  for (int i = 1; i < map->axes; i++) {
    int64_t x = (int64_t)at[i] + row % map->box[i];
    row /= map->box[i];
    inside &= x >= 0 && x < (int64_t)map->size[i];
    offset += x * map->stride[i];
  }
  if (first < 0) first = 0;
  if (end > size) end = size;
  if (!inside || first >= end) return (tensor_row){0};
  return (tensor_row){map->data + offset + first * map->stride[0], (uint32_t)((first - at[0]) * map->stride[0]),
                      (uint32_t)((end - first) * map->stride[0])};
}
