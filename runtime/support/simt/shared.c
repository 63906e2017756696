// Memory of a block, shared memory and scratch: bounds, alignment, races.
//
//   thread 3 writes bytes 0..3, thread 40 reads bytes 2..3, no barrier between them   ->   a race, in either order
//
// Every two bytes have a cell that records who wrote and read them last, and in which epoch.
// Barriers of the block begin a new epoch. Those of a warp begin one inside it that counts for its
// lanes only.
#include <stdio.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/ops.h"

#define IN_FLIGHT UINT32_MAX /* as write_epoch: a copy of `writer` is under way */

// Readers of one epoch: a thread, several lanes of one warp, threads of several warps.
enum { READER_WARP = 0x4000, READER_MANY = 0xffff };

static bool is_warp_of(uint16_t reader, int warp) {
  if (reader == READER_MANY) return false;
  return reader & READER_WARP ? reader - READER_WARP == warp : reader / SIMT_WARP == warp;
}

// Whether the last write must not be seen by the thread, or not be overwritten by it.
static bool write_collides(const simt_block *b, const shadow_cell *cell, int thread) {
  if (cell->write_epoch != b->epoch || cell->writer == thread) return false;
  int warp = thread / SIMT_WARP;
  return cell->writer / SIMT_WARP != warp || cell->write_warp_epoch == b->warps[warp].epoch;
}

static bool read_collides(const simt_block *b, const shadow_cell *cell, int thread) {
  if (cell->read_epoch != b->epoch || cell->reader == thread) return false;
  int warp = thread / SIMT_WARP;
  return !is_warp_of(cell->reader, warp) || cell->read_warp_epoch == b->warps[warp].epoch;
}

static void note_shared_read(const simt_block *b, shadow_cell *cell, int thread) {
  int warp = thread / SIMT_WARP;
  if (cell->read_epoch != b->epoch)
    cell->reader = (uint16_t)thread;
  else if (cell->reader != thread)
    cell->reader = is_warp_of(cell->reader, warp) ? (uint16_t)(READER_WARP + warp) : READER_MANY;
  cell->read_epoch = b->epoch;
  cell->read_warp_epoch = b->warps[warp].epoch;
}

static void note_shared_write(const simt_block *b, shadow_cell *cell, int thread) {
  cell->write_epoch = b->epoch;
  cell->write_warp_epoch = b->warps[thread / SIMT_WARP].epoch;
  cell->writer = (uint16_t)thread;
  cell->fences = b->threads[thread].fences;
}

static int64_t byte_of(const shadow *s, const shadow_cell *cell) {
  return s->first + (cell - s->cells) * SHADOW_BYTES;
}

static _Noreturn void report_read(const shadow *s, const shadow_cell *cell, int thread) {
  char who[40];
  if (cell->reader == READER_MANY)
    snprintf(who, sizeof who, "threads of several warps");
  else if (cell->reader & READER_WARP)
    snprintf(who, sizeof who, "lanes of warp %d", cell->reader - READER_WARP);
  else
    snprintf(who, sizeof who, "thread %d", cell->reader);
  simt_fail_thread(thread, "race: writes byte %lld of %s, which %s read with no barrier between",
                   (long long)byte_of(s, cell), s->name, who);
}

// Bytes that an asynchronous copy is filling are not for threads.
static void check_is_free(const shadow *s, const shadow_cell *cell, int thread, const char *does) {
  if (cell->write_epoch < IN_FLIGHT) return;
  simt_fail_thread(thread,
                   "%s byte %lld of %s while an asynchronous copy of thread %d that it has not "
                   "waited for fills it",
                   does, (long long)byte_of(s, cell), s->name, cell->writer);
}

static _Noreturn void report_written(const shadow *s, const shadow_cell *cell, int thread,
                                     const char *does) {
  simt_fail_thread(thread,
                   "race: %s byte %lld of %s, which thread %d wrote with no barrier between", does,
                   (long long)byte_of(s, cell), s->name, cell->writer);
}

