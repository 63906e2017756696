// Wrong uses of a library from C++: through the header, what the C ABI can see, and with tensors that have types and shapes, as
// tvm-ffi calls. Each must return an error whose message says what to do. Nothing may be read or written elsewhere: memory is
// allocated as large as the right call needs, so that a sanitizer sees more.
#include "decay.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tvm_ffi.hpp"

static int failures, uses;

// `text` may have one *, which stands for what differs between machines.
static bool is_like(const std::string &said, const std::string &text) {
  size_t star = text.find('*');
  if (star == std::string::npos) return said == text;
  std::string end = text.substr(star + 1);
  return said.size() >= star + end.size() && said.compare(0, star, text, 0, star) == 0 &&
         said.compare(said.size() - end.size(), end.size(), end) == 0;
}

static void expect(const std::string &what, int status, int wanted, const std::string &said, const std::string &text) {
  uses++;
  if (status == wanted && is_like(said, text)) return;
  std::printf("FAILED: %s\n  expected %d: %s\n  found    %d: %s\n", what.c_str(), wanted, text.c_str(), status, said.c_str());
  failures++;
}

// ---- through the header ----------------------------------------------------------------------

enum { B = 2, T = 5, G = 3, K = 4, V = 6 };

typedef std::unique_ptr<char, void (*)(void *)> memory;

static memory aligned(size_t bytes) {
  size_t whole = (bytes + REC_ALIGNMENT - 1) / REC_ALIGNMENT * REC_ALIGNMENT;
  return memory(static_cast<char *>(std::aligned_alloc(REC_ALIGNMENT, whole)), std::free);
}

// A right call of forward, backward and step, to be made wrong.
struct right_call {
  std::vector<float> x, k, q, a, b, d, y;
  std::vector<int32_t> offsets;
  memory workspace, saved;
  decay_arguments f;
  rec_launch launch;
  rec_sizes sizes;

  right_call()
      : x(B * T * G * V),
        k(B * T * G * K),
        q(B * T * G * K),
        a(B * T * G),
        b(G),
        d(V),
        y(B * T * G * V),
        offsets{0, 2, T},
        workspace(nullptr, std::free),
        saved(nullptr, std::free),
        f(),
        launch(),
        sizes() {
    f.size = sizeof f;
    f.batch = B, f.time = T, f.G = G, f.V = V;
    f.x = x.data(), f.k = k.data(), f.q = q.data(), f.a = a.data(), f.b = b.data(), f.d = d.data(), f.y = y.data();
    sizes.size = sizeof sizes;
    decay_sizes(&f, &sizes);
    workspace = aligned(static_cast<size_t>(sizes.workspace));
    saved = aligned(static_cast<size_t>(sizes.saved) + 1);
    launch.size = sizeof launch;
    launch.abi_major = REC_ABI_MAJOR, launch.abi_minor = REC_ABI_MINOR;
    launch.workspace = workspace.get(), launch.workspace_bytes = sizes.workspace;
    launch.saved = saved.get(), launch.saved_bytes = sizes.saved;
  }
  void pack() {
    f.batch = 1, f.sequences = 2;
    f.cu_seqlens = offsets.data();
  }
};

typedef int entry(const decay_arguments *, const rec_launch *);

typedef std::function<void(right_call &)> change;

static void wrong(const char *what, entry *call, int status, const char *text, const change &make_wrong) {
  right_call c;
  if (call == decay_step) c.f.time = 1;
  if (call(&c.f, &c.launch) != REC_OK) std::printf("FAILED: %s: the right call: %s\n", what, rec_error()), failures++;
  make_wrong(c);
  int found = call(&c.f, &c.launch);
  expect(what, found, status, rec_error(), text);
}

static void forward(const char *what, int status, const char *text, const change &make_wrong) {
  wrong(what, decay_forward, status, text, make_wrong);
}

