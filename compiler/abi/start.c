#include "compiler/abi/start.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

// Reading from what was closed still fails, and so does writing to it.
static void reserve_descriptors(void) {
  static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int i = 0; i < 3; i++) {
    if (fcntl(i, F_GETFD) >= 0) continue;
    int opened = open("/dev/null", modes[i]);  // the lowest number that is free
    if (opened >= 0 && opened != i) close(opened);
  }
}

// ---- the stack ----------------------------------------------------------------------------------

enum { KIB = 1024, STACK_KIB = 8 * KIB };

static char message[160];
static int exit_status;

// Where the limit of the process allows it, the stack may grow as far as it usually may. Threads
// have that much in any case.
static void widen_stacks(void) {
  struct rlimit limit;
  pthread_attr_t usual;
  const rlim_t wanted = (rlim_t)STACK_KIB * KIB;
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  setrlimit(RLIMIT_STACK, &limit);
  snprintf(message, sizeof message,
           ": expected room for the stack, found a limit of %llu KiB (ulimit -s); raise it to %d\n",
           (unsigned long long)limit.rlim_cur / KIB, STACK_KIB);
  if (pthread_getattr_default_np(&usual)) return;
  pthread_attr_setstacksize(&usual, wanted);
  pthread_setattr_default_np(&usual);
  pthread_attr_destroy(&usual);
}

#if !defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)

static const char *program;

static void write_fault_text(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// A fault near the stack pointer means that the stack is used up. Any other fault is raised again
// with its default action.
static void on_stack_fault(int number, siginfo_t *about, void *context) {
  enum { NEAR = 1 << 20 };
  const uintptr_t stack = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP],
                  fault = (uintptr_t)about->si_addr;
  if (fault + NEAR < stack || fault > stack + NEAR) {
    signal(number, SIG_DFL);
    return;
  }
  write_fault_text(program);
  write_fault_text(message);
  _exit(exit_status);
}

static void watch_stack(const char *name, int status) {
  static char other_stack[64 * KIB];
  const stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  struct sigaction action = {.sa_sigaction = on_stack_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  struct rlimit limit;
  program = name;
  exit_status = status;
  if (!*message && !getrlimit(RLIMIT_STACK, &limit))
    snprintf(message, sizeof message,
             ": expected room for the stack, found a limit of %llu KiB (ulimit -s)\n",
             (unsigned long long)limit.rlim_cur / KIB);
  if (!sigaltstack(&other, NULL)) sigaction(SIGSEGV, &action, NULL);
}

#else

static void watch_stack(const char *name, int status) {
  (void)name, (void)status, (void)exit_status;
}

#endif

void start_program(const char *name, int status) {
  reserve_descriptors();
  signal(SIGXFSZ, SIG_IGN);
  widen_stacks();
  watch_stack(name, status);
}

// When output was lost earlier, errno no longer says why: the write of one more line does.
int end_program(const char *name, int status, int failed) {
  bool lost = ferror(stdout);
  errno = 0;
  if (lost && write(STDOUT_FILENO, "\n", 1) == 1) errno = 0;
  int reason = errno;
  if (fclose(stdout)) lost = true, reason = reason ? reason : errno;
  if (status || !lost) return status;
  fprintf(stderr, "%s: standard output: %s\n", name,
          reason ? strerror(reason) : "cannot be written");
  return failed;
}
