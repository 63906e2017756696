// The random numbers of all tests: splitmix64. The same state gives the same numbers on every
// machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline int random_below(uint64_t *state, int limit) {
  return (int)(next_random(state) % (uint64_t)limit);
}

static inline bool random_chance(uint64_t *state, int percent) {
  return random_below(state, 100) < percent;
}
