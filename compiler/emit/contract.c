// Products that a single sum reads become part of it: one rounding less, one instruction and often
// one register.
//
//   %p = fmul float %a, %b        ->        %s = call float @llvm.fmuladd.f32(float %a, float %b, float %c)
//   %s = fadd float %p, %c
//
// For %c - %p and %p - %c a sign is changed, which costs a GPU nothing. A product with other
// readers stays a product.
#include "compiler/emit/gpu_ops.h"

// The only use of a product.
static bool is_part(LLVMValueRef x, LLVMValueRef sum) {
  if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMFMul) return false;
  LLVMUseRef use = LLVMGetFirstUse(x);
  return !LLVMGetNextUse(use) && LLVMGetUser(use) == sum;
}

static LLVMValueRef fused(LLVMBuilderRef b, LLVMValueRef sum, LLVMValueRef product, int position) {
  LLVMValueRef x = LLVMGetOperand(product, 0), y = LLVMGetOperand(product, 1);
  LLVMValueRef rest = LLVMGetOperand(sum, position ? 0 : 1);
  LLVMPositionBuilderBefore(b, sum);
  if (LLVMGetInstructionOpcode(sum) == LLVMFSub) {
    LLVMValueRef *negative = position ? &x : &rest;
    *negative = LLVMBuildFNeg(b, *negative, "");
  }
  static const char name[] = "llvm.fmuladd";
  unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
  LLVMTypeRef type = LLVMTypeOf(sum);
  LLVMModuleRef module =
      LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(sum)));
  LLVMContextRef context = LLVMGetModuleContext(module);
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(module, id, &type, 1);
  LLVMTypeRef signature = LLVMIntrinsicGetType(context, id, &type, 1);
  return LLVMBuildCall2(b, signature, function, (LLVMValueRef[]){x, y, rest}, 3, "");
}

static void contract_at(LLVMBuilderRef b, LLVMValueRef sum) {
  LLVMOpcode opcode = LLVMGetInstructionOpcode(sum);
  if (opcode != LLVMFAdd && opcode != LLVMFSub) return;
  int position = is_part(LLVMGetOperand(sum, 1), sum) ? 1 : 0;
  LLVMValueRef product = LLVMGetOperand(sum, (unsigned)position);
  if (!is_part(product, sum)) return;
  LLVMReplaceAllUsesWith(sum, fused(b, sum, product, position));
  LLVMInstructionEraseFromParent(sum);
  LLVMInstructionEraseFromParent(product);
}

void gpu_contract(llvm_module *m) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f)) {
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block;
         block = LLVMGetNextBasicBlock(block)) {
      LLVMValueRef next;
      for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = next) {
        next = LLVMGetNextInstruction(i);
        contract_at(b, i);
      }
    }
  }
  LLVMDisposeBuilder(b);
}
