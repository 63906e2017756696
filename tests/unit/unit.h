// How unit tests are written: cmocka with the headers that it uses, and tests that list themselves.
// They run in the order of their lines.
//
//   TEST(arena_memory_is_zeroed) { .. }
//   TEST_WITH(strided_tensors, set_up, tear_down) { .. }       *state is what set_up left there
//   TEST_AGAIN(strided_tensors, set_up_pairs, tear_down)       a test above, with another set_up
//   TEST_AROUND(make_folder, remove_folder)                    once around all tests of the file
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Last of its kind: it uses the headers above.
#include <cmocka.h>

#include "compiler/base/arena.h"

// The text of a file; it fails where there is none, or no UTF-8.
const char *text_of(arena *memory, const char *path);

void unit_add(int line, struct CMUnitTest test);
void unit_around(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#define UNIT_AT_START __attribute__((constructor)) static void

#define TEST_AGAIN(name, set_up, tear_down)                                                \
  UNIT_AT_START unit_add_##name##_##set_up(void) {                                         \
    unit_add(__LINE__,                                                                     \
             (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, set_up, tear_down)); \
  }
#define TEST_WITH(name, set_up, tear_down) \
  static void name(void **state);          \
  TEST_AGAIN(name, set_up, tear_down)      \
  static void name(void **state)
#define TEST(name)                                                 \
  static void name(void **state);                                  \
  UNIT_AT_START unit_add_##name(void) {                            \
    unit_add(__LINE__, (struct CMUnitTest)cmocka_unit_test(name)); \
  }                                                                \
  static void name(__attribute__((unused)) void **state)
#define TEST_AROUND(set_up, tear_down) \
  UNIT_AT_START unit_add_around(void) { unit_around(set_up, tear_down); }
