// Tensors that come with shapes, types and strides: what they become in the arguments struct, and
// what is refused. The entry points are stand-ins that keep what they are given.
//
//   recurrence f(G, K = 3) { input x[G,K]   param a[G]   state z[G] : complex   output y[G,K]   x[t-2] is read }
#include "runtime/support/foreign.c"
#include "runtime/support/error.c"
#include "runtime/support/fail.c"
#include "runtime/support/foreign_run.c"

// After the code under test, whose parameters are called like types of the compiler.
#include "compiler/artifact/tables.h"

#include "tests/unit/unit.h"

enum { G, K };

// ---- entry points that keep what they are given ----------------------------------------------

typedef struct f_arguments {
  uint64_t size;
  int64_t batch, time, sequences, G, K;
  const int32_t *cu_seqlens;
  float *x;
  int64_t x_batch_stride, x_time_stride;
  float *a, *h0_z, *hT_z, *y;
  int64_t y_batch_stride, y_time_stride;
  float *h0_x_lag, *hT_x_lag;
  float *d_x;
  int64_t d_x_batch_stride, d_x_time_stride;
  float *d_a, *d_h0_z, *d_hT_z, *d_y;
  int64_t d_y_batch_stride, d_y_time_stride;
  float *d_h0_x_lag, *d_hT_x_lag;
} f_arguments;

static f_arguments given;
static int64_t workspace_needed, calls;
static const rec_table *table_given;

static int keep(const rec_table *table, const void *arguments, const rec_launch *launch) {
  calls++;
  table_given = table;
  memcpy(&given, arguments, sizeof given);
  if (launch->workspace_bytes < workspace_needed) return REC_ERROR_WORKSPACE;
  if (launch->workspace) memset(launch->workspace, 1, (size_t)launch->workspace_bytes);
  return REC_OK;
}

int rec_forward_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return keep(table, arguments, launch);
}
int rec_step_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return keep(table, arguments, launch);
}
int rec_backward_entry(const rec_table *table, const void *arguments, const rec_launch *launch) {
  return keep(table, arguments, launch);
}
int rec_sizes_entry(const rec_table *table, const void *arguments, rec_sizes *sizes) {
  (void)table;
  (void)arguments;
  sizes->workspace_forward = sizes->workspace_step = sizes->workspace_backward_recompute =
      workspace_needed;
  return REC_OK;
}

// ---- the tables ------------------------------------------------------------------------------

typedef struct fixture {
  arena *memory;
  typed_body body;
  rec_variants *variants;  // f in f32, then in f64
} fixture;

static void add_tensor(fixture *f, tensor_kind kind, const char *name, int count, int *axes,
                       bool complex) {
  typed_tensor t = {.kind = kind,
                    .name = name,
                    .axis_count = count,
                    .axes = axes,
                    .complex = complex,
                    .assigned = NO_VALUE};
  for (int i = 0; i < count; i++) t.axis_set |= axis_bit(axes[i]);
  vec_push(f->memory, &f->body.tensors, t);
}

