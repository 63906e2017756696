// The operations of a plan at the current step, forward and in reverse: everything but what reads
// from outside.
#ifndef REC_RECURRENCE_REFERENCE_EVAL_H
#define REC_RECURRENCE_REFERENCE_EVAL_H

#include "compiler/recurrence/reference_ops.h"
#include "compiler/recurrence/reference_plan.h"

// Fills n->numbers from those of the operands.
void evaluate_operation(const plan *p, node *n);
// Adds to the operands' cotangents what n->cotangent gives them.
void differentiate_operation(const plan *p, const node *n);

// One element, real ones with imaginary part 0; and its cotangent, of which a real value takes the
// real part.
complex_number load_element(const node *n, int64_t i);
void add_cotangent(node *n, int64_t i, complex_number d);

#endif
