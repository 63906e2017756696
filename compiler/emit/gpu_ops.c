// The abstract GPU operations: their table, types, declarations and calls.
//
//   gpu_call(e, GPU_SHFL_BFLY_F32, {x, mask})   ->   call float @rec.shfl_bfly_f32(float %x, i32 %mask)
#include <stdio.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/gpu_ops.h"

const gpu_op_row gpu_ops[GPU_OP_COUNT] = {
#define GPU_OP(id, name, result, arguments, kind, section, map) \
  [GPU_##id] = {name, result, arguments, GPU_##kind, section, map},
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP
};

LLVMTypeRef gpu_letter_type(LLVMContextRef context, char letter) {
  switch (letter) {
    case 'v': return LLVMVoidTypeInContext(context);
    case 'i':
    case 'n': return LLVMInt32TypeInContext(context);
    case 'l': return LLVMInt64TypeInContext(context);
    case 'f': return LLVMFloatTypeInContext(context);
    case 's': return LLVMPointerTypeInContext(context, GPU_SHARED_MEMORY);
    case 'g': return LLVMPointerTypeInContext(context, GPU_GLOBAL);
    default: ICE("emit", "no GPU type '%c'", letter);
  }
}

int gpu_letters(const char *text, char letters[GPU_MOST_ARGUMENTS + 1]) {
  int count = 0;
  for (; *text; text++) {
    int repeated = *text >= '0' && *text <= '9' ? 0 : 1;
    for (; *text >= '0' && *text <= '9'; text++) repeated = 10 * repeated + *text - '0';
    if (count + repeated > GPU_MOST_ARGUMENTS) ICE("emit", "%s are too many registers", text);
    for (int i = 0; i < repeated; i++) letters[count++] = *text;
  }
  letters[count] = 0;
  return count;
}

int gpu_result_count(const gpu_op_row *row) {
  char letters[GPU_MOST_ARGUMENTS + 1];
  int count = gpu_letters(row->result, letters);
  return letters[0] == 'v' ? 0 : count;
}

static LLVMTypeRef gpu_op_type(LLVMContextRef context, const gpu_op_row *row) {
  LLVMTypeRef arguments[GPU_MOST_ARGUMENTS], parts[GPU_MOST_ARGUMENTS];
  char letters[GPU_MOST_ARGUMENTS + 1];
  int count = gpu_letters(row->arguments, letters), results = gpu_result_count(row);
  for (int i = 0; i < count; i++) arguments[i] = gpu_letter_type(context, letters[i]);
  gpu_letters(row->result, letters);
  LLVMTypeRef result = gpu_letter_type(context, letters[0]);
  for (int i = 0; i < results; i++) parts[i] = result;
  if (results > 1) result = LLVMStructTypeInContext(context, parts, (unsigned)results, 0);
  return LLVMFunctionType(result, arguments, (unsigned)count, 0);
}

LLVMValueRef gpu_op_function(LLVMModuleRef module, gpu_op op, bool declare) {
  char name[64];
  const gpu_op_row *row = &gpu_ops[op];
  snprintf(name, sizeof name, "rec.%s", row->name);
  LLVMValueRef function = LLVMGetNamedFunction(module, name);
  if (function || !declare) return function;
  LLVMContextRef context = LLVMGetModuleContext(module);
  function = LLVMAddFunction(module, name, gpu_op_type(context, row));
  llvm_flag(function, "nounwind");
  if (row->kind != GPU_PURE && row->kind != GPU_MEMORY) llvm_flag(function, "convergent");
  if (row->kind == GPU_PURE) llvm_flag(function, "memory");
  return function;
}

ir gpu_call(emitter *e, gpu_op op, const ir *args, int count) {
  ir function = gpu_op_function(e->m->module, op, true);
  if (count != (int)LLVMCountParams(function))
    ICE("emit", "rec.%s takes other arguments", gpu_ops[op].name);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(function), function, (ir *)args,
                        (unsigned)count, "");
}

ir gpu_index(emitter *e, gpu_op op) {
  return LLVMBuildZExt(e->b, gpu_call(e, op, NULL, 0), e->i64, "");
}

bool gpu_is_kernel(LLVMValueRef function) {
  return LLVMGetFunctionCallConv(function) == GPU_KERNEL_CONVENTION && !LLVMIsDeclaration(function);
}
