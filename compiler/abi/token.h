// Tokens of sequences, as models read them on the host and on GPUs: symbols from 0 on, below the
// vocabulary.
#pragma once

#include <stdint.h>

typedef int32_t token_id;

// a token whose successor is not asked for; the largest vocabulary
enum { NO_TARGET = -1, MOST_SYMBOLS = INT32_MAX };
