// Memory and launches, by the driver or in the process.
#include "runtime/train/model/gpu_place.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "runtime/cuda_memory.h"
#include "runtime/internal.h"

enum { BLOCKS_OF_EXECUTOR = 6, BLOCKS_OF_MULTIPROCESSOR = 8 };

// The code for the executor, as the build made it.
#define DECLARE(name, parameter)               \
  void rec_model_##name##_f32(const void *at); \
  void rec_model_##name##_bf16(const void *at);
MODEL_KERNELS(DECLARE)
#undef DECLARE

typedef struct model_code {
  const char *name;
  void (*function)(const void *);
} model_code;

static const model_code kernels[MODEL_KERNEL_COUNT][2] = {
#define ROW(name, parameter)                            \
  {{"rec_model_" #name "_f32", rec_model_##name##_f32}, \
   {"rec_model_" #name "_bf16", rec_model_##name##_bf16}},
    MODEL_KERNELS(ROW)
#undef ROW
};

extern const embedded_file embedded_model_kernels[];

static gpu_place *gpu_of_compute(const compute *c) { return (gpu_place *)(uintptr_t)c; }

static cuda_pointer gpu_address(const void *memory) { return (cuda_pointer)(uintptr_t)memory; }

// ---- memory -------------------------------------------------------------------------------------

static rec_status note_region(gpu_place *p, void *memory, int64_t bytes) {
  if (!rec_list_grow(&p->regions, &p->region_room, (size_t)p->region_count, 1, sizeof *p->regions))
    return rec_no_memory();
  p->regions[p->region_count++] = (simt_region){"memory of the model", memory, bytes, true};
  return REC_OK;
}

rec_status gpu_allocate(const compute *c, int64_t bytes, void **memory) {
  gpu_place *p = gpu_of_compute(c);
  *memory = NULL;
  if (bytes == 0) return REC_OK;
  if (p->driver) return rec_cuda_take(p->driver, NULL, bytes, memory);
  rec_status status = compute_host_f32.ops->allocate(&compute_host_f32, bytes, memory);
  if (!status) status = note_region(p, *memory, bytes);
  return status;
}

void gpu_release(const compute *c, void *memory) {
  gpu_place *p = gpu_of_compute(c);
  if (!memory) return;
  if (p->driver) {
    rec_cuda_give(p->driver, NULL, memory);
    return;
  }
  for (int i = 0; i < p->region_count; i++)
    if (p->regions[i].data == memory) p->regions[i--] = p->regions[--p->region_count];
  free(memory);
}

// By the driver, or in the process.
#define MOVE(name, parameters, call, word, here)               \
  rec_status gpu_##name parameters {                           \
    const cuda_driver *d = gpu_of_compute(c)->driver;          \
    if (bytes && d) return cuda_check(d, d->call, word, NULL); \
    if (bytes) here;                                           \
    return REC_OK;                                             \
  }
MOVE(upload, (const compute *c, void *to, const void *from, int64_t bytes),
     upload(gpu_address(to), from, (size_t)bytes), "cuMemcpyHtoD", memcpy(to, from, (size_t)bytes))
MOVE(download, (const compute *c, void *to, const void *from, int64_t bytes),
     download(to, gpu_address(from), (size_t)bytes), "cuMemcpyDtoH",
     memcpy(to, from, (size_t)bytes))
MOVE(copy, (const compute *c, void *to, const void *from, int64_t bytes),
     copy(gpu_address(to), gpu_address(from), (size_t)bytes, NULL), "cuMemcpyDtoDAsync",
     memcpy(to, from, (size_t)bytes))
MOVE(clear, (const compute *c, void *to, int64_t bytes),
     clear(gpu_address(to), 0, (size_t)bytes, NULL), "cuMemsetD8Async",
     memset(to, 0, (size_t)bytes))
#undef MOVE

void *gpu_here(const compute *c, int64_t bytes) {
  gpu_place *p = gpu_of_compute(c);
  if (bytes <= p->here_bytes) return p->here;
  free(p->here);
  p->here = malloc((size_t)bytes);
  p->here_bytes = p->here ? bytes : 0;
  if (!p->here) rec_no_memory();
  return p->here;
}

// ---- kernels ------------------------------------------------------------------------------------

int64_t gpu_blocks(const compute *c, int64_t items) {
  const gpu_place *p = gpu_of_compute(c);
  return items < p->blocks ? items : p->blocks;
}

static rec_status run_here(const gpu_place *p, const model_code *code, int64_t blocks,
                           const void *parameter) {
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = {.kernel = code->name,
                        .function = code->function,
                        .parameters = parameter,
                        .blocks = blocks,
                        .threads = MODEL_THREADS,
                        .shared_bytes = MODEL_SHARED_BYTES,
                        .regions = p->regions,
                        .region_count = p->region_count};
  switch (simt_run(&launch, 0, blocks, NULL, message)) {
    case SIMT_DONE: return REC_OK;
    case SIMT_NO_MEMORY: return rec_no_memory();
    default: return rec_fail(REC_ERROR_INTERNAL, "%s: %s", code->name, message);
  }
}

static rec_status start_kernel(const compute *c, int kernel, bool narrow, int64_t items,
                               const void *parameter) {
  const gpu_place *p = gpu_of_compute(c);
  const model_code *code = &kernels[kernel][narrow];
  int64_t blocks = gpu_blocks(c, items);
  if (blocks <= 0) return REC_OK;
  if (!p->driver) return run_here(p, code, blocks, parameter);
  void *parameters[] = {(void *)(uintptr_t)parameter};
  return cuda_check(
      p->driver,
      p->driver->launch(p->functions[kernel][narrow], (unsigned)blocks, 1, 1, MODEL_THREADS, 1, 1,
                        MODEL_SHARED_BYTES, NULL, parameters, NULL),
      "cuLaunchKernel", code->name);
}

rec_status gpu_start(const compute *c, int kernel, int64_t items, const void *parameter) {
  return start_kernel(c, kernel, gpu_of_compute(c)->narrow, items, parameter);
}

rec_status gpu_start_f32(const compute *c, int kernel, int64_t items, const void *parameter) {
  return start_kernel(c, kernel, false, items, parameter);
}

// ---- opening ------------------------------------------------------------------------------------

static rec_status check_capability(const cuda_driver *d, cuda_device device) {
  int major = 0, minor = 0;
  rec_status status = cuda_check(d, d->device_attribute(&major, CUDA_COMPUTE_MAJOR, device),
                                 "cuDeviceGetAttribute", NULL);
  if (!status)
    status = cuda_check(d, d->device_attribute(&minor, CUDA_COMPUTE_MINOR, device),
                        "cuDeviceGetAttribute", NULL);
  if (status || major >= 8) return status;
  return rec_fail(REC_ERROR_DEVICE,
                  "expected a GPU of compute capability 8.0 or above, found %d.%d", major, minor);
}

static rec_status load_kernels(gpu_place *p) {
  const cuda_driver *d = p->driver;
  cuda_device device = 0;
  cuda_module module = NULL;
  int multiprocessors = 1;
  rec_status status = cuda_check(d, d->context_device(&device), "cuCtxGetDevice", NULL);
  if (!status) status = check_capability(d, device);
  if (!status)
    status = cuda_check(d, d->device_attribute(&multiprocessors, CUDA_MULTIPROCESSORS, device),
                        "cuDeviceGetAttribute", NULL);
  p->blocks = (int64_t)BLOCKS_OF_MULTIPROCESSOR * multiprocessors;
  if (!status)
    status = cuda_check(d, d->module_load(&module, embedded_model_kernels[0].data, 0, NULL, NULL),
                        "cuModuleLoadDataEx", "kernels of models");
  for (int i = 0; !status && i < 2 * MODEL_KERNEL_COUNT; i++) {
    const char *name = kernels[i / 2][i % 2].name;
    status = cuda_check(d, d->module_function(&p->functions[i / 2][i % 2], module, name),
                        "cuModuleGetFunction", name);
  }
  return status;
}

static rec_status open_cuda(gpu_place *p, int number) {
  cuda_context context;
  const cuda_driver *driver;
  int count = 0;
  rec_status status = cuda_driver_open(&driver);
  if (!status) status = cuda_check(driver, driver->device_count(&count), "cuDeviceGetCount", NULL);
  if (!status) status = cuda_enter(driver, count ? number % count : 0, &context, &p->pushed);
  if (status) return status;
  p->driver = driver;
  cublas_open(&p->blas);
  return load_kernels(p);
}

rec_status gpu_place_open(int32_t device, int number, rec_dtype tokens, gpu_place **made) {
  *made = NULL;
  if (tokens != REC_F32 && tokens != REC_BF16)
    return rec_fail(REC_ERROR_UNSUPPORTED, "expected a model in f32 or bf16 on a GPU, found %s",
                    rec_number_text(tokens));
  gpu_place *p = calloc(1, sizeof *p);
  if (!p) return rec_no_memory();
  p->narrow = tokens == REC_BF16;
  p->base = (compute){&gpu_ops_of_models, p->narrow ? &numeric_bf16 : &numeric_f32, device};
  p->blocks = BLOCKS_OF_EXECUTOR;
  rec_status status = device == REC_DEVICE_CUDA ? open_cuda(p, number) : REC_OK;
  if (!status)
    status = gpu_allocate(&p->base, SQUARES_AT_ONCE * p->blocks * (int64_t)sizeof *p->sums,
                          (void **)&p->sums);
  if (status)
    gpu_place_close(p);
  else
    *made = p;
  return status;
}

void gpu_place_close(gpu_place *p) {
  if (!p) return;
  gpu_release(&p->base, p->sums);
  cublas_close(&p->blas);
  if (p->driver) cuda_leave(p->driver, p->pushed);
  free(p->regions);
  free(p->here);
  free(p);
}
