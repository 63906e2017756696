// The support code of compiled libraries, driven by kernels written here by hand: how work is cut,
// what is summed, what is refused. The kernels follow frame.h as generated ones do.
//
//   recurrence f(G, K = 3) {
//     input x[G,K], k[K]   param a[G], c[K]   state h[G,K], n[K]   output y[G,K]
//     h = a * h[t-1] + k * x      n = n[t-1] + k      y = h + c + n
//   }
#include <sys/wait.h>

#include "runtime/support/alone.c"
#include "runtime/support/begin.c"
#include "runtime/support/call.c"
#include "runtime/support/cpu.c"
#include "runtime/support/delay.c"
#include "runtime/support/entry.c"
#include "runtime/support/error.c"
#include "runtime/support/fail.c"
#include "runtime/support/fold.c"
#include "runtime/support/fold_calls.c"
#include "runtime/support/fold_step.c"
#include "runtime/support/gpu.c"
#include "runtime/support/gpu_cuda.c"
#include "runtime/support/gpu_segment.c"
#include "runtime/support/gpu_simt.c"
#include "runtime/support/gpu_sums.c"
#include "runtime/support/narrow.c"
#include "runtime/support/pool.c"
#include "runtime/support/promise.c"
#include "runtime/support/segment.c"
#include "runtime/support/split.c"
#include "runtime/support/stage.c"
#include "runtime/support/stage_sums.c"
#include "runtime/support/summary.c"
#include "runtime/support/window.c"

// After the code under test, whose parameters are called like types of the compiler.
#include "compiler/artifact/tables.h"

#include "tests/unit/unit.h"

enum { G, K };
enum { X, KEY, A, C, H, N, Y, TENSORS };
enum { CHUNK = 4 };

// ---- the kernels -----------------------------------------------------------------------------

enum {
  SLOT_X,
  SLOT_KEY,
  SLOT_A,
  SLOT_C,
  SLOT_H0,
  SLOT_N0,
  SLOT_Y,
  SLOT_HT,
  SLOT_NT,
  FORWARD_SLOTS
};
enum {
  BACK_X = 0,
  BACK_KEY,
  BACK_A,
  BACK_DY,
  BACK_DHT,
  BACK_DNT,
  BACK_DX,
  BACK_DKEY,
  BACK_DA,
  BACK_DC,
  BACK_DH0,
  BACK_DN0,
  BACKWARD_SLOTS
};

static float read_at(const rec_frame *f, int slot, int64_t batch, int64_t step, int64_t index) {
  const rec_slot *s = &f->slots[slot];
  return s->data ? ((float *)s->data)[batch * s->batch_stride + step * s->time_stride + index] : 0;
}

static void write_at(const rec_frame *f, int slot, int64_t batch, int64_t step, int64_t index,
                     float value, bool add) {
  const rec_slot *s = &f->slots[slot];
  if (!s->data) return;
  float *place = (float *)s->data + batch * s->batch_stride + step * s->time_stride + index;
  *place = add ? *place + value : value;
}

static float *saved_at(const rec_frame *f, int64_t batch, int64_t chunk) {
  return (float *)f->saved + batch * f->saved_batch_stride + chunk * f->saved_chunk_stride;
}

static void forward_one(const rec_frame *f, int64_t batch, int64_t first, int64_t last,
                        void *scratch) {
  int64_t keys = f->axis_size[K];
  float *h = scratch, *n = h + keys;
  for (int64_t g = first; g < last; g++) {
    for (int64_t k = 0; k < keys; k++) {
      h[k] = read_at(f, SLOT_H0, batch, 0, g * keys + k);
      n[k] = read_at(f, SLOT_N0, batch, 0, k);
    }
    for (int64_t t = 0; t < f->time; t++) {
      if (f->saved && t % CHUNK == 0) {
        float *saved = saved_at(f, batch, t / CHUNK);
        for (int64_t k = 0; k < keys; k++) saved[g * keys + k] = h[k];
      }
      for (int64_t k = 0; k < keys; k++) {
        float key = read_at(f, SLOT_KEY, batch, t, k);
        h[k] =
            read_at(f, SLOT_A, 0, 0, g) * h[k] + key * read_at(f, SLOT_X, batch, t, g * keys + k);
        n[k] += key;
        write_at(f, SLOT_Y, batch, t, g * keys + k, h[k] + read_at(f, SLOT_C, 0, 0, k) + n[k],
                 false);
      }
    }
    for (int64_t k = 0; k < keys; k++) {
      write_at(f, SLOT_HT, batch, 0, g * keys + k, h[k], false);
      if (g == 0) write_at(f, SLOT_NT, batch, 0, k, n[k], false);
    }
  }
}

// h before step t, from the saved state of its chunk.
static float state_before(const rec_frame *f, int64_t batch, int64_t g, int64_t k, int64_t t) {
  int64_t keys = f->axis_size[K];
  float h = saved_at(f, batch, t / CHUNK)[g * keys + k];
  for (int64_t s = t / CHUNK * CHUNK; s < t; s++)
    h = read_at(f, BACK_A, 0, 0, g) * h +
        read_at(f, BACK_KEY, batch, s, k) * read_at(f, BACK_X, batch, s, g * keys + k);
  return h;
}

