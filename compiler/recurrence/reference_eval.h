// The operations of a plan at the current step, forward and in reverse: everything but what reads
// from outside.
#pragma once

#include "compiler/recurrence/reference_ops.h"
#include "compiler/recurrence/reference_plan.h"

// A number as the run keeps it, and one more number of a sum.
static inline double kept(const plan *p, double x) { return p->single ? (double)(float)x : x; }
static inline void add_to(const plan *p, double *sum, double x) {
  *sum = kept(p, *sum + kept(p, x));
}

// Fills n->numbers from those of the operands.
void evaluate_operation(const plan *p, node *n);
// Adds to the operands' cotangents what n->cotangent gives them.
void differentiate_operation(const plan *p, const node *n);

// One element, real ones with imaginary part 0; and its cotangent, of which a real value takes the
// real part.
complex_number load_element(const node *n, int64_t i);
void add_cotangent(const plan *p, node *n, int64_t i, complex_number d);
