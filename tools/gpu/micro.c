// Cycles of single instructions and of short sequences: what a figure of gpu_costs.def that says
// `guess` stands for. Each row is a kernel: a loop over so many copies of a body, between two
// readings of the clock.
//
//   {"mma", 1, 1, 16, 1, .., "mma.sync.. {%a#,..}, ..;"}   ->   rec_micro_mma: a warp; each product waits for the one before
//
// In a body `#` is the number of a chain, so that copies of different chains do not wait for each
// other; `@` is the list of the 64 registers of a product by a warpgroup. Registers: %s %t words,
// %a %b %c %g %h numbers, each 0 to 7; %e addresses; %lane, %warp, %base (shared memory, 32 KiB of
// zeros), %data (of the block in global memory), %yes; %x is the number of the thread.
//
// The result is in cycles of a `per`-th of a body, of each warp: the slowest warp's time by the
// copies that it ran. ptxas keeps each body, because every loop begins with the results of the one
// before, and the last ones are stored.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpu/gpu_check.h"

// Where %data begins: words of zeros; a ring of addresses that stays in the second-level cache, or
// that does not fit there.
typedef enum micro_data { ZEROS, NEAR, FAR } micro_data;

typedef struct micro {
  const char *name;
  int warps, chains, copies, per;
  micro_data data;
  bool all;  // a block on each multiprocessor
  const char *setup, *body;
} micro;

#define SELF(stride) "mad.lo.u32 %s0, %lane, " stride ", %base; st.volatile.shared.u32 [%s0], %s0;"
#define OWN_ROWS                                                                                  \
  "mad.lo.u32 %t0, %warp, 512, %base; mad.lo.u32 %s0, %lane, 16, %t0; mov.u32 %s1, %s0; mov.u32 " \
  "%s2, %s0; mov.u32 %s3, %s0;"
#define MMA(sums)                                             \
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " sums \
  ", {%t0,%t1,%t2,%t3}, {%t4,%t5}, " sums ";"
#define WGMMA \
  "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {@}, %e4, %e5, %yes, 1, 1, 0, 0;"
#define WGMMA_2 WGMMA WGMMA
#define WGMMA_8 WGMMA_2 WGMMA_2 WGMMA_2 WGMMA_2
#define WGMMA_BEGIN "wgmma.fence.sync.aligned;"
#define WGMMA_END "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
// Of rows of 16 bytes, 8 of which follow each other; groups of 8 rows lie 256 bytes apart.
#define DESCRIPTORS                                                                                \
  "shr.u32 %t0, %base, 4; cvt.u64.u32 %e4, %t0; or.b64 %e4, %e4, 0x1000080000; add.u64 %e5, %e4, " \
  "512;"
#define FMA(sum, x) "fma.rn.f32 " sum ", " x ", %x, " sum ";"
#define FMA_4(x) FMA("%a#", x) FMA("%b#", x) FMA("%c#", x) FMA("%g#", x)
#define LOAD(to, offset) "ld.volatile.shared.f32 " to ", [%s4+" offset "];"
#define LOAD_4(offset) "ld.volatile.shared.v4.f32 {%h0,%h1,%h2,%h3}, [%s4+" offset "];"
#define FMA_16 FMA_4("%h0") FMA_4("%h1") FMA_4("%h2") FMA_4("%h3")
#define THREAD_ROW \
  "shl.b32 %s4, %lane, 4; mad.lo.u32 %s4, %warp, 512, %s4; add.u32 %s4, %s4, %base;"

