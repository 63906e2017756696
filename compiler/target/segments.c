// Segments: runs of instructions that are executed together, and the PTX instructions that LLVM
// makes of each.
//
//   %x = load float, ptr addrspace(3) %p, !dbg line 17        .loc 1 17 1
//   %y = fmul float %x, %s               !dbg line 17    ->   ld.shared.b32 %r4, [%r2];       segment 16: 1 lds, 1 fp32
//   call void @rec.barrier()             !dbg line 17         mul.f32 ..; bar.sync 0;
//   br label %next                       !dbg line 18
//
// The lines of debug information carry the number of a segment through LLVM's emission.
#include "compiler/target/segments.h"

#include <llvm-c/DebugInfo.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/emit/marks.h"
#include "compiler/target/images.h"

// ---- cutting ----

// Behind a barrier, a mark or a function that may have either, another segment begins.
static bool ends_segment(LLVMValueRef instruction) {
  if (llvm_calls(instruction, "rec.barrier") || llvm_calls(instruction, mark_function)) return true;
  return LLVMIsACallInst(instruction) && !LLVMIsDeclaration(LLVMGetCalledValue(instruction));
}

typedef struct cutter {
  LLVMContextRef context;
  LLVMDIBuilderRef builder;
  LLVMMetadataRef file, type;
  int count;
} cutter;

static void tag(cutter *c, LLVMMetadataRef scope, LLVMValueRef instruction) {
  LLVMInstructionSetDebugLoc(instruction, LLVMDIBuilderCreateDebugLocation(
                                              c->context, (unsigned)c->count, 1, scope, NULL));
}

static void cut_function(cutter *c, LLVMValueRef function) {
  size_t length;
  const char *name = LLVMGetValueName2(function, &length);
  LLVMMetadataRef scope =
      LLVMDIBuilderCreateFunction(c->builder, c->file, name, length, name, length, c->file, 1,
                                  c->type, false, 1, 1, LLVMDIFlagZero, 1);
  LLVMSetSubprogram(function, scope);
  for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block;
       block = LLVMGetNextBasicBlock(block)) {
    bool ended = true;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
      c->count += ended;
      tag(c, scope, i);
      ended = ends_segment(i);
    }
  }
}

static int cut_module(const llvm_module *m) {
  enum { DIRECTIVES_ALONE = 3 };
  static const char name[] = "segments";
  LLVMStripModuleDebugInfo(m->module);
  LLVMValueRef version =
      LLVMConstInt(LLVMInt32TypeInContext(m->context), LLVMDebugMetadataVersion(), 0);
  LLVMAddModuleFlag(m->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version",
                    strlen("Debug Info Version"), LLVMValueAsMetadata(version));
  cutter c = {.context = m->context, .builder = LLVMCreateDIBuilder(m->module)};
  c.file = LLVMDIBuilderCreateFile(c.builder, name, strlen(name), "", 0);
  LLVMDIBuilderCreateCompileUnit(c.builder, LLVMDWARFSourceLanguageC11, c.file, name, strlen(name),
                                 1, "", 0, 0, "", 0, (LLVMDWARFEmissionKind)DIRECTIVES_ALONE, 0, 0,
                                 0, "", 0, "", 0);
  c.type = LLVMDIBuilderCreateSubroutineType(c.builder, c.file, NULL, 0, LLVMDIFlagZero);
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) cut_function(&c, f);
  LLVMDIBuilderFinalize(c.builder);
  LLVMDisposeDIBuilder(c.builder);
  return c.count;
}

int segment_of(LLVMValueRef instruction) { return (int)LLVMGetDebugLocLine(instruction) - 1; }

// ---- PTX ----

typedef struct ptx_row {
  const char *word;  // what the instruction begins with
  simt_class class;
} ptx_row;

