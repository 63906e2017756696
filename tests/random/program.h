// Random programs of the whole language. A program holds a construct in a place, and a second
// construct, that its seed names: what is rare by itself is drawn as often as what is not.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"

// Where an expression stands. A key is what an update writes, a value included; a read is what
// weighs a state.
typedef enum place { UPDATE, DECAY, GATE, KEY, READ, LET, OUTPUT, PLACES } place;

// Functions, operators, leaves (an input, a lag, ..), kinds of states (a delta rule, a stabiliser,
// ..) and what they start from.
enum { MOST_CONSTRUCTS = 160 };
int construct_count(void);
const char *construct_name(int construct);
bool has_places(int construct);              // an expression, not a kind of state or a start
bool has_place(int construct, place where);  // no read weighs a read

// What one program has.
typedef struct contents {
  // of each construct, one bit each; kinds of states stand in UPDATE
  uint8_t places[MOST_CONSTRUCTS];
} contents;

// The text of a recurrence called `name`, with the functions that it uses. The same seed gives the
// same text on every machine. `has` may be NULL. Values stay of moderate size for some thousand
// steps, and denominators away from 0. Inputs and parameters whose name begins with `in` hold a
// promise.
char *random_program(arena *memory, uint64_t seed, const char *name, contents *has);
