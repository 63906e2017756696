// Length generalisation from losses that are known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/evaluate/verdict.h"

// Context 16 with 2 bits there, then ranges to 32, 64, ..
static verdict judge(int count, const double *bits) {
  verdict v = verdict_begin(16, 2, 0.05);
  for (int i = 0; i < count; i++) verdict_range(&v, (int64_t)32 << i, bits[i]);
  return v;
}

static void falling_losses_are_strong(void **state) {
  (void)state;
  verdict v = judge(3, (double[]){1.9, 1.85, 1.85});
  assert_int_equal(v.extension, STRONG_EXTENSION);
  assert_int_equal(v.reaches, 128);
  assert_int_equal(v.until, 128);
}

static void a_rise_below_the_context_is_weak(void **state) {
  (void)state;
  verdict v = judge(3, (double[]){1.8, 1.9, 2.0});
  assert_int_equal(v.extension, WEAK_EXTENSION);
  assert_int_equal(v.reaches, 128);
}

static void losses_within_the_tolerance_do_not_count(void **state) {
  (void)state;
  assert_int_equal(judge(2, (double[]){2.04, 2.04}).extension, STRONG_EXTENSION);
  assert_int_equal(judge(2, (double[]){2.04, 2.06}).extension, NO_EXTENSION);
}

// A slow rise may not creep past what was allowed once.
static void a_slow_rise_is_seen(void **state) {
  (void)state;
  assert_int_equal(judge(3, (double[]){1.9, 1.94, 1.98}).extension, WEAK_EXTENSION);
}

static void the_first_failure_is_the_end(void **state) {
  (void)state;
  verdict v = judge(3, (double[]){2.0, 2.5, 2.0});
  assert_int_equal(v.extension, NO_EXTENSION);
  assert_int_equal(v.reaches, 32);
  assert_int_equal(v.until, 128);
  v = judge(1, (double[]){3});
  assert_int_equal(v.reaches, 16);
}

static void no_number_fails(void **state) {
  (void)state;
  verdict v = judge(2, (double[]){(double)NAN, 1.9});
  assert_int_equal(v.extension, NO_EXTENSION);
  assert_int_equal(v.reaches, 16);
}

static void the_tolerance_is_asked_for(void **state) {
  (void)state;
  verdict strict = verdict_begin(16, 2, 0), generous = verdict_begin(16, 2, 0.5);
  verdict_range(&strict, 32, 2.01);
  verdict_range(&generous, 32, 2.49);
  assert_int_equal(strict.reaches, 16);
  assert_int_equal(strict.extension, NO_EXTENSION);
  assert_int_equal(generous.reaches, 32);
  assert_int_equal(generous.extension, STRONG_EXTENSION);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_tolerance_is_asked_for),
      cmocka_unit_test(falling_losses_are_strong),
      cmocka_unit_test(a_rise_below_the_context_is_weak),
      cmocka_unit_test(losses_within_the_tolerance_do_not_count),
      cmocka_unit_test(a_slow_rise_is_seen),
      cmocka_unit_test(the_first_failure_is_the_end),
      cmocka_unit_test(no_number_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
