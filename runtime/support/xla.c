// Handlers of XLA's typed FFI: a custom call of XLA becomes a call of an entry point.
//
//   operands q, k, v, gate, h0_S; attributes operands = {1, 2, 3, 4, 5}, results = {6, 7}  ->  gla_forward
//
// The attributes say which tensor of the call (foreign.h) each operand and each result is: its
// position from 1 on, or one of the numbers below. vmap puts axes before all others; a tensor that
// has none of them gets one of size 1 in its place. Shapes and types are checked here whatever
// Python has checked, for between the two stand all transformations of JAX.
//
// XLA knows one handler for the CPU and one for CUDA. That for CUDA starts its kernels on the
// stream of the call, in the context that XLA has made current; XLA's allocator has the workspace,
// and gives it to nobody but later work on that stream.
#include "runtime/support/xla.h"

#include <string.h>

#include "runtime/support/call.h"
#include "runtime/support/error.h"
#include "runtime/support/foreign.h"

enum { POSITION_SAVED = 0, POSITION_OFFSETS = -1 };
enum { MAPPED_MAX = 16 };

typedef struct place {
  const xla_buffer *buffer;
  int64_t position;
  const rec_table_memory *memory;  // NULL: `saved`, offsets
  bool result;
  foreign_tensor tensor;  // without the axes of vmap
  int64_t shape[FOREIGN_RANK_MAX];
} place;

typedef struct xla_call {
  foreign_call call;
  const xla_frame *frame;
  foreign_device device;           // of all tensors
  const foreign_tensor **tensors;  // call.tensors
  place *places;
  int count;
  int mapped;  // axes that vmap has added
  int64_t mapped_size[MAPPED_MAX];
  int64_t entries;  // of all of these
  int64_t saved;    // bytes that an entry saves
} xla_call;

// ---- errors ----------------------------------------------------------------------------------

#define refuse_xla(c, ...) foreign_fail(&(c)->call, FOREIGN_WRONG_VALUE, __VA_ARGS__)

static xla_error *error_of(const xla_frame *frame, rec_status status) {
  if (status == REC_OK) return NULL;
  int code = status == REC_ERROR_ARGUMENT || status == REC_ERROR_PROMISE ? XLA_INVALID_ARGUMENT
             : status == REC_ERROR_MEMORY                                ? XLA_RESOURCE_EXHAUSTED
             : status == REC_ERROR_INTERNAL                              ? XLA_INTERNAL
                                                                         : XLA_FAILED_PRECONDITION;
  xla_error_create create = {.size = sizeof create, .message = rec_error(), .code = code};
  return frame->api->create_error(&create);
}

// ---- which tensor is which -------------------------------------------------------------------

static const xla_array *positions_named(const xla_attributes *attributes, const char *name) {
  for (int64_t i = 0; i < attributes->count; i++) {
    const xla_text *found = attributes->names[i];
    if (found->length != strlen(name) || memcmp(found->data, name, found->length) != 0) continue;
    const xla_array *array = attributes->items[i];
    return attributes->types[i] == XLA_ATTRIBUTE_ARRAY && array->dtype == XLA_S64 ? array : NULL;
  }
  return NULL;
}

// NULL: no tensor of that side has the position.
static const rec_table_memory *memory_at(const xla_call *c, int64_t position, bool result) {
  const rec_table *table = c->call.recurrence->tables[0];
  foreign_cursor at = {0};
  while (foreign_next(table, c->call.kind, &at))
    if (at.position == position) return at.result == result ? table_memory(table, at.memory) : NULL;
  return NULL;
}

