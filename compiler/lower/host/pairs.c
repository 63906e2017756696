// Operands of products as pairs of bf16, rounded: each word has two numbers of the depth.
//
//   a [i, k]      ->   [i, k / 2]      k is contiguous: numbers become words in their order
//   b [k, j]      ->   [k / 2, j]      j is contiguous: two rows are interleaved
//
// An instruction adds both products of each word to a number of f32. GPUs round the same operands
// for tensor cores (plan/gpu/tensor_cores.c).
#include "compiler/lower/host/nests.h"

static LLVMTypeRef bfloats(emitter *e, int lanes) {
  return LLVMVectorType(LLVMBFloatTypeInContext(e->context), (unsigned)lanes);
}

// Numbers of a row, rounded.
static ir rounded(emitter *e, const pairs_of *s, ir row, ir k, int lanes) {
  ir offset = int_add(e, int_mul(e, row, s->row_stride), int_mul(e, k, s->depth_stride));
  ir x = load_real(e, element(e, e->real, s->from, offset), lanes);
  if (s->negative) x = real_neg(e, x);
  return LLVMBuildFPTrunc(e->b, x, bfloats(e, lanes), "");
}

static ir interleaved(emitter *e, ir x, ir y, int lanes) {
  ir *from = ARENA_ARRAY(e->a, ir, 2 * lanes);
  for (int i = 0; i < 2 * lanes; i++)
    from[i] = LLVMConstInt(e->i32, (unsigned)(i / 2 + i % 2 * lanes), 0);
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(from, 2 * (unsigned)lanes), "");
}

// Words from one of a row on, or of neighbouring rows.
static void write_words(emitter *e, const pairs_of *s, ir row, ir pair, int words) {
  ir k = int_mul_n(e, pair, 2), at, x;
  if (s->along) {
    at = int_add(e, int_mul_n(e, row, s->depth / 2), pair);
    x = rounded(e, s, row, k, 2 * words);
  } else {
    at = int_add(e, int_mul_n(e, pair, s->rows), row);
    x = rounded(e, s, row, k, words);
    x = interleaved(e, x, rounded(e, s, row, int_add_n(e, k, 1), words), words);
  }
  store_real(e, x, element(e, e->real, s->to, at));
}

void round_pairs(emitter *e, const pairs_of *s) {
  int64_t outer = s->along ? s->rows : s->depth / 2, inner = s->along ? s->depth / 2 : s->rows,
          whole = inner / e->lanes * e->lanes;
  emit_loop lines = loop_begin(e, integer(e, 0), integer(e, outer), 1, "line");
  emit_loop words = loop_begin(e, integer(e, 0), integer(e, whole), e->lanes, "word");
  ir row = s->along ? lines.index : words.index, pair = s->along ? words.index : lines.index;
  if (whole) write_words(e, s, row, pair, e->lanes);
  loop_end(e, &words);
  ir rest = integer(e, whole);
  if (inner > whole)
    write_words(e, s, s->along ? lines.index : rest, s->along ? rest : lines.index,
                (int)(inner - whole));
  loop_end(e, &lines);
}

ir add_pairs(emitter *e, ir x, ir y, ir sum) {
  LLVMTypeRef type = bfloats(e, 2 * e->lanes);
  ir args[] = {sum, LLVMBuildBitCast(e->b, spread(e, x, e->lanes), type, ""),
               LLVMBuildBitCast(e->b, y, type, "")};
  return call_intrinsic(e, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0, args, 3);
}
