// Numbers rounded to the 16-bit types that tokens may be stored in.
#ifndef REC_SUPPORT_NARROW_H
#define REC_SUPPORT_NARROW_H

#include <stdint.h>

// Nearest, ties to even; NaN stays NaN. `stored` is REC_STORED_BF16 or REC_STORED_F16.
void rec_narrow(uint16_t *to, const float *from, int64_t count, int stored);
// The number that such a type stores.
float rec_widen(uint16_t stored_bits, int stored);

#endif
