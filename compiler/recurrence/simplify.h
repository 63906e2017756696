// The rewrites of normalisation, applied to one value whose operands are normalised.
#pragma once

#include "compiler/recurrence/make.h"

// A simpler value that means the same, with the same axes and element kind; NO_VALUE if `v` stays
// as it is. May instead change `v` in place to an equal form.
value_id simplify(builder *b, typed_value *v);

// The same of a sum or difference whose terms share a factor (factor.c).
value_id factor_sum(builder *b, const typed_value *v);

// A sum of outer products along a short axis, written out (outer.c); NO_VALUE if `v` is none.
value_id write_out_outer_sum(builder *b, const typed_value *v);
