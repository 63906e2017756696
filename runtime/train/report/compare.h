// Runs side by side.
#pragma once

#include "runtime/internal.h"

// FOLDER/report.html with the pictures of all runs laid over one another, and their points as CSV.
// A run is a folder of runs, or one block's folder in it. No folder of a run is written to, and no
// file that is another's, unless `again`.
rec_status compare_runs(const char *const *runs, int count, const char *folder, bool again);
