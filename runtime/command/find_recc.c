// Where recc is: as $RECC says, else in the folder of this program, else in the path.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/command/command.h"
#include "runtime/ranks/launch.h"

// 0, or errno.
static int why_not_run(const char *path) {
  struct stat about;
  if (stat(path, &about)) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  return access(path, X_OK) ? errno : 0;
}

// The folder of this program, links followed; "" if it cannot be told.
static void own_folder(char *folder, size_t size) {
  ssize_t length = readlink("/proc/self/exe", folder, size - 1);
  folder[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
}

bool find_recc(const char *command, char *file, size_t size) {
  const char *asked = getenv("RECC");
  if (asked && *asked) {
    int wrong = snprintf(file, size, "%s", asked) < (int)size ? why_not_run(file) : ENAMETOOLONG;
    if (wrong)
      fprintf(stderr, "rec %s: expected the program recc in $RECC, found %s: %s\n", command, asked,
              strerror(wrong));
    return !wrong;
  }
  char folder[PATH_MAX];
  own_folder(folder, sizeof folder);
  if (*folder && snprintf(file, size, "%s/recc", folder) < (int)size && !why_not_run(file))
    return true;
  if (launch_find_program("recc", file, size)) return true;
  fprintf(stderr,
          "rec %s: expected recc, which compiles programs, in %s (the folder of rec) or in the "
          "path, found none; install it, or set RECC to its file\n",
          command, *folder ? folder : "?");
  return false;
}
