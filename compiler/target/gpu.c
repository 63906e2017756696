// Kernels for GPUs in one module, and its image for each target: PTX, or an object for the
// executor.
//
//   {ssd_forward, ..} x {sm_80, sm_90a}   ->   one module of abstract operations   ->   two texts, or one that serves both
#include "compiler/target/images.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/base/ice.h"
#include "compiler/base/processors.h"
#include "compiler/emit/lines.h"
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/target.h"

bool codegen_is_lowered(const kernel *const *kernels, int index) {
  for (int i = 0; i < index; i++)
    if (strcmp(kernels[i]->symbol, kernels[index]->symbol) == 0) return true;
  return false;
}

static int barriers_of(LLVMValueRef function) {
  int count = 0;
  llvm_each_instruction(i, function) count += llvm_calls(i, "rec.barrier");
  return count;
}

void codegen_count_functions(arena *a, const llvm_module *m, codegen_function_sizes *sizes) {
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    size_t length;
    codegen_function_size size = {.symbol = arena_strdup(a, LLVMGetValueName2(f, &length))};
    size.instructions = llvm_instruction_count(f);
    size.barriers = barriers_of(f);
    vec_push(a, sizes, size);
  }
}

static int most_shared_bytes(const codegen_gpu_object *object, codegen_gpu_target target) {
  int most = 0;
  vec_each(const codegen_gpu_kernel, k, object->kernels) {
    if (!codegen_gpu_is_of_class(target, k->base.kernel->gpu.device_class)) continue;
    if (k->shared_bytes > most) most = k->shared_bytes;
    if (k->batched_shared_bytes > most) most = k->batched_shared_bytes;
  }
  return most;
}

// A text that is there already and serves this target, too. Products by warpgroups are kernels of
// their own. NULL: there is none.
static const char *text_of_twin(const llvm_module *m, const codegen_gpu_object *object,
                                codegen_gpu_target target) {
  vec_each(const codegen_gpu_image, made, object->images)
    if (made->text && nvptx_same_text(m, made->target, target)) return made->text;
  return NULL;
}

// The images of a module in the order in which they are made.
typedef struct image_order {
  llvm_module *m;
  // of PTX, made when the first target needs it: `m` itself, unless the executor takes that
  llvm_module with_bodies;
  int numbers[GPU_TARGET_COUNT], count, at;
} image_order;

// A text takes the module it is made of. A copy is made only where the module is needed again: a
// copy of many kernels is large.
static const char *text_for(arena *a, image_order *order, codegen_gpu_target target,
                            codegen_gpu_options options) {
  if (!order->with_bodies.module) {
    order->with_bodies = options.targets >> GPU_SIMT & 1 ? module_clone(order->m) : *order->m;
    nvptx_give_bodies(&order->with_bodies);
  }
  if (order->at == order->count - 1) return nvptx_emit(a, &order->with_bodies, target);
  llvm_module copy = module_clone(&order->with_bodies);
  const char *text = nvptx_emit(a, &copy, target);
  LLVMDisposeModule(copy.module);
  return text;
}

static void make_image(arena *a, image_order *order, codegen_gpu_options options,
                       codegen_gpu_object *object) {
  int number = order->numbers[order->at];
  codegen_gpu_target target = object->images.items[number].target;
  codegen_gpu_image image = {.target = target,
                             .device_class = codegen_gpu_class(target),
                             .shared_bytes = most_shared_bytes(object, target)};
  if (target != GPU_SIMT) {
    const char *twin = text_of_twin(order->m, object, target);
    image.text = twin ? nvptx_text_for(a, twin, target) : text_for(a, order, target, options);
  } else {
    image.object = simt_object(a, order->m, options.level, options.text ? &image.text : NULL);
  }
  object->images.items[number] = image;
  if (options.made) options.made(options.context, number, &image);
}

// Products by warpgroups take the assembler longest: a text with them comes first, then that of
// sm_80 for all that it serves.
static int turn_of(const llvm_module *m, codegen_gpu_target target) {
  if (nvptx_same_text(m, GPU_SM_80, target)) return 1;
  return codegen_gpu_class(target) == CLASS_WARPGROUPS ? 0 : 2;
}

