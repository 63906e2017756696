// Line information: LLVM's debug metadata for functions and instructions, lines only.
//
//   S = a * S[t-1] + k * v      at 9:7     ->     .loc  1 9 7      before what computes it, forward and, for what is
//                                                                  derived from it, backward
//
// A function is at the line of its recurrence; a value that another file's function made keeps that
// file's line.
#include "compiler/emit/lines.h"

#include <llvm-c/DebugInfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/base/ice.h"

typedef struct lines {
  const sources *files;
  lines_kind kind;
  LLVMDIBuilderRef builder;
  LLVMMetadataRef type;  // of every function; NULL: there is no function yet
} lines;

// LLVM has a third kind that its C interface does not name: directives without sections.
enum { DIRECTIVES_ALONE = 3 };

static LLVMMetadataRef file_of(lines *x, span where) {
  const source *file = sources_get(x->files, where.source);
  char folder[4096];
  if (!getcwd(folder, sizeof folder)) folder[0] = 0;
  return LLVMDIBuilderCreateFile(x->builder, file->path, strlen(file->path), folder,
                                 strlen(folder));
}

static void add_flag(llvm_module *m, const char *name, unsigned number) {
  LLVMMetadataRef value =
      LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(m->context), number, 0));
  LLVMAddModuleFlag(m->module, LLVMModuleFlagBehaviorWarning, name, strlen(name), value);
}

void lines_begin(llvm_module *m, const sources *files, lines_kind kind) {
  lines *x = calloc(1, sizeof *x);
  if (!x) ICE("emit", "no memory for line information");
  *x = (lines){.files = files, .kind = kind, .builder = LLVMCreateDIBuilder(m->module)};
  m->lines = x;
  add_flag(m, "Debug Info Version", LLVMDebugMetadataVersion());
  if (kind == LINES_AND_SECTIONS) add_flag(m, "Dwarf Version", 5);
}

void lines_end(llvm_module *m) {
  if (m->lines) LLVMDIBuilderFinalize(m->lines->builder);
}

void lines_free(llvm_module *m) {
  if (!m->lines) return;
  LLVMDisposeDIBuilder(m->lines->builder);
  free(m->lines);
  m->lines = NULL;
}

// The unit is named after the file of the first function.
static void make_unit(lines *x, LLVMMetadataRef file) {
  static const char producer[] = "recc";
  LLVMDWARFEmissionKind kind = x->kind == LINES_ALONE ? (LLVMDWARFEmissionKind)DIRECTIVES_ALONE
                                                      : LLVMDWARFEmissionLineTablesOnly;
  LLVMDIBuilderCreateCompileUnit(x->builder, LLVMDWARFSourceLanguageC11, file, producer,
                                 sizeof producer - 1, 1, "", 0, 0, "", 0, kind, 0, 0, 0, "", 0, "",
                                 0);
  x->type = LLVMDIBuilderCreateSubroutineType(x->builder, file, NULL, 0, LLVMDIFlagZero);
}

span lines_of_recurrence(const recurrence *r) {
  const typed_body *body = &r->body;
  for (int i = 0; i < body->values.count && !body->span.source; i++)
    if (body->values.items[i].span.source) return body->values.items[i].span;
  return body->span;
}

void lines_open_function(emitter *e) {
  lines *x = e->m->lines;
  e->scope = NULL;
  if (!x || !e->where.source) return;
  LLVMMetadataRef file = file_of(x, e->where);
  if (!x->type) make_unit(x, file);
  size_t length;
  const char *name = LLVMGetValueName2(e->function, &length);
  unsigned line =
      (unsigned)source_locate(sources_get(x->files, e->where.source), e->where.begin).line;
  bool local = LLVMGetLinkage(e->function) == LLVMInternalLinkage;
  e->scope = LLVMDIBuilderCreateFunction(x->builder, file, name, length, name, length, file, line,
                                         x->type, local, 1, line, LLVMDIFlagZero, 1);
  LLVMSetSubprogram(e->function, e->scope);
  lines_at(e, e->where);
}

LLVMMetadataRef lines_at(emitter *e, span where) {
  if (!e->scope) return NULL;
  LLVMMetadataRef before = LLVMGetCurrentDebugLocation2(e->b);
  if (!where.source) return before;
  lines *x = e->m->lines;
  source_position at = source_locate(sources_get(x->files, where.source), where.begin);
  LLVMMetadataRef scope = e->scope;
  if (where.source != e->where.source)
    scope = LLVMDIBuilderCreateLexicalBlockFile(x->builder, scope, file_of(x, where), 0);
  LLVMSetCurrentDebugLocation2(
      e->b, LLVMDIBuilderCreateDebugLocation(e->context, (unsigned)at.line, (unsigned)at.column,
                                             scope, NULL));
  return before;
}