static rec_status read_places(xla_call *c, const xla_buffers *buffers, const char *what,
                              bool result) {
  const xla_array *positions = positions_named(&c->frame->attributes, what);
  if (!positions || (int64_t)positions->count != buffers->count)
    return refuse_xla(c, "expected an attribute %s with %lld positions, found %lld", what,
                      (long long)buffers->count, positions ? (long long)positions->count : 0LL);
  for (int64_t i = 0; i < buffers->count; i++) {
    place *p = &c->places[c->count++];
    *p = (place){.buffer = buffers->items[i],
                 .position = ((const int64_t *)positions->data)[i],
                 .result = result};
    if (p->position == POSITION_SAVED || p->position == POSITION_OFFSETS) continue;
    p->memory = memory_at(c, p->position, result);
    if (!p->memory || c->tensors[p->position - 1])
      return refuse_xla(c, "expected the positions of %s, each once, found %lld", what,
                        (long long)p->position);
    c->tensors[p->position - 1] = &p->tensor;
  }
  return REC_OK;
}

// ---- axes of vmap ----------------------------------------------------------------------------

static rec_status count_mapped(xla_call *c) {
  for (int i = 0; i < c->count; i++) {
    const place *p = &c->places[i];
    if (!p->memory || !p->memory->token) continue;
    int64_t unused[FOREIGN_RANK_MAX];
    c->call.table = c->call.recurrence->tables[0];
    int64_t rank =
        foreign_shape(&c->call, (int)(p->memory - table_memory(c->call.table, 0)), unused);
    c->mapped = (int)(p->buffer->rank - rank);
    return c->mapped >= 0 && c->mapped <= MAPPED_MAX
               ? REC_OK
               : refuse_xla(c, "expected %lld axes of %s, found %lld", (long long)rank,
                            table_text(c->call.table, p->memory->name_at),
                            (long long)p->buffer->rank);
  }
  return refuse_xla(c, "expected a tensor of sequences, found none");
}

static rec_status read_mapped(xla_call *c) {
  for (int k = 0; k < c->mapped; k++) c->mapped_size[k] = 1;
  for (int i = 0; i < c->count; i++) {
    const xla_buffer *buffer = c->places[i].buffer;
    if (buffer->rank < c->mapped)
      return refuse_xla(c, "expected %d axes of vmap in each tensor, found %lld axes", c->mapped,
                        (long long)buffer->rank);
    if (buffer->rank - c->mapped > FOREIGN_RANK_MAX)
      return refuse_xla(c, "expected %d axes at most, found %lld", FOREIGN_RANK_MAX,
                        (long long)(buffer->rank - c->mapped));
    for (int k = 0; k < c->mapped; k++) {
      int64_t *size = &c->mapped_size[k];
      if (*size == 1) *size = buffer->dims[k];
      if (buffer->dims[k] != *size && buffer->dims[k] != 1)
        return refuse_xla(c, "expected %lld entries of vmap, found %lld", (long long)*size,
                          (long long)buffer->dims[k]);
    }
  }
  c->entries = 1;
  for (int k = 0; k < c->mapped; k++) c->entries *= c->mapped_size[k];
  return REC_OK;
}

static int64_t mapped_entries(const xla_call *c, const place *p) {
  int64_t entries = 1;
  for (int k = 0; k < c->mapped; k++) entries *= p->buffer->dims[k];
  return entries;
}

// The bytes before the tensor of an entry. What entries save lies as one call of all of them writes
// it, whatever room is behind.
static int64_t entry_offset(const xla_call *c, const place *p, int64_t entry) {
  int64_t bytes = p->position == POSITION_SAVED ? c->saved : foreign_bytes(&p->tensor), offset = 0;
  for (int k = c->mapped; k-- > 0; entry /= c->mapped_size[k]) {
    if (p->buffer->dims[k] > 1) offset += entry % c->mapped_size[k] * bytes;
    bytes *= p->buffer->dims[k];
  }
  return offset;
}

// ---- tensors ---------------------------------------------------------------------------------

