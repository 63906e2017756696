// Initial states that are drawn: their moments, and that a draw depends on its position alone.
#include <math.h>

#include "runtime/train/data/random.h"
#include "runtime/train/noise.h"

#include "tests/unit/unit.h"

enum { COUNT = 40000 };

static void moments(const double *values, int64_t count, double *mean, double *variance) {
  *mean = *variance = 0;
  for (int64_t i = 0; i < count; i++) *mean += values[i] / (double)count;
  for (int64_t i = 0; i < count; i++)
    *variance += (values[i] - *mean) * (values[i] - *mean) / (double)count;
}

TEST(random_noise_has_its_deviation) {
  static double values[COUNT];
  static float narrow[COUNT];
  double mean, variance;
  noise_source source = {&numeric_f64, 7, random_stream("h"), 0};
  noise_random(&source, 0.5, COUNT, values);
  moments(values, COUNT, &mean, &variance);
  assert_true(fabs(mean) < 5 * 0.5 / sqrt(COUNT));
  assert_true(fabs(variance / 0.25 - 1) < 5 * sqrt(2.0 / COUNT));
  int beyond = 0;  // two deviations: 4.55 % of a normal distribution
  for (int i = 0; i < COUNT; i++) beyond += fabs(values[i]) > 1;
  assert_true(fabs(beyond / (double)COUNT - 0.0455) < 0.005);
  source.n = &numeric_f32;
  noise_random(&source, 0.5, COUNT, narrow);
  for (int i = 0; i < COUNT; i++) assert_true(narrow[i] == (float)values[i]);
}

TEST(draws_depend_on_their_position_alone) {
  double whole[64], part[32], other[64];
  noise_source source = {&numeric_f64, 7, random_stream("h"), 0};
  noise_random(&source, 1, 64, whole);
  source.first = 32;
  noise_random(&source, 1, 32, part);
  assert_memory_equal(whole + 32, part, sizeof part);
  source = (noise_source){&numeric_f64, 7, random_stream("g"), 0};
  noise_random(&source, 1, 64, other);
  for (int i = 0; i < 64; i++) assert_true(other[i] != whole[i]);
}

// The values of all sequences at once, as one leaf has them.
static void fit(const double *values, int64_t sequences, int64_t elements, double beta, bool first,
                noise_groups *g) {
  double mean[8], variance[8];
  noise_sums(&numeric_f64, values, sequences, elements, g, NULL, mean);
  noise_divide(g, sequences, elements, mean);
  noise_sums(&numeric_f64, values, sequences, elements, g, mean, variance);
  noise_divide(g, sequences, elements, variance);
  noise_follow(g, mean, variance, beta, first);
}

// Two sequences of a tail with depth 2 of three heads of two elements: by hand.
TEST(statistics_are_those_of_each_head) {
  double values[24], mean[3], variance[3];
  for (int i = 0; i < 24; i++) values[i] = 100 * (i / 2 % 3) + (i % 2 ? 1 : -1) * (1 + i / 12);
  noise_groups heads = {1, {{3, 2}}, 3, mean, variance};
  fit(values, 2, 12, 0.1, true, &heads);
  for (int h = 0; h < 3; h++) {
    assert_true(fabs(mean[h] - 100 * h) < 1e-12);
    assert_true(fabs(variance[h] - (1 + 4) / 2.0) < 1e-12);
  }
  for (int i = 0; i < 24; i++) values[i] = 10 + (i % 2 ? 2 : -2);
  fit(values, 2, 12, 0.1, false, &heads);
  for (int h = 0; h < 3; h++) {
    assert_true(fabs(mean[h] - (0.9 * 10 + 0.1 * 100 * h)) < 1e-12);
    assert_true(fabs(variance[h] - (0.9 * 4 + 0.1 * 2.5)) < 1e-12);
  }
}

// Of [2,3,4] the first and the last axis tell groups apart: [a,b,c] is of group 4 a + c.
TEST(groups_are_along_the_axes_asked_for) {
  double values[48], mean[8], variance[8];
  noise_groups groups = {2, {{2, 12}, {4, 1}}, 8, mean, variance};
  for (int i = 0; i < 48; i++)
    values[i] = 10 * (i % 24 / 12) + i % 4 + 100 * (i / 4 % 3 - 1) * (i < 24 ? 1 : 2);
  fit(values, 2, 24, 0.1, true, &groups);
  for (int g = 0; g < 8; g++) {
    assert_int_equal(noise_group(&groups, g / 4 * 12 + 4 + g % 4), g);
    assert_true(fabs(mean[g] - (10 * (g / 4) + g % 4)) < 1e-12);
    assert_true(fabs(variance[g] - 1e4 * (2 + 8) / 6) < 1e-9);
  }
}

TEST(fitted_noise_has_the_statistics_of_its_head) {
  static double values[COUNT], head[COUNT / 2];
  double mean[2] = {-1, 3}, variance[2] = {0.25, 4}, found_mean, found_variance;
  const noise_groups heads = {1, {{2, 5}}, 2, mean, variance};
  noise_source source = {&numeric_f64, 7, random_stream("h"), 0};
  noise_fitted(&source, &heads, COUNT, values);
  for (int h = 0; h < 2; h++) {
    for (int i = 0; i < COUNT / 2; i++) head[i] = values[i / 5 * 10 + h * 5 + i % 5];
    moments(head, COUNT / 2, &found_mean, &found_variance);
    assert_true(fabs(found_mean - mean[h]) < 5 * sqrt(2 * variance[h] / COUNT));
    assert_true(fabs(found_variance / variance[h] - 1) < 5 * sqrt(4.0 / COUNT));
  }
}
