// Turns of a fold become calls of one function, so that a fold of 30 turns takes the code of one.
//
//   8 nests, 8 nests, 8 nests, ..      ->      call turn(a, b, x); call turn(b, c, y); call turn(c, d, z); ..
//
// Each turn is lowered into a function of its own. Its parameters are the values of the
// surroundings that its code reads, in the order of the reads. If the text equals that of an
// earlier turn, the function is dropped and the earlier one is called. The turns are thus the same
// whatever lowering does. Where a target hands over values, a turn has variables of its own: the
// function gets the values of those that it reads, and returns those that it sets.
#include "compiler/lower/repeats.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "compiler/emit/lines.h"
#include "compiler/lower/nest_target.h"
#include "compiler/plan/repeats.h"

typedef struct repeat_calls {
  lower *outside;
  bool *varies;
  turn_functions *made;
} repeat_calls;

// Positions in the lists of a turn, in the order of their uses.
typedef VEC(int) positions;

// A turn while it is lowered: what it reads of its surroundings is loaded from nowhere, until the
// parameters are known.
typedef struct open_turn {
  emitter emitter;
  lower inside;
  const char *name;
  ir function, nowhere;
  ir_list outside, own;  // the surroundings, and the loads in place of them
  ir *loads;
  // the turn's own variables, where they are handed over as values; others: NULL
  ir *slots;
  positions read, results;  // those variables that the turn reads, and those that it sets
  positions parameters;
} open_turn;

static bool has_position(const positions *x, int position) {
  for (int i = 0; i < x->count; i++)
    if (x->items[i] == position) return true;
  return false;
}

static bool is_in_variables(const ir *x, const ir *first, int count) {
  return x >= first && x < first + count;
}

static bool is_variable(const open_turn *t, const ir *x) {
  return is_in_variables(x, t->inside.variables, t->inside.p->program->values.count);
}

static void open(repeat_calls *r, open_turn *t, nest_range nests) {
  lower *l = r->outside;
  emitter *e = l->e;
  size_t length;
  const char *owner = LLVMGetValueName2(e->function, &length);
  t->name = arena_printf(e->a, "%s_turn", owner);  // LLVM numbers equal names
  t->function = llvm_internal(
      e->m, t->name, LLVMFunctionType(LLVMVoidTypeInContext(e->context), NULL, 0, 0), e->clone);
  t->emitter = *e;
  t->emitter.a = arena_new();  // hundreds of turns may follow
  t->emitter.b = LLVMCreateBuilderInContext(e->context);
  emit_open(&t->emitter, t->function);
  t->inside = surroundings_copy(l, &t->emitter);
  t->outside = surroundings_of_turn(t->emitter.a, l, nests, r->varies);
  t->own = surroundings_of_turn(t->emitter.a, &t->inside, nests, r->varies);
  t->nowhere = LLVMGetPoison(e->pointer);
  t->loads = ARENA_ARRAY(t->emitter.a, ir, t->own.count);
  t->slots = ARENA_ARRAY(t->emitter.a, ir, t->own.count);
  for (int i = 0; i < t->own.count; i++) {
    bool handed = l->target->hands_values && is_variable(t, t->own.items[i]);
    LLVMTypeRef type =
        handed ? LLVMGetAllocatedType(*t->outside.items[i]) : LLVMTypeOf(*t->own.items[i]);
    t->loads[i] = LLVMBuildLoad2(t->emitter.b, type, t->nowhere, "");
    if (handed) t->slots[i] = stack_slot(&t->emitter, type, "");
    *t->own.items[i] = handed ? t->slots[i] : t->loads[i];
  }
}

static int load_position(const open_turn *t, ir load) {
  int at = 0;
  while (t->loads[at] != load) at++;
  return at;
}

static void note_load_use(open_turn *t, ir operand) {
  if (!LLVMIsALoadInst(operand) || LLVMGetOperand(operand, 0) != t->nowhere) return;
  int position = load_position(t, operand);
  if (!has_position(&t->parameters, position)) vec_push(t->emitter.a, &t->parameters, position);
}

