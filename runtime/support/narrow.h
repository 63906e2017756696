// Numbers rounded to the 16-bit types that tokens may be stored in.
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t rec_float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float rec_bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float rec_widen_bf16(uint16_t x) { return rec_bits_float((uint32_t)x << 16); }

static inline uint16_t rec_narrow_bf16(float x) {
  uint32_t bits = rec_float_bits(x), quiet = bits | 0x400000,
           rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (uint16_t)((x != x ? quiet : rounded) >> 16);
}

// Nearest, ties to even; NaN stays NaN. `stored` is REC_STORED_BF16 or REC_STORED_F16.
void rec_narrow(uint16_t *to, const float *from, int64_t count, int stored);
// The number that such a type stores.
float rec_widen(uint16_t stored_bits, int stored);
