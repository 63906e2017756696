// Weights on their way from one type to another, whose numbers are to stay finite.
#pragma once

#include "runtime/internal.h"

// False after a line about the weight: a number is no finite one in the type that it was converted
// `to`.
bool finite_weight(const char *name, const void *to, rec_dtype to_type, const void *from,
                   rec_dtype from_type, int64_t count);
