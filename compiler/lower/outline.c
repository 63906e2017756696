/* Functions stay short: nests of a long region move into functions of their own.
 *
 *   kernel: nest 1; nest 2; .. nest 9      ->      kernel: nest 1; nest 2; store environment; part 1(environment); ..
 *
 * LLVM's time grows faster than the length of a function. What a nest reads from its surroundings (tensors, strides,
 * buffers, indices) stands in `lower`; the environment is a struct of those values that are not constants. A part loads
 * all of it first; what its nests did not read is taken out again, and what no part read is not stored.
 */
#include <string.h>

#include "compiler/emit/lines.h"
#include "compiler/lower/gpu/nests.h"

enum { LONG_FUNCTION = 1500 };

typedef struct outline {
  lower *outside;
  region region;
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

typedef VEC(ir *) ir_list;

static void list_one(arena *a, ir_list *list, ir *x) {
  if (*x && !LLVMIsConstant(*x)) vec_push(a, list, x);
}

static void list_view(arena *a, ir_list *list, view *v) {
  list_one(a, list, &v->base);
  list_one(a, list, &v->present);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) list_one(a, list, &v->stride[axis]);
}

/* Is a buffer alive at some nest of the region? */
static bool is_alive(const plan *p, const plan_buffer *b, region r) {
  if (b->persistent || b->carried >= 0) return true;
  for (int n = b->first; n >= 0 && n <= b->last; n++) {
    if (p->nests.items[n].region == r) return true;
  }
  return false;
}

/* Every value of the surroundings, in a fixed order. Prologue and epilogue see parameters alone: where they stand, what
 * belongs to a step or chunk does not exist. */
static ir_list surroundings(lower *l, region r) {
  arena *a = l->e->a;
  ir_list list = {0};
  const tile_program *program = l->p->program;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    list_one(a, &list, &l->axis_size[axis]);
    list_one(a, &list, &l->outside.index[axis]);
  }
  list_one(a, &list, &l->outside.mask);
  bool run = r == REGION_SHARED || r == REGION_BODY || r == REGION_STEPS;
  if (run) list_one(a, &list, &l->rows);
  if (r == REGION_STEPS) list_one(a, &list, &l->steps);
  if (run && l->fetch.list) list_one(a, &list, &l->fetch.list);
  for (int i = 0; i < program->arguments.count; i++) {
    if (run || program->arguments.items[i].role == TILE_PARAM)
      list_view(a, &list, &l->arguments[i]);
  }
  for (int i = 0; i < program->results.count; i++) {
    if (!run && program->results.items[i].place.role != TILE_D_PARAM) continue;
    list_view(a, &list, &l->results[i].at);
    list_one(a, &list, &l->results[i].active);
    list_one(a, &list, &l->results[i].limit);
  }
  for (int c = 0; c < l->p->carried_count; c++) list_view(a, &list, &l->carried[c]);
  for (int i = 0; i < l->p->buffers.count; i++) {
    if (is_alive(l->p, &l->p->buffers.items[i], r)) list_one(a, &list, &l->buffers[i]);
  }
  for (int i = 0; i < program->values.count; i++) list_one(a, &list, &l->variables[i]);
  return list;
}

static void store_environment(outline *o) {
  emitter *e = o->outside->e;
  ir_list list = surroundings(o->outside, o->region);
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

static void *copied(arena *a, const void *from, size_t size) {
  void *to = arena_alloc(a, size);
  if (size) memcpy(to, from, size);
  return to;
}

static lower copy_of(const lower *l, emitter *e) {
  lower copy = *l;
  const tile_program *program = l->p->program;
  size_t arguments = (size_t)program->arguments.count, results = (size_t)program->results.count;
  size_t values = (size_t)program->values.count;
  copy.e = e;
  copy.arguments = copied(e->a, l->arguments, arguments * sizeof *l->arguments);
  copy.results = copied(e->a, l->results, results * sizeof *l->results);
  copy.carried = copied(e->a, l->carried, (size_t)l->p->carried_count * sizeof *l->carried);
  copy.buffers = copied(e->a, l->buffers, (size_t)l->p->buffers.count * sizeof *l->buffers);
  copy.variables = copied(e->a, l->variables, values * sizeof *l->variables);
  copy.memo = ARENA_ARRAY(e->a, ir, values);
  return copy;
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
  o->inside = copy_of(o->outside, &o->emitter);
  ir_list list = surroundings(&o->inside, o->region);
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

void lower_region(lower *l, region r) {
  outline o = {.outside = l, .region = r};
  if (r != REGION_BODY) gpu_forget_accesses(l, false);
  for (int n = 0; n < l->p->nests.count; n++) {
    const plan_nest *nest = &l->p->nests.items[n];
    if (nest->region != r) continue;
    lower *at = o.open ? &o.inside : l;
    if (!l->team && is_long(&o, at)) {
      close_part(&o);
      open_part(&o);
      at = &o.inside;
    }
    lower_nest(at, nest);
  }
  close_part(&o);
  erase_unread(&o);
  lines_at(l->e, l->e->where);
  gpu_forget_accesses(l, false);
}
