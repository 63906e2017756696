// Code for the executor (runtime/support/simt), from the abstract module. Every operation becomes a call of
// the executor, and checks stand before loads and stores. Kernels become C functions of one
// pointer, compiled for what recc runs on.
//
//   define ptx_kernel void @k(ptr byval([96 x i8]) %p)      define hidden void @k(ptr %p)
//     %x = load float, ptr addrspace(3) %a, align 4    ->     call void @simt_check_shared(%a, 4 bytes, align 4, read)
//     call void @rec.barrier()                                %x = load float, ptr addrspace(3) %a, align 4
//                                                             call void @simt_barrier()
//
// This file knows no single operation; the table of operations is enough. Address spaces stay:
// processors read and write 1 and 3 like 0. The passes are those of PTX and run first, so that the
// checks and counts see the code that a GPU would run.
#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"
#include "compiler/target/segments.h"

typedef struct simt_module {
  LLVMModuleRef module;
  LLVMContextRef context;
  LLVMTargetDataRef layout;
  LLVMBuilderRef b;
  const marks *marks;  // NULL: the code does not count
  LLVMValueRef *rows;  // by segment
  int segment, site;   // the segment of the code before, number of accesses
} simt_module;

// ---- operations ----

// Arguments that the table repeats are an array in memory.
static unsigned c_arguments(simt_module *s, LLVMValueRef function, const char *letters,
                            LLVMValueRef *args, LLVMTypeRef *types) {
  unsigned count = 0, next = 0;
  LLVMTypeRef memory = LLVMPointerTypeInContext(s->context, 0);
  while (*letters) {
    unsigned repeated = (unsigned)strtoul(letters, (char **)&letters, 10);
    LLVMTypeRef type = gpu_letter_type(s->context, *letters++);
    types[count] = repeated ? memory : type;
    if (repeated) {
      args[count] = LLVMBuildAlloca(s->b, LLVMArrayType2(type, repeated), "");
      for (unsigned i = 0; i < repeated; i++) {
        LLVMValueRef at = LLVMConstInt(LLVMInt32TypeInContext(s->context), i, 0);
        at = LLVMBuildGEP2(s->b, type, args[count], &at, 1, "");
        LLVMBuildStore(s->b, LLVMGetParam(function, next++), at);
      }
    } else {
      args[count] = LLVMGetParam(function, next++);
    }
    count++;
  }
  return count;
}

// Several registers: the C function writes them through its first argument.
static void give_struct_body(simt_module *s, LLVMValueRef function, const gpu_op_row *row,
                             const char *name) {
  LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));
  LLVMTypeRef types[GPU_MOST_ARGUMENTS + 1] = {LLVMPointerTypeInContext(s->context, 0)};
  LLVMValueRef args[GPU_MOST_ARGUMENTS + 1];
  LLVMPositionBuilderAtEnd(s->b, LLVMAppendBasicBlockInContext(s->context, function, ""));
  unsigned count = c_arguments(s, function, row->arguments, args + 1, types + 1);
  LLVMTypeRef callee_type =
      LLVMFunctionType(LLVMVoidTypeInContext(s->context), types, count + 1, 0);
  LLVMValueRef callee = LLVMAddFunction(s->module, name, callee_type);
  LLVMSetVisibility(callee, LLVMHiddenVisibility);
  args[0] = LLVMBuildAlloca(s->b, result, "");
  LLVMBuildCall2(s->b, callee_type, callee, args, count + 1, "");
  LLVMBuildRet(s->b, LLVMBuildLoad2(s->b, result, args[0], ""));
  LLVMSetLinkage(function, LLVMInternalLinkage);
}

static void give_body(simt_module *s, gpu_op op) {
  LLVMValueRef function = gpu_op_function(s->module, op, false);
  if (!function) return;
  char name[64];
  snprintf(name, sizeof name, "simt_%s", gpu_ops[op].name);
  if (gpu_result_count(&gpu_ops[op]) > 1) {
    give_struct_body(s, function, &gpu_ops[op], name);
    return;
  }
  LLVMSetValueName2(function, name, strlen(name));
  LLVMSetVisibility(function, LLVMHiddenVisibility);
}

// ---- checks ----

static void call_executor(simt_module *s, const char *name, LLVMTypeRef *types, LLVMValueRef *args,
                          unsigned count) {
  LLVMValueRef function = LLVMGetNamedFunction(s->module, name);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(s->context), types, count, 0);
  if (!function) {
    function = LLVMAddFunction(s->module, name, type);
    LLVMSetVisibility(function, LLVMHiddenVisibility);
  }
  LLVMBuildCall2(s->b, type, function, args, count, "");
}

