#include "runtime/train/after_step.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/ranks/clock.h"

after_step after_step_any(ranks *job, after_step own, int64_t step) {
  after_step any = own, *all = ranks_gathered(job, &own, sizeof own,
                                              (message_place){step, -1, "whether all go on"});
  for (int i = 0; i < ranks_count(job); i++)
    any =
        (after_step){any.failed || all[i].failed, any.stop || all[i].stop, any.save || all[i].save};
  free(all);
  return any;
}

// ---- virtual time -------------------------------------------------------------------------------

static step_cost own_cost(const ranks *job, const cost_meter *m) {
  step_cost own = {.seconds = clock_now(ranks_clock(job))};
  for (int k = 0; k < MESSAGE_KINDS; k++) {
    message_count sent = ranks_sent(job, (message_kind)k);
    own.sent[k] =
        (message_count){sent.messages - m->sent[k].messages, sent.bytes - m->sent[k].bytes};
  }
  return own;
}

// The seconds of the last rank, the messages of all.
static step_cost cost_of_all(const step_cost *all, int count) {
  step_cost sum = {.seconds = all->seconds};
  for (int i = 0; i < count; i++) {
    if (all[i].seconds > sum.seconds) sum.seconds = all[i].seconds;
    for (int k = 0; k < MESSAGE_KINDS; k++) {
      sum.sent[k].messages += all[i].sent[k].messages;
      sum.sent[k].bytes += all[i].sent[k].bytes;
    }
  }
  return sum;
}

bool step_cost_measure(ranks *job, int64_t step, cost_meter *m, step_cost *cost) {
  if (!ranks_clock(job)) return false;
  const step_cost own = own_cost(job, m);
  step_cost *all =
      ranks_gathered(job, &own, sizeof own, (message_place){step, -1, "what a step has cost"});
  *cost = cost_of_all(all, ranks_count(job));
  free(all);
  double begin = m->end;
  m->end = cost->seconds;
  cost->seconds -= begin;
  for (int k = 0; k < MESSAGE_KINDS; k++) m->sent[k] = ranks_sent(job, (message_kind)k);
  clock_set(ranks_clock(job), own.seconds);
  return true;
}

void step_cost_write(FILE *log, const step_cost *cost) {
  const char *between = "";
  fprintf(log, ",\"virtual_seconds\":%.9g,\"sent\":{", cost->seconds);
  for (int k = 0; k < MESSAGE_KINDS; k++) {
    if (!cost->sent[k].messages) continue;
    fprintf(log, "%s\"%s\":[%" PRId64 ",%" PRId64 "]", between, message_kind_name((message_kind)k),
            cost->sent[k].messages, cost->sent[k].bytes);
    between = ",";
  }
  fprintf(log, "}");
}
