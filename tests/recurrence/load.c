#include "tests/recurrence/load.h"

#include <dlfcn.h>
#include <unistd.h>

#include "compiler/base/embedded.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/unit/unit.h"

void *load_objects(arena *a, const link_object *objects, int count) {
  char path[] = "/tmp/rec_objects.XXXXXX";
  close(mkstemp(path));
  const char *error = link_shared_library(a, objects, count, "libtest.so", path);
  if (error) fail_msg("%s", error);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (!library) fail_msg("%s", dlerror());
  return library;
}

link_object embedded_object(const char *name) {
  const embedded_file *file = embedded_find(embedded_support, name);
  assert_non_null(file);
  return (link_object){name, file->data, file->size};
}

bool kernel_clone_runs(codegen_clone clone) {
  if (clone == CLONE_V4_BF16) return __builtin_cpu_supports("avx512bf16");
  if (clone == CLONE_V4) return __builtin_cpu_supports("x86-64-v4");
  return clone == CLONE_V3 ? __builtin_cpu_supports("x86-64-v3")
                           : __builtin_cpu_supports("x86-64-v2");
}

unsigned kernel_clones_drawn(int number) {
  unsigned clones = 0;
  for (int clone = 0; clone < CLONE_X86_COUNT; clone++)
    if (kernel_clone_runs(clone) && kernel_is_drawn(number + clone, CLONE_X86_COUNT))
      clones |= 1u << clone;
  return clones ? clones : 1u << CLONE_V2;
}

reference_tensor *trial_tensor(trial *t, const codegen_slot *slot, int64_t *numbers) {
  reference_run *run = &t->run;
  if (slot->lag >= 0) {
    *numbers = t->lag_numbers[slot->lag];
    reference_tensor *lags[] = {[TILE_STATE] = run->lags,
                                [TILE_NEXT_STATE] = run->final_lags,
                                [TILE_D_NEXT_STATE] = run->d_final_lags,
                                [TILE_D_STATE] = run->d_initial_lags};
    return &lags[slot->role][slot->lag];
  }
  *numbers = t->tensor_numbers[slot->tensor];
  reference_tensor *tensors[] = {[TILE_INPUT] = run->tensors,
                                 [TILE_PARAM] = run->tensors,
                                 [TILE_STATE] = run->tensors,
                                 [TILE_OUTPUT] = run->tensors,
                                 [TILE_NEXT_STATE] = run->final_states,
                                 [TILE_D_OUTPUT] = run->d_tensors,
                                 [TILE_D_NEXT_STATE] = run->d_final_states,
                                 [TILE_D_INPUT] = run->d_tensors,
                                 [TILE_D_PARAM] = run->d_tensors,
                                 [TILE_D_STATE] = run->d_initial_states};
  return &tensors[slot->role][slot->tensor];
}
