// The numbers that registers hold.
#pragma once

#include "compiler/abi/library.h"
#include "runtime/support/narrow.h"

static inline float number_of_bf16(uint32_t bits) { return rec_bits_float(bits << 16); }
static inline float number_of_f16(uint32_t bits) {
  return rec_widen((uint16_t)bits, REC_STORED_F16);
}
// tf32: the last 13 bits of the significand are not read.
static inline float number_of_tf32(uint32_t bits) {
  return rec_bits_float(bits & ~UINT32_C(0x1fff));
}
