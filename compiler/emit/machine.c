// The targets of GPU code: one row for each.
#include "compiler/emit/machine.h"

typedef struct gpu_target_row {
  const char *name;
  int capability;
  bool exact;        // for no later devices
  kernel_room room;  // whose kernels it has
} gpu_target_row;

static const gpu_target_row rows[GPU_TARGET_COUNT] = {
    [GPU_SM_80] = {"sm_80", 80, false, ROOM_SMALL},     [GPU_SM_90A] = {"sm_90a", 90, true, ROOM_GROUPS},
    [GPU_SM_100A] = {"sm_100a", 100, true, ROOM_LARGE}, [GPU_SM_120] = {"sm_120", 120, false, ROOM_SMALL},
    [GPU_SIMT] = {"simt", 0, false, ROOM_ANY},
};

const char *codegen_gpu_target_name(codegen_gpu_target target) { return rows[target].name; }
int codegen_gpu_capability(codegen_gpu_target target) { return rows[target].capability; }
bool codegen_gpu_exact(codegen_gpu_target target) { return rows[target].exact; }

kernel_room codegen_gpu_room(codegen_gpu_target target) { return rows[target].room; }

bool codegen_gpu_has_room(codegen_gpu_target target, kernel_room room) {
  return target == GPU_SIMT || room == ROOM_ANY || rows[target].room & room;
}
