// The device `simt`: the GPU code of a library, run by its executor on the CPU (runtime/simt).
#include "runtime/device.h"

rec_status rec_simt_run(const rec_recurrence *r, const rec_call *call, const rec_run_options *options) {
  if (r->signature.carried_type == REC_F64) {
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: expected a library of f32, bf16 or f16 for the device `simt`, found f64",
                    r->signature.name);
  }
  rec_device_memory memory = rec_host_memory;
  memory.name = "simt";
  memory.kind = REC_DEVICE_SIMT;
  return rec_library_run(r, call, options, &memory);
}