// The first row that fits. What has none is arithmetic on integers.
static const ptx_row ptx_rows[] = {
    {"ldmatrix", SIMT_MATRIX_LOAD},
    {"ld.shared", SIMT_SHARED_LOAD},
    {"st.shared", SIMT_SHARED_STORE},
    {"ld.global", SIMT_GLOBAL_LOAD},
    {"st.global", SIMT_GLOBAL_STORE},
    {"ld.param", SIMT_MOVE},
    {"st.param", SIMT_MOVE},
    {"ld", SIMT_GLOBAL_LOAD},
    {"st", SIMT_GLOBAL_STORE},
    {"cp.async.commit", SIMT_SYNC},
    {"cp.async.wait", SIMT_SYNC},
    {"cp.async", SIMT_COPY},
    {"mma", SIMT_MMA},
    {"wgmma.mma", SIMT_WGMMA},
    {"wgmma", SIMT_SYNC},
    {"shfl", SIMT_SHUFFLE},
    {"bar", SIMT_SYNC},
    {"fence", SIMT_SYNC},
    {"membar", SIMT_SYNC},
    {"bra", SIMT_BRANCH},
    {"ret", SIMT_BRANCH},
    {"call", SIMT_BRANCH},
    {"exit", SIMT_BRANCH},
    {"mov", SIMT_MOVE},
    {"ex2", SIMT_EXP},
    {"lg2", SIMT_MUFU},
    {"rcp", SIMT_MUFU},
    {"rsqrt", SIMT_MUFU},
    {"sqrt", SIMT_MUFU},
    {"sin", SIMT_MUFU},
    {"cos", SIMT_MUFU},
    {"tanh", SIMT_MUFU},
    {"cvta", SIMT_MOVE},
    {"cvt", SIMT_CONVERT},
    {"selp.f", SIMT_FP32},
    {"fma", SIMT_FP32},
    {"div.rn.f", SIMT_MUFU},
    {"div.approx", SIMT_MUFU},
    {"div.full", SIMT_MUFU},
};

static simt_class instruction_class(const char *instruction) {
  for (size_t i = 0; i < sizeof ptx_rows / sizeof *ptx_rows; i++)
    if (strncmp(instruction, ptx_rows[i].word, strlen(ptx_rows[i].word)) == 0)
      return ptx_rows[i].class;
  size_t length = strcspn(instruction, " \t;");
  for (size_t i = 0; i + 3 < length; i++)
    if (memcmp(instruction + i, ".f32", 4) == 0 || memcmp(instruction + i, ".f64", 4) == 0)
      return SIMT_FP32;
  return SIMT_INT;
}

// PTX instructions that are several of SASS, with those of the usual path: ptxas 13.0 for sm_90a,
// read by nvdisasm. Without .ftz the argument is scaled before, and the result behind.
static const struct {
  const char *word;
  int issued;
} long_rows[] = {{"ex2.approx.f32", 4}, {"lg2.approx.f32", 4}, {"sqrt.rn.f32", 10},
                 {"rcp.rn.f32", 10},    {"div.rn.f32", 10},    {"div.full.f32", 8},
                 {"div.u32", 18},       {"rem.u32", 18},       {"div.s32", 18},
                 {"rem.s32", 18}};

// Instructions that a scheduler issues.
static int issued_by(const char *instruction, simt_class class) {
  if (class == SIMT_MOVE) return 0;
  for (size_t i = 0; i < sizeof long_rows / sizeof *long_rows; i++)
    if (strncmp(instruction, long_rows[i].word, strlen(long_rows[i].word)) == 0)
      return long_rows[i].issued;
  return 1;
}

static void count_instruction(simt_segment *s, const char *instruction) {
  simt_class class = instruction_class(instruction);
  s->counts[class]++;
  s->issued += issued_by(instruction, class);
}

static bool is_instruction(const char *word) { return *word >= 'a' && *word <= 'z'; }

