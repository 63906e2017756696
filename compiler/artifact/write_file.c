#include <errno.h>
#include <string.h>

#include "compiler/abi/output.h"
#include "compiler/artifact/abi.h"

const char *write_file(arena *a, const char *path, const void *bytes, size_t size,
                       const char *comment, unsigned flags) {
  char *mark =
      comment ? arena_printf(a, "%s " OUTPUT_MARK_TEXT "\n", comment) : arena_strdup(a, "");
  const struct iovec parts[] = {{(void *)(uintptr_t)bytes, size}, {mark, strlen(mark)}};
  if (output_write(path, parts, 2, flags)) return NULL;
  return arena_printf(a, "cannot write %s: %s", path, strerror(errno));
}
