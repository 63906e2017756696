// Calls a library of two number types and two sizes of K as tvm-ffi does, with tensors that have types and shapes: values against
// plain loops, and what is refused. tvm-ffi itself is not needed: this program has the one function of it that a refusal calls.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tvm_ffi.hpp"

// ---- tvm-ffi and DLPack, as far as they are used ---------------------------------------------

extern "C" {
int __tvm_ffi_keys_forward(void *, const any *, int32_t, any *);
int __tvm_ffi_keys_backward(void *, const any *, int32_t, any *);
int __tvm_ffi_keys_step(void *, const any *, int32_t, any *);
int __tvm_ffi_sums_forward(void *, const any *, int32_t, any *);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
}

static std::string raised;

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { raised = std::string(kind) + ": " + message; }

typedef int entry(void *, const any *, int32_t, any *);
typedef std::vector<int64_t> numbers;

static int failures;

static void expect(bool condition, const char *what) {
  if (condition) return;
  std::printf("FAILED: %s (%s)\n", what, raised.c_str());
  failures++;
}

static void expect_text(const std::string &expected) {
  if (raised == expected) return;
  std::printf("FAILED:\n  expected %s\n  found    %s\n", expected.c_str(), raised.c_str());
  failures++;
}

// ---- tensors ---------------------------------------------------------------------------------

template <typename number>
struct array {
  std::vector<number> data;
  numbers shape, strides;
  tensor view;

  explicit array(numbers sizes) : shape(sizes), view() {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    data.resize(static_cast<size_t>(count), number(7));
  }
  // Values that no other place has.
  array &fill(int factor, int modulus) {
    for (size_t i = 0; i < data.size(); i++)
      data[i] = static_cast<number>((static_cast<int>(i) * factor % modulus - modulus / 2) / 8.0);
    return *this;
  }
  const tensor *get() {
    view.data = data.data();
    view.device_type = 1;
    view.rank = static_cast<int32_t>(shape.size());
    view.code = number(0.5) != number(0) ? 2 : 0;
    view.bits = 8 * sizeof(number);
    view.lanes = 1;
    view.shape = shape.data();
    view.strides = strides.empty() ? nullptr : strides.data();
    return &view;
  }
};

static int call(entry *function, std::vector<const tensor *> tensors) {
  std::vector<any> arguments;
  for (const tensor *t : tensors) arguments.push_back(any{t ? 7 : 0, 0, t});
  any result = {99, 0, nullptr};
  raised.clear();
  int status = function(nullptr, arguments.data(), static_cast<int32_t>(arguments.size()), &result);
  expect(result.type == 0, "the result is none");
  expect((status == 0) == raised.empty(), "an error is raised where one is returned");
  return status;
}

// ---- values ----------------------------------------------------------------------------------

// y of S = 0.5 S[t-1] + q v, y = sum[K](q S); the state goes from and to S.
template <typename number>
static void run(const number *q, const number *v, double *S, double *y, int T, int H, int K, int v_step) {
  for (int t = 0; t < T; t++)
    for (int h = 0; h < H; h++) {
      y[t * H + h] = 0;
      for (int k = 0; k < K; k++) {
        double key = q[(t * H + h) * K + k];
        S[h * K + k] = 0.5 * S[h * K + k] + key * v[t * v_step + h];
        y[t * H + h] += key * S[h * K + k];
      }
    }
}

template <typename number>
static void check_values(int K, double bound) {
  enum { B = 2, T = 9, H = 3 };
  array<number> q({B, T, H, K}), v({B, T, H}), h0({B, H, K}), y({B, T, H}), hT({B, H, K});
  q.fill(7, 11), v.fill(5, 13), h0.fill(3, 17);
  expect(call(__tvm_ffi_keys_forward, {q.get(), v.get(), h0.get(), y.get(), hT.get()}) == 0, "forward");
  std::vector<double> S(h0.data.begin(), h0.data.end()), expected(B * T * H);
  for (int b = 0; b < B; b++)
    run(&q.data[b * T * H * K], &v.data[b * T * H], &S[b * H * K], &expected[b * T * H], T, H, K, H);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); i++) worst = std::fmax(worst, std::fabs(y.data[i] - expected[i]));
  for (size_t i = 0; i < S.size(); i++) worst = std::fmax(worst, std::fabs(hT.data[i] - S[i]));
  expect(worst < bound, "values");
}

