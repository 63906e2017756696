/* What rec_launch.stream points to on the device REC_DEVICE_SIMT, if it is not NULL. */
#ifndef REC_SUPPORT_SIMT_OPTIONS_H
#define REC_SUPPORT_SIMT_OPTIONS_H

#include "runtime/simt/simt.h"

typedef struct rec_simt_options {
  uint64_t size;       /* sizeof(rec_simt_options) */
  uint64_t seed;       /* of the order in which warps run */
  simt_counts *counts; /* added to, on one thread of the host; NULL: not counted */
  int64_t launches;    /* kernels started since the caller set it */
} rec_simt_options;

#endif
