/* From kernels, tables and entry points to one object: the only door into this folder.
 *
 *   {ssd_forward, ..} x {v2, v3, v4}  ->  ssd_forward_v2, ssd_forward_v3, ssd_forward_v4, ..
 */
#include <string.h>
#include <time.h>

#include "../base/ice.h"
#include "host.h"

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned clones_of(const codegen_options *options) {
  return options->clones ? options->clones : (1u << CLONE_COUNT) - 1;
}

static void grow(codegen_bytes *to, codegen_bytes from) {
  if (from.constant > to->constant) to->constant = from.constant;
  if (from.per_instance > to->per_instance) to->per_instance = from.per_instance;
}

codegen_kernel codegen_describe(arena *a, const kernel *k, codegen_options options) {
  codegen_kernel described = host_describe(a, k);
  for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++) {
    if (!(clones_of(&options) >> clone & 1)) continue;
    described.symbols[clone] = arena_printf(a, "%s%s", k->symbol, clone_targets[clone].suffix);
    grow(&described.scratch, host_scratch(a, k, clone, options.f64));
  }
  return described;
}

/* ---- tables and entry points ---- */

static LLVMValueRef symbol_named(llvm_module *m, const char *name) {
  LLVMValueRef found = LLVMGetNamedFunction(m->module, name);
  if (!found) found = LLVMGetNamedGlobal(m->module, name);
  if (found) return found;
  found = LLVMAddGlobal(m->module, LLVMInt8TypeInContext(m->context), name);
  LLVMSetVisibility(found, LLVMHiddenVisibility);
  return found;
}

/* A packed struct of byte runs and addresses. */
static LLVMValueRef blob_value(arena *a, llvm_module *m, const codegen_blob *blob) {
  LLVMValueRef *fields = ARENA_ARRAY(a, LLVMValueRef, 2 * blob->address_count + 1);
  int count = 0;
  int64_t at = 0;
  const char *bytes = blob->bytes;
  for (int i = 0; i <= blob->address_count; i++) {
    int64_t end = i < blob->address_count ? blob->addresses[i].offset : blob->size;
    if (end < at || end > blob->size)
      ICE("codegen", "addresses of %s are not in order", blob->symbol);
    if (end > at) {
      fields[count++] = LLVMConstStringInContext2(m->context, bytes + at, (size_t)(end - at), 1);
    }
    if (i == blob->address_count) break;
    fields[count++] = symbol_named(m, blob->addresses[i].symbol);
    at = end + 8;
  }
  return LLVMConstStructInContext(m->context, fields, (unsigned)count, 1);
}

/* Blobs may name each other: all are declared as bytes first and replaced by their definitions. */
static void add_blob(arena *a, llvm_module *m, const codegen_blob *blob) {
  LLVMValueRef value = blob_value(a, m, blob);
  LLVMValueRef declared = LLVMGetNamedGlobal(m->module, blob->symbol);
  LLVMValueRef defined = LLVMAddGlobal(m->module, LLVMTypeOf(value), declared ? "" : blob->symbol);
  if (declared) {
    LLVMReplaceAllUsesWith(declared, defined);
    LLVMDeleteGlobal(declared);
    LLVMSetValueName2(defined, blob->symbol, strlen(blob->symbol));
  }
  LLVMSetInitializer(defined, value);
  LLVMSetGlobalConstant(defined, 1);
  LLVMSetAlignment(defined, 64);
  LLVMSetVisibility(defined, blob->exported ? LLVMDefaultVisibility : LLVMHiddenVisibility);
}

static void add_thunk(llvm_module *m, const codegen_thunk *thunk) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0),
              i32 = LLVMInt32TypeInContext(m->context);
  LLVMTypeRef pointers[] = {pointer, pointer, pointer};
  LLVMTypeRef callee_type = LLVMFunctionType(i32, pointers, 3, 0);
  LLVMValueRef callee = LLVMGetNamedFunction(m->module, thunk->callee);
  if (!callee) {
    callee = LLVMAddFunction(m->module, thunk->callee, callee_type);
    LLVMSetVisibility(callee, LLVMHiddenVisibility);
  }
  LLVMValueRef f = llvm_function(m, thunk->symbol, LLVMFunctionType(i32, pointers, 2, 0), CLONE_V2);
  LLVMSetVisibility(f, LLVMDefaultVisibility);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->context, f, "entry"));
  LLVMValueRef args[] = {symbol_named(m, thunk->data), LLVMGetParam(f, 0), LLVMGetParam(f, 1)};
  LLVMBuildRet(b, LLVMBuildCall2(b, callee_type, callee, args, 3, ""));
  LLVMDisposeBuilder(b);
}

/* ---- the object ---- */

static void lower_kernels(arena *a, llvm_module *m, codegen_object *object, codegen_input input,
                          codegen_options options) {
  for (int i = 0; i < input.kernel_count; i++) {
    codegen_kernel described = host_describe(a, input.kernels[i]);
    for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++) {
      if (!(clones_of(&options) >> clone & 1)) continue;
      emitter e = emitter_new(a, m, clone, options.f64);
      described.symbols[clone] =
          arena_printf(a, "%s%s", input.kernels[i]->symbol, clone_targets[clone].suffix);
      grow(&described.scratch, host_lower(&e, &described, described.symbols[clone]));
      emitter_free(&e);
    }
    vec_push(a, &object->kernels, described);
  }
}

static void count_instructions(arena *a, llvm_module *m, codegen_object *object) {
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    size_t length;
    codegen_function_size size = {.symbol = arena_strdup(a, LLVMGetValueName2(f, &length))};
    size.instructions = llvm_instruction_count(f);
    vec_push(a, &object->functions, size);
  }
}

codegen_object *codegen_compile(arena *a, codegen_input input, codegen_options options) {
  codegen_object *object = ARENA_NEW(a, codegen_object);
  double start = seconds();
  llvm_module m = llvm_module_new("rec", options.level);
  lower_kernels(a, &m, object, input, options);
  for (int i = 0; i < input.blob_count; i++) add_blob(a, &m, &input.blobs[i]);
  for (int i = 0; i < input.thunk_count; i++) add_thunk(&m, &input.thunks[i]);
  count_instructions(a, &m, object);
  llvm_verify(&m);
  if (options.text) object->llvm = llvm_text(a, &m);
  double built = seconds();
  llvm_optimise(&m, options.level);
  double optimised = seconds();
  if (options.text) object->assembly = llvm_assembly(a, &m);
  object->bytes = llvm_object(a, &m, &object->size);
  object->build_seconds = built - start;
  object->passes_seconds = optimised - built;
  object->emit_seconds = seconds() - optimised;
  llvm_module_free(&m);
  return object;
}
