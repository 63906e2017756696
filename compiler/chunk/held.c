// States that never change: at every step, and after the chunk, they are what they were before it.
#include "compiler/chunk/scan.h"

tile_pair held_steps(scan *s, int state) { return scan_before(s, state); }
