// The file that a command is given: a path, or std.NAME, a file of the standard library.
#pragma once

#include "compiler/base/embedded.h"
#include "compiler/base/source.h"

// The NAME of std.NAME, as an import has it, "mamba2" or "ops.causal_conv1d"; NULL: the word is a
// path.
const char *program_standard_name(const char *word);

// Its last word: "causal_conv1d".
const char *program_standard_stem(const char *name);

// The path that messages print: "stdlib/ops/causal_conv1d.rec".
const char *program_standard_path(arena *a, const char *name);

// The std.NAME of a path to no file: NAME is that of a file of the standard library, or of a
// recurrence in it. NULL: none is meant.
const char *program_meant(arena *a, const embedded_file *stdlib, const char *path);

// As sources_load, for either. A file that is not there, but is one of the standard library, is
// told so.
const source *program_load(sources *all, arena *a, const embedded_file *stdlib, const char *word,
                           const char **error);

// A file of the standard library, under the path that messages print.
const source *program_add_standard(sources *all, arena *a, const embedded_file *file);
