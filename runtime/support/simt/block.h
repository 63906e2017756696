// One thread block while it runs: the state that the files of the executor share.
#pragma once

#include "compiler/abi/simt.h"
#include "runtime/support/simt/fiber.h"

// What happened last to a few bytes of shared memory. Epochs count barriers, so that older ones
// need no clearing.
typedef struct shadow_cell {
  uint32_t write_epoch, read_epoch;
  uint16_t write_warp_epoch, read_warp_epoch;
  uint16_t writer, reader;  // threads; `reader` may be several (shared.c)
  uint32_t fences;          // of the writer, when it wrote
} shadow_cell;

// Memory of a block that its threads share.
typedef struct shadow {
  const char *name;
  shadow_cell *cells;  // one for SHADOW_BYTES
  int64_t first;       // the byte of that memory which the cells begin with
} shadow;

// An asynchronous copy under way: its thread has it until it waits.
typedef struct async_copy {
  int64_t group;
  uint32_t offset;  // in shared memory
  uint32_t bytes, source_bytes;
  const void *source;
  unsigned char data[16];
} async_copy;

typedef enum thread_state {
  THREAD_READY,
  THREAD_AT_BARRIER,
  THREAD_IN_WARP,
  THREAD_GONE
} thread_state;

// A warp collective: its body sees what every lane passed, and writes results there.
typedef struct collective {
  const char *name;
  void (*run)(void *const *lanes);
} collective;

typedef struct simt_thread {
  fiber fiber;
  thread_state state;
  void *passed;  // to the collective
  async_copy *copies;
  int copy_count, copy_room;
  int64_t group;  // of asynchronous copies: the one that is open
  int64_t barriers, waits;
  int64_t group_fences, group_waits;  // for products of warpgroups: so many it has come to
  // of shared memory, for what reads it beside the threads: those that were not skipped
  uint32_t fences;
} simt_thread;

// Products of a warpgroup under way (warpgroup.c).
typedef struct group_work group_work;
// The block's share of the second level cache (cache.c).
typedef struct simt_cache simt_cache;
// Who has touched which bytes of tensors (races.c).
typedef struct simt_races simt_races;
// What the block's code costs (cost.c).
typedef struct simt_counter simt_counter;

typedef struct simt_warp {
  uint32_t ready;    // lanes
  uint32_t arrived;  // lanes at the collective
  const collective *collective;
  uint16_t epoch;
  int rotation;      // the lane that runs first
  group_work *work;  // its part of the products of its warpgroup; NULL: there were none
} simt_warp;

typedef struct simt_block {
  const simt_launch *launch;
  int64_t number;
  int warp_count, running, turn;  // the thread that runs, the warp whose turn it is
  int at_barrier, gone;
  simt_thread *threads;
  simt_warp *warps;
  fiber host;
  char *stacks;
  size_t stack_size;
  unsigned char *shared;
  unsigned char *scratch;  // in global memory, the block's own; NULL: none
  simt_cache *cache;       // of it; NULL: holds all of it, or is not counted
  simt_counter *counter;   // NULL: nothing is counted
  simt_races *races;       // of all blocks; NULL: the launch is not watched
  shadow shared_shadow, scratch_shadow;
  uint32_t epoch;
  int last_region;  // the region touched last is likely the next one
  uint64_t random;
  bool failed;
  char *message;
  simt_counts counts;
} simt_block;

// The block that this host thread runs.
extern _Thread_local simt_block *simt_current;

// Ends the block with a message about `thread`, or about the running thread.
_Noreturn void simt_fail_thread(int thread, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define simt_fail(...) simt_fail_thread(simt_current->running, __VA_ARGS__)

// An array with room for one more than `count` entries, new ones zero. `what` names the entries in
// the message of a lack of memory.
void *simt_grown(void *items, int count, int *room, size_t size, const char *what);

// Counts a barrier or a fence. True for number `skipped`, which a test leaves out to see the
// executor find the fault.
static inline bool simt_is_skipped(int64_t *count, int64_t skipped) { return ++*count == skipped; }

// The running thread waits until somebody wakes it.
void simt_park(simt_block *b, thread_state state);
void simt_wake(simt_block *b, int thread);

// Called by each lane of a warp: the last one runs the collective for all.
void simt_collect(const collective *c, void *passed);

// Checks of an access by `thread`, which a collective makes for lanes that do not run.
void shared_check(simt_block *b, int thread, const void *at, uint32_t bytes, uint32_t alignment,
                  bool write);
void shadow_check(simt_block *b, const shadow *s, int thread, int64_t offset, uint32_t bytes,
                  bool write);
void global_check(simt_block *b, const void *at, int32_t bytes, int32_t alignment, int32_t write);
// A copy of `thread` begins to fill bytes; it has filled them.
void shared_in_flight(simt_block *b, int thread, uint32_t offset, uint32_t bytes);
void shared_landed(simt_block *b, int thread, uint32_t offset, uint32_t bytes);

// cache.c: counts sectors of the block's scratch that come from memory. Offsets are from its start.
// cache_open is false where the host has no memory left.
bool cache_open(simt_block *b);
void cache_clear(simt_block *b);
void cache_touch(simt_block *b, int64_t offset, int64_t bytes, bool write);
void cache_free(simt_block *b);

// races.c: who has touched the tensors of a launch that is watched. races_open is false where the
// host has no memory left.
bool races_open(simt_block *b);
void races_free(simt_block *b);
void races_check(simt_block *b, const simt_region *region, const void *at, uint32_t bytes,
                 bool write);

// A product of a warpgroup, begun in `epoch`, reads 16 bytes. Their writer must have made a fence
// and then a barrier.
void shared_read_beside(simt_block *b, int thread, uint32_t offset, uint32_t epoch);

// Products of warpgroups in the life of a block: it begins, all threads are at a barrier, a thread
// ends, the block ends. The two checks want the same calls from all warps of a warpgroup.
void group_open(simt_warp *w);
void group_check_barrier(simt_block *b);
void group_check_exit(simt_block *b, int thread);
void group_free(simt_warp *w);

// Bytes of a shadow cell: those of the smallest number that threads write side by side.
enum { SHADOW_BYTES = 2 };

// Refuses asynchronous copies that a thread has not waited for when it ends.
void async_check_exit(simt_block *b, int thread);
