// Bulk copies: one thread copies boxes of tensors into shared memory, and mbarriers tell when they are there.
//
//   expect m, 4096; bulk a, map, m, (0, 64)   ->   wait m, 0: a has landed; before, it holds NaNs and nobody may touch it
//
// An mbarrier counts phases. A phase ends when all its arrivals have come, and as many bytes have been copied as they
// announced. Copies land at the first wait that finds all of them started: as late as they may. The state of an mbarrier lies
// here; its eight bytes of shared memory are only reserved.
#include <stdlib.h>
#include <string.h>

#include "runtime/simt/block.h"
#include "runtime/simt/cost.h"
#include "runtime/simt/layout.h"
#include "runtime/simt/ops.h"
#include "runtime/simt/tensor_map.h"

enum { MOST_ARRIVALS = (1 << 20) - 1, MOST_EXPECTED = (1 << 20) - 1, PIECE = 16, BULK_ALIGNMENT = 128 };

typedef struct bulk_copy {
  tensor_map map;
  int32_t at[TENSOR_AXES];
  uint32_t offset;  // in shared memory
} bulk_copy;

struct simt_mbarrier {
  uint32_t offset;            // in shared memory
  int thread;                 // that has made it
  uint32_t epoch, fences;     // of then
  int32_t arrivals, missing;  // of a phase; that have not come in this one
  uint32_t phase;             // that is under way
  int64_t expected, started;  // bytes of this phase: announced, of copies under way
  uint32_t *seen;             // by thread: phases that it knows to have ended
  bulk_copy *copies;
  int copy_count, copy_room;
};

// ---- mbarriers -------------------------------------------------------------------------------

void simt_mbarrier_init(void *at, int32_t arrivals) {
  simt_block *b = simt_current;
  int thread = b->running;
  if (arrivals < 1 || arrivals > MOST_ARRIVALS)
    simt_fail("makes an mbarrier of %d arrivals, not 1 to %d", arrivals, MOST_ARRIVALS);
  if (b->mbarrier_count == BULK_WRITER) simt_fail("makes more than %d mbarriers", BULK_WRITER);
  shared_begin_mbarrier(b, thread, at);
  b->mbarriers = simt_grown(b->mbarriers, b->mbarrier_count, &b->mbarrier_room, sizeof *b->mbarriers, "mbarriers");
  simt_mbarrier *m = &b->mbarriers[b->mbarrier_count++];
  size_t threads = (size_t)b->launch->threads;
  uint32_t *seen = m->seen ? m->seen : malloc(threads * sizeof *seen);
  if (!seen) simt_fail("makes an mbarrier that there is no memory for");
  memset(seen, 0, threads * sizeof *seen);
  *m = (simt_mbarrier){.offset = (uint32_t)((unsigned char *)at - b->shared),
                       .thread = thread,
                       .epoch = b->epoch,
                       .fences = b->threads[thread].fences,
                       .arrivals = arrivals,
                       .missing = arrivals,
                       .seen = seen,
                       .copies = m->copies,
                       .copy_room = m->copy_room};
}

// The number of the mbarrier at an address. Threads other than its maker may use it only after a barrier.
static int find(const simt_block *b, const void *at) {
  int64_t offset = (const unsigned char *)at - b->shared;
  int i = 0;
  while (i < b->mbarrier_count && b->mbarriers[i].offset != offset) i++;
  if (i == b->mbarrier_count) simt_fail("takes byte %lld of shared memory for an mbarrier, which it is not", (long long)offset);
  const simt_mbarrier *m = &b->mbarriers[i];
  if (m->thread != b->running && m->epoch == b->epoch)
    simt_fail("race: uses the mbarrier at byte %u, which thread %d made with no barrier between", m->offset, m->thread);
  return i;
}

static void end_phase(simt_mbarrier *m) {
  m->phase++;
  m->missing = m->arrivals;
  m->expected = m->started = 0;
  m->copy_count = 0;
}

static bool is_complete(const simt_mbarrier *m) { return m->missing == 0 && m->started == m->expected; }

// Threads that wait for the mbarrier look again.
static void wake_all(simt_block *b, int number) {
  for (int t = 0; t < b->launch->threads; t++)
    if (b->threads[t].state == THREAD_AT_MBARRIER && b->threads[t].mbarrier == number) simt_wake(b, t);
}

