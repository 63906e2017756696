// The rewrites of normalisation, applied to one value whose operands are normalised.
#pragma once

#include "compiler/recurrence/make.h"

// A sum or difference whose terms share a factor, as a product (factor.c); NO_VALUE if `v` stays.
value_id factor_sum(builder *b, const typed_value *v);

// A sum of outer products along a short axis, written out (outer.c); NO_VALUE if `v` is none.
value_id write_out_outer_sum(builder *b, const typed_value *v);

// A sum of products in a cheaper order (contract.c); NO_VALUE if `v` stays as it is.
value_id contract_sum(builder *b, const typed_value *v);

// apart.c. Is it an outer product, times whatever?
bool is_outer(const builder *b, value_id id);
// f(x * y) as f(x) * f(y); NO_VALUE if the operand of `v` is no product with a smaller factor.
value_id function_of_outer(builder *b, const typed_value *v);
// A quotient of an outer product, or by one, as a product; NO_VALUE if `v` is none.
value_id quotient_apart(builder *b, const typed_value *v);
// A choice of outer products as products of choices; NO_VALUE if `v` is none.
value_id choice_apart(builder *b, const typed_value *v);

// complex.c: complex(re, im), conjugates, real and imaginary parts.
value_id simplify_complex(builder *b, const typed_value *v);
value_id simplify_conjugate(builder *b, const typed_value *v);
value_id simplify_part(builder *b, const typed_value *v);
