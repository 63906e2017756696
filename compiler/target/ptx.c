// PTX: a clone of the abstract module gets NVPTX bodies for its operations, LLVM's passes and
// NVPTX's emitter.
//
//   declare void @rec.barrier()   ->   define internal void @rec.barrier() alwaysinline {
//                                        call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
//                                        ret void }
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"

static void run_llvm_passes(const llvm_module *m, const char *passes) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(m->module, passes, m->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (error) ICE("target", "LLVM: %s", LLVMGetErrorMessage(error));
}

// The devices that a function is for.
static device_class device_class_of(LLVMValueRef function) {
  unsigned length = (unsigned)strlen(gpu_class_attribute), digits;
  LLVMAttributeRef devices = LLVMGetStringAttributeAtIndex(
      function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, gpu_class_attribute, length);
  return devices ? (device_class)(LLVMGetStringAttributeValue(devices, &digits)[0] - '0')
                 : CLASS_ANY;
}

bool nvptx_same_text(const llvm_module *m, codegen_gpu_target first, codegen_gpu_target second) {
  if (gpu_target_of(first)->text_of != gpu_target_of(second)->text_of) return false;
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f))
    if (codegen_gpu_is_of_class(first, device_class_of(f)) !=
        codegen_gpu_is_of_class(second, device_class_of(f)))
      return false;
  return true;
}

// Leaves the kernels for other devices out, and what they alone call.
static void keep_room(const llvm_module *m, codegen_gpu_target target) {
  LLVMValueRef next;
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = next) {
    next = LLVMGetNextFunction(f);
    if (!codegen_gpu_is_of_class(target, device_class_of(f))) LLVMDeleteFunction(f);
  }
  run_llvm_passes(m, "globaldce");
}

static const char triple[] = "nvptx64-nvidia-cuda";

