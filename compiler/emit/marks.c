// Marks: calls of a function that touches no memory of the program, so that LLVM's passes move code
// past them as if they were not there.
#include "compiler/emit/marks.h"

#include <string.h>

const char mark_function[] = "rec.mark";

static LLVMValueRef declare_mark_function(emitter *e) {
  LLVMValueRef found = LLVMGetNamedFunction(e->m->module, mark_function);
  if (found) return found;
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &e->i32, 1, 0);
  found = LLVMAddFunction(e->m->module, mark_function, type);
  static const char *const flags[] = {"nounwind", "willreturn", "nocallback", "nofree"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) llvm_flag(found, flags[i]);
  enum { INACCESSIBLE_MEMORY_ALONE = 3 << 2 };  // read and written; nothing else is
  unsigned kind = LLVMGetEnumAttributeKindForName("memory", 6);
  LLVMAddAttributeAtIndex(found, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->context, kind, INACCESSIBLE_MEMORY_ALONE));
  return found;
}

void mark_place(emitter *e, const char *text, span where) {
  marks *all = e->m->marks;
  if (!all) return;
  mark m = {.kernel = all->kernel, .text = arena_strdup(all->memory, text), .file = ""};
  const source *file = where.source ? sources_get(all->files, where.source) : NULL;
  if (file) m.file = file->path, m.line = source_locate(file, where.begin).line;
  vec_push(all->memory, &all->items, m);
  LLVMValueRef function = declare_mark_function(e),
               number = LLVMConstInt(e->i32, (unsigned)all->items.count - 1, 0);
  LLVMBuildCall2(e->b, LLVMGlobalGetValueType(function), function, &number, 1, "");
}

void marks_erase(LLVMModuleRef module) {
  LLVMValueRef function = LLVMGetNamedFunction(module, mark_function);
  if (!function) return;
  for (LLVMUseRef use = LLVMGetFirstUse(function), next; use; use = next) {
    next = LLVMGetNextUse(use);
    LLVMInstructionEraseFromParent(LLVMGetUser(use));
  }
  LLVMDeleteFunction(function);
}
