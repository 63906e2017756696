// Opens libcuda.so.1 by the list of functions in cuda_driver.h.
#include "runtime/support/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/support/error.h"

static struct {
  cuda_driver functions;
  rec_status status;
  char message[REC_ERROR_TEXT_MAX];
} opened;

typedef struct named_function {
  const char *symbol;
  void *place;
  int later;  // may be missing
} named_function;

static const named_function functions[] = {
#define CUDA_ROW(name, symbol, parameters) {#symbol, &opened.functions.name, 0},
#define CUDA_LATER_ROW(name, symbol, parameters) {#symbol, &opened.functions.name, 1},
    CUDA_DRIVER_FUNCTIONS(CUDA_ROW) CUDA_DRIVER_LATER_FUNCTIONS(CUDA_LATER_ROW)
#undef CUDA_ROW
#undef CUDA_LATER_ROW
};

__attribute__((format(printf, 2, 3))) static void refuse_driver(rec_status status,
                                                                const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(opened.message, sizeof opened.message, format, arguments);
  va_end(arguments);
  opened.status = status;
}

// The call, what it was about, the driver's name for the error and the driver's text.
static void describe_cuda_failure(const cuda_driver *d, cuda_result result, const char *call,
                                  const char *about, char text[REC_ERROR_TEXT_MAX]) {
  const char *name = NULL, *words = NULL;
  d->error_name(result, &name);
  d->error_text(result, &words);
  snprintf(text, REC_ERROR_TEXT_MAX, "%s%s%s%s: %s (%d), %s", call, about ? "(" : "",
           about ? about : "", about ? ")" : "", name ? name : "an error", result,
           words ? words : "no text");
}

// The library stays open: kernels of it may run until the process ends.
static void open_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    refuse_driver(REC_ERROR_DEVICE, "expected an NVIDIA driver, found none: %s", dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *found = dlsym(library, functions[i].symbol);
    if (!found && !functions[i].later) {
      refuse_driver(REC_ERROR_DEVICE,
                    "expected an NVIDIA driver of CUDA 12 or later, found one without %s",
                    functions[i].symbol);
      return;
    }
    *(void **)functions[i].place = found;
  }
  char what[REC_ERROR_TEXT_MAX];
  cuda_result result = opened.functions.init(0);
  if (result == 0) return;
  describe_cuda_failure(&opened.functions, result, "cuInit", NULL, what);
  refuse_driver(REC_ERROR_DEVICE, "expected a GPU, found none: %s", what);
}

rec_status cuda_driver_open(const cuda_driver **driver) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_driver);
  *driver = &opened.functions;
  return opened.status == REC_OK ? REC_OK : rec_fail(opened.status, "%s", opened.message);
}

rec_status cuda_check(const cuda_driver *d, cuda_result result, const char *call,
                      const char *about) {
  enum { CUDA_OUT_OF_MEMORY = 2 };
  char what[REC_ERROR_TEXT_MAX];
  if (result == 0) return REC_OK;
  describe_cuda_failure(d, result, call, about, what);
  return rec_fail(result == CUDA_OUT_OF_MEMORY ? REC_ERROR_MEMORY : REC_ERROR_DEVICE, "%s", what);
}

rec_status cuda_enter(const cuda_driver *d, int number, cuda_context *context, int *pushed) {
  *pushed = 0;
  *context = NULL;
  rec_status status = cuda_check(d, d->context_current(context), "cuCtxGetCurrent", NULL);
  if (status != REC_OK || *context) return status;
  int count = 0;
  cuda_device device = 0;
  status = cuda_check(d, d->device_count(&count), "cuDeviceGetCount", NULL);
  if (status == REC_OK && (number < 0 || number >= count))
    return rec_fail(REC_ERROR_DEVICE,
                    "expected device_number below %d, the number of GPUs, found %d", count, number);
  if (status == REC_OK) status = cuda_check(d, d->device_get(&device, number), "cuDeviceGet", NULL);
  if (status == REC_OK)
    status = cuda_check(d, d->primary_context(context, device), "cuDevicePrimaryCtxRetain", NULL);
  if (status == REC_OK) status = cuda_check(d, d->context_push(*context), "cuCtxPushCurrent", NULL);
  *pushed = status == REC_OK;
  return status;
}

void cuda_leave(const cuda_driver *d, int pushed) {
  cuda_context context;
  if (pushed) d->context_pop(&context);
}