static void each_instruction(open_turn *t, void (*body)(open_turn *t, ir instruction)) {
  llvm_each_instruction(i, t->function) body(t, i);
}

static void note_operand_uses(open_turn *t, ir instruction) {
  int operands = LLVMGetNumOperands(instruction);
  for (int k = 0; k < operands; k++) note_load_use(t, LLVMGetOperand(instruction, (unsigned)k));
}

// ---- variables that are handed over as values ----

// Notes a variable that the instruction reads or sets. Slots are put in the order of their uses, so
// that equal turns have equal texts.
static void note_variable(open_turn *t, ir instruction) {
  bool stores = LLVMIsAStoreInst(instruction);
  if (!stores && !LLVMIsALoadInst(instruction)) return;
  ir slot = LLVMGetOperand(instruction, stores);
  int i = 0;
  while (i < t->own.count && t->slots[i] != slot) i++;
  if (i == t->own.count) return;
  bool used = has_position(&t->read, i) || has_position(&t->results, i);
  if (!used) {
    LLVMInstructionRemoveFromParent(slot);
    LLVMPositionBuilderBefore(t->emitter.b, t->loads[0]);
    LLVMInsertIntoBuilder(t->emitter.b, slot);
  }
  positions *uses = stores ? &t->results : &t->read;
  if (!has_position(uses, i)) vec_push(t->emitter.a, uses, i);
}

// Variables that the turn reads begin with their values outside.
static void set_variables(open_turn *t) {
  if (t->read.count)
    LLVMPositionBuilderBefore(t->emitter.b, LLVMGetNextInstruction(t->loads[t->own.count - 1]));
  for (int i = 0; i < t->read.count; i++) {
    int at = t->read.items[i];
    LLVMBuildStore(t->emitter.b, t->loads[at], t->slots[at]);
  }
}

// What the turn returns: nothing, the variable that it sets, or all of them.
static LLVMTypeRef result_type(const open_turn *t) {
  const emitter *e = &t->emitter;
  int count = t->results.count;
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, count + 1);
  for (int i = 0; i < count; i++) types[i] = LLVMTypeOf(t->loads[t->results.items[i]]);
  if (!count) return LLVMVoidTypeInContext(e->context);
  return count == 1 ? types[0] : LLVMStructTypeInContext(e->context, types, (unsigned)count, 0);
}

static void build_return(open_turn *t) {
  LLVMBuilderRef b = t->emitter.b;
  LLVMTypeRef type = result_type(t);
  ir all = t->results.count > 1 ? LLVMGetPoison(type) : NULL;
  for (int i = 0; i < t->results.count; i++) {
    int at = t->results.items[i];
    ir x = LLVMBuildLoad2(b, LLVMTypeOf(t->loads[at]), t->slots[at], "");
    all = all ? LLVMBuildInsertValue(b, all, x, (unsigned)i, "") : x;
  }
  all ? LLVMBuildRet(b, all) : LLVMBuildRetVoid(b);
}

static void hand_over(open_turn *t) {
  LLVMBasicBlockRef end = LLVMGetInsertBlock(t->emitter.b);
  each_instruction(t, note_variable);
  set_variables(t);
  LLVMPositionBuilderAtEnd(t->emitter.b, end);
  build_return(t);
  for (int i = 0; i < t->own.count; i++)
    if (t->slots[i] && !LLVMGetFirstUse(t->slots[i])) LLVMInstructionEraseFromParent(t->slots[i]);
}

// ---- the function ----

static void move_blocks(ir from, ir to) {
  LLVMBasicBlockRef block;
  while ((block = LLVMGetFirstBasicBlock(from))) {
    LLVMRemoveBasicBlockFromParent(block);
    LLVMAppendExistingBasicBlock(to, block);
  }
  LLVMMetadataRef program = LLVMGetSubprogram(from);
  if (program) LLVMSetSubprogram(to, program);
  LLVMDeleteFunction(from);
}

// The buffer whose address stands there, or NULL.
static const plan_buffer *buffer_of(const open_turn *t, const ir *x) {
  const plan *p = t->inside.p;
  return is_in_variables(x, t->inside.buffers, p->buffers.count)
             ? &p->buffers.items[x - t->inside.buffers]
             : NULL;
}

