// The CUDA driver, opened at run time: nothing here needs CUDA to be installed where it is
// compiled.
//
// One list names every function that is used. Compiled libraries and librec each open it for
// themselves.
#pragma once

#include <stddef.h>

#include "compiler/abi/launch.h"

typedef int cuda_result;  // 0: done
typedef int cuda_device;
typedef void *cuda_context, *cuda_module, *cuda_function, *cuda_stream, *cuda_event;
typedef unsigned long long cuda_pointer;

// F(name here, name in libcuda.so.1, parameters). The driver's own numbers of versions (_v2) are
// part of its names.
#define CUDA_DRIVER_FUNCTIONS(F)                                                                  \
  F(init, cuInit, (unsigned flags))                                                               \
  F(driver_version, cuDriverGetVersion, (int *version))                                           \
  F(error_name, cuGetErrorName, (cuda_result result, const char **name))                          \
  F(error_text, cuGetErrorString, (cuda_result result, const char **text))                        \
  F(device_count, cuDeviceGetCount, (int *count))                                                 \
  F(device_get, cuDeviceGet, (cuda_device * device, int number))                                  \
  F(device_name, cuDeviceGetName, (char *name, int size, cuda_device device))                     \
  F(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, cuda_device device))      \
  F(device_uuid, cuDeviceGetUuid, (char uuid[16], cuda_device device))                            \
  F(context_current, cuCtxGetCurrent, (cuda_context * context))                                   \
  F(context_device, cuCtxGetDevice, (cuda_device * device))                                       \
  F(context_number, cuCtxGetId, (cuda_context context, unsigned long long *number))               \
  F(context_push, cuCtxPushCurrent_v2, (cuda_context context))                                    \
  F(context_pop, cuCtxPopCurrent_v2, (cuda_context * context))                                    \
  F(context_synchronize, cuCtxSynchronize, (void))                                                \
  F(primary_context, cuDevicePrimaryCtxRetain, (cuda_context * context, cuda_device device))      \
  F(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                 \
  F(module_load, cuModuleLoadDataEx,                                                              \
    (cuda_module * module, const void *image, unsigned count, int *options, void **values))       \
  F(module_function, cuModuleGetFunction,                                                         \
    (cuda_function * function, cuda_module module, const char *name))                             \
  F(function_attribute, cuFuncSetAttribute, (cuda_function function, int attribute, int value))   \
  F(launch, cuLaunchKernel,                                                                       \
    (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda_stream stream,               \
     void **parameters, void **extra))                                                            \
  F(clear, cuMemsetD8Async,                                                                       \
    (cuda_pointer to, unsigned char value, size_t bytes, cuda_stream stream))                     \
  F(copy, cuMemcpyDtoDAsync_v2,                                                                   \
    (cuda_pointer to, cuda_pointer from, size_t bytes, cuda_stream stream))                       \
  F(allocate, cuMemAlloc_v2, (cuda_pointer * memory, size_t bytes))                               \
  F(memory_info, cuMemGetInfo_v2, (size_t *unused, size_t *total))                                \
  F(release, cuMemFree_v2, (cuda_pointer memory))                                                 \
  F(event_create, cuEventCreate, (cuda_event * event, unsigned flags))                            \
  F(event_destroy, cuEventDestroy_v2, (cuda_event event))                                         \
  F(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))                          \
  F(event_query, cuEventQuery, (cuda_event event))                                                \
  F(stream_wait, cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))       \
  F(upload, cuMemcpyHtoD_v2, (cuda_pointer to, const void *from, size_t bytes))                   \
  F(download, cuMemcpyDtoH_v2, (void *to, cuda_pointer from, size_t bytes))

// The same of later drivers; NULL where the driver has none. cuFuncLoad: CUDA 12.4.
#define CUDA_DRIVER_LATER_FUNCTIONS(F) F(function_load, cuFuncLoad, (cuda_function function))

typedef struct cuda_driver {
#define CUDA_MEMBER(name, symbol, parameters) cuda_result(*name) parameters;
  CUDA_DRIVER_FUNCTIONS(CUDA_MEMBER)
  CUDA_DRIVER_LATER_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda_driver;

// Attributes of a device, of a function, of loading a module, a capture mode and a flag of an
// event, by the driver's numbers.
enum {
  CUDA_MULTIPROCESSORS = 16,
  CUDA_COMPUTE_MAJOR = 75,
  CUDA_COMPUTE_MINOR = 76,
  CUDA_SHARED_BYTES = 97,  // that a block may ask for
  CUDA_FUNCTION_SHARED_BYTES = 8,
  CUDA_LOAD_ERROR_LOG = 5,
  CUDA_LOAD_ERROR_LOG_BYTES = 6,
  CUDA_CAPTURE_RELAXED = 2,
  CUDA_EVENT_WITHOUT_TIME = 2,
  CUDA_NOT_READY = 600  // of an event: a result
};

// The driver, opened and initialised once in a process; else a message that says why not: no
// driver, one that lacks a function, no device.
rec_status cuda_driver_open(const cuda_driver **driver);

// REC_OK for 0; else a message with the call, what it was about (or NULL), the driver's name for
// the error and its text.
rec_status cuda_check(const cuda_driver *driver, cuda_result result, const char *call,
                      const char *about);

// Makes sure that a context is current: the caller's, or else the primary one of device `number`,
// which `pushed` then says and cuda_leave undoes.
rec_status cuda_enter(const cuda_driver *driver, int number, cuda_context *context, int *pushed);
void cuda_leave(const cuda_driver *driver, int pushed);
