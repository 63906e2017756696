// The device of the executor: kernels run on threads of the host, memory is the host's.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "runtime/support/error.h"
#include "runtime/support/gpu.h"
#include "runtime/support/pool.h"
#include "runtime/support/stage.h"

// Few, so that blocks take several work items; of blocks of a warp four times as many (gpu.c).
enum { SIMT_BLOCKS = 6, SIMT_MOST_BLOCKS = 4 * SIMT_BLOCKS };

typedef struct simt_task {
  const rec_table *table;
  simt_launch launch;
  simt_counts *counts;
  _Atomic int64_t next;  // block
  simt_answer answers[SIMT_MOST_BLOCKS];
  char messages[SIMT_MOST_BLOCKS][SIMT_MESSAGE];
} simt_task;

// The seed chooses which block comes first, and whether the next ones lie before or behind it.
static int64_t block_in_order(const simt_launch *l, int64_t turn) {
  int64_t first = (int64_t)(l->seed % (uint64_t)l->blocks),
          back = (int64_t)(l->seed / (uint64_t)l->blocks % 2);
  return (first + (back ? l->blocks - turn : turn)) % l->blocks;
}

// Takes blocks until there are none: a lane that is never begun is no loss.
static void run_lane_of_blocks(void *argument, int64_t lane) {
  (void)lane;
  simt_task *t = argument;
  for (;;) {
    int64_t turn = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    if (turn >= t->launch.blocks) return;
    int64_t i = block_in_order(&t->launch, turn);
    t->answers[i] = t->table->simt_run(&t->launch, i, i + 1, t->counts, t->messages[i]);
  }
}

static void run_simt_blocks(const call *c, simt_task *t) {
  if (t->launch.watched)
    t->answers[0] = t->table->simt_run(&t->launch, 0, t->launch.blocks, t->counts, t->messages[0]);
  else if (t->counts || t->launch.cost)
    run_lane_of_blocks(t, 0);
  else if (c->launch->parallel_for)
    c->launch->parallel_for(c->launch->parallel_context, t->launch.blocks, run_lane_of_blocks, t);
  else
    rec_pool_run(c->threads, t->launch.blocks, run_lane_of_blocks, t);
}

// The first block that failed, whatever the order they ran in.
static rec_status answer_of(const call *c, const simt_task *t) {
  for (int64_t i = 0; i < t->launch.blocks; i++) {
    if (t->answers[i] == SIMT_NO_MEMORY)
      return call_fail(c, REC_ERROR_MEMORY, "no memory for the threads of a block");
    if (t->answers[i] == SIMT_FAULT) return call_fail(c, REC_ERROR_INTERNAL, "%s", t->messages[i]);
  }
  return REC_OK;
}

// Room for what is counted of all regions.
static bool open_stamps(const simt_launch *l, simt_stamps *s) {
  int64_t sectors = 0;
  size_t regions = (size_t)l->region_count + 1;
  *s = (simt_stamps){.first = calloc(regions, sizeof *s->first),
                     .read_bytes = calloc(regions, sizeof *s->read_bytes),
                     .written_bytes = calloc(regions, sizeof *s->written_bytes)};
  for (int i = 0; s->first && i < l->region_count; i++) {
    s->first[i] = sectors;
    sectors += l->regions[i].bytes / SIMT_SECTOR + 2;
  }
  s->read = calloc((size_t)sectors + 1, sizeof *s->read);
  s->written = calloc((size_t)sectors + 1, sizeof *s->written);
  return s->read && s->written && s->first && s->read_bytes && s->written_bytes;
}

static void close_stamps(simt_stamps *s) {
  free(s->read);
  free(s->written);
  free(s->first);
  free(s->read_bytes);
  free(s->written_bytes);
}

static void report_regions(const rec_simt_options *o, const simt_launch *l) {
  for (int i = 0; o->report && i < l->region_count; i++)
    o->report(o->context, l->kernel, l->regions[i].name, l->stamps->read_bytes[i],
              l->stamps->written_bytes[i]);
}

