// Global memory that blocks of a launch share: a counter orders their accesses.
//
//   block 3 writes its copy; barrier; thread 0 counts      block 5: thread 0 counts, finds that all others were; barrier; reads
//
// An access of another block precedes this one if that block was counted after its access and this block has counted since. On
// either side a barrier separates the access from the counting, unless one thread did both. Any other pair of accesses is a
// race, in whatever order the blocks happened to run.
#include <sched.h>

#include "runtime/simt/block.h"
#include "runtime/simt/ops.h"

enum { THREAD_BITS = 16, EPOCH_BITS = 32 };

typedef struct access {
  int64_t block;
  int32_t thread;
  uint32_t epoch;
} access;

static uint64_t packed(const simt_block *b) {
  return (uint64_t)(b->number + 1) << (THREAD_BITS + EPOCH_BITS) | (uint64_t)b->running << EPOCH_BITS | b->epoch;
}

static access unpacked(uint64_t x) {
  return (access){.block = (int64_t)(x >> (THREAD_BITS + EPOCH_BITS)) - 1,
                  .thread = (int32_t)(x >> EPOCH_BITS & ((1 << THREAD_BITS) - 1)),
                  .epoch = (uint32_t)x};
}

// ---- the counter -----------------------------------------------------------------------------

static void lock(simt_order *o) {
  while (__atomic_exchange_n(&o->locked, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

static void unlock(simt_order *o) { __atomic_store_n(&o->locked, 0, __ATOMIC_RELEASE); }

static void arrive(simt_block *b) {
  simt_order *o = b->launch->order;
  simt_arrival *own = &o->arrivals[b->number];
  if (own->number) {
    unlock(o);
    simt_fail("counts its block a second time");
  }
  *own = (simt_arrival){.thread = b->running, .epoch = b->epoch, .released = b->launch->skipped_release != b->number + 1};
  __atomic_store_n(&own->number, ++o->arrived, __ATOMIC_RELEASE);
}

int32_t simt_atom_inc(void *at, int32_t most) {
  simt_block *b = simt_current;
  simt_order *o = b->launch->order;
  uint32_t *counter = at, before, after;
  global_check_counter(b, at, sizeof *counter);
  if (o) lock(o);
  if (o) arrive(b);
  before = __atomic_load_n(counter, __ATOMIC_RELAXED);
  do {
    after = before < (uint32_t)most ? before + 1 : 0;
  } while (!__atomic_compare_exchange_n(counter, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  if (o) unlock(o);
  return (int32_t)before;
}

// ---- accesses --------------------------------------------------------------------------------

static bool is_ordered(const simt_block *b, access other) {
  const simt_order *o = b->launch->order;
  const simt_arrival *own = &o->arrivals[b->number], *there = &o->arrivals[other.block];
  if (other.block == b->number) return true;
  int32_t number = __atomic_load_n(&there->number, __ATOMIC_ACQUIRE);
  if (!number || number > own->number || !there->released) return false;
  bool released = other.thread == there->thread || other.epoch < there->epoch;
  return released && (b->running == own->thread || b->epoch > own->epoch);
}

static _Noreturn void report(const simt_block *b, int region, int64_t offset, access other, bool write, const char *did) {
  simt_fail("race: %s byte %lld of %s, which thread %d of block %lld %s, and no counter orders the two",
            write ? "writes" : "reads", (long long)offset, b->launch->regions[region].name, other.thread,
            (long long)other.block, did);
}

void order_check(simt_block *b, int region, const void *at, int64_t bytes, bool write) {
  simt_order *o = b->launch->order;
  if (o->first[region] < 0) return;
  int64_t offset = (int64_t)((uintptr_t)at - (uintptr_t)b->launch->regions[region].data);
  simt_order_cell *cells = o->cells + o->first[region];
  uint64_t own = packed(b);
  for (int64_t i = offset / SIMT_ORDER_BYTES; i < (offset + bytes + SIMT_ORDER_BYTES - 1) / SIMT_ORDER_BYTES; i++) {
    uint64_t written = __atomic_load_n(&cells[i].written, __ATOMIC_RELAXED),
             read = __atomic_load_n(&cells[i].read, __ATOMIC_RELAXED);
    if (written && !is_ordered(b, unpacked(written)))
      report(b, region, i * SIMT_ORDER_BYTES, unpacked(written), write, "wrote");
    if (write && read && !is_ordered(b, unpacked(read))) report(b, region, i * SIMT_ORDER_BYTES, unpacked(read), write, "read");
    __atomic_store_n(write ? &cells[i].written : &cells[i].read, own, __ATOMIC_RELAXED);
  }
}