// Scratch of one buffer is that of another when the first is dead, which may be within one turn.
static bool overlap(const plan_buffer *x, const plan_buffer *y) {
  if (x->offset < 0 || y->offset < 0 || x->numbers.sizes != y->numbers.sizes) return false;
  return x->offset < y->offset + y->numbers.factor && y->offset < x->offset + x->numbers.factor;
}

// Whether nothing else that the turn has is in this memory. A variable's is its own.
static bool is_disjoint_memory(const open_turn *t, const ir *x) {
  if (!t->inside.target->tells_apart) return false;
  if (is_variable(t, x)) return true;
  const plan_buffer *own = buffer_of(t, x);
  for (int i = 0; own && i < t->parameters.count; i++) {
    const plan_buffer *other = buffer_of(t, t->own.items[t->parameters.items[i]]);
    if (other && other != own && overlap(own, other)) return false;
  }
  return own != NULL;
}

// What one nest has stored, the next one need not load again.
static void mark_nests_apart(const open_turn *t, ir function) {
  unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);
  for (int i = 0; i < t->parameters.count; i++) {
    if (!is_disjoint_memory(t, t->own.items[t->parameters.items[i]])) continue;
    LLVMAddAttributeAtIndex(function, (unsigned)i + 1,
                            LLVMCreateEnumAttribute(t->emitter.context, noalias, 0));
  }
}

// The same blocks in a function that has parameters.
static turn_function with_parameters(open_turn *t) {
  emitter *e = &t->emitter;
  int count = t->parameters.count;
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, count + 1);
  for (int i = 0; i < count; i++) types[i] = LLVMTypeOf(t->loads[t->parameters.items[i]]);
  turn_function f = {.type = LLVMFunctionType(result_type(t), types, (unsigned)count, 0)};
  f.function = llvm_internal(e->m, t->name, f.type, e->clone);
  mark_nests_apart(t, f.function);
  move_blocks(t->function, f.function);
  for (int i = 0; i < count; i++)
    LLVMReplaceAllUsesWith(t->loads[t->parameters.items[i]], LLVMGetParam(f.function, (unsigned)i));
  for (int i = 0; i < t->own.count; i++) LLVMInstructionEraseFromParent(t->loads[i]);
  return f;
}

// Where a number of metadata begins that each function has of its own: of lines, and of how loops
// are unrolled.
static size_t metadata_at(const char *text) {
  static const char *const kinds[] = {"!dbg !", "!llvm.loop !"};
  for (int i = 0; i < 2; i++)
    if (strncmp(text, kinds[i], strlen(kinds[i])) == 0) return strlen(kinds[i]);
  return 0;
}

// Without the name and such metadata: equal texts compute the same.
static const char *function_text(arena *a, ir function) {
  char *printed = LLVMPrintValueToString(function);
  char *text = arena_strdup(a, strchr(printed, '(')), *to = text;
  LLVMDisposeMessage(printed);
  for (const char *from = text; *from;) {
    size_t kind = *from == '!' ? metadata_at(from) : 0;
    if (kind) from += kind + strspn(from + kind, "0123456789");
    if (!kind) *to++ = *from++;
  }
  *to = 0;
  return text;
}

static turn_function close(repeat_calls *r, open_turn *t) {
  hand_over(t);
  LLVMDisposeBuilder(t->emitter.b);
  each_instruction(t, note_operand_uses);
  turn_function f = with_parameters(t);
  f.text = function_text(t->emitter.a, f.function);
  for (int i = 0; i < r->made->count; i++) {
    if (strcmp(r->made->items[i].text, f.text)) continue;
    LLVMDeleteFunction(f.function);
    return r->made->items[i];
  }
  f.text = arena_strdup(r->outside->e->a, f.text);
  vec_push(r->outside->e->a, r->made, f);
  return f;
}