static const rec_table *make_table(fixture *f, number_type dtype, const char *symbol) {
  recurrence_kernels none = {.chunk = 4};
  artifact_kernels compiled = {0};
  artifact_recurrence r = {.abi = abi_layout(f->memory, &f->body, symbol), .kernels = &none};
  codegen_blob blob = artifact_table(f->memory, &r, r.abi, &compiled, dtype, "f.table", NULL);
  void *table = arena_alloc(f->memory, (size_t)blob.size);
  memcpy(table, blob.bytes, (size_t)blob.size);
  return table;
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  static int axes_gk[] = {G, K}, axes_g[] = {G};
  f->memory = arena_new();
  f->body.name = "f";
  vec_push(f->memory, &f->body.axes, (typed_axis){.name = "G", .size = TYPED_RUNTIME_SIZE});
  vec_push(f->memory, &f->body.axes, (typed_axis){.name = "K", .size = 3});
  add_tensor(f, TENSOR_INPUT, "x", 2, axes_gk, false);
  add_tensor(f, TENSOR_PARAM, "a", 1, axes_g, false);
  add_tensor(f, TENSOR_STATE, "z", 1, axes_g, true);
  add_tensor(f, TENSOR_OUTPUT, "y", 2, axes_gk, false);
  vec_push(f->memory, &f->body.lags,
           (typed_lag){.name = "x", .input = 0, .depth = 2, .axes = axis_bit(G) | axis_bit(K)});
  size_t size = sizeof *f->variants + 2 * sizeof(rec_table *);
  f->variants = arena_alloc(f->memory, size + sizeof "f");
  *f->variants = (rec_variants){2, (int32_t)size};
  memcpy((char *)f->variants + size, "f", sizeof "f");
  f->variants->tables[0] = make_table(f, NUMBER_F32, "f_f32");
  f->variants->tables[1] = make_table(f, NUMBER_F64, "f_f64");
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  arena_free(f->memory);
  free(f);
  return 0;
}

// ---- calls -----------------------------------------------------------------------------------

enum { X, A, Z0, LAG0, Y, ZT, LAGT, TENSORS };

// The tensors of a forward, batch 2, time 5, G = 4; sizes of it may be changed.
typedef struct call_of_test {
  int64_t shapes[TENSORS][5], strides[TENSORS][5];
  char memory[TENSORS];  // an address for each
  foreign_tensor tensors[TENSORS];
  const foreign_tensor *pointers[TENSORS];
  foreign_call f;
} call_of_test;

static void begin(call_of_test *c, const fixture *f, int bits) {
  static const int ranks[] = {4, 1, 3, 4, 4, 3, 4};
  static const int64_t shapes[TENSORS][5] = {{2, 5, 4, 3}, {4},       {2, 4, 2},   {2, 2, 4, 3},
                                             {2, 5, 4, 3}, {2, 4, 2}, {2, 2, 4, 3}};
  memset(c, 0, sizeof *c);
  memcpy(c->shapes, shapes, sizeof shapes);
  for (int i = 0; i < TENSORS; i++) {
    c->tensors[i] = (foreign_tensor){.data = &c->memory[i],
                                     .device = {FOREIGN_CPU, 0},
                                     .rank = ranks[i],
                                     .dtype = {FOREIGN_FLOAT, (uint8_t)bits, 1},
                                     .shape = c->shapes[i]};
    c->pointers[i] = &c->tensors[i];
  }
  c->f = (foreign_call){.recurrence = f->variants,
                        .kind = REC_KERNEL_FORWARD,
                        .tensors = c->pointers,
                        .count = TENSORS};
}

static rec_status run_call(call_of_test *c) {
  rec_status status = foreign_read(&c->f);
  return status == REC_OK ? foreign_run(&c->f) : status;
}

TEST_WITH(arguments_are_filled, set_up, tear_down) {
  call_of_test c;
  begin(&c, *state, 32);
  const int64_t strides[] = {0, 24, 3, 1};  // one batch entry for all, every second step
  memcpy(c.strides[X], strides, sizeof strides);
  c.tensors[X].strides = c.strides[X];
  c.tensors[A].byte_offset = 0;
  c.pointers[ZT] = NULL;
  assert_int_equal(run_call(&c), REC_OK);
  assert_int_equal(given.size, sizeof given);
  assert_true(given.batch == 2 && given.time == 5 && given.sequences == 0 && given.G == 4 &&
              given.K == 3 && !given.cu_seqlens);
  assert_true((char *)given.x == &c.memory[X] && given.x_batch_stride == REC_STRIDE_BROADCAST &&
              given.x_time_stride == 24);
  assert_true((char *)given.a == &c.memory[A] && (char *)given.h0_z == &c.memory[Z0] &&
              !given.hT_z);
  assert_true((char *)given.y == &c.memory[Y] && given.y_batch_stride == 0 &&
              given.y_time_stride == 0);
  assert_true((char *)given.h0_x_lag == &c.memory[LAG0] &&
              (char *)given.hT_x_lag == &c.memory[LAGT] && !given.d_x);
}

