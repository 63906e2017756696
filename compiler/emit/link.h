// Relocatable objects, and the libraries that are made of them.
#pragma once

#include <stddef.h>

#include "compiler/base/arena.h"

// A relocatable object in memory.
typedef struct link_object {
  const char *name;  // for messages
  const unsigned char *bytes;
  size_t size;
} link_object;

// Links relocatable objects in memory into a shared library at `path` with the in-process lld. It
// needs glibc 2.17 or later (c_library.list); symbols that stay undefined are an error. Returns
// NULL, or what went wrong (in the arena).
const char *link_shared_library(arena *a, const link_object *objects, int count, const char *soname,
                                const char *path);

// Links them into one relocatable object at `path`; symbols may stay undefined.
const char *link_one_object(arena *a, const link_object *objects, int count, const char *path);

// Gives symbols of an object other names: `count` pairs of a symbol and its new name.
const char *link_rename(arena *a, link_object *object, const char *const *renamed, int count);

// Makes the hidden symbols of an object local, so that other objects may have symbols of the same
// names.
const char *link_hide(arena *a, link_object *object);
// Makes all symbols of an object local but those named.
const char *link_keep(arena *a, link_object *object, const char *const *kept, int count);

// Makes of an object a static library, whose only member has its name.
const char *link_archive(arena *a, link_object *object);
