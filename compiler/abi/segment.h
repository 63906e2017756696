// Segments of time: limits of their summaries, and how the context of a train block may be cut into
// segments, which run one after another.
#pragma once

// Above this a transfer is out of range: times states that it shrinks it leaves rounding errors
// alone.
#define SEGMENT_LARGEST 1024

// Below every maximum that counts; before a segment there is none. A sum of two such numbers is
// still finite.
#define SEGMENT_NO_MAXIMUM (-1e30)

// A segment has a multiple of this many steps: every kernel cuts time into chunks that divide them,
// and starts backward passes from states that it keeps at these distances or less. So the rows of a
// segment have the bits of one call for all steps.
enum { SEGMENT_STEPS = 128 };
