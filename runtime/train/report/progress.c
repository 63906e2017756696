#include "runtime/train/report/progress.h"
#include "compiler/abi/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

// The columns of the terminal. A longer line would wrap, and the next would not be drawn over it.
static int terminal_width(void) {
  enum { USUAL = 80 };
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? USUAL : size.ws_col;
}

enum { LONGEST_BAR = 26 };

// A bar of up to `room` characters and a blank; nothing where that is too little to see.
static void make_bar(const progress *p, int room, char bar[LONGEST_BAR + 2]) {
  enum { SHORTEST_BAR = 6 };
  int cells = (room < LONGEST_BAR ? room : LONGEST_BAR) - 2;
  if (room < SHORTEST_BAR) cells = 0;
  *bar = 0;
  if (!cells) return;
  *bar = '[';
  for (int i = 0; i < cells; i++)
    bar[1 + i] = (double)i < cells * (double)p->step / (double)p->total ? '=' : ' ';
  memcpy(bar + 1 + cells, "] ", sizeof "] ");
}

// The last column stays free: terminals wait there before they go to the next line.
static void draw_on_terminal(const progress *p, const char *numbers) {
  enum { BLANKS = 4 };
  char bar[LONGEST_BAR + 2], line[1024];
  const int width = terminal_width() - 1;
  make_bar(p, width - (int)strlen(p->name) - (int)strlen(numbers) - BLANKS, bar);
  snprintf(line, sizeof line, "  %s %s%s", p->name, bar, numbers);
  printf("\r%.*s\x1b[K", width, line);
}

static void draw_progress(const progress *p, double time) {
  double elapsed = time - p->began, done = (double)(p->step - p->first);
  double left = done > 0 ? elapsed / done * (double)(p->total - p->step) : 0;
  char numbers[256];
  snprintf(numbers, sizeof numbers,
           "%" PRId64 "/%" PRId64 "  loss %.4f (%.3f bits a %s)  %.0f tokens/s  %d:%02d left",
           p->step, p->total, p->loss, p->loss / log(2), p->unit,
           elapsed > 0 ? done * (double)p->step_tokens / elapsed : 0, (int)left / 60,
           (int)left % 60);
  if (p->terminal)
    draw_on_terminal(p, numbers);
  else
    printf("  %s %s\n", p->name, numbers);
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
