// Distances between distributions that are known.
#include <math.h>

#include "runtime/train/evaluate/evaluate.h"
#include "tests/unit/unit.h"

TEST(equal_distributions_are_at_zero) {
  // Logits may differ by a constant.
  const double a[] = {1, 2, -1}, b[] = {11, 12, 9};
  for (int kind = DISTANCE_TOTAL_VARIATION; kind <= DISTANCE_COSINE; kind++)
    assert_true(fabs(distance_of((distance_kind)kind, a, b, 3)) < 1e-12);
}

TEST(distributions_without_overlap_are_at_one) {
  const double a[] = {0, -2000}, b[] = {-2000, 0};
  for (int kind = DISTANCE_TOTAL_VARIATION; kind <= DISTANCE_COSINE; kind++)
    assert_true(fabs(distance_of((distance_kind)kind, a, b, 2) - 1) < 1e-12);
}

// (1/2, 1/2) and (3/4, 1/4).
TEST(distances_by_hand) {
  const double a[] = {0, 0}, b[] = {log(3), 0};
  double shannon =
      (0.5 * log2(0.8) + 0.5 * log2(4.0 / 3) + 0.75 * log2(1.2) + 0.25 * log2(2.0 / 3)) / 2;
  assert_true(fabs(distance_of(DISTANCE_TOTAL_VARIATION, a, b, 2) - 0.25) < 1e-12);
  assert_true(fabs(distance_of(DISTANCE_JENSEN_SHANNON, a, b, 2) - shannon) < 1e-12);
  assert_true(fabs(distance_of(DISTANCE_COSINE, a, b, 2) - (1 - 2 / sqrt(5))) < 1e-12);
}
