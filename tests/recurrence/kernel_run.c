#include "tests/recurrence/kernel_run.h"

#include <dlfcn.h>
#include <math.h>

#include "compiler/abi/frame.h"
#include "compiler/plan/kernel_plan.h"
#include "tests/unit/unit.h"

// ---- a library of kernels --------------------------------------------------------------------

library kernel_library(arena *a, const recurrence_kernels *kernels, codegen_options options) {
  host_plan_kernels(a, kernels->kernels.items, kernels->kernels.count, codegen_clones(&options),
                    options.dtype);
  const kernel **list = ARENA_ARRAY(a, const kernel *, kernels->kernels.count);
  for (int i = 0; i < kernels->kernels.count; i++) list[i] = &kernels->kernels.items[i];
  codegen_input input = {.kernels = list, .kernel_count = kernels->kernels.count};
  // the kernels are hidden symbols: a table of their addresses leads to them
  VEC(codegen_address)
  addresses = {0};
  for (int i = 0; i < kernels->kernels.count; i++) {
    codegen_kernel k = codegen_describe(a, list[i], options);
    for (int clone = 0; clone < CLONE_X86_COUNT; clone++) {
      if (!(codegen_clones(&options) >> clone & 1)) continue;
      int64_t offset = 8 * (i * CLONE_X86_COUNT + clone);
      vec_push(a, &addresses, (codegen_address){offset, k.symbols[clone]});
    }
  }
  int64_t size = 8 * CLONE_X86_COUNT * kernels->kernels.count;
  codegen_blob table = {
      "kernel_table", arena_alloc(a, (size_t)size), size, addresses.items, addresses.count, true};
  input.blobs = &table;
  input.blob_count = 1;
  library lib = {.object = codegen_compile(a, input, options)};
  lib.handle = load_objects(a, lib.object->parts.items, lib.object->parts.count);
  return lib;
}

// ---- running kernels on the tensors of a trial -----------------------------------------------

// The numbers that are saved of a chunk.
static int64_t saved_elements(const library *lib, const trial *t) {
  int64_t most = 0;
  for (int i = 0; i < lib->object->kernels.count; i++) {
    const codegen_bytes *kept = &lib->object->kernels.items[i].kept;
    int64_t numbers = 0;
    for (int k = 0; k < kept->terms.count; k++) {
      int64_t product = kept->terms.items[k].coefficient;
      for (int axis = 0; axis < t->recurrence->body.axes.count; axis++)
        if (axis_in(kept->terms.items[k].axes, axis)) product *= t->run.axis_sizes[axis];
      numbers += product;
    }
    if (numbers > most) most = numbers;
  }
  return most + codegen_saved_elements(t->recurrence, t->run.axis_sizes);
}

launch launch_new(arena *a, const library *lib, codegen_clone clone, trial *t, bool f64,
                  bool bare) {
  launch l = {.a = a, .lib = lib, .clone = clone, .t = t, .f64 = f64, .bare = bare};
  int64_t line = REC_SAVED_ALIGNMENT / 4;
  l.saved_elements = (saved_elements(lib, t) + line - 1) / line * line;
  l.saved = arena_alloc(a, (size_t)(l.saved_elements * 2 * (t->run.time + 1) + line) * 8);
  l.saved = (char *)l.saved + (REC_SAVED_ALIGNMENT - (uintptr_t)l.saved % REC_SAVED_ALIGNMENT);
  return l;
}

void launch_forget_saved(launch *l) {
  memset(l->saved, 0, (size_t)(l->saved_elements * 2 * (l->t->run.time + 1)) * 8);
}

static int64_t step_numbers(const launch *l, const codegen_slot *slot, int64_t numbers) {
  int64_t copies = 1;
  if (slot->per_batch) copies *= l->t->run.batch;
  if (slot->time) copies *= l->t->run.time;
  return copies ? numbers / copies : 0;
}

static void *to_kernel(const launch *l, const double *from, int64_t n) {
  char *memory = arena_alloc(l->a, (size_t)(n + 1) * 8);
  for (int64_t i = 0; i < n; i++)
    if (l->f64)
      ((double *)memory)[i] = from[i];
    else
      ((float *)memory)[i] = (float)from[i];
  return memory;
}

static void from_kernel(const launch *l, const void *from, double *to, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] = l->f64 ? ((const double *)from)[i] : ((const float *)from)[i];
}

static int64_t instances_of(const kernel *k, const int64_t *sizes) {
  int64_t n = 1;
  for (int i = 0; i < k->grid_count; i++) n *= sizes[k->grid_axes[i]];
  if (k->lane_axis >= 0) n *= (sizes[k->lane_axis] + k->lane_block - 1) / k->lane_block;
  return n;
}

// Bytes behind the scratch that no kernel may write.
enum { BEHIND = 1024 };

static int64_t scratch_bytes(const codegen_bytes *scratch, int64_t instances,
                             const int64_t *sizes) {
  int64_t bytes = scratch->constant + scratch->per_instance * instances;
  for (int i = 0; i < scratch->terms.count; i++) {
    int64_t term = scratch->terms.items[i].coefficient;
    for (int axis = 0; axis < TYPED_MAX_AXES; axis++)
      if (axis_in(scratch->terms.items[i].axes, axis)) term *= sizes[axis];
    bytes += term;
  }
  return bytes;
}

