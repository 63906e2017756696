// Runs a recurrence on a device: whole, or token by token.
//
//   --step                        ->   one token at a time, the state handed from step to step
//   --step, packed [0,1,1,4]      ->   packed steps of the sequences that are not over: [0,1,1,2], then [0,0,0,1] twice
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

static const rec_device devices[] = {
    {"host", REC_DTYPE_COUNT, true, false, rec_host_run},
    {"reference", REC_F64, false, false, rec_reference_run},
    {"simt", REC_DTYPE_COUNT, true, true, rec_simt_run},
    {"cuda", REC_DTYPE_COUNT, true, true, rec_cuda_run},
};

const rec_device *rec_device_find(const char *name) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  return NULL;
}

const char *rec_device_names(void) { return "host, reference, simt, cuda"; }

rec_dtype rec_device_type(const rec_device *device, rec_dtype compiled) {
  return device->type == REC_DTYPE_COUNT ? compiled : device->type;
}

// What the ways of running share.
typedef struct runner {
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  const rec_device *device;
  const rec_run_options *options;
} runner;

// Bytes of one entry of a variable: of a step of a token tensor, of a state, of a parameter.
static size_t variable_entry_bytes(const runner *r, const rec_call *call, int i) {
  rec_dtype type = rec_compiled_type(r->signature, &r->signature->variables[i]);
  int64_t numbers = rec_variable_numbers(r->signature, i, call->axis_sizes);
  return (size_t)numbers * rec_dtype_size(rec_device_type(r->device, type));
}

// ---- Token by token --------------------------------------------------------------------------

// A call of one token of each sequence that is not over, and the sequences as the whole has them.
typedef struct stepper {
  const runner *r;
  const rec_call *whole;
  int64_t entries, longest;
  rec_call call;
  void **tables;
  int32_t *offsets;  // packed: cu_seqlens of the step
} stepper;

static int64_t entry_first_step(const stepper *s, int64_t entry) {
  return s->whole->cu_seqlens ? s->whole->cu_seqlens[entry] : entry * s->whole->time;
}

static int64_t length_of(const stepper *s, int64_t entry) {
  if (!s->whole->cu_seqlens) return s->whole->time;
  return (int64_t)s->whole->cu_seqlens[entry + 1] - s->whole->cu_seqlens[entry];
}

// Moves step t of every sequence that has it between the whole's tokens and the step's.
static void copy_step(const stepper *s, char *whole, char *one, int64_t t, size_t bytes, bool out) {
  for (int64_t entry = 0; entry < s->entries; entry++) {
    if (t >= length_of(s, entry)) continue;
    char *there = whole + (size_t)(entry_first_step(s, entry) + t) * bytes;
    memcpy(out ? there : one, out ? one : there, bytes);
    one += bytes;
  }
}

// A buffer for one token of every token tensor; the state of the run so far is kept in the whole's
// `final`.
static rec_status step_buffers(stepper *s) {
  const rec_call *whole = s->whole;
  for (int i = 0; i < s->r->signature->variable_count; i++) {
    const rec_variable *v = &s->r->signature->variables[i];
    size_t all = (size_t)s->entries * variable_entry_bytes(s->r, whole, i);
    s->call.value[i] = whole->value[i];
    if (rec_is_token(v)) {
      s->call.value[i] = malloc(all + 1);
      if (!s->call.value[i]) return rec_no_memory();
    } else if (rec_is_carried(v)) {
      // Not given: the device knows what it starts from.
      if (all && whole->value[i]) memcpy(whole->final[i], whole->value[i], all);
      s->call.value[i] = whole->value[i] ? whole->final[i] : NULL;
      s->call.final[i] = whole->final[i];
    }
  }
  return REC_OK;
}

static rec_status stepper_new(const runner *r, const rec_call *whole, stepper *s) {
  *s = (stepper){.r = r, .whole = whole, .call = *whole};
  s->entries = whole->cu_seqlens ? whole->sequences : whole->batch;
  for (int64_t entry = 0; entry < s->entries; entry++)
    if (length_of(s, entry) > s->longest) s->longest = length_of(s, entry);
  s->tables = rec_call_tables(r->signature, &s->call);
  s->offsets = calloc((size_t)s->entries + 1, sizeof *s->offsets);
  if (!s->tables || !s->offsets) return rec_no_memory();
  return step_buffers(s);
}

static void stepper_free(stepper *s) {
  for (int i = 0; s->tables && i < s->r->signature->variable_count; i++)
    if (rec_is_token(&s->r->signature->variables[i])) free(s->tables[i]);
  free(s->tables);
  free(s->offsets);
}

static rec_status run_single_step(stepper *s, int64_t t) {
  const runner *r = s->r;
  s->call.time = 1;
  if (s->whole->cu_seqlens) {
    for (int64_t entry = 0; entry < s->entries; entry++)
      s->offsets[entry + 1] = s->offsets[entry] + (t < length_of(s, entry));
    s->call.cu_seqlens = s->offsets;
    s->call.time = s->offsets[s->entries];
  }
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (r->signature->variables[i].kind != REC_INPUT) continue;
    copy_step(s, s->whole->value[i], s->call.value[i], t, variable_entry_bytes(r, s->whole, i),
              false);
  }
  rec_run_options options = *r->options;
  options.step = r->device->step;
  rec_status status = r->device->run(r->recurrence, &s->call, &options);
  if (status) rec_fail(status, "step %lld: %s", (long long)t, rec_message());
  for (int i = 0; i < r->signature->variable_count && !status; i++) {
    if (r->signature->variables[i].kind != REC_OUTPUT) continue;
    copy_step(s, s->whole->value[i], s->call.value[i], t, variable_entry_bytes(r, s->whole, i),
              true);
  }
  for (int i = 0; i < r->signature->variable_count; i++)
    if (rec_is_carried(&r->signature->variables[i])) s->call.value[i] = s->call.final[i];
  return status;
}

static rec_status run_single_steps(const runner *r, const rec_call *call) {
  stepper s;
  rec_status status = stepper_new(r, call, &s);
  if (!status && s.longest == 0) {
    rec_run_options options = *r->options;
    options.step = false;
    status = r->device->run(r->recurrence, call, &options);
  }
  for (int64_t t = 0; t < s.longest && !status; t++) status = run_single_step(&s, t);
  stepper_free(&s);
  return status;
}

rec_status rec_run(const rec_recurrence *recurrence, const rec_device *device, const rec_call *call,
                   const rec_run_options *options) {
  runner r = {recurrence, &recurrence->signature, device, options};
  if (options->step && options->backward)
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: the single-step form has no backward",
                    r.signature->name);
  if (device->narrow && r.signature->carried_type == REC_F64)
    return rec_fail(REC_ERROR_UNSUPPORTED,
                    "%s: expected a library of f32, bf16 or f16 for the device `%s`, found f64",
                    r.signature->name, device->name);
  return options->step ? run_single_steps(&r, call) : device->run(recurrence, call, options);
}
