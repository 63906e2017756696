// Writes files whole or not at all, so that a full disk or a stopped process never leaves half a
// library behind.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/artifact/abi.h"

// Writes everything or nothing; false with errno.
static bool write_all(int file, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

const char *write_file(arena *a, const char *path, const void *bytes, size_t size, bool executable) {
  struct stat existing;
  // A device such as /dev/stdout or /dev/null cannot be replaced: written in place.
  bool special = stat(path, &existing) == 0 && !S_ISREG(existing.st_mode) && !S_ISDIR(existing.st_mode);
  char *temporary = special ? arena_strdup(a, path) : arena_printf(a, "%s.XXXXXX", path);
  int file = special ? open(path, O_WRONLY | O_CLOEXEC) : mkostemp(temporary, O_CLOEXEC);
  if (file < 0) return arena_printf(a, "cannot write %s: %s", path, strerror(errno));
  bool good = write_all(file, bytes, size);
  if (!special) {
    mode_t mask = umask(0);
    umask(mask);
    good = good && fchmod(file, (executable ? 0777 : 0666) & ~mask) == 0;
  }
  int error = errno;
  if (close(file) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good && !special && rename(temporary, path) != 0) {
    good = false;
    error = errno;
  }
  if (good) return NULL;
  if (!special) unlink(temporary);
  return arena_printf(a, "cannot write %s: %s", path, strerror(error));
}
