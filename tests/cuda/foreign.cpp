// Tensors on a GPU, as tvm-ffi brings them: gla runs on the tests' driver, whose GPU has the host's memory. The workspace comes from
// the framework's allocator, which this program stands in for, and goes back to it.
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../artifact/library/tvm_ffi.hpp"

struct object {
  char head[24];
  tensor view;
};

typedef int entry(void *, const any *, int32_t, any *);
typedef int allocate_function(uint64_t *memory, size_t bytes);

static allocate_function *allocate;
static int allocated, released, streams;

static float *gpu_numbers(size_t count) {
  uint64_t memory = 0;
  if (allocate(&memory, count * sizeof(float))) std::printf("no memory of the GPU\n");
  return reinterpret_cast<float *>(memory);
}

extern "C" {
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { std::printf("%s: %s\n", kind, message); }

int TVMFFIEnvTensorAlloc(tensor *prototype, void **out) {
  object *made = new object();
  made->view = *prototype;
  made->view.data = gpu_numbers(static_cast<size_t>(prototype->shape[0]) / sizeof(float) + 1);
  *out = made;
  allocated += prototype->device_type == 2;
  return 0;
}

int TVMFFIObjectDecRef(void *released_object) {
  delete static_cast<object *>(released_object);
  released++;
  return 0;
}

void *TVMFFIEnvGetStream(int32_t device_type, int32_t) {
  streams += device_type == 2;
  return nullptr;
}
}

int main(int, char **arguments) {
  enum { B = 2, T = 40, H = 2, K = 16, V = 16 };
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(arguments[1], RTLD_NOW);
  if (!driver || !library) return std::printf("%s\n", dlerror()), 1;
  allocate = reinterpret_cast<allocate_function *>(dlsym(driver, "cuMemAlloc_v2"));
  reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0);
  void *context = nullptr;
  reinterpret_cast<int (*)(void **, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
  reinterpret_cast<int (*)(void *)>(dlsym(driver, "cuCtxPushCurrent_v2"))(context);
  entry *forward = reinterpret_cast<entry *>(dlsym(library, "__tvm_ffi_gla_forward"));

  const int64_t shapes[][4] = {{B, T, H, K}, {B, T, H, K}, {B, T, H, V}, {B, T, H, K}, {B, H, K, V}, {B, T, H, V}};
  float *results[2] = {nullptr, nullptr};
  for (int device = 1; device <= 2; device++) {
    tensor views[6];
    any given[6];
    for (int i = 0; i < 6; i++) {
      size_t count = static_cast<size_t>(shapes[i][0] * shapes[i][1] * shapes[i][2] * shapes[i][3]);
      float *numbers = gpu_numbers(count);
      for (size_t k = 0; k < count; k++) numbers[k] = static_cast<float>(k * (3 + static_cast<size_t>(i)) % 17) / 16 - 0.5f;
      views[i] = tensor{numbers, device, 0, 4, 2, 32, 1, shapes[i], nullptr, 0};
      given[i] = any{7, 0, &views[i]};
    }
    any result = {0, 0, nullptr};
    if (forward(nullptr, given, 6, &result)) return 1;
    results[device - 1] = static_cast<float *>(views[5].data);
  }
  double worst = 0;
  for (int i = 0; i < B * T * H * V; i++) worst = std::fmax(worst, std::fabs(results[0][i] - results[1][i]));
  std::printf("error %.1e, %d allocated, %d released, %d streams asked for\n", worst, allocated, released, streams);
  return !(worst < 1e-4 && allocated == released && streams == 1);
}
