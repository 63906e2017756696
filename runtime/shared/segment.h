// How the context of a train block may be cut into segments, which run one after another.
#ifndef REC_SHARED_SEGMENT_H
#define REC_SHARED_SEGMENT_H

// A segment has a multiple of this many steps: every kernel cuts time into chunks that divide them,
// and starts backward passes from states that it keeps at these distances or less. So the rows of a
// segment have the bits of one call for all steps.
enum { SEGMENT_STEPS = 128 };

#endif
