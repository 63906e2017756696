// From a file to a library: the passes in order, what each reads and writes, and what is printed
// between them.
#pragma once

#include <stdio.h>

#include "compiler/artifact/abi.h"
#include "compiler/sema/sema.h"

// What a pass reads or writes: one per data structure of the compiler.
typedef enum pipeline_layer {
  LAYER_FILE,        // a path
  LAYER_SOURCE,      // source.h
  LAYER_SYNTAX,      // ast.h
  LAYER_TYPED,       // typed.h, graph.h
  LAYER_RECURRENCE,  // recurrence.h
  LAYER_KERNEL,      // tile.h, kernel.h
  LAYER_PLAN,        // plan.h, kernel_plan.h: what kernels carry
  LAYER_CONTENTS,    // abi.h: what the library is to hold
  LAYER_OBJECT,      // target.h
  LAYER_LINKED,      // abi.h: the library in memory
  LAYER_LIBRARY      // its files
} pipeline_layer;

// An axis of -D that has several sizes: AXIS=64,128 or ITEM.AXIS=64,128.
typedef struct size_choice {
  const char *item, *axis;  // item: NULL, or the declaration alone that it is for
  const char *name;         // both, as written: ITEM.AXIS
  VEC(int64_t) sizes;
} size_choice;

// A library holds a recurrence once for each number type and each combination of sizes that it is
// asked for.
enum { MOST_VARIANTS = 64 };

typedef struct compile_options {
  const char *path;              // the file; "-": standard input
  const char *output;            // -o, or NULL
  bool again;                    // --again: it may replace any file
  const char *emit;              // --emit=.., or NULL: write the library
  const char *from;              // --from=recurrence|tile|manifest, or NULL: a .rec file
  artifact_carried carried;      // --from=manifest: the sources in place of the file's
  const char *prefix;            // --prefix, or ""
  VEC(const char *) exported;    // --export: imported recurrences that the library gets, too
  VEC(size_override) overrides;  // -D
  VEC(size_choice) choices;      // -D of several sizes; those of a variant are overrides
  VEC(const char *) defines;     // the same as written
  int level;                     // -O
  number_type dtype;             // of a variant; else the first of these:
  VEC(number_type) dtypes;       // --dtype; none: f32
  int chunk;                     // 0: chosen
  int save_every;                // 0: chosen
  schedule_form form;            // --form
  bool tf32;                     // --tf32
  const pass_names *without;     // --without, or NULL
  int shared_kib;                // --shared-memory, 0: as every device has it
  bool targets_given;            // --target
  unsigned gpu_targets;          // its GPUs: bits 1 << GPU_SM_80, ..
  // its kinds of processor: bits 1 << CLONE_V2, ..; 0: all of what recc runs on
  unsigned clones;
  bool host;          // it names the host, or a kind of processor
  bool check;         // --check
  bool summary;       // --summary
  bool lines;         // -g
  bool count;         // --count
  const char *ptxas;  // --ptxas, or NULL: the one in the path, with --target
  bool check_only, write_dependencies, time_report;
} compile_options;

// Compiles; messages go to `errors`, what is emitted to the output file or to `out`. Returns the
// exit status: 0, or 1 if the program or a file is in the way.
int compile(arena *a, interner *names, const compile_options *options, FILE *out, FILE *errors);

// Whether --emit=`what`, --from=`what` exist; the list of all that can be emitted, for messages.
bool compile_can_emit(const char *what);
bool compile_can_read(const char *what);
const char *compile_emit_list(arena *a);

// The pass or choice that --without calls by this word, NULL: there is none that may be left out;
// the list of all words.
const char *compile_find_optional(arena *a, const char *word);
const char *compile_optional_list(arena *a);
// The word of a name: register-states.
const char *compile_optional_word(arena *a, const char *name);