static void backward_one(const rec_frame *f, int64_t batch, int64_t first, int64_t last) {
  int64_t keys = f->axis_size[K];
  for (int64_t g = first; g < last; g++) {
    float a = read_at(f, BACK_A, 0, 0, g);
    for (int64_t k = 0; k < keys; k++) {
      float dh = read_at(f, BACK_DHT, batch, 0, g * keys + k);
      float dn = g == 0 ? read_at(f, BACK_DNT, batch, 0, k) : 0;
      for (int64_t t = f->time - 1; t >= 0; t--) {
        float dy = read_at(f, BACK_DY, batch, t, g * keys + k),
              key = read_at(f, BACK_KEY, batch, t, k);
        float x = read_at(f, BACK_X, batch, t, g * keys + k);
        dh += dy;
        dn += dy;
        write_at(f, BACK_DC, 0, 0, k, dy, true);
        write_at(f, BACK_DX, batch, t, g * keys + k, dh * key, false);
        write_at(f, BACK_DKEY, batch, t, k, dh * x + dn, true);
        write_at(f, BACK_DA, 0, 0, g, dh * state_before(f, batch, g, k, t), true);
        dh *= a;
      }
      write_at(f, BACK_DH0, batch, 0, g * keys + k, dh, false);
      write_at(f, BACK_DN0, batch, 0, k, dn, true);
    }
  }
}

enum { TOGETHER = 4 };

static _Atomic int64_t one_by_one, together;  // calls of the kernels

static void count_call(const rec_frame *f) {
  assert_true(f->sequences == 1 || f->sequences == TOGETHER);
  atomic_fetch_add(f->sequences == 1 ? &one_by_one : &together, 1);
}

static void forward_kernel(const rec_frame *f, int64_t batch, int64_t first, int64_t last,
                           void *scratch) {
  count_call(f);
  for (int64_t s = 0; s < f->sequences; s++) forward_one(f, batch + s, first, last, scratch);
}

static void backward_kernel(const rec_frame *f, int64_t batch, int64_t first, int64_t last,
                            void *scratch) {
  (void)scratch;
  count_call(f);
  for (int64_t s = 0; s < f->sequences; s++) backward_one(f, batch + s, first, last);
}

// ---- the table -------------------------------------------------------------------------------

static typed_tensor tensor(tensor_kind kind, const char *name, int count, int *axes) {
  typed_tensor t = {
      .kind = kind, .name = name, .axis_count = count, .axes = axes, .assigned = NO_VALUE};
  for (int i = 0; i < count; i++) t.axis_set |= axis_bit(axes[i]);
  return t;
}

typedef struct fixture {
  arena *memory;
  typed_body body;
  abi_recurrence *abi;
  unsigned char *table;
} fixture;

static codegen_slot slot(tile_role role, int tensor_index, bool time, bool per_batch) {
  return (codegen_slot){
      .role = role, .tensor = tensor_index, .lag = -1, .time = time, .per_batch = per_batch};
}

static codegen_slot result(codegen_slot s, bool accumulated, axis_set summed) {
  s.written = true;
  s.accumulated = accumulated;
  s.summed = summed;
  return s;
}

static codegen_kernel compiled(arena *a, const kernel *k, const char *symbol,
                               const codegen_slot *slots, int count) {
  codegen_kernel c = {.kernel = k, .symbols = {symbol, symbol, symbol}, .chunk = CHUNK};
  for (int i = 0; i < count; i++) vec_push(a, &c.slots, slots[i]);
  vec_push(a, &c.scratch.terms, (codegen_bytes_term){8, axis_bit(K)});
  c.writes_saved = k->kind == KERNEL_FORWARD || k->kind == KERNEL_STATES;
  c.reads_saved = k->kind == KERNEL_BACKWARD;
  return c;
}

// Kernels that take so many sequences at a time; 0: one.
static int set_up_for(void **state, int sequences) {
  fixture *f = calloc(1, sizeof *f);
  arena *a = f->memory = arena_new();
  static int axes_gk[] = {G, K}, axes_k[] = {K}, axes_g[] = {G};
  f->body.name = "f";
  vec_push(a, &f->body.axes, (typed_axis){.name = "G", .size = TYPED_RUNTIME_SIZE});
  vec_push(a, &f->body.axes, (typed_axis){.name = "K", .size = 3});
  vec_push(a, &f->body.tensors, tensor(TENSOR_INPUT, "x", 2, axes_gk));
  vec_push(a, &f->body.tensors, tensor(TENSOR_INPUT, "k", 1, axes_k));
  vec_push(a, &f->body.tensors, tensor(TENSOR_PARAM, "a", 1, axes_g));
  vec_push(a, &f->body.tensors, tensor(TENSOR_PARAM, "c", 1, axes_k));
  vec_push(a, &f->body.tensors, tensor(TENSOR_STATE, "h", 2, axes_gk));
  vec_push(a, &f->body.tensors, tensor(TENSOR_STATE, "n", 1, axes_k));
  vec_push(a, &f->body.tensors, tensor(TENSOR_OUTPUT, "y", 2, axes_gk));
  f->abi = abi_layout(a, &f->body, "f");
  codegen_slot forward[] = {slot(TILE_INPUT, X, true, true),
                            slot(TILE_INPUT, KEY, true, true),
                            slot(TILE_PARAM, A, false, false),
                            slot(TILE_PARAM, C, false, false),
                            slot(TILE_STATE, H, false, true),
                            slot(TILE_STATE, N, false, true),
                            result(slot(TILE_OUTPUT, Y, true, true), false, 0),
                            result(slot(TILE_NEXT_STATE, H, false, true), false, 0),
                            result(slot(TILE_NEXT_STATE, N, false, true), false, 0)};
  codegen_slot backward[] = {slot(TILE_INPUT, X, true, true),
                             slot(TILE_INPUT, KEY, true, true),
                             slot(TILE_PARAM, A, false, false),
                             slot(TILE_D_OUTPUT, Y, true, true),
                             slot(TILE_D_NEXT_STATE, H, false, true),
                             slot(TILE_D_NEXT_STATE, N, false, true),
                             result(slot(TILE_D_INPUT, X, true, true), false, 0),
                             result(slot(TILE_D_INPUT, KEY, true, true), true, axis_bit(G)),
                             result(slot(TILE_D_PARAM, A, false, false), true, 0),
                             result(slot(TILE_D_PARAM, C, false, false), true, axis_bit(G)),
                             result(slot(TILE_D_STATE, H, false, true), false, 0),
                             result(slot(TILE_D_STATE, N, false, true), true, axis_bit(G))};
  static kernel kernels[4], several;
  several.sequences = sequences;
  codegen_kernel all[4];
  const kernel_kind kinds[] = {KERNEL_FORWARD, KERNEL_STEP, KERNEL_STATES, KERNEL_BACKWARD};
  for (int i = 0; i < 4; i++) {
    kernels[i] = (kernel){.kind = kinds[i],
                          .chunk = CHUNK,
                          .grid_count = 1,
                          .grid_axes = {G},
                          .lane_axis = -1,
                          .lane_block = 1};
    bool back = kinds[i] == KERNEL_BACKWARD;
    all[i] = compiled(a, &kernels[i], back ? "backward" : "forward", back ? backward : forward,
                      back ? BACKWARD_SLOTS : FORWARD_SLOTS);
    all[i].batched = sequences ? &several : NULL;
  }
  recurrence_kernels described = {.chunk = CHUNK};
  artifact_kernels made = {0};
  for (int i = 0; i < 4; i++) vec_push(a, &made.host, all[i]);
  codegen_blob blob =
      artifact_table(a, &(artifact_recurrence){.abi = f->abi, .kernels = &described}, f->abi, &made,
                     NUMBER_F32, "f.table", NULL);
  f->table = arena_alloc(a, (size_t)blob.size);
  memcpy(f->table, blob.bytes, (size_t)blob.size);
  for (int i = 0; i < blob.address_count; i++) {
    rec_kernel_function function =
        strcmp(blob.addresses[i].symbol, "forward") == 0 ? forward_kernel : backward_kernel;
    memcpy(f->table + blob.addresses[i].offset, &function, sizeof function);
  }
  *state = f;
  return 0;
}

