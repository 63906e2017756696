// First fit: the lowest place in memory that is free during the life of a new item.
//
//   placed: 0..16 alive 0-3, 16..48 alive 2-9, 48..64 alive 0-2     32 numbers alive 3-5   ->   48
//
// The list is sorted by offset, so that one pass finds the place. The end of an item that is alive
// at the same time moves the offset up; items that begin lower have been passed by then.
#include "compiler/plan/first_fit.h"

void first_fit_add(arena *a, placed_list *list, placed item) {
  vec_push(a, list, item);
  int at = list->count - 1;
  for (; at > 0 && list->items[at - 1].offset > item.offset; at--)
    list->items[at] = list->items[at - 1];
  list->items[at] = item;
}

int64_t first_fit_end(const placed_list *list, int *next, int64_t offset, int64_t size, int first,
                      int last) {
  for (; *next < list->count && list->items[*next].offset < offset + size; ++*next) {
    const placed *other = &list->items[*next];
    if (other->last >= first && last >= other->first && other->end > offset) return other->end;
  }
  return -1;
}
