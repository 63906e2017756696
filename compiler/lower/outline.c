/* Functions stay short: nests of a long region move into functions of their own.
 *
 *   kernel: nest 1; nest 2; .. nest 9      ->      kernel: nest 1; nest 2; store environment; part 1(environment); ..
 *
 * LLVM's time grows faster than the length of a function. What a nest reads from its surroundings (tensors, strides,
 * buffers, indices) stands in `lower`; the environment is a struct of those values that are not constants. A part loads
 * all of it first; what its nests did not read is taken out again, and what no part read is not stored.
 */
#include "compiler/emit/lines.h"
#include "compiler/lower/gpu/nests.h"
#include "compiler/lower/repeats.h"
#include "compiler/lower/surroundings.h"

enum { LONG_FUNCTION = 1500 };

typedef struct outline {
  lower *outside;
  nest_range nests;
  LLVMTypeRef type; /* of the environment */
  ir environment;
  int count;          /* of its values */
  ir *stores, *loads; /* of each; loads: of the open part */
  bool *read;         /* by some part */
  int before_nests;   /* instructions of the open part that only load */
  emitter emitter;    /* of the open part */
  lower inside;
  bool open;
} outline;

static void store_environment(outline *o) {
  emitter *e = o->outside->e;
  ir_list list = surroundings_of(o->outside, o->nests);
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, list.count);
  for (int i = 0; i < list.count; i++) types[i] = LLVMTypeOf(*list.items[i]);
  o->type = LLVMStructTypeInContext(e->context, types, (unsigned)list.count, 0);
  o->environment = stack_slot(e, o->type, "environment");
  o->count = list.count;
  o->stores = ARENA_ARRAY(e->a, ir, list.count);
  o->loads = ARENA_ARRAY(e->a, ir, list.count);
  o->read = ARENA_ARRAY(e->a, bool, list.count);
  for (int i = 0; i < list.count; i++) {
    ir address = LLVMBuildStructGEP2(e->b, o->type, o->environment, (unsigned)i, "");
    o->stores[i] = LLVMBuildStore(e->b, *list.items[i], address);
  }
}

/* A load or store, and the address that it alone uses. */
static void erase_access(ir access, unsigned address_operand) {
  ir address = LLVMGetOperand(access, address_operand);
  LLVMInstructionEraseFromParent(access);
  LLVMInstructionEraseFromParent(address);
}

static void open_part(outline *o) {
  emitter *e = o->outside->e;
  if (!o->environment) store_environment(o);
  size_t length;
  const char *owner = LLVMGetValueName2(e->function, &length);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &e->pointer, 1, 0);
  const char *name = arena_printf(e->a, "%s_part", owner); /* LLVM numbers equal names */
  ir function = llvm_function(e->m, name, type, e->clone);
  LLVMSetVisibility(function, LLVMDefaultVisibility);
  LLVMSetLinkage(function, LLVMInternalLinkage);
  llvm_flag(e->m, function, "noinline");
  LLVMBuildCall2(e->b, type, function, &o->environment, 1, "");
  o->emitter = *e;
  o->emitter.b = LLVMCreateBuilderInContext(e->context);
  emit_open(&o->emitter, function);
  o->inside = surroundings_copy(o->outside, &o->emitter);
  ir_list list = surroundings_of(&o->inside, o->nests);
  for (int i = 0; i < list.count; i++) {
    ir address =
        LLVMBuildStructGEP2(o->emitter.b, o->type, LLVMGetParam(function, 0), (unsigned)i, "");
    o->loads[i] = LLVMBuildLoad2(o->emitter.b, LLVMTypeOf(*list.items[i]), address, "");
    *list.items[i] = o->loads[i];
  }
  o->before_nests = llvm_instruction_count(function);
  o->open = true;
}

static void close_part(outline *o) {
  if (!o->open) return;
  for (int i = 0; i < o->count; i++) {
    bool read = LLVMGetFirstUse(o->loads[i]) != NULL;
    o->read[i] |= read;
    if (!read) erase_access(o->loads[i], 0);
  }
  LLVMBuildRetVoid(o->emitter.b);
  LLVMDisposeBuilder(o->emitter.b);
  o->open = false;
}

static bool is_long(const outline *o, const lower *at) {
  int count = llvm_instruction_count(at->e->function);
  return count - (o->open ? o->before_nests : 0) > LONG_FUNCTION;
}

static void erase_unread(outline *o) {
  for (int i = 0; i < o->count; i++) {
    if (!o->read[i]) erase_access(o->stores[i], 1);
  }
}

static nest_range nests_of(const plan *p, region r) {
  nest_range range = {.region = r, .first = 0, .last = p->nests.count - 1};
  while (range.first <= range.last && p->nests.items[range.first].region != r) range.first++;
  while (range.last >= range.first && p->nests.items[range.last].region != r) range.last--;
  return range;
}

void lower_region(lower *l, region r) {
  outline o = {.outside = l, .nests = nests_of(l->p, r)};
  turn_functions turns = {0};
  if (r != REGION_BODY) gpu_forget_accesses(l, false);
  for (int n = o.nests.first; n <= o.nests.last;) {
    lower *at = o.open ? &o.inside : l;
    if (!l->team && is_long(&o, at)) {
      close_part(&o);
      open_part(&o);
      at = &o.inside;
    }
    int repeated = lower_repeat(at, o.nests, n, &turns);
    if (!repeated) lower_nest(at, &l->p->nests.items[n]);
    n += repeated ? repeated : 1;
  }
  close_part(&o);
  erase_unread(&o);
  lines_at(l->e, l->e->where);
  gpu_forget_accesses(l, false);
}