static int set_up(void **state) { return set_up_for(state, 0); }
static int set_up_together(void **state) { return set_up_for(state, TOGETHER); }

static int tear_down(void **state) {
  fixture *f = *state;
  arena_free(f->memory);
  free(f);
  return 0;
}

// ---- calls -----------------------------------------------------------------------------------

// The struct of the generated header: eight bytes per field, in this order.
typedef struct f_arguments {
  uint64_t size;
  int64_t batch, time, sequences, G, K;
  const int32_t *cu_seqlens;
  float *x;
  int64_t x_batch_stride, x_time_stride;
  float *k;
  int64_t k_batch_stride, k_time_stride;
  float *a, *c, *h0_h, *hT_h, *h0_n, *hT_n;
  float *y;
  int64_t y_batch_stride, y_time_stride;
  float *d_x;
  int64_t d_x_batch_stride, d_x_time_stride;
  float *d_k;
  int64_t d_k_batch_stride, d_k_time_stride;
  float *d_a, *d_c, *d_h0_h, *d_hT_h, *d_h0_n, *d_hT_n;
  float *d_y;
  int64_t d_y_batch_stride, d_y_time_stride;
} f_arguments;

static float *numbers(arena *a, int64_t count, int seed) {
  float *values = ARENA_ARRAY(a, float, count + 1);
  unsigned random = (unsigned)seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; i++) {
    random = random * 1664525u + 1013904223u;
    values[i] = (float)(random >> 8) / (float)(1 << 24) - 0.5f;
  }
  return values;
}

// Tensors of so many steps in all and so many states.
static f_arguments make_tensors(arena *a, int64_t steps, int64_t entries, int64_t groups) {
  int64_t token = steps * groups * 3, state = entries * groups * 3;
  f_arguments f = {.size = sizeof f, .G = groups};
  f.x = numbers(a, token, 1);
  f.k = numbers(a, steps * 3, 2);
  f.a = numbers(a, groups, 3);
  f.c = numbers(a, 3, 4);
  f.h0_h = numbers(a, state, 5);
  f.h0_n = numbers(a, entries * 3, 6);
  f.d_y = numbers(a, token, 7);
  f.d_hT_h = numbers(a, state, 8);
  f.d_hT_n = numbers(a, entries * 3, 9);
  // Results start as garbage: whatever is not written shows.
  float **results[] = {&f.y,   &f.hT_h, &f.hT_n,   &f.d_x,   &f.d_k,
                       &f.d_a, &f.d_c,  &f.d_h0_h, &f.d_h0_n};
  int64_t counts[] = {token, state, entries * 3, token, steps * 3, groups, 3, state, entries * 3};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    *results[i] = ARENA_ARRAY(a, float, counts[i] + 1);
    for (int64_t k = 0; k <= counts[i]; k++) (*results[i])[k] = 777;
  }
  return f;
}

static f_arguments make_arguments(arena *a, int64_t batch, int64_t time, int64_t groups) {
  f_arguments f = make_tensors(a, batch * time, batch, groups);
  f.batch = batch;
  f.time = time;
  return f;
}

static f_arguments make_packed(arena *a, const int32_t *offsets, int64_t sequences,
                               int64_t groups) {
  f_arguments f = make_tensors(a, offsets[sequences], sequences, groups);
  f.batch = 1;
  f.time = offsets[sequences];
  f.sequences = sequences;
  f.cu_seqlens = offsets;
  return f;
}

