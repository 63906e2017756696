// Whole numbers as formulas of names: how many bytes a call needs, before its sizes are known.
//
//   size_multiply(a, size_name(a, "batch"), size_align(a, size_name(a, "N"), 64))  ->  "batch * align(N, 64)"
//
// What is known at compile time is computed: sums and products of numbers are numbers. The manifest
// has the text; its grammar is in abi.h.
#pragma once

#include <stdint.h>

#include "compiler/base/arena.h"

typedef struct size_formula size_formula;

const size_formula *size_number(arena *a, int64_t number);
const size_formula *size_name(arena *a, const char *name);
const size_formula *size_add(arena *a, const size_formula *left, const size_formula *right);
const size_formula *size_multiply(arena *a, const size_formula *left, const size_formula *right);
// Divisors and multiples are at least 1.
const size_formula *size_floor_div(arena *a, const size_formula *left, int64_t divisor);
const size_formula *size_ceil_div(arena *a, const size_formula *left, int64_t divisor);
const size_formula *size_align(arena *a, const size_formula *left, int64_t multiple);

const char *size_text(arena *a, const size_formula *f);