// Addresses of shared memory have 32 bits: half the registers of 64.
void nvptx_prepare(void) {
  static const char *const options[] = {"recc", "-nvptx-short-ptr"};
  static bool done;
  if (done) return;
  done = true;
  LLVMParseCommandLineOptions(2, options, NULL);
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

static LLVMTargetMachineRef machine_of(codegen_gpu_target target) {
  nvptx_prepare();
  LLVMTargetRef found;
  char *message = NULL;
  if (LLVMGetTargetFromTriple(triple, &found, &message)) ICE("target", "%s", message);
  return LLVMCreateTargetMachine(found, triple, codegen_gpu_target_name(target),
                                 gpu_target_of(target)->ptx, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                 LLVMCodeModelDefault);
}

llvm_module gpu_module_new(const char *name) {
  llvm_module m = llvm_module_new(name, 3, PROCESSOR_HOST);
  LLVMDisposeTargetMachine(m.machine);
  m.machine = machine_of(GPU_SM_80);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m.machine);
  LLVMSetModuleDataLayout(m.module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(m.module, triple);
  return m;
}

// ---- bodies ----

typedef enum body_kind { INTRINSIC, ASSEMBLY, MEMORY_START, ADDRESS, WGMMA } body_kind;

typedef struct body_row {
  body_kind kind;
  const char *text;         // the intrinsic's name, or the instruction
  const char *constraints;  // ASSEMBLY
  const char *constants;    // INTRINSIC: "before|after" the arguments: i32 numbers; ""
  // INTRINSIC, 1: by its pointer argument; WGMMA: registers of its sums
  int overload;
} body_row;

#define MMA_CONSTRAINTS "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"

static const body_row bodies[GPU_OP_COUNT] = {
    [GPU_THREAD_X] = {INTRINSIC, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, "", 0},
    [GPU_OPAQUE] = {ASSEMBLY, "mov.b32 \t$0, $1;", "=r,r", "", 0},
    [GPU_BLOCK_X] = {INTRINSIC, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, "", 0},
    [GPU_BLOCK_COUNT] = {INTRINSIC, "llvm.nvvm.read.ptx.sreg.nctaid.x", NULL, "", 0},
    [GPU_SHARED] = {MEMORY_START, "rec_shared_memory", NULL, "", 0},
    [GPU_BARRIER] = {INTRINSIC, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, "|0", 0},
    [GPU_WARP_BARRIER] = {INTRINSIC, "llvm.nvvm.bar.warp.sync", NULL, "|-1", 0},
    [GPU_SHFL_BFLY_F32] = {INTRINSIC, "llvm.nvvm.shfl.sync.bfly.f32", NULL, "-1|31", 0},
    [GPU_SHFL_IDX_F32] = {INTRINSIC, "llvm.nvvm.shfl.sync.idx.f32", NULL, "-1|31", 0},
    [GPU_SHFL_UP_F32] = {INTRINSIC, "llvm.nvvm.shfl.sync.up.f32", NULL, "-1|0", 0},
    [GPU_SHFL_DOWN_F32] = {INTRINSIC, "llvm.nvvm.shfl.sync.down.f32", NULL, "-1|31", 0},
    [GPU_EXP2_F32] = {ASSEMBLY, "ex2.approx.ftz.f32 $0, $1;", "=f,f", "", 0},
    [GPU_LOG2_F32] = {ASSEMBLY, "lg2.approx.f32 $0, $1;", "=f,f", "", 0},
    [GPU_RCP_F32] = {ASSEMBLY, "rcp.approx.ftz.f32 $0, $1;", "=f,f", "", 0},
    [GPU_SQRT_F32] = {ASSEMBLY, "sqrt.approx.f32 $0, $1;", "=f,f", "", 0},
    [GPU_RSQRT_F32] = {ASSEMBLY, "rsqrt.approx.f32 $0, $1;", "=f,f", "", 0},
    [GPU_DIV_F32] = {ASSEMBLY, "div.full.f32 $0, $1, $2;", "=f,f,f", "", 0},
    [GPU_CVT_BF16X2] = {ASSEMBLY, "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", "", 0},
    [GPU_CVT_F16X2] = {ASSEMBLY, "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", "", 0},
    [GPU_CVT_TF32] = {ASSEMBLY, "cvt.rna.tf32.f32 $0, $1;", "=r,f", "", 0},
    [GPU_MMA_M16N8K16_BF16] = {ASSEMBLY,
                               "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                               "{$0,$1,$2,$3},{$4,$5,$6,$7},{$8,$9},{$10,$11,$12,$13};",
                               MMA_CONSTRAINTS, "", 0},
    [GPU_MMA_M16N8K16_F16] = {ASSEMBLY,
                              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                              "{$0,$1,$2,$3},{$4,$5,$6,$7},{$8,$9},{$10,$11,$12,$13};",
                              MMA_CONSTRAINTS, "", 0},
    [GPU_MMA_M16N8K8_TF32] = {ASSEMBLY,
                              "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                              "{$0,$1,$2,$3},{$4,$5,$6,$7},{$8,$9},{$10,$11,$12,$13};",
                              MMA_CONSTRAINTS, "", 0},
    [GPU_LDMATRIX_X4] = {INTRINSIC, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16", NULL, "", 1},
    [GPU_LDMATRIX_X4_TRANS] = {INTRINSIC, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16", NULL,
                               "", 1},
    [GPU_LDMATRIX_X2] = {INTRINSIC, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16", NULL, "", 1},
    [GPU_LDMATRIX_X2_TRANS] = {INTRINSIC, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16", NULL,
                               "", 1},
    [GPU_CP_ASYNC16] = {INTRINSIC, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, "", 0},
    [GPU_CP_ASYNC4] = {INTRINSIC, "llvm.nvvm.cp.async.ca.shared.global.4.s", NULL, "", 0},
    [GPU_CP_ASYNC_COMMIT] = {INTRINSIC, "llvm.nvvm.cp.async.commit.group", NULL, "", 0},
    [GPU_CP_ASYNC_WAIT_0] = {INTRINSIC, "llvm.nvvm.cp.async.wait.group", NULL, "|0", 0},
    [GPU_CP_ASYNC_WAIT_1] = {INTRINSIC, "llvm.nvvm.cp.async.wait.group", NULL, "|1", 0},
    [GPU_SHARED_ADDRESS] = {ADDRESS, "", NULL, "", 0},
    [GPU_FENCE_ASYNC] = {ASSEMBLY, "fence.proxy.async.shared::cta;", "~{memory}", "", 0},
    [GPU_WGMMA_COMMIT] = {ASSEMBLY, "wgmma.commit_group.sync.aligned;", "~{memory}", "", 0},
#define WGMMA_BODIES(n)                                                                     \
  [GPU_WGMMA_FENCE_N##n] = {WGMMA, "wgmma.fence.sync.aligned;", "", "", n / 2},             \
  [GPU_WGMMA_WAIT_N##n] = {WGMMA, "wgmma.wait_group.sync.aligned 0;", "", "", n / 2},       \
  [GPU_WGMMA_N##n##_BF16] = {WGMMA, "m64n" #n "k16.f32.bf16.bf16", "l,l,n,n,n", "", n / 2}, \
  [GPU_WGMMA_N##n##_F16] = {WGMMA, "m64n" #n "k16.f32.f16.f16", "l,l,n,n,n", "", n / 2},    \
  [GPU_WGMMA_REGISTERS_N##n##                                                               \
      _BF16] = {WGMMA, "m64n" #n "k16.f32.bf16.bf16", "r,r,r,r,l,n,n", "", n / 2},          \
  [GPU_WGMMA_REGISTERS_N##n##                                                               \
      _F16] = {WGMMA, "m64n" #n "k16.f32.f16.f16", "r,r,r,r,l,n,n", "", n / 2}
    WGMMA_BODIES(8),
    WGMMA_BODIES(16),
    WGMMA_BODIES(32),
    WGMMA_BODIES(64),
#undef WGMMA_BODIES
};

typedef struct body {
  LLVMModuleRef module;
  LLVMContextRef context;
  LLVMBuilderRef b;
  LLVMValueRef args[GPU_MOST_ARGUMENTS];
  unsigned count;
} body;

static void push_number_argument(body *x, const char *text) {
  if (!*text || *text == '|') return;
  long number = 0;
  sscanf(text, "%ld", &number);
  x->args[x->count++] =
      LLVMConstInt(LLVMInt32TypeInContext(x->context), (unsigned long long)number, 1);
}

static LLVMValueRef intrinsic_body(body *x, const body_row *row, LLVMValueRef function) {
  unsigned id = LLVMLookupIntrinsicID(row->text, strlen(row->text));
  if (!id) ICE("target", "LLVM has no intrinsic %s", row->text);
  const char *after = strchr(row->constants, '|');
  push_number_argument(x, row->constants);
  unsigned own = LLVMCountParams(function);
  LLVMGetParams(function, x->args + x->count);
  x->count += own;
  if (after) push_number_argument(x, after + 1);
  LLVMTypeRef overload = row->overload == 1 ? LLVMTypeOf(x->args[0]) : NULL;
  size_t overloads = row->overload ? 1 : 0;
  LLVMValueRef callee = LLVMGetIntrinsicDeclaration(x->module, id, &overload, overloads);
  LLVMTypeRef type = LLVMIntrinsicGetType(x->context, id, &overload, overloads);
  return LLVMBuildCall2(x->b, type, callee, x->args, x->count, "");
}

static void flag_call(const body *x, LLVMValueRef call, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(x->context, kind, 0));
}

// What is not pure in an operation is so in its instruction: the call keeps the attributes. Pure
// instructions touch no memory, so that loads before and behind them may become one.
static LLVMValueRef call_assembly(body *x, LLVMValueRef function, const char *instruction,
                                  const char *constraints, bool effects) {
  LLVMTypeRef type = LLVMGlobalGetValueType(function);
  LLVMValueRef text = LLVMGetInlineAsm(type, instruction, strlen(instruction), constraints,
                                       strlen(constraints), effects, 0, LLVMInlineAsmDialectATT, 0);
  x->count = LLVMCountParams(function);
  LLVMGetParams(function, x->args);
  LLVMValueRef call = LLVMBuildCall2(x->b, type, text, x->args, x->count, "");
  flag_call(x, call, "nounwind"), flag_call(x, call, "willreturn");
  flag_call(x, call, effects ? "convergent" : "memory");
  return call;
}

enum { WGMMA_TEXT = 1024 };

static void append_asm_text(char text[WGMMA_TEXT], const char *more) {
  strncat(text, more, WGMMA_TEXT - 1 - strlen(text));
}

static void append_places(char text[WGMMA_TEXT], int first, int count) {
  for (int i = 0; i < count; i++) {
    char place[16];
    snprintf(place, sizeof place, "%s$%d", i ? "," : "", first + i);
    append_asm_text(text, place);
  }
}

// Sums go in and out in the same registers. A scale of what is there before is a predicate; it is
// always 1.
static LLVMValueRef wgmma_body(body *x, const body_row *row, LLVMValueRef function) {
  char text[WGMMA_TEXT] = "", constraints[WGMMA_TEXT] = "";
  int sums = row->overload, next = 2 * sums;
  for (int i = 0; i < sums; i++) append_asm_text(constraints, i ? ",=f" : "=f");
  for (int i = 0; i < sums; i++) {
    char tied[16];
    snprintf(tied, sizeof tied, ",%d", i);
    append_asm_text(constraints, tied);
  }
  if (!*row->constraints) {
    append_asm_text(text, row->text);
  } else {
    bool registers = row->constraints[0] == 'r';
    append_asm_text(text, "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.");
    append_asm_text(text, row->text);
    append_asm_text(text, " {");
    append_places(text, 0, sums);
    append_asm_text(text, registers ? "}, {" : "}, ");
    append_places(text, next, registers ? 4 : 1);
    next += registers ? 4 : 1;
    append_asm_text(text, registers ? "}, " : ", ");
    append_places(text, next, 1);
    append_asm_text(text, ", p, ");
    append_places(text, next + 1, 1);
    append_asm_text(text, ", 1, ");
    append_places(text, next + 2, registers ? 1 : 2);
    append_asm_text(text, "; }");
    append_asm_text(constraints, ",");
    append_asm_text(constraints, row->constraints);
  }
  append_asm_text(constraints, ",~{memory}");
  return call_assembly(x, function, text, constraints, true);
}

// Shared memory begins at 0 of its window.
static LLVMValueRef address_body(body *x, LLVMValueRef function) {
  return LLVMBuildPtrToInt(x->b, LLVMGetParam(function, 0), LLVMInt32TypeInContext(x->context), "");
}

static LLVMValueRef memory_start(body *x, const body_row *row) {
  LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(x->context), 0);
  LLVMValueRef memory = LLVMAddGlobalInAddressSpace(x->module, bytes, row->text, GPU_SHARED_MEMORY);
  LLVMSetLinkage(memory, LLVMExternalLinkage);
  LLVMSetAlignment(memory, 128);
  return memory;
}

static void give_body(LLVMModuleRef module, gpu_op op) {
  LLVMValueRef function = gpu_op_function(module, op, false);
  if (!function) return;
  const body_row *row = &bodies[op];
  if (!row->text) ICE("target", "rec.%s has no NVPTX body", gpu_ops[op].name);
  body x = {.module = module, .context = LLVMGetModuleContext(module)};
  x.b = LLVMCreateBuilderInContext(x.context);
  LLVMPositionBuilderAtEnd(x.b, LLVMAppendBasicBlockInContext(x.context, function, ""));
  LLVMValueRef result =
      row->kind == INTRINSIC ? intrinsic_body(&x, row, function)
      : row->kind == ASSEMBLY
          ? call_assembly(&x, function, row->text, row->constraints, gpu_ops[op].kind != GPU_PURE)
      : row->kind == WGMMA   ? wgmma_body(&x, row, function)
      : row->kind == ADDRESS ? address_body(&x, function)
                             : memory_start(&x, row);
  if (gpu_result_count(&gpu_ops[op]))
    LLVMBuildRet(x.b, result);
  else
    LLVMBuildRetVoid(x.b);
  LLVMDisposeBuilder(x.b);
  LLVMSetLinkage(function, LLVMInternalLinkage);
  llvm_flag(function, "alwaysinline");
}

// ---- passes and text ----

// Loops over registers are unrolled (their metadata asks for it) so that arrays become registers;
// others stay.
static const char passes[] =
    "always-inline,globaldce,"
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg),"
    "function(loop(loop-rotate,loop-unroll-full),sroa,early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg,infer-alignment)";

void gpu_optimise(const llvm_module *m) { run_llvm_passes(m, passes); }

void gpu_assemble(const llvm_module *m) {
  run_llvm_passes(m, "function(load-store-vectorizer,loop-mssa(licm))");
}

// A loop that the assembler shall not unroll either.
static bool is_accumulators_loop(LLVMValueRef advice) {
  LLVMValueRef parts[3], word[1];
  unsigned length;
  if (LLVMGetMDNodeNumOperands(advice) != 3) return false;
  LLVMGetMDNodeOperands(advice, parts);
  if (!LLVMIsAMDNode(parts[2]) || LLVMGetMDNodeNumOperands(parts[2]) != 1) return false;
  LLVMGetMDNodeOperands(parts[2], word);
  const char *text = LLVMGetMDString(word[0], &length);
  return text && length == strlen(gpu_accumulators_loop) &&
         memcmp(text, gpu_accumulators_loop, length) == 0;
}

// What kept LLVM from unrolling loops would keep the assembler from it, too.
static void forget_advice(LLVMModuleRef module) {
  unsigned kind = LLVMGetMDKindIDInContext(LLVMGetModuleContext(module), "llvm.loop", 9);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block;
         block = LLVMGetNextBasicBlock(block)) {
      LLVMValueRef end = LLVMGetBasicBlockTerminator(block), advice = LLVMGetMetadata(end, kind);
      if (advice && !is_accumulators_loop(advice)) LLVMSetMetadata(end, kind, NULL);
    }
  }
}

// Without lines that are comments alone.
static const char *ptx_without_comments(arena *a, LLVMMemoryBufferRef buffer) {
  const char *from = LLVMGetBufferStart(buffer), *end = from + LLVMGetBufferSize(buffer);
  char *text = arena_alloc(a, LLVMGetBufferSize(buffer) + 1), *to = text;
  while (from < end) {
    const char *next = memchr(from, '\n', (size_t)(end - from)), *word = from;
    next = next ? next + 1 : end;
    while (word < next && (*word == ' ' || *word == '\t')) word++;
    if (next - word < 2 || word[0] != '/' || word[1] != '/') {
      memcpy(to, from, (size_t)(next - from));
      to += next - from;
    }
    from = next;
  }
  *to = 0;
  return text;
}

void nvptx_give_bodies(llvm_module *m) {
  marks_erase(m->module);
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++) give_body(m->module, op);
  llvm_verify(m);
  gpu_optimise(m);
  forget_advice(m->module);
}

// Products of warpgroups know places in shared memory by patterns of 1024 bytes.
static void align_for_groups(LLVMModuleRef module) {
  LLVMValueRef memory = LLVMGetNamedGlobal(module, bodies[GPU_SHARED].text);
  if (memory) LLVMSetAlignment(memory, 1024);
}

// The text begins with .version and .target, a line each.
const char *nvptx_text_for(arena *a, const char *text, codegen_gpu_target target) {
  const char *rest = strstr(text, "\n.address_size");
  int version = atoi(gpu_target_of(target)->ptx + strlen("+ptx"));
  if (!rest) ICE("target", "PTX without .address_size");
  const char *head = arena_printf(a, ".version %d.%d\n.target %s", version / 10, version % 10,
                                  codegen_gpu_target_name(target));
  size_t before = (size_t)(strstr(text, ".version") - text), length = strlen(head);
  char *own = arena_alloc(a, before + length + strlen(rest) + 1);
  memcpy(own, text, before);
  memcpy(own + before, head, length);
  strcpy(own + before + length, rest);
  return own;
}

static const char *ptx_of_module(arena *a, LLVMModuleRef module, codegen_gpu_target target) {
  LLVMTargetMachineRef machine = machine_of(target);
  LLVMMemoryBufferRef buffer = NULL;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &buffer))
    ICE("target", "LLVM: %s", message);
  const char *text = ptx_without_comments(a, buffer);
  LLVMDisposeMemoryBuffer(buffer);
  LLVMDisposeTargetMachine(machine);
  return text;
}

const char *nvptx_emit(arena *a, const llvm_module *with_bodies, codegen_gpu_target target) {
  codegen_gpu_target written = gpu_target_of(target)->text_of;
  bool groups = codegen_gpu_class(target) == CLASS_WARPGROUPS &&
                !nvptx_same_text(with_bodies, target, GPU_SM_80);
  keep_room(with_bodies, target);
  if (groups) align_for_groups(with_bodies->module);
  const char *text = ptx_of_module(a, with_bodies->module, written);
  return written == target ? text : nvptx_text_for(a, text, target);
}

const char *nvptx_plain_text(arena *a, llvm_module *m) {
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++) give_body(m->module, op);
  run_llvm_passes(m, "always-inline,globaldce");
  forget_advice(m->module);
  return ptx_of_module(a, m->module, GPU_SM_80);
}

llvm_module module_clone(const llvm_module *m) {
  return (llvm_module){
      .context = m->context, .module = LLVMCloneModule(m->module), .machine = m->machine};
}

const char *nvptx_text(arena *a, const llvm_module *m, codegen_gpu_target target) {
  llvm_module copy = module_clone(m);
  nvptx_give_bodies(&copy);
  const char *text = nvptx_emit(a, &copy, target);
  LLVMDisposeModule(copy.module);
  return text;
}