static foreign_dtype xla_dtype(int dtype) {
  static const foreign_dtype types[] = {
      [XLA_S32] = {FOREIGN_INT, 32, 1},    [XLA_S64] = {FOREIGN_INT, 64, 1},
      [XLA_U8] = {FOREIGN_UINT, 8, 1},     [XLA_F16] = {FOREIGN_FLOAT, 16, 1},
      [XLA_F32] = {FOREIGN_FLOAT, 32, 1},  [XLA_F64] = {FOREIGN_FLOAT, 64, 1},
      [XLA_BF16] = {FOREIGN_BFLOAT, 16, 1}};
  bool known = dtype >= 0 && dtype < (int)(sizeof types / sizeof *types) && types[dtype].bits;
  return known ? types[dtype] : (foreign_dtype){UINT8_MAX, 0, 1};
}

// Entries of vmap are batch entries where every tensor has its own and parameters are shared.
static bool is_one_call(const xla_call *c) {
  if (c->entries <= 1) return false;
  for (int i = 0; i < c->count; i++) {
    const place *p = &c->places[i];
    bool shared = p->memory && !p->memory->per_batch;
    if (p->position == POSITION_OFFSETS || (shared && p->result) ||
        mapped_entries(c, p) != (shared ? 1 : c->entries))
      return false;
  }
  return true;
}

// As one call, the first axis of all but parameters has the entries of vmap, too: batch entries lie
// behind one another, in `saved` as well.
static void make_xla_tensors(xla_call *c, bool one_call) {
  for (int i = 0; i < c->count; i++) {
    place *p = &c->places[i];
    int64_t rank = p->buffer->rank - c->mapped;
    memcpy(p->shape, p->buffer->dims + c->mapped, sizeof *p->shape * (size_t)rank);
    if (one_call && rank > 0 && !(p->memory && !p->memory->per_batch)) p->shape[0] *= c->entries;
    p->tensor = (foreign_tensor){.device = c->device,
                                 .rank = (int32_t)rank,
                                 .dtype = xla_dtype(p->buffer->dtype),
                                 .shape = p->shape};
    if (p->position == POSITION_OFFSETS) c->call.cu_seqlens = &p->tensor;
  }
}

static void point_at_entry(xla_call *c, int64_t entry) {
  for (int i = 0; i < c->count; i++) {
    place *p = &c->places[i];
    p->tensor.data = p->buffer->data ? (char *)p->buffer->data + entry_offset(c, p, entry) : NULL;
    if (p->position != POSITION_SAVED) continue;
    // Backward computes it again where a copy begins anywhere.
    bool usable = p->result || (uintptr_t)p->tensor.data % REC_ALIGNMENT == 0;
    c->call.saved = usable ? &p->tensor : NULL;
  }
}

// ---- memory of a GPU -------------------------------------------------------------------------

static bool has_failed(const xla_frame *frame, xla_error *error) {
  xla_error_destroy destroy = {.size = sizeof destroy, .error = error};
  if (error) frame->api->destroy_error(&destroy);
  return error != NULL;
}

// The workspace of a call.
typedef struct workspace {
  const xla_frame *frame;
  void *data;
  int64_t bytes;
} workspace;

static void *allocate_workspace(void *context, int64_t bytes) {
  workspace *w = context;
  xla_memory_allocate args = {.size = sizeof args,
                              .context = w->frame->context,
                              .bytes = (size_t)bytes,
                              .alignment = REC_ALIGNMENT};
  if (has_failed(w->frame, w->frame->api->allocate_memory(&args))) return NULL;
  w->bytes = bytes;
  return w->data = args.data;
}

static void release_workspace(const workspace *w) {
  if (!w->data) return;
  xla_memory_free args = {.size = sizeof args,
                          .context = w->frame->context,
                          .bytes = (size_t)w->bytes,
                          .data = w->data};
  has_failed(w->frame, w->frame->api->free_memory(&args));
}

// ---- runs ------------------------------------------------------------------------------------

static rec_status run_entry(xla_call *c, int64_t entry) {
  workspace w = {.frame = c->frame};
  point_at_entry(c, entry);
  c->call.allocate = allocate_workspace;
  c->call.allocate_context = &w;
  rec_status status = foreign_run(&c->call);
  release_workspace(&w);
  return status;
}

