// Tensor maps of the executor: 128 bytes that describe a tensor in global memory and a box of it in shared memory. Axes are
// innermost first.
#ifndef REC_SIMT_TENSOR_MAP_H
#define REC_SIMT_TENSOR_MAP_H

#include <stdint.h>

enum { TENSOR_AXES = 5, TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGNMENT = 64, TENSOR_ROW_BYTES = 2048 };

typedef struct tensor_map {
  uint64_t mark;
  const unsigned char *data;
  uint64_t size[TENSOR_AXES];
  int64_t stride[TENSOR_AXES];  // bytes; of the innermost axis those of a number
  uint16_t box[TENSOR_AXES];
  uint8_t axes, span;  // in which pieces of 16 bytes trade places: 128, 64, 32 bytes; 0: they do not
} tensor_map;

// False: nobody has written this map.
int tensor_map_read(tensor_map *map, const void *bytes);

uint32_t tensor_map_row_bytes(const tensor_map *map);
uint64_t tensor_map_rows(const tensor_map *map);  // of a box

// The bytes of a box's row, at these coordinates, that lie inside of the tensor: `bytes` from `from`, after `before` zeros.
typedef struct tensor_row {
  const unsigned char *from;
  uint32_t before, bytes;
} tensor_row;

tensor_row tensor_map_row(const tensor_map *map, const int32_t *at, uint32_t row);

#endif
