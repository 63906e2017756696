// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011): ten rounds of multiplications keyed by the seed
// over the counter (position, stream).
#include "runtime/train/data/random.h"

#include <math.h>

uint64_t random_stream(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  return hash;
}

void random_bits(uint64_t seed, uint64_t stream, uint64_t position, uint32_t bits[4]) {
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32);
  uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
    c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  bits[0] = c0, bits[1] = c1, bits[2] = c2, bits[3] = c3;
}

// 53 bits in the middle of their interval, so that neither 0 nor 1 comes out.
static double unit(uint32_t high, uint32_t low) {
  uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
  return ((double)bits + 0.5) * 0x1p-52;
}

double random_uniform(uint64_t seed, uint64_t stream, uint64_t position) {
  uint32_t bits[4];
  random_bits(seed, stream, position, bits);
  return unit(bits[0], bits[1]);
}

double random_normal(uint64_t seed, uint64_t stream, uint64_t position) {
  uint32_t bits[4];
  random_bits(seed, stream, position, bits);
  return sqrt(-2 * log(unit(bits[0], bits[1]))) *
         cos(2 * 3.14159265358979323846 * unit(bits[2], bits[3]));
}

__extension__ typedef unsigned __int128 product;

int64_t random_below(uint64_t seed, uint64_t stream, uint64_t position, int64_t limit) {
  uint32_t bits[4];
  random_bits(seed, stream, position, bits);
  uint64_t wide = (uint64_t)bits[0] << 32 | bits[1];
  return (int64_t)((product)wide * (uint64_t)limit >> 64);
}
