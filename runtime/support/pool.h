// The library's threads.
#pragma once

#include "compiler/abi/launch.h"

// Runs lane(argument, i) for i in 0..lanes-1, each at most once, on at most `threads` threads, the
// caller's among them. Returns when all lanes that were begun are done. Lanes share their work:
// each takes tasks until there are none. A lane that is not begun, because no thread was free, is
// therefore no loss. Lane 0 always runs.
void rec_pool_run(int64_t threads, int64_t lanes, rec_task lane, void *argument);
