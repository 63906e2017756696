// The device `host`: the compiled CPU code of a library.
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

static void set_number(char *arguments, int offset, int64_t number) {
  if (offset >= 0) memcpy(arguments + offset, &number, sizeof number);
}

static void set_pointer(char *arguments, int offset, void *pointer) {
  if (offset >= 0) memcpy(arguments + offset, &pointer, sizeof pointer);
}

// NAME_arguments, laid out as the manifest says. Buffers are dense: all strides stay 0.
static void fill_arguments(const rec_recurrence *r, const rec_call *call, char *arguments) {
  set_number(arguments, r->size_offset, r->arguments_size);
  set_number(arguments, r->batch_offset, call->batch);
  set_number(arguments, r->time_offset, call->time);
  for (int i = 0; i < r->signature.axis_count; i++) {
    set_number(arguments, r->axis_offsets[i], call->axis_sizes[i]);
  }
  if (call->cu_seqlens) {
    set_number(arguments, r->sequences_offset, call->sequences);
    set_pointer(arguments, r->cu_seqlens_offset, (void *)call->cu_seqlens);
  }
  for (int i = 0; i < r->signature.variable_count; i++) {
    set_pointer(arguments, r->places[i].value.data, call->value[i]);
    set_pointer(arguments, r->places[i].final.data, call->final[i]);
    set_pointer(arguments, r->places[i].gradient.data, call->gradient[i]);
    set_pointer(arguments, r->places[i].d_final.data, call->d_final[i]);
  }
}

static rec_status check(const rec_recurrence *r, int answer) {
  if (answer == 0) return REC_OK;
  return rec_fail((rec_status)answer, "%s: %s", r->signature.name, r->module->error());
}

// Memory at a multiple of REC_ALIGNMENT; NULL for none.
static rec_status allocate(int64_t bytes, void **memory) {
  *memory = NULL;
  if (bytes == 0) return REC_OK;
  if (bytes < 0 || bytes > INT64_MAX - REC_ALIGNMENT) return rec_no_memory();
  size_t size = ((size_t)bytes + REC_ALIGNMENT - 1) / REC_ALIGNMENT * REC_ALIGNMENT;
  *memory = aligned_alloc(REC_ALIGNMENT, size);
  return *memory ? REC_OK : rec_no_memory();
}

static rec_status launch_all(const rec_recurrence *r, const void *arguments, rec_launch *launch,
                             const rec_run_options *options) {
  if (options->step) return check(r, r->step(arguments, launch));
  rec_status status = check(r, r->forward(arguments, launch));
  if (!status && options->backward) status = check(r, r->backward(arguments, launch));
  return status;
}

static rec_status run_arguments(const rec_recurrence *r, const void *arguments,
                                const rec_run_options *options) {
  rec_sizes sizes = {.size = sizeof sizes};
  rec_status status = check(r, r->sizes(arguments, &sizes));
  if (status) return status;
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .abi_minor = REC_ABI_MINOR,
                       .device_kind = REC_DEVICE_HOST,
                       .threads = options->threads,
                       .workspace_bytes = sizes.workspace,
                       .saved_bytes = sizes.saved};
  status = allocate(sizes.workspace, &launch.workspace);
  if (options->backward && !options->recompute) {
    if (!status) status = allocate(sizes.saved, &launch.saved);
  } else {
    launch.saved_bytes = 0;
  }
  if (!status) status = launch_all(r, arguments, &launch, options);
  free(launch.workspace);
  free(launch.saved);
  return status;
}

rec_status rec_host_run(const rec_recurrence *r, const rec_call *call,
                        const rec_run_options *options) {
  if (!r->forward) {
    return rec_fail(REC_ERROR_DEVICE,
                    "%s: expected a compiled library for the device `host`, found source text",
                    r->signature.name);
  }
  char *arguments = calloc(1, (size_t)r->arguments_size + 1);
  if (!arguments) return rec_no_memory();
  fill_arguments(r, call, arguments);
  rec_status status = run_arguments(r, arguments, options);
  free(arguments);
  return status;
}
