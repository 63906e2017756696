// What every compiled library and librec agree on: how a call is launched, what it costs in memory,
// what it answers. The generated header of a library contains this text, so it needs no other
// header of rec.
#ifndef REC_LAUNCH_H
#define REC_LAUNCH_H

#include <stdint.h>

// A library with another major number is refused; minor numbers only add.
#define REC_ABI_MAJOR 1
#define REC_ABI_MINOR 1

#ifdef __cplusplus
extern "C" {
#endif

// What a call returns. rec_error() tells the rest in one line.
typedef enum rec_status {
  REC_OK = 0,
  REC_ERROR_ARGUMENT = 1,     // a size, stride or pointer that does not fit
  REC_ERROR_ABI = 2,          // a struct that is too small, another major number
  REC_ERROR_WORKSPACE = 3,    // workspace or `saved` missing, too small, not aligned
  REC_ERROR_DEVICE = 4,       // a device or processor for which this library holds no code
  REC_ERROR_UNSUPPORTED = 5,  // legal, but not compiled into this library (the message names it)
  REC_ERROR_MEMORY = 6,       // out of memory (librec; a compiled library allocates nothing)
  REC_ERROR_FILE = 7,         // a file that cannot be read or written (librec)
  REC_ERROR_FORMAT = 8,       // a file that is not what it should be (librec)
  REC_ERROR_INTERNAL = 9,     // a bug of rec
  REC_ERROR_PROMISE = 10      // a number outside of its promised range (recc --check)
} rec_status;

enum { REC_DEVICE_HOST = 0, REC_DEVICE_CUDA = 1, REC_DEVICE_SIMT = 2 };

// Workspace and `saved` start at a multiple of this many bytes.
#define REC_ALIGNMENT 64

// A stride of what a call reads, since ABI 1.1: all steps, or all batch entries, are the one that is there. (A stride of 0 means
// dense.)
#define REC_STRIDE_BROADCAST INT64_MIN

// Runs task(argument, i) once for each i in 0..count-1, in any order and on any threads, and
// returns when all are done.
typedef void (*rec_task)(void *argument, int64_t index);
typedef void (*rec_parallel_for)(void *context, int64_t count, rec_task task, void *argument);

// How and where a call runs. Fill it with zeros, then set `size`, `abi_major`, `abi_minor` and what
// differs from 0; members at the end that `size` leaves out are 0.
typedef struct rec_launch {
  uint64_t size;                  // sizeof(rec_launch)
  uint32_t abi_major, abi_minor;  // REC_ABI_MAJOR, REC_ABI_MINOR
  int32_t device_kind;            // REC_DEVICE_HOST, ..
  int32_t device_number;          // CUDA: where this thread has no current context. SIMT: 0, or 1 for a device with
                                  // more shared memory than all have (code for it comes with --target sm_90a)
  void *
      stream;  // CUDA: a CUstream, which may be being captured into a graph. Once NAME_sizes (device_kind CUDA) has loaded the code, a call only launches, copies and clears on it. Others: NULL
  int64_t threads;                // host: 0 takes REC_NUM_THREADS, or else every processor
  rec_parallel_for parallel_for;  // host: runs the tasks; NULL: the library's own threads
  void *parallel_context;         // the first argument of parallel_for
  void *workspace;                // for the time of the call; contents do not matter
  int64_t workspace_bytes;
  void *saved;  // forward writes all of it, for backward; NULL: computed again
  int64_t saved_bytes;
  int64_t time_parts;  // GPUs: the number of slices that long sequences are cut into, or 0, as in rec_sizes
} rec_launch;

// Bytes that calls with given sizes need; packed sequences: enough for any lengths. `size` is set by the caller: sizeof(rec_sizes).
typedef struct rec_sizes {
  uint64_t size;
  int64_t workspace;  // enough for every call: the largest of those below
  int64_t saved;
  int64_t workspace_forward;
  int64_t workspace_step;
  int64_t workspace_backward;            // with `saved`
  int64_t workspace_backward_recompute;  // without
  int32_t device_kind;                   // set by the caller: REC_DEVICE_HOST, ..; read if `size` says it is there
  int32_t device_number;                 // as in rec_launch
  int64_t
      time_parts;  // set by the caller, GPUs: the number of slices that sequences are cut into along time, where possible; 0: as the device has room
} rec_sizes;

#ifdef __cplusplus
}
#endif

#endif /* REC_LAUNCH_H */
