// LLVM for the rooms behind the plan: one module, its target, passes and emission.
#pragma once

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "compiler/plan/machine.h"

// "22.1.0"
const char *codegen_llvm_version(arena *a);

typedef struct llvm_module {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMTargetMachineRef machine;
  struct lines *lines;  // lines.h; NULL: no line information
  struct marks *marks;  // marks.h; NULL: code is not counted
} llvm_module;

// What all threads share, before the second of them begins; also for GPUs.
void llvm_prepare(void);
void nvptx_prepare(void);

llvm_module llvm_module_new(const char *name, int level, codegen_processor processor);
void llvm_module_free(llvm_module *m);

// A function with the attributes of every generated function; hidden unless exported.
LLVMValueRef llvm_function(llvm_module *m, const char *name, LLVMTypeRef type, codegen_clone clone);
// One for calls within the module, which passes leave a function of its own.
LLVMValueRef llvm_internal(llvm_module *m, const char *name, LLVMTypeRef type, codegen_clone clone);
void llvm_attribute(llvm_module *m, LLVMValueRef function, const char *name, const char *value);
// Same for attributes without a value, by LLVM's name: nounwind, noinline, alwaysinline.
void llvm_flag(LLVMValueRef function, const char *name);
// C++ exceptions may pass through the function: it gets unwind tables.
void llvm_may_unwind(LLVMValueRef function);

int llvm_instruction_count(LLVMValueRef function);

// Walks the instructions of a function, whose blocks the walk does not change.
#define llvm_each_instruction(i, function)                                              \
  for (LLVMBasicBlockRef block_of_##i = LLVMGetFirstBasicBlock(function); block_of_##i; \
       block_of_##i = LLVMGetNextBasicBlock(block_of_##i))                              \
    for (LLVMValueRef i = LLVMGetFirstInstruction(block_of_##i); i; i = LLVMGetNextInstruction(i))

// Is it a call of the function of this name?
bool llvm_calls(LLVMValueRef instruction, const char *name);

// Verifies (a broken module is a compiler bug), runs the passes of the level, emits.
void llvm_optimise(llvm_module *m, int level);
void llvm_verify(llvm_module *m);
const char *llvm_text(arena *a, llvm_module *m);
const char *llvm_assembly(arena *a, llvm_module *m);
const unsigned char *llvm_object(arena *a, llvm_module *m, size_t *size);
