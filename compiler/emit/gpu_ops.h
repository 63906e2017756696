// The abstract operations of GPUs: what kernels call, and targets give bodies to.
#pragma once

#include "compiler/emit/emit.h"

typedef enum gpu_op {
#define GPU_OP(id, name, result, arguments, kind, section, map) GPU_##id,
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP
  GPU_OP_COUNT
} gpu_op;

typedef enum gpu_op_kind { GPU_PURE, GPU_WARP, GPU_GROUP, GPU_BLOCK, GPU_MEMORY } gpu_op_kind;

typedef struct gpu_op_row {
  const char *name, *result, *arguments;
  gpu_op_kind kind;
  const char *section, *map;
} gpu_op_row;

extern const gpu_op_row gpu_ops[GPU_OP_COUNT];

enum { GPU_GLOBAL = 1, GPU_SHARED_MEMORY = 3, GPU_KERNEL_CONVENTION = 71, GPU_MOST_ARGUMENTS = 40 };

// Is it an address in shared memory? Others are in global memory.
static inline bool gpu_in_shared_memory(ir address) {
  return LLVMGetPointerAddressSpace(LLVMTypeOf(address)) == GPU_SHARED_MEMORY;
}

LLVMTypeRef gpu_letter_type(LLVMContextRef context, char letter);
// Letters of the table written out, `4fi` as `ffffi`.
int gpu_letters(const char *text, char letters[GPU_MOST_ARGUMENTS + 1]);
// How many registers a result has.
int gpu_result_count(const gpu_op_row *row);
// Rows that other targets than sm_90a lack: from this one on.
enum { GPU_FIRST_OF_HOPPER = GPU_SHARED_ADDRESS };
// The declaration `rec.name` of the module; NULL if `declare` is false and nobody called it.
LLVMValueRef gpu_op_function(LLVMModuleRef module, gpu_op op, bool declare);
ir gpu_call(emitter *e, gpu_op op, const ir *args, int count);
// An index or a count that an operation without arguments says, as i64.
ir gpu_index(emitter *e, gpu_op op);

// emit/contract.c: products and sums that fuse.
void gpu_contract(llvm_module *m);

// The kernels of a module: functions with the convention of kernels, of one parameter `ptr byval([n
// x i8])`.
bool gpu_is_kernel(LLVMValueRef function);
