// The spectrum of HiPPO-LegS against the matrix itself.
#include <complex.h>
#include <math.h>

#include "runtime/train/model/legs.h"

#include "tests/unit/unit.h"

enum { MOST = 65 };

static double matrix_at(int n, int k) {
  if (n == k) return -(n + 1);
  return n > k ? -sqrt((2.0 * n + 1) * (2.0 * k + 1)) : 0;
}

// The eigenvector that the angles give, turned so that its product with B is real and positive.
static void eigenvector(int count, double w, double complex *v) {
  double complex u = -0.5;
  double norm = 0;
  for (int n = 0; n < count; n++) {
    double square = 2 * n + 1;
    double complex next = w == 0 ? -u : u * (2 * w + square * I) / (2 * w - square * I);
    v[n] = (next - u) / sqrt(square);
    norm += cabs(v[n]) * cabs(v[n]);
    u = next;
  }
  for (int n = 0; n < count; n++) v[n] /= sqrt(norm);
}

// A v = (lambda - P P^T) v for each; all v v^* together give A again.
static void check_size(int count) {
  static double complex v[MOST], sum[MOST][MOST];
  double imaginary[MOST], input[MOST], p[MOST], largest = 0;
  legs_spectrum(count, imaginary, input);
  for (int n = 0; n < count; n++) p[n] = sqrt(n + 0.5);
  for (int n = 0; n < count; n++)
    for (int k = 0; k < count; k++) sum[n][k] = -p[n] * p[k];
  for (int i = 0; i < count; i++) {
    double complex lambda = -0.5 + imaginary[i] * I, along = 0, with_p = 0;
    eigenvector(count, imaginary[i], v);
    for (int n = 0; n < count; n++) along += sqrt(2.0 * n + 1) * v[n], with_p += p[n] * v[n];
    assert_true(cabs(along - input[i]) < 1e-11 * count);
    assert_true(cabs(with_p - input[i] / sqrt(2)) < 1e-11 * count);
    for (int n = 0; n < count; n++) {
      double complex left = p[n] * with_p;
      for (int k = 0; k < count; k++) {
        left += matrix_at(n, k) * v[k];
        sum[n][k] += lambda * v[n] * conj(v[k]);
      }
      assert_true(cabs(left - lambda * v[n]) < 1e-11 * count * count);
    }
  }
  for (int n = 0; n < count; n++)
    for (int k = 0; k < count; k++) largest = fmax(largest, cabs(sum[n][k] - matrix_at(n, k)));
  assert_true(largest < 1e-11 * count * count);
}

TEST(the_matrix_comes_back_from_its_spectrum) {
  const int sizes[] = {1, 2, 3, 8, 9, 64, 65};
  for (int i = 0; i < 7; i++) check_size(sizes[i]);
}

TEST(eigenvalues_rise_and_their_conjugates_follow) {
  double imaginary[MOST], input[MOST];
  for (int count = 1; count <= 33; count++) {
    legs_spectrum(count, imaginary, input);
    int half = (count + 1) / 2, odd = count % 2;
    assert_true(odd ? imaginary[0] == 0 : imaginary[0] > 0);
    for (int i = 1; i < half; i++) assert_true(imaginary[i] > imaginary[i - 1]);
    for (int i = half; i < count; i++) {
      assert_true(imaginary[i] == -imaginary[i - half + odd]);
      assert_true(input[i] == input[i - half + odd]);
    }
  }
}
