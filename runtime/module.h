// Inside a module: a compiled library, its manifest as C structures, and the program behind it.
#pragma once

#include <stdio.h>

#include "runtime/internal.h"

typedef int (*rec_entry)(const void *arguments, const rec_launch *launch);
typedef int (*rec_sizes_entry)(const void *arguments, rec_sizes *sizes);
typedef int (*rec_summary_entry)(const void *arguments, const rec_launch *launch, void *summary);
typedef int (*rec_fold_entry)(const void *arguments, const rec_launch *launch,
                              const rec_segments *segments);
typedef int (*rec_combine_entry)(const void *arguments, const rec_launch *launch,
                                 const rec_segments *segments, void *summary);

// Byte offsets in NAME_arguments of what belongs to one variable; -1: there is no such field.
typedef struct rec_place {
  int data, batch_stride, time_stride;
} rec_place;

typedef struct rec_places {
  rec_place value, final, gradient, d_final;
} rec_places;

typedef struct rec_front rec_front;     // front.h
void rec_front_free(rec_front *front);  // NULL is allowed

struct rec_recurrence {
  rec_module *module;
  int index;
  rec_signature signature;
  // Of a compiled library; NULL in a module of source text.
  const void *json;               // the row of the manifest
  const char *symbol, *formulas;  // formulas: a hash, or NULL in older libraries
  rec_entry forward, backward, step;
  rec_sizes_entry sizes;
  // these four: NULL, too, in a library of an older ABI
  rec_summary_entry summary, summary_backward;
  rec_fold_entry fold;
  rec_combine_entry combine;
  int arguments_size;
  int size_offset, batch_offset, time_offset, sequences_offset, cu_seqlens_offset;
  int *axis_offsets;
  rec_places *places;  // by variable
};

typedef struct rec_source_text {
  const char *path, *text;
} rec_source_text;

// What is asked of a library that has variants: a number type (NULL: its first) and sizes, recc's
// -D ("K=64"). Sizes that are not asked for are those of the inputs of a recurrence, where they are
// given.
typedef struct rec_variant {
  const char *dtype;
  const char *const *defines;
  int define_count;
  const char *recurrence;  // NULL: no inputs
  const rec_file *inputs;
} rec_variant;

// An axis of several sizes, as recc's -D names it, and that of the module.
typedef struct rec_pick {
  const char *name;
  int64_t size;
  bool asked;
} rec_pick;

struct rec_module {
  char *path;
  void *library;   // NULL: a module of source text
  char *manifest;  // its own copy; NULL: a module of source text
  void *json;      // the manifest, parsed; texts below live in it
  const char *(*error)(void);
  rec_dtype dtype;
  int count;
  rec_recurrence *recurrences;
  int source_count;
  rec_source_text *sources;
  const char *from;  // what the sources are: NULL (a program) or "recurrence"
  int define_count;
  const char **defines;  // of the variant: one size each
  int pick_count;
  rec_pick *picks;    // of the variant
  bool dtype_asked;   // or the library has one type
  rec_front *front;   // made when the reference device is first used
  rec_blocks blocks;  // what lives as long as the module
};

// NAME_arguments at an offset; -1: there is no such field.
void rec_set_number(char *arguments, int offset, int64_t number);
void rec_set_pointer(char *arguments, int offset, void *pointer);
// What an entry point answers, as a status with the library's message.
rec_status rec_library_answer(const rec_recurrence *r, int answer);

static inline bool rec_is_token(const rec_variable *v) {
  return v->kind == REC_INPUT || v->kind == REC_OUTPUT;
}
static inline bool rec_is_carried(const rec_variable *v) {
  return v->kind == REC_STATE || v->kind == REC_LAG;
}
// The type that a variable has in a library.
static inline rec_dtype rec_compiled_type(const rec_signature *s, const rec_variable *v) {
  return rec_is_token(v) ? s->token_type : s->carried_type;
}
// Numbers of a variable in a whole call; false: no memory could hold them.
bool rec_call_numbers(const rec_signature *signature, int variable, const rec_call *call,
                      int64_t *numbers);
// Tables of a call, all NULL, in one piece of memory that begins with `value`; NULL: there is none.
void **rec_call_tables(const rec_signature *signature, rec_call *call);

// Does the source that the module carries know a recurrence of this name, its own or an imported
// one?
bool rec_module_knows(rec_module *module, const char *name);

// Does the library hold code for a target ("x86-64-v3", "simt")?
bool rec_module_has_target(const rec_module *module, const char *target);

// Opens a variant of a library; its recurrences are those of the module. What the library does not
// have is not picked: rec_module_is tells whether the module is what is asked.
rec_status rec_module_open_variant(const char *path, const rec_variant *variant,
                                   rec_module **module);
bool rec_module_is(const rec_module *module, const rec_variant *variant);
// Whether the library has other variants than the module, and nothing was asked that tells them
// apart.
bool rec_module_is_ambiguous(const rec_module *module);

// An empty module; NULL, with a message, if memory is short.
rec_module *rec_module_new(const char *path);

// A module of a .rec file: its recurrences run on `reference` only. `defines` are recc's -D
// ("P=32"). Messages about the program go to `messages`, or nowhere if it is NULL.
rec_status rec_module_open_source(const char *path, const char *const *defines, int define_count,
                                  rec_dtype dtype, FILE *messages, rec_module **module);
