// Binds the tensors of a file to the buffers of a call, and writes the results.
//
//   recurrence f(G, N = 4) { input x[G,N]  param a[G]  state h[G]  output y[G] .. }
//   file: x F32 [2,37,3,4], a F32 [3], h0.h F32 [2,3], d.y F32 [2,37,3]
//   ->    batch 2, time 37, G = 3; buffers in the type that the device computes in
//
// Sizes are learnt from inputs, then from parameters; everything else must agree with them. A
// message shows what is known:
//   in.safetensors: `x`: expected F32 [B=2,T=37,G,N=4], found F32 [2,37,3,5]
#include "runtime/bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/output.h"

enum { UNKNOWN = -1, RANK_MAX = 64, NAME_MAX_SIZE = 1024 };

typedef enum tensor_role {
  ROLE_VALUE,
  ROLE_INITIAL,
  ROLE_FINAL,
  ROLE_GRADIENT,
  ROLE_D_INITIAL,
  ROLE_D_FINAL
} tensor_role;

static const char *const prefixes[] = {"", "h0.", "hT.", "d.", "d.h0.", "d.hT."};

// One axis of an expected shape: a size that is known, or the place that learns it.
typedef struct dimension {
  const char *name;  // NULL: a plain number
  int64_t fixed;
  int64_t *size;
} dimension;

typedef struct binder {
  rec_binding *binding;
  const rec_signature *signature;
  const rec_file *file;
  int64_t batch, time, sequences;
} binder;

// A type is narrower than another if all its values are values of the other.
static bool widens_to(rec_dtype from, rec_dtype to) {
  if (from == to) return true;
  if (!rec_dtype_is_real(from)) return false;
  if (from == REC_BF16 && to == REC_F16) return false;
  return rec_dtype_size(from) < rec_dtype_size(to);
}

static int expected_shape(binder *b, const rec_variable *v, dimension *shape) {
  int rank = 0;
  bool packed = b->binding->cu_seqlens;
  if (rec_is_token(v)) {
    shape[rank++] = (dimension){"B", 0, &b->batch};
    shape[rank++] = (dimension){"T", 0, &b->time};
  } else if (rec_is_carried(v)) {
    shape[rank++] =
        packed ? (dimension){"sequences", 0, &b->sequences} : (dimension){"B", 0, &b->batch};
    if (v->kind == REC_LAG) shape[rank++] = (dimension){"lag", v->depth, NULL};
  }
  for (int i = 0; i < v->axis_count; i++) {
    int axis = v->axes[i];
    shape[rank++] = (dimension){b->signature->axes[axis].name, 0, &b->binding->axis_sizes[axis]};
  }
  if (v->complex) shape[rank++] = (dimension){NULL, 2, NULL};
  return rank;
}

static int64_t size_of_dimension(const dimension *d) { return d->size ? *d->size : d->fixed; }

static char *expected_text(char *text, size_t size, rec_dtype type, const dimension *shape,
                           int rank) {
  size_t at = (size_t)snprintf(text, size, "%s [", rec_dtype_name(type));
  for (int i = 0; i < rank && at < size; i++) {
    const char *comma = i ? "," : "", *name = shape[i].name ? shape[i].name : "";
    if (size_of_dimension(&shape[i]) == UNKNOWN)
      at += (size_t)snprintf(text + at, size - at, "%s%s", comma, name);
    else
      at += (size_t)snprintf(text + at, size - at, "%s%s%s%lld", comma, name, *name ? "=" : "",
                             (long long)size_of_dimension(&shape[i]));
  }
  if (at < size) snprintf(text + at, size - at, "]");
  return text;
}

static rec_status misfit_tensor(const binder *b, const rec_tensor *t, rec_dtype type,
                                const dimension *shape, int rank) {
  char expected[512], found[512];
  expected_text(expected, sizeof expected, type, shape, rank);
  rec_shape_text(found, sizeof found, t->dtype, t->rank, t->shape);
  return rec_fail(REC_ERROR_ARGUMENT, "%s: `%s`: expected %s, found %s", rec_file_path(b->file),
                  t->name, expected, found);
}

static const rec_tensor *find_file_tensor(const binder *b, tensor_role role,
                                          const rec_variable *v) {
  char name[NAME_MAX_SIZE];
  snprintf(name, sizeof name, "%s%s", prefixes[role], v->name);
  return rec_file_find(b->file, name);
}