static void check_access(simt_module *s, LLVMValueRef access, LLVMValueRef pointer,
                         LLVMTypeRef type, bool write) {
  unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(pointer));
  if (space != GPU_SHARED_MEMORY && space != GPU_GLOBAL) return;
  const char *name = space == GPU_GLOBAL ? "simt_check_global" : "simt_check_shared";
  LLVMTypeRef i32 = LLVMInt32TypeInContext(s->context),
              types[] = {LLVMTypeOf(pointer), i32, i32, i32};
  LLVMValueRef args[] = {pointer, LLVMConstInt(i32, LLVMStoreSizeOfType(s->layout, type), 0),
                         LLVMConstInt(i32, LLVMGetAlignment(access), 0),
                         LLVMConstInt(i32, write, 0)};
  LLVMPositionBuilderBefore(s->b, access);
  call_executor(s, name, types, args, 4);
}

static void check_instruction(simt_module *s, LLVMValueRef i) {
  LLVMOpcode opcode = LLVMGetInstructionOpcode(i);
  if (opcode == LLVMLoad)
    check_access(s, i, LLVMGetOperand(i, 0), LLVMTypeOf(i), false);
  else if (opcode == LLVMStore)
    check_access(s, i, LLVMGetOperand(i, 1), LLVMTypeOf(LLVMGetOperand(i, 0)), true);
  else if (LLVMIsAMemIntrinsic(i))
    ICE("target", "GPU code moves memory in a way that the executor does not see");
}

// ---- the module ----

static void remove_flag(LLVMValueRef function, const char *name) {
  LLVMRemoveEnumAttributeAtIndex(function, 1, LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

// byval would pass the parameter's bytes on the stack.
static void make_c_function(LLVMValueRef function) {
  static const char constant[] = "nvvm.grid_constant";
  LLVMSetFunctionCallConv(function, LLVMCCallConv);
  remove_flag(function, "byval");
  LLVMRemoveStringAttributeAtIndex(function, 1, constant, sizeof constant - 1);
  LLVMSetVisibility(function, LLVMHiddenVisibility);
}

// ---- counts ----

static LLVMValueRef int32_constant(simt_module *s, int64_t x) {
  return LLVMConstInt(LLVMInt32TypeInContext(s->context), (unsigned long long)x, 1);
}

static LLVMValueRef global_constant(simt_module *s, LLVMValueRef value) {
  LLVMValueRef global = LLVMAddGlobal(s->module, LLVMTypeOf(value), "");
  LLVMSetInitializer(global, value);
  LLVMSetGlobalConstant(global, 1);
  LLVMSetLinkage(global, LLVMInternalLinkage);
  return global;
}

static LLVMValueRef constant_struct(simt_module *s, LLVMValueRef *fields, unsigned count) {
  return global_constant(s, LLVMConstStructInContext(s->context, fields, count, 0));
}

static LLVMValueRef text_constant(simt_module *s, const char *text) {
  return global_constant(s, LLVMConstStringInContext2(s->context, text, strlen(text), 0));
}

// simt_segment, simt_place
static LLVMValueRef row_of_segment(simt_module *s, const simt_segment *segment) {
  LLVMValueRef fields[2 + SIMT_CLASSES] = {int32_constant(s, segment->number),
                                           int32_constant(s, segment->issued)};
  for (int i = 0; i < SIMT_CLASSES; i++) fields[2 + i] = int32_constant(s, segment->counts[i]);
  return constant_struct(s, fields, 2 + SIMT_CLASSES);
}

static LLVMValueRef row_of_mark(simt_module *s, int number, const mark *m) {
  LLVMValueRef fields[] = {int32_constant(s, number + 1), int32_constant(s, m->line),
                           text_constant(s, m->kernel), text_constant(s, m->file),
                           text_constant(s, m->text)};
  return constant_struct(s, fields, 5);
}

static void emit_access_count(simt_module *s, LLVMValueRef at, LLVMValueRef bytes,
                              int64_t alignment, bool global) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(s->context),
              pointer = LLVMPointerTypeInContext(s->context, 0);
  at = LLVMBuildPtrToInt(s->b, at, LLVMInt64TypeInContext(s->context), "");
  at = LLVMBuildIntToPtr(s->b, at, pointer, "");
  LLVMTypeRef types[] = {pointer, i32, i32, i32, i32};
  LLVMValueRef args[] = {at, bytes, int32_constant(s, alignment), int32_constant(s, global),
                         int32_constant(s, s->site++)};
  call_executor(s, "simt_count_access", types, args, 5);
}

static void count_pointer(simt_module *s, LLVMValueRef access, LLVMValueRef pointer,
                          LLVMTypeRef type) {
  unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(pointer));
  if (space != GPU_SHARED_MEMORY && space != GPU_GLOBAL) return;
  emit_access_count(s, pointer, int32_constant(s, (int64_t)LLVMStoreSizeOfType(s->layout, type)),
                    LLVMGetAlignment(access), space == GPU_GLOBAL);
}

