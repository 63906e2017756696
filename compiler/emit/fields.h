// Offsets by the bits of the numbers that they are made of: fields.c.
#pragma once

#include "compiler/emit/bits.h"

// (root & mask) << shift, to the right where shift is negative.
typedef struct int_field {
  ir root;
  uint32_t mask;
  int shift;
} int_field;

// An offset: the xor of fields and a constant.
enum { INT_MOST_FIELDS = 24 };
typedef struct int_fields {
  int_field items[INT_MOST_FIELDS];
  int count;
  uint32_t constant;
  // Numbers that are taken as they are. `groups`, a quotient of `whole` by 32, is taken for bits of
  // it where that spares a field.
  ir whole, groups;
} int_fields;

// The fields of a sum of which no two terms have the same bit; false: it has none, or too many.
bool int_fields_of(int_fields *f, const int_terms *sum);
// x xor (the bits of x that lie so far up, of these bits).
typedef struct int_swap {
  uint32_t bits;
  int down;
} int_swap;
void int_fields_swap(int_fields *f, const int_swap *swaps, int count);
// So many bits to the left; false, and as it was: bits may leave the positive numbers of 32 bits.
bool int_fields_shift(int_fields *f, int by);
// The number; the part of the constant that is not set in a field is taken out of it.
ir int_fields_number(emitter *e, int_fields *f);