// Checks a tensor against a variable, learning sizes that are not known yet.
static rec_status check_bound_tensor(binder *b, const rec_tensor *t, const rec_variable *v) {
  dimension shape[RANK_MAX];
  rec_dtype type = rec_compiled_type(b->signature, v);
  int rank = expected_shape(b, v, shape);
  if (!widens_to(t->dtype, type) || t->rank != rank) return misfit_tensor(b, t, type, shape, rank);
  for (int i = 0; i < rank; i++)
    if (size_of_dimension(&shape[i]) != UNKNOWN && size_of_dimension(&shape[i]) != t->shape[i])
      return misfit_tensor(b, t, type, shape, rank);
  for (int i = 0; i < rank; i++) {
    if (size_of_dimension(&shape[i]) == UNKNOWN) *shape[i].size = t->shape[i];
    // An axis that occurs twice in one tensor cannot be declared, so no second look is needed.
  }
  return REC_OK;
}

static rec_status missing(binder *b, tensor_role role, const rec_variable *v, const char *what) {
  dimension shape[RANK_MAX];
  char expected[512];
  int rank = expected_shape(b, v, shape);
  expected_text(expected, sizeof expected, rec_compiled_type(b->signature, v), shape, rank);
  return rec_fail(REC_ERROR_ARGUMENT, "%s: expected the %s `%s%s`, %s, found no such tensor",
                  rec_file_path(b->file), what, prefixes[role], v->name, expected);
}

// ---- Packed sequences ------------------------------------------------------------------------

static rec_status read_cu_seqlens(binder *b) {
  const rec_tensor *t = rec_file_find(b->file, "cu_seqlens");
  if (!t) return REC_OK;
  if (t->dtype != REC_I32 || t->rank != 1 || t->shape[0] < 1) {
    char found[512];
    return rec_fail(REC_ERROR_ARGUMENT, "%s: `cu_seqlens`: expected I32 [sequences + 1], found %s",
                    rec_file_path(b->file),
                    rec_shape_text(found, sizeof found, t->dtype, t->rank, t->shape));
  }
  b->sequences = t->shape[0] - 1;
  b->binding->cu_seqlens = malloc(t->bytes);
  if (!b->binding->cu_seqlens) return rec_no_memory();
  memcpy(b->binding->cu_seqlens, t->data, t->bytes);
  b->batch = 1;
  return REC_OK;
}

static rec_status check_cu_seqlens(const binder *b) {
  const int32_t *offsets = b->binding->cu_seqlens;
  const char *path = rec_file_path(b->file);
  if (!offsets) return REC_OK;
  if (offsets[0] != 0)
    return rec_fail(REC_ERROR_ARGUMENT, "%s: `cu_seqlens`: expected a start at 0, found %d", path,
                    offsets[0]);
  for (int64_t i = 0; i < b->sequences; i++) {
    if (offsets[i + 1] < offsets[i]) {
      return rec_fail(REC_ERROR_ARGUMENT,
                      "%s: `cu_seqlens`: expected offsets that never fall, found %d after %d", path,
                      offsets[i + 1], offsets[i]);
    }
  }
  if (offsets[b->sequences] != b->time) {
    return rec_fail(REC_ERROR_ARGUMENT, "%s: `cu_seqlens`: expected an end at T=%lld, found %d",
                    path, (long long)b->time, offsets[b->sequences]);
  }
  return REC_OK;
}

// ---- Names -----------------------------------------------------------------------------------

static bool is_name_of(const char *name, tensor_role role, const rec_variable *v) {
  size_t length = strlen(prefixes[role]);
  return strncmp(name, prefixes[role], length) == 0 && strcmp(name + length, v->name) == 0;
}

static bool expected_name(const binder *b, const char *name) {
  if (strcmp(name, "cu_seqlens") == 0) return true;
  for (int i = 0; i < b->signature->variable_count; i++) {
    const rec_variable *v = &b->signature->variables[i];
    tensor_role value = rec_is_carried(v) ? ROLE_INITIAL : ROLE_VALUE,
                cotangent = rec_is_carried(v) ? ROLE_D_FINAL : ROLE_GRADIENT;
    bool given = v->kind != REC_OUTPUT, judged = v->kind == REC_OUTPUT || rec_is_carried(v);
    if ((given && is_name_of(name, value, v)) || (judged && is_name_of(name, cotangent, v)))
      return true;
  }
  return false;
}

static void list_names(const binder *b, char *text, size_t size) {
  size_t at = 0;
  for (int i = 0; i < b->signature->variable_count && at < size; i++) {
    const rec_variable *v = &b->signature->variables[i];
    if (v->kind == REC_OUTPUT && !b->binding->backward) continue;
    tensor_role role = v->kind == REC_OUTPUT ? ROLE_GRADIENT
                       : rec_is_carried(v)   ? ROLE_INITIAL
                                             : ROLE_VALUE;
    at += (size_t)snprintf(text + at, size - at, "%s%s%s", at ? " " : "", prefixes[role], v->name);
  }
}

