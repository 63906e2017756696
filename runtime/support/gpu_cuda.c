// The device CUDA: kernels are PTX in the library, loaded by the driver once for each context.
//
//   images (PTX for sm_80, .., cubins)  --the best that the driver takes-->  module of the caller's context
//     -->  cuLaunchKernel on its stream
//
// Nothing waits for the device. Calls may be captured into a graph: NAME_sizes loads module and
// kernels before. A call without that loads them in the relaxed mode, in which capturing allows it.
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/support/cuda_driver.h"
#include "runtime/support/error.h"
#include "runtime/support/gpu.h"

enum { LOAD_LOG_BYTES = 256 };

// A kernel, ready to be launched.
typedef struct loaded_kernel {
  const char *name;
  cuda_function function;
  struct loaded_kernel *next;
} loaded_kernel;

// What the library has loaded into one context.
typedef struct loaded_module {
  unsigned long long context;  // the context's number: its address may be used again
  cuda_module module;
  int device_class;  // the class of its kernels
  int multiprocessors;
  loaded_kernel *kernels;
  struct loaded_module *next;
} loaded_module;

// The lock is held while a module or kernel is loaded: a second thread would load the same.
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static loaded_module *modules;

// The driver with a current context.
typedef struct entered {
  const cuda_driver *d;
  cuda_context context;
  int pushed;
} entered;

static rec_status enter_device(const call *c, entered *e) {
  rec_status status = cuda_driver_open(&e->d);
  if (status == REC_OK) status = cuda_enter(e->d, c->device_number, &e->context, &e->pushed);
  return status == REC_OK ? REC_OK : call_fail(c, status, "%s", rec_error());
}

// Leaves the context. Returns the status, with a message of the call.
static rec_status leave_device(const call *c, const entered *e, rec_status status) {
  cuda_leave(e->d, e->pushed);
  return status == REC_OK ? REC_OK : call_fail(c, status, "%s", rec_error());
}

// ---- the code for a device -------------------------------------------------------------------

static rec_status read_attribute(const cuda_driver *d, int attribute, cuda_device device,
                                 int *value) {
  return cuda_check(d, d->device_attribute(value, attribute, device), "cuDeviceGetAttribute", NULL);
}

typedef struct device_limits {
  int capability;    // 80: compute capability 8.0
  int shared_bytes;  // that a thread block may have
} device_limits;

static rec_status read_limits(const cuda_driver *d, cuda_device device, device_limits *limits) {
  int major = 0, minor = 0;
  rec_status status = read_attribute(d, CUDA_COMPUTE_MAJOR, device, &major);
  if (status == REC_OK) status = read_attribute(d, CUDA_COMPUTE_MINOR, device, &minor);
  if (status == REC_OK)
    status = read_attribute(d, CUDA_SHARED_BYTES, device, &limits->shared_bytes);
  limits->capability = 10 * major + minor;
  return status;
}

static bool is_cubin(const rec_gpu_image *image) {
  return image->devices == REC_GPU_CUBIN || image->devices == REC_GPU_EXACT_CUBIN;
}

static bool image_is_for(const rec_gpu_image *image, int capability) {
  switch (image->devices) {
    case REC_GPU_LATER: return image->capability <= capability;
    case REC_GPU_CUBIN:
      return image->capability <= capability && image->capability / 10 == capability / 10;
    default: return image->capability == capability;
  }
}

static bool image_fits(const rec_gpu_image *image, device_limits limits) {
  return image_is_for(image, limits.capability) && image->shared_bytes <= limits.shared_bytes;
}

// Is the image better than the other? One for a higher capability is; of two for the same, a cubin.
static bool is_better(const rec_gpu_image *image, const rec_gpu_image *other) {
  if (image->capability != other->capability) return image->capability > other->capability;
  return is_cubin(image) && !is_cubin(other);
}