static rec_launch make_launch(fixture *f, const f_arguments *arguments, int64_t threads,
                              bool keep) {
  rec_sizes sizes = {.size = sizeof sizes};
  assert_int_equal(rec_sizes_entry((rec_table *)(void *)f->table, arguments, &sizes), REC_OK);
  rec_launch launch = {.size = sizeof launch, .abi_major = REC_ABI_MAJOR, .threads = threads};
  launch.workspace_bytes = sizes.workspace;
  launch.workspace =
      aligned_alloc(REC_ALIGNMENT, (size_t)round_up(sizes.workspace + 1, REC_ALIGNMENT));
  memset(launch.workspace, 0x7f, (size_t)sizes.workspace);
  launch.saved_bytes = sizes.saved;
  if (keep)
    launch.saved = aligned_alloc(REC_ALIGNMENT, (size_t)round_up(sizes.saved + 1, REC_ALIGNMENT));
  return launch;
}

static void free_launch(rec_launch *launch) {
  free(launch->workspace);
  free(launch->saved);
}

static void run_both(fixture *f, f_arguments *arguments, int64_t threads, bool keep) {
  rec_launch launch = make_launch(f, arguments, threads, keep);
  const rec_table *table = (rec_table *)(void *)f->table;
  assert_int_equal(rec_forward_entry(table, arguments, &launch), REC_OK);
  assert_int_equal(rec_backward_entry(table, arguments, &launch), REC_OK);
  free_launch(&launch);
}

// d_k, d_c, d_a, d_h0_n in double, by plain loops over everything.
static void check_sums(const f_arguments *f) {
  int64_t groups = f->G;
  double *d_a = calloc((size_t)groups, sizeof *d_a), d_c[3] = {0};
  for (int64_t b = 0; b < f->batch; b++) {
    for (int64_t k = 0; k < 3; k++) {
      double *d_k = calloc((size_t)f->time + 1, sizeof *d_k), d_n0 = 0;
      for (int64_t g = 0; g < groups; g++) {
        double *h = calloc((size_t)f->time + 1, sizeof *h);
        h[0] = f->h0_h[(b * groups + g) * 3 + k];
        for (int64_t t = 0; t < f->time; t++)
          h[t + 1] = f->a[g] * h[t] + f->k[(b * f->time + t) * 3 + k] *
                                          f->x[((b * f->time + t) * groups + g) * 3 + k];
        double dh = f->d_hT_h[(b * groups + g) * 3 + k], dn = g ? 0 : f->d_hT_n[b * 3 + k];
        for (int64_t t = f->time - 1; t >= 0; t--) {
          double dy = f->d_y[((b * f->time + t) * groups + g) * 3 + k];
          dh += dy;
          dn += dy;
          d_c[k] += dy;
          d_k[t] += dh * f->x[((b * f->time + t) * groups + g) * 3 + k] + dn;
          d_a[g] += dh * h[t];
          dh *= f->a[g];
        }
        assert_float_equal(f->d_h0_h[(b * groups + g) * 3 + k], dh, 1e-4);
        d_n0 += dn;
        free(h);
      }
      for (int64_t t = 0; t < f->time; t++)
        assert_float_equal(f->d_k[(b * f->time + t) * 3 + k], d_k[t], 1e-3);
      assert_float_equal(f->d_h0_n[b * 3 + k], d_n0, 1e-3);
      free(d_k);
    }
  }
  for (int64_t g = 0; g < groups; g++) assert_float_equal(f->d_a[g], d_a[g], 1e-3);
  for (int64_t k = 0; k < 3; k++) assert_float_equal(f->d_c[k], d_c[k], 1e-3);
  free(d_a);
}

TEST_WITH(sums_are_those_of_plain_loops, set_up, tear_down) {
  fixture *f = *state;
  int64_t cases[][3] = {{1, 1, 1}, {1, 9, 5}, {2, 13, 40}, {3, 8, 1}, {70, 6, 3}, {200, 5, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int keep = 0; keep < 2; keep++) {
      f_arguments arguments = make_arguments(f->memory, cases[i][0], cases[i][1], cases[i][2]);
      run_both(f, &arguments, 3, keep);
      check_sums(&arguments);
    }
  }
}

static void assert_same(const float *x, const float *y, int64_t count) {
  assert_memory_equal(x, y, (size_t)count * sizeof *x);
}

TEST_WITH(results_equal_for_any_thread_count, set_up, tear_down) {
  fixture *f = *state;
  f_arguments one = make_arguments(f->memory, 3, 50, 48);
  run_both(f, &one, 1, true);
  for (int64_t threads = 2; threads <= 7; threads++) {
    f_arguments many = make_arguments(f->memory, 3, 50, 48);
    run_both(f, &many, threads, threads % 2 == 0);
    assert_same(one.y, many.y, 3 * 50 * 48 * 3);
    assert_same(one.d_k, many.d_k, 3 * 50 * 3);
    assert_same(one.d_a, many.d_a, 48);
    assert_same(one.d_c, many.d_c, 3);
    assert_same(one.d_h0_n, many.d_h0_n, 3 * 3);
  }
}

static void backwards(void *context, int64_t count, rec_task task, void *argument) {
  (*(int *)context)++;
  for (int64_t i = count - 1; i >= 0; i--) task(argument, i);
}

TEST_WITH(callers_parallel_for_gives_the_same, set_up, tear_down) {
  fixture *f = *state;
  f_arguments one = make_arguments(f->memory, 2, 50, 200),
              two = make_arguments(f->memory, 2, 50, 200);
  run_both(f, &one, 1, true);
  rec_launch launch = make_launch(f, &two, 0, false);
  int used = 0;
  launch.parallel_for = backwards;
  launch.parallel_context = &used;
  const rec_table *table = (rec_table *)(void *)f->table;
  assert_int_equal(rec_forward_entry(table, &two, &launch), REC_OK);
  assert_int_equal(rec_backward_entry(table, &two, &launch), REC_OK);
  assert_true(used >= 3);
  assert_same(one.y, two.y, 2 * 50 * 200 * 3);
  assert_same(one.d_k, two.d_k, 2 * 50 * 3);
  free_launch(&launch);
}

