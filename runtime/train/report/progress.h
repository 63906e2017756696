// What a user sees of a long loop: a bar on a terminal, now and then a line elsewhere.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
  const char *name, *unit;            // unit: what a token is
  int64_t first, total, step_tokens;  // first, total: steps
  bool terminal;
  double began, shown, loss;  // loss: of the last step, in nats, as the log has it
  int64_t step;
} progress;

void progress_open(progress *p, const char *name, int64_t first, int64_t total,
                   int64_t tokens_of_a_step, const char *unit);
void progress_step(progress *p, int64_t done, double loss);
void progress_close(progress *p);
