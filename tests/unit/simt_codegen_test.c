// GPU code in LLVM IR, compiled for the executor, linked with it and run; with faults that are
// found. 1 second.
#include <dlfcn.h>

#include <llvm-c/IRReader.h>

#include "compiler/abi/simt.h"
#include "compiler/base/arena.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"
#include "tests/recurrence/load.h"
#include "tests/unit/unit.h"

enum { SEEDS = 6 };

typedef void kernel_function(const void *);
typedef simt_answer run_function(const simt_launch *, int64_t, int64_t, simt_counts *, char *);

// A library with the kernel @k.
typedef struct loaded {
  arena *a;
  void *library;
  kernel_function *kernel;
  run_function *run;
  const char *text;
} loaded;

static void parse_into(llvm_module *m, const char *text) {
  char *message = NULL;
  LLVMMemoryBufferRef buffer =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");
  LLVMModuleRef parsed = NULL;
  if (LLVMParseIRInContext(m->context, buffer, &parsed, &message)) fail_msg("%s", message);
  LLVMSetModuleDataLayout(parsed, LLVMGetModuleDataLayout(m->module));
  LLVMSetTarget(parsed, LLVMGetTarget(m->module));
  LLVMDisposeModule(m->module);
  m->module = parsed;
}

// What is hidden in a library, told outside.
static link_object entry_object(arena *a) {
  llvm_module m = llvm_module_new("entry", 1, PROCESSOR_HOST);
  parse_into(&m,
             "declare hidden void @k(ptr)\n"
             "declare hidden i32 @simt_run(ptr, i64, i64, ptr, ptr)\n"
             "define ptr @the_kernel() {\n  ret ptr @k\n}\n"
             "define ptr @the_runner() {\n  ret ptr @simt_run\n}\n");
  link_object object = {.name = "entry"};
  object.bytes = llvm_object(a, &m, &object.size);
  llvm_module_free(&m);
  return object;
}

static loaded load(const char *text) {
  loaded l = {.a = arena_new()};
  llvm_module m = gpu_module_new("test");
  parse_into(&m, text);
  link_object objects[] = {simt_object(l.a, &m, 3, &l.text), entry_object(l.a),
                           embedded_object("simt"), embedded_object("support")};
  llvm_module_free(&m);
  l.library = load_objects(l.a, objects, 4);
  void *(*get)(void);
  *(void **)&get = dlsym(l.library, "the_kernel");
  *(void **)&l.kernel = get();
  *(void **)&get = dlsym(l.library, "the_runner");
  *(void **)&l.run = get();
  return l;
}

static void unload(loaded *l) {
  dlclose(l->library);
  arena_free(l->a);
}

static simt_answer run(const loaded *l, const void *parameters, int threads, uint64_t seed,
                       char *message) {
  simt_launch launch = {.kernel = "k",
                        .function = l->kernel,
                        .parameters = parameters,
                        .blocks = 1,
                        .threads = threads,
                        .shared_bytes = 1024,
                        .seed = seed};
  return l->run(&launch, 0, 1, NULL, message);
}

// ---- a barrier -------------------------------------------------------------------------------

static const char exchange[] =
    "declare i32 @rec.thread_x() memory(none)\n"
    "declare ptr addrspace(3) @rec.shared() memory(none)\n"
    "declare void @rec.barrier() convergent\n"
    "define ptx_kernel void @k(ptr byval([16 x i8]) align 8 \"nvvm.grid_constant\" %%p) {\n"
    "  %%in = load ptr addrspace(1), ptr %%p, align 8\n"
    "  %%second = getelementptr i8, ptr %%p, i64 8\n"
    "  %%out = load ptr addrspace(1), ptr %%second, align 8\n"
    "  %%t = call i32 @rec.thread_x()\n"
    "  %%i = zext i32 %%t to i64\n"
    "  %%from = getelementptr float, ptr addrspace(1) %%in, i64 %%i\n"
    "  %%x = load float, ptr addrspace(1) %%from, align 4\n"
    "  %%s = call ptr addrspace(3) @rec.shared()\n"
    "  %%mine = getelementptr float, ptr addrspace(3) %%s, i64 %%i\n"
    "  store float %%x, ptr addrspace(3) %%mine, align 4\n"
    "  %s\n"
    "  %%j = xor i64 %%i, 37\n"
    "  %%other = getelementptr float, ptr addrspace(3) %%s, i64 %%j\n"
    "  %%y = load float, ptr addrspace(3) %%other, align 4\n"
    "  %%to = getelementptr float, ptr addrspace(1) %%out, i64 %%i\n"
    "  store float %%y, ptr addrspace(1) %%to, align 4\n"
    "  ret void\n"
    "}\n";

