/* The device CUDA: kernels are PTX in the library, loaded by the driver once for each context.
 *
 *   images (PTX for sm_80, .., cubins) --the best for the device--> module of the caller's context --> cuLaunchKernel on its stream
 *
 * Nothing waits for the device. Work may be captured into a graph: a module is loaded in the relaxed mode, in which
 * capturing allows it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "error.h"
#include "gpu.h"

/* A kernel may have so many blocks on each multiprocessor at one time, about. */
enum { CUDA_BLOCKS_EACH = 4, LOAD_LOG_BYTES = 256 };

/* What the library has loaded into one context. */
typedef struct loaded_module {
  unsigned long long context; /* its number: an address may be used again */
  cuda_module module;
  struct loaded_module *next;
} loaded_module;

static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static loaded_module *modules;

/* A message with the entry point in front. */
static rec_status about_call(const call *c, rec_status status) {
  if (status == REC_OK) return REC_OK;
  char text[REC_ERROR_TEXT_MAX];
  snprintf(text, sizeof text, "%s", rec_error());
  return rec_fail(status, "%s_%s: %s", call_name(c), c->entry, text);
}

/* ---- the code for a device ------------------------------------------------------------------- */

static rec_status read_attribute(const cuda_driver *d, int attribute, cuda_device device,
                                 int *value) {
  return cuda_check(d, d->device_attribute(value, attribute, device), "cuDeviceGetAttribute", NULL);
}

static rec_status compute_capability(const cuda_driver *d, cuda_device device, int *capability) {
  int major = 0, minor = 0;
  rec_status status = read_attribute(d, CUDA_COMPUTE_MAJOR, device, &major);
  if (status == REC_OK) status = read_attribute(d, CUDA_COMPUTE_MINOR, device, &minor);
  *capability = 10 * major + minor;
  return status;
}

static bool is_cubin(const rec_gpu_image *image) {
  return image->devices == REC_GPU_CUBIN || image->devices == REC_GPU_EXACT_CUBIN;
}

static bool is_for(const rec_gpu_image *image, int capability) {
  switch (image->devices) {
    case REC_GPU_LATER: return image->capability <= capability;
    case REC_GPU_CUBIN:
      return image->capability <= capability && image->capability / 10 == capability / 10;
    default: return image->capability == capability;
  }
}

/* The image for the highest capability that is not above the device's, as a cubin if there is one; `ptx`: no cubin. */
static const rec_gpu_image *best_image(const rec_gpu_images *images, int capability, bool ptx) {
  const rec_gpu_image *best = NULL;
  for (int64_t i = 0; i < images->count; i++) {
    const rec_gpu_image *image = &images->items[i];
    if (!is_for(image, capability) || (ptx && is_cubin(image))) continue;
    bool better = !best || image->capability > best->capability ||
                  (image->capability == best->capability && is_cubin(image));
    if (better) best = image;
  }
  return best;
}

static rec_status refuse_device(const rec_gpu_images *images, int capability) {
  int least = images->items[0].capability;
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
  rec_status status =
      cuda_check(d, d->module_load(module, image->code, 2, options, values), "cuModuleLoadDataEx", NULL);
  d->capture_mode(&mode);
  if (status == REC_OK || !log[0]) return status;
  for (char *c = log; *c; c++)
    if (*c == '\n') *c = ' ';
  char text[REC_ERROR_TEXT_MAX];
  snprintf(text, sizeof text, "%s", rec_error());
  return rec_fail(status, "%.*s; %s", (int)(sizeof text - sizeof log - 2), text, log);
}

/* The lock is held while a module is loaded: a second thread would load the same. */
static rec_status find_module(const cuda_driver *d, const rec_gpu_images *images,
                              cuda_context context, cuda_device device, cuda_module *module) {
  unsigned long long number = 0;
  rec_status status = cuda_check(d, d->context_number(context, &number), "cuCtxGetId", NULL);
  if (status != REC_OK) return status;
  for (const loaded_module *m = modules; m; m = m->next) {
    *module = m->module;
    if (m->context == number) return REC_OK;
  }
  int capability = 0;
  status = compute_capability(d, device, &capability);
  if (status != REC_OK) return status;
  const rec_gpu_image *image = best_image(images, capability, false);
  if (!image) return refuse_device(images, capability);
  loaded_module *fresh = malloc(sizeof *fresh);
  if (!fresh) return rec_fail(REC_ERROR_MEMORY, "no memory for a module");
  status = load_image(d, image, module);
  /* a driver older than the cubin's ptxas refuses it */
  if (status != REC_OK && is_cubin(image))
    status = load_image(d, best_image(images, capability, true), module);
  if (status != REC_OK) {
    free(fresh);
    return status;
  }
  *fresh = (loaded_module){number, *module, modules};
  modules = fresh;
  return REC_OK;
}

