// Initial states that are drawn: their moments, and that a draw depends on its position alone.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/train/noise.h"
#include "runtime/train/random.h"

#include <cmocka.h>

enum { COUNT = 40000 };

static void moments(const double *values, int64_t count, double *mean, double *variance) {
  *mean = *variance = 0;
  for (int64_t i = 0; i < count; i++) *mean += values[i] / (double)count;
  for (int64_t i = 0; i < count; i++)
    *variance += (values[i] - *mean) * (values[i] - *mean) / (double)count;
}

static void random_noise_has_its_deviation(void **state) {
  (void)state;
  static double values[COUNT];
  static float narrow[COUNT];
  double mean, variance;
  noise_source source = {&numeric_f64, 7, random_stream("h"), 0};
  noise_random(&source, 0.5, COUNT, values);
  moments(values, COUNT, &mean, &variance);
  assert_true(fabs(mean) < 5 * 0.5 / sqrt(COUNT));
  assert_true(fabs(variance / 0.25 - 1) < 5 * sqrt(2.0 / COUNT));
  int beyond = 0; /* two deviations: 4.55 % of a normal distribution */
  for (int i = 0; i < COUNT; i++) beyond += fabs(values[i]) > 1;
  assert_true(fabs(beyond / (double)COUNT - 0.0455) < 0.005);
  source.n = &numeric_f32;
  noise_random(&source, 0.5, COUNT, narrow);
  for (int i = 0; i < COUNT; i++) assert_true(narrow[i] == (float)values[i]);
}

static void draws_depend_on_their_position_alone(void **state) {
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_noise_has_its_deviation),
      cmocka_unit_test(draws_depend_on_their_position_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
