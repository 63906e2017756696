// --emit=gpu-cost: a linked library runs its GPU code in the executor, on a small call, and tells
// what that costs.
//
//   gla_forward(batch 1, time 128), gla_forward(batch 1, time 256)   ->   what a step costs, and what stands around the steps
//
// Inputs are small numbers of both signs. An axis that is known at run time has one entry where
// instances go over it, as many as a block takes where threads have an entry each, else
// UNKNOWN_SIZE.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/abi/gpu_model.h"
#include "compiler/abi/launch.h"
#include "compiler/abi/library.h"
#include "compiler/abi/simt_options.h"
#include "compiler/artifact/abi.h"
#include "compiler/base/ice.h"

enum { SHORT_TIME = 128, LONG_TIME = 256, UNKNOWN_SIZE = 64 };

typedef int entry_function(const void *arguments, const rec_launch *launch);
typedef int sizes_function(const void *arguments, rec_sizes *sizes);

typedef struct cost_run {
  arena *a;
  const artifact_recurrence *r;
  gpu_machine device;
  entry_function *forward, *backward;
  sizes_function *sizes;
  const char *(*error)(void);
  int64_t axis_sizes[TYPED_MAX_AXES];
  uint64_t state;  // of made-up numbers
} cost_run;

// ---- sizes -----------------------------------------------------------------------------------

static const recurrence_kernels *kernels_of(const cost_run *c) {
  const gpu_forms *forms = &c->r->gpu;
  const recurrence_kernels *own[] = {[REC_GPU_LARGE] = forms->large,
                                     [REC_GPU_GROUPS] = forms->warpgroups};
  return own[c->device.number] ? own[c->device.number] : forms->small;
}

static int64_t made_up_size(const cost_run *c, int axis) {
  const recurrence_kernels *all = kernels_of(c);
  int64_t size = UNKNOWN_SIZE;
  vec_each(const kernel, one, all->kernels) {
    for (int i = 0; i < one->grid_count; i++)
      if (one->grid_axes[i] == axis) size = 1;
    if (one->lane_axis == axis && size != 1) size = one->lane_block;
  }
  return size;
}

static void choose_cost_sizes(cost_run *c) {
  const typed_body *body = c->r->abi->body;
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    int64_t size = axis->size != TYPED_RUNTIME_SIZE ? axis->size : made_up_size(c, i);
    if (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr)
      size = (int64_t)typed_axis_value(body, i, c->axis_sizes);
    c->axis_sizes[i] = size < axis->least ? axis->least : size;
  }
}

// ---- tensors ---------------------------------------------------------------------------------

static int64_t memory_numbers(const cost_run *c, const abi_memory *m, int64_t time) {
  int axes[TYPED_MAX_AXES], count = abi_axes(c->r->abi, m, axes);
  int64_t numbers = abi_factor(c->r->abi, m) * (m->token ? time : 1);
  for (int i = 0; i < count; i++) numbers *= c->axis_sizes[axes[i]];
  return numbers;
}

static float draw_argument(cost_run *c) {
  c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return 0.1f * ((float)(c->state >> 40) * 0x1p-23f - 1);
}

static uint16_t as_16_bits(float x, number_type type) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (type == NUMBER_BF16) return (uint16_t)(bits >> 16);
  int exponent = (int)(bits >> 23 & 255) - 112;  // f16: numbers below its normal ones are 0
  return (uint16_t)(bits >> 16 & 0x8000) |
         (uint16_t)(exponent > 0 ? (uint32_t)exponent << 10 | (bits >> 13 & 1023) : 0);
}

