// Checksums of tensor files (`rec.checksum`): a sum over all numbers and over the metadata that is
// read again, each with its name. The order in the file does not matter, and several processes can
// sum parts.
#pragma once

#include "runtime/internal.h"

typedef struct ranks ranks;

// What tells a file from others beside its numbers: the names of its tensors, and its metadata.
uint64_t seal_of_header(const rec_tensor *tensors, int count, const rec_metadata *metadata,
                        int metadata_count);
// The bytes of a tensor from its byte `first` on. All sizes are multiples of 4, but that of the
// last part.
uint64_t seal_of_part(const char *tensor, int64_t first, const void *bytes, size_t size);

enum { SEAL_TEXT = 24 };
void seal_text(uint64_t sum, char text[SEAL_TEXT]);

// Whether a file is what was written. The ranks share the work: all come here. A file without a
// checksum, as what others write, has nothing to be held to.
rec_status seal_check(const rec_file *file, ranks *shared);