TEST_WITH(strided_tensors, set_up, tear_down) {
  fixture *f = *state;
  f_arguments dense = make_arguments(f->memory, 2, 11, 4),
              loose = make_arguments(f->memory, 2, 11, 4);
  run_both(f, &dense, 2, true);
  // Time before batch, and gaps behind every step.
  enum { STEP = 4 * 3 + 5, BATCH = 2 };
  float *x = ARENA_ARRAY(f->memory, float, STEP * BATCH * 11),
        *d_x = ARENA_ARRAY(f->memory, float, STEP * BATCH * 11);
  float *d_k = ARENA_ARRAY(f->memory, float, 7 * BATCH * 11);
  for (int b = 0; b < BATCH; b++)
    for (int t = 0; t < 11; t++)
      memcpy(x + (t * BATCH + b) * STEP, dense.x + (b * 11 + t) * 12, 12 * sizeof *x);
  loose.x = x, loose.x_batch_stride = STEP, loose.x_time_stride = STEP * BATCH;
  loose.d_x = d_x, loose.d_x_batch_stride = STEP, loose.d_x_time_stride = STEP * BATCH;
  loose.d_k = d_k, loose.d_k_batch_stride = 7, loose.d_k_time_stride = 7 * BATCH;
  run_both(f, &loose, 2, false);
  for (int b = 0; b < BATCH; b++) {
    for (int t = 0; t < 11; t++) {
      assert_same(d_x + (t * BATCH + b) * STEP, dense.d_x + (b * 11 + t) * 12, 12);
      assert_same(d_k + (t * BATCH + b) * 7, dense.d_k + (b * 11 + t) * 3, 3);
      assert_float_equal(d_k[(t * BATCH + b) * 7 + 3], 0, 0);  // gaps stay as they were
    }
  }
}

TEST_WITH(no_steps_and_no_batch, set_up, tear_down) {
  fixture *f = *state;
  f_arguments none = make_arguments(f->memory, 2, 0, 3);
  rec_launch launch = {.size = sizeof launch, .abi_major = REC_ABI_MAJOR};
  const rec_table *table = (rec_table *)(void *)f->table;
  assert_int_equal(rec_forward_entry(table, &none, &launch), REC_OK);
  assert_int_equal(rec_backward_entry(table, &none, &launch), REC_OK);
  assert_same(none.hT_h, none.h0_h, 18);
  assert_same(none.hT_n, none.h0_n, 6);
  assert_same(none.d_h0_h, none.d_hT_h, 18);
  for (int i = 0; i < 3; i++) assert_float_equal(none.d_a[i], 0, 0);
  for (int i = 0; i < 3; i++) assert_float_equal(none.d_c[i], 0, 0);
  f_arguments empty = make_arguments(f->memory, 0, 5, 3);
  empty.x = empty.k = empty.y = NULL;
  assert_int_equal(rec_forward_entry(table, &empty, &launch), REC_OK);
  assert_int_equal(rec_backward_entry(table, &empty, &launch), REC_OK);
  for (int i = 0; i < 3; i++) assert_float_equal(empty.d_a[i], 0, 0);
}

// hT may be h0 itself, for the state that every instance reads, too.
TEST_WITH(final_state_in_place, set_up, tear_down) {
  fixture *f = *state;
  f_arguments apart = make_arguments(f->memory, 2, 40, 160),
              same = make_arguments(f->memory, 2, 40, 160);
  run_both(f, &apart, 4, true);
  same.hT_h = same.h0_h;
  same.hT_n = same.h0_n;
  rec_launch launch = make_launch(f, &same, 4, false);
  assert_int_equal(rec_forward_entry((rec_table *)(void *)f->table, &same, &launch), REC_OK);
  assert_same(apart.y, same.y, 2 * 40 * 160 * 3);
  assert_same(apart.hT_h, same.h0_h, 2 * 160 * 3);
  assert_same(apart.hT_n, same.h0_n, 2 * 3);
  free_launch(&launch);
}

// One sequence of a packed call by itself; its results go to `results`.
static f_arguments alone(const f_arguments *packed, const f_arguments *results, int64_t sequence) {
  int64_t first = packed->cu_seqlens[sequence], row = packed->G * 3;
  f_arguments f = *results;
  f.batch = 1, f.time = packed->cu_seqlens[sequence + 1] - first;
  f.sequences = 0, f.cu_seqlens = NULL;
  f.x += first * row, f.k += first * 3, f.y += first * row;
  f.h0_h += sequence * row, f.hT_h += sequence * row;
  f.h0_n += sequence * 3, f.hT_n += sequence * 3;
  f.d_x += first * row, f.d_k += first * 3, f.d_y += first * row;
  f.d_h0_h += sequence * row, f.d_hT_h += sequence * row;
  f.d_h0_n += sequence * 3, f.d_hT_n += sequence * 3;
  return f;
}

static void assert_near(const float *x, const float *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) assert_float_equal(x[i], y[i], 2e-3);
}

