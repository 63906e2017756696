// Time slices: the slice that a thread block computes, summaries of slices, and states before a
// slice.
#pragma once

#include "compiler/kernel/frame.h"

// The slice of time that a thread block computes. Conditions are i1.
typedef struct time_slice {
  ir number;  // of the slice
  ir last;    // number of the last slice that has steps, or 0
  ir kept;    // the number of slices with a summary
  // where the summaries of this entry lie, as they are made or combined
  ir summary, summary_stride;
  ir begins_earlier;  // the slice begins one chunk earlier, to warm up
  ir own_groups;      // chunk groups of this slice, without its warm-up groups
  ir in_warm_up;      // the results of the current group are discarded
  // the block computes columns of a transition matrix, from this one on; NULL: no block does
  ir of_matrix, first_column;
} time_slice;

// slices.c
// The time slice of a work item, whose remaining number is left in *item.
void gpu_read_slice(kernel_frame *h, ir *item);
void gpu_cut_slice(kernel_frame *h);
void gpu_begin_factors(kernel_frame *h, frame_program *p);
void gpu_end_slice(kernel_frame *h, frame_program *p);
// States before this slice: combines the summaries of all slices before it.
void gpu_combine_summaries(kernel_frame *h, frame_program *p);
// i1: no steps follow the slice; backward: none precede it.
ir gpu_is_last_slice(kernel_frame *h, const frame_program *p);
// In the loop over chunks, before chunk number `turn`: after the warm-up chunk of a slice.
void gpu_end_warm_up(kernel_frame *h, frame_program *p, ir turn);
// Backward, around a group of chunks. A group after the slice's own groups is the warm-up
// (kernel.warms_up): its results are discarded.
void gpu_begin_group(kernel_frame *h, ir group);
void gpu_end_group(kernel_frame *h);
// summary.c: the address of an element of a slice summary; the elements of a result in it.
ir gpu_summary_at(kernel_frame *h, ir number, ir offset);
ir gpu_summary_elements_of(kernel_frame *h, const tile_place *place);
// The place of a state's entry in the summary program: its value, or its factor (`transfer`). An
// ICE where it has none.
const tile_place *gpu_summary_place(const kernel_frame *h, const tile_place *state, bool transfer,
                                    int component);
// The same by another state (`from`); NULL: it has none.
const tile_place *gpu_find_summary_place(const kernel_frame *h, const tile_place *state,
                                         bool transfer, int component, int from);
// The entry of such a place; with what is known of its alignment; the entry of a state.
view gpu_summary_entry(kernel_frame *h, const tile_place *place, ir number);
view gpu_aligned_summary_entry(kernel_frame *h, frame_program *p, const tile_place *place,
                               ir number);
view gpu_summary_view(kernel_frame *h, frame_program *p, const tile_place *state, ir number);
// running_maxima.c: running maxima, and states relative to them: at the start of a slice; after
// slice `number`.
void gpu_begin_maxima(kernel_frame *h, frame_program *p);
bool gpu_combines_maxima(const kernel *k);
void gpu_combine_maxima(kernel_frame *h, frame_program *p, ir number);
// transition_matrices.c: states that mix their entries, and the blocks of KERNEL_SUMMARY that make
// their matrix. Blocks of the lane axis plus transition blocks.
ir gpu_lane_blocks(kernel_frame *h);
// Where the rows of a state's matrix begin in a summary; NULL: the end of all matrices.
ir gpu_columns_offset(kernel_frame *h, const tile_place *state);
ir gpu_first_of_lanes(kernel_frame *h);
void gpu_begin_column(kernel_frame *h, frame_program *p, const tile_place *state, const view *to);
void gpu_end_column(kernel_frame *h, frame_program *p, const tile_place *state, const view *from);
// states = matrix of the slice * states + its states from zero.
void gpu_combine_columns(kernel_frame *h, frame_program *p, ir number);
// overflow_fallback.c: slices that must not be combined. A mark at the end of the summary; its
// kernel writes it last.
void gpu_overflow_of_slice(kernel_frame *h, frame_program *p);
// i1: a slice of the instance is marked. `whole` (i1): there is a single slice, without a summary.
ir gpu_summaries_overflow(kernel_frame *h, ir whole);
