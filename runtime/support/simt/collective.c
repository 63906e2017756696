// Collectives of the 32 lanes of a warp: shuffles, ldmatrix, products of matrix fragments.
//
//   32 x {a0..a3, b0, b1, c0..c3}  ->  A 16 x 16, B 16 x 8, C 16 x 8 (layout.h)  ->  D = A B + C  ->  32 x {d0..d3}
#include <string.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/cost.h"
#include "runtime/support/simt/layout.h"
#include "runtime/support/simt/numeric.h"
#include "runtime/support/simt/ops.h"

// ---- shuffles --------------------------------------------------------------------------------

typedef struct shuffle {
  float x, result;
  int32_t by;
} shuffle;

// A shuffle. `source`, of `lane` and `by`, is the lane whose number a lane takes. A lane for which
// that is outside of the warp keeps its own.
#define SHUFFLE(name, source)                         \
  static void run_##name(void *const *lanes) {        \
    for (int lane = 0; lane < SIMT_WARP; lane++) {    \
      shuffle *to = lanes[lane];                      \
      int by = to->by & 31, from = source;            \
      if (from < 0 || from >= SIMT_WARP) from = lane; \
      to->result = ((const shuffle *)lanes[from])->x; \
    }                                                 \
  }                                                   \
  float simt_##name(float x, int32_t by) {            \
    static const collective c = {#name, run_##name};  \
    shuffle s = {.x = x, .by = by};                   \
    simt_collect(&c, &s);                             \
    return s.result;                                  \
  }
SHUFFLE(shfl_bfly_f32, lane ^ by)
SHUFFLE(shfl_idx_f32, by)
SHUFFLE(shfl_down_f32, lane + by)
SHUFFLE(shfl_up_f32, lane - by)

// ---- ldmatrix --------------------------------------------------------------------------------

typedef struct matrix_load {
  const unsigned char *row;  // of lanes below 8 * count
  uint32_t registers[4];
} matrix_load;

static void load_matrices(void *const *lanes, int count, bool transposed) {
  simt_block *b = simt_current;
  int first = b->running / SIMT_WARP * SIMT_WARP;
  b->counts.operand_bytes += 8 * 16 * count;
  uint32_t offsets[SIMT_WARP];
  for (int lane = 0; lane < 8 * count; lane++) {
    const unsigned char *row = ((const matrix_load *)lanes[lane])->row;
    shared_check(b, first + lane, row, 16, 16, false);
    offsets[lane] = (uint32_t)(row - b->shared);
  }
  cost_rows(b, first / SIMT_WARP, offsets, 8 * count);
  for (int matrix = 0; matrix < count; matrix++) {
    for (int lane = 0; lane < SIMT_WARP; lane++) {
      uint16_t halves[2];
      for (int i = 0; i < 2; i++) {
        simt_element at = transposed ? layout_ldmatrix_trans(lane, i) : layout_ldmatrix(lane, i);
        const matrix_load *source = lanes[8 * matrix + at.row];
        memcpy(&halves[i], source->row + 2 * at.column, sizeof halves[i]);
      }
      ((matrix_load *)lanes[lane])->registers[matrix] = halves[0] | (uint32_t)halves[1] << 16;
    }
  }
}

#define LDMATRIX(name, count, transposed)                                                 \
  static void run_##name(void *const *lanes) { load_matrices(lanes, count, transposed); } \
  void simt_##name(uint32_t to[count], const void *row) {                                 \
    static const collective c = {#name, run_##name};                                      \
    matrix_load l = {.row = row};                                                         \
    simt_collect(&c, &l);                                                                 \
    memcpy(to, l.registers, count * sizeof *to);                                          \
  }
LDMATRIX(ldmatrix_x2, 2, false)
LDMATRIX(ldmatrix_x4, 4, false)
LDMATRIX(ldmatrix_x2_trans, 2, true)
LDMATRIX(ldmatrix_x4_trans, 4, true)

// ---- products --------------------------------------------------------------------------------

typedef struct product {
  uint32_t a[4], b[2];
  float c[4], *d;
} product;

typedef float number_of(uint32_t bits);

static float register_half(const uint32_t *registers, int element, number_of *number) {
  return number(registers[element / 2] >> 16 * (element % 2) & 0xffff);
}

// Products are exact or rounded once, sums are formed in f32 one behind the other; hardware may add
// in another order.
static void multiply_tiles(void *const *lanes, float a[16][16], float b[16][8], int depth) {
  float sum[16][8];
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    for (int i = 0; i < 4; i++) {
      simt_element at = layout_c_16x8(lane, i);
      sum[at.row][at.column] = ((const product *)lanes[lane])->c[i];
    }
  }
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < depth; k++)
      for (int column = 0; column < 8; column++) sum[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    for (int i = 0; i < 4; i++) {
      simt_element at = layout_c_16x8(lane, i);
      ((const product *)lanes[lane])->d[i] = sum[at.row][at.column];
    }
  }
  simt_current->counts.products++;
}

static void multiply_halves(void *const *lanes, number_of *number) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    const product *p = lanes[lane];
    for (int i = 0; i < 8; i++) {
      simt_element at = layout_a_16x16(lane, i);
      a[at.row][at.column] = register_half(p->a, i, number);
    }
    for (int i = 0; i < 4; i++) {
      simt_element at = layout_b_16x8(lane, i);
      b[at.row][at.column] = register_half(p->b, i, number);
    }
  }
  multiply_tiles(lanes, a, b, 16);
}

static void run_bf16(void *const *lanes) { multiply_halves(lanes, number_of_bf16); }
static void run_f16(void *const *lanes) { multiply_halves(lanes, number_of_f16); }

static void run_tf32(void *const *lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    const product *p = lanes[lane];
    for (int i = 0; i < 4; i++) {
      simt_element at = layout_a_16x8(lane, i);
      a[at.row][at.column] = number_of_tf32(p->a[i]);
    }
    for (int i = 0; i < 2; i++) {
      simt_element at = layout_b_8x8(lane, i);
      b[at.row][at.column] = number_of_tf32(p->b[i]);
    }
  }
  multiply_tiles(lanes, a, b, 8);
}

#define MMA(name, run)                                                                          \
  void simt_##name(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, \
                   uint32_t b1, float c0, float c1, float c2, float c3) {                       \
    static const collective c = {#name, run};                                                   \
    product p = {{a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}, d};                              \
    simt_collect(&c, &p);                                                                       \
  }
MMA(mma_m16n8k16_bf16, run_bf16)
MMA(mma_m16n8k16_f16, run_f16)
MMA(mma_m16n8k8_tf32, run_tf32)
