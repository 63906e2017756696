// Global memory: every access must lie in a tensor of the launch, and its bytes are counted.
#include <stdint.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/ops.h"

static bool is_inside(const simt_region *r, const void *at, int64_t bytes) {
  int64_t offset = (int64_t)((uintptr_t)at - (uintptr_t)r->data);
  return offset >= 0 && offset <= r->bytes - bytes;
}

// A final state may take the place of the initial one. A store therefore prefers a region that may
// be written.
static int find_region(simt_block *b, const void *at, int64_t bytes, bool write) {
  const simt_launch *l = b->launch;
  const simt_region *last = &l->regions[b->last_region];
  if (is_inside(last, at, bytes) && (last->writable || !write)) return b->last_region;
  int found = -1;
  for (int i = 0; i < l->region_count; i++) {
    if (!is_inside(&l->regions[i], at, bytes)) continue;
    found = i;
    if (l->regions[i].writable || !write) break;
  }
  if (found >= 0) b->last_region = found;
  return found;
}

// An address outside is told by what lies next below it.
static _Noreturn void report_outside(const simt_block *b, const void *at, int32_t bytes,
                                     const char *does) {
  const simt_region *nearest = NULL;
  for (int i = 0; i < b->launch->region_count; i++) {
    const simt_region *r = &b->launch->regions[i];
    if ((uintptr_t)r->data > (uintptr_t)at) continue;
    if (!nearest || (uintptr_t)r->data > (uintptr_t)nearest->data) nearest = r;
  }
  if (!nearest) simt_fail("%s %d bytes of global memory below every tensor", does, bytes);
  simt_fail(
      "%s %d bytes of global memory outside of every tensor, %lld bytes behind the start of %s, "
      "which has %lld",
      does, bytes, (long long)((uintptr_t)at - (uintptr_t)nearest->data), nearest->name,
      (long long)nearest->bytes);
}

// Sectors that nobody has touched before, and those that this block has not.
typedef struct new_sectors {
  int64_t launch, block;
} new_sectors;

static new_sectors count_sectors(const simt_block *b, const simt_region *r, const void *at,
                                 int32_t bytes, uint32_t *stamps) {
  int64_t start = (int64_t)((uintptr_t)r->data / SIMT_SECTOR),
          from = (int64_t)((uintptr_t)at / SIMT_SECTOR) - start,
          to = (int64_t)(((uintptr_t)at + (uintptr_t)bytes - 1) / SIMT_SECTOR) - start;
  uint32_t stamp = (uint32_t)b->number + 1;
  new_sectors found = {0, 0};
  for (int64_t i = from; i <= to; i++) {
    found.block += stamps[i] != stamp;
    found.launch += stamps[i] == 0;
    stamps[i] = stamp;
  }
  return found;
}

static void count_global_access(simt_block *b, int region, const void *at, int32_t bytes,
                                bool write) {
  const simt_stamps *s = b->launch->stamps;
  uint32_t *stamps = (write ? s->written : s->read) + s->first[region];
  new_sectors found = count_sectors(b, &b->launch->regions[region], at, bytes, stamps);
  simt_counts *c = &b->counts;
  *(write ? &c->block_written_bytes : &c->block_read_bytes) += SIMT_SECTOR * found.block;
  *(write ? &c->launch_written_bytes : &c->launch_read_bytes) += SIMT_SECTOR * found.launch;
  (write ? s->written_bytes : s->read_bytes)[region] += SIMT_SECTOR * found.block;
}

// Scratch belongs to one block, whose threads share it like shared memory.
static void check_scratch(simt_block *b, const void *at, int32_t bytes, bool write) {
  const simt_launch *l = b->launch;
  int64_t offset = (int64_t)((uintptr_t)at - (uintptr_t)l->scratch),
          own = offset - b->number * l->scratch_bytes;
  if (offset < 0 || offset >= l->blocks * l->scratch_bytes) return;
  if (own < 0 || own > l->scratch_bytes - bytes)
    simt_fail("%s %d bytes of scratch of block %lld", write ? "writes" : "reads", bytes,
              (long long)(offset / l->scratch_bytes));
  cache_touch(b, own, bytes, write);
  shadow_check(b, &b->scratch_shadow, b->running, own, (uint32_t)bytes, write);
}

// The access lies in one tensor, which may be read or written so.
static void check_region(simt_block *b, const void *at, int32_t bytes, bool write) {
  const char *does = write ? "writes" : "reads";
  int index = find_region(b, at, bytes, write);
  if (index < 0) report_outside(b, at, bytes, does);
  const simt_region *r = &b->launch->regions[index];
  if (write && !r->writable) simt_fail("writes to %s, which is read only", r->name);
  if (b->races) races_check(b, r, at, (uint32_t)bytes, write);
  if (b->launch->stamps) count_global_access(b, index, at, bytes, write);
}

static void check_alignment(const void *at, int32_t bytes, int32_t alignment, bool write) {
  if ((uintptr_t)at % (uintptr_t)alignment != 0)
    simt_fail("%s %d bytes of global memory at an address that is not a multiple of %d",
              write ? "writes" : "reads", bytes, alignment);
}

// What a load, a store or an asynchronous copy touches.
void global_check(simt_block *b, const void *at, int32_t bytes, int32_t alignment, int32_t write) {
  check_alignment(at, bytes, alignment, write != 0);
  *(write ? &b->counts.written_bytes : &b->counts.read_bytes) += bytes;
  if (b->launch->scratch_bytes > 0) check_scratch(b, at, bytes, write != 0);
  if (b->launch->region_count > 0) check_region(b, at, bytes, write != 0);
}

void simt_check_global(const void *at, int32_t bytes, int32_t alignment, int32_t write) {
  simt_block *b = simt_current;
  b->counts.global_accesses++;
  global_check(b, at, bytes, alignment, write);
}
