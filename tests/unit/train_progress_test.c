// The bar of a long loop, drawn on a terminal of some width.
#include <pty.h>
#include <unistd.h>

#include "runtime/train/report/progress.h"

#include "tests/unit/unit.h"

// What a block called `name` draws after 30 of 60 steps and a minute, without the codes around it.
static void draw(const char *name, unsigned short columns, char line[1024]) {
  const struct winsize size = {.ws_row = 24, .ws_col = columns};
  progress p;
  int controller, terminal, before = dup(STDOUT_FILENO);
  fflush(stdout);
  assert_int_equal(openpty(&controller, &terminal, NULL, NULL, &size), 0);
  dup2(terminal, STDOUT_FILENO);
  progress_open(&p, name, 0, 60, 512, "byte");
  p.began -= 60;
  progress_step(&p, 30, 3.25);
  progress_close(&p);
  dup2(before, STDOUT_FILENO);
  ssize_t length = read(controller, line, 1023);
  close(controller), close(terminal), close(before);
  assert_true(length > 1 && line[0] == '\r');
  line[length] = 0;
  char *end = strchr(line, '\x1b');
  assert_non_null(end);
  *end = 0;
  memmove(line, line + 1, strlen(line));
}

TEST(the_bar_is_as_long_as_the_terminal_lets_it) {
  char line[1024];
  draw("base", 200, line);
  assert_non_null(strstr(line, "  base [============            ] 30/60  loss 3.2500 (4.689 bits"));
  draw("base", 80, line);
  assert_int_equal(strlen(line), 79);
  assert_non_null(strstr(line, "  base [="));
  assert_non_null(strstr(line, "left"));
}

TEST(a_line_without_room_for_a_bar_has_none_and_is_cut) {
  char line[1024];
  draw("base", 70, line);
  assert_true(strlen(line) <= 69);
  assert_non_null(strstr(line, "  base 30/60"));
  draw("a_block_of_a_long_name", 40, line);
  assert_string_equal(line, "  a_block_of_a_long_name 30/60  loss 3.");
}

TEST(a_terminal_of_unknown_width_has_eighty_columns) {
  char line[1024];
  draw("base", 0, line);
  assert_int_equal(strlen(line), 79);
}