// The best image that is worse than `before`, or the best one if `before` is NULL. It must fit the
// device, and its kernels the shared memory. NULL: there is none.
static const rec_gpu_image *next_image(const rec_gpu_images *images, device_limits limits,
                                       const rec_gpu_image *before) {
  const rec_gpu_image *best = NULL;
  for (int64_t i = 0; i < images->count; i++) {
    const rec_gpu_image *image = &images->items[i];
    if (!image_fits(image, limits) || (before && !is_better(before, image))) continue;
    if (!best || is_better(image, best)) best = image;
  }
  return best;
}

static rec_status refuse_device(const rec_gpu_images *images, device_limits limits) {
  const rec_gpu_image *large =
      next_image(images, (device_limits){limits.capability, INT_MAX}, NULL);
  if (large)
    return rec_fail(REC_ERROR_DEVICE,
                    "expected a GPU with %d bytes of shared memory for a thread block, found %d; "
                    "this library was compiled for no less",
                    large->shared_bytes, limits.shared_bytes);
  int least = images->items[0].capability, capability = limits.capability;
  for (int64_t i = 0; i < images->count; i++)
    if (images->items[i].capability < least) least = images->items[i].capability;
  return rec_fail(REC_ERROR_DEVICE,
                  "expected a GPU of compute capability %d.%d or above, found %d.%d; this library "
                  "was compiled for no other",
                  least / 10, least % 10, capability / 10, capability % 10);
}

static rec_status load_image(const cuda_driver *d, const rec_gpu_image *image,
                             cuda_module *module) {
  char log[LOAD_LOG_BYTES] = "";
  int options[] = {CUDA_LOAD_ERROR_LOG, CUDA_LOAD_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  int mode = CUDA_CAPTURE_RELAXED;
  d->capture_mode(&mode);
  rec_status status = cuda_check(d, d->module_load(module, image->code, 2, options, values),
                                 "cuModuleLoadDataEx", NULL);
  d->capture_mode(&mode);
  if (status == REC_OK || !log[0]) return status;
  for (char *c = log; *c; c++)
    if (*c == '\n') *c = ' ';
  char text[REC_ERROR_TEXT_MAX];
  snprintf(text, sizeof text, "%s", rec_error());
  return rec_fail(status, "%s; %.*s", log, (int)(sizeof text - sizeof log - 2), text);
}

// Adds the driver's message about one more image.
static void add_refusal(char *text, size_t size, const rec_gpu_image *image) {
  enum { MOST_OF_ONE = 140 };
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s for compute capability %d.%d: %.*s", used ? "; " : "",
           is_cubin(image) ? "cubin" : "PTX", image->capability / 10, image->capability % 10,
           MOST_OF_ONE, rec_error());
}

// Images in turn until the driver takes one: it refuses cubins of a newer ptxas, and PTX of a
// version that it does not know.
static rec_status load_first(const cuda_driver *d, const rec_gpu_images *images,
                             device_limits limits, loaded_module *loaded) {
  const rec_gpu_image *image = next_image(images, limits, NULL);
  char refusals[REC_ERROR_TEXT_MAX - 64] = "";
  rec_status status = REC_OK;
  if (!image) return refuse_device(images, limits);
  for (; image; image = next_image(images, limits, image)) {
    loaded->device_class = image->device_class;
    status = load_image(d, image, &loaded->module);
    if (status == REC_OK) return REC_OK;
    add_refusal(refusals, sizeof refusals, image);
  }
  return rec_fail(status, "%s", refusals);
}

static rec_status load_module(const cuda_driver *d, const rec_gpu_images *images,
                              cuda_device device, loaded_module *loaded) {
  device_limits limits = {0};
  rec_status status = read_limits(d, device, &limits);
  if (status == REC_OK)
    status = read_attribute(d, CUDA_MULTIPROCESSORS, device, &loaded->multiprocessors);
  return status == REC_OK ? load_first(d, images, limits, loaded) : status;
}