// v is broadcast over batch and has every second step of its memory.
static void check_strides() {
  enum { B = 2, T = 5, H = 3, K = 4 };
  array<float> q({B, T, H, K}), v({B, T, H}), y({B, T, H});
  q.fill(7, 11);
  v.fill(5, 13);
  v.strides = {0, 2 * H, 1};
  expect(call(__tvm_ffi_keys_forward, {q.get(), v.get(), nullptr, y.get()}) == 0, "strides");
  double worst = 0;
  for (int b = 0; b < B; b++) {
    std::vector<double> S(H * K), expected(T * H);
    run(&q.data[b * T * H * K], v.data.data(), S.data(), expected.data(), T, H, K, 2 * H);
    for (int i = 0; i < T * H; i++) worst = std::fmax(worst, std::fabs(y.data[b * T * H + i] - expected[i]));
  }
  expect(worst < 1e-5, "values with strides");
}

// Two packed sequences and an empty one between them; then the same by steps, states in place.
static void check_packed_and_steps() {
  enum { T = 7, FIRST = 3, H = 2, K = 8 };
  array<double> q({1, T, H, K}), v({1, T, H}), y({1, T, H}), hT({3, H, K}), state({1, H, K});
  array<int32_t> offsets({4});
  offsets.data = {0, FIRST, FIRST, T};
  q.fill(7, 11), v.fill(5, 13);
  expect(call(__tvm_ffi_keys_forward, {q.get(), v.get(), nullptr, y.get(), hT.get(), offsets.get()}) == 0, "packed");
  std::fill(state.data.begin(), state.data.end(), 0);
  double worst = 0;
  for (int t = FIRST; t < T; t++) {
    array<double> q_step({1, H, K}), v_step({1, H}), y_step({1, H});
    std::copy_n(&q.data[t * H * K], H * K, q_step.data.begin());
    std::copy_n(&v.data[t * H], H, v_step.data.begin());
    expect(call(__tvm_ffi_keys_step, {q_step.get(), v_step.get(), state.get(), y_step.get(), state.get()}) == 0, "step");
    for (int h = 0; h < H; h++) worst = std::fmax(worst, std::fabs(y_step.data[h] - y.data[t * H + h]));
  }
  for (int i = 0; i < H * K; i++) worst = std::fmax(worst, std::fabs(state.data[i] - hT.data[2 * H * K + i]));
  for (int i = 0; i < H * K; i++) worst = std::fmax(worst, std::fabs(hT.data[H * K + i]));
  expect(worst < 1e-13, "packed sequences and steps");
}

// The gradients of one step from zero: S = q v, y = q S.
static void check_backward() {
  enum { K = 8 };
  array<float> q({1, 1, 1, K}), v({1, 1, 1}), d_y({1, 1, 1}), d_q({1, 1, 1, K}), d_v({1, 1, 1});
  q.fill(7, 11), v.data[0] = 0.5f, d_y.data[0] = 1;
  expect(call(__tvm_ffi_keys_backward, {q.get(), v.get(), nullptr, d_y.get(), nullptr, d_q.get(), d_v.get()}) == 0, "backward");
  for (int k = 0; k < K; k++) expect(d_q.data[k] == 2 * q.data[k] * v.data[0], "a gradient");
}

// Without steps the state is handed through, without batch entries nothing is touched.
static void check_empty() {
  array<float> x({2, 0, 3}), y({2, 0, 3}), h0({2, 3}), hT({2, 3}), no_x({0, 4, 3}), no_y({0, 4, 3});
  h0.fill(3, 17);
  expect(call(__tvm_ffi_sums_forward, {x.get(), h0.get(), y.get(), hT.get()}) == 0, "no steps");
  expect(hT.data == h0.data, "the state is handed through");
  expect(call(__tvm_ffi_sums_forward, {no_x.get(), nullptr, no_y.get()}) == 0, "no batch entries");
}

static void check_messages() {
  array<float> q({2, 5, 3, 6}), v({2, 5, 3});
  call(__tvm_ffi_keys_forward, {q.get(), v.get()});
  expect_text("ValueError: keys_forward: expected K = 4, its compile-time size, for q[batch,time,H,K], found 6 in shape [2,5,3,6]; "
              "compile the library with -D K=6 (this library has keys_f32_K4, keys_f32_K8, keys_f64_K4, keys_f64_K8)");
}

int main() {
  check_values<float>(4, 1e-5);
  check_values<float>(8, 1e-5);
  check_values<double>(4, 1e-13);
  check_values<double>(8, 1e-13);
  check_strides();
  check_packed_and_steps();
  check_backward();
  check_empty();
  check_messages();
  return failures != 0;
}
