// passing STEPS: a job of ranks that only talks. In each step and each of three layers a rank sends
// the next one a block that depends on what it received before, of 1 byte to 1 MB; then all gather
// a sum of what they have. Rank 0 prints the sums of each step as the step ends: they depend on
// every byte of every message.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ranks/ranks.h"

enum { LAYERS = 3, LARGEST = 1 << 20 };

// xorshift64*.
static uint64_t next(uint64_t x) {
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  return x * UINT64_C(2685821657736338717);
}

static uint64_t digest(uint64_t seed, const unsigned char *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) seed = (seed ^ bytes[i]) * UINT64_C(1099511628211);
  return seed;
}

static void fill(uint64_t seed, unsigned char *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) bytes[i] = (unsigned char)((seed = next(seed)) >> 40);
}

static void pass(ranks *r, message_place place, uint64_t *own) {
  static unsigned char sent[LARGEST], received[LARGEST];
  int count = ranks_count(r), number = ranks_number(r);
  int64_t size = INT64_C(1) << (place.step * 7 + place.layer * 5) % 21;
  fill(*own, sent, size);
  message *both[] = {
      ranks_receive(r, (number + count - 1) % count, MESSAGE_STATES, place.layer, received, size),
      ranks_send(r, (number + 1) % count, MESSAGE_STATES, place.layer, sent, size)};
  ranks_wait_all(r, both, 2, place);
  *own = digest(*own | 1, received, size);
}

int main(int argc, char **argv) {
  ranks *r = NULL;
  if (ranks_open(&(ranks_settings){0}, &r) || !r)
    return fprintf(stderr, "passing: %s\n", rec_message()), 2;
  uint64_t own = (uint64_t)ranks_number(r) + 1, all[64];
  for (int64_t step = 0; step < atoll(argv[argc - 1]); step++) {
    for (int layer = 0; layer < LAYERS; layer++)
      pass(r, (message_place){step, layer, "states"}, &own);
    ranks_all_gather(r, &own, all, sizeof own, (message_place){step, -1, "sums"});
    if (ranks_number(r)) continue;
    for (int i = 0; i < ranks_count(r); i++) printf("%016llx ", (unsigned long long)all[i]);
    printf("\n"), fflush(stdout);
  }
  ranks_close(r);
  return 0;
}
