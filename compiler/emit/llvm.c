// LLVM modules: LLVM's passes, emission to memory.
//
// Every function carries the CPU of its clone as an attribute. An LLVM error about a module that we
// built is a compiler bug, never the user's mistake, and is reported as one.
#include "compiler/emit/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compiler/base/ice.h"
#include "compiler/emit/lines.h"

const char *codegen_llvm_version(arena *a) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  return arena_printf(a, "%u.%u.%u", major, minor, patch);
}

static void fatal(const char *reason) { ICE("emit", "LLVM: %s", reason); }

static void diagnose(LLVMDiagnosticInfoRef info, void *unused) {
  (void)unused;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  ICE("emit", "LLVM: %s", LLVMGetDiagInfoDescription(info));
}

void llvm_prepare(void) {
  static bool done;
  if (done) return;
  done = true;
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInstallFatalErrorHandler(fatal);
  // Loop strength reduction makes a pointer of every address in a loop, each in registers of its
  // own. Without it, GPU kernels are smaller and have up to a quarter fewer registers. LLVM has one
  // switch for all machines; hosts want it, and have it in llvm_optimise.
  // The fast selection of instructions, LLVM's at level 0, folds the load of a number that it
  // selects into vblendvpd, which reads 16 bytes: beyond the end of an array (LLVM 22).
  static const char *const off[] = {"recc", "-disable-lsr", "-fast-isel=false"};
  LLVMParseCommandLineOptions(3, off, NULL);
}

llvm_module llvm_module_new(const char *name, int level, codegen_processor processor) {
  llvm_prepare();
  const processor_row *row = &processor_rows[processor];
  llvm_module m = {.lines = NULL};
  m.context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(m.context, diagnose, NULL);
  m.module = LLVMModuleCreateWithNameInContext(name, m.context);
  LLVMTargetRef target;
  char *message = NULL;
  if (LLVMGetTargetFromTriple(row->triple, &target, &message)) ICE("emit", "%s", message);
  LLVMCodeGenOptLevel effort = level == 0   ? LLVMCodeGenLevelNone
                               : level == 1 ? LLVMCodeGenLevelLess
                                            : LLVMCodeGenLevelDefault;
  m.machine = LLVMCreateTargetMachine(target, row->triple, clone_targets[row->first].cpu, "",
                                      effort, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m.machine);
  LLVMSetModuleDataLayout(m.module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(m.module, row->triple);
  return m;
}

void llvm_module_free(llvm_module *m) {
  lines_free(m);
  LLVMDisposeModule(m->module);
  LLVMDisposeTargetMachine(m->machine);
  LLVMContextDispose(m->context);
}

void llvm_attribute(llvm_module *m, LLVMValueRef function, const char *name, const char *value) {
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(m->context, name, (unsigned)strlen(name), value,
                                                    (unsigned)strlen(value)));
}

void llvm_flag(LLVMValueRef function, const char *name) {
  LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(function));
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(context, kind, 0));
}

LLVMValueRef llvm_function(llvm_module *m, const char *name, LLVMTypeRef type,
                           codegen_clone clone) {
  LLVMValueRef function = LLVMAddFunction(m->module, name, type);
  LLVMSetVisibility(function, LLVMHiddenVisibility);
  if (clone != CLONE_GPU) llvm_attribute(m, function, "target-cpu", clone_targets[clone].cpu);
  if (clone != CLONE_GPU && clone_targets[clone].vector_bytes == 64) {
    llvm_attribute(m, function, "prefer-vector-width", "512");
    llvm_attribute(m, function, "min-legal-vector-width", "512");
  }
  if (clone_targets[clone].pairs) llvm_attribute(m, function, "target-features", "+avx512bf16");
  llvm_flag(function, "nounwind");
  return function;
}

LLVMValueRef llvm_internal(llvm_module *m, const char *name, LLVMTypeRef type,
                           codegen_clone clone) {
  LLVMValueRef function = llvm_function(m, name, type, clone);
  LLVMSetVisibility(function, LLVMDefaultVisibility);
  LLVMSetLinkage(function, LLVMInternalLinkage);
  llvm_flag(function, "noinline");
  return function;
}

void llvm_may_unwind(LLVMValueRef function) {
  LLVMRemoveEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                 LLVMGetEnumAttributeKindForName("nounwind", strlen("nounwind")));
}

int llvm_instruction_count(LLVMValueRef function) {
  int count = 0;
  llvm_each_instruction(i, function) count++;
  return count;
}

bool llvm_calls(LLVMValueRef instruction, const char *name) {
  size_t length;
  return LLVMIsACallInst(instruction) &&
         strcmp(LLVMGetValueName2(LLVMGetCalledValue(instruction), &length), name) == 0;
}

void llvm_verify(llvm_module *m) {
  char *message = NULL;
  if (LLVMVerifyModule(m->module, LLVMReturnStatusAction, &message))
    ICE("emit", "malformed module: %s", message);
  LLVMDisposeMessage(message);
}

// The lowering emits explicit vectors in counted loops. LLVM's passes still bring variables into
// registers and move invariant code out of loops. Unrolling made no kernel faster and compilation
// much slower. Dead stores and dead instructions there are none: passes that look for them left the
// code of every recurrence as it was.
#define REGISTERS "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg"
#define LOOPS "loop-mssa(loop-rotate,licm)"
#define POINTERS "loop(loop-reduce)"

void llvm_optimise(llvm_module *m, int level) {
  static const char *const passes[] = {
      "always-inline",
      "function(" REGISTERS "," POINTERS ")",
      "function(" REGISTERS "," LOOPS ",early-cse<memssa>," POINTERS ")",
      "function(" REGISTERS "," LOOPS
      ",early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg," POINTERS ")",
  };
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(m->module,
                                     passes[level < 0   ? 0
                                            : level > 3 ? 3
                                                        : level],
                                     m->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (error) ICE("emit", "LLVM: %s", LLVMGetErrorMessage(error));
}

static LLVMMemoryBufferRef emit_machine_code(llvm_module *m, LLVMCodeGenFileType type) {
  LLVMMemoryBufferRef buffer = NULL;
  char *message = NULL;
  bool failed = LLVMTargetMachineEmitToMemoryBuffer(m->machine, m->module, type, &message, &buffer);
  if (failed) ICE("emit", "LLVM: %s", message);
  return buffer;
}

const char *llvm_text(arena *a, llvm_module *m) {
  char *text = LLVMPrintModuleToString(m->module);
  const char *copy = arena_strdup(a, text);
  LLVMDisposeMessage(text);
  return copy;
}

// Emission lowers the module in place, so assembly is made from a clone of it.
const char *llvm_assembly(arena *a, llvm_module *m) {
  llvm_module copy = *m;
  copy.module = LLVMCloneModule(m->module);
  LLVMMemoryBufferRef buffer = emit_machine_code(&copy, LLVMAssemblyFile);
  const char *text = arena_strndup(a, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  LLVMDisposeModule(copy.module);
  return text;
}

const unsigned char *llvm_object(arena *a, llvm_module *m, size_t *size) {
  LLVMMemoryBufferRef buffer = emit_machine_code(m, LLVMObjectFile);
  *size = LLVMGetBufferSize(buffer);
  unsigned char *bytes = arena_alloc(a, *size);
  memcpy(bytes, LLVMGetBufferStart(buffer), *size);
  LLVMDisposeMemoryBuffer(buffer);
  return bytes;
}
