// The spectrum of HiPPO-LegS without an eigensolver.
//
//   A_nk = -b_n b_k (n > k), -(n + 1) (n = k), 0 (n < k)   B_n = b_n = sqrt(2n + 1)   P_n = b_n / sqrt 2
//
// A + P P^T = -1/2 + S with S_nk = b_n b_k / 2 above the diagonal and minus that below. Of S v = i
// w v the partial sums T_n = b_0 v_0 + .. + b_n v_n less half of their end, u_n = T_n - T / 2, obey
//
//   i w (u_n - u_{n-1}) = -b_n^2 / 2 (u_n + u_{n-1})
//
// so each step turns u by the angle 2 atan(b_n^2 / 2w), and all of them together turn -T / 2 into T
// / 2:
//
//   sum_n atan((2n + 1) / 2w) = pi / 2 + pi m         one root w > 0 for each m, and w = 0 if N is odd
//
// A turn by that angle is of length |T| b_n^2 / sqrt(b_n^4 + 4 w^2), hence |v_n|^2 / |T|^2, and as
// B^T v = T,
//
//   |v^* B|^2 = 1 / sum_n (2n + 1) / ((2n + 1)^2 + 4 w^2)        for |v| = 1.
#include "runtime/train/model/legs.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

// Falls from count pi / 2 at 0 to 0.
static double turned(int count, double w) {
  double sum = 0;
  for (int n = 0; n < count; n++) sum += atan((2 * n + 1) / (2 * w));
  return sum;
}

// By halving: all turns together are below count^2 / 2w.
static double legs_root(int count, double turns) {
  double low = 0, high = (double)count * count / pi + 1;
  for (int i = 0; i < 200; i++) {
    double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    if (turned(count, middle) > turns)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static double input_along(int count, double w) {
  double sum = 0;
  for (int n = 0; n < count; n++) {
    double square = 2 * n + 1;
    sum += square / (square * square + 4 * w * w);
  }
  return 1 / sqrt(sum);
}

void legs_spectrum(int count, double *imaginary, double *input) {
  int half = (count + 1) / 2, odd = count % 2;
  for (int i = 0; i < half; i++) {
    imaginary[i] = odd && i == 0 ? 0 : legs_root(count, pi / 2 + pi * (half - 1 - i));
    input[i] = input_along(count, imaginary[i]);
  }
  for (int i = half; i < count; i++) {
    imaginary[i] = -imaginary[i - half + odd];
    input[i] = input[i - half + odd];
  }
}
