// Between output.c, which writes files, and mark.c, which knows them again.
#pragma once

#include "compiler/abi/output.h"

// Puts the checksum of all parts in place of the zeros of the first mark, which lies within one of
// them. Without a mark nothing is done.
void mark_fill(const struct iovec *parts, int count);

// The descriptor that /dev/stdout and its like name; -1: another path.
int output_descriptor(const char *path);
