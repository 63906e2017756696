// The targets of GPU code (compiler/abi/gpu_targets.def).
#include "compiler/base/ice.h"
#include "compiler/plan/machine.h"

static const gpu_target_row rows[GPU_TARGET_COUNT] = {
#define GPU_TARGET(target, name, capability, exact, class, of, ptx, multiprocessors, shared, \
                   cache)                                                                    \
  [GPU_##target] = {name, capability, exact, CLASS_##class, GPU_##of, "+ptx" #ptx},
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

gpu_machine machine_device_of(codegen_gpu_target target) {
  if (target == GPU_SIMT) ICE("gpu", "%s is no device", codegen_gpu_target_name(target));
  return gpu_machine_at((int)target);
}
