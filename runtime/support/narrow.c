// Rounds floats to bfloat16 and half precision on their bits: nearest, ties to even. The compiled
// kernels do the same on vectors (compiler/emit/convert16.c).
#include "runtime/support/narrow.h"

#include "compiler/abi/library.h"

// Below 2^-14 the addition of 0.5 rounds: its last bit is the least half. Otherwise exponent and
// fraction are rounded as one number, after larger numbers have become infinity.
static uint16_t float_to_half(float x) {
  uint32_t bits = rec_float_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  uint32_t limited = size < 0x47800000 ? size : 0x47800000;
  uint32_t normal = (limited - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
  uint32_t small = rec_float_bits(rec_bits_float(size) + 0.5f) - 0x3f000000;
  uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
  uint32_t half = size > 0x7f800000 ? nan : size < 0x38800000 ? small : normal;
  return (uint16_t)(sign | half);
}

void rec_narrow(uint16_t *to, const float *from, int64_t count, int stored) {
  if (stored == REC_STORED_BF16)
    for (int64_t i = 0; i < count; i++) to[i] = rec_narrow_bf16(from[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = float_to_half(from[i]);
}

float rec_widen(uint16_t bits, int stored) {
  if (stored == REC_STORED_BF16) return rec_widen_bf16(bits);
  uint32_t size = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
  if (size < 0x400) return rec_bits_float(sign | rec_float_bits((float)size * 0x1p-24f));
  return rec_bits_float(sign | ((size << 13) + (size < 0x7c00 ? 0x38000000 : 0x70000000)));
}
