// GPU: last-block reduction. BACKWARD adds up its own copies of results, if two launches precede it (gpu_frame.h:
// rec_gpu_last).
//
//   PART_BACK:   counter = 0
//   BACKWARD:    .. all items of the block ..
//                barrier; thread 0 counts the block, releases its stores, and asks: is this the last?   -> all threads
//                the last block adds up the copies of all blocks, in their order
//
// The last block sees the stores that other blocks released before they were counted: thread 0 at once, all threads after the
// barrier. Which block is the last changes from run to run. The copies that it adds up, and their order, do not.
#include <stddef.h>

#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

int gpu_sums_of(const codegen_gpu_kernel *k) {
  int sums = 0;
  for (int i = 0; i < k->base.slots.count; i++) {
    const codegen_slot *slot = &k->base.slots.items[i];
    sums += slot->accumulated && !slot->time;
  }
  return sums;
}

static ir is_first_thread(kernel_frame *h) {
  return int_compare(h->e, LLVMIntEQ, h->team.thread, LLVMConstInt(h->e->i32, 0, 0));
}

// Whether all other blocks have ended; for all threads.
static ir is_last_block(kernel_frame *h, ir ended) {
  emitter *e = h->e;
  ir blocks = gpu_call(e, GPU_BLOCK_COUNT, NULL, 0), last = stack_slot(e, e->i32, "last");
  ir most = LLVMBuildSub(e->b, blocks, LLVMConstInt(e->i32, 1, 0), "");
  LLVMBuildStore(e->b, LLVMConstInt(e->i32, 0, 0), last);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  emit_branch branch = branch_begin(e, is_first_thread(h));
  ir before = gpu_call(e, GPU_ATOM_INC, (ir[]){ended, most}, 2);
  ir all = LLVMBuildICmp(e->b, LLVMIntEQ, before, most, "");
  LLVMBuildStore(e->b, LLVMBuildZExt(e->b, all, e->i32, ""), last);
  branch_end(e, &branch);
  ir any = LLVMBuildLoad2(e->b, e->i32, last, "");
  any = gpu_call(e, GPU_BARRIER_OR, &any, 1);
  return LLVMBuildICmp(e->b, LLVMIntNE, any, LLVMConstInt(e->i32, 0, 0), "");
}

static void clear(kernel_frame *h, ir ended) {
  emitter *e = h->e;
  ir block = gpu_call(e, GPU_BLOCK_X, NULL, 0);
  ir first = LLVMBuildICmp(e->b, LLVMIntEQ, block, LLVMConstInt(e->i32, 0, 0), "");
  emit_branch branch = branch_begin(e, LLVMBuildAnd(e->b, first, is_first_thread(h), ""));
  LLVMBuildStore(e->b, LLVMConstInt(e->i32, 0, 0), ended);
  branch_end(e, &branch);
}

static void sum_up(kernel_frame *h, ir ended, int64_t last_at) {
  emitter *e = h->e;
  emit_branch branch = branch_begin(e, is_last_block(h, ended));
  ir list =
      element(e, LLVMInt8TypeInContext(e->context), h->frame, integer(e, last_at + (int64_t)offsetof(rec_gpu_last, list)));
  ir thread = LLVMBuildZExt(e->b, h->team.thread, e->i64, "");
  gpu_sum_copies(e, list, thread, integer(e, h->team.threads));
  branch_end(e, &branch);
}

void gpu_end_block(kernel_frame *h, int64_t last_at) {
  emitter *e = h->e;
  ir ended = frame_field(h, h->frame, last_at + (int64_t)offsetof(rec_gpu_last, ended), e->data);
  emit_branch branch = branch_begin(e, LLVMBuildIsNotNull(e->b, ended, ""));
  if (h->k->kind == KERNEL_BACKWARD) {
    sum_up(h, ended, last_at);
  } else {
    clear(h, ended);
  }
  branch_end(e, &branch);
}
