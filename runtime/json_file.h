// Settings in JSON files that people write: messages name the file, and the place or the member.
#pragma once

#include "compiler/abi/json.h"
#include "runtime/internal.h"

// A text that holds one object; the caller deletes it. The path is for messages.
rec_status json_read_text(const char *path, const char *text, size_t size, cJSON **json);
// The same of a file.
rec_status json_read_file(const char *path, cJSON **json);
// The number of a member from `least` to `most`. `object` may be NULL: then the member is missing.
rec_status json_real(const char *path, const cJSON *object, const char *key, double least,
                     double most, double *value);
