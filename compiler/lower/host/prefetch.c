// Products that prefetch rows of memory while they multiply: one entry of the list with each block.
// Nests that prefetch the rows of the next chunk at each point of this one (kernel/host/prefetch.c).
#include "compiler/lower/host/nests.h"

enum { IN_SECOND_CACHE = 2 };

void fetch_line(emitter *e, ir address, bool write, int nearness) {
  ir hints[] = {address, LLVMConstInt(e->i32, write, 0),
                LLVMConstInt(e->i32, (unsigned)nearness, 0), LLVMConstInt(e->i32, 1, 0)};
  call_intrinsic(e, "llvm.prefetch", &e->pointer, 1, hints, 4);
}

void fetch_entry(emitter *e, const fetch_list *f) {
  ir next = LLVMBuildLoad2(e->b, e->i64, element(e, e->i64, f->list, integer(e, FETCH_NEXT)), "");
  ir last = LLVMBuildLoad2(e->b, e->i64, element(e, e->i64, f->list, integer(e, FETCH_LAST)), "");
  ir entry = LLVMBuildLoad2(e->b, e->pointer, LLVMBuildIntToPtr(e->b, next, e->pointer, ""), "");
  for (int i = 0; i < f->lines; i++)
    fetch_line(e, element(e, LLVMInt8TypeInContext(e->context), entry, integer(e, i * FETCH_LINE)),
               false, IN_SECOND_CACHE);
  LLVMBuildStore(e->b, int_min(e, int_add_n(e, next, 8), last),
                 element(e, e->i64, f->list, integer(e, FETCH_NEXT)));
}

void fetch_ahead_at(lower *l, const place_in_loops *at) {
  for (int i = 0; at->lanes && i < l->ahead.count; i++) {
    const rows_ahead *r = &l->ahead.items[i];
    if (!int_is(r->rows.stride[at->vector_axis], 1)) continue;
    int numbers = FETCH_LINE / number_stored_bytes(r->rows.stored, l->m->f64);
    ir address = view_address(l, &r->rows, at, r->axes);
    for (int n = 0; n < at->lanes; n += numbers)
      fetch_line(l->e, element(l->e, view_type(l->e, &r->rows), address, integer(l->e, n)),
                 r->write, IN_SECOND_CACHE);
  }
}
