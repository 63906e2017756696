// Relocatable objects, and the shared library that lld makes of them.
#ifndef REC_EMIT_LINK_H
#define REC_EMIT_LINK_H

#include <stddef.h>

#include "compiler/base/arena.h"

// A relocatable object in memory.
typedef struct link_object {
  const char *name;  // for messages
  const unsigned char *bytes;
  size_t size;
} link_object;

// Links relocatable objects in memory into a shared library at `path` with the in-process lld. It needs glibc
// 2.17 or later (c_library.list); symbols that stay undefined are an error. Returns NULL, or what went wrong (in the arena).
const char *link_shared_library(arena *a, const link_object *objects, int count, const char *soname, const char *path);

#endif