static void check_cell(simt_block *b, const shadow *s, int64_t index, int thread, bool write) {
  const char *does = write ? "writes" : "reads";
  shadow_cell *cell = &s->cells[index];
  check_is_free(s, cell, thread, does);
  if (write_collides(b, cell, thread)) report_written(s, cell, thread, does);
  if (!write) {
    note_shared_read(b, cell, thread);
    return;
  }
  if (read_collides(b, cell, thread)) report_read(s, cell, thread);
  note_shared_write(b, cell, thread);
}

void shadow_check(simt_block *b, const shadow *s, int thread, int64_t offset, uint32_t bytes,
                  bool write) {
  int64_t end = (offset + bytes + SHADOW_BYTES - 1) / SHADOW_BYTES;
  for (int64_t i = offset / SHADOW_BYTES; i < end; i++) check_cell(b, s, i, thread, write);
}

void shared_check(simt_block *b, int thread, const void *at, uint32_t bytes, uint32_t alignment,
                  bool write) {
  const char *does = write ? "writes" : "reads";
  int64_t offset = (const unsigned char *)at - b->shared, size = b->launch->shared_bytes;
  if (offset < 0 || offset > size - (int64_t)bytes)
    simt_fail_thread(thread, "%s %u bytes at byte %lld of shared memory, which has %lld", does,
                     bytes, (long long)offset, (long long)size);
  if (offset % alignment != 0)
    simt_fail_thread(thread, "%s %u bytes at byte %lld of shared memory, not a multiple of %u",
                     does, bytes, (long long)offset, alignment);
  shadow_check(b, &b->shared_shadow, thread, offset, bytes, write);
}

// Products of warpgroups see what threads write as little as other threads do, and without a fence
// not at all.
static void check_cell_beside(simt_block *b, int64_t index, int thread, uint32_t epoch) {
  shadow_cell *cell = &b->shared_shadow.cells[index];
  long long offset = index * SHADOW_BYTES;
  check_is_free(&b->shared_shadow, cell, thread, "multiplies");
  if (cell->write_epoch && cell->write_epoch >= epoch)
    simt_fail_thread(thread,
                     "race: a warpgroup multiplies byte %lld of shared memory, which thread %d "
                     "wrote with no barrier between",
                     offset, cell->writer);
  if (cell->write_epoch && b->threads[cell->writer].fences == cell->fences)
    simt_fail_thread(thread,
                     "a warpgroup multiplies byte %lld of shared memory, which thread %d wrote "
                     "without a fence for what reads beside the threads",
                     offset, cell->writer);
  cell->read_epoch = b->epoch;
  cell->reader = READER_MANY;
}

void shared_read_beside(simt_block *b, int thread, uint32_t offset, uint32_t epoch) {
  enum { BYTES = 16 };
  int64_t size = b->launch->shared_bytes;
  if (offset + BYTES > size)
    simt_fail_thread(thread, "multiplies byte %u of shared memory, which has %lld", offset,
                     (long long)size);
  for (uint32_t i = offset / SHADOW_BYTES; i < (offset + BYTES) / SHADOW_BYTES; i++)
    check_cell_beside(b, i, thread, epoch);
}

void simt_check_shared(const void *at, int32_t bytes, int32_t alignment, int32_t write) {
  simt_block *b = simt_current;
  b->counts.shared_accesses++;
  shared_check(b, b->running, at, (uint32_t)bytes, (uint32_t)alignment, write != 0);
}

void shared_in_flight(simt_block *b, int thread, uint32_t offset, uint32_t bytes) {
  for (uint32_t i = offset / SHADOW_BYTES; i < (offset + bytes) / SHADOW_BYTES; i++) {
    b->shared_shadow.cells[i].write_epoch = IN_FLIGHT;
    b->shared_shadow.cells[i].writer = (uint16_t)thread;
  }
}

void shared_landed(simt_block *b, int thread, uint32_t offset, uint32_t bytes) {
  for (uint32_t i = offset / SHADOW_BYTES; i < (offset + bytes) / SHADOW_BYTES; i++)
    note_shared_write(b, &b->shared_shadow.cells[i], thread);
}
