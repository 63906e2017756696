// The measurements of evaluate blocks.
#pragma once

#include "runtime/train/evaluate/streams.h"

// Runs an evaluate block; its numbers go to RUNS/NAME/.
rec_status session_evaluate(session *s, const evaluate_block *e);

// accuracy(lengths = ..), on sequences that no training draws.
rec_status judge_accuracy(evaluation *e, const evaluate_block *b);
// state_norm(until = N).
rec_status judge_states(evaluation *e, const evaluate_block *b);
// The bound on a state after `steps` steps of decay a from inputs b. The first number of steps at
// which it passes `most`; INFINITY: never.
double overflow_bound(double a, double b, double steps);
double overflow_length(double a, double b, double most);
// overflow(T = N).
rec_status judge_overflow(evaluation *e, const evaluate_block *b);
// attention(T = N).
rec_status judge_attention(evaluation *e, const evaluate_block *b);
// remembrance(T = N, distance = ..).
rec_status judge_remembrance(evaluation *e, const evaluate_block *b);
// Between two distributions, each given by its logits: from 0 to 1.
double distance_of(distance_kind kind, const double *a, const double *b, int count);
