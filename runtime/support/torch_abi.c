// Kernels of operators for PyTorch on the CPU: rec_torch_NAME_forward, _save, _step and _backward,
// in the form that aoti_torch_library_impl takes, torch's stable C ABI. Operands and results are
// those of foreign.h.
//
//   NAME_forward(Tensor q, .., Tensor? h0_S, Tensor? cu_seqlens) -> (Tensor y, Tensor hT_S)
//   NAME_save(Tensor q, .., Tensor? h0_S, Tensor? cu_seqlens) -> (Tensor y, Tensor hT_S, Tensor saved)
//   NAME_step(Tensor q, .., Tensor? h0_S) -> (Tensor y, Tensor hT_S)
//   NAME_backward(Tensor q, .., Tensor? h0_S, Tensor? cu_seqlens, Tensor saved, Tensor? d_y, Tensor? d_hT_S, int wanted)
//     -> (Tensor d_q, .., Tensor d_h0_S)       bit i of `wanted`: gradient i is; others have no elements
//
// A kernel called without a stack tells whether torch has all functions that it needs (1), which
// those of 2.10 and later do. They are found in the process. Whatever is wrong is raised as a C++
// exception, std::runtime_error, for torch has no other way: this file and the thunks before it are
// compiled with unwind tables.
#include "runtime/support/torch_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "runtime/support/call.h"
#include "runtime/support/error.h"
#include "runtime/support/foreign.h"

// ---- torch's functions -----------------------------------------------------------------------

typedef struct torch_tensor torch_tensor;

// Most return 0, or an error of torch.
#define TORCH_FUNCTIONS(F)                                                                     \
  F(int32_t, aoti_torch_device_type_cpu, (void))                                               \
  F(int32_t, aoti_torch_dtype_float32, (void))                                                 \
  F(int32_t, aoti_torch_dtype_float64, (void))                                                 \
  F(int32_t, aoti_torch_dtype_bfloat16, (void))                                                \
  F(int32_t, aoti_torch_dtype_float16, (void))                                                 \
  F(int32_t, aoti_torch_dtype_int32, (void))                                                   \
  F(int32_t, aoti_torch_dtype_uint8, (void))                                                   \
  F(int32_t, aoti_torch_layout_strided, (void))                                                \
  F(int32_t, aoti_torch_get_data_ptr, (torch_tensor * tensor, void **data))                    \
  F(int32_t, aoti_torch_get_dim, (torch_tensor * tensor, int64_t *rank))                       \
  F(int32_t, aoti_torch_get_sizes, (torch_tensor * tensor, int64_t **sizes))                   \
  F(int32_t, aoti_torch_get_strides, (torch_tensor * tensor, int64_t **strides))               \
  F(int32_t, aoti_torch_get_dtype, (torch_tensor * tensor, int32_t *dtype))                    \
  F(int32_t, aoti_torch_get_layout, (torch_tensor * tensor, int32_t *layout))                  \
  F(int32_t, aoti_torch_get_device_type, (torch_tensor * tensor, int32_t *type))               \
  F(int32_t, aoti_torch_empty_strided,                                                         \
    (int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,                \
     int32_t device_type, int32_t device_number, torch_tensor **tensor))                       \
  F(int32_t, aoti_torch_copy_, (torch_tensor * to, torch_tensor * from, int32_t non_blocking)) \
  F(int32_t, aoti_torch_delete_tensor_object, (torch_tensor * tensor))                         \
  F(int32_t, torch_get_num_threads, (uint32_t *threads))

static struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
  TORCH_FUNCTIONS(MEMBER)
#undef MEMBER
  int32_t (*delete_value)(uint64_t *value);  // torch 2.13 and later
  void (*operator_delete)(void *value);      // before that
  void (*throw_runtime_error)(const char *text);
  bool found;
} torch;

static pthread_once_t torch_once = PTHREAD_ONCE_INIT;

static void find_torch_function(void *library, void *function, const char *name) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

