// GPU: does the scratch of all blocks that run at a time stay in the second-level cache? If not, each group of chunks moves it
// to memory and back.
//
//   mamba2 backward, P = 64, N = 128:   108 blocks of 320 KiB: 34 MiB of the 40 that an A100 has
#include "compiler/schedule/gpu/schedule.h"
#include "runtime/shared/gpu_costs.h"

// Blocks that a multiprocessor runs at a time: shared memory and registers limit them.
static int64_t blocks_of(int64_t shared_kib, const kernel *k, const codegen_gpu_kernel *described) {
  int64_t threads = k->kind == KERNEL_BACKWARD ? GPU_COST_RESIDENT_THREADS_BACK : GPU_COST_RESIDENT_THREADS;
  int64_t blocks = (shared_kib << 10) / (described->shared_bytes + (GPU_SYSTEM_KIB << 10));
  if (blocks * described->threads > threads) blocks = threads / described->threads;
  return blocks ? blocks : 1;
}

int64_t gpu_blocks_at_a_time(const kernel *k, const codegen_gpu_kernel *described) {
  int kib = k->gpu.shared_kib ? k->gpu.shared_kib : GPU_SMALL_KIB;
  return blocks_of(kib + GPU_SYSTEM_KIB, k, described);  // some devices with 99 KiB for a block have no more for all blocks
}

bool gpu_stays_in_cache(const kernel *k, const codegen_gpu_kernel *described) {
  device_class devices = CLASS_SMALL;  // devices with warpgroups may run kernels without wgmma
  if (k->gpu.shared_kib >= GPU_LARGE_KIB) devices = k->gpu.warpgroups ? CLASS_WARPGROUPS : CLASS_LARGE | CLASS_WARPGROUPS;
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++) {
    const machine_device *d = machine_device_of(target);
    if (!d || !codegen_gpu_is_of_class(target, devices)) continue;
    int64_t blocks = d->multiprocessors * blocks_of(d->shared_kib, k, described);
    if (blocks * described->base.scratch.constant > d->cache_mib << 20) return false;
  }
  return true;
}