// Of a multiprocessor's part of the cache; what the system has of a block's shared memory counts,
// too.
static int64_t cache_of_block(const rec_simt_options *o, const gpu_launch *launch) {
  enum { OF_SYSTEM = 1024 };
  if (o->size < sizeof *o || !o->cache_bytes) return 0;
  int64_t blocks =
      smaller(o->shared_bytes / (launch->shared_bytes + OF_SYSTEM), o->threads / launch->threads);
  return o->cache_bytes / larger(1, blocks);
}

// The faults of tests.
static void leave_out(const rec_simt_options *o, simt_launch *l) {
  l->skipped_barrier = o->skipped_barrier;
  l->skipped_wait = o->skipped_wait;
  if (o->size < sizeof *o) return;
  l->skipped_fence = o->skipped_fence;
}

static void note_kernel(simt_cost *cost, const gpu_launch *launch) {
  int i = 0;
  while (i < cost->kernel_count && strcmp(cost->kernels[i].name, launch->name) != 0) i++;
  if (i == SIMT_MOST_KERNELS) return;
  if (i == cost->kernel_count)
    cost->kernels[cost->kernel_count++] = (simt_kernel){.name = launch->name};
  simt_kernel *k = &cost->kernels[i];
  const rec_gpu_frame *frame = launch->parameter;
  k->launches++;
  k->blocks += launch->blocks;
  k->items += launch->kernel ? frame->blocks : launch->blocks;
  k->threads = launch->threads;
  k->shared_bytes = launch->shared_bytes;
}

static rec_status launch_on_host(const call *c, const gpu_launch *launch) {
  rec_simt_options *options = c->launch->stream;
  simt_stamps stamps = {0};
  simt_task t = {.table = c->table,
                 .launch = {.kernel = launch->name,
                            .function = launch->kernel ? launch->kernel->simt : launch->simt,
                            .parameters = launch->parameter,
                            .blocks = launch->blocks,
                            .threads = launch->threads,
                            .shared_bytes = launch->shared_bytes,
                            .scratch = launch->scratch,
                            .scratch_bytes = launch->scratch_bytes,
                            .regions = launch->regions,
                            .region_count = launch->region_count}};
  if (options) {
    t.launch.seed = options->seed;
    leave_out(options, &t.launch);
    t.counts = options->counts;
    t.launch.cache_bytes = cache_of_block(options, launch);
    if (options->size >= sizeof *options) {
      t.launch.cost = options->cost;
      t.launch.watched = options->watched;
    }
    options->launches++;
  }
  if (t.launch.cost) note_kernel(t.launch.cost, launch);
  bool opened = !t.counts || open_stamps(&t.launch, &stamps);
  if (opened && t.counts) t.launch.stamps = &stamps;
  if (opened) run_simt_blocks(c, &t);
  if (t.launch.stamps) report_regions(options, &t.launch);
  close_stamps(&stamps);
  if (!opened)
    return rec_fail(REC_ERROR_MEMORY, "no memory to check and count what a kernel reads");
  return answer_of(c, &t);
}

static rec_status clear_on_host(const call *c, void *at, int64_t bytes) {
  (void)c;
  memset(at, 0, (size_t)bytes);
  return REC_OK;
}

static rec_status copy_on_host(const call *c, void *to, const void *from, int64_t bytes) {
  (void)c;
  memmove(to, from, (size_t)bytes);
  return REC_OK;
}

rec_status gpu_simt_device(const call *c, gpu_device *device) {
  int64_t number = smaller(larger(0, c->device_number), REC_SIMT_FEW + REC_GPU_CLASSES - 1);
  const rec_table_gpu *code = &c->table->gpu[number % REC_GPU_CLASSES];
  *device = (gpu_device){.blocks = SIMT_BLOCKS,
                         .multiprocessors = SIMT_BLOCKS,
                         .form = (gpu_form_choice)(number / REC_GPU_CLASSES),
                         .code = code,
                         .launch = launch_on_host,
                         .clear = clear_on_host,
                         .copy = copy_on_host};
  if (c->table->simt_run) return REC_OK;
  return call_fail(
      c, REC_ERROR_DEVICE,
      "expected a library with code for the executor, found none; compile it with --target simt");
}
