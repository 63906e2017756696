// Sums and products taken apart, for rules that look for what they share.
#pragma once

#include "compiler/recurrence/make.h"

enum { TERMS_MAX = 16, FACTORS_MAX = 16 };

typedef struct term {
  value_id id;
  bool negative;
} term;

typedef struct terms {
  term items[TERMS_MAX];
  int count;
} terms;

typedef struct factors {
  value_id items[FACTORS_MAX];
  int count;
} factors;

// False if there are too many. What a state or an output is, stays one term.
bool collect_addends(const builder *b, value_id id, bool negative, terms *to);
// Signs go to *negative; NULL: a value with a sign is a factor.
bool collect_factors(const typed_body *body, value_id id, bool *negative, factors *to);
// Moves what both have from `x` and `y` to `common`.
void take_common(factors *x, factors *y, factors *common);
axis_set product_axes(const builder *b, const factors *x);
// 1 if there are none.
value_id factor_product(builder *b, const factors *x);