static void check_header() {
  forward("struct of an older header", REC_ERROR_ABI,
          "decay_forward: expected arguments of at least 400 bytes, found size = 392; set it to sizeof(decay_arguments)",
          [](right_call &c) { c.f.size -= 8; });
  forward("struct without its size", REC_ERROR_ABI,
          "decay_forward: expected arguments of at least 400 bytes, found size = 0; set it to sizeof(decay_arguments)",
          [](right_call &c) { c.f.size = 0; });
  forward("launch without its size", REC_ERROR_ABI,
          "decay_forward: expected a rec_launch of at least 88 bytes, found size = 0; set it to sizeof(rec_launch)",
          [](right_call &c) { c.launch.size = 0; });
  forward("another ABI", REC_ERROR_ABI, "decay_forward: expected ABI 1.x, found 2.2 in rec_launch",
          [](right_call &c) { c.launch.abi_major = 2; });
  forward("launch without an ABI", REC_ERROR_ABI, "decay_forward: expected ABI 1.x, found 0.2 in rec_launch",
          [](right_call &c) { c.launch.abi_major = 0; });
  forward("negative batch", REC_ERROR_ARGUMENT,
          "decay_forward: expected batch and time of at least 0, found batch = -1, time = 5",
          [](right_call &c) { c.f.batch = -1; });
  forward("negative time", REC_ERROR_ARGUMENT,
          "decay_forward: expected batch and time of at least 0, found batch = 2, time = -5",
          [](right_call &c) { c.f.time = -5; });
  forward("an axis without a size", REC_ERROR_ARGUMENT, "decay_forward: expected a size of at least 1 for axis G, found 0",
          [](right_call &c) { c.f.G = 0; });
  forward("a negative axis", REC_ERROR_ARGUMENT, "decay_forward: expected a size of at least 1 for axis V, found -6",
          [](right_call &c) { c.f.V = -6; });
  forward("another fixed axis", REC_ERROR_ARGUMENT, "decay_forward: expected K = 4, its compile-time size, found 8",
          [](right_call &c) { c.f.K = 8; });
  forward("sizes beyond memory", REC_ERROR_ARGUMENT,
          "decay_forward: expected sizes that fit in memory, found x[batch,time,G,V] of more than 2^56 numbers",
          [](right_call &c) { c.f.time = INT64_MAX; });
  forward("an input that is NULL", REC_ERROR_ARGUMENT, "decay_forward: expected data for q[batch,time,G,K], found NULL",
          [](right_call &c) { c.f.q = nullptr; });
  forward("a parameter that is NULL", REC_ERROR_ARGUMENT, "decay_forward: expected data for b[G], found NULL",
          [](right_call &c) { c.f.b = nullptr; });
  forward("a tensor between numbers", REC_ERROR_ARGUMENT,
          "decay_forward: expected x[batch,time,G,V] aligned to 4 bytes, found address *",
          [](right_call &c) { c.f.x = reinterpret_cast<const float *>(reinterpret_cast<const char *>(c.f.x) + 2); });
  forward("a negative stride", REC_ERROR_ARGUMENT,
          "decay_forward: expected strides of at least 0 (or 0: dense) for k[batch,time,G,K], found batch stride 0, time "
          "stride -12",
          [](right_call &c) { c.f.k_time_stride = -12; });
  forward(
      "a stride below a step", REC_ERROR_ARGUMENT,
      "decay_forward: expected strides of at least 18 (or 0: dense) for y[batch,time,G,V], found batch stride 0, time stride 6",
      [](right_call &c) { c.f.y_time_stride = 6; });
  forward("an output that is broadcast", REC_ERROR_ARGUMENT,
          "decay_forward: expected strides of at least 18 (or 0: dense) for y[batch,time,G,V], found batch stride "
          "REC_STRIDE_BROADCAST, time stride 0",
          [](right_call &c) { c.f.y_batch_stride = REC_STRIDE_BROADCAST; });
  forward("a stride beyond memory", REC_ERROR_ARGUMENT,
          "decay_forward: expected strides that span at most 2^56 numbers for x[batch,time,G,V], found batch stride "
          "4611686018427387903, time stride 0",
          [](right_call &c) { c.f.x_batch_stride = INT64_MAX / 2; });
  forward("packed with a batch", REC_ERROR_ARGUMENT,
          "decay_forward: expected batch = 1 and sequences of at least 0 with packed sequences, found batch = 2, sequences = 2",
          [](right_call &c) { c.pack(), c.f.batch = 2; });
  forward("packed without offsets", REC_ERROR_ARGUMENT, "decay_forward: expected cu_seqlens with sequences = 2, found NULL",
          [](right_call &c) { c.pack(), c.f.cu_seqlens = nullptr; });
  forward("offsets that start late", REC_ERROR_ARGUMENT, "decay_forward: expected cu_seqlens to start at 0, found 1",
          [](right_call &c) { c.pack(), c.offsets[0] = 1; });
  forward("offsets that fall", REC_ERROR_ARGUMENT, "decay_forward: expected cu_seqlens that never fall, found 5 after 9",
          [](right_call &c) { c.pack(), c.offsets[1] = 9; });
  forward("offsets that end early", REC_ERROR_ARGUMENT, "decay_forward: expected cu_seqlens to end at time = 5, found 4",
          [](right_call &c) { c.pack(), c.offsets[2] = 4; });
  forward("no workspace", REC_ERROR_WORKSPACE, "decay_forward: expected a workspace of at least * ask decay_sizes",
          [](right_call &c) { c.launch.workspace = nullptr; });
  forward("a small workspace", REC_ERROR_WORKSPACE, "decay_forward: expected a workspace of at least * ask decay_sizes",
          [](right_call &c) { c.launch.workspace_bytes = 1; });
  forward("a workspace that is not aligned", REC_ERROR_WORKSPACE,
          "decay_forward: expected a workspace aligned to 64 bytes, found address *",
          [](right_call &c) { c.launch.workspace = static_cast<char *>(c.launch.workspace) + 4; });
  forward("negative bytes", REC_ERROR_ARGUMENT,
          "decay_forward: expected workspace_bytes and saved_bytes of at least 0, found -1 and 768",
          [](right_call &c) { c.launch.workspace_bytes = -1; });
  forward("small memory for saved", REC_ERROR_WORKSPACE, "decay_forward: expected saved of at least * ask decay_sizes",
          [](right_call &c) { c.launch.saved_bytes = 64; });
  forward("saved that is not aligned", REC_ERROR_WORKSPACE,
          "decay_forward: expected saved aligned to 64 bytes, found address *",
          [](right_call &c) { c.launch.saved = c.saved.get() + 1; });
  forward("negative threads", REC_ERROR_ARGUMENT, "decay_forward: expected threads of at least 0, found -2",
          [](right_call &c) { c.launch.threads = -2; });
  forward("negative slices", REC_ERROR_ARGUMENT, "decay_forward: expected time_parts of at least 0, found -1",
          [](right_call &c) { c.launch.time_parts = -1; });
  forward("a GPU that is not there", REC_ERROR_DEVICE, "decay_forward: expected an NVIDIA driver, found none: *",
          [](right_call &c) { c.launch.device_kind = REC_DEVICE_CUDA; });
  forward("a device without code", REC_ERROR_DEVICE,
          "decay_forward: expected a library with code for the executor, found none; compile it with --target simt",
          [](right_call &c) { c.launch.device_kind = REC_DEVICE_SIMT; });
  forward("no device", REC_ERROR_DEVICE,
          "decay_forward: expected device_kind REC_DEVICE_HOST, REC_DEVICE_CUDA or REC_DEVICE_SIMT, found 7",
          [](right_call &c) { c.launch.device_kind = 7; });
  wrong("backward, small memory for saved", decay_backward, REC_ERROR_WORKSPACE,
        "decay_backward: expected saved of at least * ask decay_sizes", [](right_call &c) { c.launch.saved_bytes = 8; });
  wrong("backward without a workspace", decay_backward, REC_ERROR_WORKSPACE,
        "decay_backward: expected a workspace of at least * ask decay_sizes",
        [](right_call &c) { c.launch.workspace = nullptr; });
  wrong("backward without an input", decay_backward, REC_ERROR_ARGUMENT,
        "decay_backward: expected data for a[batch,time,G], found NULL", [](right_call &c) { c.f.a = nullptr; });
  wrong("a gradient that is broadcast", decay_backward, REC_ERROR_ARGUMENT,
        "decay_backward: expected strides of at least 18 (or 0: dense) for d_x[batch,time,G,V], found batch stride 0, time "
        "stride REC_STRIDE_BROADCAST",
        [](right_call &c) {
          c.f.d_x = c.y.data();
          c.f.d_x_time_stride = REC_STRIDE_BROADCAST;
        });
  wrong("a step of several", decay_step, REC_ERROR_ARGUMENT, "decay_step: expected time = 1, found 2",
        [](right_call &c) { c.f.time = 2; });
  wrong("a step of a longer sequence", decay_step, REC_ERROR_ARGUMENT,
        "decay_step: expected packed sequences of at most 1 step, found one of 3",
        [](right_call &c) { c.pack(), c.f.time = T; });

  right_call c;
  int found = decay_forward(nullptr, &c.launch);
  expect("no arguments", found, REC_ERROR_ARGUMENT, rec_error(), "decay_forward: expected arguments, found NULL");
  found = decay_backward(&c.f, nullptr);
  expect("no launch", found, REC_ERROR_ARGUMENT, rec_error(), "decay_backward: expected a rec_launch, found NULL");
  found = decay_sizes(nullptr, &c.sizes);
  expect("no arguments of sizes", found, REC_ERROR_ARGUMENT, rec_error(), "decay_sizes: expected arguments, found NULL");
  found = decay_sizes(&c.f, nullptr);
  expect("no sizes", found, REC_ERROR_ARGUMENT, rec_error(), "decay_sizes: expected a rec_sizes, found NULL");
  c.sizes.size = 8;
  found = decay_sizes(&c.f, &c.sizes);
  expect("sizes of an older header", found, REC_ERROR_ABI, rec_error(),
         "decay_sizes: expected a rec_sizes of at least 56 bytes, found size = 8; set it to sizeof(rec_sizes)");
}

