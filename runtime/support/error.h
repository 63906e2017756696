// This thread's last message, one line.
#pragma once

#include "compiler/abi/launch.h"

// At least this many bytes stand behind rec_error(), whichever library it comes from.
enum { REC_ERROR_TEXT_MAX = 512 };

__attribute__((visibility("default"))) const char *rec_error(void);

// Keeps the thread's message and returns `status`, so that a check reads `return rec_fail(...)`. A
// compiled library's is in fail.c; librec keeps longer messages (runtime/error.c).
rec_status rec_fail(rec_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
