// A block's share of the second-level cache, for its scratch, whose sectors no other block touches.
//
// The scratch of all blocks that run at a time may exceed the cache. The sectors that a block has
// not touched for longest have then gone to memory when they are read again. The model holds
// scratch alone: tokens pass once.
#include <stdlib.h>

#include "runtime/support/simt/block.h"

enum sector_state { SECTOR_NEW, SECTOR_GONE, SECTOR_CLEAN, SECTOR_DIRTY };

struct simt_cache {
  int64_t room, held;      // sectors
  int32_t newest, oldest;  // of those held, -1: there is none
  int32_t *newer, *older;  // by sector, in the order in which they were touched
  unsigned char *state;
};

static int64_t sectors_of(const simt_launch *l) {
  return (l->scratch_bytes + SIMT_SECTOR - 1) / SIMT_SECTOR;
}

bool cache_open(simt_block *b) {
  const simt_launch *l = b->launch;
  if (!l->cache_bytes || !l->stamps || l->scratch_bytes <= l->cache_bytes) return true;
  size_t sectors = (size_t)sectors_of(l);
  simt_cache *c = b->cache = calloc(1, sizeof *c);
  if (!c) return false;
  c->room = l->cache_bytes / SIMT_SECTOR;
  c->newer = calloc(sectors, sizeof *c->newer);
  c->older = calloc(sectors, sizeof *c->older);
  c->state = calloc(sectors, sizeof *c->state);
  return c->room > 0 && c->newer && c->older && c->state;
}

void cache_clear(simt_block *b) {
  simt_cache *c = b->cache;
  if (!c) return;
  c->held = 0;
  c->newest = c->oldest = -1;
  for (int64_t i = 0; i < sectors_of(b->launch); i++) c->state[i] = SECTOR_NEW;
}

void cache_free(simt_block *b) {
  simt_cache *c = b->cache;
  if (!c) return;
  free(c->newer);
  free(c->older);
  free(c->state);
  free(c);
}

static void take_out(simt_cache *c, int32_t sector) {
  int32_t newer = c->newer[sector], older = c->older[sector];
  *(newer < 0 ? &c->newest : &c->older[newer]) = older;
  *(older < 0 ? &c->oldest : &c->newer[older]) = newer;
  c->held--;
}

static void put_first(simt_cache *c, int32_t sector) {
  c->newer[sector] = -1;
  c->older[sector] = c->newest;
  *(c->newest < 0 ? &c->oldest : &c->newer[c->newest]) = sector;
  c->newest = sector;
  c->held++;
}

static void touch_sector(simt_block *b, int32_t sector, bool write) {
  simt_cache *c = b->cache;
  unsigned char *state = &c->state[sector];
  if (*state >= SECTOR_CLEAN) take_out(c, sector);
  if (*state == SECTOR_GONE && !write) b->counts.cache_read_bytes += SIMT_SECTOR;
  if (*state < SECTOR_CLEAN) *state = SECTOR_CLEAN;
  if (write) *state = SECTOR_DIRTY;
  if (c->held == c->room) {
    int32_t gone = c->oldest;
    if (c->state[gone] == SECTOR_DIRTY) b->counts.cache_written_bytes += SIMT_SECTOR;
    c->state[gone] = SECTOR_GONE;
    take_out(c, gone);
  }
  put_first(c, sector);
}

void cache_touch(simt_block *b, int64_t offset, int64_t bytes, bool write) {
  if (!b->cache) return;
  for (int64_t i = offset / SIMT_SECTOR; i <= (offset + bytes - 1) / SIMT_SECTOR; i++)
    touch_sector(b, (int32_t)i, write);
}
