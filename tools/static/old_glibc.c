// Functions that glibc has had for a few years only, for programs that run on older machines as
// well (REC_STATIC). Those that have an older version are in old_glibc.list.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- files: of x86-64, whose struct stat is the kernel's ---------------------------------------

int stat(const char *path, struct stat *about) { return (int)syscall(SYS_stat, path, about); }

int lstat(const char *path, struct stat *about) { return (int)syscall(SYS_lstat, path, about); }

int fstat(int file, struct stat *about) { return (int)syscall(SYS_fstat, file, about); }

int memfd_create(const char *name, unsigned flags) {
  return (int)syscall(SYS_memfd_create, name, flags);
}

// ---- chance ----------------------------------------------------------------------------------

int getentropy(void *bytes, size_t size) {
  long got;
  do got = syscall(SYS_getrandom, bytes, size, 0);
  while (got < 0 && errno == EINTR);
  return got == (long)size ? 0 : -1;
}

uint32_t arc4random(void) {
  uint32_t number = 0;
  getentropy(&number, sizeof number);
  return number;
}

// ---- memory and threads ----------------------------------------------------------------------

struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo known = mallinfo();
#pragma GCC diagnostic pop
  return (struct mallinfo2){.arena = (size_t)known.arena,
                            .hblkhd = (size_t)known.hblkhd,
                            .uordblks = (size_t)known.uordblks};
}

// Never: a program that asks takes the slower way, which is right with one thread, too.
char __libc_single_threaded = 0;
