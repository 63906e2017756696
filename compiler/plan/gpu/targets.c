// The targets of GPU code, and the device that the model has in mind for each
// (compiler/abi/gpu_targets.def).
#include "compiler/base/ice.h"
#include "compiler/plan/machine.h"

static const gpu_target_row rows[GPU_TARGET_COUNT] = {
#define GPU_TARGET(target, name, capability, exact, class, of, ptx, multiprocessors, shared, \
                   cache)                                                                    \
  [GPU_##target] = {name,                                                                    \
                    capability,                                                              \
                    exact,                                                                   \
                    CLASS_##class,                                                           \
                    GPU_##of,                                                                \
                    "+ptx" #ptx,                                                             \
                    {multiprocessors, shared, cache}},
#include "compiler/abi/gpu_targets.def"
#undef GPU_TARGET
    [GPU_SIMT] = {.name = "simt", .device_class = CLASS_ANY, .text_of = GPU_SIMT},
};

const gpu_target_row *gpu_target_of(codegen_gpu_target target) { return &rows[target]; }
const char *codegen_gpu_target_name(codegen_gpu_target target) { return rows[target].name; }
int codegen_gpu_capability(codegen_gpu_target target) { return rows[target].capability; }
bool codegen_gpu_exact(codegen_gpu_target target) { return rows[target].exact; }

device_class codegen_gpu_class(codegen_gpu_target target) { return rows[target].device_class; }

bool codegen_gpu_is_of_class(codegen_gpu_target target, device_class wanted) {
  return target == GPU_SIMT || wanted == CLASS_ANY || rows[target].device_class & wanted;
}

const machine_device *machine_device_of(codegen_gpu_target target) {
  return target == GPU_SIMT ? NULL : &rows[target].device;
}

static const machine_rates rates[GPU_SIMT] = {
#define GPU_DEVICE(target, device, mhz, cache, mma, wgmma, memory) {mhz, cache, mma, wgmma, memory},
#include "compiler/abi/gpu_targets.def"
#undef GPU_DEVICE
};

const machine_rates *machine_rates_of(codegen_gpu_target target) {
  return target == GPU_SIMT ? NULL : &rates[target];
}

double machine_bytes_in_cycle(codegen_gpu_target target, double gb) {
  enum { MHZ_OF_GHZ = 1000 };
  return MHZ_OF_GHZ * gb / rates[target].mhz / (double)rows[target].device.multiprocessors;
}

gpu_speed machine_speed_of(codegen_gpu_target target) {
  const machine_rates *r = &rates[target];
  return (gpu_speed){r->mma, r->wgmma, machine_bytes_in_cycle(target, r->cache_gb)};
}

int64_t gpu_shared_kib(codegen_gpu_target target) {
  const machine_device *device = machine_device_of(target);
  if (!device) ICE("gpu", "%s is no device", codegen_gpu_target_name(target));
  return device->shared_kib;
}
