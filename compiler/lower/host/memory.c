// Host: numbers of a view that the lanes of a vector load and store, and results.
//
//   x [t, P] at 8 entries of P      one load where they lie side by side, else a gather; lanes that do not exist are masked
#include <string.h>

#include "compiler/lower/host/nests.h"

static ir mask_for(lower *l, const view *v, const place_in_loops *at) {
  return v->internal && at->vector_axis == l->m->lane_axis ? NULL : at->mask;
}

static ir alias_scope(emitter *e, const char *name) {
  LLVMMetadataRef domain_name = LLVMMDStringInContext2(e->context, "rec", 3);
  LLVMMetadataRef domain = LLVMMDNodeInContext2(e->context, &domain_name, 1);
  LLVMMetadataRef parts[] = {LLVMMDStringInContext2(e->context, name, strlen(name)), domain};
  LLVMMetadataRef scope = LLVMMDNodeInContext2(e->context, parts, 2);
  return LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &scope, 1));
}

// Buffers and tensors are never the same memory: what a loop reads of a tensor may stay in
// registers while it writes a buffer. Tensors may be each other.
static void mark_tensors_apart(emitter *e, const view *v, ir access) {
  if (!access || (!LLVMIsALoadInst(access) && !LLVMIsAStoreInst(access))) return;
  const char *names[] = {"rec tensors", "rec buffers"};
  unsigned scope = LLVMGetMDKindIDInContext(e->context, "alias.scope", 11);
  unsigned apart = LLVMGetMDKindIDInContext(e->context, "noalias", 7);
  LLVMSetMetadata(access, scope, alias_scope(e, names[v->internal]));
  LLVMSetMetadata(access, apart, alias_scope(e, names[!v->internal]));
}

// A row of zeros in place of a tensor that the call does not have.
static ir present_address(emitter *e, const view *v, ir address, int lanes, ir *stride) {
  LLVMTypeRef row = LLVMVectorType(view_type(e, v), (unsigned)(lanes ? lanes : 1));
  ir zeros = stack_slot(e, row, "zeros");
  LLVMBuildStore(e->b, LLVMConstNull(row), zeros);
  address = LLVMBuildSelect(e->b, v->present, address, zeros, "");
  bool dense = lanes && int_is(*stride, 1);
  if (lanes && !dense) *stride = int_choose(e, v->present, *stride, integer(e, 0));
  return address;
}

ir host_load(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  ir address = view_address(l, v, at, axes);
  int lanes = view_in_lanes(v, at, axes) ? at->lanes : 0;
  ir stride = lanes ? v->stride[at->vector_axis] : NULL;
  if (v->present) address = present_address(e, v, address, lanes, &stride);
  ir mask = lanes ? mask_for(l, v, at) : NULL;
  if (number_is_narrow(v->stored)) return load_narrow(e, v->stored, address, stride, mask, lanes);
  emitter as = emit_as(e, view_type(e, v));
  ir x = lanes ? gather(&as, address, stride, mask, lanes) : load_real(&as, address, 0);
  if (!v->present) mark_tensors_apart(e, v, x);
  return as_real(e, x);
}

static void store_lane_numbers(lower *l, const view *v, ir address, ir stride, ir mask, ir x) {
  emitter as = emit_as(l->e, view_type(l->e, v));
  x = as_real(&as, x);
  stride ? scatter(&as, x, address, stride, mask) : store_real(&as, x, address);
  mark_tensors_apart(l->e, v, LLVMGetLastInstruction(LLVMGetInsertBlock(l->e->b)));
}

void host_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x) {
  bool vector = view_in_lanes(v, at, axes);
  if (vector) x = spread(l->e, x, at->lanes);
  ir address = view_address(l, v, at, axes);
  ir stride = vector ? v->stride[at->vector_axis] : NULL, mask = vector ? mask_for(l, v, at) : NULL;
  if (number_is_narrow(v->stored))
    store_narrow(l->e, v->stored, x, address, stride, mask);
  else
    store_lane_numbers(l, v, address, stride, mask, x);
}

void host_result(lower *l, const result_target *target, const place_in_loops *at, axis_set axes,
                 ir x) {
  if (target->add) x = real_add(l->e, view_load(l, &target->at, at, axes), x);
  view_store(l, &target->at, at, axes, x);
}