// What groups of instances add to may round otherwise; all else is the same to the last bit.
static void check_packed(fixture *f, const int32_t *offsets, int64_t sequences, int64_t groups) {
  f_arguments packed = make_packed(f->memory, offsets, sequences, groups),
              single = make_packed(f->memory, offsets, sequences, groups);
  int64_t row = groups * 3;
  float *d_a = ARENA_ARRAY(f->memory, float, groups), d_c[3] = {0};
  run_both(f, &packed, 3, true);
  for (int64_t s = 0; s < sequences; s++) {
    f_arguments one = alone(&packed, &single, s);
    run_both(f, &one, 1, s % 2 == 0);
    for (int64_t g = 0; g < groups; g++) d_a[g] += one.d_a[g];
    for (int64_t k = 0; k < 3; k++) d_c[k] += one.d_c[k];
  }
  assert_same(packed.y, single.y, packed.time * row);
  assert_same(packed.hT_h, single.hT_h, sequences * row);
  assert_same(packed.hT_n, single.hT_n, sequences * 3);
  assert_same(packed.d_x, single.d_x, packed.time * row);
  assert_same(packed.d_h0_h, single.d_h0_h, sequences * row);
  assert_near(packed.d_k, single.d_k, packed.time * 3);
  assert_near(packed.d_h0_n, single.d_h0_n, sequences * 3);
  assert_near(packed.d_a, d_a, groups);
  assert_near(packed.d_c, d_c, 3);
  for (int64_t threads = 1; threads <= 5; threads++) {
    f_arguments again = make_packed(f->memory, offsets, sequences, groups);
    run_both(f, &again, threads, threads % 2 == 0);
    assert_same(packed.y, again.y, packed.time * row);
    assert_same(packed.d_k, again.d_k, packed.time * 3);
    assert_same(packed.d_a, again.d_a, groups);
    assert_same(packed.d_c, again.d_c, 3);
    assert_same(packed.d_h0_n, again.d_h0_n, sequences * 3);
  }
}

TEST_WITH(packed_sequences, set_up, tear_down) {
  fixture *f = *state;
  const int32_t mixed[] = {0, 0, 1, 3, 19, 19, 36, 99, 399, 399};
  int32_t even[151] = {0}, skewed[151] = {0};
  for (int i = 0; i < 150; i++) {
    even[i + 1] = even[i] + 7;
    skewed[i + 1] = skewed[i] + (i == 130 ? 900 : i % 4);
  }
  const int64_t groups[] = {1, 5, 40};
  for (int i = 0; i < 3; i++) {
    check_packed(f, mixed, 9, groups[i]);
    check_packed(f, mixed, 1, groups[i]);
    check_packed(f, mixed, 2, groups[i]);
    check_packed(f, mixed, 0, groups[i]);
    check_packed(f, even, 150, groups[i]);
    check_packed(f, skewed, 150, groups[i]);
  }
}

typedef struct call_counts {
  int64_t together, one_by_one;
} call_counts;

static void assert_calls(call_counts expected) {
  assert_int_equal(atomic_load(&together), expected.together);
  assert_int_equal(atomic_load(&one_by_one), expected.one_by_one);
}

static void forget_calls(void) { atomic_store(&together, 0), atomic_store(&one_by_one, 0); }