void gpu_make_images(arena *a, llvm_module *m, codegen_gpu_options options,
                     codegen_gpu_object *object) {
  image_order order = {.m = m};
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1)
      vec_push(a, &object->images, ((codegen_gpu_image){.target = target}));
  for (int turn = 0; turn < 3; turn++)
    for (int i = 0; i < object->images.count; i++)
      if (turn_of(m, object->images.items[i].target) == turn) order.numbers[order.count++] = i;
  for (; order.at < order.count; order.at++) {
    double start = pass_clock();
    make_image(a, &order, options, object);
    pass_ran(&code_stage, CODE_EMIT, pass_clock() - start, 0);
  }
  if (order.with_bodies.module && order.with_bodies.module != m->module)
    LLVMDisposeModule(order.with_bodies.module);
}

static const char *module_hash(arena *a, llvm_module *m) {
  const char *text = llvm_text(a, m);
  return arena_printf(a, "%016llx", (unsigned long long)XXH64(text, strlen(text), 0));
}

static bool any_has_delays(const kernel *const *kernels, int count) {
  for (int i = 0; i < count; i++)
    if (gpu_has_delays(kernels[i]->recurrence)) return true;
  return false;
}

static bool any_begins(const kernel *const *kernels, int count) {
  for (int i = 0; i < count; i++)
    if (body_begins(&kernels[i]->recurrence->body)) return true;
  return false;
}

static bool keeps_maxima(const kernel *k) {
  bool keeps = false;
  for (int i = 0; i < k->program->results.count; i++)
    keeps |= k->program->results.items[i].place.relative != 0;
  return keeps;
}

static void add_fold(arena *a, llvm_module *m, const kernel *const *kernels, int count) {
  bool any = false, maxima = false;
  for (int i = 0; i < count; i++) {
    if (!kernel_summarises(kernels[i]->kind)) continue;
    any = true;
    maxima |= keeps_maxima(kernels[i]);
  }
  if (any) gpu_fold_kernel(a, m, maxima);
}

codegen_gpu_object *codegen_gpu_compile(arena *a, const kernel *const *kernels, int count,
                                        codegen_gpu_options options) {
  if (options.dtype == NUMBER_F64) ICE("target", "GPU kernels compute in f32");
  codegen_gpu_object *object = ARENA_NEW(a, codegen_gpu_object);
  processors_take(TURN_LONG);
  double start = pass_clock();
  llvm_module m = gpu_module_new("rec_gpu");
  if (options.lines && !options.counted) lines_begin(&m, options.lines, LINES_ALONE);
  marks counted = {.memory = a, .files = options.counted};
  if (options.counted) m.marks = &counted;
  for (int i = 0; i < count; i++) {
    vec_push(a, &object->kernels, codegen_gpu_describe(a, kernels[i], options));
    const codegen_gpu_kernel *k = &object->kernels.items[i];
    if (!k->symbol || codegen_is_lowered(kernels, i)) continue;
    arena *plans = arena_new();
    emitter e = emitter_new(plans, &m, CLONE_GPU, options.dtype);
    counted.kernel = k->symbol;
    gpu_lower_kernel(&e, k);
    emitter_free(&e);
    arena_free(plans);
  }
  counted.kernel = "rec_gpu_sum";
  gpu_sum_kernel(a, &m);
  if (any_has_delays(kernels, count)) gpu_delay_kernel(a, &m);
  if (any_begins(kernels, count)) gpu_spread_kernel(a, &m);
  if (options.summary) add_fold(a, &m, kernels, count);
  gpu_contract(&m);
  codegen_count_functions(a, &m, &object->functions);
  lines_end(&m);
  llvm_verify(&m);
  if (options.text) object->hash = module_hash(a, &m);
  pass_ran(&code_stage, CODE_LOWER, pass_clock() - start, 1);
  gpu_make_images(a, &m, options, object);
  llvm_module_free(&m);
  processors_give();
  return object;
}
