// The operations of the reference interpreter on single elements, in double precision. One function
// gives values and one gives derivatives, for real and for complex operands. The derivative rules
// are written here from calculus and share nothing with those of the tile programs (tile/ops.def),
// so that the two check each other.
#pragma once

#include "compiler/sema/typed.h"

typedef struct complex_number {
  double re, im;
} complex_number;

// The value of an elementwise operation with real operands and a real result.
double real_value(const typed_value *v, const double x[3]);

// d[k] = dz * (derivative by operand k), at operands x and value z.
void real_derivative(const typed_value *v, const double x[3], double z, double dz, double d[3]);

// The same where an operand or the result is complex; real numbers stand there with imaginary part
// 0.
complex_number complex_value(const typed_value *v, const complex_number x[3]);
// The same as a program of floats has it: a product is written out in real and imaginary parts,
// which are rounded.
complex_number complex_value_in_floats(const typed_value *v, const complex_number x[3]);

// Cotangents are dL/dRe + i dL/dIm; of the derivative by a real operand only the real part counts.
void complex_derivative(const typed_value *v, const complex_number x[3], complex_number z,
                        complex_number dz, complex_number d[3]);