static void count_call(simt_module *s, LLVMValueRef i) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(s->context, 0);
  int bytes = llvm_calls(i, "rec.cp_async16") ? 16 : llvm_calls(i, "rec.cp_async4") ? 4 : 0;
  if (bytes) {
    emit_access_count(s, LLVMGetOperand(i, 0), int32_constant(s, bytes), bytes, false);
    emit_access_count(s, LLVMGetOperand(i, 1), LLVMGetOperand(i, 2), bytes, true);
  }
  if (!llvm_calls(i, mark_function)) return;
  int number = (int)LLVMConstIntGetZExtValue(LLVMGetOperand(i, 0));
  LLVMValueRef row = row_of_mark(s, number, &s->marks->items.items[number]);
  call_executor(s, "simt_count_place", &pointer, &row, 1);
}

static void count_instruction(simt_module *s, LLVMValueRef i) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(s->context, 0);
  if (LLVMIsAPHINode(i)) return;
  LLVMPositionBuilderBefore(s->b, i);
  LLVMSetCurrentDebugLocation2(s->b, NULL);
  if (segment_of(i) >= 0 && segment_of(i) != s->segment) {
    s->segment = segment_of(i);
    call_executor(s, "simt_count_segment", &pointer, &s->rows[s->segment], 1);
  }
  if (LLVMIsALoadInst(i)) count_pointer(s, i, LLVMGetOperand(i, 0), LLVMTypeOf(i));
  if (LLVMIsAStoreInst(i))
    count_pointer(s, i, LLVMGetOperand(i, 1), LLVMTypeOf(LLVMGetOperand(i, 0)));
  if (LLVMIsACallInst(i)) count_call(s, i);
}

static void count_function(simt_module *s, LLVMValueRef function) {
  LLVMValueRef next;
  for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block;
       block = LLVMGetNextBasicBlock(block)) {
    s->segment = -1;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = next) {
      next = LLVMGetNextInstruction(i);
      count_instruction(s, i);
      if (llvm_calls(i, mark_function)) LLVMInstructionEraseFromParent(i);
    }
  }
}

// Before the checks, whose calls are no part of the code.
static void count_module(arena *a, simt_module *s, const llvm_module *m) {
  gpu_assemble(m);
  segment_list list = segments_cut(a, m);
  s->rows = ARENA_ARRAY(a, LLVMValueRef, list.count);
  for (int i = 0; i < list.count; i++) s->rows[i] = row_of_segment(s, &list.items[i]);
  for (LLVMValueRef f = LLVMGetFirstFunction(s->module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) count_function(s, f);
  LLVMStripModuleDebugInfo(s->module);
}

static void rewrite_for_executor(simt_module *s) {
  for (LLVMValueRef f = LLVMGetFirstFunction(s->module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    if (gpu_is_kernel(f)) make_c_function(f);
    llvm_each_instruction(i, f) check_instruction(s, i);
  }
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++) give_body(s, op);
}

link_object simt_object(arena *a, const llvm_module *m, int level, const char **text) {
  // counted code runs once
  llvm_module host = llvm_module_new("simt", m->marks ? 0 : level, PROCESSOR_HOST);
  llvm_module copy = module_clone(m);
  gpu_optimise(&copy);
  copy.machine = host.machine;
  simt_module s = {.module = copy.module, .context = copy.context};
  s.layout = LLVMCreateTargetDataLayout(copy.machine);
  s.b = LLVMCreateBuilderInContext(copy.context);
  s.marks = m->marks;
  if (s.marks) {
    copy.machine = m->machine;
    count_module(a, &s, &copy);
    copy.machine = host.machine;
  }
  LLVMSetModuleDataLayout(copy.module, s.layout);
  LLVMSetTarget(copy.module, LLVMGetTarget(host.module));
  rewrite_for_executor(&s);
  llvm_verify(&copy);
  if (text) *text = llvm_text(a, &copy);
  link_object object = {.name = "simt"};
  object.bytes = llvm_object(a, &copy, &object.size);
  LLVMDisposeBuilder(s.b);
  LLVMDisposeTargetData(s.layout);
  LLVMDisposeModule(copy.module);
  llvm_module_free(&host);
  return object;
}
