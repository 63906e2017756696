// The switch between fibers: the registers that a callee must keep go onto the stack, and the stack
// changes.
//
// The switch returns by a jump, not by `ret`: the processor's guess of return addresses is wrong at
// every switch (20 against 11 ns).
#include "runtime/support/simt/fiber.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

void rec_fiber_exchange(void **save, void *to);

#if defined(__x86_64__)
enum { SAVED_WORDS = 7, ENTRY_WORD = 6 };  // r15 r14 r13 r12 rbx rbp, address
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".hidden rec_fiber_exchange\n"
    ".globl rec_fiber_exchange\n"
    ".type rec_fiber_exchange,@function\n"
    "rec_fiber_exchange:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  popq %rcx\n"
    "  jmp *%rcx\n"
    ".size rec_fiber_exchange,.-rec_fiber_exchange\n");
#elif defined(__aarch64__)
enum { SAVED_WORDS = 20, ENTRY_WORD = 11 };  // x19 .. x30, d8 .. d15
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".hidden rec_fiber_exchange\n"
    ".globl rec_fiber_exchange\n"
    ".type rec_fiber_exchange,%function\n"
    "rec_fiber_exchange:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n"
    "  stp x21, x22, [sp, #16]\n"
    "  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n"
    "  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n"
    "  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n"
    "  ldp x21, x22, [sp, #16]\n"
    "  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n"
    "  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n"
    "  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  br x30\n"
    ".size rec_fiber_exchange,.-rec_fiber_exchange\n");
#else
#error "the switch between fibers is written for x86-64 and aarch64"
#endif

void fiber_start(fiber *f, void *stack, size_t size, char *top, void (*entry)(void)) {
  void **words = (void **)(void *)top;
#ifdef FIBER_ASAN
  __asan_unpoison_memory_region(stack, size);  // frames of a fiber that was given up
#endif
#if defined(__x86_64__)
  *--words = NULL;  // where a return address would be: the stack is aligned as after a call
#endif
  words -= SAVED_WORDS;
  memset(words, 0, SAVED_WORDS * sizeof *words);
  memcpy(&words[ENTRY_WORD], &entry, sizeof entry);
  *f = (fiber){.stack_pointer = words, .stack = stack, .stack_size = size};
}

#ifdef FIBER_ASAN
static void finish_switch(void *sanitizer, fiber *from) {
  const void *stack;
  size_t size;
  __sanitizer_finish_switch_fiber(sanitizer, &stack, &size);
  if (from && !from->stack) {
    from->stack = stack;
    from->stack_size = size;
  }
}
void fiber_entered(fiber *from) { finish_switch(NULL, from); }

void fiber_switch(fiber *from, fiber *to) {
  __sanitizer_start_switch_fiber(&from->sanitizer, to->stack, to->stack_size);
  rec_fiber_exchange(&from->stack_pointer, to->stack_pointer);
  finish_switch(from->sanitizer, NULL);
}
#else
void fiber_entered(fiber *from) { (void)from; }

void fiber_switch(fiber *from, fiber *to) {
  rec_fiber_exchange(&from->stack_pointer, to->stack_pointer);
}
#endif
