// Text files that are replaced as a whole.
#ifndef REC_TRAIN_WHOLE_FILE_H
#define REC_TRAIN_WHOLE_FILE_H

#include "runtime/internal.h"

// Writes beside the file and renames: who reads it, and a disk that is full, finds the old text or the new one.
rec_status whole_file_write(const char *path, const char *text, size_t size);
// The bytes of a file, and a 0 behind them; the caller frees them.
rec_status whole_file_read(const char *path, char **text);

#endif
