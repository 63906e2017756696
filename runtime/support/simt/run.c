// Blocks: threads as fibers, barriers, warp collectives, and the choice of the next warp.
//
//   warp 2 .......|        warp 0 .......|        warp 1 .......| -> all are there, the next epoch
//                 barrier                barrier
//
// A warp runs until all its lanes wait for others; then another warp, which the seed chooses, has
// its turn. Inside a warp, lanes run one after another from collective to collective, beginning
// with one that the seed chooses. A thread is thus as far ahead of the others as the barriers
// allow. Code that lacks a barrier goes wrong here every time, not once in a while.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/cost.h"
#include "runtime/support/simt/ops.h"

#define STACK_BYTES ((size_t)256 << 10)
#define STACK_BELOW \
  ((size_t)256 << 10)     /* room in which the first thread may overflow and be told so */
#define STACK_STAGGER 256 /* stacks that begin at equal offsets of a page would share cache sets */
#define STACK_MARK UINT64_C(0x5eed57ac4b0770e5)

// ---- who runs next ---------------------------------------------------------------------------

static uint64_t draw_bits(simt_block *b) {  // splitmix64
  uint64_t x = b->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static void give_turn(simt_block *b, int warp) {
  b->turn = warp;
  b->warps[warp].rotation = (int)(draw_bits(b) % SIMT_WARP);
}

static int first_lane(const simt_warp *w) {
  int by = w->rotation;
  uint32_t turned = by ? w->ready >> by | w->ready << (SIMT_WARP - by) : w->ready;
  return (__builtin_ctz(turned) + by) % SIMT_WARP;
}

// A thread that waits in a state, or -1.
static int find_waiting(const simt_block *b, thread_state state) {
  for (int t = 0; t < b->launch->threads; t++)
    if (b->threads[t].state == state) return t;
  return -1;
}

// Nobody can run: some wait for others that never come.
static _Noreturn void report_deadlock(simt_block *b) {
  int in_warp = find_waiting(b, THREAD_IN_WARP), at_barrier = find_waiting(b, THREAD_AT_BARRIER),
      gone = find_waiting(b, THREAD_GONE);
  if (in_warp >= 0)
    simt_fail_thread(in_warp, "waits in %s for other lanes of its warp, which never come to it",
                     b->warps[in_warp / SIMT_WARP].collective->name);
  simt_fail_thread(at_barrier, "waits at a barrier with %d of %d threads; thread %d has ended",
                   b->at_barrier, b->launch->threads, gone);
}

// The thread to run, or -1 when all have ended.
static int choose_thread(simt_block *b) {
  if (!b->warps[b->turn].ready) {
    int start = (int)(draw_bits(b) % (uint64_t)b->warp_count), i = 0;
    while (i < b->warp_count && !b->warps[(start + i) % b->warp_count].ready) i++;
    if (i == b->warp_count) {
      if (b->gone == b->launch->threads) return -1;
      report_deadlock(b);
    }
    give_turn(b, (start + i) % b->warp_count);
  }
  return b->turn * SIMT_WARP + first_lane(&b->warps[b->turn]);
}

static void check_stack(const simt_block *b, int thread) {
  uint64_t mark;
  memcpy(&mark, b->threads[thread].fiber.stack, sizeof mark);
  if (mark != STACK_MARK)
    simt_fail("needs more than %zu bytes of stack, all that the executor gives a thread",
              b->stack_size);
}

// Leaves the running thread, which waits or has ended, for another one.
static void run_another(simt_block *b) {
  int from = b->running, next = choose_thread(b);
  check_stack(b, from);
  if (next < 0) {
    fiber_switch(&b->threads[from].fiber, &b->host);
    return;
  }
  if (next == from) return;
  b->running = next;
  fiber_switch(&b->threads[from].fiber, &b->threads[next].fiber);
}

static void set_waiting(simt_block *b, thread_state state) {
  b->threads[b->running].state = state;
  b->warps[b->running / SIMT_WARP].ready &= ~(UINT32_C(1) << b->running % SIMT_WARP);
}

void simt_park(simt_block *b, thread_state state) {
  set_waiting(b, state);
  run_another(b);
}

void simt_wake(simt_block *b, int thread) {
  b->threads[thread].state = THREAD_READY;
  b->warps[thread / SIMT_WARP].ready |= UINT32_C(1) << thread % SIMT_WARP;
}

// ---- barriers and collectives ----------------------------------------------------------------

static const collective warp_barrier = {"the warp's barrier", NULL};

static void release_barrier(simt_block *b) {
  group_check_barrier(b);
  cost_gather(b);
  for (int t = 0; t < b->launch->threads; t++) b->threads[t].state = THREAD_READY;
  for (int w = 0; w < b->warp_count; w++) b->warps[w].ready = UINT32_MAX;
  b->at_barrier = 0;
  b->epoch++;
  b->counts.barriers++;
  give_turn(b, (int)(draw_bits(b) % (uint64_t)b->warp_count));
}

static void wait_for_all(simt_block *b) {
  const simt_warp *warp = &b->warps[b->running / SIMT_WARP];
  if (warp->arrived)
    simt_fail("is at a barrier, and thread %d of the same warp in %s",
              b->running / SIMT_WARP * SIMT_WARP + __builtin_ctz(warp->arrived),
              warp->collective->name);
  set_waiting(b, THREAD_AT_BARRIER);
  if (++b->at_barrier == b->launch->threads) release_barrier(b);
  run_another(b);
}

void simt_barrier(void) {
  simt_block *b = simt_current;
  if (++b->threads[b->running].barriers == b->launch->skipped_barrier) return;
  wait_for_all(b);
}

// A lane that is elsewhere never comes here.
static void check_converged(const simt_block *b, const simt_warp *warp, const collective *c) {
  int first = b->running / SIMT_WARP * SIMT_WARP;
  if (warp->arrived && warp->collective != c)
    simt_fail("is in %s, and thread %d of the same warp in %s", c->name,
              first + __builtin_ctz(warp->arrived), warp->collective->name);
  for (int t = first; t < first + SIMT_WARP; t++) {
    if (b->threads[t].state == THREAD_AT_BARRIER)
      simt_fail("is in %s, and thread %d of the same warp at a barrier", c->name, t);
    if (b->threads[t].state == THREAD_GONE)
      simt_fail("is in %s, and thread %d of the same warp has ended", c->name, t);
  }
}

void simt_collect(const collective *c, void *passed) {
  simt_block *b = simt_current;
  simt_warp *warp = &b->warps[b->running / SIMT_WARP];
  simt_thread *first = &b->threads[b->running / SIMT_WARP * SIMT_WARP];
  if (!warp->arrived || warp->collective != c) check_converged(b, warp, c);
  b->threads[b->running].passed = passed;
  warp->collective = c;
  warp->arrived |= UINT32_C(1) << b->running % SIMT_WARP;
  set_waiting(b, THREAD_IN_WARP);
  if (warp->arrived == UINT32_MAX) {
    void *lanes[SIMT_WARP];
    for (int lane = 0; lane < SIMT_WARP; lane++) {
      lanes[lane] = first[lane].passed;
      first[lane].state = THREAD_READY;
    }
    if (c->run) c->run(lanes);
    warp->arrived = 0;
    warp->ready = UINT32_MAX;
    b->counts.collectives++;
    if (draw_bits(b) % 4 == 0) b->turn = (int)(draw_bits(b) % (uint64_t)b->warp_count);
  }
  run_another(b);
}

void simt_warp_barrier(void) {
  simt_block *b = simt_current;
  simt_warp *warp = &b->warps[b->running / SIMT_WARP];
  if (warp->arrived == ~(UINT32_C(1) << b->running % SIMT_WARP)) warp->epoch++;
  simt_collect(&warp_barrier, NULL);
}

int32_t simt_thread_x(void) { return simt_current->running; }
int32_t simt_opaque(int32_t x) { return x; }
int32_t simt_block_x(void) { return (int32_t)simt_current->number; }
int32_t simt_block_count(void) { return (int32_t)simt_current->launch->blocks; }
void *simt_shared(void) { return simt_current->shared; }

// ---- blocks ----------------------------------------------------------------------------------

// The first thing that a thread does.
static void thread_main(void) {
  simt_block *b = simt_current;
  fiber_entered(&b->host);
  b->launch->function(b->launch->parameters);
  async_check_exit(b, b->running);
  group_check_exit(b, b->running);
  set_waiting(b, THREAD_GONE);
  if (++b->gone == b->launch->threads) cost_gather(b);
  run_another(b);
  abort();  // nobody switches back
}

static void start_threads(simt_block *b) {
  for (int t = 0; t < b->launch->threads; t++) {
    simt_thread *thread = &b->threads[t];
    char *stack = b->stacks + STACK_BELOW + b->stack_size * (size_t)t;
    size_t stagger = (size_t)t * STACK_STAGGER % 4096;
    uint64_t mark = STACK_MARK;
    memcpy(stack, &mark, sizeof mark);
    fiber_start(&thread->fiber, stack, b->stack_size, stack + b->stack_size - stagger, thread_main);
    thread->state = THREAD_READY;
    thread->copy_count = 0;
    thread->group = thread->barriers = thread->waits = 0;
    thread->group_fences = thread->group_waits = 0;
    thread->fences++;  // what a block before has written is no concern of this one
  }
  for (int w = 0; w < b->warp_count; w++) {
    b->warps[w] = (simt_warp){.ready = UINT32_MAX, .work = b->warps[w].work};
    group_open(&b->warps[w]);
  }
}

static void run_thread_block(simt_block *b, int64_t number) {
  b->number = number;
  b->random = b->launch->seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)number;
  b->at_barrier = b->gone = 0;
  b->epoch++;
  if (b->launch->shared_bytes) memset(b->shared, 0xff, (size_t)b->launch->shared_bytes);
  if (b->launch->scratch_bytes) {
    b->scratch = (unsigned char *)b->launch->scratch + number * b->launch->scratch_bytes;
    memset(b->scratch, 0xff, (size_t)b->launch->scratch_bytes);
  }
  cache_clear(b);
  cost_begin_block(b);
  start_threads(b);
  give_turn(b, (int)(draw_bits(b) % (uint64_t)b->warp_count));
  b->running = choose_thread(b);
  fiber_switch(&b->host, &b->threads[b->running].fiber);
}

