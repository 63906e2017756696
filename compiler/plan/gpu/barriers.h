// GPU: which nests of a block begin with a barrier.
#pragma once

#include "compiler/plan/plan.h"

// Memory touched since the last barrier: buffers, then carried values. Not `known`: it may be
// anything.
typedef struct memory_since {
  const plan *p;
  bool known;
  bool *read, *written;
} memory_since;

// Buffers, then carried values: how many there are, and which of them the nest reads and writes.
int plan_memory_count(const plan *p);
void plan_note_memory(const plan *p, const plan_nest *nest, bool *reads, bool *writes);
memory_since *plan_memory_since(arena *a, const plan *p);
// Does the nest begin with a barrier? Its accesses are noted either way.
bool plan_waits(arena *a, memory_since *m, const plan_nest *nest);
// Forgets the accesses of earlier nests. `known`: a barrier has just come; else earlier code may
// have touched any memory.
void plan_forget_accesses(memory_since *m, bool known);
