// The bound on a state against the recurrence that attains it: h = a h + b.
#include <math.h>

#include "runtime/train/evaluate/evaluate.h"
#include "tests/unit/unit.h"

TEST(bounds_are_attained) {
  const double decays[] = {0, 0.3, 0.9, 0.999, 1, 1.001, 1.5}, b = 0.75;
  for (size_t i = 0; i < sizeof decays / sizeof *decays; i++) {
    double h = 0;
    for (int steps = 1; steps <= 300; steps++) {
      h = decays[i] * h + b;
      double bound = overflow_bound(decays[i], b, steps);
      assert_true(fabs(bound - h) <= 1e-9 * h);
    }
  }
}

TEST(lengths_are_the_first_beyond) {
  const double decays[] = {0.5, 0.9, 0.9995, 1, 1.0005, 1.2}, inputs[] = {1. / 64, 1, 50, 1e4};
  for (size_t i = 0; i < 6; i++)
    for (size_t k = 0; k < 4; k++) {
      const double a = decays[i], b = inputs[k], most = 65504;
      double length = overflow_length(a, b, most), h = 0;
      if (isinf(length)) {
        assert_true(a < 1 && b / (1 - a) <= most);
        continue;
      }
      for (double t = 1; t <= length; t++) {
        h = a * h + b;
        assert_int_equal(h > most, t >= length);
      }
    }
  assert_true(isinf(overflow_length(1, 0, 65504)));
  assert_true(isinf(overflow_length(0.5, 1, 65504)));
}
