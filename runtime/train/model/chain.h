// Which operations pass their states by a chain of summaries, and in how many messages. The sizes
// of the program alone decide this, for the trainer and for `rec plan`.
//
//   pipeline    wait for states | kernel, which leaves states | send them
//   chain       summary | wait for a block of states, fold it, send it | .. the other blocks | kernel
//
// A summary says what a segment does to any states before it, so states go through a segment whose
// kernel has not run. The kernel runs from the states that have come, and what it leaves is not
// used. Backward does the same with cotangents.
//
// The last segment of a pass has no summary: its kernel leaves what the sequences end with. A
// summary may be out of range (rec_segments.out_of_range). The states after such a segment are
// those that its kernel leaves, as in a pipeline. So the segments decide all bits: each one by
// itself whether its summary is used, wherever it runs.
//
// Operations without summaries go by a pipeline, those with lag buffers as well: the gradient of a
// lag is known when the kernel of the segment behind has run.
#pragma once

#include <stdio.h>

#include "runtime/train/model/execute.h"

enum { CHAIN_BLOCKS = 8 };  // at most

// Why an operation that passes states does so by a pipeline; NULL: it goes by a chain.
const char *chain_why_not(const train_model *model, const model_op *op, const kernel_sizes *sizes);

// By operation the instances of a sequence, in segments of so many steps; 0: it goes by a pipeline.
// free() it; NULL: no memory.
int64_t *chain_instances(const trained_model *of, int64_t steps);

// In how many blocks the states of so many instances go. They take `bytes` together.
int chain_blocks(int64_t instances, int64_t bytes);
// The first instance of a block; of block `blocks`: the end of the last one.
int64_t chain_instance(int64_t instances, int blocks, int block);

// Which recurrences of a block of segments go which way, as lines for people; nothing where all go
// by a pipeline.
void chain_announce(FILE *out, const trained_model *of, const train_block *block);

// The numbers of a sequence that the states of an operation have.
int64_t chain_state_elements(const train_model *model, const model_op *op);
