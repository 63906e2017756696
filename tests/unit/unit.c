// The program of every unit test: runs the tests that were listed at its start.
#include "tests/unit/unit.h"

#include "compiler/base/source.h"

enum { MOST_TESTS = 64 };

static struct CMUnitTest tests[MOST_TESTS];
static int lines[MOST_TESTS];
static size_t count;
static CMFixtureFunction set_up_all, tear_down_all;

// Constructors may run in any order.
void unit_add(int line, struct CMUnitTest test) {
  if (count == MOST_TESTS) abort();
  size_t place = count++;
  for (; place > 0 && lines[place - 1] > line; place--) {
    tests[place] = tests[place - 1];
    lines[place] = lines[place - 1];
  }
  tests[place] = test;
  lines[place] = line;
}

void unit_around(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
  set_up_all = set_up;
  tear_down_all = tear_down;
}

const char *text_of(arena *memory, const char *path) {
  const char *error = NULL;
  const source *s = sources_load(sources_new(memory), path, &error);
  if (!s) fail_msg("%s", error);
  return s->text;
}

int main(void) {
  if (count == 0) return 1;
  return _cmocka_run_group_tests("tests", tests, count, set_up_all, tear_down_all);
}