static void find_torch(void) {
  void *library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return;
  torch.found = true;
#define FIND(result, name, parameters)              \
  find_torch_function(library, &torch.name, #name); \
  torch.found &= torch.name != NULL;
  TORCH_FUNCTIONS(FIND)
#undef FIND
  find_torch_function(library, &torch.delete_value, "torch_delete_stable_ivalue");
  find_torch_function(library, &torch.operator_delete, "_ZdlPv");
  find_torch_function(library, &torch.throw_runtime_error, "_ZSt21__throw_runtime_errorPKc");
  torch.found &= torch.operator_delete && torch.throw_runtime_error;
}

// ---- what a kernel is given ------------------------------------------------------------------

// The arguments of a call and its results, all of which the kernel owns.
typedef struct torch_call {
  foreign_call f;
  bool saves;  // a forward
  int operands, results;
  torch_tensor **handles;  // by position among the tensors
  foreign_tensor *views;
  const foreign_tensor **tensors;  // NULL: not there
  torch_tensor *offsets, *saved;
  foreign_tensor offsets_view, saved_view;
  uint64_t wanted;  // of a backward
} torch_call;

static torch_tensor *as_tensor(uint64_t value) { return (torch_tensor *)(uintptr_t)value; }

// The tensor of an optional argument, NULL if there is none. The cell that holds it is freed.
static torch_tensor *take_optional(uint64_t value) {
  uint64_t *cell = (uint64_t *)(uintptr_t)value;
  if (!cell) return NULL;
  torch_tensor *tensor = as_tensor(*cell);
  if (torch.delete_value)
    torch.delete_value(cell);
  else
    torch.operator_delete(cell);
  return tensor;
}

static bool is_cotangent(const rec_table *table, const foreign_cursor *at) {
  int32_t use = table_memory(table, at->memory)->forward_use;
  return use != REC_READ && use != REC_READ_OPTIONAL;
}

// Offsets, and of a backward what was saved, stand behind the operands of a forward.
static void take_arguments(torch_call *c, const uint64_t *stack) {
  const rec_table *table = c->f.recurrence->tables[0];
  foreign_cursor at = {0};
  const uint64_t *argument = stack;
  bool behind = c->f.kind == REC_KERNEL_STEP;
  while (foreign_next(table, c->f.kind, &at) && !at.result) {
    if (!behind && is_cotangent(table, &at)) {
      behind = true;
      c->offsets = take_optional(*argument++);
      c->saved = as_tensor(*argument++);
    }
    bool required = table_memory(table, at.memory)->forward_use == REC_READ;
    c->handles[at.position - 1] = required ? as_tensor(*argument) : take_optional(*argument);
    argument++;
  }
  if (c->f.kind == REC_KERNEL_FORWARD) c->offsets = take_optional(*argument);
  if (c->f.kind == REC_KERNEL_BACKWARD) c->wanted = *argument;
}

static foreign_dtype torch_dtype(int32_t dtype) {
  if (dtype == torch.aoti_torch_dtype_float32()) return (foreign_dtype){FOREIGN_FLOAT, 32, 1};
  if (dtype == torch.aoti_torch_dtype_float64()) return (foreign_dtype){FOREIGN_FLOAT, 64, 1};
  if (dtype == torch.aoti_torch_dtype_bfloat16()) return (foreign_dtype){FOREIGN_BFLOAT, 16, 1};
  if (dtype == torch.aoti_torch_dtype_float16()) return (foreign_dtype){FOREIGN_FLOAT, 16, 1};
  if (dtype == torch.aoti_torch_dtype_int32()) return (foreign_dtype){FOREIGN_INT, 32, 1};
  if (dtype == torch.aoti_torch_dtype_uint8()) return (foreign_dtype){FOREIGN_UINT, 8, 1};
  return (foreign_dtype){FOREIGN_OPAQUE, 0, 1};
}

static int32_t dtype_for(foreign_dtype dtype) {
  if (dtype.code == FOREIGN_BFLOAT) return torch.aoti_torch_dtype_bfloat16();
  switch (dtype.bits) {
    case 8: return torch.aoti_torch_dtype_uint8();
    case 16: return torch.aoti_torch_dtype_float16();
    case 32: return torch.aoti_torch_dtype_float32();
    default: return torch.aoti_torch_dtype_float64();
  }
}

static bool torch_view(torch_tensor *tensor, foreign_tensor *view) {
  int64_t rank = 0, *sizes = NULL, *strides = NULL;
  int32_t dtype = 0, layout = 0, device = 0;
  if (torch.aoti_torch_get_layout(tensor, &layout) || layout != torch.aoti_torch_layout_strided() ||
      torch.aoti_torch_get_device_type(tensor, &device) ||
      torch.aoti_torch_get_dtype(tensor, &dtype) || torch.aoti_torch_get_dim(tensor, &rank) ||
      torch.aoti_torch_get_sizes(tensor, &sizes) || torch.aoti_torch_get_strides(tensor, &strides))
    return false;
  *view = (foreign_tensor){
      .device = {device == torch.aoti_torch_device_type_cpu() ? FOREIGN_CPU : FOREIGN_CUDA, 0},
      .rank = (int32_t)rank,
      .dtype = torch_dtype(dtype),
      .shape = sizes,
      .strides = strides};
  return torch.aoti_torch_get_data_ptr(tensor, &view->data) == 0;
}

static torch_tensor *new_dense(int rank, const int64_t *shape, foreign_dtype dtype) {
  int64_t strides[FOREIGN_RANK_MAX], dense = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = dense;
    dense *= shape[i] > 1 ? shape[i] : 1;
  }
  torch_tensor *tensor = NULL;
  torch.aoti_torch_empty_strided(rank, shape, strides, dtype_for(dtype),
                                 torch.aoti_torch_device_type_cpu(), 0, &tensor);
  return tensor;
}

