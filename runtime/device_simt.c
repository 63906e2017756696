// The device `simt`: the GPU code of a library, run by its executor on the CPU (runtime/support/simt).
#include "runtime/device.h"

rec_status rec_simt_run(const rec_recurrence *r, const rec_call *call,
                        const rec_run_options *options) {
  rec_device_memory memory = rec_host_memory;
  memory.name = "simt";
  memory.kind = REC_DEVICE_SIMT;
  return rec_library_run(r, call, options, &memory);
}
