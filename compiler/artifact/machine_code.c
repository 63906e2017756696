// What assembler and disassembler tell of a target's machine code, where they are.
#include "compiler/artifact/abi.h"

artifact_codes artifact_machine_codes(arena *a, const codegen_gpu_object *object, codegen_gpu_target target) {
  (void)a, (void)object, (void)target;
  return (artifact_codes){0};
}