static rec_status check_bound_names(const binder *b) {
  for (int i = 0; i < rec_file_count(b->file); i++) {
    const char *name = rec_file_tensor(b->file, i)->name;
    if (!b->binding->backward && strncmp(name, "d.", 2) == 0) continue;
    if (expected_name(b, name)) continue;
    char names[1024] = "";
    list_names(b, names, sizeof names);
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected tensors among %s, found `%.200s`",
                    rec_file_path(b->file), names, name);
  }
  return REC_OK;
}

// ---- Sizes and shapes ------------------------------------------------------------------------

static rec_status check_kind(binder *b, rec_kind kind, tensor_role role, const char *what) {
  for (int i = 0; i < b->signature->variable_count; i++) {
    const rec_variable *v = &b->signature->variables[i];
    if (v->kind != kind) continue;
    const rec_tensor *t = find_file_tensor(b, role, v);
    if (!t && what) return missing(b, role, v, what);
    rec_status status = t ? check_bound_tensor(b, t, v) : REC_OK;
    if (status) return status;
  }
  return REC_OK;
}

static rec_status check_tensor_shapes(binder *b) {
  rec_status status = check_kind(b, REC_INPUT, ROLE_VALUE, "input");
  if (!status) status = check_kind(b, REC_PARAM, ROLE_VALUE, "parameter");
  if (!status) status = check_cu_seqlens(b);
  if (!status) status = check_kind(b, REC_STATE, ROLE_INITIAL, NULL);
  if (!status) status = check_kind(b, REC_LAG, ROLE_INITIAL, NULL);
  if (status || !b->binding->backward) return status;
  status = check_kind(b, REC_OUTPUT, ROLE_GRADIENT, "cotangent");
  if (!status) status = check_kind(b, REC_STATE, ROLE_D_FINAL, NULL);
  if (!status) status = check_kind(b, REC_LAG, ROLE_D_FINAL, NULL);
  return status;
}

// ---- Buffers ---------------------------------------------------------------------------------

// A zeroed buffer in the device's type, filled from a tensor if there is one.
static rec_status make_buffer(const rec_binding *binding, int i, const rec_tensor *t,
                              void **buffer) {
  rec_dtype type = rec_device_type(
      binding->device, rec_compiled_type(binding->signature, &binding->signature->variables[i]));
  int64_t numbers;
  if (!rec_call_numbers(binding->signature, i, &binding->call, &numbers)) return rec_no_memory();
  *buffer = calloc((size_t)numbers + 1, rec_dtype_size(type));
  if (!*buffer) return rec_no_memory();
  return t ? rec_convert(*buffer, type, t->data, t->dtype, numbers) : REC_OK;
}

static rec_status bind_variable(const binder *b, int i) {
  rec_binding *binding = b->binding;
  const rec_variable *v = &b->signature->variables[i];
  rec_call *call = &binding->call;
  bool carried = rec_is_carried(v);
  const rec_tensor *value = find_file_tensor(b, carried ? ROLE_INITIAL : ROLE_VALUE, v);
  rec_status status = REC_OK;
  if (!carried || value) status = make_buffer(binding, i, value, &call->value[i]);
  if (carried && !status) status = make_buffer(binding, i, NULL, &call->final[i]);
  if (status || !binding->backward) return status;
  const rec_tensor *cotangent =
      v->kind == REC_OUTPUT ? find_file_tensor(b, ROLE_GRADIENT, v) : NULL;
  status = make_buffer(binding, i, cotangent, &call->gradient[i]);
  cotangent = carried ? find_file_tensor(b, ROLE_D_FINAL, v) : NULL;
  if (cotangent && !status) status = make_buffer(binding, i, cotangent, &call->d_final[i]);
  return status;
}

static rec_status bind_all(binder *b) {
  rec_status status = check_bound_names(b);
  if (!status) status = read_cu_seqlens(b);
  if (!status) status = check_tensor_shapes(b);
  if (status) return status;
  // recc makes no recurrence without inputs.
  if (b->batch == UNKNOWN || b->time == UNKNOWN)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected a recurrence with an input, found none",
                    rec_file_path(b->file));
  rec_call *call = &b->binding->call;
  call->batch = b->batch;
  call->time = b->time;
  call->sequences = b->binding->cu_seqlens ? b->sequences : 0;
  call->cu_seqlens = b->binding->cu_seqlens;
  call->axis_sizes = b->binding->axis_sizes;
  for (int i = 0; i < b->signature->variable_count && !status; i++) status = bind_variable(b, i);
  return status;
}

