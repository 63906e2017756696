#include "compiler/abi/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/mark.h"

// ---- places -------------------------------------------------------------------------------------

// /dev/stdout names what a shell has opened: that descriptor is written, wherever it is in its
// file. -1: another path.
int output_descriptor(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  if (!strcmp(path, "/dev/stdout")) return STDOUT_FILENO;
  if (!strcmp(path, "/dev/stderr")) return STDERR_FILENO;
  for (int i = 0; i < 2; i++) {
    size_t length = strlen(folders[i]);
    char *end;
    if (strncmp(path, folders[i], length) != 0) continue;
    long number = strtol(path + length, &end, 10);
    if (end > path + length && !*end && number >= 0 && number < INT_MAX) return (int)number;
  }
  return -1;
}

bool output_stands(const char *path) {
  struct stat about;
  return output_descriptor(path) >= 0 ||
         (!stat(path, &about) && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode));
}

static int open_standing(const char *path) {
  int descriptor = output_descriptor(path);
  if (descriptor < 0) return open(path, O_WRONLY | O_CLOEXEC);
  fflush(stdout);  // what was printed comes first
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

// False with errno: the name is too long.
static bool print_path(char text[PATH_MAX + 1], const char *path) {
  if ((size_t)snprintf(text, PATH_MAX + 1, "%s", path) <= PATH_MAX) return true;
  errno = ENAMETOOLONG;
  return false;
}

static bool find_output_place(output *o, const char *path, unsigned flags) {
  char *target = flags & OUTPUT_FOLLOW ? realpath(path, NULL) : NULL;
  bool fits = print_path(o->place, target ? target : path);
  free(target);
  return fits;
}

// ---- parts --------------------------------------------------------------------------------------

static const char part_end[] = ".part";

// NAME.PROCESS-NUMBER.part
bool output_is_part(const char *name) {
  size_t length = strlen(name), end = sizeof part_end - 1;
  if (length <= end || strcmp(name + length - end, part_end) != 0) return false;
  const char *at = name + length - end;
  bool dash = false, dot = false;
  while (at > name && !dot) {
    at--;
    dot = *at == '.';
    dash |= *at == '-';
    if (!dot && *at != '-' && (*at < '0' || *at > '9')) return false;
  }
  return dot && dash && at > name;
}

static bool open_part_file(output *o, mode_t mode) {
  static _Atomic unsigned number;
  enum { ATTEMPTS = 1000 };
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int length = snprintf(o->part, sizeof o->part, "%s.%ld-%u%s", o->place, (long)getpid(),
                          number++, part_end);
    if (length >= (int)sizeof o->part) errno = ENAMETOOLONG;
    if (length < (int)sizeof o->part)
      o->handle = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (o->handle >= 0) return true;
    if (errno != EEXIST) break;
  }
  o->part[0] = '\0';
  return false;
}

bool output_open(output *o, const char *path, unsigned flags) {
  o->handle = -1;
  o->place[0] = o->part[0] = '\0';
  if (!(flags & OUTPUT_FOLLOW && output_stands(path)))
    return find_output_place(o, path, flags) &&
           open_part_file(o, flags & OUTPUT_EXECUTABLE ? 0777 : 0666);
  if (!print_path(o->place, path)) return false;
  o->handle = open_standing(path);
  return o->handle >= 0;
}

// ---- bytes --------------------------------------------------------------------------------------

bool output_put(output *o, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    size_t most = size < (1u << 30) ? size : 1u << 30;
    ssize_t written = write(o->handle, at, most);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= (size_t)written;
  }
  return true;
}

// A rename is on the disk once its folder is.
static void flush_folder(const char *place) {
  char folder[PATH_MAX + 1];
  if (!print_path(folder, place)) return;
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = '\0';
  int handle = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  fsync(handle);
  close(handle);
}

bool output_finish(output *o, unsigned flags) {
  bool placed = *o->part, flush = placed && flags & OUTPUT_FLUSH;
  if (flush && fsync(o->handle)) return output_drop(o), false;
  int handle = o->handle;
  o->handle = -1;
  if (close(handle) || (placed && rename(o->part, o->place))) return output_drop(o), false;
  o->part[0] = '\0';
  if (flush) flush_folder(o->place);
  return true;
}

void output_drop(output *o) {
  int error = errno;
  if (o->handle >= 0) close(o->handle);
  if (*o->part) unlink(o->part);
  o->handle = -1;
  o->part[0] = '\0';
  errno = error;
}

bool output_write(const char *path, const struct iovec *parts, int count, unsigned flags) {
  output o;
  if (flags & OUTPUT_MARK) mark_fill(parts, count);
  bool good = output_open(&o, path, flags);
  if (!good) return false;
  for (int i = 0; good && i < count; i++)
    good = output_put(&o, parts[i].iov_base, parts[i].iov_len);
  if (good) return output_finish(&o, flags);
  output_drop(&o);
  return false;
}