// ---- with tensors ----------------------------------------------------------------------------

extern "C" {
int __tvm_ffi_decay_forward(void *, const any *, int32_t, any *);
int __tvm_ffi_decay_backward(void *, const any *, int32_t, any *);
int __tvm_ffi_decay_step(void *, const any *, int32_t, any *);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
}

static std::string raised;

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { raised = std::string(kind) + ": " + message; }

typedef int entry_of_tensors(void *, const any *, int32_t, any *);
enum position { X, KEYS, Q, A, PARAM_B, PARAM_D, H0, H0_LAG, Y, HT, HT_LAG, OFFSETS, SAVED, TENSORS };
typedef std::vector<int64_t> numbers;

// The tensors of a right call of forward, of one that packs two sequences, or of a step.
struct right_tensors {
  numbers shapes[TENSORS], strides[TENSORS];
  std::vector<float> data[TENSORS];
  std::vector<int32_t> offsets;
  memory bytes;
  tensor views[TENSORS];
  any arguments[TENSORS + 1];
  int count;

  right_tensors(bool step, bool packed)
      : bytes(aligned(1 << 16)),
        views(),
        arguments(),
        count(step     ? OFFSETS
              : packed ? TENSORS
                       : OFFSETS) {
    int64_t batch = packed ? 1 : B, states = packed ? 2 : B;
    numbers token = step ? numbers{batch} : numbers{batch, T};
    const numbers ends[TENSORS] = {{G, V},    {G, K}, {G, K},    {G},       {G}, {V},      {G, K, V},
                                   {1, G, V}, {G, V}, {G, K, V}, {1, G, V}, {3}, {1 << 16}};
    for (int i = 0; i < TENSORS; i++) {
      bool state = i == H0 || i == H0_LAG || i == HT || i == HT_LAG;
      if (i <= A || i == Y) shapes[i] = token;
      if (state) shapes[i] = {states};
      shapes[i].insert(shapes[i].end(), ends[i].begin(), ends[i].end());
      int64_t numbers_of = 1;
      for (int64_t size : shapes[i]) numbers_of *= size;
      if (i < OFFSETS) data[i].resize(static_cast<size_t>(numbers_of));
      views[i] = tensor{data[i].data(), 1, 0, 0, 2, 32, 1, nullptr, nullptr, 0};
      arguments[i] = any{7, 0, &views[i]};
    }
    offsets = {0, 2, T};
    views[OFFSETS].data = offsets.data(), views[OFFSETS].code = 0;
    views[SAVED].data = bytes.get(), views[SAVED].code = 1, views[SAVED].bits = 8;
  }
  int call(entry_of_tensors *function) {
    for (int i = 0; i < TENSORS; i++) {
      if (views[i].rank == 0) views[i].rank = static_cast<int32_t>(shapes[i].size());
      views[i].shape = shapes[i].data();
      views[i].strides = strides[i].empty() ? nullptr : strides[i].data();
    }
    any result = {0, 0, nullptr};
    raised.clear();
    return function(nullptr, arguments, count, &result);
  }
};

