#include "compiler/base/pass.h"

#include <string.h>

#include "compiler/abi/clock.h"

static _Thread_local pass_log *current;

pass_log *pass_log_use(pass_log *log) {
  pass_log *before = current;
  current = log;
  return before;
}

double pass_clock(void) { return clock_seconds(CLOCK_MONOTONIC); }

static pass_count *counts_of(pass_log *log, const pass_stage *stage) {
  for (int i = 0; i < log->stages.count; i++)
    if (log->stages.items[i].stage == stage) return log->stages.items[i].counts;
  pass_count *counts = ARENA_ARRAY(log->memory, pass_count, stage->count);
  vec_push(log->memory, &log->stages, ((pass_log_stage){stage, counts}));
  return counts;
}

static void add_pass_counts(pass_count *to, pass_count other) {
  to->runs += other.runs;
  to->verified += other.verified;
  to->seconds += other.seconds;
}

void pass_ran(const pass_stage *stage, int pass, double seconds, int verified) {
  if (current)
    add_pass_counts(&counts_of(current, stage)[pass],
                    (pass_count){.runs = 1, .verified = verified, .seconds = seconds});
}

void pass_log_add(const pass_log *other) {
  for (int i = 0; i < other->stages.count && current; i++) {
    const pass_log_stage *s = &other->stages.items[i];
    for (int pass = 0; pass < s->stage->count; pass++)
      add_pass_counts(&counts_of(current, s->stage)[pass], s->counts[pass]);
  }
}

bool pass_is_left_out(const pass_names *without, const char *name) {
  for (int i = 0; without && i < without->count; i++)
    if (strcmp(without->items[i], name) == 0) return true;
  return false;
}
