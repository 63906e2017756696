// Numbers of bytes as functions of sizes that are known at run time.
#include "compiler/plan/kernel/description.h"

codegen_bytes_term *codegen_bytes_of(codegen_bytes *bytes, axis_set axes) {
  for (int i = 0; i < bytes->terms.count; i++)
    if (bytes->terms.items[i].axes == axes) return &bytes->terms.items[i];
  return NULL;
}

void codegen_bytes_add(arena *a, codegen_bytes *bytes, codegen_bytes_term term) {
  codegen_bytes_term *same = codegen_bytes_of(bytes, term.axes);
  if (same)
    same->coefficient += term.coefficient;
  else
    vec_push(a, &bytes->terms, term);
}