// After an arrival or the start of a copy.
static void settle(simt_block *b, int number) {
  simt_mbarrier *m = &b->mbarriers[number];
  if (m->missing > 0) return;
  if (m->started > m->expected)
    simt_fail("copies %lld bytes in phase %u of the mbarrier at byte %u, which expects %lld", (long long)m->started, m->phase,
              m->offset, (long long)m->expected);
  if (!is_complete(m)) return;
  if (m->copy_count == 0) end_phase(m);
  wake_all(b, number);
}

void simt_mbarrier_expect(void *at, int32_t bytes) {
  simt_block *b = simt_current;
  int number = find(b, at);
  simt_mbarrier *m = &b->mbarriers[number];
  if (simt_is_skipped(&b->threads[b->running].expects, b->launch->skipped_expect)) return;
  if (m->missing == 0)
    simt_fail("arrives at the mbarrier at byte %u, whose phase %u has had all its arrivals and has not ended", m->offset,
              m->phase);
  if (bytes < 0 || m->expected + bytes > MOST_EXPECTED)
    simt_fail("expects %d bytes more at the mbarrier at byte %u, which can count %d", bytes, m->offset, MOST_EXPECTED);
  m->expected += bytes;
  m->missing--;
  settle(b, number);
}

bool bulk_is_seen(const simt_block *b, int number, int thread, uint32_t phase) {
  return b->mbarriers[number].seen[thread] > phase;
}

void bulk_share(simt_block *b, int warp) {
  for (int i = 0; i < b->mbarrier_count; i++) {
    uint32_t *seen = b->mbarriers[i].seen + warp * SIMT_WARP, most = 0;
    for (int lane = 0; lane < SIMT_WARP; lane++) most = seen[lane] > most ? seen[lane] : most;
    for (int lane = 0; lane < SIMT_WARP; lane++) seen[lane] = most;
  }
}

void bulk_open(simt_block *b) {
  for (int i = 0; i < b->mbarrier_count; i++) shared_end_mbarrier(b, b->mbarriers[i].offset);
  b->mbarrier_count = 0;
}

void bulk_free(simt_block *b) {
  for (int i = 0; i < b->mbarrier_room; i++) {
    free(b->mbarriers[i].seen);
    free(b->mbarriers[i].copies);
  }
  free(b->mbarriers);
}

void bulk_check_exit(const simt_block *b) {
  for (int i = 0; i < b->mbarrier_count; i++) {
    const simt_mbarrier *m = &b->mbarriers[i];
    if (m->copy_count > 0) simt_fail("ends with %d bulk copies under way that nobody has waited for", m->copy_count);
    if (m->expected > 0)
      simt_fail("ends, and %lld bytes that the mbarrier at byte %u expects nobody has copied", (long long)m->expected,
                m->offset);
  }
}

_Noreturn void bulk_report_deadlock(const simt_block *b, int thread) {
  const simt_mbarrier *m = &b->mbarriers[b->threads[thread].mbarrier];
  simt_fail_thread(thread,
                   "waits for phase %u of the mbarrier at byte %u, which never ends: %d of %d arrivals are missing, %lld bytes "
                   "are expected, %lld copied",
                   m->phase, m->offset, m->missing, m->arrivals, (long long)m->expected, (long long)m->started);
}

// ---- copies ----------------------------------------------------------------------------------

static void land(simt_block *b, int number, const bulk_copy *c) {
  uint32_t bytes = tensor_map_row_bytes(&c->map), rows = (uint32_t)tensor_map_rows(&c->map);
  for (uint32_t row = 0; row < rows; row++) {
    unsigned char line[TENSOR_ROW_BYTES];
    tensor_row from = tensor_map_row(&c->map, c->at, row);
    memset(line, 0, bytes);
    if (from.bytes) memcpy(line + from.before, from.from, from.bytes);
    for (uint32_t i = 0; i < bytes; i += PIECE) {
      uint32_t at = c->offset + row * bytes + i;
      memcpy(b->shared + (c->map.span ? layout_swizzle(at, c->map.span) : at), line + i, PIECE);
    }
  }
  shared_end_bulk(b, c->offset, rows * bytes, number, b->mbarriers[number].phase);
}

