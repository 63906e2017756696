// A device: where a recurrence runs. A new one is a row in run.c's table and one file.
#pragma once

#include "runtime/module.h"

struct rec_device {
  const char *name;
  rec_dtype type;  // it computes in this type whatever was compiled; REC_DTYPE_COUNT: as compiled
  bool step;       // has a single-step form of its own; else steps are runs over one token
  bool narrow;     // has no double precision
  // One run over the whole time range, batch entries side by side or packed.
  rec_status (*run)(const rec_recurrence *recurrence, const rec_call *call,
                    const rec_run_options *options);
};

// A call made ready to run many times: arguments, workspace and what forward keeps for backward.
typedef struct rec_host_session {
  const rec_recurrence *recurrence;
  const struct rec_device_memory *memory;
  char *arguments;
  rec_launch launch;
} rec_host_session;

rec_status rec_host_open(const rec_recurrence *recurrence, const rec_call *call,
                         const rec_run_options *options, rec_host_session *session);
// The memory of a kind of device. `allocate`: at a multiple of REC_ALIGNMENT; NULL for 0 bytes.
// `release`: the work that the stream has been given may still use the memory.
typedef struct rec_device_memory {
  const char *name;
  int32_t kind;  // REC_DEVICE_HOST, ..
  rec_status (*allocate)(void *stream, int64_t bytes, void **memory);
  void (*release)(void *stream, void *memory);
  void *stream;  // of calls on REC_DEVICE_CUDA; NULL: the default stream
} rec_device_memory;

extern const rec_device_memory rec_host_memory, rec_cuda_memory;

// What recc compiles for the first GPU as (gpu_targets.def): sm_90a for compute capability 9.0,
// sm_100a for 10.0, sm_120 for 12.x; else, and where there is no GPU, sm_80, which runs on every
// later one.
const char *rec_cuda_target(void);

// rec_host_open on any kind of device, for a call whose tensors lie in its memory.
rec_status rec_library_open(const rec_recurrence *recurrence, const rec_call *call,
                            const rec_run_options *options, const rec_device_memory *memory,
                            rec_host_session *session);
// One run of a library's code on a kind of device. The call's tensors lie in its memory.
rec_status rec_library_run(const rec_recurrence *recurrence, const rec_call *call,
                           const rec_run_options *options, const rec_device_memory *memory);
rec_status rec_host_forward(const rec_host_session *session);
rec_status rec_host_backward(const rec_host_session *session);
rec_status rec_host_step(const rec_host_session *session);
void rec_host_close(rec_host_session *session);

rec_status rec_host_run(const rec_recurrence *recurrence, const rec_call *call,
                        const rec_run_options *options);
rec_status rec_simt_run(const rec_recurrence *recurrence, const rec_call *call,
                        const rec_run_options *options);
rec_status rec_cuda_run(const rec_recurrence *recurrence, const rec_call *call,
                        const rec_run_options *options);
rec_status rec_reference_run(const rec_recurrence *recurrence, const rec_call *call,
                             const rec_run_options *options);
