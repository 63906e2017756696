// What the parts of a step add to virtual time where a file has the times (ranks/clock.h). One
// thread computes.
#include "runtime/ranks/clock.h"
#include "runtime/train/trainer_parts.h"

static void note_spent_run(void *context, int op, run_part part, double amount) {
  const trainer *t = context;
  clock_spend(ranks_clock(t->ranks), op_times_of(&t->in->record.times, op, part, amount));
}

rec_status spent_open(trainer *t) {
  const char *file = clock_times_file(ranks_clock(t->ranks));
  if (!file) return REC_OK;
  for (int i = 0; i < t->in->run.lanes * t->in->run.under_way; i++)
    executor_watch_by(t->in->run.executors[i], (executor_watch){note_spent_run, t});
  return op_times_read(file, t->of.model, &t->in->record.times);
}

void spent_on_sums(const trainer *t, int64_t numbers) {
  clock_spend(ranks_clock(t->ranks), (double)numbers * t->in->record.times.sum);
}

void spent_on_step(const trainer *t, int64_t numbers) {
  clock_spend(ranks_clock(t->ranks), (double)numbers * t->in->record.times.step);
}
