// Turns on the machine's processors: work that runs side by side, in threads or in programs that
// they wait for, takes one each. At most one at a time for each processor: more would take the
// caches from each other. Four runs of ptxas on two processors took a third more processor time
// than two after two.
#pragma once

// Who goes first when a processor is free: what takes longest.
typedef enum processors_turn { TURN_SHORT, TURN_LONG } processors_turn;

int processors_count(void);  // that this process may use; at least 1

// Waits for a processor. No thread takes two: it would wait for itself.
void processors_take(processors_turn turn);
void processors_give(void);
