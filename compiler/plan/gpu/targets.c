// The targets of GPU code, and the device that the model has in mind for each (devices.def).
#include "compiler/base/ice.h"
#include "compiler/plan/machine.h"

typedef struct gpu_target_row {
  const char *name;
  int capability;
  bool exact;                 // the code runs on no later device
  device_class device_class;  // the class whose kernels it has
} gpu_target_row;

static const gpu_target_row rows[GPU_TARGET_COUNT] = {
    [GPU_SM_80] = {"sm_80", 80, false, CLASS_SMALL},     [GPU_SM_90A] = {"sm_90a", 90, true, CLASS_WARPGROUPS},
    [GPU_SM_100A] = {"sm_100a", 100, true, CLASS_LARGE}, [GPU_SM_120] = {"sm_120", 120, false, CLASS_SMALL},
    [GPU_SIMT] = {"simt", 0, false, CLASS_ANY},
};

const char *codegen_gpu_target_name(codegen_gpu_target target) { return rows[target].name; }
int codegen_gpu_capability(codegen_gpu_target target) { return rows[target].capability; }
bool codegen_gpu_exact(codegen_gpu_target target) { return rows[target].exact; }

device_class codegen_gpu_class(codegen_gpu_target target) { return rows[target].device_class; }

bool codegen_gpu_is_of_class(codegen_gpu_target target, device_class wanted) {
  return target == GPU_SIMT || wanted == CLASS_ANY || rows[target].device_class & wanted;
}

// ---- devices ----

static const machine_device devices[] = {
#define GPU_DEVICE(target, name, multiprocessors, shared_kib, cache_mib) {GPU_##target, multiprocessors, shared_kib, cache_mib},
#include "compiler/plan/gpu/devices.def"
#undef GPU_DEVICE
};

const machine_device *machine_device_of(codegen_gpu_target target) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    if (devices[i].target == target) return &devices[i];
  return NULL;
}

int64_t gpu_shared_kib(codegen_gpu_target target) {
  const machine_device *device = machine_device_of(target);
  if (!device) ICE("gpu", "%s has no row in devices.def", codegen_gpu_target_name(target));
  return device->shared_kib;
}
