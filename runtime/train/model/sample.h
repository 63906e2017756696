// The choice of the next token from a model's logits.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct sample_options {
  double temperature;  // 0: always the most probable token
  int top_k;           // only the k most probable tokens; 0: all
  // only the fewest most probable tokens that together have this probability; 1: all
  double top_p;
  uint64_t seed;
} sample_options;

typedef struct sample_candidate {
  double weight;
  int token;
} sample_candidate;

typedef struct sampler {
  sample_options options;
  int count;               // tokens of the vocabulary
  sample_candidate *list;  // room for one call
  double *probabilities;   // of the last call
} sampler;

bool sampler_open(sampler *s, const sample_options *options, int count);  // false: no memory
void sampler_close(sampler *s);

// The probability of each token that sample_token draws from. It is softmax(logits / temperature),
// of the k most probable tokens, of those that make up top_p. The rest adds up to 1. Among equal
// ones the lower token comes first. False: the logits hold NaN or infinity.
bool sample_distribution(sampler *s, const double *logits);
// The token that u, in (0, 1), falls on.
int sample_pick(const double *probabilities, int count, double u);

// The token at `position` of the text: a function of seed, position and logits alone. -1: no
// numbers.
int sample_token(sampler *s, const double *logits, uint64_t position);