static void *map_pages(size_t bytes) {
  void *pages =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

// Shared memory begins at a multiple of 1024 bytes, as a kernel may ask for on a GPU.
static size_t shared_room(const simt_launch *launch) {
  return ((size_t)launch->shared_bytes + 4095) / 4096 * 4096 + 4096;
}
static size_t cells_room(size_t bytes) { return (bytes / SHADOW_BYTES + 2) * sizeof(shadow_cell); }

static size_t stacks_room(const simt_block *b) {
  return STACK_BELOW + b->stack_size * (size_t)b->launch->threads;
}

static bool open_thread_block(simt_block *b, const simt_launch *launch, char *message) {
  *b = (simt_block){.launch = launch,
                    .message = message,
                    .warp_count = launch->threads / SIMT_WARP,
                    .stack_size = launch->stack_bytes ? (size_t)launch->stack_bytes : STACK_BYTES};
  b->threads = calloc((size_t)launch->threads, sizeof *b->threads);
  b->warps = calloc((size_t)b->warp_count, sizeof *b->warps);
  b->stacks = map_pages(stacks_room(b));
  b->shared = map_pages(shared_room(launch));
  b->shared_shadow =
      (shadow){"shared memory", map_pages(cells_room((size_t)launch->shared_bytes)), 0};
  b->scratch_shadow = (shadow){"scratch", map_pages(cells_room((size_t)launch->scratch_bytes)), 0};
  return cache_open(b) && cost_open(b) && races_open(b) && b->threads && b->warps && b->stacks &&
         b->shared && b->shared_shadow.cells && b->scratch_shadow.cells;
}

static void close_block(simt_block *b) {
  for (int t = 0; b->threads && t < b->launch->threads; t++) free(b->threads[t].copies);
  for (int w = 0; b->warps && w < b->warp_count; w++) group_free(&b->warps[w]);
  cache_free(b);
  cost_free(b);
  races_free(b);
  free(b->threads);
  free(b->warps);
  if (b->stacks) munmap(b->stacks, stacks_room(b));
  if (b->shared) munmap(b->shared, shared_room(b->launch));
  if (b->shared_shadow.cells)
    munmap(b->shared_shadow.cells, cells_room((size_t)b->launch->shared_bytes));
  if (b->scratch_shadow.cells)
    munmap(b->scratch_shadow.cells, cells_room((size_t)b->launch->scratch_bytes));
}

// All members are numbers of one type.
static void add_simt_counts(simt_counts *to, const simt_counts *from) {
  int64_t *sums = (int64_t *)to;
  const int64_t *more = (const int64_t *)from;
  for (size_t i = 0; i < sizeof *to / sizeof *sums; i++) sums[i] += more[i];
}

simt_answer simt_run(const simt_launch *launch, int64_t first, int64_t last, simt_counts *counts,
                     char message[SIMT_MESSAGE]) {
  simt_block block;
  if (launch->threads <= 0 || launch->threads > SIMT_THREADS_MAX ||
      launch->threads % SIMT_WARP != 0) {
    snprintf(message, SIMT_MESSAGE,
             "%s: expected blocks of whole warps, at most %d threads, found %d", launch->kernel,
             SIMT_THREADS_MAX, launch->threads);
    return SIMT_FAULT;
  }
  simt_answer answer = open_thread_block(&block, launch, message) ? SIMT_DONE : SIMT_NO_MEMORY;
  simt_block *outer = simt_current;
  simt_current = &block;
  for (int64_t i = first; i < last && answer == SIMT_DONE; i++) {
    run_thread_block(&block, i);
    if (block.failed) answer = SIMT_FAULT;
  }
  simt_current = outer;
  if (counts) add_simt_counts(counts, &block.counts);
  close_block(&block);
  return answer;
}
