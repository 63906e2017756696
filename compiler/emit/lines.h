// Line information (recc -g): which line of the source the instructions were made for.
#pragma once

#include "compiler/emit/emit.h"

typedef enum lines_kind {
  LINES_AND_SECTIONS,  // the host: DWARF that debuggers find functions by
  // PTX: .file and .loc; sections would make ptxas compile for debugging, without optimising
  LINES_ALONE
} lines_kind;

void lines_begin(llvm_module *m, const sources *files, lines_kind kind);
// After the last function.
void lines_end(llvm_module *m);
void lines_free(llvm_module *m);

// Where a recurrence stands; of one that a layer made, the first of its values that stands
// anywhere.
span lines_of_recurrence(const recurrence *r);
// The function that the emitter has opened gets the line of emitter.where, if that is a place.
void lines_open_function(emitter *e);
// Instructions made next belong to this place, unless it is none. Returns what they would have
// belonged to.
LLVMMetadataRef lines_at(emitter *e, span where);
