// What a file is by its first bytes, where that is no text and no plain numbers. Trained on, such a
// file would teach nothing.
#pragma once

#include "runtime/internal.h"

// Of a text or of a file of tokens: "gzip; gunzip -k unpacks it". NULL: none that is known.
const char *file_sign(rec_mapping bytes);
// What shows that bytes are no text: a sign, or a byte 0 near the beginning.
const char *file_binary(rec_mapping bytes);
// Is there nothing but text in UTF-8 at the beginning, and enough of it to tell?
bool file_is_text(rec_mapping bytes);
