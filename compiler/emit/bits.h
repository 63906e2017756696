// Indices by their bits: bits.c.
#pragma once

#include "compiler/emit/emit.h"

// The bits of an index, not negative, that may be set.
uint64_t int_bits(ir x);

// x, which is a multiple of a power of two. LLVM sees that a loop's index is, and leaves no
// instruction.
ir int_multiple(emitter *e, ir x, int64_t of);

// x, which is below n. The bits of x are known if n is a power of two.
ir int_below(emitter *e, ir x, int64_t n);

// An index as a sum.
enum { INT_MOST_TERMS = 12 };
typedef struct int_terms {
  ir items[INT_MOST_TERMS];
  int count;
  int64_t constant;
} int_terms;

// Adds the terms of x, each times the factor.
void int_add_terms(emitter *e, int_terms *t, ir x, int64_t factor);
ir int_sum(emitter *e, const int_terms *t);
// Whether no bit may be set in two of the terms, or in a term and the constant.
bool int_terms_apart(const int_terms *t);
