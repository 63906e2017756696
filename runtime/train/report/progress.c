#include "runtime/train/report/progress.h"
#include "compiler/abi/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void progress_open(progress *p, const char *name, int64_t first, int64_t total,
                   int64_t tokens_of_a_step, const char *unit) {
  double start = clock_seconds(CLOCK_MONOTONIC);
  *p = (progress){.name = name,
                  .unit = unit,
                  .first = first,
                  .total = total,
                  .step_tokens = tokens_of_a_step,
                  .terminal = isatty(STDOUT_FILENO) == 1,
                  .began = start,
                  .shown = start,
                  .step = first};
}

static void draw_progress(const progress *p, double time) {
  double elapsed = time - p->began, done = (double)(p->step - p->first);
  double left = done > 0 ? elapsed / done * (double)(p->total - p->step) : 0;
  char bar[25];
  for (int i = 0; i < 24; i++)
    bar[i] = (double)i < 24.0 * (double)p->step / (double)p->total ? '=' : ' ';
  bar[24] = 0;
  if (p->terminal)
    printf("\r  %s [%s] ", p->name, bar);
  else
    printf("  %s ", p->name);
  printf("%" PRId64 "/%" PRId64 "  loss %.4f (%.3f bits a %s)  %.0f tokens/s  %d:%02d left",
         p->step, p->total, p->loss, p->loss / log(2), p->unit,
         elapsed > 0 ? done * (double)p->step_tokens / elapsed : 0, (int)left / 60, (int)left % 60);
  printf(p->terminal ? "\x1b[K" : "\n");
  fflush(stdout);
}

void progress_step(progress *p, int64_t done, double loss) {
  double time = clock_seconds(CLOCK_MONOTONIC);
  p->loss = loss;
  p->step = done;
  if (time - p->shown < (p->terminal ? 0.1 : 10.0)) return;
  p->shown = time;
  draw_progress(p, time);
}

void progress_close(progress *p) {
  if (p->step == p->first) return;
  draw_progress(p, clock_seconds(CLOCK_MONOTONIC));
  if (p->terminal) printf("\n");
}
