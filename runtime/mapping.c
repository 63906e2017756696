// Files mapped to be read.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"

rec_status rec_map(const char *path, rec_mapping *mapping) {
  *mapping = (rec_mapping){0};
  int handle = open(path, O_RDONLY | O_CLOEXEC);
  if (handle < 0) return rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  struct stat about;
  rec_status status = REC_OK;
  if (fstat(handle, &about) != 0) {
    status = rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(about.st_mode)) {
    status = rec_fail(REC_ERROR_FORMAT, "%s: expected a regular file", path);
  } else if (about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
    if (bytes == MAP_FAILED)
      status = rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
    else
      *mapping = (rec_mapping){bytes, (size_t)about.st_size};
  }
  close(handle);
  return status;
}

void rec_unmap(rec_mapping *mapping) {
  if (mapping->bytes) munmap((void *)mapping->bytes, mapping->size);
  *mapping = (rec_mapping){0};
}
