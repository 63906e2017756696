// Conversions of f16 that LLVM calls where the processor has none. Compilers bring them in a
// library of their own, with which ours is not linked.
#include "runtime/support/simt/numeric.h"

__extension__ typedef _Float16 half_number;

half_number __truncsfhf2(float x);
float __extendhfsf2(half_number x);

half_number __truncsfhf2(float x) {
  uint16_t bits;
  half_number half;
  rec_narrow(&bits, &x, 1, REC_STORED_F16);
  memcpy(&half, &bits, sizeof half);
  return half;
}

float __extendhfsf2(half_number x) {
  uint16_t bits;
  memcpy(&bits, &x, sizeof bits);
  return rec_widen(bits, REC_STORED_F16);
}
