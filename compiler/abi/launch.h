// What every compiled library and librec agree on: how a call is launched, what it costs in memory,
// what it answers. The generated header of a library contains this text, so it needs no other
// header of rec.
#ifndef REC_LAUNCH_H
#define REC_LAUNCH_H

#include <stdint.h>

// A library with another major number is refused; minor numbers only add.
#define REC_ABI_MAJOR 1
#define REC_ABI_MINOR 2

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

// A stride of what a call reads, since ABI 1.1: all steps, or all batch entries, are the one that
// is there. (A stride of 0 means dense.)
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
  // CUDA: where this thread has no current context. SIMT: 0, or 1 for a device with
  // more shared memory than all have (code for it comes with --target sm_90a)
  int32_t device_number;
  // CUDA: a CUstream, which may be being captured into a graph. Once NAME_sizes (device_kind CUDA)
  // has loaded the code, a call only launches, copies and clears on it. Others: NULL
  void *stream;
  int64_t threads;                // host: 0 takes REC_NUM_THREADS, or else every processor
  rec_parallel_for parallel_for;  // host: runs the tasks; NULL: the library's own threads
  void *parallel_context;         // the first argument of parallel_for
  void *workspace;                // for the time of the call; contents do not matter
  int64_t workspace_bytes;
  void *saved;  // forward writes all of it, for backward; NULL: computed again
  int64_t saved_bytes;
  // GPUs: the number of slices that long sequences are cut into, or 0, as in rec_sizes
  int64_t time_parts;
  // Since ABI 1.2. NAME_fold computes these instances alone: a block of states for each message of
  // a chain. An instance is an entry of the batch and of the axes `segment.instances` of the
  // manifest. Its entries of a state lie together in memory.
  int64_t first_instance;
  int64_t instance_count;  // 0: all
} rec_launch;

// Bytes that calls with given sizes need; packed sequences: enough for any lengths. `size` is set
// by the caller: sizeof(rec_sizes).
typedef struct rec_sizes {
  uint64_t size;
  int64_t workspace;  // enough for every call: the largest of those below
  int64_t saved;
  int64_t workspace_forward;
  int64_t workspace_step;
  int64_t workspace_backward;            // with `saved`
  int64_t workspace_backward_recompute;  // without
  // set by the caller: REC_DEVICE_HOST, ..; read if `size` says it is there
  int32_t device_kind;
  int32_t device_number;  // as in rec_launch
  // set by the caller, GPUs: the number of slices that sequences are cut into along time, where
  // possible; 0: as the device has room
  int64_t time_parts;
  // Since ABI 1.2, set where `size` says that they are there.
  int64_t summary;           // bytes of a summary that NAME_summary writes; 0: there is none
  int64_t summary_backward;  // of one that NAME_summary_backward writes; 0: there is none
  int64_t workspace_summary;
  int64_t workspace_summary_backward;            // with `saved`
  int64_t workspace_summary_backward_recompute;  // without
  int64_t workspace_fold;                        // of NAME_fold and NAME_combine
  // steps: results of segments that are multiples of it have the bits of one call
  int64_t segment_multiple;
  int64_t instances;  // of rec_launch
} rec_sizes;

// ---- segments of time, since ABI 1.2 ----
//
// Machines that share a sequence have a segment of it each. The states before a segment come of all
// segments before it. They are known early where states enter the steps linearly:
//
//   states after = transfer * states before + own
//
// NAME_summary(arguments, launch, summary) writes transfer and own of a segment, from its inputs
// and parameters. It reads no states before the segment, but lag buffers (h0_x_lag), which hold
// tokens. NAME_summary_backward does the same for cotangents:
//
//   cotangents before = transfer * cotangents after + own
//
// It reads what NAME_backward reads, but the cotangents of states (d_hT). NAME_fold then makes the
// states before the segments h0 to those after them, hT (backward: d_hT to d_h0; 0, where no
// earlier step reads the cotangent of a state). NAME_combine makes one summary of those of several
// segments.
//
// A summary takes rec_sizes.summary bytes, at a multiple of REC_ALIGNMENT, on the device of the
// call. It holds no pointers and may be sent as bytes. It is to be read with the same sizes (batch,
// axes; not time), on the same kind of device, by the same library. The manifest says how it is
// joined (`segment`).
//
// A transfer with an element above 1024, or one that is not finite, is out of range: it is of no
// use. The flag travels in the summary. The states after such a segment come from NAME_forward
// alone, when the states before it are known.
//
// Packed sequences: the first and the last sequence of a segment may go on beyond it. The states
// before it are those of its first sequence (h0, entry 0), the states after it those of its last.
// In NAME_summary and NAME_summary_backward of several sequences the transfer is 0, and states
// before the last sequence, or cotangents after the first, are read from their entries. NAME_fold
// and NAME_combine take batch = 1, no cu_seqlens.
//
// Where there is no summary, the sizes are 0 and the four functions return REC_ERROR_UNSUPPORTED;
// rec_error says why.
typedef struct rec_segments {
  uint64_t size;  // sizeof(rec_segments)
  const void *const *
      summaries;  // in the order of time; the list itself lies in memory of the host, and is read before the call returns
  int64_t count;  // of summaries
  int32_t backward;  // 0: summaries of NAME_summary; 1: of NAME_summary_backward
  int32_t unused;    // 0
  // on the device of the call: written, 1 if a summary is out of range, and the states that were
  // written are of no use, else 0; NULL: not wanted
  int32_t *out_of_range;
} rec_segments;

#ifdef __cplusplus
}
#endif

#endif /* REC_LAUNCH_H */
