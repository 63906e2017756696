// States and loops over time of host kernels: functions that the files of kernel/host share.
#pragma once

#include "compiler/kernel/frame.h"
#include "compiler/kernel/host/kernel.h"

// states.c
void host_load_states(kernel_frame *h, frame_program *p);
void host_store_states(kernel_frame *h, frame_program *p);
void host_save_states(kernel_frame *h, frame_program *p, ir chunk);
void host_load_saved(kernel_frame *h, frame_program *p, ir chunk);

// time_loop.c
void host_loop_over_time(kernel_frame *h);
void host_set_chunk(kernel_frame *h, frame_program *p, ir chunk, ir new_group);
void host_chunk_body(kernel_frame *h, ir chunk);
void host_arguments_of_step(kernel_frame *h, frame_program *p, ir t);
// prefetch.c: before the body of a chunk, with the instance and the number of the chunk that come
// next (h->at).
void host_fetch_next(kernel_frame *h, frame_program *p, ir chunk);
