// Which bits of an index may be set, and an index as a sum of terms.
//
//   16 * i + lane / 4 + 8      terms 16 * i and lane / 4, constant 8; the first has no bit below 16, the second none above 7
//
// Addresses in swizzled memory are made of these: what no swizzle can change is added behind it.
#include "compiler/emit/bits.h"

// Deeper operands may have any bits.
enum { MOST_DEPTH = 12 };

static const uint64_t any_bits = ~(uint64_t)0;

static uint64_t width_mask(ir x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  if (LLVMGetTypeKind(type) != LLVMIntegerTypeKind) return any_bits;
  unsigned width = LLVMGetIntTypeWidth(type);
  return width < 64 ? ((uint64_t)1 << width) - 1 : any_bits;
}

// All bits from the lowest one of `bits` on, up to the highest one of `most`.
static uint64_t bits_between(uint64_t bits, uint64_t most) {
  if (!bits) return 0;
  uint64_t up_to = most;
  for (int by = 1; by < 64; by *= 2) up_to |= up_to >> by;
  return up_to & ~((bits & -bits) - 1);
}

// A carry may set bits above both summands.
static uint64_t bits_of_sum(uint64_t x, uint64_t y) {
  uint64_t all = x | y;
  return x & y ? bits_between(all, all << 1 | all) : all;
}

static uint64_t bits_of_product(uint64_t x, uint64_t factor) {
  uint64_t low = x & -x, most = 0;
  if (!x || !factor) return 0;
  if ((factor & (factor - 1)) == 0) return x * factor;
  if (__builtin_mul_overflow(bits_between(1, x), factor, &most)) most = any_bits;
  return bits_between(low * (factor & -factor), most);
}

// A number that may be negative has any bits.
static uint64_t bits_of_extended(uint64_t x, uint64_t width) {
  return x & ~(width >> 1) ? any_bits : x;
}

static uint64_t possible_bits(ir x, int depth);

static uint64_t operand_bits(ir x, unsigned n, int depth) {
  return possible_bits(LLVMGetOperand(x, n), depth + 1);
}

static uint64_t bits_by_constant(LLVMOpcode op, uint64_t x, uint64_t n) {
  bool power = n && (n & (n - 1)) == 0;
  switch (op) {
    case LLVMMul: return bits_of_product(x, n);
    case LLVMShl: return n < 64 ? x << n : any_bits;
    case LLVMLShr: return n < 64 ? x >> n : any_bits;
    case LLVMUDiv: return power ? x / n : bits_between(1, x);
    case LLVMURem: return power ? x & (n - 1) : bits_between(1, n) & bits_between(1, x);
    case LLVMAnd: return x & n;
    default: return any_bits;
  }
}

static uint64_t possible_bits(ir x, int depth) {
  int64_t n;
  if (int_known(x, &n)) return (uint64_t)n & width_mask(x);
  if (!LLVMIsAInstruction(x) || depth > MOST_DEPTH) return width_mask(x);
  LLVMOpcode op = LLVMGetInstructionOpcode(x);
  uint64_t bits = any_bits;
  if (op == LLVMAdd)
    bits = bits_of_sum(operand_bits(x, 0, depth), operand_bits(x, 1, depth));
  else if (op == LLVMOr || op == LLVMXor)
    bits = operand_bits(x, 0, depth) | operand_bits(x, 1, depth);
  else if (op == LLVMSelect)
    bits = operand_bits(x, 1, depth) | operand_bits(x, 2, depth);
  else if (op == LLVMZExt || op == LLVMTrunc)
    bits = operand_bits(x, 0, depth);
  else if (op == LLVMSExt)
    bits = bits_of_extended(operand_bits(x, 0, depth), width_mask(LLVMGetOperand(x, 0)));
  else if (LLVMGetNumOperands(x) == 2 && int_known(LLVMGetOperand(x, 1), &n) &&
           (n >= 0 || op == LLVMAnd))
    bits = bits_by_constant(op, operand_bits(x, 0, depth), (uint64_t)n);
  else if (LLVMGetNumOperands(x) == 2 && int_known(LLVMGetOperand(x, 0), &n) && n >= 0 &&
           op == LLVMMul)
    bits = bits_of_product(operand_bits(x, 1, depth), (uint64_t)n);
  return bits & width_mask(x);
}

uint64_t int_bits(ir x) { return possible_bits(x, 0); }

ir int_multiple(emitter *e, ir x, int64_t of) {
  int64_t n;
  return int_known(x, &n) ? x
                          : bit_and(e, x, LLVMConstInt(LLVMTypeOf(x), (unsigned long long)-of, 1));
}

ir int_below(emitter *e, ir x, int64_t n) {
  int64_t known;
  if (int_known(x, &known) || n & (n - 1)) return x;
  return bit_and(e, x, LLVMConstInt(LLVMTypeOf(x), (unsigned long long)(n - 1), 0));
}

// ---- sums ----

static void add_int_term(emitter *e, int_terms *t, ir x) {
  if (t->count < INT_MOST_TERMS)
    t->items[t->count++] = x;
  else
    t->items[INT_MOST_TERMS - 1] = int_add(e, t->items[INT_MOST_TERMS - 1], x);
}

static bool is_op(ir x, LLVMOpcode op) {
  return LLVMIsAInstruction(x) && LLVMGetInstructionOpcode(x) == op;
}

// x xor n, where no two terms of x have the same bits: each term has its own bits of n.
static bool add_xor(emitter *e, int_terms *t, ir x, int64_t n, int64_t factor) {
  int_terms parts = {0};
  int_add_terms(e, &parts, x, 1);
  if (n < 0 || !int_terms_apart(&parts)) return false;
  int64_t left = n;
  for (int i = 0; i < parts.count; i++) {
    ir part = parts.items[i];
    int64_t own = n & (int64_t)int_bits(part);
    ir turned = own ? LLVMBuildXor(e->b, part,
                                   LLVMConstInt(LLVMTypeOf(part), (unsigned long long)own, 0), "")
                    : part;
    add_int_term(e, t, int_mul_n(e, turned, factor));
    left &= ~own;
  }
  t->constant += (parts.constant ^ left) * factor;
  return true;
}

void int_add_terms(emitter *e, int_terms *t, ir x, int64_t factor) {
  int64_t n;
  if (int_known(x, &n)) {
    t->constant += n * factor;
  } else if (is_op(x, LLVMAdd)) {
    for (unsigned i = 0; i < 2; i++) int_add_terms(e, t, LLVMGetOperand(x, i), factor);
  } else if (!is_op(x, LLVMXor) || !int_known(LLVMGetOperand(x, 1), &n) ||
             !add_xor(e, t, LLVMGetOperand(x, 0), n, factor)) {
    add_int_term(e, t, int_mul_n(e, x, factor));
  }
}

ir int_sum(emitter *e, const int_terms *t) {
  ir sum = NULL;
  for (int i = 0; i < t->count; i++) sum = sum ? int_add(e, sum, t->items[i]) : t->items[i];
  if (!sum) return integer(e, t->constant);
  return int_add_n(e, sum, t->constant);
}

bool int_terms_apart(const int_terms *t) {
  uint64_t all = (uint64_t)t->constant;
  for (int i = 0; i < t->count; i++) {
    uint64_t bits = int_bits(t->items[i]);
    if (bits & all) return false;
    all |= bits;
  }
  return t->constant >= 0;
}
