// What the functions of math.c are made of: constants and bits of vectors, and calls of functions
// of their own.
#pragma once

#include "compiler/emit/emit.h"

static const double log2_e = 1.44269504088896340736;

static inline ir number(emitter *e, double x, ir like) { return real_number(e, x, ir_lanes(like)); }

// Types of as many lanes as x has: integers of the size of its numbers, doubles.
LLVMTypeRef integer_like(emitter *e, ir x);
LLVMTypeRef double_like(emitter *e, ir x);
ir integer_constant(LLVMTypeRef type, uint64_t bits);
ir double_number(LLVMTypeRef type, double x);
ir to_bits(emitter *e, ir x);
ir from_bits(emitter *e, ir x);

// c[0] + c[1] x + .. by Horner's rule
ir polynomial(emitter *e, ir x, const double *c, int count);
ir absolute(emitter *e, ir x);
ir with_sign(emitter *e, ir size, ir sign);
// NaN passes through both.
ir at_least(emitter *e, ir x, double low);
ir at_most(emitter *e, ir x, double high);
ir square_root(emitter *e, ir x);
// s or, in odd quadrants, c; negative in the second half of a turn. A cosine is a sine one quadrant
// further.
ir of_quadrant(emitter *e, ir s, ir c, ir q, bool cosine);
// Is one of these conditions true?
ir any_lane(emitter *e, ir mask);

// Every lane through libm's double function `name`.
ir libm_lanes(emitter *e, const char *name, ir *args, int count);
// Calls `rec_NAME_LANES_vN`, which is made by `body` at its first use.
typedef ir body_function(emitter *e, const char *name, ir *args, int count);
ir call_own(emitter *e, const char *name, ir *args, int count, body_function *body);
