// The numbers that registers hold.
#ifndef REC_SIMT_NUMERIC_H
#define REC_SIMT_NUMERIC_H

#include <stdint.h>
#include <string.h>

#include "runtime/shared/library.h"
#include "runtime/support/narrow.h"

static inline float number_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint32_t bits_of_number(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float number_of_bf16(uint32_t bits) { return number_of_bits(bits << 16); }
static inline float number_of_f16(uint32_t bits) { return rec_widen((uint16_t)bits, REC_STORED_F16); }
// tf32: the last 13 bits of the significand are not read.
static inline float number_of_tf32(uint32_t bits) { return number_of_bits(bits & ~UINT32_C(0x1fff)); }

#endif
