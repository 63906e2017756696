// What values of a program have of a state that is used entry by entry: %5 = add (mul %1 S) %2 has
// the factor %1.
#pragma once

#include "compiler/tile/tile.h"

enum { MOST_PARTS = 4 };

// What a value has of the two parts of a state, or of a few states; NO_TILE: nothing.
typedef struct share {
  tile_id of[MOST_PARTS];
  bool mixed;  // it is not linear in them, or has other entries of them
} share;

extern const share share_none;

typedef struct share_list {
  tile_program *program;
  share *shares;  // by value
  axis_set axes;  // of the state
  bool bent;      // a value is not linear in it, entry by entry
} share_list;

bool share_is_any(const share *x);
// -x; nothing if there is none.
tile_id share_negated(tile_program *p, tile_id x);
// Of a value whose operands have theirs. Values that it makes are appended.
share share_of(share_list *x, tile_id id);
