// Internal to compiler/artifact: the table of one recurrence, and what its manifest says of sizes.
#pragma once

#include "compiler/abi/library.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/size_formula.h"
#include "compiler/syntax/syntax.h"

typedef struct artifact_kernels {
  VEC(codegen_kernel) host;
  VEC(codegen_gpu_kernel) gpu[REC_GPU_CLASSES];
  bool simt;           // the GPU kernels are there for the executor, too
  bool folds;          // .. and rec_gpu_fold
  const char *images;  // symbol of the library's rec_gpu_images; NULL: no PTX
} artifact_kernels;

artifact_kernels artifact_describe(arena *a, const artifact *library,
                                   const artifact_recurrence *recurrence);

// Numbers of one saved state: every state and every lag buffer whole.
codegen_bytes artifact_saved_numbers(arena *a, const abi_recurrence *abi);

// The table of a recurrence as `abi` describes it. `inner`: the symbol of the table without its long
// lags, which has the kernels; NULL: there are no such lags.
codegen_blob artifact_table(arena *a, const artifact_recurrence *recurrence,
                            const abi_recurrence *abi, const artifact_kernels *kernels,
                            number_type dtype, const char *symbol, const char *inner);

// rows.c: what a call lays out beside the kernels, and where the memories of the inner table are.
typedef struct artifact_row_sources {
  rec_table_rows rows;
  VEC(rec_table_row_source) sources;
} artifact_row_sources;
typedef VEC(artifact_row_sources) artifact_rows;
artifact_rows artifact_delay_rows(arena *a, const artifact_recurrence *recurrence);
// By memory of the inner table.
int32_t *artifact_inner_memories(arena *a, const artifact_recurrence *recurrence);

// Variants (variants.c): the entry with a symbol, or NULL; the table of an entry that picks one by
// sizes; that of all variants.
const artifact_entry *artifact_entry_named(const artifact *whole, const char *symbol);
codegen_blob artifact_choice_table(arena *a, const artifact *whole, const artifact_entry *entry,
                                   const char *symbol);
codegen_blob artifact_variants_table(arena *a, const artifact *whole, const char *plain,
                                     const char *symbol);

// Summaries of segments (segments.c): the kernel that makes them on the host, or NULL. Its
// transfers have memories of their own, numbered behind those of the caller.
typedef VEC(const codegen_slot *) artifact_transfers;
const codegen_kernel *artifact_summary_kernel(const artifact_kernels *kernels, bool back);
artifact_transfers artifact_transfers_of(arena *a, const artifact_kernels *kernels);
int artifact_transfer_number(const artifact_transfers *transfers, const codegen_slot *slot);
// What such a kernel leaves. `host` NULL: a kernel of a GPU. The axes are put by tables.c.
typedef struct artifact_summary_part {
  rec_table_part row;
  const tile_place *place;
} artifact_summary_part;
typedef VEC(artifact_summary_part) artifact_summary_parts;
artifact_summary_parts artifact_summary_parts_of(arena *a, const abi_recurrence *abi,
                                                 const artifact_transfers *transfers,
                                                 const kernel *summary, const codegen_kernel *host);
// rec_launch.first_instance: the axes that all states begin with, in the same order, as far as
// folds may be cut along them.
axis_set artifact_instance_axes(const typed_body *body, const artifact_kernels *kernels);
// rec_sizes.segment_multiple. `chunk`: steps between saved states on the host.
int64_t artifact_segment_multiple(const artifact_kernels *kernels, int chunk);

// Which of the caller's memories a slot of a kernel is.
abi_role artifact_slot_role(tile_role role);
