// GPU: who a thread is in a nest, and what it takes from others of its warp.
#include "compiler/lower/gpu/nests.h"

// The thread's number, computed anew for each nest. Addresses made of it would otherwise be kept through a chunk, in a third of
// the registers.
team gpu_team_of_nest(const lower *l, int begin) {
  emitter *e = l->e;
  team own = *l->team;
  if (!own.shares) return own;
  int warps = own.threads / GPU_WARP_LANES, other = begin ? warps - begin : 0;
  own.thread = gpu_call(e, GPU_OPAQUE, &own.thread, 1);
  if (other) own.thread = int_add(e, own.thread, integer(e, (int64_t)other * GPU_WARP_LANES));
  own.thread = int_rem(e, own.thread, integer(e, own.threads));
  int64_t known;
  if (!own.warp || int_known(own.warp, &known)) return own;
  own.warp = gpu_call(e, GPU_OPAQUE, &own.warp, 1);
  if (other) own.warp = int_add(e, own.warp, integer(e, other));
  own.warp = int_rem(e, own.warp, integer(e, warps));
  return own;
}

// thread / 32, taken from lane 0: only that tells ptxas that it is the same in all lanes.
ir gpu_warp_of_block(emitter *e, ir thread, int threads) {
  if (threads == GPU_WARP_LANES) return LLVMConstInt(e->i32, 0, 0);
  ir own = int_div(e, thread, integer(e, GPU_WARP_LANES));
  ir args[] = {LLVMBuildBitCast(e->b, own, e->real, ""), LLVMConstInt(e->i32, 0, 0)};
  return LLVMBuildBitCast(e->b, gpu_call(e, GPU_SHFL_IDX_F32, args, 2), e->i32, "");
}

ir gpu_from_lane(emitter *e, gpu_op op, ir x, int by) {
  return gpu_call(e, op, (ir[]){x, LLVMConstInt(e->i32, (unsigned)by, 0)}, 2);
}

ir gpu_warp(const lower *l) {
  return l->team->warp ? l->team->warp : int_div(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES));
}

ir gpu_lane(const lower *l) { return int_rem(l->e, l->team->thread, integer(l->e, GPU_WARP_LANES)); }
