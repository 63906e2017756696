// Host code: from kernels, tables and entry points to objects, one for each clone. GPU code is in
// gpu.c, ptx.c and executor.c.
//
//   {ssd_forward, ..} x {v2, v3, v4}  ->  ssd_forward_v2, ssd_forward_v3, ssd_forward_v4, ..      aarch64: ssd_forward_neon, ..
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/base/processors.h"
#include "compiler/emit/lines.h"
#include "compiler/kernel/host/kernel.h"
#include "compiler/target/images.h"
#include "compiler/target/target.h"

// ---- tables and entry points ----

static LLVMValueRef symbol_named(llvm_module *m, const char *name) {
  LLVMValueRef found = LLVMGetNamedFunction(m->module, name);
  if (!found) found = LLVMGetNamedGlobal(m->module, name);
  if (found) return found;
  found = LLVMAddGlobal(m->module, LLVMInt8TypeInContext(m->context), name);
  LLVMSetVisibility(found, LLVMHiddenVisibility);
  return found;
}

// A packed struct of byte runs and addresses.
static LLVMValueRef blob_value(arena *a, llvm_module *m, const codegen_blob *blob) {
  LLVMValueRef *fields = ARENA_ARRAY(a, LLVMValueRef, 2 * blob->address_count + 1);
  int count = 0;
  int64_t at = 0;
  const char *bytes = blob->bytes;
  for (int i = 0; i <= blob->address_count; i++) {
    int64_t end = i < blob->address_count ? blob->addresses[i].offset : blob->size;
    if (end < at || end > blob->size)
      ICE("target", "addresses of %s are not in order", blob->symbol);
    if (end > at)
      fields[count++] = LLVMConstStringInContext2(m->context, bytes + at, (size_t)(end - at), 1);
    if (i == blob->address_count) break;
    fields[count++] = symbol_named(m, blob->addresses[i].symbol);
    at = end + 8;
  }
  return LLVMConstStructInContext(m->context, fields, (unsigned)count, 1);
}

// Blobs may name each other: all are declared as bytes first and replaced by their definitions.
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

enum { THUNK_WORDS = 4 };  // arguments at most

static void add_thunk(llvm_module *m, const codegen_thunk *thunk, codegen_clone clone) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0),
              word = LLVMInt64TypeInContext(m->context);
  LLVMTypeRef argument = thunk->foreign ? word : pointer,
              result = thunk->foreign ? word : LLVMInt32TypeInContext(m->context);
  unsigned count = (unsigned)thunk->arguments;
  LLVMTypeRef types[1 + THUNK_WORDS] = {pointer, argument, argument, argument, argument};
  LLVMTypeRef callee_type = LLVMFunctionType(result, types, 1 + count, 0);
  LLVMValueRef callee = LLVMGetNamedFunction(m->module, thunk->callee);
  if (!callee) {
    callee = LLVMAddFunction(m->module, thunk->callee, callee_type);
    LLVMSetVisibility(callee, LLVMHiddenVisibility);
  }
  LLVMValueRef f =
      llvm_function(m, thunk->symbol, LLVMFunctionType(result, types + 1, count, 0), clone);
  LLVMSetVisibility(f, LLVMDefaultVisibility);
  if (thunk->foreign) llvm_may_unwind(f);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->context, f, "entry"));
  LLVMValueRef args[1 + THUNK_WORDS] = {symbol_named(m, thunk->data)};
  for (unsigned i = 0; i < count; i++) args[1 + i] = LLVMGetParam(f, i);
  LLVMBuildRet(b, LLVMBuildCall2(b, callee_type, callee, args, 1 + count, ""));
  LLVMDisposeBuilder(b);
}

// ---- modules ----

static const char *code_pass_name(int pass) {
  static const char *const names[CODE_PASSES] = {
      [CODE_LOWER] = "lower", [CODE_OPTIMISE] = "optimise", [CODE_EMIT] = "emit"};
  return names[pass];
}

const pass_stage code_stage = {"code", CODE_PASSES, code_pass_name, NULL};

// One module per clone, so that clones are optimised and emitted side by side. The first clone of
// the processor always has one, for entry points, which every machine runs. How the work is split
// does not depend on the machine: equal programs give equal libraries everywhere.
typedef struct part {
  arena *memory;
  llvm_module module;
  codegen_clone clone;
  codegen_options options;
  const unsigned char *bytes;
  size_t size;
  const char *assembly;
  double optimise_seconds, emit_seconds;
} part;

static void lower_kernels(arena *a, part *parts, int count, codegen_object *object,
                          codegen_input input, codegen_options options) {
  for (int i = 0; i < input.kernel_count; i++) {
    vec_push(a, &object->kernels, codegen_describe(a, input.kernels[i], options));
    if (codegen_is_lowered(input.kernels, i)) continue;
    const host_plan *made =
        host_plan_of(a, input.kernels[i], codegen_clones(&options), options.dtype);
    for (int p = 0; p < count; p++) {
      if (!(codegen_clones(&options) >> parts[p].clone & 1)) continue;
      arena *scratch = arena_new();
      emitter e = emitter_new(scratch, &parts[p].module, parts[p].clone, options.dtype);
      host_lower(&e, made);
      emitter_free(&e);
      arena_free(scratch);
    }
  }
}

