/* Which element of a matrix a register of a lane holds: one formula for each fragment of the PTX ISA. The
 * generator loads and stores fragments by the same formulas (compiler/codegen/gpu_ops.def); a test checks that
 * each is one to one.
 *
 * Registers of 16-bit elements hold two of them: element 2 r is the low half of register r. Titles are those of
 * the PTX ISA, chapter "Warp-level matrix instructions".
 */
#ifndef REC_SIMT_LAYOUT_H
#define REC_SIMT_LAYOUT_H

typedef struct simt_element {
  int row, column;
} simt_element;

/* "Matrix Fragments for mma.m16n8k16 with floating point type": A is 16 x 16, 8 elements in a lane. */
static inline simt_element layout_a_16x16(int lane, int element) {
  return (simt_element){lane / 4 + element / 2 % 2 * 8,
                        lane % 4 * 2 + element % 2 + element / 4 * 8};
}

/* B is 16 x 8, 4 elements in a lane. */
static inline simt_element layout_b_16x8(int lane, int element) {
  return (simt_element){lane % 4 * 2 + element % 2 + element / 2 * 8, lane / 4};
}

/* C and D are 16 x 8, 4 elements (registers of f32) in a lane, in every m16n8 shape. */
static inline simt_element layout_c_16x8(int lane, int element) {
  return (simt_element){lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2};
}

/* "Matrix Fragments for mma.m16n8k8", .tf32: A is 16 x 8, 4 elements (registers) in a lane. */
static inline simt_element layout_a_16x8(int lane, int element) {
  return (simt_element){lane / 4 + element % 2 * 8, lane % 4 + element / 2 * 4};
}

/* B is 8 x 8, 2 elements (registers) in a lane. */
static inline simt_element layout_b_8x8(int lane, int element) {
  return (simt_element){lane % 4 + element * 4, lane / 4};
}

/* "ldmatrix", .m8n8.b16: 2 elements in a lane of each 8 x 8 matrix; lane 8 m + r gives the address of row r of
 * matrix m. */
static inline simt_element layout_ldmatrix(int lane, int element) {
  return (simt_element){lane / 4, lane % 4 * 2 + element};
}

/* With .trans the same of the transposed matrix. */
static inline simt_element layout_ldmatrix_trans(int lane, int element) {
  return (simt_element){lane % 4 * 2 + element, lane / 4};
}

#endif
