// A growing array in an arena: VEC(T) names the type, vec_push appends. Elements move when the
// array grows, so keep indices or pointers to arena objects, not pointers to elements, while
// pushing.
#pragma once

#include "compiler/base/arena.h"

#define VEC(T)    \
  struct {        \
    T *items;     \
    int count;    \
    int capacity; \
  }

// vec_push(arena, &v, x): x may be a compound literal with commas.
#define vec_push(a, v, ...)                                                                   \
  do {                                                                                        \
    if ((v)->count == (v)->capacity)                                                          \
      (v)->items = vec_grow((a), (v)->items, (v)->count, &(v)->capacity, sizeof *(v)->items); \
    (v)->items[(v)->count++] = __VA_ARGS__;                                                   \
  } while (0)

// Loops over the elements, x pointing at each in turn; the array does not grow meanwhile.
//   vec_each(const typed_tensor, t, body->tensors) { .. }
#define vec_each(type, x, v) \
  for (type *x = (v).items, *x##_end = (v).count ? x + (v).count : x; x < x##_end; x++)

// The elements move to another arena, whose life is longer.
#define vec_keep(a, v) \
  ((v)->items = vec_copy((a), (v)->items, (v)->count, &(v)->capacity, sizeof *(v)->items))

void *vec_copy(arena *a, const void *items, int count, int *capacity, size_t element_size);

// The larger copy that vec_push continues in; the old elements stay behind in the arena.
void *vec_grow(arena *a, const void *items, int count, int *capacity, size_t element_size);
