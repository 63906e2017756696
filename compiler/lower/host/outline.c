// Functions stay short: nests of a long region move into functions of their own.
//
//   kernel: nest 1; nest 2; .. nest 9      ->      kernel: nest 1; nest 2; store environment; part 1(environment); ..
//
// LLVM's time grows faster than the length of a function. `lower` holds the surroundings of a nest
// (tensors, strides, buffers, indices); the environment is a struct of those values that are no
// constants. A part loads all of it first. Loads that its nests do not use are taken out again, and
// values that no part uses are not stored.
//
// Addresses at constant distances from each other share one entry of a long environment. LLVM's
// time grows with the square of the number of consecutive stores.
#include "compiler/lower/host/nests.h"

enum { LONG_FUNCTION = 1500, LONG_ENVIRONMENT = 500 };

typedef struct outline {
  lower *outside;
  nest_range nests;
  LLVMTypeRef type;  // of the environment
  ir environment;
  int count;           // of its values
  ir *stores, *loads;  // of each; loads: of the open part
  bool *read;          // by some part
  ir_list listed;      // the surroundings outside
  int *at;             // by position in them: which of the values
  ir *addresses;       // by position in them, of the open part: behind a value, or NULL
  int before_nests;    // instructions of the open part that only load
  emitter emitter;     // of the open part
  lower inside;
  bool open;
} outline;

// A constant distance behind another address.
static bool is_offset_address(ir x) {
  return LLVMIsAGetElementPtrInst(x) && LLVMGetNumOperands(x) == 2 &&
         LLVMIsConstant(LLVMGetOperand(x, 1));
}

// The address that others lie behind, some behind each other.
static ir base_of(ir x) {
  while (is_offset_address(x)) x = LLVMGetOperand(x, 0);
  return x;
}

static bool is_derived(const outline *o, int i) {
  return o->listed.count > LONG_ENVIRONMENT && is_offset_address(*o->listed.items[i]);
}

// The position of an address among those that others lie behind.
static int base_among(const ir *values, const int *bases, int count, ir base) {
  for (int i = 0; i < count; i++)
    if (values[bases[i]] == base) return bases[i];
  return -1;
}

// Sets `at` and `count`; returns the values of the environment.
static ir *choose_values(outline *o) {
  arena *a = o->outside->e->a;
  ir *values = ARENA_ARRAY(a, ir, o->listed.count);
  int *bases = ARENA_ARRAY(a, int, o->listed.count), base_count = 0;
  o->at = ARENA_ARRAY(a, int, o->listed.count);
  for (int i = 0; i < o->listed.count; i++) {
    bool derived = is_derived(o, i);
    ir x = *o->listed.items[i], value = derived ? base_of(x) : x;
    int found = derived ? base_among(values, bases, base_count, value) : -1;
    o->at[i] = found < 0 ? o->count : found;
    if (found >= 0) continue;
    if (derived) bases[base_count++] = o->count;
    values[o->count++] = value;
  }
  return values;
}

static void store_environment(outline *o) {
  emitter *e = o->outside->e;
  o->listed = surroundings_of(o->outside, o->nests);
  const ir *values = choose_values(o);
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, o->count);
  for (int i = 0; i < o->count; i++) types[i] = LLVMTypeOf(values[i]);
  o->type = LLVMStructTypeInContext(e->context, types, (unsigned)o->count, 0);
  o->environment = stack_slot(e, o->type, "environment");
  o->stores = ARENA_ARRAY(e->a, ir, o->count);
  o->loads = ARENA_ARRAY(e->a, ir, o->count);
  o->read = ARENA_ARRAY(e->a, bool, o->count);
  o->addresses = ARENA_ARRAY(e->a, ir, o->listed.count);
  for (int i = 0; i < o->count; i++) {
    ir address = LLVMBuildStructGEP2(e->b, o->type, o->environment, (unsigned)i, "");
    o->stores[i] = LLVMBuildStore(e->b, values[i], address);
  }
}

