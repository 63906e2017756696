// Runs a recurrence on a device: whole, token by token, or sequence by sequence of a packed batch.
//
//   packed [0,3,5]   ->   run steps 0..3 of the tokens with states[0], then steps 3..5 with states[1];
//                         the parameters' gradients of both are added in this order
//   --step           ->   one token at a time, the state handed from step to step
//
// A device may know only the plain case: dense buffers, every batch entry of the same length.
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

static const rec_device devices[] = {
    {"host", REC_DTYPE_COUNT, true, false, rec_host_run},
    {"reference", REC_F64, false, true, rec_reference_run},
};

const rec_device *rec_device_find(const char *name) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  }
  return NULL;
}

const char *rec_device_names(void) { return "host, reference"; }

rec_dtype rec_device_type(const rec_device *device, rec_dtype compiled) {
  return device->type == REC_DTYPE_COUNT ? compiled : device->type;
}

static bool is_token(const rec_variable *v) {
  return v->kind == REC_INPUT || v->kind == REC_OUTPUT;
}
static bool is_carried(const rec_variable *v) { return v->kind == REC_STATE || v->kind == REC_LAG; }

// What the ways of running share.
typedef struct runner {
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  const rec_device *device;
  const rec_run_options *options;
} runner;

// Bytes of one entry of a variable: of a step of a token tensor, of a state, of a parameter.
static size_t entry_bytes(const runner *r, const rec_call *call, int i) {
  const rec_variable *v = &r->signature->variables[i];
  rec_dtype type = is_token(v) ? r->signature->token_type : r->signature->carried_type;
  int64_t numbers = rec_variable_numbers(r->signature, i, call->axis_sizes);
  return (size_t)numbers * rec_dtype_size(rec_device_type(r->device, type));
}

// A call with its own pointer tables, to be pointed at parts of another call's buffers. One allocation.
typedef struct part {
  rec_call call;
  void **tables;
} part;

static rec_status part_new(const runner *r, const rec_call *whole, part *p) {
  size_t count = (size_t)r->signature->variable_count;
  p->tables = calloc(4 * count + 1, sizeof *p->tables);
  if (!p->tables) return rec_no_memory();
  p->call = *whole;
  p->call.cu_seqlens = NULL;
  p->call.sequences = 0;
  p->call.value = p->tables;
  p->call.final = p->tables + count;
  p->call.gradient = p->tables + 2 * count;
  p->call.d_final = p->tables + 3 * count;
  return REC_OK;
}

static void *at(void *buffer, size_t offset) { return buffer ? (char *)buffer + offset : NULL; }

// ---- Token by token ----------------------------------------------------------------------------------------

// Moves step t of every batch entry between a [B,T,..] buffer and a [B,1,..] one.
static void copy_step(char *whole, char *one, const rec_call *call, int64_t t, size_t bytes,
                      bool out) {
  for (int64_t b = 0; b < call->batch; b++) {
    char *there = whole + ((size_t)b * (size_t)call->time + (size_t)t) * bytes;
    char *here = one + (size_t)b * bytes;
    memcpy(out ? there : here, out ? here : there, bytes);
  }
}

// A buffer for one token of every token tensor; the state of the run so far is kept in call->final.
static rec_status step_buffers(const runner *r, const rec_call *call, part *p) {
  for (int i = 0; i < r->signature->variable_count; i++) {
    const rec_variable *v = &r->signature->variables[i];
    size_t bytes = entry_bytes(r, call, i), all = (size_t)call->batch * bytes;
    p->call.value[i] = call->value[i];
    if (is_token(v)) {
      p->call.value[i] = malloc(all + 1);
      if (!p->call.value[i]) return rec_no_memory();
    } else if (is_carried(v)) {
      if (all && call->value[i]) memcpy(call->final[i], call->value[i], all);
      if (all && !call->value[i]) memset(call->final[i], 0, all);
      p->call.value[i] = p->call.final[i] = call->final[i];
    }
  }
  return REC_OK;
}

