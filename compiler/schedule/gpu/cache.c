// GPU: how many blocks a multiprocessor runs at a time, and does the scratch of all of them stay in
// the second-level cache? If not, each group of chunks moves it to memory and back.
//
//   mamba2 backward, P = 64, N = 128:   108 blocks of 320 KiB: 34 MiB of the 40 that an A100 has
#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/gpu/schedule.h"

int64_t gpu_blocks_at_a_time(const codegen_gpu_kernel *described, const gpu_machine *device) {
  bool back = described->base.kernel->kind == KERNEL_BACKWARD;
  int64_t threads = back ? GPU_COST_RESIDENT_THREADS_BACK : GPU_COST_RESIDENT_THREADS;
  int64_t blocks = (device->shared_kib << 10) / (described->shared_bytes + (GPU_SYSTEM_KIB << 10));
  if (blocks * described->threads > threads) blocks = threads / described->threads;
  return blocks ? blocks : 1;
}

bool gpu_stays_in_cache(const codegen_gpu_kernel *described, const gpu_machine *device) {
  int64_t blocks = device->multiprocessors * gpu_blocks_at_a_time(described, device);
  return blocks * described->base.scratch.constant <= device->cache_mib << 20;
}
