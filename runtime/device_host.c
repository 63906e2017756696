// The device `host`: the compiled CPU code of a library; and `simt`: its GPU code, run by its executor
// on the CPU (runtime/support/simt).
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

void rec_set_number(char *arguments, int offset, int64_t number) {
  if (offset >= 0) memcpy(arguments + offset, &number, sizeof number);
}

void rec_set_pointer(char *arguments, int offset, void *pointer) {
  if (offset >= 0) memcpy(arguments + offset, &pointer, sizeof pointer);
}

// NAME_arguments, laid out as the manifest says. Buffers are dense: all strides stay 0.
static void fill_host_arguments(const rec_recurrence *r, const rec_call *call, char *arguments) {
  rec_set_number(arguments, r->size_offset, r->arguments_size);
  rec_set_number(arguments, r->batch_offset, call->batch);
  rec_set_number(arguments, r->time_offset, call->time);
  for (int i = 0; i < r->signature.axis_count; i++)
    rec_set_number(arguments, r->axis_offsets[i], call->axis_sizes[i]);
  if (call->cu_seqlens) {
    rec_set_number(arguments, r->sequences_offset, call->sequences);
    rec_set_pointer(arguments, r->cu_seqlens_offset, (void *)call->cu_seqlens);
  }
  for (int i = 0; i < r->signature.variable_count; i++) {
    rec_set_pointer(arguments, r->places[i].value.data, call->value[i]);
    rec_set_pointer(arguments, r->places[i].final.data, call->final[i]);
    rec_set_pointer(arguments, r->places[i].gradient.data, call->gradient[i]);
    rec_set_pointer(arguments, r->places[i].d_final.data, call->d_final[i]);
  }
}

rec_status rec_library_answer(const rec_recurrence *r, int answer) {
  if (answer == 0) return REC_OK;
  return rec_fail((rec_status)answer, "%s: %s", r->signature.name, r->module->error());
}

static rec_status allocate_on_host(void *stream, int64_t bytes, void **memory) {
  (void)stream;
  *memory = NULL;
  if (bytes == 0) return REC_OK;
  *memory = rec_numbers_new(bytes);
  return *memory ? REC_OK : rec_no_memory();
}

static void release_on_host(void *stream, void *memory) {
  (void)stream;
  free(memory);
}

const rec_device_memory rec_host_memory = {.name = "host",
                                           .kind = REC_DEVICE_HOST,
                                           .allocate = allocate_on_host,
                                           .release = release_on_host};

void rec_host_close(rec_host_session *s) {
  if (!s->recurrence) return;
  free(s->arguments);
  s->memory->release(s->launch.stream, s->launch.workspace);
  s->memory->release(s->launch.stream, s->launch.saved);
  *s = (rec_host_session){0};
}

static rec_status prepare(const rec_recurrence *r, const rec_call *call,
                          const rec_run_options *options, rec_host_session *s) {
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = s->launch.device_kind,
                     .device_number = s->launch.device_number,
                     .time_parts = options->time_slices};
  s->arguments = calloc(1, (size_t)r->arguments_size + 1);
  if (!s->arguments) return rec_no_memory();
  fill_host_arguments(r, call, s->arguments);
  rec_status status = rec_library_answer(r, r->sizes(s->arguments, &sizes));
  if (status) return status;
  s->launch.workspace_bytes = sizes.workspace;
  status = s->memory->allocate(s->launch.stream, sizes.workspace, &s->launch.workspace);
  if (status || !options->backward || options->recompute) return status;
  s->launch.saved_bytes = sizes.saved;
  return s->memory->allocate(s->launch.stream, sizes.saved, &s->launch.saved);
}

rec_status rec_library_open(const rec_recurrence *r, const rec_call *call,
                            const rec_run_options *options, const rec_device_memory *memory,
                            rec_host_session *s) {
  *s = (rec_host_session){
      .recurrence = r,
      .memory = memory,
      .launch = {.size = sizeof s->launch,
                 .abi_major = REC_ABI_MAJOR,
                 .abi_minor = REC_ABI_MINOR,
                 .device_kind = memory->kind,
                 .device_number = options->device_number,
                 .stream = memory->kind == REC_DEVICE_CUDA ? memory->stream : options->simt,
                 .threads = options->threads,
                 .time_parts = options->time_slices}};
  if (!r->forward) {
    return rec_fail(REC_ERROR_DEVICE,
                    "%s: expected a compiled library for the device `%s`, found source text",
                    r->signature.name, memory->name);
  }
  rec_status status = prepare(r, call, options, s);
  if (status) rec_host_close(s);
  return status;
}

rec_status rec_host_open(const rec_recurrence *r, const rec_call *call,
                         const rec_run_options *options, rec_host_session *s) {
  return rec_library_open(r, call, options, &rec_host_memory, s);
}

rec_status rec_host_forward(const rec_host_session *s) {
  return rec_library_answer(s->recurrence, s->recurrence->forward(s->arguments, &s->launch));
}

rec_status rec_host_backward(const rec_host_session *s) {
  return rec_library_answer(s->recurrence, s->recurrence->backward(s->arguments, &s->launch));
}

rec_status rec_host_step(const rec_host_session *s) {
  return rec_library_answer(s->recurrence, s->recurrence->step(s->arguments, &s->launch));
}

rec_status rec_library_run(const rec_recurrence *r, const rec_call *call,
                           const rec_run_options *options, const rec_device_memory *memory) {
  rec_host_session s;
  rec_status status = rec_library_open(r, call, options, memory, &s);
  if (status) return status;
  status = options->step ? rec_host_step(&s) : rec_host_forward(&s);
  if (!status && options->backward) status = rec_host_backward(&s);
  rec_host_close(&s);
  return status;
}

rec_status rec_host_run(const rec_recurrence *r, const rec_call *call,
                        const rec_run_options *options) {
  return rec_library_run(r, call, options, &rec_host_memory);
}

rec_status rec_simt_run(const rec_recurrence *r, const rec_call *call,
                        const rec_run_options *options) {
  rec_device_memory memory = rec_host_memory;
  memory.name = "simt";
  memory.kind = REC_DEVICE_SIMT;
  return rec_library_run(r, call, options, &memory);
}
