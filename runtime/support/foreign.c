// Reads tensors with shapes, types and strides (foreign.h). The first operand that has an axis
// tells its size. Every other tensor must agree.
//
// A recurrence may have variants for several number types and sizes. A call gets the one whose
// types and fixed sizes its tensors have. If none has, the message is that of the variant which the
// most tensors fit, and names all of them.
#include "runtime/support/foreign.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/support/call.h"
#include "runtime/support/error.h"

// ---- the tensors of a call, in order ---------------------------------------------------------

enum { NO_GROUP, INPUT, PARAM, H0, D_OUTPUT, D_HT, OUTPUT, HT, D_INPUT, D_PARAM, D_H0 };

static int group_of(const rec_table_memory *memory) {
  switch (memory->forward_use) {
    case REC_READ: return memory->token ? INPUT : PARAM;
    case REC_READ_OPTIONAL: return H0;
    case REC_WRITE: return OUTPUT;
    case REC_WRITE_OPTIONAL: return HT;
    default: break;
  }
  if (memory->backward_use == REC_READ_OPTIONAL) return memory->token ? D_OUTPUT : D_HT;
  return memory->copy_from >= 0 ? D_H0 : memory->token ? D_INPUT : D_PARAM;
}

static const int forward_groups[] = {INPUT, PARAM, H0, OUTPUT, HT, NO_GROUP};
static const int backward_groups[] = {INPUT,   PARAM,   H0,   D_OUTPUT, D_HT,
                                      D_INPUT, D_PARAM, D_H0, NO_GROUP};

bool foreign_next(const rec_table *table, int kind, foreign_cursor *at) {
  const int *groups = kind == REC_KERNEL_BACKWARD ? backward_groups : forward_groups;
  int from = at->position ? at->memory + 1 : 0;
  for (; groups[at->group] != NO_GROUP; at->group++, from = 0)
    for (at->memory = from; at->memory < table->memory_count; at->memory++) {
      if (group_of(table_memory(table, at->memory)) != groups[at->group]) continue;
      at->position++;
      at->result = groups[at->group] >= OUTPUT;
      return true;
    }
  return false;
}

const foreign_tensor *foreign_tensor_at(const foreign_call *f, const foreign_cursor *at) {
  return at->position <= f->count ? f->tensors[at->position - 1] : NULL;
}

// ---- messages --------------------------------------------------------------------------------

static const char *call_word(const foreign_call *f) {
  return f->kind == REC_KERNEL_FORWARD ? "forward"
         : f->kind == REC_KERNEL_STEP  ? "step"
                                       : "backward";
}