// Puts a dense copy in the place of a tensor.
static bool copy_dense(torch_tensor **tensor, foreign_tensor *view) {
  if (view->rank > FOREIGN_RANK_MAX || view->dtype.code == FOREIGN_OPAQUE ||
      view->dtype.code == FOREIGN_INT)
    return true;
  torch_tensor *copy = new_dense(view->rank, view->shape, view->dtype);
  if (!copy) return false;
  bool good = torch.aoti_torch_copy_(copy, *tensor, 0) == 0;
  torch.aoti_torch_delete_tensor_object(*tensor);
  *tensor = copy;
  return good && torch_view(copy, view);
}

// ---- calls -----------------------------------------------------------------------------------

static bool read_operands(torch_call *c) {
  const rec_table *table = c->f.recurrence->tables[0];
  foreign_cursor at = {0};
  while (foreign_next(table, c->f.kind, &at) && !at.result) {
    int i = at.position - 1;
    if (!c->handles[i]) continue;
    if (!torch_view(c->handles[i], &c->views[i])) return false;
    int leading = foreign_free_axes(c->f.kind, table_memory(table, at.memory));
    if (!foreign_is_dense(&c->views[i], leading) && !copy_dense(&c->handles[i], &c->views[i]))
      return false;
    c->tensors[i] = &c->views[i];
  }
  if (c->offsets) c->f.cu_seqlens = &c->offsets_view;
  if (c->saved) c->f.saved = &c->saved_view;
  return (!c->offsets || torch_view(c->offsets, &c->offsets_view)) &&
         (!c->saved || torch_view(c->saved, &c->saved_view));
}

static bool make_saved(torch_call *c) {
  int64_t bytes = 0;
  if (foreign_saved_bytes(&c->f, &bytes) != REC_OK) return false;
  c->saved = new_dense(1, &bytes, (foreign_dtype){FOREIGN_UINT, 8, 1});
  c->f.saved = &c->saved_view;
  return c->saved && torch_view(c->saved, &c->saved_view);
}