static void *made_up_tensor(cost_run *c, const abi_memory *m, int64_t time) {
  number_type type = abi_number_type(m, c->r->variant->dtype);
  int64_t numbers = memory_numbers(c, m, time);
  bool narrow = number_is_narrow(type);
  void *memory =
      aligned_alloc(REC_ALIGNMENT, ((size_t)numbers * 4 / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  if (!memory) ICE("gpu cost", "no memory for tensors");
  for (int64_t i = 0; i < numbers; i++) {
    float x = draw_argument(c);
    if (narrow)
      ((uint16_t *)memory)[i] = as_16_bits(x, type);
    else
      ((float *)memory)[i] = x;
  }
  return memory;
}

static void *room_of(int64_t bytes) {
  void *memory =
      bytes ? aligned_alloc(REC_ALIGNMENT, ((size_t)bytes / REC_ALIGNMENT + 1) * REC_ALIGNMENT)
            : NULL;
  if (bytes && !memory) ICE("gpu cost", "no memory for a workspace");
  return memory;
}

// The bytes of NAME_arguments, a word for each field.
static void fill_cost_arguments(cost_run *c, int64_t time, int64_t *words) {
  const abi_recurrence *abi = c->r->abi;
  c->state = 1;
  vec_each(const abi_field, f, abi->fields) {
    int64_t *word = &words[f->offset / 8];
    *word = 0;
    if (f->kind == ABI_SIZE) *word = abi->arguments_size;
    if (f->kind == ABI_BATCH) *word = 1;
    if (f->kind == ABI_TIME) *word = time;
    if (f->kind == ABI_AXIS) *word = c->axis_sizes[f->index];
    if (f->kind == ABI_DATA)
      *word = (int64_t)(uintptr_t)made_up_tensor(c, &abi->memories.items[f->index], time);
  }
}

static void free_arguments(const cost_run *c, const int64_t *words) {
  vec_each(const abi_field, f, c->r->abi->fields)
    if (f->kind == ABI_DATA) free((void *)(uintptr_t)words[f->offset / 8]);
}

// ---- runs ------------------------------------------------------------------------------------

static bool has_few(const cost_run *c, kernel_kind kind) {
  const recurrence_kernels *all = kernels_of(c);
  for (int i = 0; i < all->kernels.count; i++)
    if (all->kernels.items[i].kind == kind && all->kernels.items[i].gpu.few) return true;
  return false;
}

// Runs forward and backward, or those that have a second form for few instances.
static int run_form(const cost_run *c, const int64_t *words, rec_launch launch, bool few) {
  int number = c->device.number + (few ? REC_SIMT_FEW : REC_SIMT_USUAL);
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = REC_DEVICE_SIMT,
                     .device_number = number,
                     .time_parts = 1};
  int status = c->sizes(words, &sizes);
  launch.device_number = number;
  launch.workspace_bytes = sizes.workspace;
  if (!status) launch.workspace = room_of(sizes.workspace);
  if (!status && (!few || has_few(c, KERNEL_FORWARD))) status = c->forward(words, &launch);
  if (!status && (!few || has_few(c, KERNEL_BACKWARD))) status = c->backward(words, &launch);
  free(launch.workspace);
  return status;
}

// NULL, or why the code did not run.
static const char *run_length(cost_run *c, int64_t time, simt_cost *cost) {
  int64_t *words = ARENA_ARRAY(c->a, int64_t, c->r->abi->fields.count);
  fill_cost_arguments(c, time, words);
  rec_simt_options options = {.size = sizeof options, .cost = cost};
  rec_sizes sizes = {.size = sizeof sizes,
                     .device_kind = REC_DEVICE_SIMT,
                     .device_number = c->device.number,
                     .time_parts = 1};
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .abi_minor = REC_ABI_MINOR,
                       .device_kind = REC_DEVICE_SIMT,
                       .stream = &options,
                       .time_parts = 1};
  int status = c->sizes(words, &sizes);
  launch.saved_bytes = sizes.saved;
  if (!status) launch.saved = room_of(sizes.saved);
  for (int few = 0; few < 2 && !status; few++) status = run_form(c, words, launch, few);
  free(launch.saved);
  free_arguments(c, words);
  return status ? arena_strdup(c->a, c->error()) : NULL;
}

static void free_cost(simt_cost *cost) {
  free(cost->places);
  free(cost->costs);
}

static void *library_symbol(void *handle, arena *a, const char *symbol, const char *behind) {
  void *found = dlsym(handle, arena_printf(a, "%s%s", symbol, behind));
  if (!found) ICE("gpu cost", "the library has no %s%s", symbol, behind);
  return found;
}

static const char *print_recurrence_cost(cost_run *c, void *handle, artifact_codes codes,
                                         FILE *out) {
  const char *symbol = c->r->abi->symbol;
  c->forward = (entry_function *)(uintptr_t)library_symbol(handle, c->a, symbol, "_forward");
  c->backward = (entry_function *)(uintptr_t)library_symbol(handle, c->a, symbol, "_backward");
  c->sizes = (sizes_function *)(uintptr_t)library_symbol(handle, c->a, symbol, "_sizes");
  choose_cost_sizes(c);
  simt_cost before = {.speed = gpu_speed_of(&c->device)}, cost = before;
  const char *wrong = run_length(c, SHORT_TIME, &before);
  if (!wrong) wrong = run_length(c, LONG_TIME, &cost);
  gpu_model_request request = {.device = &c->device,
                               .cost = &cost,
                               .before = &before,
                               .steps = LONG_TIME,
                               .before_steps = SHORT_TIME,
                               .codes = codes.items,
                               .code_count = codes.count};
  if (!wrong) gpu_model_print(out, &request);
  free_cost(&before);
  free_cost(&cost);
  return wrong;
}

// The library in memory, loaded; NULL: `wrong` says why not.
static void *loaded(arena *a, link_object linked, const char **wrong) {
  int file = memfd_create("gpu-cost", MFD_CLOEXEC);
  bool written = file >= 0 && write(file, linked.bytes, linked.size) == (ssize_t)linked.size;
  void *handle =
      written ? dlopen(arena_printf(a, "/proc/self/fd/%d", file), RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle)
    *wrong = arena_printf(a, "cannot load the code that was made: %s",
                          written ? dlerror() : "no file in memory");
  if (file >= 0) close(file);
  return handle;
}

const char *artifact_gpu_cost(arena *a, const artifact *library, link_object linked,
                              const codegen_gpu_object *object, FILE *out) {
  const char *wrong = NULL, *separator = "";
  void *handle = loaded(a, linked, &wrong);
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT && !wrong; target++) {
    if (target == GPU_SIMT || !(library->gpu_targets >> target & 1)) continue;
    artifact_codes codes = artifact_machine_codes(a, object, target);
    for (int i = 0; i < library->recurrences.count && !wrong; i++) {
      cost_run c = {
          .a = a, .r = &library->recurrences.items[i], .device = machine_device_of(target)};
      c.error =
          (const char *(*)(void))(uintptr_t)library_symbol(handle, a, library->prefix, "rec_error");
      fputs(separator, out);
      wrong = print_recurrence_cost(&c, handle, codes, out);
      separator = "\n";
    }
  }
  if (handle) dlclose(handle);
  return wrong;
}
