// Summaries of segments of time on GPUs (rec_segments).
#include "runtime/support/gpu.h"

static rec_status refuse_gpu(const call *c) {
  return call_fail(c, REC_ERROR_UNSUPPORTED, "expected the host, found device kind %d", c->launch->device_kind);
}

rec_status gpu_summary_call(const call *c, bool back, void *summary) {
  (void)back;
  (void)summary;
  return refuse_gpu(c);
}

rec_status gpu_fold_call(const call *c, const rec_segments *segments) {
  (void)segments;
  return refuse_gpu(c);
}

rec_status gpu_combine_call(const call *c, const rec_segments *segments, void *summary) {
  (void)segments;
  (void)summary;
  return refuse_gpu(c);
}

void gpu_segment_room(const call *c, rec_sizes *sizes) { call_without_summaries(c, sizes); }
