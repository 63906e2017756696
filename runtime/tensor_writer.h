// A tensor file that is filled part by part, by one process or by several. It is written beside its
// place, and takes this place when all of it is there: whoever looks finds the old file or the new
// one.
#pragma once

#include "compiler/abi/output.h"
#include "runtime/internal.h"

typedef struct tensor_writer tensor_writer;

// What the file will hold. `data` of the tensors is not read.
typedef struct tensor_plan {
  const rec_tensor *tensors;
  int count;
  const rec_metadata *metadata;
  int metadata_count;
} tensor_plan;

// Begins a file for `path`, with its header. A link there is replaced, not what it names. With
// `begun`, the file that a writer of the same plan has begun for `path`, perhaps in another
// process: its tensor_writer_file.
rec_status tensor_writer_open(const char *path, const file_path *begun, const tensor_plan *plan,
                              tensor_writer **made);
file_path tensor_writer_file(const tensor_writer *w);
// Some bytes of a tensor, from its byte `first` on.
rec_status tensor_writer_put(tensor_writer *w, int tensor, int64_t first, const void *bytes,
                             size_t size);
// What this writer has put is on the disk.
rec_status tensor_writer_flush(tensor_writer *w);
// Puts the file in its place, once all its writers have flushed: for the writer that has opened it.
rec_status tensor_writer_finish(tensor_writer *w);
// A file that was opened and not finished is removed. NULL is allowed.
void tensor_writer_close(tensor_writer *w);
