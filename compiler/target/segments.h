// Segments of GPU code that is counted: what PTX makes of each.
#pragma once

#include "compiler/abi/simt_cost.h"
#include "compiler/target/images.h"

typedef struct segment_list {
  int count;
  simt_segment *items;  // by number
} segment_list;

// Cuts the functions of a module, after the passes, into segments: the line of an instruction is
// the number of its segment plus 1. Then counts what the PTX of each has.
segment_list segments_cut(arena *a, const llvm_module *m);
// The number of an instruction's segment, as long as it has its line; -1: it has none.
int segment_of(LLVMValueRef instruction);