static const micro micros[] = {
    {"nothing", 1, 1, 0, 1, ZEROS, false, "", ""},  // only launched
    // ---- single instructions: one warp that waits for each, one with chains beside each other, a
    // full multiprocessor ----
    {"fma", 1, 1, 32, 1, ZEROS, false, "", "fma.rn.f32 %a#, %a#, %x, %x;"},
    {"fma_issue", 1, 8, 32, 1, ZEROS, false, "", "fma.rn.f32 %a#, %a#, %x, %x;"},
    {"fma_block", 16, 4, 32, 1, ZEROS, false, "", "fma.rn.f32 %a#, %a#, %x, %x;"},
    {"ex2", 1, 1, 16, 1, ZEROS, false, "", "ex2.approx.ftz.f32 %a#, %a#;"},
    {"ex2_block", 16, 4, 16, 1, ZEROS, false, "", "ex2.approx.ftz.f32 %a#, %a#;"},
    {"rcp", 1, 1, 16, 1, ZEROS, false, "", "rcp.approx.ftz.f32 %a#, %a#; add.f32 %a#, %a#, %x;"},
    {"rcp_block", 16, 4, 16, 1, ZEROS, false, "",
     "rcp.approx.ftz.f32 %a#, %a#; add.f32 %a#, %a#, %x;"},
    {"rsqrt", 1, 1, 16, 1, ZEROS, false, "", "rsqrt.approx.ftz.f32 %a#, %a#;"},
    {"rsqrt_block", 16, 4, 16, 1, ZEROS, false, "", "rsqrt.approx.ftz.f32 %a#, %a#;"},
    {"shuffle", 1, 1, 16, 1, ZEROS, false, "", "shfl.sync.down.b32 %s#, %s#, 1, 31, -1;"},
    {"shuffle_block", 16, 4, 16, 1, ZEROS, false, "", "shfl.sync.down.b32 %s#, %s#, 1, 31, -1;"},
    {"barrier_4", 4, 1, 16, 1, ZEROS, false, "", "bar.sync 0;"},
    {"barrier_8", 8, 1, 16, 1, ZEROS, false, "", "bar.sync 0;"},
    {"barrier_16", 16, 1, 16, 1, ZEROS, false, "", "bar.sync 0;"},
    {"shared", 1, 1, 16, 1, ZEROS, false, SELF("4"), "ld.volatile.shared.u32 %s#, [%s#];"},
    {"shared_2_ways", 1, 1, 16, 1, ZEROS, false, SELF("8"), "ld.volatile.shared.u32 %s#, [%s#];"},
    {"shared_4_ways", 1, 1, 16, 1, ZEROS, false, SELF("16"), "ld.volatile.shared.u32 %s#, [%s#];"},
    {"shared_8_ways", 1, 1, 16, 1, ZEROS, false, SELF("32"), "ld.volatile.shared.u32 %s#, [%s#];"},
    {"shared_block", 16, 4, 16, 1, ZEROS, false, THREAD_ROW,
     "ld.volatile.shared.u32 %t#, [%s4]; xor.b32 %s#, %s#, %t#;"},
    {"ldmatrix", 1, 1, 16, 1, ZEROS, false, OWN_ROWS,
     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%t0,%t1,%t2,%t3}, [%s#]; add.u32 %s#, %s#, %t0;"},
    {"ldmatrix_block", 8, 4, 16, 1, ZEROS, false, OWN_ROWS,
     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%t0,%t1,%t2,%t3}, [%s#]; add.u32 %s#, %s#, %t0;"},
    {"mma", 1, 1, 16, 1, ZEROS, false, "", MMA("{%a#,%b#,%c#,%g#}")},
    {"mma_1_block", 8, 1, 16, 1, ZEROS, false, "", MMA("{%a#,%b#,%c#,%g#}")},
    {"mma_2_block", 8, 2, 16, 1, ZEROS, false, "", MMA("{%a#,%b#,%c#,%g#}")},
    {"mma_block", 8, 4, 16, 1, ZEROS, false, "", MMA("{%a#,%b#,%c#,%g#}")},
    // ---- global memory ----
    {"global_near", 1, 1, 16, 1, NEAR, false, "mov.b64 %e0, %data;",
     "ld.global.cg.u64 %e#, [%e#];"},
    {"global_far", 1, 1, 16, 1, FAR, false, "mov.b64 %e0, %data;", "ld.global.cg.u64 %e#, [%e#];"},
    {"atomic", 1, 1, 4, 1, ZEROS, false, "setp.eq.u32 %p0, %lane, 0;",
     "@%p0 atom.global.exch.b32 %t0, [%counter], %s#; @%p0 min.u32 %s#, %t0, 1;"},
    {"atomic_all", 1, 1, 4, 1, ZEROS, true, "setp.eq.u32 %p0, %lane, 0;",
     "@%p0 atom.global.exch.b32 %t0, [%counter], %s#; @%p0 min.u32 %s#, %t0, 1;"},
    // A block meets around a summary: a warp's load goes to all threads by shared memory.
    {"combine", 8, 1, 4, 1, NEAR, false, "mov.b64 %e0, %data; mad.lo.u32 %s4, %warp, 8, %base;",
     "ld.global.cg.u64 %e#, [%e#]; st.shared.u64 [%s4], %e#; bar.sync 0; ld.shared.u64 %e#, [%s4]; "
     "bar.sync 0;"},
    // Numbers of a summary with their factors, as all blocks stream them from the cache: four of
    // each lane.
    {"combine_element", 8, 1, 8, 4, ZEROS, true, "mov.u32 %s0, %tid.x; shl.b32 %s0, %s0, 4;",
     "add.u32 %s0, %s0, 4096; and.b32 %s0, %s0, 65535; cvt.u64.u32 %e1, %s0; add.u64 %e1, %e1, "
     "%data; ld.global.cg.v4.f32 {%h0,%h1,%h2,%h3}, [%e1]; ld.global.cg.v4.f32 {%h4,%h5,%h6,%h7}, "
     "[%e1+65536]; fma.rn.f32 %a#, %h0, %h4, %a#; fma.rn.f32 %b#, %h1, %h5, %b#; fma.rn.f32 %c#, "
     "%h2, %h6, %c#; fma.rn.f32 %g#, %h3, %h7, %g#;"},
    {"combine_product", 8, 1, 8, 16, ZEROS, false, THREAD_ROW, LOAD_4("0") FMA_16},
    // ---- sequences, on a full multiprocessor: the turns of a scheduler that gpu_costs.def calls
    // instructions ----
    {"widen", 16, 4, 8, 1, ZEROS, false, "",
     "shl.b32 %t0, %s#, 16; and.b32 %t1, %s#, -65536; mov.b32 %h0, %t0; mov.b32 %h1, %t1; " FMA(
         "%a#", "%h0") FMA("%b#", "%h1") "add.u32 %s#, %s#, %lane;"},
    {"split", 16, 4, 8, 1, ZEROS, false, "",
     "cvt.rna.tf32.f32 %t0, %a#; mov.b32 %h0, %t0; sub.f32 %h0, %a#, %h0; cvt.rna.tf32.f32 %t1, "
     "%h0; xor.b32 %s#, %s#, %t0; xor.b32 %s#, %s#, %t1; add.f32 %a#, %a#, %x;"},
    {"group_step", 16, 4, 8, 1, ZEROS, false, "mov.b64 %e4, %data;", "add.u64 %e#, %e#, %e4;"},
    {"shuffled", 16, 4, 8, 1, ZEROS, false, "",
     "mov.b32 %t0, %a#; shfl.sync.bfly.b32 %t1, %t0, 1, 31, -1; mov.b32 %h0, %t1; add.f32 %a#, "
     "%a#, %h0;"},
    {"meeting", 16, 4, 8, 1, ZEROS, false, "",
     "mov.b32 %t0, %a#; shfl.sync.up.b32 %t1|%p1, %t0, 1, 0, -1; mov.b32 %h0, %t1; selp.f32 %h0, "
     "%h0, %x, %p1; add.f32 %a#, %a#, %h0;"},
    {"level", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     "shl.b32 %s#, %s#, 1; setp.lt.u32 %p1, %s#, %lane; selp.b32 %t0, %s#, %lane, %p1; "
     "bar.warp.sync -1; add.u32 %s#, %t0, %s4;"},
    {"level_step", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     LOAD("%h0", "0") "add.f32 %a#, %a#, %h0; st.volatile.shared.f32 [%s4+4], %a#;"},
    {"level_read", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     "add.u32 %t0, %s#, %lane; clz.b32 %t1, %t0; shl.b32 %t2, %t1, 2; add.u32 %t2, %t2, %base; "
     "shr.u32 %t3, %lane, %t1; ld.volatile.shared.f32 %h0, [%t2]; ld.volatile.shared.f32 %h1, "
     "[%s4]; max.f32 %h0, %h0, %h1; add.f32 %a#, %a#, %h0; add.u32 %s#, %t0, %t3;"},
    {"vector", 16, 4, 8, 2, ZEROS, false, THREAD_ROW,
     "ld.volatile.shared.u32 %t0, [%s4]; shl.b32 %t1, %t0, 16; and.b32 %t2, %t0, -65536; mov.b32 "
     "%h0, %t1; mov.b32 %h1, %t2; " FMA("%a#", "%h0") FMA("%b#", "%h1")},
    {"vector_tile", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     "ld.volatile.shared.v4.u32 {%t0,%t1,%t2,%t3}, [%s4]; " MMA(
         "{%a#,%b#,%c#,%g#}") "add.u32 %s#, %s#, %lane;"},
    {"vector_sum", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     "add.f32 %a#, %a#, %b#; mov.b32 %t0, %a#; shfl.sync.bfly.b32 %t1, %t0, 1, 31, -1; mov.b32 "
     "%h0, %t1; add.f32 %a#, %a#, %h0; mov.b32 %t0, %a#; shfl.sync.bfly.b32 %t1, %t0, 2, 31, -1; "
     "mov.b32 %h0, %t1; add.f32 %a#, %a#, %h0; st.volatile.shared.f32 [%s4], %a#;"},
    {"vector_part", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     LOAD("%h0", "0") "add.f32 %a#, %a#, %h0; add.u32 %s#, %s#, %lane;"},
    {"by_threads", 16, 2, 8, 16, ZEROS, false, THREAD_ROW,
     LOAD_4("0") "ld.volatile.shared.v4.f32 {%h4,%h5,%h6,%h7}, [%s4+8192];" FMA("%a#", "%h4")
         FMA_16},
    {"solve_block", 16, 2, 4, 1, ZEROS, false, THREAD_ROW,
     LOAD_4("0") FMA_16 LOAD("%h4", "0") LOAD("%h5", "4") LOAD("%h6", "8") LOAD("%h7", "12")
         LOAD_4("8192") "add.f32 %a#, %a#, %h4; add.f32 %b#, %b#, %h5; add.f32 %c#, %c#, %h6; "
                        "add.f32 %g#, %g#, %h7;" FMA("%a#", "%h0")},
    {"solve_row", 16, 4, 8, 1, ZEROS, false, THREAD_ROW,
     "add.u32 %s#, %s#, %lane; " LOAD("%h0", "0")
         FMA("%a#", "%h0") "mul.f32 %h1, %a#, %x; st.volatile.shared.f32 [%s4], %h1;"},
    {"solve_terms", 16, 2, 4, 1, ZEROS, false, THREAD_ROW,
     LOAD_4("0") FMA_4("%h0") LOAD_4("8192") FMA_4("%h1") LOAD_4("16384") FMA_4("%h2")
         LOAD_4("24576") FMA_4("%h3") "add.u32 %s#, %s#, %lane;"},
    {"solve_shared", 16, 4, 4, 1, ZEROS, false, "",
     "mov.b32 %t0, %a#; shfl.sync.idx.b32 %t0, %t0, %warp, 31, -1; mov.b32 %h0, %t0; mov.b32 %t1, "
     "%b#; shfl.sync.idx.b32 %t1, %t1, %warp, 31, -1; mov.b32 %h1, %t1; mov.b32 %t2, %c#; "
     "shfl.sync.idx.b32 %t2, %t2, %warp, 31, -1; mov.b32 %h2, %t2; mov.b32 %t3, %g#; "
     "shfl.sync.idx.b32 %t3, %t3, %warp, 31, -1; mov.b32 %h3, %t3; add.f32 %a#, %h0, %x; add.f32 "
     "%b#, %h1, %x; add.f32 %c#, %h2, %x; add.f32 %g#, %h3, %x;"},
    {"solve_own", 16, 2, 4, 1, ZEROS, false, THREAD_ROW,
     LOAD_4("0") FMA("%a#", "%h0") FMA("%b#", "%h1") FMA("%b#", "%a#") LOAD_4("8192")
         FMA("%c#", "%h2") FMA("%c#", "%b#") FMA(
             "%g#",
             "%c#") "st.volatile.shared.f32 [%s4], %a#; st.volatile.shared.f32 [%s4+4], %b#; "
                    "st.volatile.shared.f32 [%s4+8], %c#; st.volatile.shared.f32 [%s4+12], %g#;"},
    // ---- last, for if one of them is wrong, the GPU takes nothing more from this process ----
    {"wgmma", 4, 1, 4, 1, ZEROS, false, DESCRIPTORS, WGMMA_BEGIN WGMMA WGMMA_END},
    {"wgmma_2", 4, 1, 4, 1, ZEROS, false, DESCRIPTORS, WGMMA_BEGIN WGMMA_2 WGMMA_END},
    {"wgmma_block", 4, 1, 4, 8, ZEROS, false, DESCRIPTORS, WGMMA_BEGIN WGMMA_8 WGMMA_END},
};
enum { MICROS = sizeof micros / sizeof *micros };

// ---- the text --------------------------------------------------------------------------------

typedef struct text {
  char *at;
  size_t used, room;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...) {
  enum { LONGEST = 4096 };
  if (t->room - t->used < LONGEST) t->at = realloc(t->at, t->room += 1 << 20);
  if (!t->at) abort();
  va_list arguments;
  va_start(arguments, format);
  t->used += (size_t)vsnprintf(t->at + t->used, t->room - t->used, format, arguments);
  va_end(arguments);
}

static void add_body(text *t, const char *body, int chain) {
  for (const char *c = body; *c; c++) {
    if (*c == '#') add(t, "%d", chain);
    if (*c == '@' && c[1] == '}')
      for (int i = 0; i < 64; i++) add(t, "%s%%w%d", i ? "," : "", i);
    else if (*c != '#')
      add(t, "%c", *c);
  }
  add(t, "\n");
}

static const char registers[] = "abcgh";

static void add_registers(text *t) {
  add(t,
      "  .reg .b32 %%lane, %%warp, %%base, %%left, %%begin, %%end, %%sum, %%s<8>, %%t<8>;\n"
      "  .reg .b64 %%out, %%data, %%rounds, %%counter, %%at, %%e<8>;\n  .reg .pred %%yes, %%more, "
      "%%p<2>;\n"
      "  .reg .f32 %%x, %%w<64>, %%a<8>, %%b<8>, %%c<8>, %%g<8>, %%h<8>;\n"
      "  .shared .align 1024 .b8 shared[32768];\n");
}

// Before a row's own set-up registers hold zeros from memory that lanes read each for themselves:
// ptxas knows none of them.
static void add_start(text *t) {
  add(t,
      "  ld.param.b64 %%out, [parameter];\n  ld.param.b64 %%data, [parameter+8];\n  ld.param.b64 "
      "%%rounds, [parameter+16];\n"
      "  cvta.to.global.u64 %%out, %%out;\n  cvta.to.global.u64 %%data, %%data;\n  add.u64 "
      "%%counter, %%out, 65536;\n"
      "  mov.u32 %%lane, %%tid.x;\n  shr.u32 %%warp, %%lane, 5;\n  mov.u32 %%base, shared;\n"
      "  setp.eq.u32 %%yes, 0, 0;\n  cvt.rn.f32.u32 %%x, %%lane;\n"
      "  mov.u32 %%s0, %%lane;\nclear:\n  shl.b32 %%s1, %%s0, 2;\n  add.u32 %%s1, %%s1, %%base;\n  "
      "st.shared.u32 [%%s1], 0;\n"
      "  mov.u32 %%s2, %%ntid.x;\n  add.u32 %%s0, %%s0, %%s2;\n  setp.lt.u32 %%more, %%s0, 8192;\n "
      " @%%more bra clear;\n"
      "  and.b32 %%lane, %%lane, 31;\n  mov.u32 %%s0, %%ctaid.x;\n  mad.lo.u32 %%s0, %%s0, 16, "
      "%%warp;\n"
      "  mul.wide.u32 %%at, %%s0, 4;\n  add.u64 %%at, %%at, %%out;\n  bar.sync 0;\n");
  add(t, "  mul.wide.u32 %%e0, %%lane, 1024;\n  add.u64 %%e0, %%e0, %%data;\n");
  for (int i = 7; i >= 0; i--) {
    add(t, "  ld.global.u32 %%s%d, [%%e0+%d];\n  ld.global.u32 %%t%d, [%%e0+%d];\n", i, 64 * i, i,
        64 * i + 4);
    for (int k = 0; registers[k]; k++)
      add(t, "  ld.global.f32 %%%c%d, [%%e0+%d];\n", registers[k], i, 64 * i + 8 + 4 * k);
    add(t, "  ld.global.u64 %%e%d, [%%e0+%d];\n", i, 64 * i + 32);
  }
  for (int i = 0; i < 64; i++) add(t, "  mov.f32 %%w%d, %%x;\n", i);
}

// Stores all registers, as one word of the warp: what made them is needed, and has ended.
static void add_store(text *t) {
  add(t, "  mov.u32 %%sum, 0;\n");
  for (int i = 0; i < 8; i++) {
    add(t, "  xor.b32 %%sum, %%sum, %%s%d;\n  xor.b32 %%sum, %%sum, %%t%d;\n", i, i);
    add(t, "  cvt.u32.u64 %%end, %%e%d;\n  xor.b32 %%sum, %%sum, %%end;\n", i);
    for (const char *r = registers; *r; r++)
      add(t, "  mov.b32 %%end, %%%c%d;\n  xor.b32 %%sum, %%sum, %%end;\n", *r, i);
  }
  for (int i = 0; i < 64; i++)
    add(t, "  mov.b32 %%end, %%w%d;\n  xor.b32 %%sum, %%sum, %%end;\n", i);
  add(t, "  st.volatile.global.u32 [%%at+131072], %%sum;\n");
}

static void add_micro(text *t, const micro *m) {
  add(t, ".visible .entry rec_micro_%s(.param .align 8 .b8 parameter[24]) {\n", m->name);
  add_registers(t);
  add_start(t);
  if (m->all)
    add(t,
        "  mov.u32 %%t0, %%ctaid.x;\n  mul.wide.u32 %%e0, %%t0, 131072;\n  add.u64 %%data, %%data, "
        "%%e0;\n");
  add_body(t, m->setup, 0);
  add_store(t);
  add(t, "  cvt.u32.u64 %%left, %%rounds;\n  bar.sync 0;\n  mov.u32 %%begin, %%clock;\nnext:\n");
  for (int i = 0; i < m->copies; i++) add_body(t, m->body, i % m->chains);
  add(t,
      "  add.s32 %%left, %%left, -1;\n  setp.gt.s32 %%more, %%left, 0;\n  @%%more bra next;\n  "
      "mov.u32 %%end, %%clock;\n"
      "  sub.u32 %%end, %%end, %%begin;\n  st.global.u32 [%%at], %%end;\n");
  add_store(t);
  add(t, "  ret;\n}\n\n");
}

char *micro_ptx(void) {
  text t = {0};
  add(&t, ".version 8.0\n.target sm_90a\n.address_size 64\n\n");
  for (int i = 0; i < MICROS; i++) add_micro(&t, &micros[i]);
  return t.at;
}

// ---- runs ------------------------------------------------------------------------------------

// Memory of the kernels: results, then zeros, then the two rings. Clearing the zeros drives all
// else out of the cache.
enum {
  OUT = 1 << 18,
  CLEARED = 96 << 20,
  NODES = 4096,
  NEAR_STEP = 256,
  FAR_STEP = 32768 + 128,
  ROUNDS = 64,
  LAUNCHES = 5
};
static const size_t near_at = OUT + CLEARED, far_at = OUT + CLEARED + NODES * NEAR_STEP,
                    all_bytes = OUT + CLEARED + (size_t)NODES * (NEAR_STEP + FAR_STEP);

// Node i holds the address of node i + 1021 modulo their number, which visits all of them.
static bool make_ring(const gpu *g, cuda_pointer at, size_t step) {
  bool good = true;
  for (size_t i = 0; i < NODES && good; i++) {
    cuda_pointer next = at + (i + 1021) % NODES * step;
    good = gpu_good(g, g->driver->upload(at + i * step, &next, sizeof next), "cuMemcpyHtoD");
  }
  return good;
}

typedef struct micro_run {
  const gpu *g;
  cuda_function function;
  const micro *row;
  cuda_pointer memory;
  int64_t rounds;
  unsigned blocks;
} micro_run;

static bool launch_micro(void *data) {
  const micro_run *r = data;
  size_t at = r->row->data == NEAR ? near_at : r->row->data == FAR ? far_at : OUT;
  int64_t parameter[] = {(int64_t)r->memory, (int64_t)(r->memory + at), r->rounds};
  void *parameters[] = {parameter};
  return gpu_good(r->g,
                  r->g->driver->launch(r->function, r->blocks, 1, 1, 32 * (unsigned)r->row->warps,
                                       1, 1, 0, NULL, parameters, NULL),
                  "cuLaunchKernel");
}

// Of the slowest warp, for the whole loop; 0 after a message.
static double cycles_of(const micro_run *r) {
  static uint32_t found[16 * 256];
  const cuda_driver *d = r->g->driver;
  uint32_t most = 0;
  bool good = gpu_good(r->g, d->clear(r->memory, 0, OUT, NULL), "cuMemsetD8Async") &&
              (r->row->data != FAR ||
               gpu_good(r->g, d->clear(r->memory + OUT, 0, CLEARED, NULL), "cuMemsetD8Async")) &&
              launch_micro((void *)r) &&
              gpu_good(r->g, d->context_synchronize(), "cuCtxSynchronize") &&
              gpu_good(r->g, d->download(found, r->memory, sizeof found), "cuMemcpyDtoH");
  for (unsigned b = 0; b < r->blocks && good; b++)
    for (int w = 0; w < r->row->warps; w++)
      if (found[16 * b + (unsigned)w] > most) most = found[16 * b + (unsigned)w];
  return most;
}

// The first launch, which fills caches, is not counted.
static double median_cycles(const micro_run *r) {
  double cycles[LAUNCHES];
  for (int i = -1; i < LAUNCHES; i++) {
    double one = cycles_of(r);
    if (one <= 0) return 0;
    if (i >= 0) cycles[i] = one;
  }
  return median_of(cycles, LAUNCHES);
}

static bool run_of(const gpu *g, const micro *row, cuda_module module, cuda_pointer memory,
                   micro_run *r) {
  char name[64];
  unsigned all = (unsigned)(g->multiprocessors < 256 ? g->multiprocessors : 256);
  *r = (micro_run){
      .g = g, .row = row, .memory = memory, .rounds = ROUNDS, .blocks = row->all ? all : 1};
  snprintf(name, sizeof name, "rec_micro_%s", row->name);
  return gpu_function(g, module, name, &r->function);
}

static int print_micro(const char *name, const char *unit, double value) {
  if (value > 0)
    printf("{\"kind\": \"micro\", \"name\": \"%s\", \"%s\": %.4g}\n", name, unit, value);
  else
    printf("{\"kind\": \"micro\", \"name\": \"%s\", \"%s\": null}\n", name, unit);
  return value <= 0;
}

static const micro *micro_named(const char *name) {
  for (int i = 0; i < MICROS; i++)
    if (strcmp(micros[i].name, name) == 0) return &micros[i];
  abort();
}

// The clock while all tensor cores multiply, by the cycles of a launch and its time; then launches
// of a kernel that does nothing.
static int measure_by_time(const gpu *g, cuda_module module, cuda_pointer memory) {
  enum { LONG = 50000 };
  micro_run busy, idle;
  double cycles = 0, seconds = 0, launch = 0;
  if (run_of(g, micro_named("mma_block"), module, memory, &busy)) {
    busy.rounds = LONG;
    busy.blocks = (unsigned)g->multiprocessors;
    seconds = seconds_of(g, launch_micro, &busy);
    busy.blocks = busy.blocks < 256 ? busy.blocks : 256;
    cycles = cycles_of(&busy);
  }
  if (run_of(g, micro_named("nothing"), module, memory, &idle)) {
    idle.rounds = 1;
    launch = seconds_of(g, launch_micro, &idle);
  }
  return print_micro("clock", "megahertz", seconds > 0 ? 1e-6 * cycles / seconds : 0) +
         print_micro("launch", "microseconds", 1e6 * launch);
}

int measure_micros(const gpu *g) {
  cuda_module module;
  cuda_pointer memory = 0;
  int failed = 0;
  if (g->capability != 90) {
    printf(
        "{\"kind\": \"absent\", \"part\": \"micro\", \"what\": \"expected a GPU of compute "
        "capability 9.0, found %d.%d\"}\n",
        g->capability / 10, g->capability % 10);
    return 0;
  }
  if (!gpu_module(g, "micro", &module) ||
      !gpu_good(g, g->driver->allocate(&memory, all_bytes), "cuMemAlloc"))
    return 1;
  bool good = gpu_good(g, g->driver->clear(memory, 0, all_bytes, NULL), "cuMemsetD8Async") &&
              make_ring(g, memory + near_at, NEAR_STEP) && make_ring(g, memory + far_at, FAR_STEP);
  for (int i = 0; i < MICROS && good; i++) {
    micro_run r;
    const micro *m = &micros[i];
    if (!m->copies) continue;
    double cycles = run_of(g, m, module, memory, &r) ? median_cycles(&r) : 0;
    failed += print_micro(m->name, "cycles", cycles / (ROUNDS * m->copies * m->per));
  }
  if (good) failed += measure_by_time(g, module, memory);
  g->driver->release(memory);
  return failed + !good;
}
