// Offsets by the bits of the numbers that they are made of.
//
//   (thread / 16) * 512 + (thread % 16) * 16 + 8      fields: bits 0 .. 7 of thread, 4 to the left; constant 8
//
// Quotients and rests of powers of two pick bits of a number, products move them, sums of numbers
// that share no bit put them side by side. What was taken apart to find a point goes together again
// where its numbers lie side by side in memory. A swizzle moves bits, too: each field has an image
// under it.
#include "compiler/emit/fields.h"

enum { WORD = 32, OF_GROUP = 5 };

static uint32_t shifted_bits(uint32_t bits, int by) {
  if (by >= WORD || by <= -WORD) return 0;
  return by >= 0 ? bits << by : bits >> -by;
}

static uint32_t constant_bits(ir x) { return (uint32_t)int_bits(x); }

// Adds (root & mask) << shift; equal bits cancel each other.
static bool add_bit_field(int_fields *f, ir root, uint32_t mask, int shift) {
  mask &= shifted_bits(UINT32_MAX, -shift);
  for (int i = 0; i < f->count; i++) {
    if (f->items[i].root != root || f->items[i].shift != shift) continue;
    f->items[i].mask ^= mask;
    return true;
  }
  if (f->count == INT_MOST_FIELDS) return false;
  if (mask) f->items[f->count++] = (int_field){root, mask, shift};
  return true;
}

static int log2_of(int64_t x) {
  return x > 0 && (x & (x - 1)) == 0 ? __builtin_ctzll((unsigned long long)x) : -1;
}

static bool add_bits(int_fields *f, ir x, uint32_t mask, int shift);

static bool both(int_fields *f, ir x, uint32_t mask, int shift) {
  return add_bits(f, LLVMGetOperand(x, 0), mask, shift) &&
         add_bits(f, LLVMGetOperand(x, 1), mask, shift);
}

// An operation with a constant; false: it does not pick or move bits.
static bool is_picked(ir x, int64_t n, uint32_t *mask, int *shift) {
  int power = log2_of(n), by = 0;
  switch (LLVMGetInstructionOpcode(x)) {
    case LLVMAnd: *mask &= (uint32_t)n; return true;
    case LLVMURem: *mask &= (uint32_t)n - 1; return power >= 0;
    case LLVMUDiv: by = -power; break;
    case LLVMMul: by = power; break;
    case LLVMLShr: by = -(int)n, power = 0; break;
    case LLVMShl: by = (int)n, power = 0; break;
    default: return false;
  }
  if (power < 0) return false;
  *mask = shifted_bits(*mask, -by);
  *shift += by;
  return true;
}

// Adds (x & mask) << shift.
static bool add_bits(int_fields *f, ir x, uint32_t mask, int shift) {
  int64_t n;
  if (int_known(x, &n)) {
    f->constant ^= shifted_bits((uint32_t)n & mask, shift);
    return true;
  }
  uint32_t bits = constant_bits(x);
  LLVMTypeRef type = LLVMTypeOf(x);
  if (LLVMGetIntTypeWidth(type) != WORD) return false;
  mask &= bits;
  if (!mask) return true;
  if (x == f->whole || x == f->groups || !LLVMIsAInstruction(x))
    return add_bit_field(f, x, mask, shift);
  LLVMOpcode op = LLVMGetInstructionOpcode(x);
  if (op == LLVMXor) return both(f, x, mask, shift);
  if ((op == LLVMAdd || op == LLVMOr) &&
      !(constant_bits(LLVMGetOperand(x, 0)) & constant_bits(LLVMGetOperand(x, 1))))
    return both(f, x, mask, shift);
  uint32_t picked = mask;
  int by = shift;
  bool second = LLVMGetNumOperands(x) == 2 && int_known(LLVMGetOperand(x, 1), &n) && n >= 0;
  if (second && is_picked(x, n, &picked, &by)) return add_bits(f, LLVMGetOperand(x, 0), picked, by);
  if (op == LLVMAnd && int_known(LLVMGetOperand(x, 1), &n))
    return add_bits(f, LLVMGetOperand(x, 0), mask & (uint32_t)n, shift);
  return add_bit_field(f, x, mask, shift);
}

bool int_fields_of(int_fields *f, const int_terms *sum) {
  if (!int_terms_apart(sum) || sum->constant > INT32_MAX) return false;
  f->constant = (uint32_t)sum->constant;
  for (int i = 0; i < sum->count; i++)
    if (!add_bits(f, sum->items[i], UINT32_MAX, 0)) return false;
  return true;
}

void int_fields_swap(int_fields *f, const int_swap *swaps, int count) {
  int fields = f->count;
  uint32_t constant = f->constant;
  for (int s = 0; s < count; s++) {
    f->constant ^= (constant >> swaps[s].down) & swaps[s].bits;
    for (int i = 0; i < fields; i++) {
      const int_field *x = &f->items[i];
      int shift = x->shift - swaps[s].down;
      add_bit_field(f, x->root, x->mask & shifted_bits(swaps[s].bits, -shift), shift);
    }
  }
}

bool int_fields_shift(int_fields *f, int by) {
  const uint32_t lost = ~(uint32_t)(INT32_MAX >> by);
  bool fits = !(f->constant & lost);
  for (int i = 0; i < f->count; i++)
    fits = fits && !(shifted_bits(f->items[i].mask, f->items[i].shift) & lost);
  if (!fits) return false;
  f->constant <<= by;
  for (int i = 0; i < f->count; i++) f->items[i].shift += by;
  return true;
}

// Bits of the group of a thread are those of the thread.
static void join_groups(int_fields *f) {
  for (int i = 0; f->groups && i < f->count; i++) {
    int_field *x = &f->items[i];
    for (int k = 0; x->root == f->groups && k < f->count; k++) {
      int_field *y = &f->items[k];
      if (y->root != f->whole || !y->mask || y->shift != x->shift - OF_GROUP ||
          y->mask & x->mask << OF_GROUP)
        continue;
      y->mask |= x->mask << OF_GROUP;
      x->mask = 0;
    }
  }
}

static ir bits32_constant(emitter *e, uint32_t n) { return LLVMConstInt(e->i32, n, 0); }

static ir field_number(emitter *e, const int_field *x) {
  ir y = x->root;
  uint32_t all = constant_bits(y), kept = shifted_bits(shifted_bits(all, x->shift), -x->shift);
  if (kept & ~x->mask) y = bit_and(e, y, bits32_constant(e, x->mask));
  if (x->shift > 0) return LLVMBuildShl(e->b, y, bits32_constant(e, (uint32_t)x->shift), "");
  if (x->shift < 0) return LLVMBuildLShr(e->b, y, bits32_constant(e, (uint32_t)-x->shift), "");
  return y;
}

ir int_fields_number(emitter *e, int_fields *f) {
  ir sum = NULL;
  uint32_t set = 0;
  join_groups(f);
  vec_each(const int_field, x, *f) {
    if (!x->mask) continue;
    uint32_t bits = shifted_bits(x->mask, x->shift);
    ir own = field_number(e, x);
    sum = !sum ? own : set & bits ? LLVMBuildXor(e->b, sum, own, "") : bit_or(e, sum, own);
    set |= bits;
  }
  if (!sum) return NULL;
  if (f->constant & set) sum = LLVMBuildXor(e->b, sum, bits32_constant(e, f->constant & set), "");
  f->constant &= ~set;
  return sum;
}
