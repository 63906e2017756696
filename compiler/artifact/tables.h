/* Internal to compiler/artifact: the table of one recurrence. */
#ifndef REC_ARTIFACT_TABLES_H
#define REC_ARTIFACT_TABLES_H

#include "compiler/artifact/abi.h"
#include "compiler/syntax/syntax.h"
#include "runtime/support/library.h"

typedef struct artifact_kernels {
  VEC(codegen_kernel) host;
  VEC(codegen_gpu_kernel) gpu[REC_GPU_ROOMS];
  bool simt;                     /* the GPU kernels are there for the executor, too */
  const char *images;            /* symbol of the library's rec_gpu_images; NULL: no PTX */
} artifact_kernels;

codegen_blob artifact_table(arena *a, const artifact_recurrence *recurrence,
                            const artifact_kernels *kernels, number_type dtype,
                            const char *symbol);

/* Which of the caller's memories a slot of a kernel is. */
abi_role artifact_slot_role(tile_role role);

#endif
