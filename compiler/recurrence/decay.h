// The logarithms of decays.
#pragma once

#include "compiler/recurrence/bounds.h"
#include "compiler/recurrence/make.h"

// The natural logarithm of a decay that is a product of gates, of positive values and, where
// `where` chooses, of 0; NO_VALUE for any other.
value_id make_decay_log(builder *b, value_id decay);

// The same decay, each product that `where` chooses as a product of factors that it chooses.
value_id make_separate_choices(builder *b, value_id decay);