// Instructions of a line: inline assembly has several, in braces, with declarations and labels.
static void count_ptx_line(simt_segment *s, const char *line, const char *end) {
  while (line < end) {
    while (line < end && strchr(" \t{}", *line)) line++;
    if (line >= end) return;
    const char *stop = memchr(line, ';', (size_t)(end - line));
    if (!stop) return;
    if (line < end && *line == '@') {
      while (line < stop && *line != ' ' && *line != '\t') line++;
      while (line < stop && (*line == ' ' || *line == '\t')) line++;
    }
    const char *colon = memchr(line, ':', (size_t)(stop - line));
    if (colon && colon + 1 < stop && colon[1] == ' ' && colon[-1] != ':') line = colon + 2;
    if (is_instruction(line)) count_instruction(s, line);
    line = stop + 1;
  }
}

// The segment of `.loc 1 17 1`; -1: none. LLVM writes line 0 where it has moved instructions to
// another block.
static int segment_of_line(const char *word, const segment_list *list) {
  int file, number = 0;
  bool known =
      sscanf(word, ".loc %d %d", &file, &number) == 2 && number > 0 && number <= list->count;
  return known ? number - 1 : -1;
}

static bool is_code(const char *word) {
  return is_instruction(word) || *word == '@' || *word == '{';
}

// A line of text: from its first word to its end.
typedef struct text_line {
  const char *word, *end;
} text_line;

static text_line line_at(const char *line) {
  return (text_line){line + strspn(line, " \t"), line + strcspn(line, "\n")};
}

static bool is_label(text_line line) { return line.end > line.word && line.end[-1] == ':'; }

static const char *next_ptx_line(text_line line) { return *line.end ? line.end + 1 : line.end; }

// Does a block end with this line? What follows a branch is another, also without a label.
static bool is_branch(text_line line) {
  const char *word = line.word;
  if (*word == '@') word += strcspn(word, " \t\n"), word += strspn(word, " \t");
  return strncmp(word, "bra", 3) == 0;
}

// The segment that has the longest run of instructions in a block; -1: there is none.
static int segment_of_block(const char *text, const segment_list *list) {
  int now = -1, run = 0, best = -1, most = 0;
  for (text_line line = line_at(text); *line.word && !is_label(line);
       line = line_at(next_ptx_line(line))) {
    if (strncmp(line.word, ".loc", 4) == 0)
      now = segment_of_line(line.word, list), run = 0;
    else if (now >= 0 && is_code(line.word) && ++run > most)
      best = now, most = run;
    if (is_branch(line)) break;
  }
  return best;
}

static void add_segment_counts(simt_segment *to, const simt_segment *from) {
  for (int i = 0; i < SIMT_CLASSES; i++) to->counts[i] += from->counts[i];
  to->issued += from->issued;
}

// Instructions without a segment belong to that of their block; those of a block without one to the
// next block that has one.
static void count_segment_text(const char *text, segment_list *list) {
  simt_segment before = {0};
  int of_block = -1, now = -1;
  for (text_line line = line_at(text); *line.word; line = line_at(next_ptx_line(line))) {
    bool code = !is_label(line) && is_code(line.word);
    if (code) count_ptx_line(now < 0 ? &before : &list->items[now], line.word, line.end);
    if (code && is_branch(line) && is_branch(line_at(next_ptx_line(line)))) continue;
    if (is_label(line) || (code && is_branch(line))) {
      now = of_block = segment_of_block(next_ptx_line(line), list);
      if (now < 0) continue;
      add_segment_counts(&list->items[now], &before);
      before = (simt_segment){0};
    } else if (strncmp(line.word, ".loc", 4) == 0) {
      now = segment_of_line(line.word, list);
      if (now < 0) now = of_block;
    }
  }
}

// The PTX of a module, from a clone without marks.
static const char *unmarked_text(arena *a, const llvm_module *m) {
  llvm_module copy = module_clone(m);
  marks_erase(copy.module);
  const char *text = nvptx_plain_text(a, &copy);
  LLVMDisposeModule(copy.module);
  return text;
}

segment_list segments_cut(arena *a, const llvm_module *m) {
  segment_list list = {.count = cut_module(m)};
  list.items = ARENA_ARRAY(a, simt_segment, list.count);
  for (int i = 0; i < list.count; i++) list.items[i].number = i;
  const char *text = unmarked_text(a, m);
  count_segment_text(text, &list);
  return list;
}