void launch_kernel(launch *l, kernel_kind kind) {
  const codegen_kernel *k = NULL;
  int number = 0;
  for (int i = 0; i < l->lib->object->kernels.count; i++)
    if (l->lib->object->kernels.items[i].kernel->kind == kind)
      k = &l->lib->object->kernels.items[i], number = i;
  assert_non_null(k);
  reference_run *run = &l->t->run;
  rec_slot *slots = ARENA_ARRAY(l->a, rec_slot, k->slots.count);
  for (int i = 0; i < k->slots.count; i++) {
    const codegen_slot *slot = &k->slots.items[i];
    int64_t numbers;
    reference_tensor *tensor = trial_tensor(l->t, slot, &numbers);
    int64_t step = step_numbers(l, slot, numbers);
    slots[i].time_stride = slot->time ? step : 0;
    slots[i].batch_stride = slot->per_batch ? (slot->time ? step * run->time : step) : 0;
    bool absent = l->bare && (slot->role == TILE_STATE || slot->role == TILE_D_NEXT_STATE);
    if (kind == KERNEL_STATES && slot->written) absent = true;
    if (absent) continue;
    slots[i].data = slot->written ? arena_alloc(l->a, (size_t)(numbers + 1) * 8)
                                  : to_kernel(l, tensor->data, numbers);
    if (slot->written && !slot->accumulated) memset(slots[i].data, 0xFF, (size_t)(numbers + 1) * 8);
  }
  rec_frame frame = {run->batch, run->time, run->axis_sizes, slots, NULL, 0, 0, 1};
  if (k->reads_saved || k->writes_saved) {
    frame.saved = l->saved;
    frame.saved_chunk_stride = l->saved_elements;
    frame.saved_batch_stride = l->saved_elements * (run->time / k->chunk + 1);
  }
  int64_t instances = instances_of(k->kernel, run->axis_sizes);
  int64_t bytes = scratch_bytes(&k->scratch, instances, run->axis_sizes);
  unsigned char *scratch = aligned_alloc(64, (size_t)(bytes + BEHIND + 63) / 64 * 64);
  memset(scratch, 0xFF, (size_t)bytes + BEHIND);
  void **table = dlsym(l->lib->handle, "kernel_table");
  assert_non_null(table);
  rec_kernel_function call;
  memcpy(&call, &table[number * CLONE_X86_COUNT + (int)l->clone], sizeof call);
  int64_t half = instances / 2;  // two calls: instances do not depend on their company
  for (int64_t b = 0; b < run->batch; b++) {
    if (half) call(&frame, b, 0, half, scratch);
    if (instances > half) call(&frame, b, half, instances, scratch);
  }
  for (int i = 0; i < BEHIND; i++) assert_int_equal(scratch[bytes + i], 0xFF);
  free(scratch);
  for (int i = 0; i < k->slots.count; i++) {
    int64_t numbers;
    reference_tensor *tensor = trial_tensor(l->t, &k->slots.items[i], &numbers);
    if (k->slots.items[i].written && slots[i].data)
      from_kernel(l, slots[i].data, tensor->data, numbers);
  }
}

// ---- comparison ------------------------------------------------------------------------------

static double difference(const double *x, const double *y, int64_t count) {
  double scale = 1, worst = 0;
  for (int64_t i = 0; i < count; i++) scale = fmax(scale, fabs(x[i]));
  for (int64_t i = 0; i < count; i++) {
    double d = fabs(x[i] - y[i]) / scale;
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return worst;
}

void assert_equal_runs(trial *t, trial *u, double allowed, const char *what) {
  const typed_body *body = &t->recurrence->body;
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *tensor = &body->tensors.items[i];
    int64_t n = t->tensor_numbers[i];
    const struct {
      const char *prefix;
      const double *x, *y;
    } pairs[] = {
        {"", t->run.tensors[i].data, u->run.tensors[i].data},
        {"d.", t->run.d_tensors[i].data, u->run.d_tensors[i].data},
        {"hT.", t->run.final_states[i].data, u->run.final_states[i].data},
        {"d.h0.", t->run.d_initial_states[i].data, u->run.d_initial_states[i].data},
    };
    for (int k = 0; k < 4; k++) {
      if (k >= 2 && tensor->kind != TENSOR_STATE) continue;
      if (!pairs[k].x || !pairs[k].y) continue;
      double error = difference(pairs[k].x, pairs[k].y, n);
      if (!(error <= allowed))
        fail_msg("%s: %s%s differs by %g", what, pairs[k].prefix, tensor->name, error);
    }
  }
  for (int i = 0; i < body->lags.count; i++) {
    double error =
        difference(t->run.final_lags[i].data, u->run.final_lags[i].data, t->lag_numbers[i]);
    error = fmax(error, difference(t->run.d_initial_lags[i].data, u->run.d_initial_lags[i].data,
                                   t->lag_numbers[i]));
    if (!(error <= allowed))
      fail_msg("%s: lag buffer %s differs by %g", what, body->lags.items[i].name, error);
  }
}
