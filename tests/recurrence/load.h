// What tests of generated code share, for hosts and the executor.
#pragma once

#include "compiler/emit/link.h"
#include "compiler/target/target.h"
#include "tests/recurrence/fixture.h"

// Whether this machine runs the code of a clone.
bool kernel_clone_runs(codegen_clone clone);
// The clones that a run compiles of one program in one type: one in three of those for x86
// (kernel_is_drawn); v2 where this machine runs none of them. A set of codegen_clone.
unsigned kernel_clones_drawn(int number);
// Objects in memory as a library that is loaded; ends the test with a message if that fails.
void *load_objects(arena *a, const link_object *objects, int count);
// An object of the support code.
link_object embedded_object(const char *name);

// The tensor of the trial that a slot of a kernel stands for, and how many numbers it has.
reference_tensor *trial_tensor(trial *t, const codegen_slot *slot, int64_t *numbers);