typedef std::function<void(right_tensors &)> change_of_tensors;

static void wrong_tensors(const char *what, bool step, bool packed, const char *text, const change_of_tensors &make_wrong) {
  entry_of_tensors *function = step ? __tvm_ffi_decay_step : __tvm_ffi_decay_forward;
  right_tensors right(step, packed), c(step, packed);
  if (right.call(function)) std::printf("FAILED: %s: the right call: %s\n", what, raised.c_str()), failures++;
  make_wrong(c);
  int found = c.call(function);
  expect(what, found, -1, raised, text);
}

static void tensors(const char *what, const char *text, const change_of_tensors &make_wrong) {
  wrong_tensors(what, false, false, text, make_wrong);
}

static void packed(const char *what, const char *text, const change_of_tensors &make_wrong) {
  wrong_tensors(what, false, true, text, make_wrong);
}

static void check_tensors() {
  tensors("an axis too few", "ValueError: decay_forward: expected 4 axes of k[batch,time,G,K], found 3: shape [2,5,12]",
          [](right_tensors &c) { c.shapes[KEYS] = {B, T, G * K}; });
  tensors("an axis too many", "ValueError: decay_forward: expected 4 axes of x[batch,time,G,V], found 5: shape [2,5,3,6,1]",
          [](right_tensors &c) { c.shapes[X] = {B, T, G, V, 1}; });
  tensors("another batch",
          "ValueError: decay_forward: expected batch = 2, as x[batch,time,G,V] has it, found 1 in shape [1,5,3,4] of "
          "q[batch,time,G,K]",
          [](right_tensors &c) { c.shapes[Q][0] = 1; });
  tensors("another time",
          "ValueError: decay_forward: expected time = 5, as x[batch,time,G,V] has it, found 4 in shape [2,4,3,4] of "
          "k[batch,time,G,K]",
          [](right_tensors &c) { c.shapes[KEYS][1] = 4; });
  tensors("another open axis",
          "ValueError: decay_forward: expected G = 3, as x[batch,time,G,V] has it, found 2 in shape [2,5,2] of a[batch,time,G]",
          [](right_tensors &c) { c.shapes[A][2] = 2; });
  tensors("another fixed axis",
          "ValueError: decay_forward: expected K = 4, its compile-time size, for k[batch,time,G,K], found 8 in shape "
          "[2,5,3,8]; compile the library with -D K=8",
          [](right_tensors &c) { c.shapes[KEYS][3] = 8; });
  tensors("another axis of a parameter",
          "ValueError: decay_forward: expected V = 6, as x[batch,time,G,V] has it, found 5 in shape [5] of d[V]",
          [](right_tensors &c) { c.shapes[PARAM_D][0] = 5; });
  tensors("another batch of a state",
          "ValueError: decay_forward: expected batch = 2, as x[batch,time,G,V] has it, found 3 in shape [3,3,4,6] of "
          "h0_S[batch,G,K,V]",
          [](right_tensors &c) { c.shapes[H0][0] = 3; });
  tensors(
      "another axis of a state",
      "ValueError: decay_forward: expected V = 6, as x[batch,time,G,V] has it, found 5 in shape [2,3,4,5] of hT_S[batch,G,K,V]",
      [](right_tensors &c) { c.shapes[HT][3] = 5; });
  tensors("another depth of a lag",
          "ValueError: decay_forward: expected steps of the lag = 1, found 2 in shape [2,2,3,6] of h0_x_lag[batch,1,G,V]",
          [](right_tensors &c) { c.shapes[H0_LAG][1] = 2; });
  tensors(
      "another axis of an output",
      "ValueError: decay_forward: expected V = 6, as x[batch,time,G,V] has it, found 1 in shape [2,5,3,1] of y[batch,time,G,V]",
      [](right_tensors &c) { c.shapes[Y][3] = 1; });
  tensors("an axis without a size", "ValueError: decay_forward: expected a size of at least 1 for axis G, found 0",
          [](right_tensors &c) {
            for (int i : {X, KEYS, Q, A, Y}) c.shapes[i][2] = 0;
            c.shapes[PARAM_B][0] = c.shapes[H0][1] = c.shapes[H0_LAG][2] = c.shapes[HT][1] = c.shapes[HT_LAG][2] = 0;
          });
  tensors("double precision",
          "TypeError: decay_forward: expected float32 for q[batch,time,G,K], found float64; convert it, or compile the library "
          "with another --dtype",
          [](right_tensors &c) { c.views[Q].bits = 64; });
  tensors("whole numbers",
          "TypeError: decay_forward: expected float32 for x[batch,time,G,V], found int32; convert it, or compile the library "
          "with another --dtype",
          [](right_tensors &c) { c.views[X].code = 0; });
  tensors("bfloat16",
          "TypeError: decay_forward: expected float32 for b[G], found bfloat16; convert it, or compile the library with "
          "another --dtype",
          [](right_tensors &c) { c.views[PARAM_B].code = 4, c.views[PARAM_B].bits = 16; });
  tensors("vectors of numbers",
          "TypeError: decay_forward: expected float32 for a[batch,time,G], found float32x4; convert it, or compile the library "
          "with another --dtype",
          [](right_tensors &c) { c.views[A].lanes = 4; });
  tensors("complex numbers",
          "TypeError: decay_forward: expected float32 for h0_S[batch,G,K,V], found complex64; convert it, or compile the "
          "library with another --dtype",
          [](right_tensors &c) { c.views[H0].code = 5, c.views[H0].bits = 64; });
  tensors("a type that DLPack has not",
          "TypeError: decay_forward: expected float32 for y[batch,time,G,V], found a type of code 99 with 32 bits; convert it, "
          "or compile the library with another --dtype",
          [](right_tensors &c) { c.views[Y].code = 99; });
  tensors("another device",
          "ValueError: decay_forward: expected k[batch,time,G,K] on cpu, where x[batch,time,G,V] is, found it on cuda:0; move "
          "it there",
          [](right_tensors &c) { c.views[KEYS].device_type = 2; });
  tensors("another GPU",
          "ValueError: decay_forward: expected k[batch,time,G,K] on cuda:0, where x[batch,time,G,V] is, found it on cuda:1; "
          "move it there",
          [](right_tensors &c) {
            c.views[X].device_type = c.views[KEYS].device_type = 2;
            c.views[KEYS].device_number = 1;
          });
  tensors("a GPU that is not there", "RuntimeError: decay_sizes: expected an NVIDIA driver, found none: *",
          [](right_tensors &c) {
            for (int i = 0; i < OFFSETS; i++) c.views[i].device_type = 2;
          });
  tensors("a device of another kind",
          "ValueError: decay_forward: expected x[batch,time,G,V] on a CPU or a CUDA GPU, found it on device type 8 of DLPack",
          [](right_tensors &c) { c.views[X].device_type = 8; });
  tensors("axes of a step in another order",
          "ValueError: decay_forward: expected steps of x[batch,time,G,V] that lie densely, found strides [90,18,1,3]; hand "
          "over a contiguous copy",
          [](right_tensors &c) { c.strides[X] = {T * G * V, G * V, 1, G}; });
  tensors("a state in another order",
          "ValueError: decay_forward: expected entries of h0_S[batch,G,K,V] that lie densely, found strides [72,24,1,4]; hand "
          "over a contiguous copy",
          [](right_tensors &c) { c.strides[H0] = {G * K * V, K * V, 1, K}; });
  tensors(
      "a parameter with gaps",
      "ValueError: decay_forward: expected entries of b[G] that lie densely, found strides [2]; hand over a contiguous copy",
      [](right_tensors &c) { c.strides[PARAM_B] = {2}; });
  tensors("backwards in time",
          "ValueError: decay_forward: expected steps of q[batch,time,G,K] that lie densely, found strides [60,-12,4,1]; hand "
          "over a contiguous copy",
          [](right_tensors &c) { c.strides[Q] = {T * G * K, -G * K, K, 1}; });
  tensors(
      "an output that is broadcast",
      "ValueError: decay_forward: expected a result y[batch,time,G,V] whose entries do not overlap, found strides [0,18,6,1]",
      [](right_tensors &c) { c.strides[Y] = {0, G * V, V, 1}; });
  tensors("an output whose steps overlap",
          "ValueError: decay_forward: expected strides of at least 18 (or 0: dense) for y[batch,time,G,V], found batch stride "
          "90, time stride 6",
          [](right_tensors &c) { c.strides[Y] = {T * G * V, V, V, 1}; });
  tensors("an input that is not there", "TypeError: decay_forward: expected a tensor for k[batch,time,G,K], found none",
          [](right_tensors &c) { c.arguments[KEYS] = any{0, 0, nullptr}; });
  tensors("a parameter that is not there", "TypeError: decay_forward: expected a tensor for b[G], found none",
          [](right_tensors &c) { c.arguments[PARAM_B] = any{0, 0, nullptr}; });
  tensors("an output that is not there", "ValueError: decay_forward: expected data for y[batch,time,G,V], found none",
          [](right_tensors &c) { c.arguments[Y] = any{0, 0, nullptr}; });
  tensors("a number in place of a tensor",
          "TypeError: decay_forward: expected a tensor or None as argument 3, found a value of tvm-ffi's type 1",
          [](right_tensors &c) { c.arguments[Q].type = 1; });
  tensors("too few arguments", "TypeError: decay_forward: expected a tensor for q[batch,time,G,K], found none",
          [](right_tensors &c) { c.count = 2; });
  tensors("memory that is not there", "ValueError: decay_forward: expected data for x[batch,time,G,V], found NULL",
          [](right_tensors &c) { c.views[X].data = nullptr; });
  tensors("memory between numbers", "ValueError: decay_forward: expected x[batch,time,G,V] aligned to 4 bytes, found address *",
          [](right_tensors &c) { c.views[X].byte_offset = 2; });
  packed("too many arguments", "TypeError: decay_forward: expected at most 13 arguments, found 14",
         [](right_tensors &c) { c.count = TENSORS + 1; });
  packed("offsets of 64 bits", "TypeError: decay_forward: expected int32 for cu_seqlens, found int64; convert it",
         [](right_tensors &c) { c.views[OFFSETS].bits = 64; });
  packed("offsets of two axes",
         "ValueError: decay_forward: expected one dense axis of cu_seqlens, with the offsets of all sequences and their end, "
         "found shape [1,3], strides of dense axes",
         [](right_tensors &c) { c.shapes[OFFSETS] = {1, 3}; });
  packed("no offsets",
         "ValueError: decay_forward: expected one dense axis of cu_seqlens, with the offsets of all sequences and their end, "
         "found shape [0], strides of dense axes",
         [](right_tensors &c) { c.shapes[OFFSETS] = {0}; });
  packed("offsets with gaps",
         "ValueError: decay_forward: expected one dense axis of cu_seqlens, with the offsets of all sequences and their end, "
         "found shape [3], strides [2]",
         [](right_tensors &c) { c.strides[OFFSETS] = {2}; });
  packed("offsets on another device",
         "ValueError: decay_forward: expected cu_seqlens on cpu, where x[batch,time,G,V] is, found it on cuda:0; move it there",
         [](right_tensors &c) { c.views[OFFSETS].device_type = 2; });
  packed("offsets that end early", "ValueError: decay_forward: expected cu_seqlens to end at time = 5, found 3",
         [](right_tensors &c) { c.offsets[2] = 3; });
  packed("states of another number of sequences",
         "ValueError: decay_forward: expected sequences = 2, found 1 in shape [1,3,4,6] of h0_S[batch,G,K,V]",
         [](right_tensors &c) { c.shapes[H0][0] = 1; });
  packed("packed with a batch",
         "ValueError: decay_forward: expected batch = 1 and sequences of at least 0 with packed sequences, found batch = 2, "
         "sequences = 2",
         [](right_tensors &c) {
           for (int i : {X, KEYS, Q, A, Y}) c.shapes[i][0] = 2, c.shapes[i][1] = 2;
         });
  packed("small memory for saved", "ValueError: decay_forward: expected saved of at least * ask decay_sizes",
         [](right_tensors &c) { c.shapes[SAVED][0] = 8; });
  packed("saved that is not aligned", "ValueError: decay_forward: expected saved aligned to 64 bytes, found address *",
         [](right_tensors &c) { c.views[SAVED].byte_offset = 4, c.shapes[SAVED][0] -= 4; });
  packed("saved with gaps", "ValueError: decay_forward: expected dense bytes of saved, found strides [2]",
         [](right_tensors &c) { c.shapes[SAVED] = {1 << 15}, c.strides[SAVED] = {2}; });
  wrong_tensors("a step with an axis of time", true, false,
                "ValueError: decay_step: expected 3 axes of x[batch,G,V], found 4: shape [2,1,3,6]",
                [](right_tensors &c) { c.shapes[X] = {B, 1, G, V}; });
  wrong_tensors("a step with offsets", true, false, "TypeError: decay_step: expected at most 11 arguments, found 12",
                [](right_tensors &c) { c.count = OFFSETS + 1; });
}

int main() {
  check_header();
  check_tensors();
  std::printf("%d wrong uses\n", uses);
  return failures != 0;
}