TEST_WITH(types_choose_the_variant, set_up, tear_down) {
  const fixture *f = *state;
  call_of_test c;
  for (int i = 0; i < 2; i++) {
    begin(&c, f, i ? 64 : 32);
    assert_int_equal(run_call(&c), REC_OK);
    assert_ptr_equal(table_given, f->variants->tables[i]);
  }
  c.tensors[A].dtype.bits = 32;
  assert_int_equal(run_call(&c), REC_ERROR_ARGUMENT);
  assert_int_equal(c.f.fault, FOREIGN_WRONG_TYPE);
  assert_string_equal(rec_error(),
                      "f_forward: expected float64 for a[G], found float32; convert it, or compile "
                      "the library with another --dtype (this library has f_f32, f_f64)");
}

// A state of complex numbers may have their type. Its rank is then one less.
TEST_WITH(complex_types_are_taken, set_up, tear_down) {
  call_of_test c;
  begin(&c, *state, 32);
  c.tensors[Z0].dtype = (foreign_dtype){FOREIGN_COMPLEX, 64, 1};
  c.tensors[Z0].rank = 2;
  assert_int_equal(run_call(&c), REC_OK);
  c.tensors[Z0].rank = 3;
  assert_int_equal(run_call(&c), REC_ERROR_ARGUMENT);
  assert_non_null(
      strstr(rec_error(), "f_forward: expected 2 axes of h0_z[batch,G,2], found 3: shape [2,4,2]"));
  c.tensors[X].dtype = (foreign_dtype){FOREIGN_COMPLEX, 64, 1};
  assert_int_equal(run_call(&c), REC_ERROR_ARGUMENT);
  assert_int_equal(c.f.fault, FOREIGN_WRONG_TYPE);
}

// The workspace grows where the entry point says that it is too small, and is kept.
TEST_WITH(the_workspace_grows, set_up, tear_down) {
  call_of_test c;
  begin(&c, *state, 32);
  calls = 0;
  const int64_t needs[] = {0, 1000, 500, 100000, 1000, 100000};
  const int64_t expected[] = {1, 3, 4, 6, 7, 8};
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
    workspace_needed = needs[i];
    assert_int_equal(run_call(&c), REC_OK);
    assert_int_equal(calls, expected[i]);
  }
  workspace_needed = 0;
}

TEST_WITH(packed_states_have_sequences, set_up, tear_down) {
  call_of_test c;
  begin(&c, *state, 32);
  int32_t offsets[] = {0, 1, 5};
  const int64_t count = 3;
  foreign_tensor cuts = {.data = offsets,
                         .device = {FOREIGN_CPU, 0},
                         .rank = 1,
                         .dtype = {FOREIGN_INT, 32, 1},
                         .shape = &count};
  c.f.cu_seqlens = &cuts;
  c.shapes[X][0] = c.shapes[Y][0] = 1;
  assert_int_equal(run_call(&c), REC_OK);
  assert_true(given.batch == 1 && given.sequences == 2 && given.cu_seqlens == offsets);
  int64_t shape[FOREIGN_RANK_MAX];
  foreign_cursor at = {0};
  while (at.position <= LAGT && foreign_next(c.f.table, REC_KERNEL_FORWARD, &at)) {
    assert_int_equal(foreign_shape(&c.f, at.memory, shape), c.tensors[at.position - 1].rank);
    assert_memory_equal(shape, c.shapes[at.position - 1],
                        sizeof *shape * (size_t)c.tensors[at.position - 1].rank);
    assert_int_equal(at.result, at.position > Y);
  }
  c.shapes[LAGT][0] = 3;
  assert_int_equal(run_call(&c), REC_ERROR_ARGUMENT);
  assert_non_null(strstr(
      rec_error(), "expected sequences = 2, found 3 in shape [3,2,4,3] of hT_x_lag[batch,2,G,K]"));
}