rec_status foreign_fail(foreign_call *f, foreign_fault fault, const char *format, ...) {
  char text[REC_ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  f->fault = fault;
  return rec_fail(REC_ERROR_ARGUMENT, "%s_%s: %s",
                  (const char *)f->recurrence + f->recurrence->name_at, call_word(f), text);
}

typedef struct words {
  char text[160];
} words;

// "k[batch,time,H,K]"; of a step "k[batch,H,K]".
static words title_of(const foreign_call *f, const rec_table_memory *memory) {
  static const char timed[] = "[batch,time";
  const char *name = table_text(f->table, memory->name_at),
             *shape = table_text(f->table, memory->shape_at);
  bool step = f->kind == REC_KERNEL_STEP && memory->token;
  words w;
  snprintf(w.text, sizeof w.text, "%s%s%s", name, step ? "[batch" : "",
           step ? shape + sizeof timed - 1 : shape);
  return w;
}

static words numbers_text(const int64_t *numbers, int count) {
  words w = {"["};
  for (int i = 0; i < count; i++) {
    size_t length = strlen(w.text);
    snprintf(w.text + length, sizeof w.text - length, "%s%lld", i ? "," : "",
             (long long)numbers[i]);
  }
  size_t length = strlen(w.text);
  snprintf(w.text + length, sizeof w.text - length, "]");
  return w;
}

static words dtype_text(foreign_dtype d) {
  static const char *const names[] = {"int",    "uint",    "float", "opaque",
                                      "bfloat", "complex", "bool"};
  words w;
  if (d.code >= sizeof names / sizeof *names)
    snprintf(w.text, sizeof w.text, "a type of code %d with %d bits", d.code, d.bits);
  else if (d.code == FOREIGN_BOOL)
    snprintf(w.text, sizeof w.text, "bool");
  else
    snprintf(w.text, sizeof w.text, "%s%d", names[d.code], d.bits);
  size_t length = strlen(w.text);
  if (d.lanes > 1) snprintf(w.text + length, sizeof w.text - length, "x%d", d.lanes);
  return w;
}

static words device_text(foreign_device d) {
  words w;
  if (d.type == FOREIGN_CPU || d.type == FOREIGN_CUDA_HOST)
    snprintf(w.text, sizeof w.text, "cpu");
  else if (d.type == FOREIGN_CUDA || d.type == FOREIGN_CUDA_MANAGED)
    snprintf(w.text, sizeof w.text, "cuda:%d", d.number);
  else
    snprintf(w.text, sizeof w.text, "device type %d of DLPack", d.type);
  return w;
}

// ---- types -----------------------------------------------------------------------------------

foreign_dtype foreign_stored(const rec_table *table, const rec_table_memory *memory) {
  if (memory->stored == REC_STORED_BF16) return (foreign_dtype){FOREIGN_BFLOAT, 16, 1};
  if (memory->stored == REC_STORED_F16) return (foreign_dtype){FOREIGN_FLOAT, 16, 1};
  return (foreign_dtype){FOREIGN_FLOAT, (uint8_t)(8 * table->number_bytes), 1};
}

static bool same_dtype(foreign_dtype a, foreign_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static bool has_complex_numbers(const rec_table_memory *memory) {
  return memory->factor == 2 * (memory->depth ? memory->depth : 1);
}

// A tensor whose elements are complex, in place of a last axis of two.
bool foreign_has_complex_type(const rec_table *table, const rec_table_memory *memory,
                              const foreign_tensor *x) {
  foreign_dtype real = foreign_stored(table, memory);
  return has_complex_numbers(memory) && real.code == FOREIGN_FLOAT &&
         same_dtype(x->dtype, (foreign_dtype){FOREIGN_COMPLEX, (uint8_t)(2 * real.bits), 1});
}

static rec_status check_dtype(foreign_call *f, const rec_table_memory *memory,
                              const foreign_tensor *x) {
  foreign_dtype expected = foreign_stored(f->table, memory);
  if (same_dtype(x->dtype, expected) || foreign_has_complex_type(f->table, memory, x))
    return REC_OK;
  return foreign_fail(
      f, FOREIGN_WRONG_TYPE,
      "expected %s for %s, found %s; convert it, or compile the library with another --dtype",
      dtype_text(expected).text, title_of(f, memory).text, dtype_text(x->dtype).text);
}

static bool is_required(const foreign_call *f, const rec_table_memory *memory) {
  int32_t use = f->kind == REC_KERNEL_BACKWARD ? memory->backward_use : memory->forward_use;
  return use == REC_READ;
}

static rec_status check_types(foreign_call *f, int *fitting) {
  foreign_cursor at = {0};
  while (foreign_next(f->table, f->kind, &at)) {
    const rec_table_memory *memory = table_memory(f->table, at.memory);
    const foreign_tensor *x = foreign_tensor_at(f, &at);
    if (!x && is_required(f, memory))
      return foreign_fail(f, FOREIGN_WRONG_TYPE, "expected a tensor for %s, found none",
                          title_of(f, memory).text);
    rec_status status = x ? check_dtype(f, memory, x) : REC_OK;
    if (status != REC_OK) return status;
    ++*fitting;
  }
  return REC_OK;
}

static bool is_empty(const foreign_tensor *x) {
  for (int i = 0; i < x->rank; i++)
    if (x->shape[i] == 0) return true;
  return false;
}

bool foreign_is_dense(const foreign_tensor *x, int first) {
  int64_t dense = 1;
  bool good = true;
  for (int i = x->rank - 1; x->strides && i >= first; i--) {
    good &= x->shape[i] == 1 || x->strides[i] == dense;
    dense *= x->shape[i];
  }
  return good || is_empty(x);
}

// ---- sizes -----------------------------------------------------------------------------------

// By size, the tensor (its memory) whose shape has given it; -1: none has.
typedef struct tellers {
  int batch, time;
  int axes[REC_AXES_MAX];
} tellers;

typedef struct dimension {
  const char *word;
  int64_t *size;
  int *teller;
  bool fixed;
} dimension;

static rec_status refuse_size(foreign_call *f, int memory, dimension d, int64_t found,
                              const foreign_tensor *x) {
  words title = title_of(f, table_memory(f->table, memory)),
        shape = numbers_text(x->shape, x->rank);
  long long size = *d.size;
  if (d.fixed)
    return foreign_fail(f, FOREIGN_WRONG_VALUE,
                        "expected %s = %lld, its compile-time size, for %s, found %lld in shape "
                        "%s; compile the library with -D %s=%lld",
                        d.word, size, title.text, (long long)found, shape.text, d.word,
                        (long long)found);
  if (*d.teller < 0)
    return foreign_fail(f, FOREIGN_WRONG_VALUE, "expected %s = %lld, found %lld in shape %s of %s",
                        d.word, size, (long long)found, shape.text, title.text);
  return foreign_fail(f, FOREIGN_WRONG_VALUE,
                      "expected %s = %lld, as %s has it, found %lld in shape %s of %s", d.word,
                      size, title_of(f, table_memory(f->table, *d.teller)).text, (long long)found,
                      shape.text, title.text);
}

static rec_status read_size(foreign_call *f, int memory, dimension d, int64_t found,
                            const foreign_tensor *x) {
  if (*d.size < 0) {
    *d.size = found;
    *d.teller = memory;
  }
  return *d.size == found ? REC_OK : refuse_size(f, memory, d, found, x);
}

static int expected_rank(const foreign_call *f, const rec_table_memory *memory) {
  int leading = memory->per_batch + (memory->token && f->kind != REC_KERNEL_STEP);
  return leading + (memory->depth > 0) + memory->axis_count + has_complex_numbers(memory);
}

// The size of an axis that has one value in this call: the depth of a lag buffer, or the parts of a
// complex number.
static rec_status read_constant(foreign_call *f, int memory, const char *word, int64_t size,
                                int64_t found, const foreign_tensor *x) {
  int nobody = -1;
  return read_size(f, memory, (dimension){word, &size, &nobody, false}, found, x);
}

static rec_status read_foreign_shape(foreign_call *f, tellers *t, int index,
                                     const foreign_tensor *x) {
  const rec_table_memory *memory = table_memory(f->table, index);
  const int32_t *axes = table_at(f->table, memory->axes_at);
  int rank = expected_rank(f, memory) - foreign_has_complex_type(f->table, memory, x), at = 0;
  if (x->rank != rank)
    return foreign_fail(f, FOREIGN_WRONG_VALUE, "expected %d axes of %s, found %d: shape %s", rank,
                        title_of(f, memory).text, x->rank, numbers_text(x->shape, x->rank).text);
  rec_status status = REC_OK;
  if (memory->per_batch && (memory->token || !f->packed))
    status =
        read_size(f, index, (dimension){"batch", &f->batch, &t->batch, false}, x->shape[at++], x);
  else if (memory->per_batch)
    status = read_constant(f, index, "sequences", f->sequences, x->shape[at++], x);
  if (status == REC_OK && memory->token && f->kind != REC_KERNEL_STEP)
    status = read_size(f, index, (dimension){"time", &f->time, &t->time, false}, x->shape[at++], x);
  if (status == REC_OK && memory->depth > 0)
    status = read_constant(f, index, "steps of the lag", memory->depth, x->shape[at++], x);
  for (int i = 0; status == REC_OK && i < memory->axis_count; i++) {
    const rec_table_axis *axis = table_axis(f->table, axes[i]);
    dimension d = {table_text(f->table, axis->name_at), &f->axis_size[axes[i]], &t->axes[axes[i]],
                   axis->size != REC_RUNTIME_SIZE};
    status = read_size(f, index, d, x->shape[at++], x);
  }
  if (status == REC_OK && at < rank)
    status = read_constant(f, index, "two parts of a complex number", 2, x->shape[at], x);
  return status;
}

static void begin_sizes(foreign_call *f, tellers *t) {
  f->batch = -1;
  f->time = f->kind == REC_KERNEL_STEP ? 1 : -1;
  t->batch = t->time = -1;
  for (int i = 0; i < f->table->axis_count; i++) {
    int64_t size = table_axis(f->table, i)->size;
    f->axis_size[i] = size == REC_RUNTIME_SIZE ? -1 : size;
    t->axes[i] = -1;
  }
}

static void end_sizes(foreign_call *f) {
  if (f->batch < 0) f->batch = f->packed ? 1 : 0;
  if (f->time < 0) f->time = 0;
  for (int i = 0; i < f->table->axis_count; i++)
    if (f->axis_size[i] < 0) f->axis_size[i] = 0;
}

static rec_status read_foreign_sizes(foreign_call *f, int *fitting) {
  tellers t;
  begin_sizes(f, &t);
  foreign_cursor at = {0};
  while (foreign_next(f->table, f->kind, &at)) {
    const foreign_tensor *x = foreign_tensor_at(f, &at);
    rec_status status = x ? read_foreign_shape(f, &t, at.memory, x) : REC_OK;
    if (status != REC_OK) return status;
    ++*fitting;
  }
  end_sizes(f);
  return REC_OK;
}

static rec_status read_offsets(foreign_call *f) {
  const foreign_tensor *x = f->cu_seqlens;
  f->packed = x != NULL;
  f->sequences = 0;
  if (!x) return REC_OK;
  if (!same_dtype(x->dtype, (foreign_dtype){FOREIGN_INT, 32, 1}))
    return foreign_fail(f, FOREIGN_WRONG_TYPE,
                        "expected int32 for cu_seqlens, found %s; convert it",
                        dtype_text(x->dtype).text);
  if (x->rank != 1 || x->shape[0] < 1 || !foreign_is_dense(x, 0))
    return foreign_fail(f, FOREIGN_WRONG_VALUE,
                        "expected one dense axis of cu_seqlens, with the offsets of all sequences "
                        "and their end, found shape %s, strides %s",
                        numbers_text(x->shape, x->rank).text,
                        x->strides ? numbers_text(x->strides, x->rank).text : "of dense axes");
  f->sequences = x->shape[0] - 1;
  return REC_OK;
}

// ---- the variant -----------------------------------------------------------------------------

// How many checks passed; all of them if the status is REC_OK.
static rec_status try_variant(foreign_call *f, int variant, int *fitting) {
  f->table = f->recurrence->tables[variant];
  *fitting = 0;
  rec_status status = check_types(f, fitting);
  return status == REC_OK ? read_foreign_sizes(f, fitting) : status;
}

// " (variants: gla_f32, gla_bf16)", behind the message.
static void add_variants(const foreign_call *f) {
  char text[REC_ERROR_TEXT_MAX];
  size_t length = (size_t)snprintf(text, sizeof text, "%s (this library has", rec_error());
  for (int i = 0; i < f->recurrence->count && length < sizeof text; i++) {
    const rec_table *table = f->recurrence->tables[i];
    length += (size_t)snprintf(text + length, sizeof text - length, "%s %s", i ? "," : "",
                               table_text(table, table->name_at));
  }
  rec_fail(REC_ERROR_ARGUMENT, "%s%s", text, length < sizeof text ? ")" : "");
}

static rec_status choose_variant(foreign_call *f) {
  int best = 0, most = -1;
  for (int i = 0; i < f->recurrence->count; i++) {
    int fitting;
    if (try_variant(f, i, &fitting) == REC_OK) return REC_OK;
    if (fitting <= most) continue;
    most = fitting;
    best = i;
  }
  rec_status status = try_variant(f, best, &most);
  if (f->recurrence->count > 1) add_variants(f);
  return status;
}

// ---- devices and strides ---------------------------------------------------------------------

static bool on_host(foreign_device d) {
  return d.type == FOREIGN_CPU || d.type == FOREIGN_CUDA_HOST;
}
bool foreign_on_cuda(foreign_device d) {
  return d.type == FOREIGN_CUDA || d.type == FOREIGN_CUDA_MANAGED;
}

static bool same_device(foreign_device a, foreign_device b) {
  return (on_host(a) && on_host(b)) ||
         (foreign_on_cuda(a) && foreign_on_cuda(b) && a.number == b.number);
}

static rec_status check_device(foreign_call *f, const char *title, const foreign_tensor *x,
                               const char *first) {
  if (!on_host(x->device) && !foreign_on_cuda(x->device))
    return foreign_fail(f, FOREIGN_WRONG_VALUE,
                        "expected %s on a CPU or a CUDA GPU, found it on %s", title,
                        device_text(x->device).text);
  if (!*first) f->device = x->device;
  if (same_device(f->device, x->device)) return REC_OK;
  return foreign_fail(f, FOREIGN_WRONG_VALUE,
                      "expected %s on %s, where %s is, found it on %s; move it there", title,
                      device_text(f->device).text, first, device_text(x->device).text);
}

int foreign_free_axes(int kind, const rec_table_memory *memory) {
  return !memory->token ? 0 : kind == REC_KERNEL_STEP ? 1 : 2;
}

static rec_status check_strides(foreign_call *f, const foreign_cursor *cursor,
                                const foreign_tensor *x) {
  const rec_table_memory *memory = table_memory(f->table, cursor->memory);
  int leading = foreign_free_axes(f->kind, memory);
  bool good = foreign_is_dense(x, leading), overlaps = false;
  for (int i = 0; i < leading; i++) {
    good &= x->shape[i] == 1 || x->strides[i] >= 0;
    overlaps |= cursor->result && x->shape[i] > 1 && x->strides[i] == 0;
  }
  if (good && !overlaps) return REC_OK;
  words title = title_of(f, memory), found = numbers_text(x->strides, x->rank);
  if (good)
    return foreign_fail(f, FOREIGN_WRONG_VALUE,
                        "expected a result %s whose entries do not overlap, found strides %s",
                        title.text, found.text);
  return foreign_fail(
      f, FOREIGN_WRONG_VALUE,
      "expected %s of %s that lie densely, found strides %s; hand over a contiguous copy",
      leading ? "steps" : "entries", title.text, found.text);
}

static rec_status check_tensor_places(foreign_call *f) {
  words first = {""};
  foreign_cursor at = {0};
  while (foreign_next(f->table, f->kind, &at)) {
    const foreign_tensor *x = foreign_tensor_at(f, &at);
    if (!x) continue;
    words title = title_of(f, table_memory(f->table, at.memory));
    rec_status status = check_device(f, title.text, x, first.text);
    if (status == REC_OK && x->strides && !is_empty(x)) status = check_strides(f, &at, x);
    if (status != REC_OK) return status;
    if (!*first.text) first = title;
  }
  if (f->cu_seqlens) return check_device(f, "cu_seqlens", f->cu_seqlens, first.text);
  return REC_OK;
}

rec_status foreign_read(foreign_call *f) {
  f->device = (foreign_device){FOREIGN_CPU, 0};
  f->table = f->recurrence->tables[0];
  rec_status status = read_offsets(f);
  if (status == REC_OK) status = choose_variant(f);
  return status == REC_OK ? check_tensor_places(f) : status;
}

int foreign_shape(const foreign_call *f, int index, int64_t shape[FOREIGN_RANK_MAX]) {
  const rec_table_memory *memory = table_memory(f->table, index);
  const int32_t *axes = table_at(f->table, memory->axes_at);
  int rank = 0;
  if (memory->per_batch) shape[rank++] = !memory->token && f->packed ? f->sequences : f->batch;
  if (memory->token && f->kind != REC_KERNEL_STEP) shape[rank++] = f->time;
  if (memory->depth > 0) shape[rank++] = memory->depth;
  for (int i = 0; i < memory->axis_count; i++) shape[rank++] = f->axis_size[axes[i]];
  if (has_complex_numbers(memory)) shape[rank++] = 2;
  return rank;
}

// ---- before a call runs ----------------------------------------------------------------------

static rec_status check_saved(foreign_call *f) {
  const foreign_tensor *x = f->saved;
  if (!x) return REC_OK;
  rec_status status = check_device(f, "saved", x, "the first tensor");
  if (status != REC_OK || foreign_is_dense(x, 0)) return status;
  return foreign_fail(f, FOREIGN_WRONG_VALUE, "expected dense bytes of saved, found strides %s",
                      numbers_text(x->strides, x->rank).text);
}

// A library takes NULL for an output that is not wanted. A framework that leaves one out has made a
// mistake.
static rec_status check_wanted_outputs(foreign_call *f) {
  foreign_cursor at = {0};
  while (f->kind != REC_KERNEL_BACKWARD && foreign_next(f->table, f->kind, &at)) {
    const rec_table_memory *memory = table_memory(f->table, at.memory);
    if (memory->forward_use == REC_WRITE && !foreign_tensor_at(f, &at))
      return foreign_fail(f, FOREIGN_WRONG_VALUE, "expected data for %s, found none",
                          title_of(f, memory).text);
  }
  return REC_OK;
}

rec_status foreign_check(foreign_call *f) {
  rec_status status = check_saved(f);
  return status == REC_OK ? check_wanted_outputs(f) : status;
}
