// Fibers: stacks that hand the processor to each other.
#pragma once

#include <stddef.h>

typedef struct fiber {
  void *stack_pointer;  // while it waits
  const void *stack;    // lowest address; NULL: the host thread's own stack, not known yet
  size_t stack_size;
  void *sanitizer;  // what ASan keeps for it while it waits
} fiber;

// Makes a fiber that will call `entry`, which never returns. `top` is a multiple of 16 inside the
// stack: where it begins.
void fiber_start(fiber *f, void *stack, size_t size, char *top, void (*entry)(void));

// What `entry` does first: `from` is the fiber that switched to it for the first time.
void fiber_entered(fiber *from);

// Leaves `from`, which may be switched to later, for `to`.
void fiber_switch(fiber *from, fiber *to);
