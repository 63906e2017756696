// The devices that the model has in mind: the two tables of gpu_targets.def, row by row.
#include "compiler/abi/gpu_machine.h"

#include <string.h>

// In the order of the classes' kernels in a library (library.h).
enum { NUMBER_SMALL, NUMBER_LARGE, NUMBER_WARPGROUPS };

static const struct {
  int number, multiprocessors, shared_kib, cache_mib;
} targets[] = {
#define GPU_TARGET(target, name, capability, exact, class, of, ptx, multiprocessors, shared, \
                   cache)                                                                    \
  {NUMBER_##class, multiprocessors, shared, cache},
#include "compiler/abi/gpu_targets.def"
#undef GPU_TARGET
};

static const gpu_machine devices[] = {
#define GPU_DEVICE(target, name, mhz, cache, mma, wgmma, memory) \
  {target, name, 0, 0, 0, 0, mhz, cache, mma, wgmma, memory},
#include "compiler/abi/gpu_targets.def"
#undef GPU_DEVICE
};

gpu_machine gpu_machine_at(int row) {
  gpu_machine d = devices[row];
  d.number = targets[row].number;
  d.multiprocessors = targets[row].multiprocessors;
  d.shared_kib = targets[row].shared_kib;
  d.cache_mib = targets[row].cache_mib;
  return d;
}

int gpu_machine_row(const char *target) {
  for (size_t row = 0; row < sizeof devices / sizeof *devices; row++)
    if (strcmp(devices[row].target, target) == 0) return (int)row;
  return -1;
}

double gpu_bytes_in_cycle(const gpu_machine *device, double gb) {
  return 1e3 * gb / device->mhz / (double)device->multiprocessors;
}

gpu_speed gpu_speed_of(const gpu_machine *device) {
  return (gpu_speed){device->mma, device->wgmma, gpu_bytes_in_cycle(device, device->cache_gb)};
}
