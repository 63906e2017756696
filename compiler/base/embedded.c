#include "compiler/base/embedded.h"

#include <string.h>

const embedded_file *embedded_find(const embedded_file *table, const char *name) {
  for (const embedded_file *file = table; file->name; file++)
    if (strcmp(file->name, name) == 0) return file;
  return NULL;
}
