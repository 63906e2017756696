// Random numbers by counter (Philox 4x32, 10 rounds): a draw is a function of seed, stream and
// position alone. There is no state to save and no order to keep. A resumed run therefore draws
// what the undisturbed run would have drawn, with any number of threads.
#pragma once

#include <stdint.h>

// A stream is named by a text, as "parameter layers.0.in_proj.weight" or "windows".
uint64_t random_stream(const char *name);

// 128 random bits for one position of a stream.
void random_bits(uint64_t seed, uint64_t stream, uint64_t position, uint32_t bits[4]);

double random_uniform(uint64_t seed, uint64_t stream, uint64_t position);  // in (0, 1)
double random_normal(uint64_t seed, uint64_t stream, uint64_t position);   // mean 0, deviation 1
int64_t random_below(uint64_t seed, uint64_t stream, uint64_t position,
                     int64_t limit);  // 0 .. limit - 1
