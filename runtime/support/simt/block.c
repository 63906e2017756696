// What all files of the executor need of the block that runs: its faults end it, its lists grow.
#include "runtime/support/simt/block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local simt_block *simt_current;

// The fibers of a block that failed are left where they are.
_Noreturn void simt_fail_thread(int thread, const char *format, ...) {
  simt_block *b = simt_current;
  int length = snprintf(b->message, SIMT_MESSAGE, "%s, block %lld, thread %d: ", b->launch->kernel,
                        (long long)b->number, thread);
  va_list arguments;
  va_start(arguments, format);
  if (length < SIMT_MESSAGE)
    vsnprintf(b->message + length, (size_t)(SIMT_MESSAGE - length), format, arguments);
  va_end(arguments);
  b->failed = true;
  fiber_switch(&b->threads[b->running].fiber, &b->host);
  abort();  // nobody switches back
}

void *simt_grown(void *items, int count, int *room, size_t size, const char *what) {
  if (count < *room) return items;
  int larger = 2 * *room + 16;
  char *memory = realloc(items, (size_t)larger * size);
  if (!memory) simt_fail("has %d %s under way, more than there is memory for", count, what);
  memset(memory + (size_t)*room * size, 0, (size_t)(larger - *room) * size);
  *room = larger;
  return memory;
}
