// A device: where a recurrence runs. A new one is a row in run.c's table and one file.
#ifndef REC_RUNTIME_DEVICE_H
#define REC_RUNTIME_DEVICE_H

#include "runtime/module.h"

struct rec_device {
  const char *name;
  rec_dtype type;  // it computes in this type whatever was compiled; REC_DTYPE_COUNT: as compiled
  bool step;       // has a single-step form of its own; else steps are runs over one token
  // One run over the whole time range, batch entries side by side (cu_seqlens is NULL).
  rec_status (*run)(const rec_recurrence *recurrence, const rec_call *call,
                    const rec_run_options *options);
};

rec_status rec_host_run(const rec_recurrence *recurrence, const rec_call *call,
                        const rec_run_options *options);
rec_status rec_reference_run(const rec_recurrence *recurrence, const rec_call *call,
                             const rec_run_options *options);

#endif