typedef struct in_out {
  const void *in;
  float *out;
} in_out;

TEST(barriers_are_needed) {
  static float in[64], out[64];
  for (int i = 0; i < 64; i++) in[i] = (float)i;
  for (int missing = 0; missing < 2; missing++) {
    char text[4096], message[SIMT_MESSAGE] = "";
    snprintf(text, sizeof text, exchange, missing ? "" : "call void @rec.barrier()");
    loaded l = load(text);
    assert_non_null(strstr(l.text, "call void @simt_check_shared("));
    assert_non_null(strstr(l.text, "call void @simt_check_global("));
    assert_null(strstr(l.text, "byval"));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      simt_answer answer = run(&l, &(in_out){in, out}, 64, seed, message);
      if (missing) {
        assert_int_equal(answer, SIMT_FAULT);
        assert_non_null(strstr(message, "race: "));
        continue;
      }
      if (answer != SIMT_DONE) fail_msg("%s", message);
      for (int i = 0; i < 64; i++) assert_true(out[i] == (float)(i ^ 37));
    }
    unload(&l);
  }
}

// ---- swizzled shared memory, ldmatrix, a product ---------------------------------------------

// A 16 x 16 bf16 matrix goes through shared memory, with chunk c of row r at c xor (r / 4 mod 2).
// It is multiplied by the first 8 columns of the identity. `%s`: what the reader adds to its chunk.
static const char product[] =
    "declare i32 @rec.thread_x() memory(none)\n"
    "declare ptr addrspace(3) @rec.shared() memory(none)\n"
    "declare void @rec.warp_barrier() convergent\n"
    "declare {i32, i32, i32, i32} @rec.ldmatrix_x4(ptr addrspace(3)) convergent\n"
    "declare {float, float, float, float} @rec.mma_m16n8k16_bf16(i32, i32, i32, i32, i32, i32, "
    "float, float, float, float) convergent\n"
    "define ptx_kernel void @k(ptr byval([16 x i8]) align 8 \"nvvm.grid_constant\" %%p) {\n"
    "  %%in = load ptr addrspace(1), ptr %%p, align 8\n"
    "  %%second = getelementptr i8, ptr %%p, i64 8\n"
    "  %%out = load ptr addrspace(1), ptr %%second, align 8\n"
    "  %%l = call i32 @rec.thread_x()\n"
    "  %%s = call ptr addrspace(3) @rec.shared()\n"
    "  %%wrow = lshr i32 %%l, 1\n"
    "  %%wturn = lshr i32 %%wrow, 2\n"
    "  %%wturn1 = and i32 %%wturn, 1\n"
    "  %%wchunk = and i32 %%l, 1\n"
    "  %%wplace = xor i32 %%wchunk, %%wturn1\n"
    "  %%wrow2 = shl i32 %%wrow, 1\n"
    "  %%windex = add i32 %%wrow2, %%wplace\n"
    "  %%from = getelementptr <4 x i32>, ptr addrspace(1) %%in, i32 %%l\n"
    "  %%bits = load <4 x i32>, ptr addrspace(1) %%from, align 16\n"
    "  %%to = getelementptr <4 x i32>, ptr addrspace(3) %%s, i32 %%windex\n"
    "  store <4 x i32> %%bits, ptr addrspace(3) %%to, align 16\n"
    "  call void @rec.warp_barrier()\n"
    "  %%m = lshr i32 %%l, 3\n"
    "  %%below = and i32 %%m, 1\n"
    "  %%below8 = shl i32 %%below, 3\n"
    "  %%inside = and i32 %%l, 7\n"
    "  %%row = add i32 %%inside, %%below8\n"
    "  %%chunk = lshr i32 %%m, 1\n"
    "  %%turn = lshr i32 %%row, 2\n"
    "  %%turn1 = and i32 %%turn, %s\n"
    "  %%place = xor i32 %%chunk, %%turn1\n"
    "  %%row2 = shl i32 %%row, 1\n"
    "  %%index = add i32 %%row2, %%place\n"
    "  %%at = getelementptr <4 x i32>, ptr addrspace(3) %%s, i32 %%index\n"
    "  %%a = call {i32, i32, i32, i32} @rec.ldmatrix_x4(ptr addrspace(3) %%at)\n"
    "  %%a0 = extractvalue {i32, i32, i32, i32} %%a, 0\n"
    "  %%a1 = extractvalue {i32, i32, i32, i32} %%a, 1\n"
    "  %%a2 = extractvalue {i32, i32, i32, i32} %%a, 2\n"
    "  %%a3 = extractvalue {i32, i32, i32, i32} %%a, 3\n"
    "  %%column = lshr i32 %%l, 2\n"
    "  %%quarter = and i32 %%l, 3\n"
    "  %%k0 = shl i32 %%quarter, 1\n"
    "  %%k1 = or i32 %%k0, 1\n"
    "  %%is0 = icmp eq i32 %%k0, %%column\n"
    "  %%is1 = icmp eq i32 %%k1, %%column\n"
    "  %%b0 = select i1 %%is0, i32 16256, i32 0\n"
    "  %%b1 = select i1 %%is1, i32 1065353216, i32 0\n"
    "  %%b = or i32 %%b0, %%b1\n"
    "  %%d = call {float, float, float, float} @rec.mma_m16n8k16_bf16(i32 %%a0, i32 %%a1, i32 "
    "%%a2, i32 %%a3, i32 %%b, i32 0, float 0.0, float 0.0, float 0.0, float 0.0)\n"
    "  %%d0 = extractvalue {float, float, float, float} %%d, 0\n"
    "  %%d1 = extractvalue {float, float, float, float} %%d, 1\n"
    "  %%d2 = extractvalue {float, float, float, float} %%d, 2\n"
    "  %%d3 = extractvalue {float, float, float, float} %%d, 3\n"
    "  %%drow = shl i32 %%column, 3\n"
    "  %%o0 = add i32 %%drow, %%k0\n"
    "  %%o2 = add i32 %%o0, 64\n"
    "  %%t0 = getelementptr float, ptr addrspace(1) %%out, i32 %%o0\n"
    "  %%t1 = getelementptr float, ptr addrspace(1) %%t0, i32 1\n"
    "  %%t2 = getelementptr float, ptr addrspace(1) %%out, i32 %%o2\n"
    "  %%t3 = getelementptr float, ptr addrspace(1) %%t2, i32 1\n"
    "  store float %%d0, ptr addrspace(1) %%t0, align 4\n"
    "  store float %%d1, ptr addrspace(1) %%t1, align 4\n"
    "  store float %%d2, ptr addrspace(1) %%t2, align 4\n"
    "  store float %%d3, ptr addrspace(1) %%t3, align 4\n"
    "  ret void\n"
    "}\n";