/* More than 48 KiB of shared memory must be asked for. */
static rec_status allow_shared(const cuda_driver *d, cuda_device device, cuda_function function,
                               const gpu_launch *launch) {
  enum { WITHOUT_ASKING = 48 << 10 };
  int most = 0;
  if (launch->shared_bytes <= WITHOUT_ASKING) return REC_OK;
  rec_status status = read_attribute(d, CUDA_SHARED_BYTES, device, &most);
  if (status == REC_OK && launch->shared_bytes > most)
    return rec_fail(REC_ERROR_DEVICE,
                    "expected a GPU with %d bytes of shared memory for a block of %s, found %d",
                    launch->shared_bytes, launch->name, most);
  if (status != REC_OK) return status;
  return cuda_check(
      d, d->function_attribute(function, CUDA_FUNCTION_SHARED_BYTES, launch->shared_bytes),
      "cuFuncSetAttribute", launch->name);
}

/* ---- the device ------------------------------------------------------------------------------ */

static rec_status launch_entered(const call *c, const cuda_driver *d, cuda_context context,
                                 const gpu_launch *launch) {
  cuda_device device = 0;
  cuda_module module = NULL;
  cuda_function function = NULL;
  rec_status status = cuda_check(d, d->context_device(&device), "cuCtxGetDevice", NULL);
  if (status != REC_OK) return status;
  pthread_mutex_lock(&modules_lock);
  status = find_module(d, c->table->gpu_images, context, device, &module);
  pthread_mutex_unlock(&modules_lock);
  if (status == REC_OK)
    status = cuda_check(d, d->module_function(&function, module, launch->name),
                        "cuModuleGetFunction", launch->name);
  if (status == REC_OK) status = allow_shared(d, device, function, launch);
  if (status != REC_OK) return status;
  void *parameters[] = {(void *)launch->parameter};
  return cuda_check(d,
                    d->launch(function, (unsigned)launch->blocks, 1, 1, (unsigned)launch->threads,
                              1, 1, (unsigned)launch->shared_bytes, c->launch->stream, parameters,
                              NULL),
                    "cuLaunchKernel", launch->name);
}

static rec_status launch_on_cuda(const call *c, const gpu_launch *launch) {
  const cuda_driver *d;
  cuda_context context;
  int pushed;
  rec_status status = cuda_driver_open(&d);
  if (status == REC_OK) status = cuda_enter(d, c->device_number, &context, &pushed);
  if (status == REC_OK) {
    status = launch_entered(c, d, context, launch);
    cuda_leave(d, pushed);
  }
  return about_call(c, status);
}

/* A call without steps: copies `from`, or zeros without one. */
static rec_status fill_on_cuda(const call *c, void *to, const void *from, int64_t bytes) {
  const cuda_driver *d;
  cuda_context context;
  int pushed;
  rec_status status = cuda_driver_open(&d);
  if (status == REC_OK) status = cuda_enter(d, c->device_number, &context, &pushed);
  if (status == REC_OK) {
    cuda_pointer at = (cuda_pointer)(uintptr_t)to;
    cuda_stream stream = c->launch->stream;
    status = from ? cuda_check(d, d->copy(at, (cuda_pointer)(uintptr_t)from, (size_t)bytes, stream),
                               "cuMemcpyDtoDAsync", NULL)
                  : cuda_check(d, d->clear(at, 0, (size_t)bytes, stream), "cuMemsetD8Async", NULL);
    cuda_leave(d, pushed);
  }
  return about_call(c, status);
}

static rec_status clear_on_cuda(const call *c, void *at, int64_t bytes) {
  return fill_on_cuda(c, at, NULL, bytes);
}

static rec_status copy_on_cuda(const call *c, void *to, const void *from, int64_t bytes) {
  return to == from ? REC_OK : fill_on_cuda(c, to, from, bytes);
}

/* How many blocks to start depends on the device alone, so that NAME_sizes can tell the scratch of all of them. */
static rec_status count_blocks(const cuda_driver *d, int64_t *blocks) {
  cuda_device device = 0;
  int multiprocessors = 1;
  rec_status status = cuda_check(d, d->context_device(&device), "cuCtxGetDevice", NULL);
  if (status == REC_OK) status = read_attribute(d, CUDA_MULTIPROCESSORS, device, &multiprocessors);
  *blocks = (int64_t)CUDA_BLOCKS_EACH * multiprocessors;
  return status;
}

rec_status gpu_cuda_device(const call *c, gpu_device *device) {
  *device = (gpu_device){1, launch_on_cuda, clear_on_cuda, copy_on_cuda};
  if (!c->table->gpu_images)
    return rec_fail(REC_ERROR_DEVICE,
                    "%s_%s: expected a library with PTX, found none; compile it with --target sm_80",
                    call_name(c), c->entry);
  const cuda_driver *d;
  cuda_context context;
  int pushed;
  rec_status status = cuda_driver_open(&d);
  if (status == REC_OK) status = cuda_enter(d, c->device_number, &context, &pushed);
  if (status == REC_OK) {
    status = count_blocks(d, &device->blocks);
    cuda_leave(d, pushed);
  }
  return about_call(c, status);
}
