// Which element of a matrix a register of a lane holds: one formula for each fragment of the PTX
// ISA. The generator loads and stores fragments by the same formulas (compiler/emit/gpu_ops.def); a
// test checks that each is one to one.
//
// Registers of 16-bit elements hold two of them: element 2 r is the low half of register r. Titles
// are those of the PTX ISA, chapter "Warp-level matrix instructions".
#pragma once

#include <stdint.h>

typedef struct simt_element {
  int row, column;
} simt_element;

// "Matrix Fragments for mma.m16n8k16 with floating point type": A is 16 x 16, 8 elements in a lane.
static inline simt_element layout_a_16x16(int lane, int element) {
  return (simt_element){lane / 4 + element / 2 % 2 * 8,
                        lane % 4 * 2 + element % 2 + element / 4 * 8};
}

// B is 16 x 8, 4 elements in a lane.
static inline simt_element layout_b_16x8(int lane, int element) {
  return (simt_element){lane % 4 * 2 + element % 2 + element / 2 * 8, lane / 4};
}

// C and D are 16 x 8, 4 elements (registers of f32) in a lane, in every m16n8 shape.
static inline simt_element layout_c_16x8(int lane, int element) {
  return (simt_element){lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2};
}

// "Matrix Fragments for mma.m16n8k8", .tf32: A is 16 x 8, 4 elements (registers) in a lane.
static inline simt_element layout_a_16x8(int lane, int element) {
  return (simt_element){lane / 4 + element % 2 * 8, lane % 4 + element / 2 * 4};
}

// B is 8 x 8, 2 elements (registers) in a lane.
static inline simt_element layout_b_8x8(int lane, int element) {
  return (simt_element){lane % 4 + element * 4, lane / 4};
}

// "ldmatrix", .m8n8.b16: a lane holds 2 elements of each 8 x 8 matrix. Lane 8 m + r gives the
// address of row r of matrix m.
static inline simt_element layout_ldmatrix(int lane, int element) {
  return (simt_element){lane / 4, lane % 4 * 2 + element};
}

// With .trans the same of the transposed matrix.
static inline simt_element layout_ldmatrix_trans(int lane, int element) {
  return (simt_element){lane % 4 * 2 + element, lane / 4};
}

// "Asynchronous Warpgroup Level Matrix Instructions", D of m64nNk16: 64 x N, N / 2 elements in a
// lane of a warp.
static inline simt_element layout_group_c(int warp, int lane, int element) {
  return (simt_element){warp % 4 * 16 + lane / 4 + element / 2 % 2 * 8,
                        element / 4 * 8 + lane % 4 * 2 + element % 2};
}

// Of A in registers, 64 x 16: 8 elements in a lane.
static inline simt_element layout_group_a(int warp, int lane, int element) {
  simt_element at = layout_a_16x16(lane, element);
  return (simt_element){warp % 4 * 16 + at.row, at.column};
}

// "Swizzling modes" of tensor copies and of matrices in shared memory. In spans of 128, 64 or 32
// bytes, vectors of 16 bytes are permuted by the index of their 128 bytes. The address, from the
// start of shared memory, of what no swizzle has at `at`.
static inline uint32_t layout_swizzle(uint32_t at, uint32_t bytes) {
  return at ^ (at >> 7 & (bytes / 16 - 1)) << 4;
}

// "Matrix Descriptor Format" and "Shared Memory Matrix Layout": how an operand lies in shared
// memory.
typedef struct simt_matrix {
  uint32_t start, leading, stride;  // bytes
  // numbers of 16 bits in a row: 64, 32, 16; 0: a mode that is not known here
  int width;
} simt_matrix;

static inline simt_matrix layout_descriptor(uint64_t bits) {
  static const int widths[] = {0, 64, 32, 16};
  simt_matrix m = {(uint32_t)(bits & 0x3fff) << 4, (uint32_t)(bits >> 16 & 0x3fff) << 4,
                   (uint32_t)(bits >> 32 & 0x3fff) << 4, widths[bits >> 62]};
  return m;
}

// The address of element k of a line (a row of A, a column of B). Transposed: lines lie side by
// side.
static inline uint32_t layout_operand(const simt_matrix *m, int line, int k, int transposed) {
  int width = m->width, row = transposed ? k : line, column = transposed ? line : k;
  uint32_t at = m->start + (uint32_t)(row % 8 * width * 2) + (uint32_t)(row / 8) * m->stride;
  at += (uint32_t)(column % width * 2) + (uint32_t)(column / width) * m->leading;
  return layout_swizzle(at, (uint32_t)(2 * width));
}
