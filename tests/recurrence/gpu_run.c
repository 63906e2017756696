#include "tests/recurrence/gpu_run.h"

#include <dlfcn.h>

#include "compiler/abi/frame.h"
#include "compiler/abi/gpu_frame.h"
#include "compiler/abi/library.h"
#include "runtime/support/narrow.h"
#include "tests/recurrence/load.h"
#include "tests/unit/unit.h"

typedef void gpu_function(const void *);
typedef simt_answer run_function(const simt_launch *, int64_t, int64_t, simt_counts *, char *);

// ---- a library of kernels --------------------------------------------------------------------

// The kernels' addresses, then that of rec_gpu_sum and of simt_run.
static link_object table_object(arena *a, const codegen_gpu_object *object) {
  VEC(codegen_address) addresses = {0};
  for (int i = 0; i < object->kernels.count; i++) {
    const char *symbol = object->kernels.items[i].symbol;
    assert_non_null(symbol);
    vec_push(a, &addresses, (codegen_address){8 * i, symbol});
  }
  vec_push(a, &addresses, (codegen_address){8 * object->kernels.count, "rec_gpu_sum"});
  vec_push(a, &addresses, (codegen_address){8 * object->kernels.count + 8, "simt_run"});
  int64_t size = 8 * addresses.count;
  codegen_blob table = {
      "kernel_table", arena_alloc(a, (size_t)size), size, addresses.items, addresses.count, true};
  codegen_input input = {.blobs = &table, .blob_count = 1};
  codegen_options options = {.level = 1, .dtype = NUMBER_F32, .clones = 1u << CLONE_V2};
  return codegen_compile(a, input, options)->parts.items[0];
}

gpu_library gpu_library_load(arena *a, const recurrence_kernels *kernels,
                             codegen_gpu_options options) {
  const kernel **list = ARENA_ARRAY(a, const kernel *, kernels->kernels.count);
  for (int i = 0; i < kernels->kernels.count; i++) list[i] = &kernels->kernels.items[i];
  options.targets = 1u << GPU_SIMT;
  gpu_library lib = {.dtype = options.dtype,
                     .object = codegen_gpu_compile(a, list, kernels->kernels.count, options)};
  link_object objects[] = {lib.object->images.items[0].object, table_object(a, lib.object),
                           embedded_object("simt"), embedded_object("support")};
  lib.handle = load_objects(a, objects, 4);
  return lib;
}

// ---- running kernels on the tensors of a trial -----------------------------------------------

gpu_launch gpu_launch_new(arena *a, const gpu_library *lib, trial *t, bool bare) {
  gpu_launch l = {.a = a, .lib = lib, .t = t, .bare = bare, .blocks = 3, .seed = 1};
  l.saved_elements = codegen_saved_elements(t->recurrence, t->run.axis_sizes);
  l.saved = arena_alloc(a, (size_t)(l.saved_elements * (t->entries + 1) * (t->run.time + 2)) * 4);
  return l;
}

void gpu_launch_forget_saved(gpu_launch *l) {
  memset(l->saved, 0xFF,
         (size_t)(l->saved_elements * (l->t->entries + 1) * (l->t->run.time + 2)) * 4);
}

static int stored_as(number_type dtype, const codegen_slot *slot) {
  if (!slot->narrow || !number_is_narrow(dtype)) return REC_STORED_NUMBER;
  return dtype == NUMBER_BF16 ? REC_STORED_BF16 : REC_STORED_F16;
}

static int bytes_of(int stored) { return stored == REC_STORED_NUMBER ? 4 : 2; }

static void *to_kernel(arena *a, const double *from, int64_t n, int stored, int shift) {
  float *memory = arena_alloc(a, (size_t)(n + 4 + shift) * 4);
  memory = (float *)((char *)memory + shift * bytes_of(stored));
  for (int64_t i = 0; i < n; i++) {
    if (stored == REC_STORED_NUMBER) {
      memory[i] = (float)from[i];
    } else {
      float number = (float)from[i];
      rec_narrow((uint16_t *)memory + i, &number, 1, stored);
    }
  }
  return memory;
}