static rec_status find_module(const cuda_driver *d, const rec_gpu_images *images,
                              cuda_context context, loaded_module **found) {
  unsigned long long number = 0;
  rec_status status = cuda_check(d, d->context_number(context, &number), "cuCtxGetId", NULL);
  if (status != REC_OK) return status;
  for (*found = modules; *found; *found = (*found)->next)
    if ((*found)->context == number) return REC_OK;
  cuda_device device = 0;
  status = cuda_check(d, d->context_device(&device), "cuCtxGetDevice", NULL);
  if (status != REC_OK) return status;
  loaded_module *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return rec_fail(REC_ERROR_MEMORY, "no memory for a module");
  *fresh = (loaded_module){.context = number, .next = modules};
  status = load_module(d, images, device, fresh);
  if (status == REC_OK)
    *found = modules = fresh;
  else
    free(fresh);
  return status;
}

// Loads the kernel now, on drivers that load lazily. More than 48 KiB of shared memory must be
// asked for.
static rec_status make_ready(const cuda_driver *d, const char *name, int shared_bytes,
                             cuda_function function) {
  enum { WITHOUT_ASKING = 48 << 10 };
  int mode = CUDA_CAPTURE_RELAXED;
  rec_status status = REC_OK;
  d->capture_mode(&mode);
  if (d->function_load) status = cuda_check(d, d->function_load(function), "cuFuncLoad", name);
  d->capture_mode(&mode);
  if (status != REC_OK || shared_bytes <= WITHOUT_ASKING) return status;
  return cuda_check(d, d->function_attribute(function, CUDA_FUNCTION_SHARED_BYTES, shared_bytes),
                    "cuFuncSetAttribute", name);
}

static rec_status find_kernel(const cuda_driver *d, loaded_module *module, const char *name,
                              int shared_bytes, cuda_function *function) {
  for (const loaded_kernel *k = module->kernels; k; k = k->next) {
    *function = k->function;
    if (strcmp(k->name, name) == 0) return REC_OK;
  }
  rec_status status = cuda_check(d, d->module_function(function, module->module, name),
                                 "cuModuleGetFunction", name);
  if (status == REC_OK) status = make_ready(d, name, shared_bytes, *function);
  if (status != REC_OK) return status;
  loaded_kernel *fresh = malloc(sizeof *fresh);
  if (!fresh) return rec_fail(REC_ERROR_MEMORY, "no memory for a kernel");
  *fresh = (loaded_kernel){name, *function, module->kernels};
  module->kernels = fresh;
  return REC_OK;
}

// Finds, or loads, the module of the context and a kernel. A call may be captured once everything
// is loaded.
static rec_status find_loaded_kernel(const call *c, const entered *e, const char *name,
                                     int shared_bytes, loaded_module **module,
                                     cuda_function *function) {
  pthread_mutex_lock(&modules_lock);
  rec_status status = find_module(e->d, c->table->gpu_images, e->context, module);
  if (status == REC_OK && name) status = find_kernel(e->d, *module, name, shared_bytes, function);
  pthread_mutex_unlock(&modules_lock);
  return status;
}

// ---- the device ------------------------------------------------------------------------------

static rec_status launch_entered(const call *c, const entered *e, const gpu_launch *launch) {
  loaded_module *module = NULL;
  cuda_function function = NULL;
  int most = launch->kernel ? gpu_most_shared_bytes(launch->kernel) : launch->shared_bytes;
  rec_status status = find_loaded_kernel(c, e, launch->name, most, &module, &function);
  if (status != REC_OK) return status;
  void *parameters[] = {(void *)launch->parameter};
  return cuda_check(
      e->d,
      e->d->launch(function, (unsigned)launch->blocks, 1, 1, (unsigned)launch->threads, 1, 1,
                   (unsigned)launch->shared_bytes, c->launch->stream, parameters, NULL),
      "cuLaunchKernel", launch->name);
}

