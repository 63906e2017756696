// Counted loops, groups of them, and branches, in LLVM's blocks.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "compiler/emit/emit.h"

static LLVMBasicBlockRef new_block(emitter *e, const char *name) {
  return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

emit_loop loop_begin(emitter *e, ir begin, ir end, int64_t step, const char *name) {
  return loop_begin_by(e, begin, end, integer(e, step), name);
}

// GPU: a loop whose end is known counts in 32 bits.
static void loop_width(emitter *e, ir *begin, ir *end, ir *step) {
  int64_t n;
  if (e->gpu && int_known(*end, &n) && n < INT32_MAX) *end = int_as(e, *end, e->i32);
  if (LLVMTypeOf(*begin) != LLVMTypeOf(*end)) {
    bool narrow = LLVMTypeOf(*end) == e->i32 && int_known(*begin, &n);
    LLVMTypeRef type = narrow ? e->i32 : e->i64;
    *begin = LLVMTypeOf(*begin) == type ? *begin : int_as(e, *begin, type);
    *end = LLVMTypeOf(*end) == type ? *end : int_as(e, *end, type);
  }
  if (LLVMTypeOf(*step) != LLVMTypeOf(*begin)) *step = int_as(e, *step, LLVMTypeOf(*begin));
}

// The condition stands at the end of the loop, and before it unless it is known to hold. LLVM then
// need not rotate the loop, which takes a time that grows with the square of the number of loops.
emit_loop loop_begin_by(emitter *e, ir begin, ir end, ir step, const char *name) {
  loop_width(e, &begin, &end, &step);
  emit_loop loop = {.step = step, .end = end};
  int64_t last, stride;
  loop.once = int_known(end, &last) && int_known(step, &stride) && last <= stride;
  int64_t first;
  bool sure = int_known(begin, &first) && int_known(end, &last) && first < last;
  LLVMBasicBlockRef before = sure ? LLVMGetInsertBlock(e->b) : new_block(e, "");
  loop.body = new_block(e, name);
  loop.exit = new_block(e, "");
  if (!sure) {
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, begin, end, ""), before, loop.exit);
    LLVMPositionBuilderAtEnd(e->b, before);
  }
  LLVMBuildBr(e->b, loop.body);
  LLVMPositionBuilderAtEnd(e->b, loop.body);
  loop.index = LLVMBuildPhi(e->b, LLVMTypeOf(begin), name);
  LLVMAddIncoming(loop.index, &begin, &before, 1);
  return loop;
}

static ir close_loop(emitter *e, emit_loop *loop) {
  ir next = LLVMBuildNSWAdd(e->b, loop->index, loop->step, "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
  LLVMAddIncoming(loop->index, &next, &latch, 1);
  ir more = LLVMBuildICmp(e->b, LLVMIntSLT, next, loop->end, "");
  ir back = LLVMBuildCondBr(e->b, more, loop->body, loop->exit);
  LLVMPositionBuilderAtEnd(e->b, loop->exit);
  return back;
}

static const char keep_rolled[] = "llvm.loop.unroll.disable";
const char gpu_accumulators_loop[] = "rec.loop.kept";

// !0 = distinct !{!0, !{word}, ..}: a node that names itself is made through a temporary one.
static void advise_loop(emitter *e, ir back, const char *const *words, int count) {
  LLVMMetadataRef parts[3] = {LLVMTemporaryMDNode(e->context, NULL, 0)};
  for (int i = 0; i < count; i++) {
    LLVMMetadataRef text = LLVMMDStringInContext2(e->context, words[i], strlen(words[i]));
    parts[1 + i] = LLVMMDNodeInContext2(e->context, &text, 1);
  }
  LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, parts, (size_t)count + 1);
  LLVMMetadataReplaceAllUsesWith(parts[0], node);
  unsigned kind = LLVMGetMDKindIDInContext(e->context, "llvm.loop", 9);
  LLVMSetMetadata(back, kind, LLVMMetadataAsValue(e->context, node));
}

// PTX keeps its loops: the assembler unrolls those that gain by it.
void loop_end(emitter *e, emit_loop *loop) {
  bool once = loop->once;
  ir back = close_loop(e, loop);
  if (e->gpu && !once) advise_loop(e, back, (const char *[]){keep_rolled}, 1);
}

void loop_end_unrolled(emitter *e, emit_loop *loop) {
  advise_loop(e, close_loop(e, loop), (const char *[]){"llvm.loop.unroll.full"}, 1);
}

void loop_end_kept(emitter *e, emit_loop *loop) {
  advise_loop(e, close_loop(e, loop), (const char *[]){keep_rolled, gpu_accumulators_loop}, 2);
}

emit_groups groups_begin(emitter *e, ir begin, ir end, int64_t step, int64_t turns,
                         group_names names) {
  emit_groups g = {.groups = loop_begin(e, begin, end, turns * step, names.group)};
  g.turns = loop_begin(e, integer(e, 0), integer(e, turns * step), step, names.turn);
  g.index = int_add(e, g.groups.index, g.turns.index);
  return g;
}

void groups_end(emitter *e, emit_groups *g) {
  loop_end_unrolled(e, &g->turns);
  loop_end_kept(e, &g->groups);
}

emit_branch branch_begin(emitter *e, ir condition) {
  emit_branch branch = {.other = new_block(e, ""), .join = new_block(e, "")};
  LLVMBasicBlockRef taken = new_block(e, "");
  LLVMBuildCondBr(e->b, condition, taken, branch.other);
  LLVMPositionBuilderAtEnd(e->b, taken);
  return branch;
}

void branch_else(emitter *e, emit_branch *branch) {
  LLVMBuildBr(e->b, branch->join);
  LLVMPositionBuilderAtEnd(e->b, branch->other);
  branch->has_else = true;
}

void branch_end(emitter *e, emit_branch *branch) {
  if (!branch->has_else) branch_else(e, branch);
  LLVMBuildBr(e->b, branch->join);
  LLVMPositionBuilderAtEnd(e->b, branch->join);
}