static void from_kernel(const void *from, double *to, int64_t n, int stored) {
  for (int64_t i = 0; i < n; i++)
    to[i] = stored == REC_STORED_NUMBER ? (double)((const float *)from)[i]
                                        : (double)rec_widen(((const uint16_t *)from)[i], stored);
}

static int64_t lane_blocks(const kernel *k, const int64_t *sizes) {
  return k->lane_axis < 0 ? 1 : (sizes[k->lane_axis] + k->lane_block - 1) / k->lane_block;
}

static int64_t scratch_bytes(const codegen_bytes *scratch, const int64_t *sizes) {
  int64_t bytes = scratch->constant;
  for (int i = 0; i < scratch->terms.count; i++) {
    int64_t term = scratch->terms.items[i].coefficient;
    for (int axis = 0; axis < TYPED_MAX_AXES; axis++)
      if (axis_in(scratch->terms.items[i].axes, axis)) term *= sizes[axis];
    bytes += term;
  }
  return (bytes + 127) / 128 * 128;
}

typedef struct call {
  gpu_launch *l;
  const codegen_gpu_kernel *k;
  int64_t slices;
  unsigned char *parameter;
  rec_gpu_slot *slots;
} call;

static int64_t copies_of(const call *c, const codegen_slot *slot) {
  const kernel *k = c->k->base.kernel;
  const int64_t *sizes = c->l->t->run.axis_sizes;
  int64_t copies = slot->per_batch ? 1 : c->l->t->entries;
  if (!slot->time) copies *= c->slices;
  for (int i = 0; i < k->grid_count; i++)
    if (axis_in(slot->summed, k->grid_axes[i])) copies *= sizes[k->grid_axes[i]];
  if (k->lane_axis >= 0 && axis_in(slot->summed, k->lane_axis)) copies *= lane_blocks(k, sizes);
  return copies;
}

static void fill_slot(call *c, int i, kernel_kind kind) {
  gpu_launch *l = c->l;
  const codegen_slot *slot = &c->k->base.slots.items[i];
  rec_gpu_slot *s = &c->slots[i];
  reference_run *run = &l->t->run;
  int64_t numbers, step;
  reference_tensor *tensor = trial_tensor(l->t, slot, &numbers);
  int64_t entries = slot->time ? run->batch * run->time : slot->per_batch ? l->t->entries : 1;
  step = entries ? numbers / entries : 0;
  s->time_stride = slot->time ? step : 0;
  s->batch_stride = !slot->per_batch ? 0
                    : !slot->time    ? step
                    : l->cu_seqlens  ? 0
                                     : step * run->time;
  s->copy_stride = numbers;
  bool absent = l->bare && (slot->role == TILE_STATE || slot->role == TILE_D_NEXT_STATE);
  if (kind == KERNEL_STATES && slot->written) absent = true;
  if (absent) return;
  int stored = stored_as(l->lib->dtype, slot);
  if (slot->written) {
    int64_t all = numbers * (slot->accumulated ? copies_of(c, slot) : 1);
    s->data = arena_alloc(l->a, (size_t)(all + 4 + l->shift) * 4);
    memset(s->data, 0xFF, (size_t)(all + 4 + l->shift) * 4);
    s->data = (char *)s->data + l->shift * bytes_of(stored);
  } else {
    s->data = to_kernel(l->a, tensor->data, numbers, stored, l->shift);
  }
}

static void run_function_of(call *c, int64_t items, int number, int threads,
                            const void *parameter) {
  gpu_launch *l = c->l;
  void **table = dlsym(l->lib->handle, "kernel_table");
  assert_non_null(table);
  gpu_function *function;
  run_function *run;
  memcpy(&function, &table[number], sizeof function);
  memcpy(&run, &table[l->lib->object->kernels.count + 1], sizeof run);
  simt_launch launch = {.kernel = c->k->symbol,
                        .function = function,
                        .parameters = parameter,
                        .blocks = items < l->blocks ? items : l->blocks,
                        .threads = threads,
                        .shared_bytes = c->k->shared_bytes,
                        .seed = l->seed};
  char message[SIMT_MESSAGE] = "";
  if (run(&launch, 0, launch.blocks, &l->counts, message) != SIMT_DONE) fail_msg("%s", message);
}

