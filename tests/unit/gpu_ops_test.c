// Every abstract GPU operation has an NVPTX body that LLVM emits for every target and, where ptxas
// is at hand, that it assembles. 2 seconds with ptxas.
#include <unistd.h>

#include "compiler/base/arena.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"
#include "tests/unit/unit.h"

// A kernel that calls every operation with numbers of its own and stores what comes back.
static void call_all(emitter *e, int count_of_target) {
  LLVMTypeRef global = LLVMPointerTypeInContext(e->context, GPU_GLOBAL), type;
  type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &global, 1, 0);
  ir all = LLVMAddFunction(e->m->module, "all", type);
  LLVMSetFunctionCallConv(all, GPU_KERNEL_CONVENTION);
  emit_open(e, all);
  ir memory = LLVMGetParam(all, 0), shared = gpu_call(e, GPU_SHARED, NULL, 0);
  ir thread = gpu_call(e, GPU_THREAD_X, NULL, 0);
  int stored = 0;
  for (gpu_op op = 0; (int)op < count_of_target; op++) {
    const gpu_op_row *row = &gpu_ops[op];
    char letters[GPU_MOST_ARGUMENTS + 1];
    int count = gpu_letters(row->arguments, letters), results = gpu_result_count(row);
    ir args[GPU_MOST_ARGUMENTS];
    for (int i = 0; i < count; i++) {
      char letter = letters[i];
      args[i] = letter == 's'   ? shared
                : letter == 'g' ? memory
                : letter == 'i' ? thread
                : letter == 'n' ? LLVMConstInt(e->i32, 1, 0)
                : letter == 'l' ? LLVMBuildZExt(e->b, thread, e->i64, "")
                                : LLVMBuildUIToFP(e->b, thread, e->real, "");
    }
    ir result = gpu_call(e, op, args, count);
    for (int i = 0; i < results && row->result[0] != 's'; i++) {
      ir part = results > 1 ? LLVMBuildExtractValue(e->b, result, (unsigned)i, "") : result;
      LLVMBuildStore(e->b, part, element(e, e->i32, memory, integer(e, stored++)));
    }
  }
  LLVMBuildRetVoid(e->b);
}

static const char *text_for(arena *a, codegen_gpu_target target) {
  llvm_module m = gpu_module_new("ops");
  emitter e = emitter_new(a, &m, CLONE_V2, NUMBER_F32);
  call_all(&e, target == GPU_SM_90A ? GPU_OP_COUNT : GPU_FIRST_OF_HOPPER);
  emitter_free(&e);
  llvm_verify(&m);
  const char *text = nvptx_text(a, &m, target);
  llvm_module_free(&m);
  return text;
}

static int assemble(const char *text, const char *target) {
  char path[] = "/tmp/gpu_opsXXXXXX", command[256];
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
  close(file);
  // it remarks on products that nobody waits for
  snprintf(command, sizeof command,
           "said=$(ptxas -arch=%s -o /dev/null %s 2>&1) || { echo \"$said\"; exit 1; }", target,
           path);
  int status = system(command);
  unlink(path);
  return status;
}

TEST(every_operation_is_assembled) {
  static const char *const seen[] = {
      "bar.sync", "shfl.sync.bfly", "ex2.approx.ftz.f32",  "cvt.rn.bf16x2", "ldmatrix",
      "mma.sync", "cp.async.cg",    "cp.async.wait_group", "%ctaid.x"};
  static const char *const of_hopper[] = {"wgmma.fence", "m64n64k16.f32.bf16", "fence.proxy.async"};
  bool has_ptxas = system("ptxas --version > /dev/null 2>&1") == 0;
  if (!has_ptxas) print_message("ptxas is not here: the PTX is not assembled\n");
  for (codegen_gpu_target target = 0; target < GPU_SIMT; target++) {
    arena *a = arena_new();
    const char *text = text_for(a, target), *name = codegen_gpu_target_name(target);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
      if (!strstr(text, seen[i])) fail_msg("%s: no %s", name, seen[i]);
    for (size_t i = 0; i < sizeof of_hopper / sizeof *of_hopper; i++)
      assert_true((target == GPU_SM_90A) == (strstr(text, of_hopper[i]) != NULL));
    assert_null(strstr(text, "rec."));
    if (has_ptxas) assert_int_equal(assemble(text, name), 0);
    arena_free(a);
  }
}
