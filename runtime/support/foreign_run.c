// Runs a call whose tensors foreign.c has read: their addresses and strides become the arguments of
// an entry point, which gets a workspace.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/support/call.h"
#include "runtime/support/error.h"
#include "runtime/support/foreign.h"

// ---- the arguments of the entry point --------------------------------------------------------

static void put_field(char *arguments, int32_t field, int64_t value) {
  memcpy(arguments + field, &value, sizeof value);
}

static void *foreign_data(const foreign_tensor *x) {
  return x->data ? (char *)x->data + x->byte_offset : NULL;
}

// 0, dense, stands for the stride of an axis that has one entry.
static int64_t tensor_stride(const foreign_tensor *x, int axis, int64_t parts) {
  if (!x->strides || x->shape[axis] <= 1) return 0;
  return x->strides[axis] == 0 ? REC_STRIDE_BROADCAST : x->strides[axis] * parts;
}

static void put_tensor_fields(const foreign_call *f, char *arguments, int index,
                              const foreign_tensor *x) {
  const rec_table_memory *memory = table_memory(f->table, index);
  int64_t parts = foreign_has_complex_type(f->table, memory, x) ? 2 : 1;
  put_field(arguments, memory->data_field, (int64_t)(intptr_t)foreign_data(x));
  if (!memory->token) return;
  put_field(arguments, memory->batch_stride_field, tensor_stride(x, 0, parts));
  if (f->kind != REC_KERNEL_STEP)
    put_field(arguments, memory->time_stride_field, tensor_stride(x, 1, parts));
}

static void fill_foreign_arguments(const foreign_call *f, char *arguments) {
  const rec_table *table = f->table;
  memset(arguments, 0, (size_t)table->arguments_size);
  put_field(arguments, 0, table->arguments_size);
  put_field(arguments, table->batch_field, f->batch);
  put_field(arguments, table->time_field, f->time);
  put_field(arguments, table->sequences_field, f->sequences);
  if (f->packed)
    put_field(arguments, table->cu_seqlens_field, (int64_t)(intptr_t)foreign_data(f->cu_seqlens));
  for (int i = 0; i < table->axis_count; i++)
    put_field(arguments, table_axis(table, i)->field, f->axis_size[i]);
  foreign_cursor at = {0};
  while (foreign_next(table, f->kind, &at)) {
    const foreign_tensor *x = foreign_tensor_at(f, &at);
    if (x) put_tensor_fields(f, arguments, at.memory, x);
  }
}

// ---- memory for calls on the host ------------------------------------------------------------

// Each thread keeps the workspace of its calls, which grows: fresh pages cost more than small calls
// do.
static _Thread_local struct {
  void *memory;  // as malloc gave it; the workspace begins at the first multiple of REC_ALIGNMENT
  int64_t bytes;
} kept;

static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static void make_key(void) { pthread_key_create(&kept_key, free); }

static void *kept_start(void) {
  return kept.memory ? (void *)(((uintptr_t)kept.memory + REC_ALIGNMENT - 1) / REC_ALIGNMENT *
                                REC_ALIGNMENT)
                     : NULL;
}

static rec_status grow_kept(foreign_call *f, int64_t bytes) {
  pthread_once(&kept_once, make_key);
  free(kept.memory);
  kept.memory = malloc((size_t)bytes + REC_ALIGNMENT);
  kept.bytes = kept.memory ? bytes : 0;
  pthread_setspecific(kept_key, kept.memory);
  if (kept.memory) return REC_OK;
  foreign_fail(f, FOREIGN_REFUSED, "expected %lld bytes of memory for the workspace, found less",
               (long long)bytes);
  return REC_ERROR_MEMORY;
}

// ---- the call --------------------------------------------------------------------------------

static rec_status run_entry(const foreign_call *f, const char *arguments,
                            const rec_launch *launch) {
  switch (f->kind) {
    case REC_KERNEL_FORWARD: return rec_forward_entry(f->table, arguments, launch);
    case REC_KERNEL_STEP: return rec_step_entry(f->table, arguments, launch);
    default: return rec_backward_entry(f->table, arguments, launch);
  }
}

static rec_status measure_workspace(const foreign_call *f, const char *arguments,
                                    const rec_launch *launch, int64_t *bytes) {
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = launch->device_kind,
                     .device_number = launch->device_number};
  rec_status status = rec_sizes_entry(f->table, arguments, &sizes);
  *bytes = call_workspace_of(&sizes, f->kind, launch->saved);
  return status;
}

// The entry point says whether the workspace is enough, so that small calls need not ask for its
// size.
static rec_status run_on_host(foreign_call *f, const char *arguments, rec_launch *launch) {
  launch->workspace = kept_start();
  launch->workspace_bytes = kept.bytes;
  rec_status status = run_entry(f, arguments, launch);
  int64_t bytes = 0;
  if (status != REC_ERROR_WORKSPACE || measure_workspace(f, arguments, launch, &bytes) != REC_OK ||
      bytes <= kept.bytes)
    return status;
  status = grow_kept(f, bytes);
  if (status != REC_OK) return status;
  launch->workspace = kept_start();
  launch->workspace_bytes = kept.bytes;
  return run_entry(f, arguments, launch);
}

static rec_status run_on_cuda(foreign_call *f, const char *arguments, rec_launch *launch) {
  launch->device_kind = REC_DEVICE_CUDA;
  launch->device_number = f->device.number;
  launch->stream = f->stream;
  rec_status status = measure_workspace(f, arguments, launch, &launch->workspace_bytes);
  if (status != REC_OK || launch->workspace_bytes == 0)
    return status == REC_OK ? run_entry(f, arguments, launch) : status;
  launch->workspace =
      f->allocate ? f->allocate(f->allocate_context, launch->workspace_bytes) : NULL;
  if (launch->workspace) return run_entry(f, arguments, launch);
  foreign_fail(f, FOREIGN_REFUSED,
               "expected %lld bytes of GPU memory for the workspace, found none",
               (long long)launch->workspace_bytes);
  return REC_ERROR_MEMORY;
}

rec_status foreign_saved_bytes(const foreign_call *f, int64_t *bytes) {
  int64_t fields[f->table->arguments_size / (int32_t)sizeof(int64_t)];
  fill_foreign_arguments(f, (char *)fields);
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = foreign_on_cuda(f->device) ? REC_DEVICE_CUDA : REC_DEVICE_HOST,
                     .device_number = f->device.number};
  rec_status status = rec_sizes_entry(f->table, fields, &sizes);
  *bytes = sizes.saved;
  return status;
}

rec_status foreign_run(foreign_call *f) {
  rec_status status = foreign_check(f);
  if (status != REC_OK) return status;
  int64_t fields[f->table->arguments_size / (int32_t)sizeof(int64_t)];
  fill_foreign_arguments(f, (char *)fields);
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .abi_minor = REC_ABI_MINOR,
                       .threads = f->threads,
                       .parallel_for = f->parallel_for,
                       .parallel_context = f->parallel_context};
  if (f->saved) {
    launch.saved = foreign_data(f->saved);
    launch.saved_bytes = foreign_bytes(f->saved);
  }
  f->fault = FOREIGN_REFUSED;
  status = foreign_on_cuda(f->device) ? run_on_cuda(f, (char *)fields, &launch)
                                      : run_on_host(f, (char *)fields, &launch);
  // The workspace is ours: what does not fit is `saved`.
  if (status == REC_ERROR_ARGUMENT || status == REC_ERROR_WORKSPACE) f->fault = FOREIGN_WRONG_VALUE;
  return status;
}
