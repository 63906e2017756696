// Calls a library of two number types and two sizes of K as XLA does: version, stages, values, axes
// of vmap, what is refused. XLA itself is not needed; tests/bindings has it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/artifact/library/xla_call.h"

void *rec_xla_keys_forward(xla_frame *frame);
void *rec_xla_sums_forward(xla_frame *frame);
void *rec_xla_sums_backward(xla_frame *frame);

static int failures;
static char said[512];

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%s)\n", what, said);
  failures++;
}

static void expect_text(void *error, const char *text) {
  if (error && strcmp(said, text) == 0) return;
  printf("FAILED:\n  expected %s\n  found    %s\n", text, error ? said : "no error");
  failures++;
}

static xla_error *create_error(xla_error_create *create) {
  snprintf(said, sizeof said, "%d %s", create->code, create->message);
  return (xla_error *)said;
}

static const xla_api api = {.size = sizeof api, .create_error = create_error};

// A buffer of its own memory, so that a sanitizer sees what lies beyond it.
static xla_buffer buffer(int dtype, int bytes, int64_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (int64_t i = 0; i < rank; i++) count *= dims[i];
  return (xla_buffer){.size = sizeof(xla_buffer),
                      .dtype = dtype,
                      .data = calloc((size_t)count + 1, (size_t)bytes),
                      .rank = rank,
                      .dims = dims};
}

static void *call(handler *run, xla_buffer *const *operands, xla_array read,
                  xla_buffer *const *results, xla_array written) {
  *said = 0;
  return call_handler(run, &api, NULL, operands, read, results, written);
}

// XLA asks for the version before it has an interface to hand over.
static void test_version(void) {
  xla_metadata metadata = {.size = sizeof metadata,
                           .version = {.size = sizeof metadata.version, .major = -1, .minor = -1},
                           .traits = 99};
  xla_metadata_extension asks = {{sizeof asks, XLA_EXTENSION_METADATA, NULL}, &metadata};
  xla_extension other = {sizeof other, 7, &asks.base};
  xla_frame frame = {.size = sizeof frame, .extensions = &other};
  expect(rec_xla_keys_forward(&frame) == NULL, "a question for the version is no error");
  expect(metadata.version.major == 0 && metadata.version.minor == 1 && metadata.traits == 0,
         "API 0.1, without traits");
}

static void test_stages(void) {
  xla_frame frame = {.size = sizeof frame, .api = &api};
  for (frame.stage = 0; frame.stage < XLA_EXECUTE; frame.stage++)
    expect(rec_xla_keys_forward(&frame) == NULL, "nothing is done before the last stage");
}

// s = s[t-1] + x, y = s: x is 1, h0 of entry i is i.
static void test_values(int dtype, int64_t entries, int64_t own_states) {
  int bytes = dtype == XLA_F64 ? 8 : 4;
  const int64_t x_dims[] = {entries, 2, 3, 4}, h0_dims[] = {own_states, 2, 4},
                hT_dims[] = {entries, 2, 4};
  xla_buffer x = buffer(dtype, bytes, 4, x_dims), h0 = buffer(dtype, bytes, 3, h0_dims);
  xla_buffer y = buffer(dtype, bytes, 4, x_dims), hT = buffer(dtype, bytes, 3, hT_dims);
  for (int i = 0; i < entries * 24; i++)
    dtype == XLA_F64 ? (((double *)x.data)[i] = 1) : (double)(((float *)x.data)[i] = 1);
  for (int i = 0; i < own_states * 8; i++)
    dtype == XLA_F64 ? (((double *)h0.data)[i] = i) : (double)(((float *)h0.data)[i] = (float)i);
  void *error =
      call(rec_xla_sums_forward, (xla_buffer *[]){&x, &h0}, positions(2, (int64_t[]){1, 2}),
           (xla_buffer *[]){&hT, &y}, positions(2, (int64_t[]){4, 3}));
  expect(!error, "a call");
  for (int i = 0; i < entries * 8; i++) {
    double found = dtype == XLA_F64 ? ((double *)hT.data)[i] : (double)((float *)hT.data)[i];
    expect(found == i % (own_states * 8) + 3, "the last state of each entry");
  }
  for (int i = 0; i < entries * 24; i++) {
    double found = dtype == XLA_F64 ? ((double *)y.data)[i] : (double)((float *)y.data)[i];
    expect(found == i / 24 * 8 % (own_states * 8) + i / 12 % 2 * 4 + i % 4 + i / 4 % 3 + 1,
           "each step");
  }
  free(x.data), free(h0.data), free(y.data), free(hT.data);
}

