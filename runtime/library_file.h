// A compiled library as a file, read without loading it: loading runs what the library wants to be
// run.
#pragma once

#include "runtime/internal.h"

// The text of `rec_manifest` among the bytes of a library, which end with a NUL inside of them.
// Refuses files that are no libraries for x86-64 or aarch64, that lack a part of what would be
// mapped, and those without a manifest.
rec_status library_find_manifest(const char *path, const void *bytes, size_t size,
                                 const char **manifest);

// The manifest of the file, which the caller frees. `runs`: the library must be for the processor
// of this machine.
rec_status library_read_manifest(const char *path, bool runs, char **manifest);
