// LLVM module, emission to memory, lld in the process: a function is emitted, linked, loaded and
// called.
#include <dlfcn.h>

#include "compiler/base/arena.h"
#include "compiler/emit/link.h"
#include "compiler/emit/llvm.h"
#include "tests/recurrence/load.h"
#include "tests/unit/unit.h"

// exported int NAME(int x) { return x + callee(x) } with a callee from libm or an undefined one
static const unsigned char *make_object(arena *a, const char *callee, size_t *size) {
  llvm_module m = llvm_module_new("test", 2, PROCESSOR_HOST);
  LLVMTypeRef real = LLVMDoubleTypeInContext(m.context);
  LLVMTypeRef type = LLVMFunctionType(real, &real, 1, 0);
  LLVMValueRef outside = LLVMAddFunction(m.module, callee, type);
  LLVMValueRef f = llvm_function(&m, "test_call", type, CLONE_V2);
  LLVMSetVisibility(f, LLVMProtectedVisibility);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m.context);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m.context, f, "entry"));
  LLVMValueRef x = LLVMGetParam(f, 0);
  LLVMBuildRet(b, LLVMBuildFAdd(b, x, LLVMBuildCall2(b, type, outside, &x, 1, ""), ""));
  LLVMDisposeBuilder(b);
  assert_int_equal(llvm_instruction_count(f), 3);
  llvm_verify(&m);
  llvm_optimise(&m, 2);
  const unsigned char *bytes = llvm_object(a, &m, size);
  llvm_module_free(&m);
  return bytes;
}

TEST(linked_library_runs) {
  arena *a = arena_new();
  for (int round = 0; round < 2; round++) {  // lld can be called again
    link_object object = {.name = "test.o"};
    object.bytes = make_object(a, "cbrt", &object.size);
    void *library = load_objects(a, &object, 1);
    double (*call)(double);
    *(void **)&call = dlsym(library, "test_call");
    assert_non_null(call);
    assert_true(call(27.0) == 30.0);
    dlclose(library);
  }
  arena_free(a);
}

TEST(undefined_symbols_are_an_error) {
  arena *a = arena_new();
  link_object object = {.name = "test.o"};
  object.bytes = make_object(a, "no_such_function", &object.size);
  const char *error =
      link_shared_library(a, &object, 1, "libtest.so", "/tmp/codegen_llvm_test_none.so");
  assert_non_null(error);
  assert_non_null(strstr(error, "no_such_function"));
  arena_free(a);
}
