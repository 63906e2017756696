#include "compiler/base/vec.h"

#include <limits.h>
#include <string.h>

#include "compiler/base/ice.h"

void *vec_grow(arena *a, const void *items, int count, int *capacity, size_t element_size) {
  if (*capacity > INT_MAX / 2) ICE("vec", "an array of more than %d elements", *capacity);
  int larger = *capacity ? *capacity * 2 : 4;
  void *copy = arena_alloc_array(a, (size_t)larger, element_size);
  if (count) memcpy(copy, items, (size_t)count * element_size);
  *capacity = larger;
  return copy;
}

void *vec_copy(arena *a, const void *items, int count, int *capacity, size_t element_size) {
  void *copy = arena_alloc_array(a, (size_t)count, element_size);
  if (count) memcpy(copy, items, (size_t)count * element_size);
  *capacity = count;
  return copy;
}
