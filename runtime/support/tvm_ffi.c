// Functions of tvm-ffi: __tvm_ffi_NAME_forward, _backward, _step.
//
//   tvm_ffi.load_module("gla.so").gla_forward(q, k, v, gate, h0_S, y, hT_S)     tensors of torch, NumPy, ..
//
// Arguments are the tensors of foreign.h in their order, None for absent ones, then cu_seqlens and
// saved. Those at the end may be left out. The declarations are those of tvm/ffi/c_api.h; its
// library is found in the process that calls.
#include "runtime/support/tvm_ffi.h"

#include <dlfcn.h>
#include <string.h>

#include "runtime/support/error.h"
#include "runtime/support/foreign.h"

// ---- tvm-ffi's functions ---------------------------------------------------------------------

// Finds a function of the process, NULL if it has none. `function`: the address of a pointer to it.
static void find_process_function(void *function, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof found);
}

typedef void raise_function(const char *kind, const char *message);
typedef void *stream_function(int32_t device_type, int32_t device_number);
typedef int allocate_function(foreign_tensor *prototype, void **object);
typedef int release_function(void *object);

static int raise_fault(const foreign_call *f) {
  static const char *const kinds[] = {[FOREIGN_WRONG_VALUE] = "ValueError",
                                      [FOREIGN_WRONG_TYPE] = "TypeError",
                                      [FOREIGN_REFUSED] = "RuntimeError"};
  raise_function *raise;
  find_process_function(&raise, "TVMFFIErrorSetRaisedFromCStr");
  if (raise) raise(kinds[f->fault], rec_error());
  return -1;
}

typedef struct tvm_workspace {
  const foreign_device *device;
  void *object;  // a tensor; NULL: none yet
} tvm_workspace;

// Bytes on the call's device, by the framework that the caller's tensors come from.
static void *allocate_bytes(void *context, int64_t bytes) {
  tvm_workspace *w = context;
  allocate_function *allocate;
  find_process_function(&allocate, "TVMFFIEnvTensorAlloc");
  foreign_tensor prototype = {.device = *w->device,
                              .rank = 1,
                              .dtype = {FOREIGN_UINT, 8, 1},
                              .shape = &bytes,
                              .strides = (int64_t[]){1}};
  if (!allocate || allocate(&prototype, &w->object)) return NULL;
  return ((tvm_tensor *)w->object)->tensor.data;
}

static void release_tvm_object(void *object) {
  release_function *release_object;
  find_process_function(&release_object, "TVMFFIObjectDecRef");
  if (release_object) release_object(object);
}

static void *current_stream(foreign_device device) {
  stream_function *stream;
  find_process_function(&stream, "TVMFFIEnvGetStream");
  return stream ? stream(device.type, device.number) : NULL;
}

// ---- arguments -------------------------------------------------------------------------------

static int count_tensors(const rec_table *table, int kind) {
  foreign_cursor at = {0};
  while (foreign_next(table, kind, &at)) {
  }
  return at.position;
}

// NULL: None, or no tensor, which *good says.
static const foreign_tensor *read_tvm_argument(const tvm_any *argument, bool *good) {
  *good = true;
  switch (argument->type) {
    case TVM_NONE: return NULL;
    case TVM_DLTENSOR: return argument->pointer;
    case TVM_TENSOR: return &((const tvm_tensor *)argument->pointer)->tensor;
    default: *good = false; return NULL;
  }
}

static int run_tvm_call(const rec_variants *recurrence, int kind, const tvm_any *arguments,
                        int32_t count, tvm_any *result) {
  foreign_call f = {.recurrence = recurrence, .kind = kind};
  int tensors = count_tensors(recurrence->tables[0], kind),
      most = tensors + (kind == REC_KERNEL_STEP ? 0 : 2);
  *result = (tvm_any){0};
  if (count > most) {
    foreign_fail(&f, FOREIGN_WRONG_TYPE, "expected at most %d arguments, found %d", most, count);
    return raise_fault(&f);
  }
  const foreign_tensor *given[most + 1];
  memset(given, 0, sizeof given);
  for (int i = 0; i < count; i++) {
    bool good;
    given[i] = read_tvm_argument(&arguments[i], &good);
    if (good) continue;
    foreign_fail(&f, FOREIGN_WRONG_TYPE,
                 "expected a tensor or None as argument %d, found a value of tvm-ffi's type %d",
                 i + 1, arguments[i].type);
    return raise_fault(&f);
  }
  f.tensors = given;
  f.count = tensors;
  if (kind != REC_KERNEL_STEP) {
    f.cu_seqlens = given[tensors];
    f.saved = given[tensors + 1];
  }
  tvm_workspace workspace = {&f.device, NULL};
  f.allocate = allocate_bytes;
  f.allocate_context = &workspace;
  rec_status status = foreign_read(&f);
  if (status != REC_OK) return raise_fault(&f);
  if (f.device.type != FOREIGN_CPU) f.stream = current_stream(f.device);
  status = foreign_run(&f);
  if (workspace.object) release_tvm_object(workspace.object);
  return status == REC_OK ? 0 : raise_fault(&f);
}

#define ENTRY(name, kind)                                                                         \
  int name(const rec_variants *recurrence, void *handle, const tvm_any *arguments, int32_t count, \
           tvm_any *result) {                                                                     \
    (void)handle;                                                                                 \
    return run_tvm_call(recurrence, kind, arguments, count, result);                              \
  }

ENTRY(rec_forward_tvm_ffi, REC_KERNEL_FORWARD)
ENTRY(rec_backward_tvm_ffi, REC_KERNEL_BACKWARD)
ENTRY(rec_step_tvm_ffi, REC_KERNEL_STEP)
