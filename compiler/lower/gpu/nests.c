// GPU: who a thread is in a nest, and what it takes from others of its warp.
#include "compiler/lower/gpu/nests.h"

// The thread's number, computed anew for each nest. Addresses made of it would otherwise be kept
// through a chunk, in a third of the registers.
team gpu_team_of_nest(const lower *l, int begin) {
  emitter *e = l->e;
  team own = *l->team;
  if (!own.shares) return own;
  int warps = own.threads / GPU_WARP_LANES, other = begin ? warps - begin : 0;
  own.thread = gpu_call(e, GPU_OPAQUE, &own.thread, 1);
  if (other) own.thread = int_add_n(e, own.thread, (int64_t)other * GPU_WARP_LANES);
  own.thread = int_rem_n(e, own.thread, own.threads);
  int64_t known;
  if (!own.warp || int_known(own.warp, &known)) return own;
  own.warp = gpu_call(e, GPU_OPAQUE, &own.warp, 1);
  if (other) own.warp = int_add_n(e, own.warp, other);
  own.warp = int_rem_n(e, own.warp, warps);
  return own;
}

scratch_use gpu_scratch_use(const lower *l, const plan_nest *nest) {
  if (!l->team->shares) return SCRATCH_NONE;
  int buffers = l->p->buffers.count, count = plan_memory_count(l->p);
  bool *reads = ARENA_ARRAY(l->e->a, bool, count + 1),
       *writes = ARENA_ARRAY(l->e->a, bool, count + 1);
  plan_note_memory(l->p, nest, reads, writes);
  scratch_use use = SCRATCH_NONE;
  for (int i = 0; i < count && use != SCRATCH_READ; i++) {
    ir base = i < buffers ? l->buffers[i] : l->carried[i - buffers].base;
    if (base && !gpu_in_shared_memory(base)) use = reads[i] ? SCRATCH_READ : SCRATCH_ELSEWHERE;
  }
  return use;
}

bool gpu_lacks_registers(const lower *l) {
  return l->scratch != SCRATCH_NONE || l->team->lacks_registers;
}

void gpu_place_of_nest(lower *l) {
  emitter *e = l->e;
  ir zero = LLVMConstInt(e->i32, 0, 0);
  zero = gpu_call(e, GPU_OPAQUE, &zero, 1);
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    ir *index = &l->outside.index[axis];
    int64_t known;
    if (*index && !int_known(*index, &known)) *index = int_add(e, *index, zero);
  }
}

ir gpu_unknown_zero(const lower *l) {
  emitter *e = l->e;
  ir args[] = {LLVMBuildBitCast(e->b, gpu_lane(l), e->real, ""), LLVMConstInt(e->i32, 0, 0)};
  return LLVMBuildBitCast(e->b, gpu_call(e, GPU_SHFL_IDX_F32, args, 2), e->i32, "");
}

// thread / 32, taken from lane 0: only that tells ptxas that it is the same in all lanes.
ir gpu_warp_of_block(emitter *e, ir thread, int threads) {
  if (threads == GPU_WARP_LANES) return LLVMConstInt(e->i32, 0, 0);
  ir own = int_div_n(e, thread, GPU_WARP_LANES);
  ir args[] = {LLVMBuildBitCast(e->b, own, e->real, ""), LLVMConstInt(e->i32, 0, 0)};
  return LLVMBuildBitCast(e->b, gpu_call(e, GPU_SHFL_IDX_F32, args, 2), e->i32, "");
}

ir gpu_from_lane(emitter *e, gpu_op op, ir x, int by) {
  return gpu_call(e, op, (ir[]){x, LLVMConstInt(e->i32, (unsigned)by, 0)}, 2);
}

ir gpu_across_lanes(emitter *e, tile_op op, ir x, int most, int least) {
  for (int mask = most; mask >= least; mask /= 2)
    x = lower_combine(e, op, x, gpu_from_lane(e, GPU_SHFL_BFLY_F32, x, mask));
  return x;
}

ir gpu_warp(const lower *l) {
  return l->team->warp ? l->team->warp : int_div_n(l->e, l->team->thread, GPU_WARP_LANES);
}

ir gpu_lane(const lower *l) { return int_rem_n(l->e, l->team->thread, GPU_WARP_LANES); }