rec_status rec_bind(const rec_signature *signature, const rec_device *device, const rec_file *file,
                    bool backward, rec_binding *binding) {
  *binding = (rec_binding){.signature = signature, .device = device, .backward = backward};
  binding->axis_sizes = malloc(((size_t)signature->axis_count + 1) * sizeof *binding->axis_sizes);
  if (!rec_call_tables(signature, &binding->call) || !binding->axis_sizes) {
    rec_binding_free(binding);
    return rec_no_memory();
  }
  for (int i = 0; i < signature->axis_count; i++) binding->axis_sizes[i] = signature->axes[i].size;
  binder b = {binding, signature, file, UNKNOWN, UNKNOWN, 0};
  rec_status status = bind_all(&b);
  if (status) rec_binding_free(binding);
  return status;
}

void rec_binding_free(rec_binding *binding) {
  for (int i = 0; binding->call.value && i < 4 * binding->signature->variable_count; i++)
    free(binding->call.value[i]);
  free(binding->call.value);
  free(binding->axis_sizes);
  free(binding->cu_seqlens);
  memset(binding, 0, sizeof *binding);
}

// ---- Results ---------------------------------------------------------------------------------

typedef struct writer {
  const rec_binding *binding;
  rec_tensor *tensors;
  int count;
  bool failed;
} writer;

// A result in the compiled type under its name.
static void add_result_tensor(writer *w, int i, tensor_role role, void *buffer) {
  const rec_binding *binding = w->binding;
  const rec_signature *s = binding->signature;
  const rec_variable *v = &s->variables[i];
  rec_tensor *t = &w->tensors[w->count++];
  char *name = malloc(strlen(prefixes[role]) + strlen(v->name) + 1);
  int64_t *shape = malloc(RANK_MAX * sizeof *shape), numbers = 0;
  t->name = name;
  t->shape = shape;
  t->dtype = rec_compiled_type(s, v);
  w->failed |= !name || !shape || !rec_call_numbers(s, i, &binding->call, &numbers);
  if (w->failed) return;
  strcat(strcpy(name, prefixes[role]), v->name);
  if (rec_is_token(v)) shape[t->rank++] = binding->call.batch;
  if (rec_is_token(v)) shape[t->rank++] = binding->call.time;
  if (rec_is_carried(v))
    shape[t->rank++] = binding->cu_seqlens ? binding->call.sequences : binding->call.batch;
  if (v->kind == REC_LAG) shape[t->rank++] = v->depth;
  for (int a = 0; a < v->axis_count; a++) shape[t->rank++] = binding->axis_sizes[v->axes[a]];
  if (v->complex) shape[t->rank++] = 2;
  t->bytes = (size_t)numbers * rec_dtype_size(t->dtype);
  t->data = malloc(t->bytes + 1);
  w->failed |= !t->data;
  if (!w->failed)
    rec_convert(t->data, t->dtype, buffer, rec_device_type(binding->device, t->dtype), numbers);
}

static void collect_results(writer *w) {
  const rec_binding *binding = w->binding;
  const rec_call *call = &binding->call;
  for (int i = 0; i < binding->signature->variable_count && !w->failed; i++) {
    const rec_variable *v = &binding->signature->variables[i];
    if (v->kind == REC_OUTPUT) add_result_tensor(w, i, ROLE_VALUE, call->value[i]);
    if (rec_is_carried(v)) add_result_tensor(w, i, ROLE_FINAL, call->final[i]);
    if (!binding->backward || v->kind == REC_OUTPUT) continue;
    add_result_tensor(w, i, rec_is_carried(v) ? ROLE_D_INITIAL : ROLE_GRADIENT, call->gradient[i]);
  }
}

rec_status rec_binding_write(const rec_binding *binding, const char *path) {
  size_t most = 2 * (size_t)binding->signature->variable_count;
  writer w = {binding, calloc(most + 1, sizeof(rec_tensor)), 0, false};
  if (!w.tensors) return rec_no_memory();
  collect_results(&w);
  const rec_metadata mark = {"rec.mark", OUTPUT_MARK_TEXT};
  rec_status status =
      w.failed ? rec_no_memory() : rec_file_write(path, w.tensors, w.count, &mark, 1);
  for (int i = 0; i < w.count; i++) {
    free((void *)w.tensors[i].name);
    free((void *)w.tensors[i].shape);
    free(w.tensors[i].data);
  }
  free(w.tensors);
  return status;
}
