// The device `cuda`: the PTX of a library on a GPU, for `rec apply` and tests. Tensors are copied
// to the GPU and back, on the default stream.
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda_memory.h"
#include "runtime/device.h"

static rec_status allocate_on_cuda(void *stream, int64_t bytes, void **memory) {
  const cuda_driver *driver;
  rec_status status = cuda_driver_open(&driver);
  return status ? status : rec_cuda_take(driver, stream, bytes, memory);
}

static void release_on_cuda(void *stream, void *memory) {
  const cuda_driver *driver;
  if (memory && cuda_driver_open(&driver) == REC_OK) rec_cuda_give(driver, stream, memory);
}

const rec_device_memory rec_cuda_memory = {.name = "cuda",
                                           .kind = REC_DEVICE_CUDA,
                                           .allocate = allocate_on_cuda,
                                           .release = release_on_cuda};

// The last target that the capability runs and whose first digits it has; sm_80 runs on all.
static const char *target_of_device(int major, int minor) {
  static const struct {
    const char *name;
    int capability;
    bool exact;
  } targets[] = {
#define GPU_TARGET(target, name, capability, exact, ...) {name, capability, exact},
#include "compiler/abi/gpu_targets.def"
#undef GPU_TARGET
  };
  const char *found = targets[0].name;
  int capability = 10 * major + minor;
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    bool runs = targets[i].exact ? capability == targets[i].capability
                                 : capability >= targets[i].capability;
    if (runs && major == targets[i].capability / 10) found = targets[i].name;
  }
  return found;
}

const char *rec_cuda_target(void) {
  const cuda_driver *d;
  cuda_device device;
  int major = 0, minor = 0;
  if (cuda_driver_open(&d) || d->device_get(&device, 0) ||
      d->device_attribute(&major, CUDA_COMPUTE_MAJOR, device) ||
      d->device_attribute(&minor, CUDA_COMPUTE_MINOR, device))
    return "sm_80";
  return target_of_device(major, minor);
}

static cuda_pointer device_pointer(const void *memory) { return (cuda_pointer)(uintptr_t)memory; }

// One tensor of the call on the GPU.
typedef struct cuda_copy {
  void *host, *there;
  size_t bytes;
  bool result;  // is copied back
} cuda_copy;

typedef struct cuda_run {
  const cuda_driver *driver;
  cuda_copy *copies;
  int count;
} cuda_run;

static rec_status place_on_gpu(cuda_run *run, void **pointer, size_t bytes, bool result) {
  if (!*pointer || bytes == 0) return REC_OK;
  cuda_copy *copy = &run->copies[run->count];
  *copy = (cuda_copy){.host = *pointer, .bytes = bytes, .result = result};
  rec_status status = rec_cuda_take(run->driver, NULL, (int64_t)bytes, &copy->there);
  if (status) return status;
  run->count++;
  *pointer = copy->there;
  return cuda_check(run->driver,
                    run->driver->upload(device_pointer(copy->there), copy->host, bytes),
                    "cuMemcpyHtoD", NULL);
}

// What a call reads and writes; states and gradients have an entry for every sequence.
static rec_status place_tensors(cuda_run *run, const rec_signature *s, rec_call *call) {
  rec_status status = REC_OK;
  for (int i = 0; i < s->variable_count && !status; i++) {
    const rec_variable *v = &s->variables[i];
    int64_t numbers;
    if (!rec_call_numbers(s, i, call, &numbers)) return rec_no_memory();
    size_t bytes = (size_t)numbers * rec_dtype_size(rec_compiled_type(s, v));
    status = place_on_gpu(run, &call->value[i], bytes, v->kind == REC_OUTPUT);
    if (!status) status = place_on_gpu(run, &call->final[i], bytes, true);
    if (!status) status = place_on_gpu(run, &call->gradient[i], bytes, v->kind != REC_OUTPUT);
    if (!status) status = place_on_gpu(run, &call->d_final[i], bytes, false);
  }
  if (status || !call->cu_seqlens) return status;
  void *offsets = (void *)call->cu_seqlens;
  status = place_on_gpu(run, &offsets, sizeof(int32_t) * ((size_t)call->sequences + 1), false);
  call->cu_seqlens = offsets;
  return status;
}

static rec_status fetch_results(const cuda_run *run) {
  rec_status status =
      cuda_check(run->driver, run->driver->context_synchronize(), "cuCtxSynchronize", NULL);
  for (int i = 0; i < run->count && !status; i++) {
    const cuda_copy *copy = &run->copies[i];
    if (!copy->result) continue;
    status = cuda_check(run->driver,
                        run->driver->download(copy->host, device_pointer(copy->there), copy->bytes),
                        "cuMemcpyDtoH", NULL);
  }
  return status;
}

static rec_status run_entered(cuda_run *run, const rec_recurrence *r, const rec_call *host_call,
                              const rec_run_options *options) {
  size_t count = (size_t)r->signature.variable_count;
  rec_call call = *host_call;
  void **tables = rec_call_tables(&r->signature, &call);
  run->copies = calloc(4 * count + 1, sizeof *run->copies);
  rec_status status = tables && run->copies ? REC_OK : rec_no_memory();
  if (!status) {
    memcpy(call.value, host_call->value, sizeof *tables * count);
    memcpy(call.final, host_call->final, sizeof *tables * count);
    memcpy(call.gradient, host_call->gradient, sizeof *tables * count);
    memcpy(call.d_final, host_call->d_final, sizeof *tables * count);
    status = place_tensors(run, &r->signature, &call);
  }
  if (!status) status = rec_library_run(r, &call, options, &rec_cuda_memory);
  if (!status) status = fetch_results(run);
  for (int i = 0; i < run->count; i++) rec_cuda_give(run->driver, NULL, run->copies[i].there);
  free(run->copies);
  free(tables);
  return status;
}

rec_status rec_cuda_run(const rec_recurrence *r, const rec_call *call,
                        const rec_run_options *options) {
  cuda_run run = {0};
  cuda_context context;
  int pushed;
  rec_status status = cuda_driver_open(&run.driver);
  if (!status) status = cuda_enter(run.driver, options->device_number, &context, &pushed);
  if (status) return status;
  status = run_entered(&run, r, call, options);
  cuda_leave(run.driver, pushed);
  return status;
}