TEST(wrong_swizzles_give_wrong_numbers) {
  static _Alignas(16) uint16_t in[16][16];
  static float out[16][8];
  for (int i = 0; i < 256; i++) in[i / 16][i % 16] = (uint16_t)(0x3f80 + i);  // 1 + i / 128
  for (int wrong = 0; wrong < 2; wrong++) {
    char text[8192], message[SIMT_MESSAGE] = "";
    snprintf(text, sizeof text, product, wrong ? "0" : "1");
    loaded l = load(text);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      if (run(&l, &(in_out){in, &out[0][0]}, 32, seed, message) != SIMT_DONE)
        fail_msg("%s", message);
      bool right = true;
      for (int i = 0; i < 128; i++) {
        uint32_t bits = (uint32_t)in[i / 8][i % 8] << 16;
        float expected;
        memcpy(&expected, &bits, sizeof expected);
        right &= out[i / 8][i % 8] == expected;
      }
      assert_int_equal(right, !wrong);
    }
    unload(&l);
  }
}

// ---- every operation -------------------------------------------------------------------------

// Linking refuses what the executor lacks. The kernel that calls each is not run.
TEST(the_executor_has_every_operation) {
  arena *a = arena_new();
  llvm_module m = gpu_module_new("all");
  emitter e = emitter_new(a, &m, CLONE_V2, NUMBER_F32);
  LLVMTypeRef global = LLVMPointerTypeInContext(m.context, GPU_GLOBAL);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m.context), &global, 1, 0);
  ir k = LLVMAddFunction(m.module, "k", type);
  LLVMSetFunctionCallConv(k, GPU_KERNEL_CONVENTION);
  emit_open(&e, k);
  for (gpu_op op = 0; op < GPU_OP_COUNT; op++) {
    ir args[GPU_MOST_ARGUMENTS];
    char letters[GPU_MOST_ARGUMENTS + 1];
    int count = gpu_letters(gpu_ops[op].arguments, letters);
    for (int i = 0; i < count; i++) args[i] = LLVMGetPoison(gpu_letter_type(m.context, letters[i]));
    ir result = gpu_call(&e, op, args, count);
    if (gpu_result_count(&gpu_ops[op])) LLVMBuildStore(e.b, result, LLVMGetParam(k, 0));
  }
  LLVMBuildRetVoid(e.b);
  emitter_free(&e);
  llvm_verify(&m);
  char *text = LLVMPrintModuleToString(m.module);
  llvm_module_free(&m);
  loaded l = load(text);
  LLVMDisposeMessage(text);
  unload(&l);
  arena_free(a);
}