// Both kernels once for each group of instances; those behind the last four one by one, and all
// where two tasks are not left.
TEST_WITH(batch_entries_together, set_up_together, tear_down) {
  fixture *f = *state;
  const struct {
    int64_t batch, groups;
    call_counts calls;
  } cases[] = {{8, 1, {4, 0}}, {11, 1, {4, 6}}, {7, 1, {0, 14}},
               {4, 2, {4, 0}}, {1, 8, {0, 16}}, {600, 1, {300, 0}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    f_arguments arguments = make_arguments(f->memory, cases[i].batch, 6, cases[i].groups);
    forget_calls();
    run_both(f, &arguments, 3, true);
    assert_calls(cases[i].calls);
    check_sums(&arguments);
  }
}

// Packed sequences of one length, which is whole chunks: else their saved states lie apart.
TEST_WITH(packed_sequences_together, set_up_together, tear_down) {
  fixture *f = *state;
  int32_t whole[12], rest[12], uneven[12];
  for (int i = 0; i < 12; i++)
    whole[i] = 2 * CHUNK * i, rest[i] = (2 * CHUNK + 1) * i, uneven[i] = whole[i] + (i == 11);
  check_packed(f, whole, 11, 1);
  check_packed(f, rest, 11, 1);
  check_packed(f, uneven, 11, 5);
  const int32_t *const lengths[] = {whole, rest, uneven};
  const call_counts counts[] = {{4, 6}, {0, 22}, {0, 22}};
  for (int i = 0; i < 3; i++) {
    f_arguments packed = make_packed(f->memory, lengths[i], 11, 1);
    forget_calls();
    run_both(f, &packed, 2, true);
    assert_calls(counts[i]);
  }
}

// Gaps behind every step; what lies in them stays as it was.
TEST_WITH(packed_strides, set_up, tear_down) {
  fixture *f = *state;
  const int32_t offsets[] = {0, 0, 5, 6, 40};
  enum { STEP = 4 * 3 + 5, KEY_STEP = 7, STEPS = 40 };
  f_arguments dense = make_packed(f->memory, offsets, 4, 4),
              loose = make_packed(f->memory, offsets, 4, 4);
  run_both(f, &dense, 2, true);
  loose.x = ARENA_ARRAY(f->memory, float, STEP *STEPS), loose.x_time_stride = STEP;
  loose.y = ARENA_ARRAY(f->memory, float, STEP *STEPS), loose.y_time_stride = STEP;
  loose.d_k = ARENA_ARRAY(f->memory, float, KEY_STEP *STEPS), loose.d_k_time_stride = KEY_STEP;
  for (int t = 0; t < STEPS; t++) memcpy(loose.x + t * STEP, dense.x + t * 12, 12 * sizeof(float));
  run_both(f, &loose, 3, false);
  for (int t = 0; t < STEPS; t++) {
    assert_same(loose.y + t * STEP, dense.y + t * 12, 12);
    assert_same(loose.d_k + t * KEY_STEP, dense.d_k + t * 3, 3);
    assert_float_equal(loose.y[t * STEP + 12], 0, 0);
    assert_float_equal(loose.d_k[t * KEY_STEP + 3], 0, 0);
  }
  assert_same(loose.hT_h, dense.hT_h, 4 * 12);
  assert_same(loose.d_x, dense.d_x, STEPS * 12);
}

// Sizes are told without the lengths, and are enough for all lengths.
TEST_WITH(packed_sizes, set_up_together, tear_down) {
  fixture *f = *state;
  const int32_t offsets[] = {0, 3, 40, 40, 41};
  const rec_table *table = (rec_table *)(void *)f->table;
  f_arguments known = make_packed(f->memory, offsets, 4, 40), unknown = known;
  rec_sizes with = {.size = sizeof with}, without = {.size = sizeof without};
  unknown.cu_seqlens = NULL;
  assert_int_equal(rec_sizes_entry(table, &known, &with), REC_OK);
  assert_int_equal(rec_sizes_entry(table, &unknown, &without), REC_OK);
  assert_memory_equal(&with, &without, sizeof with);
  assert_int_equal(with.saved, (41 / CHUNK + 4) * round_up(41 * 3, 16) * 4);
}

// A step of packed sequences: those with a token go on, the others stay as they are.
TEST_WITH(packed_step, set_up_together, tear_down) {
  fixture *f = *state;
  const int32_t offsets[] = {0, 1, 1, 2, 3, 3}, two[] = {0, 2};
  const rec_table *table = (rec_table *)(void *)f->table;
  f_arguments forward = make_packed(f->memory, offsets, 5, 20),
              step = make_packed(f->memory, offsets, 5, 20);
  run_both(f, &forward, 2, true);
  step.hT_h = step.h0_h;
  step.hT_n = step.h0_n;
  rec_launch launch = make_launch(f, &step, 2, false);
  assert_int_equal(rec_step_entry(table, &step, &launch), REC_OK);
  assert_same(forward.y, step.y, 3 * 60);
  assert_same(forward.hT_h, step.h0_h, 5 * 60);
  assert_same(forward.hT_n, step.h0_n, 5 * 3);
  step.time = 2, step.sequences = 1, step.cu_seqlens = two;
  assert_int_equal(rec_step_entry(table, &step, &launch), REC_ERROR_ARGUMENT);
  assert_string_equal(rec_error(),
                      "f_step: expected packed sequences of at most 1 step, found one of 2");
  free_launch(&launch);
}

TEST_WITH(unwanted_results, set_up, tear_down) {
  fixture *f = *state;
  f_arguments all = make_arguments(f->memory, 2, 9, 5), some = make_arguments(f->memory, 2, 9, 5);
  run_both(f, &all, 2, true);
  some.hT_h = some.hT_n = some.d_k = some.d_c = some.d_h0_n = NULL;
  run_both(f, &some, 2, true);
  assert_same(all.d_x, some.d_x, 2 * 9 * 15);
  assert_same(all.d_a, some.d_a, 5);
}

TEST_WITH(survives_fork, set_up, tear_down) {
  fixture *f = *state;
  f_arguments parent = make_arguments(f->memory, 2, 50, 200),
              child = make_arguments(f->memory, 2, 50, 200);
  run_both(f, &parent, 3, true);  // the pool exists now
  pid_t process = fork();
  if (process == 0) {
    alarm(30);
    run_both(f, &child, 3, true);
    _exit(memcmp(parent.d_k, child.d_k, sizeof(float) * 2 * 50 * 3) == 0 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(process, &status, 0), process);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  run_both(f, &parent, 3, true);
}

typedef struct caller {
  fixture *f;
  f_arguments arguments;
} caller;

static void *call_often(void *pointer) {
  caller *c = pointer;
  for (int i = 0; i < 20; i++) {
    rec_launch launch = make_launch(c->f, &c->arguments, 2 + i % 3, true);
    const rec_table *table = (rec_table *)(void *)c->f->table;
    if (rec_forward_entry(table, &c->arguments, &launch) ||
        rec_backward_entry(table, &c->arguments, &launch))
      return c;
    free_launch(&launch);
  }
  return NULL;
}

TEST_WITH(several_threads_may_call, set_up, tear_down) {
  fixture *f = *state;
  f_arguments alone = make_arguments(f->memory, 2, 50, 120);
  run_both(f, &alone, 1, true);
  caller callers[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    callers[i] = (caller){f, make_arguments(f->memory, 2, 50, 120)};
    pthread_create(&threads[i], NULL, call_often, &callers[i]);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
    assert_same(alone.y, callers[i].arguments.y, 2 * 50 * 120 * 3);
    assert_same(alone.d_c, callers[i].arguments.d_c, 3);
  }
}

// ---- denormal numbers ------------------------------------------------------------------------

TEST(denormals_are_0_in_kernels_alone) {
  volatile float tiny = 0x1p-140f, half = 0.5f;
  assert_true(tiny * half > 0);
  unsigned before = rec_cpu_flush_denormals();
  volatile float made = tiny * half;
  rec_cpu_restore(before);
  assert_true(made == 0);
  assert_true(tiny * half > 0);
}

// ---- what is refused -------------------------------------------------------------------------

static void refused(fixture *f, f_arguments arguments, rec_launch launch, rec_status status,
                    const char *message) {
  char words[REC_ERROR_TEXT_MAX];
  snprintf(words, sizeof words, "%s", message);
  assert_int_equal(rec_forward_entry((rec_table *)(void *)f->table, &arguments, &launch), status);
  assert_string_equal(rec_error(), words);
}

TEST_WITH(packed_mistakes_are_named, set_up, tear_down) {
  fixture *f = *state;
  const f_arguments good = make_packed(f->memory, (int32_t[]){0, 4, 9}, 2, 5);
  rec_launch launch = make_launch(f, &good, 1, false);
  f_arguments bad = good;
  bad.batch = 2;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected batch = 1 and sequences of at least 0 with packed sequences, found "
          "batch = 2, sequences = 2");
  bad = good, bad.sequences = -1;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected batch = 1 and sequences of at least 0 with packed sequences, found "
          "batch = 1, sequences = -1");
  bad = good, bad.cu_seqlens = NULL;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens with sequences = 2, found NULL");
  bad = good, bad.cu_seqlens = (int32_t[]){1, 4, 9};
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens to start at 0, found 1");
  bad = good, bad.cu_seqlens = (int32_t[]){0, 10, 9};
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens that never fall, found 9 after 10");
  bad = good, bad.cu_seqlens = (int32_t[]){0, INT32_MIN, 9};
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens that never fall, found -2147483648 after 0");
  bad = good, bad.cu_seqlens = (int32_t[]){0, 4, 8};
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens to end at time = 9, found 8");
  bad = good, bad.sequences = 0, bad.cu_seqlens = (int32_t[]){0};
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected cu_seqlens to end at time = 9, found 0");
  bad = good, bad.sequences = (int64_t)1 << 60;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected sizes that fit in memory, found h0_h[batch,G,K] of more than 2^56 "
          "numbers");
  free_launch(&launch);
}