void simt_mbarrier_wait(void *at, int32_t parity) {
  simt_block *b = simt_current;
  int number = find(b, at);
  simt_thread *thread = &b->threads[b->running];
  if (parity != 0 && parity != 1) simt_fail("waits for phases of parity %d, not 0 or 1", parity);
  if (simt_is_skipped(&thread->mbarrier_waits, b->launch->skipped_wait)) return;
  while ((int32_t)(b->mbarriers[number].phase % 2) == parity) {
    simt_mbarrier *m = &b->mbarriers[number];
    if (is_complete(m)) {
      for (int i = 0; i < m->copy_count; i++) land(b, number, &m->copies[i]);
      end_phase(m);
      wake_all(b, number);
    } else {
      thread->mbarrier = number;
      simt_park(b, THREAD_AT_MBARRIER);
    }
  }
  b->mbarriers[number].seen[b->running] = b->mbarriers[number].phase;
}

static tensor_map map_of(const void *bytes, int axes) {
  tensor_map map;
  if ((uintptr_t)bytes % TENSOR_MAP_ALIGNMENT != 0)
    simt_fail("copies by a tensor map at an address that is not a multiple of %d", TENSOR_MAP_ALIGNMENT);
  if (!tensor_map_read(&map, bytes)) simt_fail("copies by a tensor map that nobody has made");
  if (map.axes != axes) simt_fail("copies by %d coordinates from a tensor of %d axes", axes, map.axes);
  if (map.span && tensor_map_row_bytes(&map) != map.span)
    simt_fail("copies rows of %u bytes that trade places in %d: what lies between is not known here",
              tensor_map_row_bytes(&map), map.span);
  return map;
}

static void check_source(simt_block *b, const bulk_copy *c) {
  for (uint32_t row = 0; row < tensor_map_rows(&c->map); row++) {
    tensor_row from = tensor_map_row(&c->map, c->at, row);
    if (from.bytes) global_check(b, from.from, (int32_t)from.bytes, (int32_t)c->map.stride[0], 0);
  }
}

static void check_mbarrier_fenced(const simt_block *b, const simt_mbarrier *m) {
  if (b->threads[m->thread].fences == m->fences)
    simt_fail(
        "starts a bulk copy by the mbarrier at byte %u, which thread %d made without a fence for what reads beside the threads",
        m->offset, m->thread);
}

static void start(void *to, const void *map, void *at_mbarrier, const int32_t *at, int axes) {
  simt_block *b = simt_current;
  int number = find(b, at_mbarrier);
  simt_mbarrier *m = &b->mbarriers[number];
  bulk_copy copy = {.map = map_of(map, axes)};
  int64_t offset = (unsigned char *)to - b->shared, size = b->launch->shared_bytes;
  int64_t bytes = (int64_t)tensor_map_rows(&copy.map) * tensor_map_row_bytes(&copy.map);
  if (offset < 0 || offset > size - bytes)
    simt_fail("copies %lld bytes to byte %lld of shared memory, which has %lld", (long long)bytes, (long long)offset,
              (long long)size);
  if (offset % BULK_ALIGNMENT != 0)
    simt_fail("starts a bulk copy to byte %lld of shared memory, not a multiple of %d", (long long)offset, BULK_ALIGNMENT);
  check_mbarrier_fenced(b, m);
  memcpy(copy.at, at, (size_t)axes * sizeof *at);
  copy.offset = (uint32_t)offset;
  check_source(b, &copy);
  shared_begin_bulk(b, b->running, copy.offset, (uint32_t)bytes, number);
  memset(to, 0xff, (size_t)bytes);
  m->copies = simt_grown(m->copies, m->copy_count, &m->copy_room, sizeof *m->copies, "bulk copies");
  m->copies[m->copy_count++] = copy;
  m->started += bytes;
  b->counts.copies++;
  b->counts.bulk_copies++;
  cost_bulk(b, bytes);
  settle(b, number);
}

void simt_bulk_2(void *to, const void *map, void *mbarrier, int32_t x0, int32_t x1) {
  start(to, map, mbarrier, (int32_t[]){x0, x1}, 2);
}
void simt_bulk_3(void *to, const void *map, void *mbarrier, int32_t x0, int32_t x1, int32_t x2) {
  start(to, map, mbarrier, (int32_t[]){x0, x1, x2}, 3);
}
void simt_bulk_4(void *to, const void *map, void *mbarrier, int32_t x0, int32_t x1, int32_t x2, int32_t x3) {
  start(to, map, mbarrier, (int32_t[]){x0, x1, x2, x3}, 4);
}
void simt_bulk_5(void *to, const void *map, void *mbarrier, int32_t x0, int32_t x1, int32_t x2, int32_t x3, int32_t x4) {
  start(to, map, mbarrier, (int32_t[]){x0, x1, x2, x3, x4}, 5);
}
