// Settings in JSON files that people write: messages name the file, and the line or the member.
#pragma once

#include "compiler/abi/json.h"
#include "runtime/internal.h"

// A file that holds one object; the caller deletes it.
rec_status json_read_file(const char *path, cJSON **json);
// The number of a member from `least` to `most`. `object` may be NULL: then the member is missing.
rec_status json_real(const char *path, const cJSON *object, const char *key, double least,
                     double most, double *value);