static void call_turn(emitter *e, const open_turn *t, turn_function f) {
  ir *args = ARENA_ARRAY(t->emitter.a, ir, t->parameters.count + 1);
  for (int i = 0; i < t->parameters.count; i++) {
    int at = t->parameters.items[i];
    args[i] = *t->outside.items[at];
    if (t->slots[at]) args[i] = LLVMBuildLoad2(e->b, LLVMGetAllocatedType(args[i]), args[i], "");
  }
  ir made = LLVMBuildCall2(e->b, f.type, f.function, args, (unsigned)t->parameters.count, "");
  for (int i = 0; i < t->results.count; i++) {
    ir x = t->results.count > 1 ? LLVMBuildExtractValue(e->b, made, (unsigned)i, "") : made;
    LLVMBuildStore(e->b, x, *t->outside.items[t->results.items[i]]);
  }
}

static void lower_turn(repeat_calls *r, nest_range nests) {
  emitter *e = r->outside->e;
  open_turn t = {0};
  open(r, &t, nests);
  for (int n = nests.first; n <= nests.last; n++)
    lower_nest(&t.inside, &t.inside.p->nests.items[n]);
  call_turn(e, &t, close(r, &t));
  arena_free(t.emitter.a);
}

// What the turns differ in besides memory, in the order of the program's values.
static ir *varying_entries(lower *l, const bool *varies) {
  emitter *e = l->e;
  const tile_program *program = l->p->program;
  ir *entries = ARENA_ARRAY(e->a, ir, program->values.count);
  for (tile_id id = 0; id < program->values.count; id++) {
    const tile_value *v = tile_at(program, id);
    if (!varies[id]) continue;
    entries[id] = v->op == TILE_NUMBER ? real_number(e, v->number, 0) : integer(e, tile_entry(v));
  }
  return entries;
}

// A state or a factor of a product that the nest has in registers.
static bool holds_registers(const plan *p, int n) {
  const plan_nest *nest = &p->nests.items[n];
  if (nest->dot.held_b) return true;
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].accumulator == n) return true;
  return false;
}

// Threads that hold arrays in registers cannot hand them over.
static bool may_call(const lower *l, int first, int count) {
  if (l->m->kind == MAP_THREADS) return false;
  for (int n = first; n < first + count; n++)
    if (holds_registers(l->p, n)) return false;
  return true;
}

static void lower_turns(repeat_calls *r, nest_range nests, int size) {
  lower *l = r->outside;
  l->entries = varying_entries(l, r->varies);
  for (int n = nests.first; n <= nests.last; n += size)
    lower_turn(r, (nest_range){nests.region, n, n + size - 1});
  l->entries = NULL;
}

// Nests that come often, in whatever order, where the work of each is such that a call does not
// count.
static int lower_frequent(repeat_calls *r, nest_range nests, int at) {
  const plan *p = r->outside->p;
  if (!r->outside->target->calls_frequent || !plan_is_frequent(p, nests.first, nests.last, at))
    return 0;
  if (!may_call(r->outside, at, 1)) return 0;
  int before = plan_alike_before(p, nests.first, at), behind = plan_alike_behind(p, at, nests.last);
  if (before >= 0) plan_mark_varying(p, before, at, 1, r->varies);
  if (behind >= 0) plan_mark_varying(p, at, behind, 1, r->varies);
  lower_turns(r, (nest_range){nests.region, at, at}, 1);
  return 1;
}

static int lower_repeat(lower *l, nest_range nests, int at, turn_functions *made) {
  repeat_calls r = {.outside = l, .made = made};
  r.varies = ARENA_ARRAY(l->e->a, bool, l->p->program->values.count);
  plan_repeat repeat = plan_repeat_at(l->p, at, nests.last + 1);
  int count = repeat.nests * repeat.turns;
  if (!count || !may_call(l, at, count)) return lower_frequent(&r, nests, at);
  for (int n = at; n + repeat.nests < at + count; n += repeat.nests)
    plan_mark_varying(l->p, n, n + repeat.nests, repeat.nests, r.varies);
  lower_turns(&r, (nest_range){nests.region, at, at + count - 1}, repeat.nests);
  return count;
}

int lower_nests_from(lower *l, nest_range nests, int at, turn_functions *made) {
  int repeated = lower_repeat(l, nests, at, made);
  if (repeated) return repeated;
  lower_nest(l, &l->p->nests.items[at]);
  return 1;
}
