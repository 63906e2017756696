// Kernels of compiled libraries, on any device: NAME_arguments filled as the manifest says, strides
// included.
#include <string.h>

#include "runtime/module.h"
#include "runtime/train/model/execute.h"

enum { LARGEST_ARGUMENTS = 16384 };

typedef union arguments {
  char bytes[LARGEST_ARGUMENTS];
  int64_t align;
} arguments;

static void set_memory(arguments *a, const rec_place *place, const kernel_memory *memory) {
  rec_set_pointer(a->bytes, place->data, memory->data);
  rec_set_number(a->bytes, place->batch_stride, memory->batch_stride);
  rec_set_number(a->bytes, place->time_stride, memory->time_stride);
}

static void set_sizes(const rec_recurrence *r, int64_t batch, int64_t time, arguments *a) {
  memset(a->bytes, 0, (size_t)r->arguments_size);
  rec_set_number(a->bytes, r->size_offset, r->arguments_size);
  rec_set_number(a->bytes, r->batch_offset, batch);
  rec_set_number(a->bytes, r->time_offset, time);
}

static rec_status library_sizes(const train_kernel *kernel, int64_t batch, int64_t time,
                                kernel_sizes *to) {
  const rec_recurrence *r = kernel->code;
  rec_sizes sizes = {.size = sizeof sizes, .device_kind = kernel->device};
  arguments a;
  if (r->arguments_size > LARGEST_ARGUMENTS)
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: expected at most %d bytes of arguments, found %d",
                    r->signature.name, LARGEST_ARGUMENTS, r->arguments_size);
  set_sizes(r, batch, time, &a);
  rec_status status = rec_library_answer(r, r->sizes(&a, &sizes));
  *to = (kernel_sizes){
      sizes.workspace, sizes.saved, {sizes.summary, sizes.summary_backward}, sizes.instances};
  if (!r->summary) to->summary[false] = to->summary[true] = 0;
  return status;
}

static void set_arguments(const rec_recurrence *r, const kernel_call *call, arguments *a) {
  set_sizes(r, call->batch, call->time, a);
  for (int i = 0; i < r->signature.variable_count; i++) {
    set_memory(a, &r->places[i].value, &call->value[i]);
    set_memory(a, &r->places[i].gradient, &call->gradient[i]);
    rec_set_pointer(a->bytes, r->places[i].final.data, call->final[i]);
    rec_set_pointer(a->bytes, r->places[i].d_final.data, call->d_final[i]);
  }
}

static rec_launch launch_of(const train_kernel *kernel, const kernel_call *call) {
  return (rec_launch){.size = sizeof(rec_launch),
                      .abi_major = REC_ABI_MAJOR,
                      .abi_minor = REC_ABI_MINOR,
                      .device_kind = kernel->device,
                      .threads = call->threads,
                      .workspace = call->workspace,
                      .workspace_bytes = call->workspace_bytes,
                      .saved = call->saved,
                      .saved_bytes = call->saved_bytes,
                      .first_instance = call->first_instance,
                      .instance_count = call->instance_count};
}

static rec_status library_run(const train_kernel *kernel, const kernel_call *call,
                              rec_entry entry) {
  const rec_recurrence *r = kernel->code;
  const rec_launch launch = launch_of(kernel, call);
  arguments a;
  set_arguments(r, call, &a);
  return rec_library_answer(r, entry(&a, &launch));
}

static rec_status library_forward(const train_kernel *kernel, const kernel_call *call) {
  return library_run(kernel, call, ((const rec_recurrence *)kernel->code)->forward);
}

static rec_status library_backward(const train_kernel *kernel, const kernel_call *call) {
  return library_run(kernel, call, ((const rec_recurrence *)kernel->code)->backward);
}

static rec_status library_step(const train_kernel *kernel, const kernel_call *call) {
  return library_run(kernel, call, ((const rec_recurrence *)kernel->code)->step);
}

static rec_status library_summary(const train_kernel *kernel, const kernel_call *call, bool back,
                                  void *summary) {
  const rec_recurrence *r = kernel->code;
  const rec_launch launch = launch_of(kernel, call);
  arguments a;
  set_arguments(r, call, &a);
  return rec_library_answer(r, (back ? r->summary_backward : r->summary)(&a, &launch, summary));
}

static rec_status library_fold(const train_kernel *kernel, const kernel_call *call, bool back,
                               const void *summary, int32_t *out_of_range) {
  const rec_recurrence *r = kernel->code;
  const rec_launch launch = launch_of(kernel, call);
  const rec_segments segments = {.size = sizeof segments,
                                 .summaries = &summary,
                                 .count = 1,
                                 .backward = back,
                                 .out_of_range = out_of_range};
  arguments a;
  set_arguments(r, call, &a);
  return rec_library_answer(r, r->fold(&a, &launch, &segments));
}

train_kernel execute_library_kernel(const rec_recurrence *recurrence, int32_t device) {
  return (train_kernel){.signature = &recurrence->signature,
                        .code = recurrence,
                        .sizes = library_sizes,
                        .forward = library_forward,
                        .backward = library_backward,
                        .step = library_step,
                        .summary = library_summary,
                        .fold = library_fold,
                        .device = device};
}