static void load_environment(outline *o, LLVMTypeRef *types) {
  LLVMBuilderRef b = o->emitter.b;
  ir environment = LLVMGetParam(o->emitter.function, 0);
  LLVMGetStructElementTypes(o->type, types);
  for (int i = 0; i < o->count; i++) {
    ir address = LLVMBuildStructGEP2(b, o->type, environment, (unsigned)i, "");
    o->loads[i] = LLVMBuildLoad2(b, types[i], address, "");
  }
}

// The same distances behind what a part has loaded.
static ir derived_from(LLVMBuilderRef b, ir outside, ir loaded) {
  if (!is_offset_address(outside)) return loaded;
  ir base = derived_from(b, LLVMGetOperand(outside, 0), loaded),
     distance = LLVMGetOperand(outside, 1);
  LLVMTypeRef type = LLVMGetGEPSourceElementType(outside);
  return LLVMIsInBounds(outside) ? LLVMBuildInBoundsGEP2(b, type, base, &distance, 1, "")
                                 : LLVMBuildGEP2(b, type, base, &distance, 1, "");
}

// The surroundings inside the open part.
static void take_environment(outline *o) {
  ir_list list = surroundings_of(&o->inside, o->nests);
  load_environment(o, ARENA_ARRAY(o->emitter.a, LLVMTypeRef, o->count));
  for (int i = 0; i < list.count; i++) {
    ir loaded = o->loads[o->at[i]];
    bool derived = is_derived(o, i);
    o->addresses[i] = derived ? derived_from(o->emitter.b, *o->listed.items[i], loaded) : NULL;
    *list.items[i] = derived ? o->addresses[i] : loaded;
  }
}

// A load or store, and the address that it alone uses.
static void erase_access(ir access, unsigned address_operand) {
  ir address = LLVMGetOperand(access, address_operand);
  LLVMInstructionEraseFromParent(access);
  LLVMInstructionEraseFromParent(address);
}

static void open_outlined_part(outline *o) {
  emitter *e = o->outside->e;
  if (!o->environment) store_environment(o);
  size_t length;
  const char *owner = LLVMGetValueName2(e->function, &length);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), &e->pointer, 1, 0);
  const char *name = arena_printf(e->a, "%s_part", owner);  // LLVM numbers equal names
  ir function = llvm_internal(e->m, name, type, e->clone);
  LLVMBuildCall2(e->b, type, function, &o->environment, 1, "");
  o->emitter = *e;
  o->emitter.b = LLVMCreateBuilderInContext(e->context);
  emit_open(&o->emitter, function);
  o->inside = surroundings_copy(o->outside, &o->emitter);
  take_environment(o);
  o->before_nests = llvm_instruction_count(function);
  o->open = true;
}

// An address that nothing uses goes, and then the addresses from which it was computed, if nothing
// else uses them.
static void erase_unused_address(ir x) {
  if (!x || !is_offset_address(x) || LLVMGetFirstUse(x)) return;
  ir base = LLVMGetOperand(x, 0);
  LLVMInstructionEraseFromParent(x);
  erase_unused_address(base);
}

static void close_part(outline *o) {
  if (!o->open) return;
  for (int i = 0; i < o->listed.count; i++) erase_unused_address(o->addresses[i]);
  for (int i = 0; i < o->count; i++) {
    bool read = LLVMGetFirstUse(o->loads[i]) != NULL;
    o->read[i] |= read;
    if (!read) erase_access(o->loads[i], 0);
  }
  LLVMBuildRetVoid(o->emitter.b);
  LLVMDisposeBuilder(o->emitter.b);
  o->open = false;
}

static bool is_long_function(const outline *o, const lower *at) {
  int count = llvm_instruction_count(at->e->function);
  return count - (o->open ? o->before_nests : 0) > LONG_FUNCTION;
}

static void erase_unread(outline *o) {
  for (int i = 0; i < o->count; i++)
    if (!o->read[i]) erase_access(o->stores[i], 1);
}

void host_region(lower *l, nest_range nests) {
  outline o = {.outside = l, .nests = nests};
  turn_functions turns = {0};
  for (int n = nests.first; n <= nests.last;) {
    if (is_long_function(&o, o.open ? &o.inside : l)) {
      close_part(&o);
      open_outlined_part(&o);
    }
    n += lower_nests_from(o.open ? &o.inside : l, nests, n, &turns);
  }
  close_part(&o);
  erase_unread(&o);
}