TEST_WITH(mistakes_are_named, set_up, tear_down) {
  fixture *f = *state;
  const f_arguments good = make_arguments(f->memory, 2, 9, 5);
  rec_launch launch = make_launch(f, &good, 1, false);
  f_arguments bad = good;
  bad.size = 24;
  refused(f, bad, launch, REC_ERROR_ABI,
          "f_forward: expected arguments of at least 296 bytes, found size = 24; set it to "
          "sizeof(f_arguments)");
  bad = good, bad.batch = -1;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected batch and time of at least 0, found batch = -1, time = 9");
  bad = good, bad.K = 4;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected K = 3, its compile-time size, found 4");
  bad = good, bad.G = 0;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected a size of at least 1 for axis G, found 0");
  bad = good, bad.G = (int64_t)1 << 60;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected sizes that fit in memory, found x[batch,time,G,K] of more than 2^56 "
          "numbers");
  bad = good, bad.k = NULL;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected data for k[batch,time,K], found NULL");
  bad = good, bad.y_time_stride = 7;
  refused(f, bad, launch, REC_ERROR_ARGUMENT,
          "f_forward: expected strides of at least 15 (or 0: dense) for y[batch,time,G,K], found "
          "batch stride 0, time stride 7");
  const int64_t far[] = {INT64_MAX, INT64_MAX - 15, (int64_t)1 << 62, (int64_t)1 << 56};
  for (int i = 0; i < 4; i++) {
    char text[200];
    bad = good, bad.x_time_stride = far[i];
    snprintf(text, sizeof text,
             "f_forward: expected strides that span at most 2^56 numbers for x[batch,time,G,K], "
             "found batch stride 0, time stride %lld",
             (long long)far[i]);
    refused(f, bad, launch, REC_ERROR_ARGUMENT, text);
    bad = good, bad.y_batch_stride = far[i];
    snprintf(text, sizeof text,
             "f_forward: expected strides that span at most 2^56 numbers for y[batch,time,G,K], "
             "found batch stride %lld, time stride 0",
             (long long)far[i]);
    refused(f, bad, launch, REC_ERROR_ARGUMENT, text);
  }
  rec_launch wrong = launch;
  wrong.abi_major = 7;
  refused(f, good, wrong, REC_ERROR_ABI, "f_forward: expected ABI 1.x, found 7.0 in rec_launch");
  wrong = launch, wrong.device_kind = REC_DEVICE_CUDA;
  refused(f, good, wrong, REC_ERROR_DEVICE,
          "f_forward: expected a library with PTX, found none; compile it with --target sm_80");
  wrong = launch, wrong.device_kind = REC_DEVICE_SIMT;
  refused(f, good, wrong, REC_ERROR_DEVICE,
          "f_forward: expected a library with code for the executor, found none; compile it with "
          "--target simt");
  wrong = launch, wrong.workspace_bytes = 8;
  assert_int_equal(rec_forward_entry((rec_table *)(void *)f->table, &good, &wrong),
                   REC_ERROR_WORKSPACE);
  assert_non_null(strstr(rec_error(), "found 8; ask f_sizes"));
  wrong = launch, wrong.workspace = (char *)launch.workspace + 4;
  assert_int_equal(rec_forward_entry((rec_table *)(void *)f->table, &good, &wrong),
                   REC_ERROR_WORKSPACE);
  assert_non_null(strstr(rec_error(), "expected a workspace aligned to 64 bytes"));
  bad = good, bad.time = 2;
  assert_int_equal(rec_step_entry((rec_table *)(void *)f->table, &bad, &launch),
                   REC_ERROR_ARGUMENT);
  assert_string_equal(rec_error(), "f_step: expected time = 1, found 2");
  wrong = launch, wrong.threads = 0;
  setenv("REC_NUM_THREADS", "many", 1);
  refused(f, good, wrong, REC_ERROR_ARGUMENT,
          "expected REC_NUM_THREADS to be a number of at least 1, found 'many'");
  setenv("REC_NUM_THREADS", "2", 1);
  assert_int_equal(rec_forward_entry((rec_table *)(void *)f->table, &good, &wrong), REC_OK);
  unsetenv("REC_NUM_THREADS");
  free_launch(&launch);
}

TEST_AGAIN(sums_are_those_of_plain_loops, set_up_together, tear_down)
TEST_AGAIN(packed_sequences, set_up_together, tear_down)
TEST_AGAIN(packed_sizes, set_up, tear_down)
TEST_AGAIN(packed_step, set_up, tear_down)