static bool make_results(torch_call *c) {
  foreign_cursor at = {0};
  while (foreign_next(c->f.table, c->f.kind, &at)) {
    if (!at.result) continue;
    int64_t shape[FOREIGN_RANK_MAX] = {0};
    int i = at.position - 1;
    bool wanted = c->f.kind != REC_KERNEL_BACKWARD || c->wanted >> (i - c->operands) & 1;
    int rank = wanted ? foreign_shape(&c->f, at.memory, shape) : 1;
    c->handles[i] =
        new_dense(rank, shape, foreign_stored(c->f.table, table_memory(c->f.table, at.memory)));
    if (!c->handles[i] || !torch_view(c->handles[i], &c->views[i])) return false;
    c->tensors[i] = wanted ? &c->views[i] : NULL;
  }
  return !c->saves || make_saved(c);
}

static bool run_torch_call(torch_call *c) {
  rec_fail(REC_ERROR_INTERNAL, "expected dense tensors on a CPU, found others, or no memory");
  uint32_t threads = 0;
  if (!read_operands(c) || torch.torch_get_num_threads(&threads)) return false;
  c->f.tensors = c->tensors;
  c->f.count = c->operands;
  c->f.threads = threads;
  if (foreign_read(&c->f) != REC_OK || !make_results(c)) return false;
  c->f.count = c->operands + c->results;
  return foreign_run(&c->f) == REC_OK;
}

// Hands the results over, or throws. Frees the arguments.
static void leave_torch_call(torch_call *c, uint64_t *stack, bool good) {
  if (good && c->saves)
    stack[c->results] = (uint64_t)(uintptr_t)c->saved;
  else if (c->saved)
    torch.aoti_torch_delete_tensor_object(c->saved);
  for (int i = 0; i < c->operands + c->results; i++)
    if (good && i >= c->operands)
      stack[i - c->operands] = (uint64_t)(uintptr_t)c->handles[i];
    else if (c->handles[i])
      torch.aoti_torch_delete_tensor_object(c->handles[i]);
  if (c->offsets) torch.aoti_torch_delete_tensor_object(c->offsets);
  if (!good) torch.throw_runtime_error(rec_error());
}

static int count_call_operands(const rec_table *table, int kind, int *results) {
  int operands = 0;
  foreign_cursor at = {0};
  while (foreign_next(table, kind, &at)) operands += !at.result;
  *results = at.position - operands;
  return operands;
}

static int64_t call_kernel(const rec_variants *recurrence, int kind, bool saves, uint64_t *stack) {
  pthread_once(&torch_once, find_torch);
  if (!stack || !torch.found) return torch.found;
  torch_call c = {.f = {.recurrence = recurrence, .kind = kind}, .saves = saves};
  c.operands = count_call_operands(recurrence->tables[0], kind, &c.results);
  int count = c.operands + c.results;
  torch_tensor *handles[count];
  foreign_tensor views[count];
  const foreign_tensor *tensors[count];
  memset(handles, 0, sizeof handles);
  memset(tensors, 0, sizeof tensors);
  c.handles = handles;
  c.views = views;
  c.tensors = tensors;
  take_arguments(&c, stack);
  leave_torch_call(&c, stack, run_torch_call(&c));
  return 1;
}

int64_t rec_forward_torch(const rec_variants *recurrence, uint64_t *stack) {
  return call_kernel(recurrence, REC_KERNEL_FORWARD, false, stack);
}

int64_t rec_save_torch(const rec_variants *recurrence, uint64_t *stack) {
  return call_kernel(recurrence, REC_KERNEL_FORWARD, true, stack);
}

int64_t rec_step_torch(const rec_variants *recurrence, uint64_t *stack) {
  return call_kernel(recurrence, REC_KERNEL_STEP, false, stack);
}

int64_t rec_backward_torch(const rec_variants *recurrence, uint64_t *stack) {
  return call_kernel(recurrence, REC_KERNEL_BACKWARD, false, stack);
}
