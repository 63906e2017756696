// The SIMT executor: runs the GPU code of a compiled library on the CPU, thread by thread, and
// checks what a GPU does not.
//
// A kernel is compiled for the CPU from the same LLVM module that becomes PTX. Where it says
// `rec.barrier` or `rec.mma_m16n8k16_bf16`, it calls simt_barrier or simt_mma_m16n8k16_bf16
// (ops.h). Every thread of a block is a fiber. A barrier or a warp collective parks it; the last
// one to arrive does the work for all.
//
// What it is strict about, because hardware would only sometimes show it:
//  - shared memory and scratch hold NaNs when a block starts; so does the destination of an asynchronous copy
//    until its thread has waited for it, and touching it earlier is an error;
//  - two threads that touch the same bytes of them without a barrier between them, one of them writing, are a
//    race, whatever order they ran in;
//  - addresses outside of a tensor, misaligned ones, collectives that not every lane of a warp calls, barriers
//    that not every thread reaches, copies that nobody waits for;
//  - one warp runs ahead of the others from barrier to barrier, in an order that the seed chooses;
//  - a product of warpgroups reads its operands when it is waited for. It sees stores of threads only after a fence of the
//    writer and a barrier. Until the wait its accumulator holds NaNs, which nobody may touch.
// Blocks are not ordered among each other: a block may not touch the scratch of another one. A
// launch that is watched finds races in tensors, too, of threads and of blocks. The executor models
// neither the order in which other threads see stores nor the speed of anything.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/abi/simt_cost.h"

enum { SIMT_WARP = 32, SIMT_THREADS_MAX = 1024, SIMT_SECTOR = 32, SIMT_MESSAGE = 400 };

// Global memory that a launch may touch. Without regions nothing is checked there.
typedef struct simt_region {
  const char *name;
  void *data;
  int64_t bytes;
  bool writable;
} simt_region;

// What a launch did. Bytes of global memory are counted in three ways. One count is of the bytes
// that every thread asks for. One is of sectors of 32 bytes, each once for every block. One counts
// each sector once for the launch. A fourth count is of the scratch that goes to memory and back,
// because it exceeds the block's share of the second-level cache.
typedef struct simt_counts {
  int64_t read_bytes, written_bytes;
  int64_t block_read_bytes, block_written_bytes;
  int64_t launch_read_bytes, launch_written_bytes;
  int64_t cache_read_bytes, cache_written_bytes;
  // of blocks; of warps; mma among the collectives
  int64_t barriers, collectives, products;
  int64_t group_products;  // wgmma, of a warp each
  int64_t operand_bytes;   // of shared memory, read by ldmatrix and wgmma
  // loads and stores of threads; asynchronous copies
  int64_t shared_accesses, global_accesses, copies;
} simt_counts;

// Sectors of the regions, one region behind the other: the last block that touched each, plus 1.
typedef struct simt_stamps {
  uint32_t *read, *written;
  int64_t *first;                       // by region: where its sectors begin
  int64_t *read_bytes, *written_bytes;  // by region: added to as block_read_bytes is
} simt_stamps;

typedef struct simt_launch {
  const char *kernel;  // for messages
  void (*function)(const void *parameters);
  const void *parameters;
  int64_t blocks;
  int threads;  // of a block: a multiple of SIMT_WARP
  int64_t shared_bytes;
  void *scratch;  // in global memory: that of block 0, those of the others behind it
  int64_t scratch_bytes;
  // with stamps: of the second level cache, for the scratch of a block; 0: all of it
  int64_t cache_bytes;
  int64_t stack_bytes;  // of a thread; 0: 256 KiB
  uint64_t seed;
  // a fault for tests: barrier number n of every thread, from 1, is left out; 0: none
  int64_t skipped_barrier;
  int64_t skipped_wait;   // the same of its waits for asynchronous copies and for products
  int64_t skipped_fence;  // of its fences, of either kind, for products of warpgroups
  const simt_region *regions;
  int region_count;
  simt_cost *cost;            // NULL: nothing is counted; else one host thread runs all blocks
  const simt_stamps *stamps;  // NULL: sectors are not counted; else one host thread runs all blocks
  // races in tensors are found, too; one call of simt_run runs all blocks
  bool watched;
} simt_launch;

typedef enum simt_answer { SIMT_DONE, SIMT_FAULT, SIMT_NO_MEMORY } simt_answer;

// Runs the blocks first .. last-1 on the calling thread and adds to `counts`. `message` says in one
// line what is wrong with the kernel. Threads of the host may run different blocks of a launch at
// one time.
simt_answer simt_run(const simt_launch *launch, int64_t first, int64_t last, simt_counts *counts,
                     char message[SIMT_MESSAGE]);