static void test_refusals(void) {
  const int64_t dims[] = {2, 3, 4}, longer[] = {2, 4, 4}, flat[] = {24}, keys[] = {2, 3, 5, 7};
  xla_buffer x = buffer(XLA_F32, 4, 3, dims), y = buffer(XLA_F32, 4, 3, longer),
             whole = buffer(XLA_S32, 4, 3, dims);
  xla_buffer one = buffer(XLA_F32, 4, 1, flat), q = buffer(XLA_F32, 4, 4, keys),
             v = buffer(XLA_F32, 4, 3, keys);
  const int64_t in[] = {1, 2, 3}, out[] = {3, 4}, none[] = {77};
  handler *sums = rec_xla_sums_forward;
  expect_text(
      call(sums, (xla_buffer *[]){&x}, positions(1, in), (xla_buffer *[]){&y}, positions(1, out)),
      "3 sums_forward: expected time = 3, as x[batch,time,D] has it, found 4 in shape [2,4,4] of "
      "y[batch,time,D] (this library has sums_f32, sums_f64)");
  expect(call(sums, (xla_buffer *[]){&whole}, positions(1, in), (xla_buffer *[]){&x},
              positions(1, out)) &&
             strstr(said, "found int32"),
         "whole numbers");
  expect_text(
      call(sums, (xla_buffer *[]){&one}, positions(1, in), (xla_buffer *[]){&x}, positions(1, out)),
      "3 sums_forward: expected 3 axes of x, found 1");
  expect_text(
      call(sums, (xla_buffer *[]){&x}, positions(1, none), (xla_buffer *[]){&x}, positions(1, out)),
      "3 sums_forward: expected the positions of operands, each once, found 77");
  expect_text(
      call(sums, (xla_buffer *[]){&x}, positions(1, in), (xla_buffer *[]){&x}, positions(1, none)),
      "3 sums_forward: expected the positions of results, each once, found 77");
  expect_text(call(sums, (xla_buffer *[]){&x}, (xla_array){XLA_S32, 1, in}, (xla_buffer *[]){&x},
                   positions(1, out)),
              "3 sums_forward: expected an attribute operands with 1 positions, found 0");
  expect_text(call(sums, (xla_buffer *[]){&x, &x}, positions(2, (int64_t[]){1, 1}),
                   (xla_buffer *[]){&x}, positions(1, out)),
              "3 sums_forward: expected the positions of operands, each once, found 1");
  expect_text(call(sums, NULL, positions(0, in), NULL, positions(0, out)),
              "3 sums_forward: expected a tensor of sequences, found none");
  expect_text(call(rec_xla_sums_backward, NULL, positions(0, in), NULL, positions(0, out)),
              "3 sums_backward: expected a tensor of sequences, found none");
  expect(call(rec_xla_keys_forward, (xla_buffer *[]){&q, &v}, positions(2, in),
              (xla_buffer *[]){&v}, positions(1, (int64_t[]){4})) &&
             strstr(said, "K = 4"),
         "a K that no variant has");
  free(x.data), free(y.data), free(whole.data), free(one.data), free(q.data), free(v.data);
}

int main(void) {
  test_version();
  test_stages();
  for (int64_t entries = 1; entries < 4; entries++) {
    test_values(XLA_F32, entries, entries);
    test_values(XLA_F64, entries, entries);
    test_values(XLA_F64, entries, 1);
  }
  test_refusals();
  return failures != 0;
}