static rec_status launch_on_cuda(const call *c, const gpu_launch *launch) {
  entered e;
  rec_status status = enter_device(c, &e);
  return status == REC_OK ? leave_device(c, &e, launch_entered(c, &e, launch)) : status;
}

// A call without steps: copies `from`, or zeros without one.
static rec_status fill_on_cuda(const call *c, void *to, const void *from, int64_t bytes) {
  entered e;
  rec_status status = enter_device(c, &e);
  if (status != REC_OK) return status;
  cuda_pointer at = (cuda_pointer)(uintptr_t)to, source = (cuda_pointer)(uintptr_t)from;
  cuda_stream stream = c->launch->stream;
  status =
      from
          ? cuda_check(e.d, e.d->copy(at, source, (size_t)bytes, stream), "cuMemcpyDtoDAsync", NULL)
          : cuda_check(e.d, e.d->clear(at, 0, (size_t)bytes, stream), "cuMemsetD8Async", NULL);
  return leave_device(c, &e, status);
}

static rec_status clear_on_cuda(const call *c, void *at, int64_t bytes) {
  return fill_on_cuda(c, at, NULL, bytes);
}

static rec_status copy_on_cuda(const call *c, void *to, const void *from, int64_t bytes) {
  return to == from ? REC_OK : fill_on_cuda(c, to, from, bytes);
}

// Loads every kernel of the recurrence, so that no call has to.
static rec_status load_on_cuda(const call *c, const gpu_device *device) {
  entered e;
  loaded_module *module;
  cuda_function function;
  rec_status status = enter_device(c, &e);
  if (status != REC_OK) return status;
  for (int kind = 0; kind < REC_KERNEL_COUNT && status == REC_OK; kind++) {
    const rec_table_gpu_kernel *k = &device->code->kernels[kind];
    if (!k->symbol_at) continue;
    status = find_loaded_kernel(c, &e, table_text(c->table, k->symbol_at), gpu_most_shared_bytes(k),
                                &module, &function);
  }
  const char *others = c->table->inner ? "rec_gpu_rows" : "rec_gpu_sum";
  if (status == REC_OK) status = find_loaded_kernel(c, &e, others, 0, &module, &function);
  if (status == REC_OK && c->table->begin_count)
    status = find_loaded_kernel(c, &e, "rec_gpu_spread", 0, &module, &function);
  const rec_table_gpu_kernel *kernels = device->code->kernels;
  bool folds = (kernels[REC_KERNEL_SUMMARY].symbol_at && !c->table->summaries[0].why_at) ||
               (kernels[REC_KERNEL_SUMMARY_BACK].symbol_at && !c->table->summaries[1].why_at);
  if (status == REC_OK && folds)
    status = find_loaded_kernel(c, &e, "rec_gpu_fold", 0, &module, &function);
  return leave_device(c, &e, status);
}

// How many blocks to start depends on the device alone, so that NAME_sizes can tell the scratch of
// all of them.
rec_status gpu_cuda_device(const call *c, gpu_device *device) {
  *device = (gpu_device){
      .load = load_on_cuda, .launch = launch_on_cuda, .clear = clear_on_cuda, .copy = copy_on_cuda};
  if (!c->table->gpu_images)
    return call_fail(c, REC_ERROR_DEVICE,
                     "expected a library with PTX, found none; compile it with --target sm_80");
  entered e;
  loaded_module *module;
  rec_status status = enter_device(c, &e);
  if (status == REC_OK)
    status = leave_device(c, &e, find_loaded_kernel(c, &e, NULL, 0, &module, NULL));
  if (status != REC_OK) return status;
  device->blocks = (int64_t)GPU_COST_BLOCKS_EACH * module->multiprocessors;
  device->multiprocessors = module->multiprocessors;
  device->code = &c->table->gpu[module->device_class];
  return REC_OK;
}
