// Length generalisation from losses that are known.
#include <math.h>

#include "runtime/train/evaluate/verdict.h"
#include "tests/unit/unit.h"

// Context 16 with 2 bits there, then ranges to 32, 64, ..
static verdict judge(int count, const double *bits) {
  verdict v = verdict_begin(16, 2, 0.05);
  for (int i = 0; i < count; i++) verdict_range(&v, (int64_t)32 << i, bits[i]);
  return v;
}

TEST(falling_losses_are_strong) {
  verdict v = judge(3, (double[]){1.9, 1.85, 1.85});
  assert_int_equal(v.extension, STRONG_EXTENSION);
  assert_int_equal(v.reaches, 128);
  assert_int_equal(v.until, 128);
}

TEST(a_rise_below_the_context_is_weak) {
  verdict v = judge(3, (double[]){1.8, 1.9, 2.0});
  assert_int_equal(v.extension, WEAK_EXTENSION);
  assert_int_equal(v.reaches, 128);
}

TEST(losses_within_the_tolerance_do_not_count) {
  assert_int_equal(judge(2, (double[]){2.04, 2.04}).extension, STRONG_EXTENSION);
  assert_int_equal(judge(2, (double[]){2.04, 2.06}).extension, NO_EXTENSION);
}

// A slow rise may not creep past what was allowed once.
TEST(a_slow_rise_is_seen) {
  assert_int_equal(judge(3, (double[]){1.9, 1.94, 1.98}).extension, WEAK_EXTENSION);
}

TEST(the_first_failure_is_the_end) {
  verdict v = judge(3, (double[]){2.0, 2.5, 2.0});
  assert_int_equal(v.extension, NO_EXTENSION);
  assert_int_equal(v.reaches, 32);
  assert_int_equal(v.until, 128);
  v = judge(1, (double[]){3});
  assert_int_equal(v.reaches, 16);
}

TEST(no_number_fails) {
  verdict v = judge(2, (double[]){(double)NAN, 1.9});
  assert_int_equal(v.extension, NO_EXTENSION);
  assert_int_equal(v.reaches, 16);
}

TEST(the_tolerance_is_asked_for) {
  verdict strict = verdict_begin(16, 2, 0), generous = verdict_begin(16, 2, 0.5);
  verdict_range(&strict, 32, 2.01);
  verdict_range(&generous, 32, 2.49);
  assert_int_equal(strict.reaches, 16);
  assert_int_equal(strict.extension, NO_EXTENSION);
  assert_int_equal(generous.reaches, 32);
  assert_int_equal(generous.extension, STRONG_EXTENSION);
}
