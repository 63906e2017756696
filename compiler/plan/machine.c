// The clones of the host: a row for each.
#include "compiler/plan/machine.h"

const clone_target clone_targets[CLONE_COUNT + 1] = {
    [CLONE_V2] = {"x86-64-v2", "_v2", "x86-64-v2", 16, 16, false, false},
    [CLONE_V3] = {"x86-64-v3", "_v3", "x86-64-v3", 32, 16, true, false},
    [CLONE_V4] = {"x86-64-v4", "_v4", "x86-64-v4", 64, 32, true, true},
    [CLONE_GPU] = {"gpu", "", NULL, 4, 128, true, false},
};

const char *codegen_clone_name(codegen_clone clone) { return clone_targets[clone].name; }

int codegen_lanes(codegen_clone clone, bool f64) { return clone_targets[clone].vector_bytes / (f64 ? 8 : 4); }
