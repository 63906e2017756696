// From pointers (interned names, items) to whole numbers.
#pragma once

#include "compiler/base/arena.h"

// Zeroed: empty.
typedef struct name_map {
  const void **keys;  // NULL: free
  int *values;
  int capacity, count;
} name_map;

// The number of a key, or -1.
int name_map_find(const name_map *map, const void *key);
// Adds a key or gives it another number.
void name_map_set(arena *memory, name_map *map, const void *key, int value);