static rec_status run_step(const runner *r, const rec_call *call, part *p, int64_t t) {
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (r->signature->variables[i].kind != REC_INPUT) continue;
    copy_step(call->value[i], p->call.value[i], call, t, entry_bytes(r, call, i), false);
  }
  rec_run_options options = *r->options;
  options.step = r->device->step;
  rec_status status = r->device->run(r->recurrence, &p->call, &options);
  for (int i = 0; i < r->signature->variable_count && !status; i++) {
    if (r->signature->variables[i].kind != REC_OUTPUT) continue;
    copy_step(call->value[i], p->call.value[i], call, t, entry_bytes(r, call, i), true);
  }
  return status;
}

static rec_status run_steps(const runner *r, const rec_call *call) {
  part p;
  rec_status status = part_new(r, call, &p);
  if (status) return status;
  p.call.time = 1;
  status = step_buffers(r, call, &p);
  for (int64_t t = 0; t < call->time && !status; t++) status = run_step(r, call, &p, t);
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (is_token(&r->signature->variables[i])) free(p.call.value[i]);
  }
  free(p.tables);
  return status;
}

static rec_status run_plain(const runner *r, const rec_call *call) {
  if (r->options->step) return run_steps(r, call);
  return r->device->run(r->recurrence, call, r->options);
}

// ---- Packed sequences --------------------------------------------------------------------------------------

static void point_at_sequence(const runner *r, const rec_call *call, part *p, int64_t s) {
  int64_t first = call->cu_seqlens[s];
  p->call.time = call->cu_seqlens[s + 1] - first;
  for (int i = 0; i < r->signature->variable_count; i++) {
    const rec_variable *v = &r->signature->variables[i];
    size_t bytes = entry_bytes(r, call, i), offset = 0;
    if (is_token(v)) offset = (size_t)first * bytes;
    if (is_carried(v)) offset = (size_t)s * bytes;
    p->call.value[i] = at(call->value[i], offset);
    p->call.final[i] = at(call->final[i], offset);
    p->call.d_final[i] = at(call->d_final[i], offset);
    if (v->kind != REC_PARAM) p->call.gradient[i] = at(call->gradient[i], offset);
  }
}

// Adds the gradients of one sequence to those of the sequences before it.
static void add_gradients(const runner *r, const rec_call *call, const part *p) {
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (r->signature->variables[i].kind != REC_PARAM || !call->gradient[i]) continue;
    int64_t numbers = rec_variable_numbers(r->signature, i, call->axis_sizes);
    if (rec_device_type(r->device, r->signature->carried_type) == REC_F64) {
      double *sum = call->gradient[i], *more = p->call.gradient[i];
      for (int64_t k = 0; k < numbers; k++) sum[k] += more[k];
    } else {
      float *sum = call->gradient[i], *more = p->call.gradient[i];
      for (int64_t k = 0; k < numbers; k++) sum[k] += more[k];
    }
  }
}

static rec_status param_gradients(const runner *r, const rec_call *call, part *p) {
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (r->signature->variables[i].kind != REC_PARAM || !call->gradient[i]) continue;
    size_t bytes = entry_bytes(r, call, i);
    memset(call->gradient[i], 0, bytes);
    p->call.gradient[i] = calloc(1, bytes + 1);
    if (!p->call.gradient[i]) return rec_no_memory();
  }
  return REC_OK;
}

static rec_status run_packed(const runner *r, const rec_call *call) {
  part p;
  rec_status status = part_new(r, call, &p);
  if (status) return status;
  p.call.batch = 1;
  status = param_gradients(r, call, &p);
  for (int64_t s = 0; s < call->sequences && !status; s++) {
    point_at_sequence(r, call, &p, s);
    status = run_plain(r, &p.call);
    if (!status) add_gradients(r, call, &p);
  }
  for (int i = 0; i < r->signature->variable_count; i++) {
    if (r->signature->variables[i].kind == REC_PARAM) free(p.call.gradient[i]);
  }
  free(p.tables);
  return status;
}

rec_status rec_run(const rec_recurrence *recurrence, const rec_device *device, const rec_call *call,
                   const rec_run_options *options) {
  runner r = {recurrence, &recurrence->signature, device, options};
  if (options->step && options->backward) {
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: the single-step form has no backward",
                    r.signature->name);
  }
  bool one_by_one = call->cu_seqlens && (options->step || !device->packed);
  return one_by_one ? run_packed(&r, call) : run_plain(&r, call);
}