static void compile_module(part *p) {
  double start = pass_clock();
  llvm_optimise(&p->module, p->options.level);
  double optimised = pass_clock();
  if (p->options.text) p->assembly = llvm_assembly(p->memory, &p->module);
  p->bytes = llvm_object(p->memory, &p->module, &p->size);
  p->optimise_seconds = optimised - start;
  p->emit_seconds = pass_clock() - optimised;
}

typedef struct module_queue {
  part *parts;
  int count;
  atomic_int next;
} module_queue;

// The widest clone takes longest: it comes first.
static void *compile_modules(void *argument) {
  module_queue *queue = argument;
  int taken;
  while ((taken = atomic_fetch_add(&queue->next, 1)) < queue->count) {
    processors_take(TURN_SHORT);
    compile_module(&queue->parts[queue->count - 1 - taken]);
    processors_give();
  }
  return NULL;
}

static void compile_side_by_side(part *parts, int count) {
  module_queue queue = {.parts = parts, .count = count};
  pthread_t helpers[CLONE_COUNT];
  int wanted = processors_count() - 1, started = 0;
  while (started < wanted && started < count - 1 &&
         pthread_create(&helpers[started], NULL, compile_modules, &queue) == 0) {
    started++;
  }
  compile_modules(&queue);
  for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
}

static const char *joined_texts(arena *a, const char *first, const char *second) {
  return first ? arena_printf(a, "%s\n%s", first, second) : arena_strdup(a, second);
}

// Takes what was compiled out of a part, which ends here.
static void collect_module(arena *a, codegen_object *object, part *p) {
  unsigned char *bytes = arena_alloc(a, p->size);
  memcpy(bytes, p->bytes, p->size);
  vec_push(a, &object->parts, (link_object){codegen_clone_name(p->clone), bytes, p->size});
  if (p->assembly) object->assembly = joined_texts(a, object->assembly, p->assembly);
  pass_ran(&code_stage, CODE_OPTIMISE, p->optimise_seconds, 0);
  pass_ran(&code_stage, CODE_EMIT, p->emit_seconds, 0);
  llvm_module_free(&p->module);
  arena_free(p->memory);
}

link_object codegen_data(arena *a, const codegen_blob *blobs, int count,
                         codegen_processor processor) {
  llvm_module m = llvm_module_new("data", 0, processor);
  for (int i = 0; i < count; i++) add_blob(a, &m, &blobs[i]);
  llvm_verify(&m);
  link_object object = {.name = "data"};
  object.bytes = llvm_object(a, &m, &object.size);
  llvm_module_free(&m);
  return object;
}

codegen_object *codegen_compile(arena *a, codegen_input input, codegen_options options) {
  codegen_object *object = ARENA_NEW(a, codegen_object);
  codegen_processor processor = object->processor = codegen_processor_of(options.clones);
  part parts[CLONE_COUNT];
  int count = 0;
  unsigned clones = codegen_clones(&options) | 1u << processor_rows[processor].first;
  processors_take(TURN_SHORT);
  double start = pass_clock();
  for (codegen_clone clone = 0; clone < CLONE_COUNT; clone++) {
    if (!(clones >> clone & 1)) continue;
    part *p = &parts[count++];
    *p = (part){.memory = arena_new(), .clone = clone, .options = options};
    p->module = llvm_module_new(codegen_clone_name(clone), options.level, processor);
    if (options.lines) lines_begin(&p->module, options.lines, LINES_AND_SECTIONS);
  }
  lower_kernels(a, parts, count, object, input, options);
  llvm_module *first = &parts[0].module;
  for (int i = 0; i < input.blob_count; i++) add_blob(a, first, &input.blobs[i]);
  for (int i = 0; i < input.thunk_count; i++) add_thunk(first, &input.thunks[i], parts[0].clone);
  for (int i = 0; i < count; i++) {
    codegen_count_functions(a, &parts[i].module, &object->functions);
    lines_end(&parts[i].module);
    llvm_verify(&parts[i].module);
    if (options.text) object->llvm = joined_texts(a, object->llvm, llvm_text(a, &parts[i].module));
  }
  pass_ran(&code_stage, CODE_LOWER, pass_clock() - start, count);
  processors_give();
  compile_side_by_side(parts, count);
  for (int i = 0; i < count; i++) collect_module(a, object, &parts[i]);
  return object;
}

// ---- beside the code for GPUs ----

struct codegen_job {
  arena *a, *memory;  // `memory`: the thread's own, until it ends
  codegen_input input;
  codegen_options options;
  codegen_object *object;
  pass_log log;
  pthread_t thread;
  bool started;
};

static void *run_job(void *argument) {
  codegen_job *job = argument;
  pass_log *before = pass_log_use(&job->log);
  job->object = codegen_compile(job->memory, job->input, job->options);
  pass_log_use(before);
  return NULL;
}

codegen_job *codegen_begin(arena *a, codegen_input input, codegen_options options) {
  codegen_job *job = ARENA_NEW(a, codegen_job);
  *job = (codegen_job){.a = a, .memory = arena_new(), .input = input, .options = options};
  job->log.memory = job->memory;
  llvm_prepare();
  nvptx_prepare();
  job->started = pthread_create(&job->thread, NULL, run_job, job) == 0;
  return job;
}

codegen_object *codegen_end(codegen_job *job) {
  if (job->started)
    pthread_join(job->thread, NULL);
  else
    run_job(job);
  arena_adopt(job->a, job->memory);
  pass_log_add(&job->log);
  return job->object;
}
