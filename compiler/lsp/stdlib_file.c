// Files of the standard library that an editor can open. rec carries their texts; the installation
// has them beside it. Elsewhere a copy is written for the user, which nobody can change by mistake.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/output.h"
#include "compiler/base/embedded.h"
#include "compiler/base/program.h"
#include "compiler/lsp/server.h"

static bool holds(const char *path, const embedded_file *file) {
  FILE *in = fopen(path, "rb");
  if (!in) return false;
  bool same = true;
  for (size_t i = 0; same && i <= file->size; i++) {
    int c = getc(in);
    same = i < file->size ? c == file->data[i] : c == EOF;
  }
  fclose(in);
  return same;
}

// The file of a source ("stdlib/ops/causal_conv1d.rec"), NULL for one of the user's.
static const embedded_file *standard_file_of_source(arena *scratch, const char *path) {
  const embedded_file *file = embedded_stdlib;
  while (file->name && strcmp(program_standard_path(scratch, file->name), path) != 0) file++;
  return file->name ? file : NULL;
}

static const char *installed(arena *scratch, const embedded_file *file) {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return NULL;
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  const char *path =
      arena_printf(scratch, "%s/../share/rec/%s", self, program_standard_path(scratch, file->name));
  char *real = realpath(path, NULL);
  path = real && holds(real, file) ? arena_strdup(scratch, real) : NULL;
  free(real);
  return path;
}

// Those above a file.
static bool make_folders(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    bool there = mkdir(path, 0755) == 0 || errno == EEXIST;
    *slash = '/';
    if (!there) return false;
  }
  return true;
}

static bool write_copy(const char *path, const embedded_file *file) {
  output copy;
  if (!output_open(&copy, path, 0)) return false;
  bool written = output_put(&copy, file->data, file->size) && !fchmod(copy.handle, 0444) &&
                 output_finish(&copy, 0);
  output_drop(&copy);
  return written;
}

const char *lsp_source_file(arena *scratch, const char *path) {
  const embedded_file *file = path[0] == '/' ? NULL : standard_file_of_source(scratch, path);
  const char *found = file ? installed(scratch, file) : path, *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  if (found) return found;
  if ((!cache || cache[0] != '/') && (!home || home[0] != '/')) return NULL;
  const char *folder = cache && cache[0] == '/' ? cache : arena_printf(scratch, "%s/.cache", home);
  char *copy = arena_printf(scratch, "%s/rec/%s", folder, path);
  if (holds(copy, file)) return copy;
  return make_folders(copy) && write_copy(copy, file) ? copy : NULL;
}