// rec_gpu_sum brings the copies together, dense.
static void sum_copies(call *c, int i, void *to, int64_t numbers) {
  const codegen_slot *slot = &c->k->base.slots.items[i];
  rec_gpu_sums *sums = arena_alloc(c->l->a, sizeof *sums);
  *sums = (rec_gpu_sums){
      .list = {.count = 1, .copies = c->slots[i].data, .batch = 1, .entries = 1, .steps = 1}};
  sums->tasks[0] = (rec_gpu_sum_task){
      .to = to, .numbers = (uint32_t)numbers, .copies = (uint32_t)copies_of(c, slot) & 0xfffffff};
  run_function_of(c, 2, c->l->lib->object->kernels.count, REC_GPU_SUM_THREADS, sums);
}

static void read_back(call *c, int i) {
  const codegen_slot *slot = &c->k->base.slots.items[i];
  int64_t numbers;
  reference_tensor *tensor = trial_tensor(c->l->t, slot, &numbers);
  if (!slot->written || !c->slots[i].data || !numbers) return;
  void *data = c->slots[i].data;
  if (slot->accumulated) {
    data = arena_alloc(c->l->a, (size_t)(numbers + 4) * 4);
    sum_copies(c, i, data, numbers);
  }
  from_kernel(data, tensor->data, numbers, stored_as(c->l->lib->dtype, slot));
}

static int64_t items_of(const call *c) {
  const kernel *k = c->k->base.kernel;
  const int64_t *sizes = c->l->t->run.axis_sizes;
  int64_t items = c->l->t->entries * c->slices * lane_blocks(k, sizes);
  for (int i = 0; i < k->grid_count; i++) items *= sizes[k->grid_axes[i]];
  return items;
}

static void fill_frame(call *c) {
  gpu_launch *l = c->l;
  reference_run *run = &l->t->run;
  int64_t chunk = c->k->base.kernel->chunk,
          scratch = scratch_bytes(&c->k->base.scratch, run->axis_sizes);
  rec_gpu_frame *frame = (void *)c->parameter;
  *frame = (rec_gpu_frame){
      .entries = l->t->entries,
      .time = run->time,
      .cu_seqlens = l->cu_seqlens,
      .blocks = items_of(c),
      .slices = c->slices,
      .slice_steps = ((run->time + c->slices - 1) / c->slices + chunk - 1) / chunk * chunk};
  if (c->k->base.reads_saved || c->k->base.writes_saved) {
    frame->saved = l->saved;
    frame->saved_chunk_stride = l->saved_elements;
    frame->saved_entry_stride = l->saved_elements * (run->time / chunk + 1);
  }
  frame->scratch_stride = scratch;
  frame->scratch = aligned_alloc(128, (size_t)(scratch * l->blocks + 128));
  memset(frame->scratch, 0xFF, (size_t)(scratch * l->blocks + 128));
}

void gpu_launch_kernel(gpu_launch *l, kernel_kind kind) {
  call c = {.l = l};
  int number = 0;
  for (int i = 0; i < l->lib->object->kernels.count; i++)
    if (l->lib->object->kernels.items[i].base.kernel->kind == kind)
      c.k = &l->lib->object->kernels.items[i], number = i;
  assert_non_null(c.k);
  c.slices = c.k->base.time_splits ? 2 : 1;
  c.parameter = arena_alloc(l->a, (size_t)c.k->parameter_bytes);
  int64_t axes = l->t->recurrence->body.axes.count;
  c.slots = (void *)(c.parameter + sizeof(rec_gpu_frame) + 8 * (size_t)axes);
  memcpy(c.parameter + sizeof(rec_gpu_frame), l->t->run.axis_sizes, 8 * (size_t)axes);
  for (int i = 0; i < c.k->base.slots.count; i++) fill_slot(&c, i, kind);
  fill_frame(&c);
  run_function_of(&c, items_of(&c), number, c.k->threads, c.parameter);
  free(((rec_gpu_frame *)(void *)c.parameter)->scratch);
  for (int i = 0; i < c.k->base.slots.count; i++) read_back(&c, i);
}