static rec_status run_entries(xla_call *c) {
  bool one_call = is_one_call(c);
  make_xla_tensors(c, one_call);
  point_at_entry(c, 0);
  rec_status status = foreign_read(&c->call);
  if (status == REC_OK && c->entries > 1 && !one_call && c->call.saved)
    status = foreign_saved_bytes(&c->call, &c->saved);
  for (int64_t i = 0; i < (one_call ? 1 : c->entries) && status == REC_OK; i++)
    status = run_entry(c, i);
  return status;
}

// ---- handlers --------------------------------------------------------------------------------

static rec_status run_frame(const rec_variants *recurrence, const xla_frame *frame, int kind,
                            int device, void *stream) {
  int tensor_count = 0;
  foreign_cursor at = {0};
  while (foreign_next(recurrence->tables[0], kind, &at)) tensor_count = at.position;
  const foreign_tensor *tensors[tensor_count];
  place places[frame->operands.count + frame->results.count + 1];
  memset(tensors, 0, sizeof tensors);
  xla_call c = {.call = {.recurrence = recurrence,
                         .kind = kind,
                         .tensors = tensors,
                         .count = tensor_count,
                         .stream = stream},
                .frame = frame,
                .device = {device, 0},
                .tensors = tensors,
                .places = places};
  rec_status status = read_places(&c, &frame->operands, "operands", false);
  if (status == REC_OK) status = read_places(&c, &frame->results, "results", true);
  if (status == REC_OK) status = count_mapped(&c);
  if (status == REC_OK) status = read_mapped(&c);
  return status == REC_OK ? run_entries(&c) : status;
}

// XLA asks for the version before it knows of any call.
static bool tells_version(const xla_frame *frame) {
  for (const xla_extension *e = frame->extensions; e; e = e->next) {
    if (e->type != XLA_EXTENSION_METADATA) continue;
    xla_metadata *metadata = ((const xla_metadata_extension *)e)->metadata;
    metadata->version.major = XLA_API_MAJOR;
    metadata->version.minor = XLA_API_MINOR;
    metadata->traits = 0;
    return true;
  }
  return false;
}

static void *handle_on_host(const rec_variants *recurrence, const void *data, int kind) {
  const xla_frame *frame = data;
  if (tells_version(frame) || frame->stage != XLA_EXECUTE) return NULL;
  return error_of(frame, run_frame(recurrence, frame, kind, FOREIGN_CPU, NULL));
}

static void *handle_on_cuda(const rec_variants *recurrence, const void *data, int kind) {
  const xla_frame *frame = data;
  if (tells_version(frame) || frame->stage != XLA_EXECUTE) return NULL;
  xla_stream_get get = {.size = sizeof get, .context = frame->context};
  xla_error *error = frame->api->get_stream(&get);
  return error ? error
               : error_of(frame, run_frame(recurrence, frame, kind, FOREIGN_CUDA, get.stream));
}

#define HANDLER(name, handle, kind)                               \
  void *name(const rec_variants *recurrence, const void *frame);  \
  void *name(const rec_variants *recurrence, const void *frame) { \
    return handle(recurrence, frame, kind);                       \
  }

HANDLER(rec_forward_xla, handle_on_host, REC_KERNEL_FORWARD)
HANDLER(rec_backward_xla, handle_on_host, REC_KERNEL_BACKWARD)
HANDLER(rec_step_xla, handle_on_host, REC_KERNEL_STEP)
HANDLER(rec_forward_cuda_xla, handle_on_cuda, REC_KERNEL_FORWARD)
HANDLER(rec_backward_cuda_xla, handle_on_cuda, REC_KERNEL_BACKWARD)
HANDLER(rec_step_cuda_xla, handle_on_cuda, REC_KERNEL_STEP)
